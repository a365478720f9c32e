package operator

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/internal/ipam"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

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
	t.Run("nodes are told from where a gateway's packets come", func(t *testing.T) { w.under(t).testSenders() })
	t.Run("what the cluster comes to need is left out of a range that was given", func(t *testing.T) { w.under(t).testLeftOut() })
	t.Run("no peer is seen in a network that a node knows a way to", func(t *testing.T) { w.under(t).testNodeNetworks() })
	t.Run("a peer is seen under another range when nodes and gateway have it", func(t *testing.T) { w.under(t).testRenumber() })
	t.Run("a range that the peer's operator tells of is taken over, under another one", func(t *testing.T) { w.under(t).testToldRanges() })
	t.Run("a gateway whose pod is gone attracts nothing", func(t *testing.T) { w.under(t).testGone() })
	t.Run("gateways may read where pods are, as long as they exist", func(t *testing.T) { w.under(t).testAccess() })
	t.Run("children that are deleted or edited come back", func(t *testing.T) { w.under(t).testRepair() })
	t.Run("a gateway's image is pulled with the Secrets beside its template", func(t *testing.T) { w.under(t).testPullSecrets() })
	t.Run("children lose what they are no longer told", func(t *testing.T) { w.under(t).testTakeBack() })
	t.Run("each peer is summed up in a ForeignCluster", func(t *testing.T) { w.under(t).testForeignCluster() })
	t.Run("what a gateway leaves goes without the garbage collector", func(t *testing.T) { w.under(t).testCleanUp() })
	t.Run("pods that share a tunnel have a Lease, and say themselves which one holds it", func(t *testing.T) { w.under(t).testReplicas() })
	t.Run("what the API server refuses is said on the gateway", func(t *testing.T) { w.under(t).testRefusal() })
	t.Run("gateways are made of the example templates", func(t *testing.T) { w.under(t).testExamples() })
	t.Run("another program makes gateways of templates of its own kind", func(t *testing.T) { w.under(t).testAnotherKind() })
	t.Run("a gateway without its peer's name is left alone", func(t *testing.T) { w.under(t).testUnlabelled() })
}

// testToldRanges lets a peer's operator report other ranges of its cluster.
func (w *world) testToldRanges() {
	conf := w.peer("bari", "10.201.0.0/16")
	key := render.PublicKey(render.Tenant{Namespace: conf.Namespace, Remote: "bari"}, [32]byte{7}, nil)
	key.Annotations = map[string]string{render.AnnotationPeerRanges: "10.201.0.0/16,0.0.0.0/0;10.70.0.0/16"}
	w.create(key)
	w.patch(key, func() { annotate(key, render.AnnotationPeerRanges, "10.201.0.0/16,10.202.0.0/16;10.70.0.0/16") })
	until(w, conf, "with both ranges", func(c *networkingv1beta1.Configuration) bool {
		return slices.Equal(c.Spec.Remote.CIDR.Pod, []networkingv1beta1.CIDR{"10.201.0.0/16", "10.202.0.0/16"}) && len(c.Status.Remote.CIDR.Pod) == 2
	})
	// The range that an admin has accepted stays. The other range gets none that is in use.
	if seen := conf.Status.Remote.CIDR.Pod; seen[0] != "10.201.0.0/16" || seen[1] == "10.202.0.0/16" {
		w.t.Errorf("the peer is seen under %v", seen)
	}
	if got := conf.Annotations[render.AnnotationCarriedRanges]; got != "10.202.0.0/16" {
		w.t.Errorf("got %q as carried", got)
	}
}

