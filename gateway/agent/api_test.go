package agent

import (
	"context"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/liqo-tui/liqo-tui/internal/apitest"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// api is a real API server with our installation, and agents with the rights that they have on a cluster.
type api struct {
	client.Client

	t      *testing.T
	config *rest.Config
	server *apitest.Server
}

func startAPI(t *testing.T) *api {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	server := apitest.Start(t, apitest.Options{Definitions: []string{"../../render/crds"}})
	a := &api{server, t, server.Config, server}
	objects, err := render.Install(render.InstallParams{ClusterID: "rome", Image: "none", PodCIDRs: []string{"10.244.0.0/16"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		switch o.(type) {
		case *corev1.Namespace, *rbacv1.ClusterRole, *rbacv1.ClusterRoleBinding, *ipamv1alpha1.Network:
			a.create(o)
		}
	}
	return a
}

func (a *api) create(o client.Object) {
	a.t.Helper()
	if err := a.Create(a.t.Context(), o); err != nil {
		a.t.Fatalf("create %T %s: %v", o, o.GetName(), err)
	}
}

func (a *api) as(namespace, account string) *rest.Config {
	return a.server.Account(namespace, account, "a")
}

// announce runs the announcer of node a until stop.
func (a *api) announce() (stop func()) {
	a.t.Helper()
	config := a.as("liqo", wire.FabricName)
	o := FabricOptions{Namespace: "liqo", NodeIP: netip.MustParseAddr("192.0.2.1"), NodeName: "a", Log: slog.New(slog.DiscardHandler)}
	kept := ofOwnNode("a")
	kept[&ipamv1alpha1.Network{}] = cache.ByObject{Namespaces: map[string]cache.Config{"liqo": {}}}
	mgr, err := newManager(config, "0", cache.Options{ByObject: kept})
	if err != nil {
		a.t.Fatal(err)
	}
	direct, err := client.New(config, client.Options{Scheme: mgr.GetScheme()})
	if err != nil {
		a.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(a.t.Context())
	announces := newAnnouncer(o, mgr.GetClient(), direct, func() (map[string]uint64, error) { return nil, nil })
	announces.look = func() ([]netip.Prefix, []netip.Addr, error) {
		return nil, []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil
	}
	if err := announces.setup(ctx, mgr, config); err != nil {
		a.t.Fatal(err)
	}
	return a.run(ctx, cancel, mgr)
}

func (a *api) run(ctx context.Context, cancel func(), mgr ctrl.Manager) (stop func()) {
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	return func() {
		a.t.Helper()
		cancel()
		if err := <-done; err != nil {
			a.t.Errorf("the agent ended with: %v", err)
		}
	}
}

func (a *api) pod(name, node, ip string) *corev1.Pod {
	a.t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "c", Image: "none"}}},
	}
	a.create(p)
	p.Status.PodIP, p.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
	if err := a.Status().Update(a.t.Context(), p); err != nil {
		a.t.Fatal(err)
	}
	return p
}

// untilLate is the limit for events that come at once on an idle machine.
const untilLate = 30 * time.Second

func (a *api) untilItSays(want string) {
	a.t.Helper()
	var said networkingv1beta1.InternalNode
	var err error
	for deadline := time.Now().Add(untilLate); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		err = a.Get(a.t.Context(), client.ObjectKey{Name: "a"}, &said)
		if err == nil && said.Annotations[wire.AnnotationPods] == want {
			return
		}
	}
	a.t.Fatalf("the node says %q (%v), want %q", said.Annotations[wire.AnnotationPods], err, want)
}

// define defines a kind of a pod network in the API.
func (a *api) define(k rangesKind, plural string) {
	a.t.Helper()
	crd := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + k.Group},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: k.Group, Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: k.Kind, ListKind: k.Kind + "List", Plural: plural, Singular: strings.ToLower(k.Kind)},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: k.Version, Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}},
			}},
		},
	}
	if _, err := envtest.InstallCRDs(a.config, envtest.CRDInstallOptions{CRDs: []*apiextensionsv1.CustomResourceDefinition{crd}}); err != nil {
		a.t.Fatal(err)
	}
}

func (a *api) given(k rangesKind, name string, spec map[string]any) *unstructured.Unstructured {
	a.t.Helper()
	u := blockAffinity(name, spec)
	u.SetGroupVersionKind(k.GroupVersionKind)
	for deadline := time.Now().Add(untilLate); ; time.Sleep(50 * time.Millisecond) {
		err := a.Create(a.t.Context(), u)
		if err == nil {
			return u
		}
		if !meta.IsNoMatchError(err) && client.IgnoreNotFound(err) != nil || time.Now().After(deadline) {
			a.t.Fatal(err)
		}
	}
}

