package operator

import (
	"os"
	"strings"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/examples/networking"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// testExamples lets the API server accept the objects of each example template.
func (w *world) testExamples() {
	templates, err := networking.Templates("lab.local/liqo-gateway:dev")
	if err != nil {
		w.t.Fatal(err)
	}
	tenant := render.Tenant{Namespace: "liqo-tenant-lucca", Remote: "lucca"}
	w.peer(tenant.Remote, "10.77.0.0/16")
	for _, u := range templates {
		w.create(u)
		tenant.Name = u.GetName()
		ref := render.TemplateRef{Name: u.GetName(), Namespace: u.GetNamespace()}
		var gateway client.Object = render.GatewayClient(render.ClientParams{Tenant: tenant, Template: ref, Addresses: []string{"192.0.2.7"}, Port: 51840, MTU: 1340})
		if u.GetKind() == networkingv1beta1.WgGatewayServerTemplateKind {
			gateway = render.GatewayServer(render.ServerParams{Tenant: tenant, Template: ref, ServiceType: corev1.ServiceTypeLoadBalancer, Port: 51840, MTU: 1340})
		}
		w.create(gateway)
		child := metav1.ObjectMeta{Namespace: tenant.Namespace, Name: wire.GatewayObjectName(gateway.GetName())}
		until(w, &appsv1.Deployment{ObjectMeta: child}, "made of "+u.GetName(), func(*appsv1.Deployment) bool { return true })
		if _, ok := gateway.(*networkingv1beta1.GatewayServer); ok {
			until(w, &corev1.Service{ObjectMeta: child}, "made of "+u.GetName(), func(*corev1.Service) bool { return true })
		}
		if err := w.Delete(w.t.Context(), gateway); err != nil {
			w.t.Fatal(err)
		}
		w.untilGone(&appsv1.Deployment{ObjectMeta: child}) // the next Service may get the same node port
		w.untilGone(&corev1.Service{ObjectMeta: child})
	}
}

// testAnotherKind uses a gateway that another program makes, from a template of its own kind, and then one of
// our gateways.
func (w *world) testAnotherKind() {
	text, err := os.ReadFile("../../examples/networking/another-kind/udp.yaml")
	if err != nil {
		w.t.Fatal(err)
	}
	var template *unstructured.Unstructured
	for part := range strings.SplitSeq(string(text), "\n---\n") {
		template = &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(part), &template.Object); err != nil {
			w.t.Fatal(err)
		}
		for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
			err := w.Create(w.t.Context(), template)
			if err == nil {
				break
			}
			// A new kind is served a moment after its definition.
			if !meta.IsNoMatchError(err) && !apierrors.IsNotFound(err) || time.Now().After(deadline) {
				w.t.Fatal(err)
			}
		}
		if o := template; o.GetNamespace() == "" { // later tests don't expect cluster-wide objects
			w.t.Cleanup(func() { _ = w.Delete(w.t.Context(), o) })
		}
	}

	tenant := render.Tenant{Namespace: "liqo-tenant-pisa", Remote: "pisa"}
	w.peer(tenant.Remote, "10.78.0.0/16")
	server := render.GatewayServer(render.ServerParams{
		Tenant:      tenant,
		Template:    render.TemplateRef{Name: template.GetName(), Namespace: template.GetNamespace(), Kind: template.GetKind(), APIVersion: template.GetAPIVersion()},
		ServiceType: corev1.ServiceTypeNodePort, Port: 4789, MTU: 1340,
	})
	w.create(server)
	made := &unstructured.Unstructured{}
	made.SetAPIVersion("tunnels.example/v1")
	made.SetKind("UDPServer")
	made.SetNamespace(tenant.Namespace)
	made.SetName(server.Name)
	until(w, made, "made", func(u *unstructured.Unstructured) bool { return u.GetUID() != "" })
	port, _, err := unstructured.NestedInt64(made.Object, "spec", "port")
	owner, _, err2 := unstructured.NestedString(made.Object, "spec", "owner")
	if err != nil || err2 != nil || port != 4789 || owner != string(server.UID) || made.GetLabels()["tunnels.example/peer"] != "pisa" || metav1.GetControllerOf(made).UID != server.UID {
		w.t.Errorf("got %+v (%v, %v)", made.Object, err, err2)
	}
	if err := w.Patch(w.t.Context(), made.DeepCopy(), merge(`{"status": {"endpoint": {"addresses": ["192.0.2.77"], "port": 4790, "protocol": "UDP"}, "internalEndpoint": {"ip": "10.244.0.77", "node": "node-a"}}}`)); err != nil {
		w.t.Fatal(err)
	}
	until(w, server, "where the other program says", func(s *networkingv1beta1.GatewayServer) bool {
		e := s.Status.Endpoint
		return e != nil && len(e.Addresses) == 1 && e.Addresses[0] == "192.0.2.77" && e.Port == 4790 && s.Status.ServerRef != nil && s.Status.ServerRef.Kind == "UDPServer"
	})
	until(w, &networkingv1beta1.InternalFabric{ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace, Name: server.Name}}, "leading there",
		func(f *networkingv1beta1.InternalFabric) bool {
			return f.Spec.GatewayIP == "10.244.0.77" && f.Annotations[wire.AnnotationNodeIPs] == "192.0.2.11" // without this, nodes would accept the peer's packets from any sender
		})
	var ours appsv1.DeploymentList
	if err := w.List(w.t.Context(), &ours, client.InNamespace(tenant.Namespace)); err != nil || len(ours.Items) != 0 {
		w.t.Errorf("there are %d Deployments (%v)", len(ours.Items), err)
	}

	// A template must not let the operator make every object that the operator may make.
	for patch, want := range map[string]string{
		`{"spec": {"objectKind": {"apiVersion": "apps/v1", "kind": "Deployment"}}}`:                                                                   ".spec.objectKind: a UDPServerTemplate describes no Deployment.apps",
		`{"spec": {"objectKind": {"apiVersion": "tunnels.example/v1", "kind": "UDPServer"}, "template": {"metadata": {"namespace": "kube-system"}}}}`: `.metadata.namespace: "kube-system" is not the gateway's namespace`,
	} {
		if err := w.Patch(w.t.Context(), template.DeepCopy(), merge(patch)); err != nil {
			w.t.Fatal(err)
		}
		until(w, server, "refusing "+patch, func(s *networkingv1beta1.GatewayServer) bool {
			text := s.Annotations[wire.AnnotationProblem]
			return strings.HasPrefix(text, wire.ProblemRefused) && strings.Contains(text, want)
		})
		if s := made; w.Get(w.t.Context(), client.ObjectKeyFromObject(made), s) != nil {
			w.t.Error("the gateway that runs was not left alone")
		}
		if err := w.Patch(w.t.Context(), template.DeepCopy(), merge(`{"spec": {"objectKind": {"apiVersion": "tunnels.example/v1", "kind": "UDPServer"}, "template": {"metadata": {"namespace": null}}}}`)); err != nil {
			w.t.Fatal(err)
		}
	}

	// A kind is a kind of template if its definition has the label.
	if err := w.Get(w.t.Context(), client.ObjectKeyFromObject(server), server); err != nil {
		w.t.Fatal(err)
	}
	server.Spec.ServerTemplateRef = corev1.ObjectReference{APIVersion: "tunnels.example/v1", Kind: "UDPServer", Namespace: tenant.Namespace, Name: server.Name}
	if err := w.Update(w.t.Context(), server); err != nil {
		w.t.Fatal(err)
	}
	until(w, server, "refusing what is no template", func(s *networkingv1beta1.GatewayServer) bool {
		return strings.Contains(s.Annotations[wire.AnnotationProblem], "udpservers.tunnels.example: bind its ServiceAccount")
	})

	server.Spec.ServerTemplateRef = corev1.ObjectReference{Namespace: "liqo", Name: wire.ServerTemplate}
	if err := w.Update(w.t.Context(), server); err != nil {
		w.t.Fatal(err)
	}
	until(w, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: tenant.Namespace, Name: "gw-" + server.Name}}, "made", func(*appsv1.Deployment) bool { return true })
	w.untilGone(made)
}
