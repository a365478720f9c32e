package operator

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/liqo-tui/liqo-tui/gateway/operator/ranges"
	"github.com/liqo-tui/liqo-tui/internal/ipam"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// renumbered is a cluster in memory with a peer whose pods get another range. The test writes the reports of
// nodes and the gateway.
type renumbered struct {
	client.Client
	t      *testing.T
	r      *configurations
	writes int // until a write fails; 0: no write fails
}

var errWrite = errors.New("the API server is away")

func newRenumbered(t *testing.T) *renumbered {
	t.Helper()
	scheme, err := wire.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	network := func(kind string, cidr networkingv1beta1.CIDR) client.Object {
		n := render.ClusterNetworks("liqo", kind, []string{string(cidr)}, render.StatedByInstall)[0].(*ipamv1alpha1.Network)
		n.Status.CIDR = cidr
		return n
	}
	w := &renumbered{t: t}
	write := func() error {
		if w.writes > 0 {
			if w.writes--; w.writes == 0 {
				return errWrite
			}
		}
		return nil
	}
	a, b := node("a", true, internal("192.0.2.1")), node("b", true, internal("192.0.2.2"))
	gone := node("gone", false, internal("192.0.2.3"))
	objects := []client.Object{
		network(wire.NetworkPodCIDR, "10.244.0.0/16"), network(wire.NetworkServiceCIDR, "10.96.0.0/16"), network(wire.NetworkExternalCIDR, "10.70.0.0/16"), &a, &b, &gone,
		render.Configuration(milan(), render.Networks{Pod: []networkingv1beta1.CIDR{"10.244.0.0/16"}, External: []networkingv1beta1.CIDR{"10.70.0.0/16"}}),
	}
	for i := range objects {
		if n, ok := objects[i].(*networkingv1beta1.Configuration); ok {
			n.UID = "of-milan"
		}
	}
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&ipamv1alpha1.Network{}, &networkingv1beta1.Configuration{}).
		WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				return errors.Join(write(), c.Create(ctx, o, opts...))
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				return errors.Join(write(), c.Delete(ctx, o, opts...))
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				return errors.Join(write(), c.Patch(ctx, o, p, opts...))
			},
			SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
				return errors.Join(write(), c.SubResource(sub).Patch(ctx, o, p, opts...))
			},
		}).Build()
	w.Client = c
	w.restart()
	return w
}

func milan() render.Tenant { return render.Tenant{Namespace: "liqo-tenant-milan", Remote: "milan"} }

// restart forgets the operator's memory.
func (w *renumbered) restart() {
	around := ranges.NewSurroundings(w, w, &rest.Config{Host: "https://192.0.2.9:6443"})
	w.r = &configurations{client: w, reader: w, allocator: ranges.NewAllocator(w, around, nil), namespace: "liqo"}
}

func (w *renumbered) get(o client.Object, namespace, name string) {
	w.t.Helper()
	if err := w.Get(w.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o); err != nil {
		w.t.Fatal(err)
	}
}

// look reconciles until nothing is written. Some writes fail.
func (w *renumbered) look() *networkingv1beta1.Configuration {
	w.t.Helper()
	var last string
	for range 20 {
		_, err := w.r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "liqo-tenant-milan", Name: "milan"}})
		if err != nil && !errors.Is(err, errWrite) {
			w.t.Fatal(err)
		}
		if err != nil {
			w.restart()
			continue
		}
		conf := &networkingv1beta1.Configuration{}
		w.get(conf, "liqo-tenant-milan", "milan")
		w.check(conf)
		if conf.ResourceVersion == last {
			return conf
		}
		last = conf.ResourceVersion
	}
	w.t.Fatal("the operator never comes to an end")
	return nil
}

