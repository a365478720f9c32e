package lending_test

import (
	"errors"
	"strings"
	"testing"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/internal/abuses"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// ofRome returns the metadata of a consumer's object in a namespace of the provider.
func ofRome(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: namespace, Name: name, Labels: map[string]string{"offloading.liqo.io/origin": "rome", "offloading.liqo.io/destination": "milan"},
		Annotations: map[string]string{"liqo-tui.dev/of-version": "1"},
	}
}

func serviceOf(namespace, name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: ofRome(namespace, name), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: "http", Port: 80}}, Selector: map[string]string{"app": "web"}}}
}

// testRefusedAlong uses the consumer's real credentials to write objects that may not be copied with its
// pods.
func (l *lent) testRefusedAlong(t *testing.T) {
	ctx, c := t.Context(), client.NewDryRunClient(l.slice)
	for _, o := range []client.Object{
		serviceOf("demo-rome", "web"), &corev1.ConfigMap{ObjectMeta: ofRome("demo-rome", "web")}, &corev1.Secret{ObjectMeta: ofRome("demo-rome", "web")},
		&offloadingv1beta1.ShadowEndpointSlice{ObjectMeta: ofRome("demo-rome", "web")},
	} {
		if err := l.slice.Create(ctx, o.DeepCopyObject().(client.Object)); err != nil {
			t.Fatalf("what the consumer may, %T: %v", o, err)
		}
		defer func() {
			if err := l.slice.Delete(ctx, o); err != nil {
				t.Errorf("what the consumer may, the end of %T: %v", o, err)
			}
		}()
	}
	for kind, err := range map[string]error{
		"headless": c.Create(ctx, func() client.Object { s := serviceOf("demo-rome", "x"); s.Spec.ClusterIP = "None"; return s }()),
		"Service":  c.Patch(ctx, serviceOf("demo-rome", "web"), mergePatch(`{"spec":{"selector":{"app":"other"}}}`)),
		"tls": c.Create(ctx, &corev1.Secret{
			ObjectMeta: ofRome("demo-rome", "x"), Type: corev1.SecretTypeTLS, Data: map[string][]byte{"tls.crt": nil, "tls.key": nil},
		}),
	} {
		abuses.Permitted(t, "the consumer, beside its pods", kind, err)
	}
	for _, kind := range peering.SecretTypes { // the API server requires other keys for each type
		err := c.Create(ctx, &corev1.Secret{ObjectMeta: ofRome("demo-rome", "x"), Type: kind, Data: map[string][]byte{
			"tls.crt": nil, "tls.key": nil, "username": nil, "ssh-privatekey": {1}, ".dockercfg": []byte("{}"), ".dockerconfigjson": []byte("{}"),
		}})
		if err != nil {
			t.Errorf("what the consumer may, a Secret of type %s: %v", kind, err)
		}
	}
	meta := metav1.ObjectMeta{Namespace: "demo-rome", Name: "of-an-admin"}
	theirs := &corev1.ConfigMap{ObjectMeta: meta}
	l.milan.writesInto(t, "demo-rome")
	l.milan.create(theirs)
	defer l.milan.runDelete(t, theirs)
	secretOf, shadowEndpoints := &corev1.Secret{ObjectMeta: meta}, &offloadingv1beta1.ShadowEndpointSlice{ObjectMeta: meta}
	ofAnother := &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{ // without a label it counts as the consumer's
		Namespace: "demo-rome", Name: "of-another", Labels: map[string]string{"offloading.liqo.io/origin": "turin"},
	}}
	plain := &corev1.Service{ObjectMeta: meta, Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}
	for _, o := range []client.Object{secretOf, shadowEndpoints, ofAnother, plain} {
		l.milan.create(o)
		defer l.milan.runDelete(t, o)
	}
	deleted := func(o client.Object) func() error { return func() error { return c.Delete(ctx, o) } }
	endpoints := func() *offloadingv1beta1.ShadowEndpointSlice {
		return &offloadingv1beta1.ShadowEndpointSlice{ObjectMeta: ofRome("demo-rome", "web")}
	}
	service := func(change func(*corev1.Service)) func() error {
		s := serviceOf("demo-rome", "x")
		change(s)
		return func() error { return c.Create(ctx, s) }
	}
	secret := func(kind corev1.SecretType) func() error {
		s := &corev1.Secret{ObjectMeta: ofRome("demo-rome", "x"), Type: kind}
		s.Annotations["kubernetes.io/service-account.name"] = "default"
		if kind != corev1.SecretTypeServiceAccountToken {
			delete(s.Annotations, "kubernetes.io/service-account.name")
		}
		return func() error { return c.Create(ctx, s) }
	}
	config := func(change func(*metav1.ObjectMeta)) func() error {
		o := &corev1.ConfigMap{ObjectMeta: ofRome("demo-rome", "x")}
		change(&o.ObjectMeta)
		return func() error { return c.Create(ctx, o) }
	}
	const rbac, inside, steers = "cannot", "inside of the cluster only", "steer programs of the provider"
	const given = "the address that the API server gives them"
	tryAll(t, "the consumer, beside its pods", []abuse{
		{"a port of nodes", inside, service(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeNodePort })},
		{"a load balancer", inside, service(func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeLoadBalancer })},
		{"another name", inside, service(func(s *corev1.Service) {
			s.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "kubernetes.default.svc"}
		})},
		{"others' addresses", inside, service(func(s *corev1.Service) { s.Spec.ExternalIPs = []string{"192.0.2.1"} })},
		{"an address of its choice", given, service(func(s *corev1.Service) { s.Spec.ClusterIP = "10.0.0.77" })},
		{"an address of its choice, unsaid", given, service(func(s *corev1.Service) { // an object with reset managed fields does not show which fields its writer has set
			s.Spec.ClusterIP, s.ManagedFields = "10.0.0.78", []metav1.ManagedFieldsEntry{{}}
		})},
		{"an address of its choice, by an update", given, func() error {
			s := serviceOf("demo-rome", "x")
			s.Spec.ClusterIPs = []string{"10.0.0.79"}
			s.Spec.ClusterIP = "10.0.0.79"
			return c.Update(ctx, s)
		}},
		{"a load balancer's address", inside, service(func(s *corev1.Service) { s.Spec.LoadBalancerIP = "192.0.2.1" })},
		{"a number of a port of nodes", "", service(func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 30123 })},
		{"a port of nodes for health checks", "", service(func(s *corev1.Service) { s.Spec.HealthCheckNodePort = 30124 })},
		{"where it leads, later", inside, func() error {
			return c.Patch(ctx, serviceOf("demo-rome", "web"), mergePatch(`{"spec":{"externalIPs":["192.0.2.1"]}}`))
		}},
		{"a name in DNS", steers, service(func(s *corev1.Service) {
			s.Annotations["external-dns.alpha.kubernetes.io/hostname"] = "www.example.com"
		})},
		{"a dashboard", steers, config(func(m *metav1.ObjectMeta) { m.Labels["grafana_dashboard"] = "1" })},
		{"an annotation", steers, config(func(m *metav1.ObjectMeta) { m.Annotations["x.io/y"] = "z" })},
		{"nobody's", "is that of the consumer", config(func(m *metav1.ObjectMeta) { m.Labels = nil })},
		{"another's", "is that of the consumer", config(func(m *metav1.ObjectMeta) { m.Labels["offloading.liqo.io/origin"] = "turin" })},
		{"a finalizer", "no finalizers and no owners", config(func(m *metav1.ObjectMeta) { m.Finalizers = []string{"x.io/y"} })},
		{"an owner", "no finalizers and no owners", config(func(m *metav1.ObjectMeta) {
			m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Pod", Name: "x", UID: "y"}}
		})},
		{"a token", steers, secret(corev1.SecretTypeServiceAccountToken)},
		{"a bootstrap token", "no type that others than pods look at", secret(corev1.SecretTypeBootstrapToken)},
		{"a release of Helm", "no type that others than pods look at", secret("helm.sh/release.v1")},
		{"an admin's, changed", "what it has made only", func() error {
			return c.Patch(ctx, theirs.DeepCopy(), mergePatch(`{"metadata":{"labels":{"offloading.liqo.io/origin":"rome"}},"data":{"a":"b"}}`))
		}},
		{"an admin's, deleted", "what it has made only", func() error { return c.Delete(ctx, theirs.DeepCopy()) }},
		{"an admin's Secret, deleted", "what it has made only", deleted(secretOf)},
		{"an admin's Service, deleted", "what it has made only", deleted(plain)},
		{"another's ShadowPod, deleted", "what it has made only", deleted(ofAnother)},
		{"an admin's ShadowEndpointSlice, deleted", "what it has made only", deleted(shadowEndpoints)},
		{"a Secret that can't go", "no finalizers and no owners", func() error {
			return c.Patch(ctx, &corev1.Secret{ObjectMeta: ofRome("demo-rome", "web")}, mergePatch(`{"metadata":{"finalizers":["x.io/y"]}}`))
		}},
		{"endpoints that can't go", "no finalizers and no owners", func() error {
			return c.Patch(ctx, endpoints(), mergePatch(`{"metadata":{"finalizers":["x.io/y"]}}`))
		}},
		{"new endpoints that can't go", "no finalizers and no owners", func() error {
			o := endpoints()
			o.Name, o.Finalizers = "x", []string{"x.io/y"}
			return c.Create(ctx, o)
		}},
		{"Kubernetes' own", "what it has made only", func() error {
			ca := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "demo-rome", Name: "kube-root-ca.crt"}}
			if err := l.milan.Create(ctx, ca.DeepCopy()); err != nil && !apierrors.IsAlreadyExists(err) {
				return err
			}
			return c.Delete(ctx, ca)
		}},
		{"all ConfigMaps", rbac, func() error { return c.DeleteAllOf(ctx, &corev1.ConfigMap{}, client.InNamespace("demo-rome")) }},
		{"endpoints of its own", rbac, func() error {
			return c.Create(ctx, &discoveryv1.EndpointSlice{ObjectMeta: ofRome("demo-rome", "x"), AddressType: discoveryv1.AddressTypeIPv4})
		}},
		{"endpoints that are made for it, changed", rbac, func() error {
			return c.Patch(ctx, &discoveryv1.EndpointSlice{ObjectMeta: ofRome("demo-rome", "home-web")}, mergePatch(`{"endpoints":[{"addresses":["169.254.169.254"]}]}`))
		}},
		{"a ConfigMap elsewhere", rbac, func() error { return c.Create(ctx, &corev1.ConfigMap{ObjectMeta: ofRome("default", "x")}) }},
		{"a Service of another", rbac, func() error { return c.Create(ctx, serviceOf("demo-turin", "x")) }},
		{"a Service's status", rbac, func() error {
			return c.Status().Patch(ctx, serviceOf("demo-rome", "web"), mergePatch(`{"status":{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}}`))
		}},
	})
}

