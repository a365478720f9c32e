package engine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/connect"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/flows/invite"
	"github.com/liqo-tui/liqo-tui/flows/peer"
	"github.com/liqo-tui/liqo-tui/flows/peerfile"
	"github.com/liqo-tui/liqo-tui/flows/upkeep"
	"github.com/liqo-tui/liqo-tui/internal/sample"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

const others = "others" // who manages what is not ours

// TestNothingOfOthersIsTouched is a walk through what happens to connections and
// installations, in random namespaces, killed at random writes, while others work on
// the same clusters. Nothing of theirs may differ afterwards. It shows what plans and
// the engine do. What package kube makes of it, the test of this name in cmd/liqo-tui
// shows on real API servers. A sequence there waits for them, and for the operators,
// for a second and more.
func TestNothingOfOthersIsTouched(t *testing.T) {
	seed, walks := sample.Seed(t), sample.Of(250, 4000)
	total := walk{ran: map[string]int{}, changed: map[string]int{}}
	var both sync.Mutex
	t.Run("walks", func(t *testing.T) {
		const shares = 4
		for share := range shares {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for n := share; n < walks; n += shares {
					w := walk{r: rand.New(rand.NewPCG(seed, uint64(n))), pair: flowtest.NewPair(), ran: map[string]int{}, changed: map[string]int{}}
					w.run(t)
					both.Lock()
					total.add(w)
					both.Unlock()
				}
			})
		}
	})
	t.Logf("%d walks, %d commands killed, %d objects replaced before they were deleted; ran: %v, of which these changed something: %v",
		walks, total.killed, total.replaced, total.ran, total.changed)
	for name, n := range total.ran {
		if total.changed[name] < n/12 {
			t.Errorf("%s changed something in %d of %d runs: this test shows little of it", name, total.changed[name], n)
		}
	}
	if total.killed < walks/4 || total.replaced < walks/4 {
		t.Errorf("%d commands were killed, %d objects replaced in %d walks: this test shows little of it", total.killed, total.replaced, walks)
	}
}

// run is the whole walk.
func (w *walk) run(t *testing.T) {
	t.Helper()
	life := w.connectionLife
	switch n := w.r.IntN(20); {
	case n == 0: // it takes ten times as long: definitions are large
		life = w.installationLife
	case n < 3: // nor do these take little
		life, w.pair = w.peeringLife, flowtest.LiqoPair()
	}
	w.plant(t)
	for _, c := range life() {
		w.do(t, c)
		if diff := w.touched(); diff != "" {
			t.Fatalf("touched what others have: (-before +after) %s\n%s", diff, strings.Join(w.said, "\n"))
		}
	}
}

func (w *walk) add(other walk) {
	for name, n := range other.ran {
		w.ran[name] += n
		w.changed[name] += other.changed[name]
	}
	w.killed += other.killed
	w.replaced += other.replaced
}

// walk is one of them.
type walk struct {
	r    *rand.Rand
	pair *flowtest.Pair
	// theirs is what others have, by cluster and object.
	theirs [2]map[string]wire.Object
	said   []string

	ran, changed     map[string]int
	killed, replaced int
}

// errand is a command as an admin gives it.
type errand struct {
	name   string
	alone  bool // on one cluster
	on     flows.Side
	delete bool // creates nothing
	plan   flows.Goal
}

