package operator

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/liqo-tui/liqo-tui/render"
)

func TestMain(m *testing.M) {
	ctrl.SetLogger(logr.Discard())
	if kubeconfig := os.Getenv(kubeconfigVariable); kubeconfig != "" {
		if err := runAsProcess(kubeconfig); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// world is a real API server with our operator on it, but without kubelets:
// what pods would do is written by the test.
type world struct {
	client.Client
	t      testing.TB
	config *rest.Config
}

// newWorld is one with our operator installed, but not running.
func newWorld(t testing.TB) *world {
	t.Helper()
	w := startWorld(t)
	w.install([]string{"10.244.0.0/16"}, "10.96.0.0/16")
	return w
}

func startWorld(t testing.TB) *world {
	t.Helper()
	if _, err := os.Stat(os.Getenv("KUBEBUILDER_ASSETS") + "/kube-apiserver"); err != nil {
		if os.Getenv("REQUIRE_API") != "" {
			t.Fatalf("no API server to test with: %v", err)
		}
		t.Skip("no API server to test with: run make test, or set KUBEBUILDER_ASSETS")
	}
	scheme, err := render.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	env := &envtest.Environment{CRDDirectoryPaths: []string{"../../render/crds"}, Scheme: scheme}
	config, err := env.Start()
	if err != nil {
		t.Fatalf("start the API server: %v", err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Errorf("stop the API server: %v", err)
		}
	})
	c, err := client.New(config, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return &world{Client: c, t: t, config: config}
}

// runOperator runs it until the test ends.
func (w *world) runOperator() {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		done <- Run(ctx, w.config, Options{Namespace: "liqo", HealthAddress: "0", Identity: w.t.Name()})
	}()
	w.t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("the operator ended with: %v", err)
		}
	})
}

// install applies what `liqo-tui install` does.
func (w *world) install(podCIDRs []string, serviceCIDR string) {
	w.t.Helper()
	objects, err := render.Install(render.InstallParams{
		ClusterID: "rome", Image: "lab.local/liqo-gateway:dev", PodCIDRs: podCIDRs, ServiceCIDR: serviceCIDR,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	for _, o := range objects {
		u, err := render.Wanted(o)
		if err != nil {
			w.t.Fatal(err)
		}
		if err := w.Apply(w.t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("test")); err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w *world) create(o client.Object) {
	w.t.Helper()
	if err := w.Create(w.t.Context(), o); err != nil {
		w.t.Fatalf("create %T %s: %v", o, o.GetName(), err)
	}
}

// until reads o again and again until it holds.
func until[O client.Object](w *world, o O, what string, holds func(O) bool) O {
	w.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	key := client.ObjectKeyFromObject(o)
	for {
		err := w.Get(w.t.Context(), key, o)
		if err == nil && holds(o) {
			return o
		}
		if client.IgnoreNotFound(err) != nil {
			w.t.Fatalf("read %T %s: %v", o, key, err)
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%T %s: never %s; last: %+v (%v)", o, key, what, o, err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (w *world) peer(id render.ClusterID, pod networkingv1beta1.CIDR) *networkingv1beta1.Configuration {
	w.t.Helper()
	tenant := render.Tenant{Namespace: render.TenantNamespaceName(id), Remote: id}
	w.create(render.TenantNamespace(tenant))
	conf := render.Configuration(tenant, render.Networks{Pod: []networkingv1beta1.CIDR{pod}, External: []networkingv1beta1.CIDR{"10.70.0.0/16"}})
	w.create(conf)
	return until(w, conf, "remapped", func(c *networkingv1beta1.Configuration) bool {
		return c.Status.Remote != nil && len(c.Status.Conditions) == 1 && c.Status.Conditions[0].ObservedGeneration == c.Generation
	})
}

func TestOperator(t *testing.T) {
	w := newWorld(t)
	w.runOperator()
	for _, name := range []string{"pod-cidr", "service-cidr", "external-cidr"} {
		until(w, &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: name}}, "decided",
			func(n *ipamv1alpha1.Network) bool { return n.Status.CIDR == n.Spec.CIDR })
	}
	w.node("node-a", "192.0.2.11")
	t.Run("peers with our own addresses get ranges that overlap nothing", func(t *testing.T) { w.under(t).testRemapping() })
	t.Run("a server gets keys, pod and Service, and says where it is", func(t *testing.T) { w.under(t).testServer() })
	t.Run("children that are deleted or edited come back", func(t *testing.T) { w.under(t).testRepair() })
	t.Run("each peer is summed up in a ForeignCluster", func(t *testing.T) { w.under(t).testForeignCluster() })
	t.Run("what a gateway leaves goes without the garbage collector", func(t *testing.T) { w.under(t).testCleanUp() })
	t.Run("what the API server refuses is said on the gateway", func(t *testing.T) { w.under(t).testRefusal() })
	t.Run("a gateway without its peer's name is left alone", func(t *testing.T) { w.under(t).testUnlabelled() })
}

func (w *world) under(t testing.TB) *world { return &world{w.Client, t, w.config} }

func (w *world) node(name, ip string) {
	w.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDR: "10.244.0.0/24", PodCIDRs: []string{"10.244.0.0/24"}}}
	w.create(n)
	n.Status = corev1.NodeStatus{
		Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: ip}},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}},
	}
	if err := w.Status().Update(w.t.Context(), n); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) testRemapping() {
	taken := map[netip.Prefix]string{}
	for _, own := range []string{"10.244.0.0/16", "10.96.0.0/16", "10.70.0.0/16", "192.0.2.11/32"} {
		taken[netip.MustParsePrefix(own)] = "our own " + own
	}
	for i := range 3 {
		id := render.ClusterID(fmt.Sprintf("peer-%d", i))
		conf := w.peer(id, "10.244.0.0/16")
		for _, cidr := range append(conf.Status.Remote.CIDR.Pod, conf.Status.Remote.CIDR.External...) {
			p := netip.MustParsePrefix(string(cidr))
			for other, whose := range taken {
				if p.Overlaps(other) {
					w.t.Errorf("%s got %s, which overlaps %s", id, p, whose)
				}
			}
			taken[p] = string(id)
		}
		if got := conf.Spec.Local; got == nil || len(got.CIDR.Pod) != 1 || got.CIDR.Pod[0] != "10.244.0.0/16" {
			w.t.Errorf("%s: got local CIDRs %+v, want this cluster's own", id, got)
		}
	}
	free := w.peer("free", "10.123.0.0/16")
	if got := free.Status.Remote.CIDR.Pod[0]; got != "10.123.0.0/16" {
		w.t.Errorf("a range that overlaps nothing: got %s, want it kept", got)
	}
}

