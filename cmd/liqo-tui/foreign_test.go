package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/connect"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/flows/upkeep"
	"github.com/liqo-tui/liqo-tui/internal/sample"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/kube"
	"github.com/liqo-tui/liqo-tui/render"
)

// Namespaces that were there before us: one of people who have nothing to do with
// us, one that an admin says ours should use, the one that a connection would make,
// and another peer's, which Liqo's authentication uses too.
const (
	strangers = "strangers"
	lent      = "lent"
	oslo      = wire.ClusterID("oslo")
)

// TestNothingOfOthersIsTouched runs all commands that change clusters, in random
// parts of what happens to a connection and to an installation, with random
// namespaces, and many of them killed at one of their changes, on clusters that hold
// objects of others. None of those may differ afterwards.
func TestNothingOfOthersIsTouched(t *testing.T) {
	t.Parallel()
	s := useStage(t)
	// One more, without an operator: it would write again what uninstall removes.
	genoa := &controlPlane{name: "genoa", stage: s, processes: map[string]*lockedBuffer{}}
	if err := genoa.startPlane(t.Context()); err != nil {
		t.Fatal(err)
	}
	pair, all := []*controlPlane{s.planes["rome"], s.planes["milan"]}, []*controlPlane{s.planes["rome"], s.planes["milan"], genoa}
	rnd := rand.New(rand.NewPCG(sample.Seed(t), 0))
	before := map[string]map[string]string{}
	for _, p := range all {
		p.plant(t)
		before[p.name] = p.foreign(t)
	}
	sequences := sample.Of(16, 2000)
	ran, changed, killed := map[string]int{}, map[string]int{}, 0
	for n := range sequences {
		planes, commands := pair, connectionLife(rnd)
		if rnd.IntN(5) == 0 {
			planes, commands = all[2:], installationLife(rnd)
		}
		var said []string
		for i, c := range commands {
			r := &reaper{how: deaths[rnd.IntN(len(deaths))]}
			if rnd.IntN(3) == 0 && i < len(commands)-1 { // what ends a life is not killed
				r.left = 1 + rnd.IntN(6)
			}
			err := c.run(t.Context(), r, planes...)
			said = append(said, fmt.Sprintf("%s, killed: %v, %v", c.name, r.hasKilled(), err))
			ran[c.name]++
			if len(r.made()) > 0 {
				changed[c.name]++
			}
			if r.hasKilled() {
				killed++
			}
		}
		for _, p := range planes {
			if diff := cmp.Diff(before[p.name], p.foreign(t)); diff != "" {
				t.Fatalf("sequence %d changed what others have on %s (-before +after):\n%s\n%s", n, p.name, diff, strings.Join(said, "\n"))
			}
		}
	}
	t.Logf("%d sequences, %d commands killed; ran: %v, of which these changed something: %v", sequences, killed, ran, changed)
	for name, n := range ran {
		if n >= 12 && changed[name] < n/4 { // of fewer runs this is chance
			t.Errorf("%s changed something in %d of %d runs: this test shows little of it", name, changed[name], n)
		}
	}
	if killed < sequences/5 {
		t.Errorf("%d commands were killed in %d sequences: this test shows little of it", killed, sequences)
	}
}

// changing is a command that changes clusters, with what an admin said.
type changing struct {
	name string
	plan flows.Goal
	liqo string // namespace of the installation
	wait time.Duration
}