func (w *world) testRemapping() {
	taken := map[netip.Prefix]string{}
	for _, own := range []string{"10.244.0.0/16", "10.96.0.0/16", "10.70.0.0/16", "192.0.2.11/32"} {
		taken[netip.MustParsePrefix(own)] = "our own " + own
	}
	for i := range 3 {
		id := wire.ClusterID(fmt.Sprintf("peer-%d", i))
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
		Tenant: tenant, Template: render.TemplateRef{Name: wire.ServerTemplate, Namespace: "liqo"},
		ServiceType: corev1.ServiceTypeNodePort, Port: 51840, NodePort: 30123, MTU: 1340,
	})
	w.create(server)
	until(w, server, "with an endpoint", func(s *networkingv1beta1.GatewayServer) bool { return s.Status.Endpoint != nil })
	if e := server.Status.Endpoint; len(e.Addresses) != 1 || e.Addresses[0] != "192.0.2.11" || e.Port != 30123 || *e.Protocol != corev1.ProtocolUDP {
		w.t.Errorf("got endpoint %+v, want UDP 192.0.2.11 port 30123, before any pod runs", e)
	}
	secret := until(w, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace, Name: "gw-milan"}}, "there", func(*corev1.Secret) bool { return true })
	want := base64.StdEncoding.EncodeToString(secret.Data["publicKey"])
	if got := server.Annotations[wire.AnnotationPublicKey]; got != want || len(secret.Data["privateKey"]) != 32 {
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

// testPodAddress acts as the kubelet: the pod gets an address, and the nodes learn where to send the peer's
// traffic.
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

// testLeftOut moves a node, an API server and the endpoint of another peer into the range that milan was
// given.
func (w *world) testLeftOut() {
	meta := metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"}
	fabric := until(w, &networkingv1beta1.InternalFabric{ObjectMeta: meta}, "there", func(*networkingv1beta1.InternalFabric) bool { return true })
	whole := slices.Clone(fabric.Spec.RemoteCIDRs)
	given := netip.MustParsePrefix(string(whole[0]))
	third := given.Addr().Next().Next().Next()
	first, second := third.Prev().Prev(), third.Prev()
	leads := func(addresses ...netip.Addr) func(*networkingv1beta1.InternalFabric) bool {
		return func(f *networkingv1beta1.InternalFabric) bool {
			return slices.ContainsFunc(f.Spec.RemoteCIDRs, func(c networkingv1beta1.CIDR) bool {
				return slices.ContainsFunc(addresses, netip.MustParsePrefix(string(c)).Contains)
			})
		}
	}
	without := func(a netip.Addr) func(*networkingv1beta1.InternalFabric) bool {
		return func(f *networkingv1beta1.InternalFabric) bool { return !leads(a)(f) }
	}
	w.node("late", first.String())
	until(w, fabric, "without the node", without(first))
	siena := render.Tenant{Namespace: "liqo-tenant-siena", Remote: "siena"}
	w.create(render.TenantNamespace(siena))
	dials := render.GatewayClient(render.ClientParams{
		Tenant: siena, Template: render.TemplateRef{Name: wire.ClientTemplate, Namespace: "liqo"}, Addresses: []string{second.String()}, Port: 51840, MTU: 1340,
	})
	w.create(dials)
	until(w, fabric, "without the endpoint", without(second))
	// The API server restores its EndpointSlice every few seconds, so the address is added again and again.
	until(w, fabric, "without the API server", func(f *networkingv1beta1.InternalFabric) bool {
		slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "kubernetes"}}
		if err := w.Get(w.t.Context(), client.ObjectKeyFromObject(slice), slice); err != nil {
			w.t.Fatal(err)
		}
		if slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{third.String()}}); len(slice.Endpoints) == 2 {
			if err := w.Update(w.t.Context(), slice); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
				w.t.Fatal(err)
			}
		}
		return without(third)(f)
	})
	if !leads(third.Next())(fabric) {
		w.t.Errorf("got %v, want it to lead to all other addresses", fabric.Spec.RemoteCIDRs)
	}
	want := fmt.Sprintf("%s/32, node late\n%s/32, endpoint of GatewayClient liqo-tenant-siena/siena\n%s/32, API server", first, second, third)
	if got := fabric.Annotations[wire.AnnotationLeftOut]; got != want {
		w.t.Errorf("it says %q, want %q", got, want)
	}
	for _, o := range []client.Object{dials, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "late"}}} {
		if err := w.Delete(w.t.Context(), o); err != nil {
			w.t.Fatal(err)
		}
	}
	until(w, fabric, "whole again", func(f *networkingv1beta1.InternalFabric) bool {
		return slices.Equal(f.Spec.RemoteCIDRs, whole) && f.Annotations[wire.AnnotationLeftOut] == ""
	})
}