func (w *world) testServer() {
	w.peer("milan", "10.244.0.0/16")
	tenant := render.Tenant{Namespace: "liqo-tenant-milan", Remote: "milan"}
	server := render.GatewayServer(render.ServerParams{
		Tenant: tenant, Template: render.TemplateRef{Name: render.ServerTemplate, Namespace: "liqo"},
		ServiceType: corev1.ServiceTypeNodePort, Port: 51840, NodePort: 30123, MTU: 1340,
	})
	w.create(server)
	until(w, server, "with an endpoint", func(s *networkingv1beta1.GatewayServer) bool { return s.Status.Endpoint != nil })
	if e := server.Status.Endpoint; len(e.Addresses) != 1 || e.Addresses[0] != "192.0.2.11" || e.Port != 30123 || *e.Protocol != corev1.ProtocolUDP {
		w.t.Errorf("got endpoint %+v, want UDP 192.0.2.11 port 30123, before any pod runs", e)
	}
	secret := until(w, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace, Name: "gw-milan"}}, "there", func(*corev1.Secret) bool { return true })
	want := base64.StdEncoding.EncodeToString(secret.Data["publicKey"])
	if got := server.Annotations[render.AnnotationPublicKey]; got != want || len(secret.Data["privateKey"]) != 32 {
		w.t.Errorf("got published key %q, want that of the Secret %q", got, want)
	}
	if server.Status.SecretRef == nil || server.Status.SecretRef.Name != "gw-milan" || server.Status.ServerRef == nil {
		w.t.Errorf("got secretRef %v and serverRef %v", server.Status.SecretRef, server.Status.ServerRef)
	}
	conn := until(w, &networkingv1beta1.Connection{ObjectMeta: secret.ObjectMeta}, "there", func(*networkingv1beta1.Connection) bool { return true })
	if conn.Spec.Type != networkingv1beta1.ConnectionTypeServer || conn.Spec.GatewayRef.UID != server.UID {
		w.t.Errorf("got Connection %+v, want a server's, of this gateway", conn.Spec)
	}
	for _, o := range []client.Object{secret, conn} {
		if !metav1.IsControlledBy(o, server) {
			w.t.Errorf("%T %s is not owned by the gateway, so it would outlive it", o, o.GetName())
		}
	}
	w.testPodAddress(server)
}

