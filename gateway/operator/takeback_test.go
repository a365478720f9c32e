package operator

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/liqo-tui/liqo-tui/gateway/operator/ranges"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// testTakeBack removes a template's key, a gateway's setting and the last IP. The children follow.
func (w *world) testTakeBack() {
	meta := metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "gw-milan"}
	w.takeBackHost(metav1.ObjectMeta{Namespace: meta.Namespace, Name: "gw-milan-hosts"})
	w.takeBackTemplateKey(meta)
	w.takeBackNodePort(meta)
	w.takeBackLoadBalancerIP(meta)
	history := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: meta.Namespace, Name: "gw-milan-history"}}
	if err := w.Patch(w.t.Context(), history, merge(`{"data":{"history.json":"as a gateway writes"}}`)); err != nil {
		w.t.Fatal(err)
	}
	defer func() {
		if err := w.Get(w.t.Context(), client.ObjectKeyFromObject(history), history); err != nil || history.Data["history.json"] != "as a gateway writes" {
			w.t.Errorf("the operator has changed what a gateway recorded: %v, %v", history.Data, err)
		}
	}()
	w.untilNothingIsApplied(client.ObjectKey{Namespace: meta.Namespace, Name: "milan"})
}

// untilNothingIsApplied reconciles a server again and again. A value that the API server adds must not count
// as a value to remove.
func (w *world) untilNothingIsApplied(key client.ObjectKey) {
	w.t.Helper()
	direct, err := client.NewWithWatch(w.config, client.Options{Scheme: w.Scheme()})
	if err != nil {
		w.t.Fatal(err)
	}
	var mu sync.Mutex
	var applied []string
	counting := interceptor.NewClient(direct, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			mu.Lock()
			applied = append(applied, apply.Name(o.(wire.Object)))
			mu.Unlock()
			return c.Apply(ctx, o, options...)
		},
	})
	r := &gateways{kind: serverKind, client: counting, reader: direct, surroundings: ranges.NewSurroundings(direct, direct, w.config), turns: &turns{}}
	deadline := time.Now().Add(patience)
	for {
		applied = nil
		if _, err := r.Reconcile(w.t.Context(), ctrl.Request{NamespacedName: key}); err == nil && len(applied) == 0 {
			return
		} else if time.Now().After(deadline) {
			w.t.Fatalf("the gateway's children are applied again each time (%v): %q", err, applied)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (w *world) takeBackHost(nodes metav1.ObjectMeta) {
	host := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: nodes.Namespace, Name: "host"}, Spec: ipamv1alpha1.IPSpec{IP: "198.51.100.7"}}
	w.create(host)
	hosts := func(n int) func(*corev1.ConfigMap) bool {
		return func(c *corev1.ConfigMap) bool {
			got, err := render.ParseHosts(c)
			return err == nil && len(got) == n
		}
	}
	until(w, &corev1.ConfigMap{ObjectMeta: nodes}, "told of the host", hosts(1))
	if err := w.Delete(w.t.Context(), host); err != nil {
		w.t.Fatal(err)
	}
	until(w, &corev1.ConfigMap{ObjectMeta: nodes}, "told that the last host is gone", hosts(0))
}

func (w *world) takeBackTemplateKey(meta metav1.ObjectMeta) {
	const scrape = "prometheus.io/scrape"
	pod := []string{"spec", "template", "spec", "deployment", "spec", "template"}
	scraped := func(want bool) func(*appsv1.Deployment) bool {
		return func(d *appsv1.Deployment) bool { return (d.Spec.Template.Annotations[scrape] != "") == want }
	}
	until(w, &appsv1.Deployment{ObjectMeta: meta}, "annotated", scraped(true))
	requests := func(d *appsv1.Deployment) bool { return len(d.Spec.Template.Spec.Containers[0].Resources.Requests) > 0 }
	w.installWith(render.InstallParams{Pods: &render.ProgramSettings{PodSettings: render.PodSettings{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "mirror"}, {Name: "registry"}}}}})
	restore := w.editServerTemplate(func(t *unstructured.Unstructured) {
		unstructured.RemoveNestedField(t.Object, append(slices.Clone(pod), "metadata", "annotations", scrape)...)
		containers, _, err := unstructured.NestedSlice(t.Object, append(slices.Clone(pod), "spec", "containers")...)
		if err != nil {
			w.t.Fatal(err)
		}
		delete(containers[0].(map[string]any), "resources")
		if err := unstructured.SetNestedSlice(t.Object, containers, append(slices.Clone(pod), "spec", "containers")...); err != nil {
			w.t.Fatal(err)
		}
	})
	until(w, &appsv1.Deployment{ObjectMeta: meta}, "without the annotation, and the container's requests", func(d *appsv1.Deployment) bool {
		return scraped(false)(d) && !requests(d)
	})
	restore()
	until(w, &appsv1.Deployment{ObjectMeta: meta}, "as before", func(d *appsv1.Deployment) bool { return scraped(true)(d) && requests(d) })
}