// plant makes what others have, before our programs come.
func (w *walk) plant(t *testing.T) {
	t.Helper()
	for side, c := range []*flowtest.Cluster{w.pair.A, w.pair.B} {
		namespaces := map[string]map[string]string{
			"strangers": {"team": "a"}, "lent": nil,
			"exported":         {wire.LabelManagedBy: wire.ManagedBy}, // the label proves nothing
			"liqo-tenant-oslo": {wire.LabelTenantNamespace: "true", wire.LabelRemoteCluster: "oslo"},
		}
		if w.r.IntN(2) == 0 {
			namespaces[string("liqo-tenant-"+c.Tenant().Remote)] = nil
		}
		var objects []wire.Object
		for _, name := range slices.Sorted(maps.Keys(namespaces)) {
			objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: namespaces[name]}})
			objects = append(objects, in(name)...)
		}
		objects = append(objects,
			&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "of-others"}},
			&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "of-others"}},
			&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "of-others"}, Value: 7})
		if flows.Side(side) == flows.A { // a connection with another peer, of liqoctl
			oslo := render.Tenant{Namespace: "liqo-tenant-oslo", Remote: "oslo"}
			objects = append(objects,
				render.Configuration(oslo, render.Networks{Pod: []networkingv1beta1.CIDR{"10.250.0.0/16"}, External: []networkingv1beta1.CIDR{"10.251.0.0/16"}}),
				render.GatewayServer(render.ServerParams{Tenant: oslo, ServiceType: corev1.ServiceTypeNodePort, Port: 51840, MTU: 1340}),
				render.PublicKey(oslo, [32]byte{7}, nil))
			for _, o := range objects[len(objects)-3:] {
				labels := o.GetLabels()
				delete(labels, wire.LabelManagedBy)
				o.SetLabels(labels)
			}
		}
		if c.Facts().Software == flows.Liqo && flows.Side(side) == flows.A {
			objects = append(objects, peeringsWithOslo()...)
		}
		w.put(t, flows.Side(side), objects...)
	}
	w.pair.Settle()
	for _, side := range []flows.Side{flows.A, flows.B} {
		w.theirs[side] = w.have(side)
		maps.DeleteFunc(w.theirs[side], func(_ string, o wire.Object) bool { // of an operator
			return !slices.ContainsFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == others })
		})
	}
	w.pair.Forget()
}

// peeringsWithOslo are what liqoctl and Liqo have made for peerings both ways with
// another cluster, with a pod that runs there.
func peeringsWithOslo() []wire.Object {
	oslo := render.Tenant{Namespace: "liqo-tenant-oslo", Remote: "oslo"}
	proxy := "http://10.251.0.9:8118"
	slice := peering.ResourceSlice(oslo, peering.SliceParams{VirtualNode: true})
	node := peering.Node("oslo", false)
	node.Labels = map[string]string{peering.LabelNodeType: "virtual-node", wire.LabelRemoteCluster: "oslo"}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "strangers", Name: "away", Labels: map[string]string{peering.LabelOffloadedPod: "true"}},
		Spec:       corev1.PodSpec{NodeName: "oslo"},
	}
	certificate := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Namespace: oslo.Namespace, Name: peering.CertificateName, Labels: map[string]string{wire.LabelRemoteCluster: "oslo"},
	}}
	objects := []wire.Object{
		peering.Nonce(oslo), peering.SignedNonce(oslo, []byte("nonce of oslo")), certificate,
		peering.Tenant(oslo, peering.Applicant{ID: "oslo", Request: peering.Request{PublicKey: []byte("of oslo")}, Signature: []byte("of oslo"), ProxyURL: proxy}),
		peering.Identity(oslo, authv1beta1.AuthParams{APIServer: "https://192.0.2.1:6443"}, "liqo-tenant-rome"),
		slice, node, pod, peering.Offloading("strangers", peering.OffloadingParams{Pods: "Remote", Mapping: "DefaultName"}),
	}
	for _, o := range objects {
		labels := o.GetLabels()
		delete(labels, wire.LabelManagedBy)
		o.SetLabels(labels)
	}
	return objects
}

// in are objects of others in a namespace.
func in(namespace string) []wire.Object {
	meta := metav1.ObjectMeta{Namespace: namespace, Name: "of-others", Labels: map[string]string{"team": "a"}}
	return []wire.Object{
		&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"key": "value"}},
		&corev1.Secret{ObjectMeta: meta, StringData: map[string]string{"password": "secret"}},
		&corev1.Service{ObjectMeta: meta}, &corev1.ServiceAccount{ObjectMeta: meta},
		&rbacv1.Role{ObjectMeta: meta}, &rbacv1.RoleBinding{ObjectMeta: meta},
		&ipamv1alpha1.Network{ObjectMeta: meta, Spec: ipamv1alpha1.NetworkSpec{CIDR: "10.111.0.0/16"}},
		&networkingv1beta1.PublicKey{ObjectMeta: meta, Spec: networkingv1beta1.PublicKeySpec{PublicKey: make([]byte, 32)}},
	}
}