// testPodAddress plays the kubelet: the pod gets an address, and the nodes are
// told where to send the peer's traffic.
func (w *world) testPodAddress(server *networkingv1beta1.GatewayServer) {
	deployment := until(w, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: server.Namespace, Name: "gw-milan"}}, "there", func(*appsv1.Deployment) bool { return true })
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: server.Namespace, Name: "gw-milan-0", Labels: deployment.Spec.Template.Labels},
		Spec:       deployment.Spec.Template.Spec,
	}
	pod.Spec.NodeName = "node-a"
	w.create(pod)
	pod.Status.PodIP, pod.Status.Phase = "10.244.0.9", corev1.PodRunning
	pod.Status.PodIPs = []corev1.PodIP{{IP: "10.244.0.9"}}
	if err := w.Status().Update(w.t.Context(), pod); err != nil {
		w.t.Fatal(err)
	}
	fabric := until(w, &networkingv1beta1.InternalFabric{ObjectMeta: metav1.ObjectMeta{Namespace: server.Namespace, Name: "milan"}}, "told of the pod",
		func(f *networkingv1beta1.InternalFabric) bool { return f.Spec.GatewayIP == "10.244.0.9" })
	if len(fabric.Spec.RemoteCIDRs) != 2 || fabric.Spec.MTU != 1340 {
		w.t.Errorf("got fabric %+v, want the peer's two remapped CIDRs and the tunnel's MTU", fabric.Spec)
	}
}

func (w *world) testRepair() {
	key := metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "gw-milan"}
	deployment := until(w, &appsv1.Deployment{ObjectMeta: key}, "there", func(*appsv1.Deployment) bool { return true })
	image := deployment.Spec.Template.Spec.Containers[0].Image
	deployment.Spec.Template.Spec.Containers[0].Image = "evil:latest"
	if err := w.Update(w.t.Context(), deployment); err != nil {
		w.t.Fatal(err)
	}
	until(w, &appsv1.Deployment{ObjectMeta: key}, "repaired", func(d *appsv1.Deployment) bool {
		return d.Spec.Template.Spec.Containers[0].Image == image
	})
	service := until(w, &corev1.Service{ObjectMeta: key}, "there", func(*corev1.Service) bool { return true })
	uid := service.UID
	if err := w.Delete(w.t.Context(), service); err != nil {
		w.t.Fatal(err)
	}
	until(w, &corev1.Service{ObjectMeta: key}, "made again", func(s *corev1.Service) bool { return s.UID != uid })
	secret := until(w, &corev1.Secret{ObjectMeta: key}, "there", func(*corev1.Secret) bool { return true })
	before := bytes.Clone(secret.Data["privateKey"])
	if err := w.Get(w.t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil || !bytes.Equal(before, secret.Data["privateKey"]) {
		w.t.Errorf("repairing the others changed the keys (%v)", err)
	}
}

// testForeignCluster is about milan, which has a pod that no agent runs in.
func (w *world) testForeignCluster() {
	conn := &networkingv1beta1.Connection{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "gw-milan"}}
	until(w, conn, "there", func(*networkingv1beta1.Connection) bool { return true })
	fc := &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
	status := func(kind corev1beta1.ConditionType, want corev1beta1.ConditionStatusType) func(*corev1beta1.ForeignCluster) bool {
		return func(fc *corev1beta1.ForeignCluster) bool {
			for _, c := range fc.Status.Modules.Networking.Conditions {
				if c.Type == kind {
					return c.Status == want
				}
			}
			return false
		}
	}
	until(w, fc, "waiting for the connection", status(corev1beta1.NetworkConnectionStatusCondition, corev1beta1.ConditionStatusPending))
	conn.Status.Value = networkingv1beta1.Connected
	if err := w.Status().Update(w.t.Context(), conn); err != nil {
		w.t.Fatal(err)
	}
	until(w, fc, "connected", status(corev1beta1.NetworkConnectionStatusCondition, corev1beta1.ConditionStatusEstablished))
	if !fc.Status.Modules.Networking.Enabled || fc.Status.Modules.Authentication.Enabled || fc.Status.TenantNamespace.Local != "liqo-tenant-milan" {
		w.t.Errorf("got %+v, want networking alone enabled, and the tenant namespace named", fc.Status)
	}

	gone := w.peer("passing", "10.124.0.0/16")
	until(w, &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "passing"}}, "there", func(*corev1beta1.ForeignCluster) bool { return true })
	if err := w.Delete(w.t.Context(), gone); err != nil {
		w.t.Fatal(err)
	}
	w.untilGone(&corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "passing"}})
	w.untilGone(&ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: gone.Namespace, Name: "passing-pod-10-124-0-0-16"}})
	if again := w.peer("passing-2", "10.124.0.0/16"); again.Status.Remote.CIDR.Pod[0] != "10.124.0.0/16" {
		w.t.Errorf("a range that was released: got %s for the next peer, want it given again", again.Status.Remote.CIDR.Pod[0])
	}
}