// connectionLife is what happens to a connection, with parts left out at random, in
// one pair of namespaces. Those that were there before us are kept by a reset, others
// take Kubernetes 5 s to delete.
func connectionLife(rnd *rand.Rand) []changing {
	p := flows.Defaults()
	p.ServiceType, p.Wait, p.Server = corev1.ServiceTypeNodePort, flows.WaitNone, flows.Side(rnd.IntN(2))
	p.Namespaces = [2]string{"liqo-tenant-milan", lent}
	switch rnd.IntN(20) {
	case 0:
		p.Namespaces = [2]string{} // milan's will be ours
	case 1:
		p.Namespaces = [2]string{"liqo-tenant-" + string(oslo), lent} // another peer's
	case 2, 3, 4, 5, 6:
		p.Namespaces = [2]string{lent, "liqo-tenant-" + string(oslo)}
	}
	elsewhere := upkeep.DelegateParams{APIServer: [2]string{"https://rome.example:6443", "https://milan.example:6443"}}
	removal := flows.RemoveOptions{}
	if rnd.IntN(2) == 0 {
		removal.Namespaces = p.Namespaces
	}
	var out []changing
	for _, c := range []changing{
		{name: "init", plan: flows.Planner(func(f flows.Facts) flows.Plan { return flows.PlanInit(p, f) })},
		{name: "connect", plan: connect.Goal{Params: p}},
		{name: "delegate", plan: flows.Planner(func(f flows.Facts) flows.Plan { return upkeep.Delegate(elsewhere, f) })},
		{name: "rotate-keys", plan: upkeep.Rotation{}},
		{name: "disconnect", plan: flows.Planner(func(f flows.Facts) flows.Plan { return flows.PlanDisconnect(removal, f) })},
		{name: "reset", plan: flows.Planner(func(f flows.Facts) flows.Plan { return flows.PlanReset(removal, f) })},
	} {
		if c.name == "connect" || rnd.IntN(5) < 2 {
			c.wait = 2 * time.Second
			if c.name == "rotate-keys" {
				c.wait = 500 * time.Millisecond // the gateways here report every few seconds
			}
			out = append(out, c)
		}
	}
	return append(out, changing{name: "reset", wait: 2 * time.Second, plan: flows.Planner(func(f flows.Facts) flows.Plan { return flows.PlanReset(flows.RemoveOptions{}, f) })})
}

// installationLife installs and uninstalls where others have objects. It does not
// wait for an operator.
func installationLife(rnd *rand.Rand) []changing {
	namespace := [...]string{lent, lent, lent, lent, strangers, wire.DefaultNamespace}[rnd.IntN(6)]
	added := changing{name: "install", liqo: namespace, wait: 300 * time.Millisecond, plan: flows.Planner(func(f flows.Facts) flows.Plan {
		return install.Plan(render.InstallParams{Namespace: namespace, ClusterID: "genoa", Image: "lab.local/liqo-gateway:dev", PodCIDRs: []string{"10.244.0.0/16"}}, f)
	})}
	uninstall := changing{name: "uninstall", liqo: namespace, wait: 2 * time.Second, plan: flows.Planner(install.PlanRemoval)}
	return [][]changing{{added, uninstall}, {added, added, uninstall}, {added, uninstall, added, uninstall}}[rnd.IntN(3)]
}

// run runs the command as the program does, until the reaper kills it.
func (c changing) run(ctx context.Context, r *reaper, planes ...*controlPlane) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.kill = cancel
	clusters := [2]engine.Cluster{nil, engine.Absent{}}
	for i, p := range planes {
		config, err := clientcmd.RESTConfigFromKubeConfig(p.admin)
		if err != nil {
			return err
		}
		config.Wrap(func(rt http.RoundTripper) http.RoundTripper { return watched{r, rt} })
		cluster, err := kube.ForConfig(rest.CopyConfig(config), kube.Options{Context: flows.ContextRef{Name: p.name}, Namespace: c.liqo, Delegation: true})
		if err != nil {
			return err
		}
		defer cluster.Close()
		clusters[i] = cluster
	}
	return engine.Run(ctx, c.plan, clusters[0], clusters[1], func(engine.Event) {}, engine.Options{Timeout: c.wait})
}