var scheme = sync.OnceValues(wire.Scheme)

func (w *walk) put(t *testing.T, side flows.Side, objects ...wire.Object) {
	t.Helper()
	known, err := scheme()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if o.GetObjectKind().GroupVersionKind().Kind != "" {
			continue
		}
		kinds, _, err := known.ObjectKinds(o)
		if err != nil {
			t.Fatal(err)
		}
		o.GetObjectKind().SetGroupVersionKind(kinds[0])
	}
	w.pair.Side(side).PutAs(others, objects...)
}

// have are the objects of a side, without what operators report on them.
func (w *walk) have(side flows.Side) map[string]wire.Object {
	out := map[string]wire.Object{}
	for _, o := range w.pair.Side(side).Objects() {
		switch o := o.(type) {
		case *networkingv1beta1.GatewayServer:
			o.Status = networkingv1beta1.GatewayServerStatus{}
		case *ipamv1alpha1.Network:
			o.Status = ipamv1alpha1.NetworkStatus{}
		case *offloadingv1beta1.NamespaceOffloading:
			o.Status = offloadingv1beta1.NamespaceOffloadingStatus{} // Liqo offloads it to each provider that comes
		}
		out[apply.Name(o)] = o
	}
	return out
}

// touched says what others have otherwise than before.
func (w *walk) touched() string {
	for _, side := range []flows.Side{flows.A, flows.B} {
		now := w.have(side)
		for name, before := range w.theirs[side] {
			if o, there := now[name]; !there || !reflect.DeepEqual(before, o) {
				return fmt.Sprintf("%s on %s:\n%s", name, w.pair.Side(side).Facts().ID, cmp.Diff(asText(before), asText(o)))
			}
		}
	}
	return ""
}