// testCleanUp deletes a client; a server of another peer keeps its children. No garbage
// collector runs here, so what goes was deleted by the operator.
func (w *world) testCleanUp() {
	tenant := render.Tenant{Namespace: "liqo-tenant-peer-0", Remote: "peer-0"}
	gone := render.GatewayClient(render.ClientParams{
		Tenant: tenant, Template: render.TemplateRef{Name: render.ClientTemplate, Namespace: "liqo"},
		Addresses: []string{"192.0.2.7"}, Port: 51840, MTU: 1340,
	})
	w.create(gone)
	until(w, gone, "reported on", func(c *networkingv1beta1.GatewayClient) bool { return c.Status.ClientRef != nil })
	if err := w.Delete(w.t.Context(), gone); err != nil {
		w.t.Fatal(err)
	}
	children := metav1.ObjectMeta{Namespace: tenant.Namespace, Name: "gw-peer-0"}
	for _, o := range []client.Object{
		&appsv1.Deployment{ObjectMeta: children}, &corev1.Secret{ObjectMeta: children}, &networkingv1beta1.Connection{ObjectMeta: children},
		&rbacv1.Role{ObjectMeta: children}, &rbacv1.RoleBinding{ObjectMeta: children},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace, Name: "peer-0"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace, Name: "gw-peer-0-nodes"}},
	} {
		w.untilGone(o)
	}
	server := metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "gw-milan"}
	until(w, &appsv1.Deployment{ObjectMeta: server}, "there", func(d *appsv1.Deployment) bool { return d.DeletionTimestamp == nil })
}

func (w *world) untilGone(o client.Object) {
	w.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		err := w.Get(w.t.Context(), client.ObjectKeyFromObject(o), o)
		if apierrors.IsNotFound(err) {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("%T %s is still there (%v)", o, o.GetName(), err)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// testRefusal asks for a node port outside of Kubernetes' range, and for a
// template that does not exist; then for what can be had.
func (w *world) testRefusal() {
	server := render.GatewayServer(render.ServerParams{
		Tenant:      render.Tenant{Namespace: "liqo-tenant-peer-1", Remote: "peer-1"},
		Template:    render.TemplateRef{Name: "of-my-own", Namespace: "liqo"},
		ServiceType: corev1.ServiceTypeNodePort, Port: 51840, NodePort: 80, MTU: 1340,
	})
	w.create(server)
	problem := func(text string) func(*networkingv1beta1.GatewayServer) bool {
		return func(s *networkingv1beta1.GatewayServer) bool {
			return strings.Contains(s.Annotations[render.AnnotationProblem], text)
		}
	}
	until(w, server, "without its template", problem(`"of-my-own" not found`))
	server.Spec.ServerTemplateRef.Name = render.ServerTemplate
	if err := w.Update(w.t.Context(), server); err != nil {
		w.t.Fatal(err)
	}
	until(w, server, "refused its port", problem("The range of valid ports is 30000-32767"))
	if got := server.Annotations[render.AnnotationProblem]; !strings.HasPrefix(got, render.ProblemRefused) {
		w.t.Errorf("got problem %q, want it to start with %q", got, render.ProblemRefused)
	}
	server.Spec.Endpoint.NodePort = new(int32(30177))
	if err := w.Update(w.t.Context(), server); err != nil {
		w.t.Fatal(err)
	}
	until(w, server, "without a problem, at its port", func(s *networkingv1beta1.GatewayServer) bool {
		return s.Annotations[render.AnnotationProblem] == "" && s.Status.Endpoint != nil && s.Status.Endpoint.Port == 30177
	})
}

func (w *world) testUnlabelled() {
	server := render.GatewayServer(render.ServerParams{
		Tenant: render.Tenant{Namespace: "default", Remote: "x"}, ServiceType: corev1.ServiceTypeClusterIP, Port: 51840, MTU: 1340,
	})
	server.Labels = nil
	w.create(server)
	// A labelled server made later is done: the queue has passed the first one.
	later := render.GatewayServer(render.ServerParams{
		Tenant: render.Tenant{Namespace: "default", Remote: "later"}, Template: render.TemplateRef{Name: render.ServerTemplate, Namespace: "liqo"},
		ServiceType: corev1.ServiceTypeClusterIP, Port: 51840, MTU: 1340,
	})
	w.create(later)
	until(w, later, "reported on", func(s *networkingv1beta1.GatewayServer) bool { return s.Status.SecretRef != nil })
	var secret corev1.Secret
	err := w.Get(w.t.Context(), client.ObjectKey{Namespace: "default", Name: "gw-x"}, &secret)
	if !apierrors.IsNotFound(err) {
		w.t.Errorf("got %v, want no children", err)
	}
}

func TestWaitsWhileLiqoIsThere(t *testing.T) {
	w := newWorld(t)
	liqo := liqoManager()
	w.create(liqo)
	w.runOperator()
	operator := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: render.OperatorName}}
	until(w, operator, "refusing", says(render.OperatorRefusing, "liqo/liqo-controller-manager"))
	w.untilEvent("Refusing", "liqo/liqo-controller-manager")
	external := &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "external-cidr"}}
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(external), external); err != nil || external.Status.CIDR != "" {
		t.Errorf("while refusing: got external CIDR %q (%v), want it left alone", external.Status.CIDR, err)
	}
	if err := w.Delete(t.Context(), liqo); err != nil {
		t.Fatal(err)
	}
	until(w, operator, "working", says(render.OperatorWorking, ""))
	until(w, external, "decided", func(n *ipamv1alpha1.Network) bool { return n.Status.CIDR != "" })
}