// editServerTemplate edits the template, and returns a function that undoes the edit.
func (w *world) editServerTemplate(edit func(*unstructured.Unstructured)) (restore func()) {
	w.t.Helper()
	template := serverKind.newTemplate()
	if err := w.Get(w.t.Context(), client.ObjectKey{Namespace: "liqo", Name: wire.ServerTemplate}, template); err != nil {
		w.t.Fatal(err)
	}
	before := template.DeepCopy()
	edit(template)
	if err := w.Update(w.t.Context(), template); err != nil {
		w.t.Fatal(err)
	}
	return func() {
		w.t.Helper()
		before.SetResourceVersion(template.GetResourceVersion())
		if err := w.Update(w.t.Context(), before); err != nil {
			w.t.Fatal(err)
		}
	}
}

// takeBackNodePort leaves the number to Kubernetes, which keeps the Service's number. Only the
// managed fields show the change.
func (w *world) takeBackNodePort(meta metav1.ObjectMeta) {
	asks := func(s *corev1.Service) bool {
		return slices.ContainsFunc(s.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
			return e.Manager == FieldManager && strings.Contains(e.FieldsV1.GetRawString(), "f:nodePort")
		})
	}
	until(w, &corev1.Service{ObjectMeta: meta}, "with the node port", asks)
	w.editServer(func(e *networkingv1beta1.Endpoint) { e.NodePort = nil })
	s := until(w, &corev1.Service{ObjectMeta: meta}, "without asking for a node port", func(s *corev1.Service) bool { return !asks(s) })
	if got := s.Spec.Ports[0].NodePort; got != 30123 {
		w.t.Errorf("got node port %d, want the one of before: peers dial it", got)
	}
	until(w, &networkingv1beta1.GatewayServer{ObjectMeta: metav1.ObjectMeta{Namespace: meta.Namespace, Name: "milan"}}, "with that endpoint",
		func(s *networkingv1beta1.GatewayServer) bool {
			return s.Status.Endpoint != nil && s.Status.Endpoint.Port == 30123
		})
}

func (w *world) takeBackLoadBalancerIP(meta metav1.ObjectMeta) {
	w.editServer(func(e *networkingv1beta1.Endpoint) {
		e.ServiceType, e.LoadBalancerIP = corev1.ServiceTypeLoadBalancer, new("203.0.113.77")
	})
	until(w, &corev1.Service{ObjectMeta: meta}, "asking for the address", func(s *corev1.Service) bool { return s.Spec.LoadBalancerIP == "203.0.113.77" })
	w.editServer(func(e *networkingv1beta1.Endpoint) { e.LoadBalancerIP = nil })
	until(w, &corev1.Service{ObjectMeta: meta}, "asking for no address", func(s *corev1.Service) bool { return s.Spec.LoadBalancerIP == "" })
	w.editServer(func(e *networkingv1beta1.Endpoint) {
		e.ServiceType, e.NodePort = corev1.ServiceTypeNodePort, new(int32(30123))
	})
	until(w, &corev1.Service{ObjectMeta: meta}, "as before", func(s *corev1.Service) bool {
		return s.Spec.Type == corev1.ServiceTypeNodePort && s.Spec.Ports[0].NodePort == 30123
	})
}

// editServer changes the server's endpoint as an admin does, also if the operator writes the object
// meanwhile.
func (w *world) editServer(edit func(*networkingv1beta1.Endpoint)) {
	w.t.Helper()
	server := &networkingv1beta1.GatewayServer{}
	if err := w.Get(w.t.Context(), client.ObjectKey{Namespace: "liqo-tenant-milan", Name: "milan"}, server); err != nil {
		w.t.Fatal(err)
	}
	before := server.DeepCopy()
	edit(&server.Spec.Endpoint)
	if err := w.Patch(w.t.Context(), server, client.MergeFrom(before)); err != nil {
		w.t.Fatal(err)
	}
}

// testPullSecrets has one Secret that is missing in the pod's namespace, and one Secret that another user has
// replaced there.
func (w *world) testPullSecrets() {
	secret := func(namespace, name, password string) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Type: corev1.SecretTypeDockerConfigJson,
			Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths":{"registry.example":{"auth":"` + password + `"}}}`)},
		}
	}
	const tenant = "liqo-tenant-milan"
	ours, theirs := secret("liqo", "registry", "b3Vycw=="), secret(tenant, "mirror", "dGhlaXJz")
	w.create(ours)
	w.create(secret("liqo", "mirror", "b3Vycw=="))
	w.create(theirs)
	w.installWith(render.InstallParams{Pods: &render.ProgramSettings{PodSettings: render.PodSettings{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "mirror"}, {Name: "registry"}}}}})
	restore := w.editServerTemplate(func(t *unstructured.Unstructured) {
		names := []any{map[string]any{"name": "mirror"}, map[string]any{"name": "registry"}}
		if err := unstructured.SetNestedSlice(t.Object, names, "spec", "template", "spec", "deployment", "spec", "template", "spec", "imagePullSecrets"); err != nil {
			w.t.Fatal(err)
		}
	})
	defer restore()
	until(w, secret(tenant, "registry", ""), "a copy of the one beside the template", func(s *corev1.Secret) bool {
		return s.Type == ours.Type && string(s.Data[corev1.DockerConfigJsonKey]) == string(ours.Data[corev1.DockerConfigJsonKey]) && metav1.GetControllerOf(s) != nil
	})
	before := theirs.ResourceVersion
	if err := w.Get(w.t.Context(), client.ObjectKeyFromObject(theirs), theirs); err != nil || theirs.ResourceVersion != before {
		w.t.Errorf("somebody's Secret was changed (%v)", err)
	}
}
