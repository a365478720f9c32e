package operator

import (
	"slices"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// testReplicas uses a client whose template requests two pods.
func (w *world) testReplicas() {
	w.setReplicas(2)
	defer w.setReplicas(1)
	w.peer("turin", "10.244.0.0/16")
	tenant := render.Tenant{Namespace: "liqo-tenant-turin", Remote: "turin"}
	gateway := render.GatewayClient(render.ClientParams{
		Tenant: tenant, Template: render.TemplateRef{Name: wire.ClientTemplate, Namespace: "liqo"},
		Addresses: []string{"192.0.2.7"}, Port: 51840, MTU: 1340,
	})
	w.create(gateway)
	meta := metav1.ObjectMeta{Namespace: tenant.Namespace, Name: "gw-turin"}
	deployment := until(w, &appsv1.Deployment{ObjectMeta: meta}, "there", func(*appsv1.Deployment) bool { return true })
	until(w, &coordinationv1.Lease{ObjectMeta: meta}, "there", func(l *coordinationv1.Lease) bool { return metav1.IsControlledBy(l, gateway) })
	var pods []*corev1.Pod
	for i, ip := range []string{"10.244.0.21", "10.244.0.22"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: meta.Namespace, Name: []string{"gw-turin-a", "gw-turin-b"}[i], Labels: deployment.Spec.Template.Labels}, Spec: deployment.Spec.Template.Spec}
		w.create(pod)
		pod.Status.PodIP, pod.Status.PodIPs = ip, []corev1.PodIP{{IP: ip}}
		if err := w.Status().Update(w.t.Context(), pod); err != nil {
			w.t.Fatal(err)
		}
		pods = append(pods, pod)
	}
	until(w, &rbacv1.Role{ObjectMeta: meta}, "about the pods", func(r *rbacv1.Role) bool {
		return slices.ContainsFunc(r.Rules, func(rule rbacv1.PolicyRule) bool {
			return slices.Equal(rule.ResourceNames, []string{"gw-turin-a", "gw-turin-b"}) && slices.Equal(rule.Verbs, []string{"patch"})
		})
	})
	fabric := until(w, &networkingv1beta1.InternalFabric{ObjectMeta: metav1.ObjectMeta{Namespace: meta.Namespace, Name: "turin"}}, "there",
		func(*networkingv1beta1.InternalFabric) bool { return true })

	// The older pod holds the tunnel, and reports this.
	w.patch(fabric, func() { fabric.Spec.GatewayIP, fabric.Spec.Interface.Gateway.IP = "10.244.0.21", "10.244.0.21" })
	w.patch(pods[0], func() { pods[0].Labels[wire.LabelActive] = "true" })
	until(w, gateway, "saying where its pod is", func(g *networkingv1beta1.GatewayClient) bool {
		return g.Status.InternalEndpoint != nil && *g.Status.InternalEndpoint.IP == "10.244.0.21"
	})
	// The operator writes the InternalFabric after this change.
	w.patch(gateway, func() { gateway.Spec.MTU = 1300 })
	until(w, fabric, "changed", func(f *networkingv1beta1.InternalFabric) bool { return f.Spec.MTU == 1300 })
	if fabric.Spec.GatewayIP != "10.244.0.21" || fabric.Spec.Interface.Gateway.IP != "10.244.0.21" {
		w.t.Errorf("nodes are sent to %s, want them left with the pod that said that it holds the tunnel", fabric.Spec.GatewayIP)
	}
	// The other pod takes over, and the operator gets the change.
	w.patch(fabric, func() { fabric.Spec.GatewayIP, fabric.Spec.Interface.Gateway.IP = "10.244.0.22", "10.244.0.22" })
	w.patch(pods[0], func() { delete(pods[0].Labels, wire.LabelActive) })
	w.patch(pods[1], func() { pods[1].Labels[wire.LabelActive] = "true" })
	until(w, gateway, "saying that the other pod has it", func(g *networkingv1beta1.GatewayClient) bool {
		return *g.Status.InternalEndpoint.IP == "10.244.0.22"
	})
	if err := w.Get(w.t.Context(), client.ObjectKeyFromObject(fabric), fabric); err != nil || fabric.Spec.GatewayIP != "10.244.0.22" {
		w.t.Errorf("nodes are sent to %s, want 10.244.0.22 (%v)", fabric.Spec.GatewayIP, err)
	}

	lease := &coordinationv1.Lease{ObjectMeta: meta}
	if err := w.Delete(w.t.Context(), gateway); err != nil {
		w.t.Fatal(err)
	}
	w.untilGone(lease)
}

func (w *world) patch(o client.Object, change func()) {
	w.t.Helper()
	before := o.DeepCopyObject().(client.Object)
	change()
	if err := w.Patch(w.t.Context(), o, client.MergeFrom(before)); err != nil {
		w.t.Fatalf("patch %T %s: %v", o, o.GetName(), err)
	}
}

// setReplicas changes the template for clients, as an admin may do.
func (w *world) setReplicas(n int64) {
	w.t.Helper()
	template := clientKind.newTemplate()
	if err := w.Get(w.t.Context(), client.ObjectKey{Namespace: "liqo", Name: wire.ClientTemplate}, template); err != nil {
		w.t.Fatal(err)
	}
	if err := unstructured.SetNestedField(template.Object, n, "spec", "template", "spec", "deployment", "spec", "replicas"); err != nil {
		w.t.Fatal(err)
	}
	if err := w.Update(w.t.Context(), template); err != nil {
		w.t.Fatal(err)
	}
}