// check tests a condition that is always true: the range in the status is translated.
func (w *renumbered) check(conf *networkingv1beta1.Configuration) {
	w.t.Helper()
	also, err := wire.ParseAliases(conf)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, a := range also {
		if want := netip.MustParsePrefix(string(conf.Spec.Remote.CIDR.Pod[0])); a.Real != want {
			w.t.Errorf("got %v, want another range of %s only", a, want)
		}
	}
	var all ipamv1alpha1.NetworkList
	if err := w.List(w.t.Context(), &all); err != nil {
		w.t.Fatal(err)
	}
	for _, a := range also {
		if !slices.ContainsFunc(all.Items, func(n ipamv1alpha1.Network) bool { return string(n.Status.CIDR) == a.Seen.String() }) {
			w.t.Errorf("%s is told, and another peer may be given it", a.Seen)
		}
	}
}

// ask requests, as an admin, another range, or a longer life of the former range.
func (w *renumbered) ask(leave string, keep time.Duration) {
	w.t.Helper()
	conf := &networkingv1beta1.Configuration{}
	w.get(conf, "liqo-tenant-milan", "milan")
	for key, value := range (wire.Renumbering{Leave: []netip.Prefix{netip.MustParsePrefix(leave)}, Keep: keep}).Annotations() {
		annotate(conf, key, value)
	}
	if err := w.Update(w.t.Context(), conf); err != nil {
		w.t.Fatal(err)
	}
}

// say writes the ranges that nodes and gateway report.
func (w *renumbered) say(fabric, gateway, nodeA, nodeB []netip.Prefix) {
	w.t.Helper()
	dies := w.writes
	w.writes = 0
	defer func() { w.writes = dies }()
	g := render.Gateway{Tenant: milan(), Name: "milan", Owner: &networkingv1beta1.GatewayServer{ObjectMeta: metav1.ObjectMeta{Name: "milan", UID: "of-server"}}}
	connection := g.Connection()
	report, err := json.Marshal(wire.Report{Also: gateway})
	if err != nil {
		w.t.Fatal(err)
	}
	annotate(connection, wire.AnnotationStatus, string(report))
	connection.Status.Value = networkingv1beta1.Connected
	objects := []client.Object{g.InternalFabric(render.Fabric{PodIP: "10.244.0.9", Also: fabric}), connection}
	for name, has := range map[string][]netip.Prefix{"a": nodeA, "b": nodeB, "gone": nil} {
		n := node(name, true)
		objects = append(objects, wire.InternalNode(&n, wire.NodeReport{IP: netip.MustParseAddr("192.0.2.1"), Also: has}))
	}
	for _, o := range objects {
		if err := client.IgnoreNotFound(w.Delete(w.t.Context(), o)); err != nil {
			w.t.Fatal(err)
		}
		o.SetResourceVersion("")
		if err := w.Create(w.t.Context(), o); err != nil {
			w.t.Fatal(err)
		}
	}
}

func conditionOf(conf *networkingv1beta1.Configuration, kind string) (reason, message string) {
	if c := meta.FindStatusCondition(conf.Status.Conditions, kind); c != nil {
		return c.Reason, c.Message
	}
	return "", ""
}

func both(a, b string) []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix(a), netip.MustParsePrefix(b)}
}