// The cluster gets Calico after the node's agent has started.
func TestAgentAnnouncesWhatIsOnItsNode(t *testing.T) {
	a := startAPI(t)
	a.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: corev1.NodeSpec{PodCIDR: "10.244.3.0/24", PodCIDRs: []string{"10.244.3.0/24"}}})
	a.create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "b"}})
	a.pod("elsewhere", "b", "10.244.4.4")
	stop := a.announce()
	a.pod("first", "a", "10.244.3.4")
	a.untilItSays("10.244.3.0/24")
	a.pod("other", "a", "10.99.40.130")
	a.untilItSays("10.99.40.130/32,10.244.3.0/24")
	stop()

	calico, cilium := rangesKinds()[0], rangesKinds()[1]
	a.define(calico, "blockaffinities")
	a.define(cilium, "ciliumnodes")
	a.given(calico, "a-10-99-40-128-26", map[string]any{"node": "a", "cidr": "10.99.40.128/26", "state": "confirmed", "type": "host"})
	a.given(calico, "b-10-99-217-0-26", map[string]any{"node": "b", "cidr": "10.99.217.0/26", "state": "confirmed", "type": "host"})
	stop = a.announce()
	defer stop()
	a.untilItSays("10.99.40.128/26,10.244.3.4/32")
	more := a.given(calico, "a-10-99-41-0-26", map[string]any{"node": "a", "cidr": "10.99.41.0/26", "state": "confirmed", "type": "host"})
	another := a.pod("another", "a", "10.99.41.7")
	a.untilItSays("10.99.40.128/26,10.99.41.0/26,10.244.3.4/32")
	for _, o := range []client.Object{more, another} {
		if err := a.Delete(t.Context(), o, client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}
	a.given(cilium, "b", map[string]any{"ipam": map[string]any{"podCIDRs": []any{"10.0.9.0/24"}}})
	a.given(cilium, "a", map[string]any{"ipam": map[string]any{"podCIDRs": []any{"10.0.2.0/24"}}})
	a.pod("of-cilium", "a", "10.0.2.9")
	a.untilItSays("10.0.2.0/24,10.99.40.128/26,10.244.3.4/32")
}

// A gateway works without the right to read InternalNodes. It reads them as soon as it has the right.
func TestGatewayReadsNodesOnceItMay(t *testing.T) {
	a := startAPI(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}}
	a.create(node)
	said := wire.InternalNode(node, wire.NodeReport{IP: netip.MustParseAddr("192.0.2.1"), Pods: []netip.Prefix{netip.MustParsePrefix("10.99.40.128/26")}})
	a.create(said)
	config := a.as("default", "rome")
	a.create(&rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "rome"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{networkingv1beta1.GroupVersion.Group}, Resources: []string{"configurations"}, Verbs: []string{"get", "list", "watch"}}},
	})
	a.create(&rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "rome"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "rome"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "rome"}},
	})
	mgr, err := newManager(config, "0", cache.Options{DefaultNamespaces: map[string]cache.Config{"default": {}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	n, err := newNodes(ctx, mgr, config)
	if err != nil {
		t.Fatal(err)
	}
	asked := make(chan struct{}, 1)
	told := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
		select {
		case asked <- struct{}{}:
		default:
		}
		return reconcile.Result{}, nil
	})
	if err := oneRequest(mgr, tunnelController, told, []client.Object{&networkingv1beta1.Configuration{}}, n); err != nil {
		t.Fatal(err)
	}
	defer a.run(ctx, cancel, mgr)()
	await := func(what string) {
		t.Helper()
		select {
		case <-asked:
		case <-time.After(untilLate):
			t.Fatalf("not asked to do anything: %s", what)
		}
	}
	a.create(&networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "rome"}})
	await("a Configuration came, and nodes can't be read")
	if known, _, missing, err := n.list(time.Now().Add(nodesPatience)); err != nil || missing == nil || len(known) != 0 {
		t.Errorf("got %v, %v, %v; want none, and the reason", known, missing, err)
	}
	binding := &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: wire.GatewayAccessName}}
	if err := a.Get(t.Context(), client.ObjectKeyFromObject(binding), binding); err != nil {
		t.Fatal(err)
	}
	binding.Subjects = render.GatewayAccess([]types.NamespacedName{{Namespace: "default", Name: "rome"}}).Subjects
	if err := a.Update(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	await("nodes can be read")
	if known, _, missing, err := n.list(time.Now()); err != nil || missing != nil || len(known) != 1 || known[0].Pods[0].String() != "10.99.40.128/26" || known[0].Revision == 0 {
		t.Errorf("got %+v, %v, %v; want the node", known, missing, err)
	}
	if err := a.Delete(t.Context(), said); err != nil {
		t.Fatal(err)
	}
	await("the node went")
	if known, _, _, _ := n.list(time.Now()); len(known) != 0 {
		t.Errorf("got %v, want none", known)
	}
}
