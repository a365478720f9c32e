package lending_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func inDemo(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "demo", Name: name} }

func inTwin(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "demo-rome", Name: name}
}

// endpointsOf returns addresses of a Service, as Kubernetes' own controller writes them.
func endpointsOf(service string, addresses ...string) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{ObjectMeta: inDemo(service + "-abcde"), AddressType: discoveryv1.AddressTypeIPv4}
	s.Labels = map[string]string{"kubernetes.io/service-name": service}
	s.Ports = []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}}
	for _, a := range addresses {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}})
	}
	return s
}

// testAlong runs a pod that needs objects of its namespace.
func (w *pair) testAlong(t *testing.T) {
	there, tunnel := w.milan.connected(t, "rome")
	seen := func(c *networkingv1beta1.Configuration) string {
		prefix, _, _ := strings.Cut(string(c.Status.Remote.CIDR.Pod[0]), ".0.0/16")
		return prefix
	}
	here := until(t, w.rome, &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"}}, "there", func(*networkingv1beta1.Configuration) bool { return true })
	for _, o := range []client.Object{
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "settings", Labels: map[string]string{"grafana_dashboard": "1"}}, Data: map[string]string{"a": "b", "empty": ""}},
		&corev1.ConfigMap{ObjectMeta: inDemo("not-mentioned")}, &corev1.Secret{ObjectMeta: inDemo("not-mentioned")},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "stays", Annotations: map[string]string{"liqo.io/skip-reflection": "true"}}},
		&corev1.Secret{ObjectMeta: inDemo("password"), Type: "example.com/own", StringData: map[string]string{"password": "secret"}},
		&corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web", Annotations: map[string]string{"external-dns.alpha.kubernetes.io/hostname": "www.example.com"}}, Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}},
		}},
		&corev1.Service{ObjectMeta: inDemo("elsewhere"), Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.com"}},
		&corev1.Service{ObjectMeta: inDemo("headless"), Spec: corev1.ServiceSpec{ClusterIP: "None", Selector: map[string]string{"app": "web"}}},
		endpointsOf("web", "10.244.9.9", seen(here)+".3.7", "192.0.2.7"),
		endpointsOf("headless", seen(here)+".3.7"), // only addresses of the provider's pods
	} {
		w.rome.create(o)
		defer func() {
			if err := w.rome.Delete(context.Background(), o); client.IgnoreNotFound(err) != nil {
				t.Error(err)
			}
		}()
	}
	p := onMilan("demo", "needs", func(s *corev1.PodSpec) {
		s.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}}
		s.Containers[0].Env = []corev1.EnvVar{{Name: "X", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "stays"}, Key: "a"}}}}
		s.Volumes = []corev1.Volume{{Name: "password", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "password"}}}}
	})
	w.rome.create(p)
	config := until(t, w.milan, &corev1.ConfigMap{ObjectMeta: inTwin("settings")}, "there", func(o *corev1.ConfigMap) bool { return o.Data["a"] == "b" })
	if _, there := config.Data["empty"]; !there {
		t.Error("a key without a value stayed at home")
	}
	if config.Labels["grafana_dashboard"] != "" || config.Labels["offloading.liqo.io/origin"] != "rome" {
		t.Errorf("the ConfigMap has labels %v", config.Labels)
	}
	secret := until(t, w.milan, &corev1.Secret{ObjectMeta: inTwin("password")}, "there", func(o *corev1.Secret) bool { return string(o.Data["password"]) == "secret" })
	if secret.Type != corev1.SecretTypeOpaque {
		t.Errorf("the Secret is of type %s", secret.Type)
	}
	web := until(t, w.milan, &corev1.Service{ObjectMeta: inTwin("web")}, "there", func(*corev1.Service) bool { return true })
	if s := web.Spec; s.Type != corev1.ServiceTypeClusterIP || s.Selector["app"] != "web" || len(s.Ports) != 1 || s.Ports[0].TargetPort.IntVal != 8080 || s.Ports[0].NodePort != 0 || len(web.Annotations) != 1 {
		t.Errorf("milan has Service %v %+v", web.Annotations, s)
	}
	until(t, w.milan, &corev1.Service{ObjectMeta: inTwin("headless")}, "headless", func(o *corev1.Service) bool { return o.Spec.ClusterIP == "None" })
	slice := func() *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{ObjectMeta: inTwin("home-web-abcde")}
	}
	ready := func(want bool) func(*discoveryv1.EndpointSlice) bool {
		return func(o *discoveryv1.EndpointSlice) bool {
			return len(o.Endpoints) == 1 && o.Endpoints[0].Addresses[0] == seen(there)+".9.9" && *o.Endpoints[0].Conditions.Ready == want &&
				o.Labels["kubernetes.io/service-name"] == "web" && *o.Ports[0].Port == 8080
		}
	}
	until(t, w.milan, slice(), "as seen from milan, and ready", ready(true))
	for _, o := range []client.Object{
		&corev1.ConfigMap{ObjectMeta: inTwin("not-mentioned")}, &corev1.Secret{ObjectMeta: inTwin("not-mentioned")}, &corev1.ConfigMap{ObjectMeta: inTwin("stays")},
		&corev1.Service{ObjectMeta: inTwin("elsewhere")}, &offloadingv1beta1.ShadowEndpointSlice{ObjectMeta: inTwin("headless-abcde")},
	} {
		if err := w.milan.Get(t.Context(), client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
			t.Errorf("milan has %T %s (%v)", o, o.GetName(), err)
		}
	}
	w.testAlongFollows(t)
	w.testAlongIsRefused(t)
	// Only reachable endpoints are copied.
	w.testSilence(t, slice, ready, tunnel)
	for _, v := range []networkingv1beta1.ConnectionStatusValue{networkingv1beta1.Connecting, networkingv1beta1.Connected} {
		tunnel.Status.Value = v
		if err := w.milan.Status().Update(t.Context(), tunnel); err != nil {
			t.Fatal(err)
		}
		until(t, w.milan, slice(), "as the tunnel: "+string(v), ready(v == networkingv1beta1.Connected))
	}
	w.milan.runDelete(t, slice())
	until(t, w.milan, slice(), "made again", ready(true))
	// Objects that no pod needs any more are removed.
	w.goes(t, p)
	untilGone(t, w.milan, &corev1.ConfigMap{ObjectMeta: inTwin("settings")})
	untilGone(t, w.milan, &corev1.Secret{ObjectMeta: inTwin("password")})
	if err := w.rome.Delete(t.Context(), &corev1.Service{ObjectMeta: inDemo("web")}); err != nil {
		t.Fatal(err)
	}
	untilGone(t, w.milan, &corev1.Service{ObjectMeta: inTwin("web")})
	untilGone(t, w.milan, slice())
}