// testNodeNetworks writes reports as a node's fabric does, with its rights.
func (w *world) testNodeNetworks() {
	fabric, err := client.New(w.as(wire.FabricName), client.Options{Scheme: w.Scheme()})
	if err != nil {
		w.t.Fatal(err)
	}
	var node corev1.Node
	if err := fabric.Get(w.t.Context(), client.ObjectKey{Name: "node-a"}, &node); err != nil {
		w.t.Fatal(err)
	}
	for range 2 { // it may also write the same report again
		u, err := apply.Wanted(wire.InternalNode(&node, wire.NodeReport{IP: netip.MustParseAddr("192.0.2.11"), Networks: []netip.Prefix{netip.MustParsePrefix("10.128.0.0/12")}}))
		if err != nil {
			w.t.Fatal(err)
		}
		if err := fabric.Apply(w.t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(wire.FabricName)); err != nil {
			w.t.Fatal(err)
		}
	}
	w.testPolicy(fabric, &node)
	// The operator learns this a moment later, and the ranges that it gave before stay.
	for i := range 16 {
		pods := networkingv1beta1.CIDR(fmt.Sprintf("10.%d.0.0/16", 128+i))
		if got := w.peer(wire.ClusterID(fmt.Sprintf("ancona-%d", i)), pods).Status.Remote.CIDR.Pod[0]; got != pods {
			return
		}
	}
	w.t.Error("peers kept ranges of a network that a node knows a way to")
}

// testRenumber lets the operator move milan's pods to another range, because a node has got a route into the
// present range. It acts as the node's agent and as the gateway.
func (w *world) testRenumber() {
	conf := until(w, &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"}}, "there", func(*networkingv1beta1.Configuration) bool { return true })
	before := netip.MustParsePrefix(string(conf.Status.Remote.CIDR.Pod[0]))
	lan := netip.PrefixFrom(before.Addr(), 20)
	var also []netip.Prefix
	agent := func() {
		fabric, err := client.New(w.as(wire.FabricName), client.Options{Scheme: w.Scheme()})
		if err != nil {
			w.t.Fatal(err)
		}
		var node corev1.Node
		if err := w.Get(w.t.Context(), client.ObjectKey{Name: "node-a"}, &node); err != nil {
			w.t.Fatal(err)
		}
		u, err := apply.Wanted(wire.InternalNode(&node, wire.NodeReport{IP: netip.MustParseAddr("192.0.2.11"), Networks: []netip.Prefix{lan}, Also: also}))
		if err != nil {
			w.t.Fatal(err)
		}
		if err := fabric.Apply(w.t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(wire.FabricName), client.ForceOwnership); err != nil {
			w.t.Fatal(err)
		}
	}
	agent()
	want := wire.Overlap{Range: before, With: ipam.Reservation{Prefix: lan, Reason: "a route of node node-a"}}
	until(w, conf, "said to overlap the LAN", func(c *networkingv1beta1.Configuration) bool { return slices.Contains(wire.Overlaps(c), want) })

	change := conf.DeepCopy()
	for key, value := range (wire.Renumbering{Leave: []netip.Prefix{before}, Keep: time.Hour}).Annotations() {
		annotate(conf, key, value)
	}
	if err := w.Patch(w.t.Context(), conf, client.MergeFrom(change)); err != nil {
		w.t.Fatal(err)
	}
	fabric := until(w, &networkingv1beta1.InternalFabric{ObjectMeta: metav1.ObjectMeta{Namespace: conf.Namespace, Name: conf.Name}}, "leading to both ranges", func(f *networkingv1beta1.InternalFabric) bool {
		also, _ = wire.Also(f)
		return len(also) == 2
	})
	for _, p := range also {
		if !slices.Contains(fabric.Spec.RemoteCIDRs, networkingv1beta1.CIDR(p.String())) {
			w.t.Errorf("nodes are told %v and led to %v", also, fabric.Spec.RemoteCIDRs)
		}
	}
	until(w, conf, "waiting for the node", func(c *networkingv1beta1.Configuration) bool {
		said := meta.FindStatusCondition(c.Status.Conditions, wire.ConditionRenumbering)
		return said != nil && strings.Contains(said.Message, "waits for node node-a")
	})
	if got := conf.Status.Remote.CIDR.Pod[0]; string(got) != before.String() {
		w.t.Errorf("seen as %s before the node has the way", got)
	}
	agent()
	until(w, conf, "seen under another range", func(c *networkingv1beta1.Configuration) bool {
		return string(c.Status.Remote.CIDR.Pod[0]) != before.String() && len(wire.Overlaps(c)) > 0 // overlaps of the former range are still reported
	})
	change = conf.DeepCopy()
	annotate(conf, wire.AnnotationKeep, "0s")
	if err := w.Patch(w.t.Context(), conf, client.MergeFrom(change)); err != nil {
		w.t.Fatal(err)
	}
	until(w, conf, "without the former range", func(c *networkingv1beta1.Configuration) bool {
		return c.Annotations[wire.AnnotationAlso] == "" && len(wire.Overlaps(c)) == 0
	})
	until(w, fabric, "leading to the next range alone", func(f *networkingv1beta1.InternalFabric) bool {
		return f.Annotations[wire.AnnotationAlso] == "" && len(f.Spec.RemoteCIDRs) == 2 && !slices.Contains(f.Spec.RemoteCIDRs, networkingv1beta1.CIDR(before.String()))
	})
	w.untilGone(&ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: conf.Namespace, Name: "milan-pod-10-244-0-0-16"}})
	lan = netip.MustParsePrefix("10.128.0.0/12")
	agent()
}

