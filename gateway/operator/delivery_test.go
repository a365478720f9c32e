package operator

import (
	"net/netip"
	"strings"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// testSenders tests the node addresses in the InternalFabric. Packets from the gateway's node may have any
// address of the node as source.
func (w *world) testSenders() {
	fabric := &networkingv1beta1.InternalFabric{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"}}
	says := func(want string) func(*networkingv1beta1.InternalFabric) bool {
		return func(f *networkingv1beta1.InternalFabric) bool { return f.Annotations[wire.AnnotationNodeIPs] == want }
	}
	until(w, fabric, "naming the pod's node", says("192.0.2.11"))
	var node corev1.Node
	if err := w.Get(w.t.Context(), client.ObjectKey{Name: "node-a"}, &node); err != nil {
		w.t.Fatal(err)
	}
	said := wire.InternalNode(&node, wire.NodeReport{
		IP: netip.MustParseAddr("192.0.2.11"), Addresses: []netip.Addr{netip.MustParseAddr("192.0.2.11"), netip.MustParseAddr("203.0.113.11")},
	})
	w.create(said)
	until(w, fabric, "naming all of the node's addresses", says("192.0.2.11,203.0.113.11"))
	if host, ok := fabric.Annotations[wire.AnnotationHost]; ok {
		w.t.Errorf("nodes are told of %q, whose agent does not say that it passes packets on", host)
	}
	said.Annotations[wire.AnnotationMTU] = "1450"
	if err := w.Update(w.t.Context(), said); err != nil {
		w.t.Fatal(err)
	}
	until(w, fabric, "naming the node that passes packets on to the pod", func(f *networkingv1beta1.InternalFabric) bool {
		return f.Annotations[wire.AnnotationHost] == string(f.Spec.GatewayIP)+"@192.0.2.11"
	})
	if err := w.Delete(w.t.Context(), said); err != nil {
		w.t.Fatal(err)
	}
	until(w, fabric, "naming the pod's node again", says("192.0.2.11"))
}

// testGone lets milan's pod end, and another pod start.
func (w *world) testGone() {
	fabric := &networkingv1beta1.InternalFabric{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"}}
	old := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: fabric.Namespace, Name: "gw-milan-0"}}
	until(w, fabric, "leading to the pod", func(f *networkingv1beta1.InternalFabric) bool {
		return f.Spec.GatewayIP == "10.244.0.9" && f.Annotations[wire.AnnotationGone] == ""
	})
	if err := w.Get(w.t.Context(), client.ObjectKeyFromObject(old), old); err != nil {
		w.t.Fatal(err)
	}
	if err := w.Delete(w.t.Context(), old, client.GracePeriodSeconds(0)); err != nil {
		w.t.Fatal(err)
	}
	until(w, fabric, "marked as without its pod", func(f *networkingv1beta1.InternalFabric) bool {
		return f.Spec.GatewayIP == "10.244.0.9" && f.Annotations[wire.AnnotationGone] == "10.244.0.9"
	})
	start := func(name, ip string) *corev1.Pod {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: old.Namespace, Name: name, Labels: old.Labels}, Spec: old.Spec}
		w.create(pod)
		pod.Status.PodIP, pod.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
		if err := w.Status().Update(w.t.Context(), pod); err != nil {
			w.t.Fatal(err)
		}
		until(w, fabric, "leading to the next pod", func(f *networkingv1beta1.InternalFabric) bool {
			return f.Spec.GatewayIP == networkingv1beta1.IP(ip) && f.Annotations[wire.AnnotationGone] == ""
		})
		return pod
	}
	next := start("gw-milan-1", "10.244.0.10")
	// A failed pod has given back its address, although its object exists.
	next.Status.Phase = corev1.PodFailed
	if err := w.Status().Update(w.t.Context(), next); err != nil {
		w.t.Fatal(err)
	}
	until(w, fabric, "marked as without its pod", func(f *networkingv1beta1.InternalFabric) bool {
		return f.Annotations[wire.AnnotationGone] == "10.244.0.10"
	})
	start("gw-milan-2", "10.244.0.9")
	if err := w.Delete(w.t.Context(), next, client.GracePeriodSeconds(0)); err != nil {
		w.t.Fatal(err)
	}
}

// testAccess reads InternalNodes as gateways of older and newer releases do.
func (w *world) testAccess() {
	tenant := render.Tenant{Namespace: "liqo-tenant-lecce", Remote: "lecce"}
	w.create(render.TenantNamespace(tenant))
	pod, err := client.New(w.server.As("system:serviceaccount:liqo-tenant-lecce:lecce", "system:serviceaccounts"), client.Options{Scheme: w.Scheme()})
	if err != nil {
		w.t.Fatal(err)
	}
	reads := func() bool {
		w.t.Helper()
		err := pod.List(w.t.Context(), &networkingv1beta1.InternalNodeList{})
		if err != nil && !apierrors.IsForbidden(err) {
			w.t.Fatal(err)
		}
		return err == nil
	}
	await := func(what string, want bool) {
		w.t.Helper()
		for deadline := time.Now().Add(patience); reads() != want; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				w.t.Fatalf("%s: it reads InternalNodes: %v, want %v", what, !want, want)
			}
		}
	}
	await("there is no gateway", false)
	gateway := render.GatewayClient(render.ClientParams{
		Tenant: tenant, Template: render.TemplateRef{Name: wire.ClientTemplate, Namespace: "liqo"}, Addresses: []string{"192.0.2.7"}, Port: 51840, MTU: 1340,
	})
	w.create(gateway)
	w.create(render.Configuration(tenant, render.Networks{Pod: []networkingv1beta1.CIDR{"10.245.0.0/16"}, External: []networkingv1beta1.CIDR{"10.75.0.0/16"}}))
	await("the gateway is there, and its peer's ranges are", true)
	if err := pod.List(w.t.Context(), &corev1.NodeList{}); !apierrors.IsForbidden(err) {
		w.t.Errorf("it lists Nodes: %v, want that forbidden", err)
	}
	if err := w.Delete(w.t.Context(), gateway); err != nil {
		w.t.Fatal(err)
	}
	await("the gateway is gone", false)
}

// testPolicy lets a node's fabric write about other nodes. The API server enforces an admission policy a
// moment after its creation.
func (w *world) testPolicy(fabric client.Client, node *corev1.Node) {
	w.t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		other := wire.InternalNode(node, wire.NodeReport{IP: netip.MustParseAddr("192.0.2.66")})
		other.Name, other.OwnerReferences = "node-b", nil
		err := fabric.Create(w.t.Context(), other)
		if apierrors.IsInvalid(err) && strings.Contains(err.Error(), "its own node only, and its token is of node node-a") {
			return
		}
		if err == nil {
			err = w.Delete(w.t.Context(), other)
		}
		if err != nil {
			w.t.Fatal(err)
		}
		if time.Now().After(deadline) {
			w.t.Fatal("the agent of node-a may speak of node-b")
		}
	}
}