// testSessions tests that a consumer can begin sessions in its own pods, and in no pod that an account of the
// provider has created in the same namespace.
func (l *lent) testSessions(t *testing.T, own *corev1.Pod) {
	ctx := t.Context()
	l.milan.writesInto(t, "demo-rome")
	theirs := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "demo-rome", Name: "of-an-admin"}, Spec: shadow("", "", nil).Spec.Pod}
	theirs.Spec.AutomountServiceAccountToken = new(false)
	l.milan.create(theirs)
	defer l.milan.runDelete(t, theirs)
	in := func(c client.Client, p *corev1.Pod, kind string, options client.Object) error {
		return c.SubResource(kind).Create(ctx, p.DeepCopy(), options)
	}
	// A user with the right to begin a session gets the error that no kubelet has the pod.
	begun := func(err error) error {
		if apierrors.IsBadRequest(err) && strings.Contains(err.Error(), "does not have a host assigned") {
			return nil
		}
		return err
	}
	abuses.Permitted(t, "the consumer", "a shell in its own pod", begun(in(l.slice, own, "exec", session())))
	abuses.Permitted(t, "an admin, of sessions", "a shell in that pod", begun(in(l.milan, theirs, "exec", session())))
	const why = "in its own pods only"
	until(t, l.milan, theirs, "known to the policy", func(p *corev1.Pod) bool { return apierrors.IsInvalid(in(l.slice, p, "exec", session())) })
	tryAll(t, "the consumer", []abuse{
		{"a shell in a pod of others", why, func() error { return in(l.slice, theirs, "exec", session()) }},
		{"another's terminal", why, func() error { return in(l.slice, theirs, "attach", session()) }},
		{"the ports of a pod of others", why, func() error { return in(l.slice, theirs, "portforward", session()) }},
	})
}