func (w *world) testRepair() {
	key := metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "gw-milan"}
	deployment := until(w, &appsv1.Deployment{ObjectMeta: key}, "there", func(*appsv1.Deployment) bool { return true })
	image := deployment.Spec.Template.Spec.Containers[0].Image
	deployment.Spec.Template.Spec.Containers[0].Image = "evil:latest"
	role := until(w, &rbacv1.Role{ObjectMeta: key}, "there", func(*rbacv1.Role) bool { return true })
	rules := len(role.Rules)
	role.Rules[0].Verbs = []string{"*"}
	for _, o := range []client.Object{deployment, role} {
		if err := w.Update(w.t.Context(), o); err != nil {
			w.t.Fatal(err)
		}
	}
	until(w, &appsv1.Deployment{ObjectMeta: key}, "repaired", func(d *appsv1.Deployment) bool {
		return d.Spec.Template.Spec.Containers[0].Image == image
	})
	until(w, &rbacv1.Role{ObjectMeta: key}, "repaired", func(r *rbacv1.Role) bool {
		return len(r.Rules) == rules && !slices.Contains(r.Rules[0].Verbs, "*")
	})
	secret := until(w, &corev1.Secret{ObjectMeta: key}, "there", func(*corev1.Secret) bool { return true })
	before := bytes.Clone(secret.Data["privateKey"])
	gateway := metav1.ObjectMeta{Namespace: key.Namespace, Name: "milan"}
	for _, o := range []client.Object{
		&appsv1.Deployment{ObjectMeta: key}, &corev1.Service{ObjectMeta: key}, &networkingv1beta1.Connection{ObjectMeta: key},
		&rbacv1.Role{ObjectMeta: key}, &rbacv1.RoleBinding{ObjectMeta: key}, &corev1.ServiceAccount{ObjectMeta: gateway},
		&networkingv1beta1.InternalFabric{ObjectMeta: gateway},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "gw-milan-hosts"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "gw-milan-history"}},
		&ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "milan-external-10-70-0-0-16"}},
		&corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}},
	} {
		until(w, o, "there", func(client.Object) bool { return true })
		uid := o.GetUID()
		if err := w.Delete(w.t.Context(), o); err != nil {
			w.t.Fatal(err)
		}
		until(w, o, "made again", func(o client.Object) bool { return o.GetUID() != uid })
	}
	// Tokens of the earlier account are refused.
	account := until(w, &corev1.ServiceAccount{ObjectMeta: gateway}, "there", func(*corev1.ServiceAccount) bool { return true })
	until(w, &appsv1.Deployment{ObjectMeta: key}, "with pods of the account that there is", func(d *appsv1.Deployment) bool {
		return d.Spec.Template.Annotations[wire.AnnotationAccount] == string(account.UID)
	})
	if err := w.Get(w.t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil || !bytes.Equal(before, secret.Data["privateKey"]) {
		w.t.Errorf("repairing the others changed the keys (%v)", err)
	}
}

// testForeignCluster checks milan's ForeignCluster. milan has a pod in which no agent runs.
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