// In testSilence, the gateway of the provider's side stops to report, and reports again.
func (w *pair) testSilence(t *testing.T, slice func() *discoveryv1.EndpointSlice, ready func(bool) func(*discoveryv1.EndpointSlice) bool, tunnel *networkingv1beta1.Connection) {
	t.Helper()
	for n := range 2 { // the first report counts for 3 s
		report := fmt.Sprintf(`{"metadata":{"annotations":{"liqo-tui.dev/status":"{\"at\":\"2026-01-01T00:00:0%dZ\",\"intervalSeconds\":1}"}}}`, n)
		if err := w.milan.Patch(t.Context(), tunnel, mergePatch(report)); err != nil {
			t.Fatal(err)
		}
		until(t, w.milan, slice(), "ready, since there is a report", ready(true))
		w.milan.runDelete(t, slice()) // the slice is made again now, and when the report becomes stale
		until(t, w.milan, slice(), "not ready, since there is none", ready(false))
	}
	if err := w.milan.Patch(t.Context(), tunnel, mergePatch(`{"metadata":{"annotations":{"liqo-tui.dev/status":null}}}`)); err != nil {
		t.Fatal(err)
	}
	until(t, w.milan, slice(), "ready", ready(true))
}

// testAlongFollows changes the objects that are copied with a pod.
func (w *pair) testAlongFollows(t *testing.T) {
	t.Helper()
	patch := func(o client.Object, text string) {
		t.Helper()
		if err := w.rome.Patch(t.Context(), o, mergePatch(text)); err != nil {
			t.Fatal(err)
		}
	}
	patch(&corev1.ConfigMap{ObjectMeta: inDemo("settings")}, `{"data":{"a":null,"empty":null,"c":"d"},"immutable":true}`)
	until(t, w.milan, &corev1.ConfigMap{ObjectMeta: inTwin("settings")}, "changed", func(o *corev1.ConfigMap) bool {
		return len(o.Data) == 1 && o.Data["c"] == "d" && o.Immutable != nil && *o.Immutable
	})
	// Keys that programs of the provider add stay, and disturb nothing.
	if err := w.milan.Patch(t.Context(), &corev1.Secret{ObjectMeta: inTwin("password")}, mergePatch(`{"metadata":{"labels":{"backup":"yes"},"annotations":{"a":"b"},"finalizers":["x.io/y"]}}`)); err != nil {
		t.Fatal(err)
	}
	patch(&corev1.Secret{ObjectMeta: inDemo("password")}, `{"stringData":{"more":"x"}}`)
	marked := until(t, w.milan, &corev1.Secret{ObjectMeta: inTwin("password")}, "changed", func(o *corev1.Secret) bool { return string(o.Data["more"]) == "x" })
	if marked.Labels["backup"] != "yes" || marked.Annotations["a"] != "b" || len(marked.Finalizers) != 1 {
		t.Errorf("what the provider has added: %+v", marked.ObjectMeta)
	}
	if err := w.milan.Patch(t.Context(), marked, mergePatch(`{"metadata":{"finalizers":null}}`)); err != nil {
		t.Fatal(err)
	}
	// An immutable object is created again.
	w.rome.runDeleteNow(t, &corev1.ConfigMap{ObjectMeta: inDemo("settings")})
	w.rome.create(&corev1.ConfigMap{ObjectMeta: inDemo("settings"), Data: map[string]string{"e": "f"}})
	until(t, w.milan, &corev1.ConfigMap{ObjectMeta: inTwin("settings")}, "made again", func(o *corev1.ConfigMap) bool { return o.Data["e"] == "f" && o.Immutable == nil })
	w.rome.runDeleteNow(t, &corev1.Secret{ObjectMeta: inDemo("password")})
	untilGone(t, w.milan, &corev1.Secret{ObjectMeta: inTwin("password")})
	w.rome.create(&corev1.Secret{ObjectMeta: inDemo("password"), Type: corev1.SecretTypeBasicAuth, StringData: map[string]string{"username": "x", "password": "y"}})
	until(t, w.milan, &corev1.Secret{ObjectMeta: inTwin("password")}, "of its type", func(o *corev1.Secret) bool {
		return o.Type == corev1.SecretTypeBasicAuth && string(o.Data["password"]) == "y"
	})
	patch(&corev1.Service{ObjectMeta: inDemo("web")}, `{"spec":{"selector":{"app":"other"}}}`)
	until(t, w.milan, &corev1.Service{ObjectMeta: inTwin("web")}, "changed", func(o *corev1.Service) bool { return o.Spec.Selector["app"] == "other" })
	// An admin of the provider removes it.
	w.milan.runDeleteNow(t, &corev1.Secret{ObjectMeta: inTwin("password")})
	until(t, w.milan, &corev1.Secret{ObjectMeta: inTwin("password")}, "there again", func(*corev1.Secret) bool { return true })
}

// testAlongIsRefused creates an object of the same name on the provider before.
func (w *pair) testAlongIsRefused(t *testing.T) {
	t.Helper()
	theirs := &corev1.ConfigMap{ObjectMeta: inTwin("taken"), Data: map[string]string{"of": "milan"}}
	w.milan.writesInto(t, theirs.Namespace)
	w.milan.create(theirs)
	defer w.milan.runDelete(t, theirs)
	ours := &corev1.ConfigMap{ObjectMeta: inDemo("taken"), Data: map[string]string{"of": "rome"}}
	w.rome.create(ours)
	defer w.rome.runDelete(t, ours)
	p := onMilan("demo", "wants", func(s *corev1.PodSpec) {
		s.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "taken"}}}}
	})
	w.rome.create(p)
	w.events(t, ours, "OffloadingRefused")
	until(t, w.milan, &corev1.ConfigMap{ObjectMeta: inTwin("taken")}, "milan's own", func(o *corev1.ConfigMap) bool { return o.Data["of"] == "milan" && len(o.Labels) == 0 })
	w.goes(t, p)
}