// A peer gets another range only when nodes and gateway have it. The former range works for the requested
// time. The operator ends once after each write.
func TestAPeerIsRenumberedWithoutAGap(t *testing.T) {
	for dies := range 8 {
		t.Run(fmt.Sprint("a write fails: ", dies), func(t *testing.T) {
			w := newRenumbered(t)
			before := string(w.look().Status.Remote.CIDR.Pod[0])
			external := w.look().Status.Remote.CIDR.External[0]
			w.say(nil, nil, nil, nil)
			w.ask(before, time.Hour)
			w.writes = dies
			conf := w.look()
			also, err := wire.ParseAliases(conf)
			if err != nil || len(also) != 2 || string(conf.Status.Remote.CIDR.Pod[0]) != before {
				t.Fatalf("got %v (%v), seen as %v; want two ranges of the pods, and the first in use", also, err, conf.Status.Remote.CIDR)
			}
			after := also[0].Seen.String()
			if after == before {
				after = also[1].Seen.String()
			}
			all := both(before, after)
			w.writes = dies
			for _, c := range []struct {
				fabric, gateway, a, b []netip.Prefix
				waitsFor              string
			}{
				{nil, all, all, all, "the operator"}, {all, all[:1], all, all, "the gateway"}, {all, all, all, all[:1], "node b"}, {all, nil, all[1:], nil, "the gateway, node a, node b"},
			} {
				w.say(c.fabric, c.gateway, c.a, c.b)
				conf = w.look()
				reason, message := conditionOf(conf, wire.ConditionRenumbering)
				if string(conf.Status.Remote.CIDR.Pod[0]) != before || reason != wire.ReasonPreparing || !strings.Contains(message, "waits for "+c.waitsFor) {
					t.Fatalf("without %s: seen as %v, %s: %s", c.waitsFor, conf.Status.Remote.CIDR, reason, message)
				}
			}
			w.say(all, all, all, all)
			w.writes = dies
			conf = w.look()
			if got := conf.Status.Remote.CIDR; string(got.Pod[0]) != after || got.External[0] != external {
				t.Fatalf("got %v, want pods as %s, and the rest as it was", got, after)
			}
			if reason, message := conditionOf(conf, wire.ConditionRenumbering); reason != wire.ReasonFormerKept || !strings.HasPrefix(message, before+" works until ") {
				t.Errorf("got %s: %s", reason, message)
			}
			if conf.Annotations[wire.AnnotationAlso] != wire.JoinAliases(also) {
				t.Errorf("it told %s, and tells %s: the former range has to work", wire.JoinAliases(also), conf.Annotations[wire.AnnotationAlso])
			}
			w.ask(before, 0)
			w.writes = dies
			conf = w.look()
			if reason, message := conditionOf(conf, wire.ConditionRenumbering); conf.Annotations[wire.AnnotationAlso] != "" || reason != "" || string(conf.Status.Remote.CIDR.Pod[0]) != after {
				t.Errorf("got %v, %s: %s; want the new range alone", conf.Annotations, reason, message)
			}
			w.wantNetworks(after, string(external))
			// The peer moves a second time, from the second Network.
			w.say(nil, nil, nil, nil)
			w.ask(after, 0)
			w.writes = dies
			also, err = wire.ParseAliases(w.look())
			if err != nil || len(also) != 2 {
				t.Fatalf("got %v (%v), want two ranges", also, err)
			}
			all = []netip.Prefix{also[0].Seen, also[1].Seen}
			w.say(all, all, all, all)
			w.writes = dies
			if got := w.look().Status.Remote.CIDR.Pod[0]; string(got) == after {
				t.Errorf("got %s again", got)
			} else {
				w.wantNetworks(string(got), string(external))
			}
		})
	}
}

// wantNetworks tests which ranges belong to the peer.
func (w *renumbered) wantNetworks(want ...string) {
	w.t.Helper()
	var all ipamv1alpha1.NetworkList
	if err := w.List(w.t.Context(), &all, client.InNamespace("liqo-tenant-milan")); err != nil {
		w.t.Fatal(err)
	}
	var got []string
	for i := range all.Items {
		got = append(got, string(all.Items[i].Status.CIDR))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		w.t.Errorf("got Networks of %v, want %v", got, want)
	}
}

func TestWithoutAGatewayAPeerIsRenumberedAtOnce(t *testing.T) {
	w := newRenumbered(t)
	before := w.look().Status.Remote.CIDR.Pod[0]
	w.ask(string(before), 0)
	if conf := w.look(); conf.Status.Remote.CIDR.Pod[0] == before || conf.Annotations[wire.AnnotationAlso] != "" {
		t.Errorf("got %v, want another range than %s", conf.Status.Remote.CIDR, before)
	}
}