// testCleanUp deletes a client. A server of another peer keeps its children. No garbage collector runs here,
// so the operator itself deleted the objects.
func (w *world) testCleanUp() {
	tenant := render.Tenant{Namespace: "liqo-tenant-peer-0", Remote: "peer-0"}
	gone := render.GatewayClient(render.ClientParams{
		Tenant: tenant, Template: render.TemplateRef{Name: wire.ClientTemplate, Namespace: "liqo"},
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
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace, Name: "gw-peer-0-hosts"}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace, Name: "gw-peer-0-history"}},
	} {
		w.untilGone(o)
	}
	server := metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "gw-milan"}
	until(w, &appsv1.Deployment{ObjectMeta: server}, "there", func(d *appsv1.Deployment) bool { return d.DeletionTimestamp == nil })
}

// testRefusal requests a node port outside of Kubernetes' range, and a template that does not exist. Then it
// requests possible values.
func (w *world) testRefusal() {
	server := render.GatewayServer(render.ServerParams{
		Tenant:      render.Tenant{Namespace: "liqo-tenant-peer-1", Remote: "peer-1"},
		Template:    render.TemplateRef{Name: "of-my-own", Namespace: "liqo"},
		ServiceType: corev1.ServiceTypeNodePort, Port: 51840, NodePort: 80, MTU: 1340,
	})
	w.create(server)
	problem := func(text string) func(*networkingv1beta1.GatewayServer) bool {
		return func(s *networkingv1beta1.GatewayServer) bool {
			return strings.Contains(s.Annotations[wire.AnnotationProblem], text)
		}
	}
	until(w, server, "without its template", problem(`"of-my-own" not found`))
	server.Spec.ServerTemplateRef.Name, server.Spec.ServerTemplateRef.Kind = wire.ServerTemplate, "IPSecGatewayServerTemplate"
	if err := w.Update(w.t.Context(), server); err != nil {
		w.t.Fatal(err)
	}
	until(w, server, "with a template of another kind", problem("there is no kind IPSecGatewayServerTemplate in networking.liqo.io/v1beta1 on this cluster: install its definition"))
	server.Spec.ServerTemplateRef.Kind = networkingv1beta1.WgGatewayServerTemplateKind
	if err := w.Update(w.t.Context(), server); err != nil {
		w.t.Fatal(err)
	}
	until(w, server, "refused its port", problem("The range of valid ports is 30000-32767"))
	if got := server.Annotations[wire.AnnotationProblem]; !strings.HasPrefix(got, wire.ProblemRefused) {
		w.t.Errorf("got problem %q, want it to start with %q", got, wire.ProblemRefused)
	}
	server.Spec.Endpoint.NodePort = new(int32(30177))
	if err := w.Update(w.t.Context(), server); err != nil {
		w.t.Fatal(err)
	}
	until(w, server, "without a problem, at its port", func(s *networkingv1beta1.GatewayServer) bool {
		return s.Annotations[wire.AnnotationProblem] == "" && s.Status.Endpoint != nil && s.Status.Endpoint.Port == 30177
	})
	var events []corev1.Event
	for _, e := range [][3]string{
		{corev1.EventTypeWarning, "Failing", `"of-my-own" not found`},
		{corev1.EventTypeWarning, "Refused", "The range of valid ports is 30000-32767"},
		{corev1.EventTypeNormal, "Recovered", ""},
	} {
		events = append(events, w.untilEvent(server.Namespace, e[0], e[1], e[2])...)
	}
	for _, e := range events {
		if e.InvolvedObject.UID != server.UID || e.InvolvedObject.Kind != networkingv1beta1.GatewayServerKind || len(events) > 4 {
			w.t.Errorf("one of %d events, want one of 4 at most, about %s: %+v", len(events), server.UID, e)
		}
	}
}