// session has no options, because they are in a request's address. The API server does not read the body of
// these requests.
func session() client.Object { return &corev1.Pod{} }

// testForeignServices tests that endpoints of a consumer belong to its own Services.
func (l *lent) testForeignServices(t *testing.T) {
	port := corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 5432}}}
	endpoints := func(service string) *offloadingv1beta1.ShadowEndpointSlice {
		s := &offloadingv1beta1.ShadowEndpointSlice{ObjectMeta: ofRome("demo-rome", "of-"+service)}
		s.Labels["kubernetes.io/service-name"] = service
		return s
	}
	made := func(service string) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "demo-rome", Name: "home-of-" + service}}
	}
	theirs := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo-rome", Name: "providers-db"}, Spec: port}
	l.milan.create(theirs)
	defer l.milan.runDelete(t, theirs)
	// The endpoints are created first, and wait for their Service.
	for _, name := range []string{"own-db", "providers-db"} {
		if err := l.slice.Create(t.Context(), endpoints(name)); err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := l.slice.Delete(t.Context(), endpoints(name)); err != nil {
				t.Error(err)
			}
		}()
	}
	refused := func(service string) error {
		t.Helper()
		s := until(t, l.milan, endpoints(service), "refused", func(s *offloadingv1beta1.ShadowEndpointSlice) bool {
			return strings.Contains(s.Annotations[wire.AnnotationProblem], "is not of cluster rome")
		})
		untilGone(t, l.milan, made(service))
		return errors.New(s.Annotations[wire.AnnotationProblem])
	}
	own := &corev1.Service{ObjectMeta: ofRome("demo-rome", "own-db"), Spec: port}
	if err := l.slice.Create(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	until(t, l.milan, made("own-db"), "made", func(*discoveryv1.EndpointSlice) bool { return true })
	abuses.Permitted(t, "the consumer", "endpoints of its own Service", nil)
	abuses.Refused(t, "the consumer", "endpoints of a Service of others", refused("providers-db"))
	// Another Service takes the name.
	if err := l.slice.Delete(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	untilGone(t, l.milan, made("own-db"))
	later := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "demo-rome", Name: "own-db"}, Spec: port}
	l.milan.create(later)
	defer l.milan.runDelete(t, later)
	if err := l.slice.Patch(t.Context(), endpoints("own-db"), mergePatch(`{"metadata":{"annotations":{"liqo-tui.dev/of-version":"2"}}}`)); err != nil { // the next change of the endpoints
		t.Fatal(err)
	}
	abuses.Refused(t, "the consumer", "endpoints of a Service of others, later", refused("own-db"))
}