func asText(o wire.Object) string {
	text, err := json.MarshalIndent(o, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// connectionLife is what happens to a connection, with parts left out at random.
func (w *walk) connectionLife() []errand {
	p := flowtest.NodePort()
	p.Server, p.Wait, p.Given = flows.Side(w.r.IntN(2)), []flows.WaitLevel{flows.WaitConnected, flows.WaitNone}[w.r.IntN(2)], flows.Fields(w.r.IntN(int(flows.AllFields)+1))
	moved := p
	moved.Server, moved.Given = p.Server.Other(), flows.FieldServer
	places := []string{"", "", "lent", "liqo-tenant-oslo", "wan"}
	p.Namespaces = [2]string{places[w.r.IntN(len(places))], places[w.r.IntN(len(places))]}
	removal := flows.RemoveOptions{}
	switch w.r.IntN(4) {
	case 0:
		removal.Namespaces = p.Namespaces
	case 1:
		removal.LocalOnly, removal.Peer = true, "milan"
	}
	reset := func(f flows.Facts) flows.Plan { return flows.PlanReset(flows.RemoveOptions{}, f) }
	var rotation *upkeep.Rotation
	life := []errand{
		{name: "init", plan: flows.Planner(func(f flows.Facts) flows.Plan { return flows.PlanInit(p, f) })},
		{name: "connect", plan: connect.Goal{Params: p}},
		{name: "invite", alone: true, plan: flows.Planner(func(f flows.Facts) flows.Plan { return invite.PlanInvite(p, "milan", "nonce", f) })},
		{name: "accept", alone: true, plan: w.accept(p)},
		{name: "connect", plan: connect.Goal{Params: moved}},
		{name: "rotate-keys", plan: flows.Planner(func(f flows.Facts) flows.Plan {
			if rotation == nil {
				rotation = new(upkeep.StartRotation(f))
			}
			return upkeep.Rotate(*rotation, f)
		})},
		{name: "disconnect", delete: true, plan: flows.Removal{RemoveOptions: removal, Disconnect: true}},
		{name: "connect", plan: connect.Goal{Params: p}},
		{name: "reset", delete: true, plan: flows.Removal{RemoveOptions: removal}},
	}
	life = slices.DeleteFunc(life, func(c errand) bool { return w.r.IntN(2) == 0 })
	return append(life, errand{name: "last reset", delete: true, plan: flows.Planner(reset)})
}

// peeringLife is what happens to whole peerings of clusters on which Liqo runs.
func (w *walk) peeringLife() []errand {
	n := flowtest.NodePort()
	n.ForLending = w.r.IntN(4) > 0
	peers := func(consumer flows.Side) errand {
		n := n
		n.Server = consumer.Other()
		network := connect.Goal{Params: n}
		p := peer.Params{Consumer: consumer, CPU: []string{"", "2"}[w.r.IntN(2)]}
		return errand{name: "peer", plan: peer.Goal{Params: p, Network: network}}
	}
	removal := peer.RemoveOptions{KeepNetwork: w.r.IntN(4) == 0}
	if w.r.IntN(4) == 0 {
		removal.LocalOnly, removal.Peer = true, "milan"
	}
	life := []errand{
		{name: "connect", plan: connect.Goal{Params: n}},
		peers(flows.A), peers(flows.B), peers(flows.A),
		{name: "unpeer", delete: true, plan: peer.Removal{RemoveOptions: removal}},
		{name: "unpeer", delete: true, plan: peer.Removal{RemoveOptions: peer.RemoveOptions{Consumer: flows.B}}},
	}
	life = slices.DeleteFunc(life, func(c errand) bool { return w.r.IntN(2) == 0 })
	return append(life, errand{name: "last unpeer", delete: true, plan: peer.Removal{RemoveOptions: peer.RemoveOptions{}}})
}

// accept is of an answer that milan's admin may have written.
func (w *walk) accept(p flows.Params) flows.Goal {
	answer := peerfile.File{Kind: peerfile.Answer, For: "rome", From: peerfile.Description{
		ClusterID: "milan", UID: "uid-of-milan", PodCIDRs: []networkingv1beta1.CIDR{"10.244.0.0/16"}, ExternalCIDRs: []networkingv1beta1.CIDR{"10.70.0.0/16"},
		PublicKey: strings.Repeat("A", 42) + "E=", MTU: p.MTU,
	}}
	return flows.Planner(func(f flows.Facts) flows.Plan { return invite.PlanAccept(p, answer, f) })
}

// installationLife installs and uninstalls on milan, which has no peer, where others
// have objects.
func (w *walk) installationLife() []errand {
	namespace := []string{"lent", "strangers", "exported", wire.DefaultNamespace}[w.r.IntN(4)]
	milan := w.pair.B
	milan.Bare()
	milan.Be(func(f *flows.ClusterFacts) { f.Namespace = namespace })
	added := errand{name: "install", alone: true, on: flows.B, plan: flows.Planner(func(f flows.Facts) flows.Plan {
		return install.Plan(render.InstallParams{Namespace: namespace, ClusterID: "milan", Image: "example.org/gateway:v1"}, f)
	})}
	removed := errand{name: "uninstall", alone: true, on: flows.B, delete: true, plan: flows.Planner(install.PlanRemoval)}
	return [][]errand{{added, removed}, {added, added, removed}, {added, removed, added, removed}}[w.r.IntN(3)]
}

// do has an admin give a command, and others work meanwhile.
func (w *walk) do(t *testing.T, c errand) {
	t.Helper()
	sides := [2]engine.Cluster{w.pair.A, w.pair.B}
	if c.alone {
		sides = [2]engine.Cluster{w.pair.Side(c.on), engine.Absent{}}
	}
	replaced := [2]map[string]wire.Object{{}, {}}
	kills := w.r.IntN(3) == 0
	for i, cluster := range []*flowtest.Cluster{w.pair.A, w.pair.B} {
		cluster.Behave(func(b *flowtest.Behaviour) {
			b.WriteErrors, b.Meanwhile = nil, nil
			b.NamespaceTicks = w.r.IntN(3)
			if c.delete && w.r.IntN(3) == 0 {
				// One of the first to be deleted is another one by then.
				left := 1 + w.r.IntN(3)
				b.Meanwhile = func(o wire.Object) wire.Object {
					if left--; left != 0 || w.isTheirs(flows.Side(i), o) || isLiqos(o) {
						return nil
					}
					other := anew(o)
					replaced[i][apply.Name(o)] = other
					return other
				}
			}
		})
		if kills {
			cluster.Behave(flowtest.KilledAfter(cluster.Writes() + w.r.IntN(8)))
		}
	}
	before := len(w.pair.Log())
	err := engine.Run(t.Context(), c.plan, sides[0], sides[1], func(engine.Event) {}, engine.Options{Timeout: 20 * time.Second, Now: w.pair.Now})
	w.said = append(w.said, fmt.Sprintf("%s, killed: %v, replaced: %v: %v", c.name, kills, slices.Concat(slices.Collect(maps.Keys(replaced[0])), slices.Collect(maps.Keys(replaced[1]))), err))
	w.ran[c.name]++
	if len(w.pair.Log()) > before {
		w.changed[c.name]++
	}
	if errors.Is(err, flowtest.ErrKilled) {
		w.killed++
	}
	for i, objects := range replaced {
		for name, o := range objects {
			w.replaced++
			all := w.pair.Side(flows.Side(i)).Objects()
			at := slices.IndexFunc(all, func(now wire.Object) bool { return apply.Name(now) == name })
			if at < 0 || all[at].GetDeletionTimestamp() != nil || all[at].GetLabels()["team"] != "b" {
				t.Fatalf("%s was made again by others before it was deleted, and is gone\n%s", name, strings.Join(w.said, "\n"))
			}
			w.pair.Side(flows.Side(i)).Remove(o) // others take it away again
		}
	}
	w.guest(t)
	w.pair.Settle()
}

// isTheirs reports whether others have the object, or something in it.
func (w *walk) isTheirs(side flows.Side, o wire.Object) bool {
	for name := range w.theirs[side] {
		if name == apply.Name(o) || strings.Contains(name, " "+o.GetName()+"/") {
			return true
		}
	}
	return false
}

// isLiqos reports whether Liqo's controllers remove an object by its name, whoever has made
// it again.
func isLiqos(o wire.Object) bool {
	switch o.(type) {
	case *corev1.Node, *corev1beta1.ForeignCluster:
		return true
	}
	return false
}

// anew is another object of the same kind and name, made by others.
func anew(o wire.Object) wire.Object {
	other := o.DeepCopyObject().(wire.Object)
	other.SetUID("")
	other.SetResourceVersion("")
	other.SetAnnotations(nil)
	other.SetOwnerReferences(nil)
	other.SetFinalizers(nil)
	other.SetManagedFields(nil)
	other.SetLabels(map[string]string{"team": "b"})
	return other
}

// guest has others put something into a namespace of ours, now and then.
func (w *walk) guest(t *testing.T) {
	t.Helper()
	for side, c := range []*flowtest.Cluster{w.pair.A, w.pair.B} {
		for _, o := range c.Objects() {
			ns, ok := o.(*corev1.Namespace)
			if !ok || !render.CreatedByUs(ns) || ns.DeletionTimestamp != nil || w.r.IntN(4) > 0 {
				continue
			}
			secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns.Name, Name: "of-a-guest"}}
			w.put(t, flows.Side(side), secret)
			w.theirs[side][apply.Name(secret)] = w.have(flows.Side(side))[apply.Name(secret)]
		}
	}
}