// A request that is taken back restores the state before it.
func TestARequestThatIsTakenBackLeavesNothing(t *testing.T) {
	w := newRenumbered(t)
	before := w.look()
	w.say(nil, nil, nil, nil)
	w.ask(string(before.Status.Remote.CIDR.Pod[0]), time.Hour)
	conf := w.look()
	annotate(conf, wire.AnnotationRenumber, "")
	annotate(conf, wire.AnnotationKeep, "")
	if err := w.Update(t.Context(), conf); err != nil {
		t.Fatal(err)
	}
	conf = w.look()
	if got := conf.Status.Remote.CIDR; !slices.Equal(got.Pod, before.Status.Remote.CIDR.Pod) || conf.Annotations[wire.AnnotationAlso] != "" || len(conf.Status.Conditions) != 1 {
		t.Errorf("got %v, %v and %v", got, conf.Annotations, conf.Status.Conditions)
	}
	w.wantNetworks(string(before.Status.Remote.CIDR.Pod[0]), string(before.Status.Remote.CIDR.External[0]))
}

// An impossible request changes nothing, and the reason is reported.
func TestAPeerStaysWhereThereIsNoOtherRange(t *testing.T) {
	w := newRenumbered(t)
	around := ranges.NewSurroundings(w, w, &rest.Config{Host: "https://192.0.2.9:6443"})
	w.r.allocator = ranges.NewAllocator(w, around, []netip.Prefix{netip.MustParsePrefix("10.60.0.0/15")})
	before := w.look()
	w.ask(string(before.Status.Remote.CIDR.Pod[0]), 0)
	conf := w.look()
	if reason, message := conditionOf(conf, wire.ConditionRenumbering); reason != wire.ReasonNotRenumbered || !strings.Contains(message, "no free prefix") {
		t.Errorf("got %s: %s", reason, message)
	}
	if got := conf.Status.Remote.CIDR; !slices.Equal(got.Pod, before.Status.Remote.CIDR.Pod) || !meta.IsStatusConditionTrue(conf.Status.Conditions, networkingv1beta1.ConfigurationConditionNetworkCIDRsConfigured) {
		t.Errorf("got %v, want what there was: %v", got, conf.Status.Conditions)
	}
}

// The Configuration shows addresses in a peer's range that the cluster needs later.
func TestOverlapsWithWhatCameLaterAreSaid(t *testing.T) {
	w := newRenumbered(t)
	conf := w.look()
	if reason, message := conditionOf(conf, wire.ConditionOverlap); reason != "" {
		t.Fatalf("got %s: %s before anything overlaps", reason, message)
	}
	seen := netip.MustParsePrefix(string(conf.Status.Remote.CIDR.Pod[0]))
	lan := netip.PrefixFrom(seen.Addr(), 20)
	a := node("a", true)
	if err := w.Create(t.Context(), wire.InternalNode(&a, wire.NodeReport{IP: netip.MustParseAddr("192.0.2.1"), Networks: []netip.Prefix{lan}})); err != nil {
		t.Fatal(err)
	}
	reserved := render.Network("liqo", "reserved-vpn", wire.NetworkReserved, netip.PrefixFrom(seen.Addr(), 18).String(), 0)
	reserved.Labels[wire.LabelNotRemapped] = "true"
	if err := w.Create(t.Context(), reserved); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(w.r.allocator.Fix(t.Context(), reserved), ranges.Record(t.Context(), w, reserved, reserved.Spec.CIDR)); err != nil {
		t.Fatal(err)
	}
	conf = w.look()
	want := fmt.Sprintf("%[1]s overlaps %[2]s, Network liqo/reserved-vpn; %[1]s overlaps %[3]s, a route of node a", seen, reserved.Spec.CIDR, lan)
	if reason, message := conditionOf(conf, wire.ConditionOverlap); reason != wire.ReasonNeeded || message != want {
		t.Errorf("got %s: %s\nwant %s", reason, message, want)
	}
	if got := wire.Overlaps(conf); len(got) != 2 || got[1].Range != seen || got[1].With.Prefix != lan || got[1].With.Reason != "a route of node a" {
		t.Errorf("got %v, want what was written", got)
	}
	w.ask(seen.String(), 0)
	conf = w.look()
	if got := netip.MustParsePrefix(string(conf.Status.Remote.CIDR.Pod[0])); got.Overlaps(lan) {
		t.Errorf("got %s, which is in the way too", got)
	}
	if reason, message := conditionOf(conf, wire.ConditionOverlap); reason != "" {
		t.Errorf("got %s: %s after nothing overlaps any more", reason, message)
	}
}