// plant makes objects of others, until the test ends.
func (p *controlPlane) plant(t *testing.T) {
	t.Helper()
	tenant := string("liqo-tenant-" + oslo)
	namespaces := map[string]map[string]string{
		strangers: {"team": "a"},
		lent:      nil,
		// As an export of ours that somebody applied: the label proves nothing.
		"exported": {wire.LabelManagedBy: wire.ManagedBy},
		tenant:     {wire.LabelTenantNamespace: "true", wire.LabelRemoteCluster: string(oslo)},
	}
	if p.name == "rome" { // milan's is ours
		namespaces["liqo-tenant-milan"] = nil
	}
	objects := []client.Object{
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "of-others"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}}},
		&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "of-others"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "of-others"}},
		&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "of-others"}, Value: 7},
	}
	for name, labels := range namespaces {
		in := metav1.ObjectMeta{Namespace: name, Name: "of-others", Labels: map[string]string{"team": "a"}}
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}},
			&corev1.ConfigMap{ObjectMeta: in, Data: map[string]string{"key": "value"}},
			&corev1.Secret{ObjectMeta: in, StringData: map[string]string{"password": "secret"}},
			&corev1.Service{ObjectMeta: in, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
			&corev1.ServiceAccount{ObjectMeta: in},
			&rbacv1.Role{ObjectMeta: in, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}}},
			&rbacv1.RoleBinding{ObjectMeta: in, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "of-others"}},
			&ipamv1alpha1.Network{ObjectMeta: in, Spec: ipamv1alpha1.NetworkSpec{CIDR: "10.111.0.0/16"}},
			&networkingv1beta1.PublicKey{ObjectMeta: in, Spec: networkingv1beta1.PublicKeySpec{PublicKey: make([]byte, 32)}},
		)
	}
	if p.name == "rome" { // milan has no other peer, so that uninstall may work
		configuration := render.Configuration(render.Tenant{Namespace: tenant, Remote: oslo}, render.Networks{Pod: []networkingv1beta1.CIDR{"10.250.0.0/16"}, External: []networkingv1beta1.CIDR{"10.251.0.0/16"}})
		configuration.Labels = map[string]string{wire.LabelRemoteCluster: string(oslo)} // liqoctl's have no other
		objects = append(objects, configuration)
	}
	slices.SortStableFunc(objects, func(a, b client.Object) int { return len(a.GetNamespace()) - len(b.GetNamespace()) })
	for _, o := range objects {
		if err := p.client.Create(t.Context(), o, client.FieldOwner("others")); err != nil {
			t.Fatalf("plant %T %s/%s: %v", o, o.GetNamespace(), o.GetName(), err)
		}
	}
	t.Cleanup(func() {
		for _, o := range objects {
			if o.GetNamespace() == "" { // and all that is in it
				if err := p.client.Delete(context.WithoutCancel(t.Context()), o); err != nil {
					t.Errorf("delete what was planted: %v", err)
				}
			}
		}
	})
	p.planted = objects
}

// foreign returns what was planted, and the definitions and nodes, which are not
// ours either, as the API server has them now.
func (p *controlPlane) foreign(t *testing.T) map[string]string {
	t.Helper()
	planted, kinds := map[string]bool{}, map[schema.GroupVersionKind]bool{}
	key := func(kind schema.GroupVersionKind, o client.Object) string {
		return fmt.Sprintf("%s %s/%s", kind.Kind, o.GetNamespace(), o.GetName())
	}
	for _, o := range p.planted {
		kind, err := apiutil.GVKForObject(o, p.client.Scheme())
		if err != nil {
			t.Fatal(err)
		}
		planted[key(kind, o)], kinds[kind] = true, true
	}
	all := []schema.GroupVersionKind{apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"), corev1.SchemeGroupVersion.WithKind("Node")}
	out := map[string]string{}
	for _, kind := range slices.AppendSeq(all, maps.Keys(kinds)) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := p.client.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			o := &list.Items[i]
			if !planted[key(kind, o)] && !slices.Contains(all, kind) {
				continue
			}
			// Controllers report on these.
			if strings.HasSuffix(kind.Group, "liqo.io") || slices.Contains(all, kind) {
				unstructured.RemoveNestedField(o.Object, "status")
				o.SetManagedFields(nil)
				o.SetResourceVersion("")
			}
			text, err := json.MarshalIndent(o.Object, "", " ")
			if err != nil {
				t.Fatal(err)
			}
			out[key(kind, o)] = string(text)
		}
	}
	return out
}