func TestEndsWhenLiqoComes(t *testing.T) {
	w := newWorld(t)
	done := make(chan error, 1)
	go func() {
		done <- Run(t.Context(), w.config, Options{Namespace: "liqo", HealthAddress: "0", Identity: "first"})
	}()
	operator := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: render.OperatorName}}
	until(w, operator, "working", says(render.OperatorWorking, ""))
	w.create(liqoManager())
	if err := <-done; !errors.Is(err, errBesideLiqo) || !strings.Contains(err.Error(), "liqo/liqo-controller-manager") {
		t.Errorf("got %v, want an end that names the Deployment", err)
	}
}

func says(state render.OperatorState, text string) func(*appsv1.Deployment) bool {
	return func(d *appsv1.Deployment) bool {
		s, ok, err := render.ParseOperatorStatus(d.Annotations)
		return ok && err == nil && s.State == state && strings.Contains(s.Message, text)
	}
}

func (w *world) untilEvent(reason, text string) {
	w.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for {
		var list corev1.EventList
		if err := w.List(w.t.Context(), &list, client.InNamespace("liqo")); err != nil {
			w.t.Fatal(err)
		}
		for _, e := range list.Items {
			if e.Reason == reason && e.Type == corev1.EventTypeWarning && strings.Contains(e.Message, text) {
				return
			}
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("no warning event %s with %q; events: %+v", reason, text, list.Items)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// TestDiscoversTheClustersRanges is on a real API server, which has a
// ServiceCIDR, and nodes with ranges.
func TestDiscoversTheClustersRanges(t *testing.T) {
	w := startWorld(t)
	w.install(nil, "")
	w.runOperator()
	operator := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: render.OperatorName}}
	until(w, operator, "asking for the pods' range", says(render.OperatorNoNetworks, "--pod-cidr"))
	w.node("node-a", "192.0.2.11") // joins later, as nodes do
	for name, want := range map[string]string{
		"pod-cidr":     "10.244.0.0/16 the nodes' spec.podCIDRs, with room for more nodes; the cluster states no whole range",
		"service-cidr": "10.0.0.0/24 ServiceCIDR kubernetes",
	} {
		n := until(w, &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: name}}, "decided",
			func(n *ipamv1alpha1.Network) bool { return n.Status.CIDR != "" })
		if got := string(n.Status.CIDR) + " " + n.Annotations[render.AnnotationSource]; got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	until(w, operator, "working", says(render.OperatorWorking, ""))
}

func liqoManager() *appsv1.Deployment {
	labels := map[string]string{render.LabelAppName: "controller-manager", render.LabelPartOf: "liqo"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "liqo-controller-manager", Labels: labels},
		Spec: appsv1.DeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "manager"}}},
		}},
	}
}