func (w *world) testUnlabelled() {
	server := render.GatewayServer(render.ServerParams{
		Tenant: render.Tenant{Namespace: "default", Remote: "x"}, ServiceType: corev1.ServiceTypeClusterIP, Port: 51840, MTU: 1340,
	})
	server.Labels = nil
	w.create(server)
	// A later server with a label is complete, so the queue has passed the first server.
	later := render.GatewayServer(render.ServerParams{
		Tenant: render.Tenant{Namespace: "default", Remote: "later"}, Template: render.TemplateRef{Name: wire.ServerTemplate, Namespace: "liqo"},
		ServiceType: corev1.ServiceTypeClusterIP, Port: 51840, MTU: 1340,
	})
	w.create(later)
	// Its peer is invited, and there is no Configuration before the peer answers.
	until(w, later, "reported on", func(s *networkingv1beta1.GatewayServer) bool { return s.Status.SecretRef != nil })
	var secret corev1.Secret
	err := w.Get(w.t.Context(), client.ObjectKey{Namespace: "default", Name: "gw-x"}, &secret)
	if !apierrors.IsNotFound(err) {
		w.t.Errorf("got %v, want no children", err)
	}
}

// TestNeverWorksBesideLiqo runs one process of the operator while Liqo's controller-manager is present,
// absent, and present again.
func TestNeverWorksBesideLiqo(t *testing.T) {
	w := newWorld(t)
	w.create(liqoManager())
	w.runOperator()
	operator := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: wire.OperatorName}}
	until(w, operator, "refusing", says(wire.OperatorRefusing, "liqo/liqo-controller-manager"))
	w.untilEvent("liqo", corev1.EventTypeWarning, "Refusing", "liqo/liqo-controller-manager")
	external := &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "external-cidr"}}
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(external), external); err != nil || external.Status.CIDR != "" {
		t.Errorf("while refusing: got external CIDR %q (%v), want it left alone", external.Status.CIDR, err)
	}
	if err := w.Delete(t.Context(), liqoManager()); err != nil {
		t.Fatal(err)
	}
	until(w, operator, "working", says(wire.OperatorWorking, ""))
	until(w, external, "decided", func(n *ipamv1alpha1.Network) bool { return n.Status.CIDR != "" })

	w.create(liqoManager())
	until(w, operator, "refusing again", says(wire.OperatorRefusing, "liqo/liqo-controller-manager"))
	tenant := render.Tenant{Namespace: wire.TenantNamespaceName("milan"), Remote: "milan"}
	w.create(render.TenantNamespace(tenant))
	conf := render.Configuration(tenant, render.Networks{Pod: []networkingv1beta1.CIDR{"10.244.0.0/16"}, External: []networkingv1beta1.CIDR{"10.70.0.0/16"}})
	w.create(conf)
	// When the operator reports Liqo's new name, it has finished all earlier work.
	other := liqoManager()
	other.Name = "another-controller-manager"
	w.create(other)
	if err := w.Delete(t.Context(), liqoManager()); err != nil {
		t.Fatal(err)
	}
	until(w, operator, "naming the other one", says(wire.OperatorRefusing, "liqo/another-controller-manager"))
	if err := w.Get(t.Context(), client.ObjectKeyFromObject(conf), conf); err != nil || conf.Status.Remote != nil {
		t.Errorf("refusing again: got a Configuration remapped to %+v (%v), want it left alone", conf.Status.Remote, err)
	}
	if err := w.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	until(w, conf, "remapped", func(c *networkingv1beta1.Configuration) bool { return c.Status.Remote != nil })
}

// TestDiscoversTheClustersRanges uses a real API server, which has a ServiceCIDR and nodes with ranges.
func TestDiscoversTheClustersRanges(t *testing.T) {
	w := startWorld(t)
	w.install(nil, "")
	w.runOperator()
	operator := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: wire.OperatorName}}
	until(w, operator, "asking for the pods' range", says(wire.OperatorNoNetworks, "the installation has to state"))
	w.node("node-a", "192.0.2.11") // a node that joins later
	for name, want := range map[string]string{
		"pod-cidr":     "10.244.0.0/16 the nodes' spec.podCIDRs, with room for more nodes; the cluster states no whole range",
		"service-cidr": "10.0.0.0/24 ServiceCIDR kubernetes",
	} {
		n := until(w, &ipamv1alpha1.Network{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: name}}, "decided",
			func(n *ipamv1alpha1.Network) bool { return n.Status.CIDR != "" })
		if got := string(n.Status.CIDR) + " " + n.Annotations[wire.AnnotationSource]; got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	until(w, operator, "working", says(wire.OperatorWorking, ""))
}