// The pool of peers has room for a dozen networks as large as 10.0.0.0/8. The next peer shows this, and what
// to do. It gets a range soon after another peer is gone.
func TestAPeerWithoutRoomIsToldWhatToDo(t *testing.T) {
	w := newRenumbered(t)
	peer := func(i int) *networkingv1beta1.Configuration {
		id := wire.ClusterID(fmt.Sprint("large-", i))
		conf := render.Configuration(render.Tenant{Namespace: "liqo-tenant-" + string(id), Remote: id}, render.Networks{Pod: []networkingv1beta1.CIDR{"10.0.0.0/8"}})
		conf.UID = types.UID(id)
		return conf
	}
	look := func(conf *networkingv1beta1.Configuration) (ctrl.Result, *metav1.Condition) {
		t.Helper()
		r, err := w.r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(conf)})
		if err != nil {
			t.Fatal(err)
		}
		w.get(conf, conf.Namespace, conf.Name)
		return r, meta.FindStatusCondition(conf.Status.Conditions, networkingv1beta1.ConfigurationConditionNetworkCIDRsConfigured)
	}
	seen := map[networkingv1beta1.CIDR]bool{}
	var last *networkingv1beta1.Configuration
	var result ctrl.Result
	var said *metav1.Condition
	for i := range 17 { // of the 16 in the pool, some are reserved
		last = peer(i)
		if err := w.Create(t.Context(), last); err != nil {
			t.Fatal(err)
		}
		if result, said = look(last); said == nil || said.Status != metav1.ConditionTrue {
			break
		}
		seen[last.Status.Remote.CIDR.Pod[0]] = true
	}
	const most = 11 // without those with Consul's, Kuma's, Submariner's and broadcast addresses, and that with a range of milan's
	if len(seen) < most-1 || len(seen) > most+1 {
		t.Errorf("%d peers have a range each, want about %d", len(seen), most)
	}
	const want = "remap pod CIDR 10.0.0.0/8 of %s: allocate 10.0.0.0/8: no free prefix of this length in any pool: [240.0.0.0/4]"
	if said == nil || said.Status != metav1.ConditionFalse || said.Reason != wire.ReasonNoFreeRange || said.Message != fmt.Sprintf(want, last.Name) {
		t.Fatalf("the next one is told %+v", said)
	}
	if result.RequeueAfter <= 0 || result.RequeueAfter > roomAgain {
		t.Errorf("it is looked again after %s", result.RequeueAfter)
	}
	version := last.ResourceVersion
	if look(last); last.ResourceVersion != version {
		t.Error("the same is written again")
	}
	first := peer(0)
	w.get(first, first.Namespace, first.Name)
	name := networkName(first, ipam.Pods, "10.0.0.0/8")
	for _, o := range []client.Object{first, &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: first.Namespace, Name: name}}} {
		if err := w.Delete(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.r.allocator.Release(t.Context(), types.NamespacedName{Namespace: first.Namespace, Name: name}); err != nil {
		t.Fatal(err)
	}
	if _, said = look(last); said.Status != metav1.ConditionTrue {
		t.Errorf("after a peer is gone it is told %+v", said)
	}
}
