package lending_test

import (
	"fmt"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/internal/abuses"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// TestAPeeringUserIsBounded makes an attacker's requests with the file of a consumer's admin. The first rows
// prove that the later requests reach the API server.
func TestAPeeringUserIsBounded(t *testing.T) {
	t.Parallel() // because it mostly waits
	requireAPI(t)
	abuses.Begin(t)
	milan := newPlane(t, "milan", render.PeeringProvider)
	rome, turin := render.Tenant{Namespace: "liqo-tenant-rome", Remote: "rome"}, render.Tenant{Namespace: "liqo-tenant-turin", Remote: "turin"}
	for _, o := range append([]wire.Object{render.TenantNamespace(rome), render.TenantNamespace(turin)}, peering.User(rome, "liqo")...) {
		milan.create(o)
	}
	ctx, admin := t.Context(), milan.Client
	c := milan.clientAs(t, milan.as("system:serviceaccount:liqo-tenant-rome:"+peering.UserName, "system:serviceaccounts"))
	// apply writes as plans do.
	apply := func(o wire.Object) error {
		u, err := apply.Wanted(o)
		if err != nil {
			t.Fatal(err)
		}
		return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(wire.FieldManager), client.ForceOwnership)
	}
	patch := func(o client.Object, text string) attempt {
		return func() error { return c.Patch(ctx, o, mergePatch(text)) }
	}
	configuration := func() *networkingv1beta1.Configuration {
		return render.Configuration(rome, render.Networks{Pod: []networkingv1beta1.CIDR{"10.1.0.0/16"}, External: []networkingv1beta1.CIDR{"10.71.0.0/16"}})
	}
	server := func(change func(*networkingv1beta1.GatewayServer)) *networkingv1beta1.GatewayServer {
		s := render.GatewayServer(render.ServerParams{Tenant: rome, Template: render.TemplateRef{Name: wire.ServerTemplate, Namespace: "liqo"}, ServiceType: corev1.ServiceTypeNodePort, Port: 51840, MTU: 1340})
		change(s)
		return s
	}
	asPlanned := func(*networkingv1beta1.GatewayServer) {}
	tenant := func(change func(*authv1beta1.Tenant)) *authv1beta1.Tenant {
		request := newConsumer(t, "rome").request
		o := peering.Tenant(rome, peering.Applicant{ID: "rome", Request: request, Signature: []byte("x")})
		change(o)
		return o
	}
	asAsked := func(*authv1beta1.Tenant) {}
	may := func(name string, try func() error) {
		t.Helper()
		until(t, milan, render.TenantNamespace(rome), "written by its account: "+name, func(*corev1.Namespace) bool {
			err := try()
			if err != nil && !apierrors.IsForbidden(err) { // new rights take effect with a delay
				t.Fatalf("what it may do, %s: %v", name, err)
			}
			return err == nil
		})
		abuses.Permitted(t, "a consumer's admin", name, nil)
	}
	may("a nonce", func() error { return apply(peering.Nonce(rome)) })
	may("a Configuration", func() error { return apply(configuration()) })
	// Nodes may know its ranges only by their default route, for example a resolver or a VPN.
	seen := until(t, milan, configuration(), "with ranges", func(c *networkingv1beta1.Configuration) bool { return c.Status.Remote != nil })
	said, got := configuration().Spec.Remote.CIDR, seen.Status.Remote.CIDR
	if len(got.Pod) != 1 || len(got.External) != 1 || got.Pod[0] == said.Pod[0] || got.External[0] == said.External[0] {
		t.Errorf("what it says is seen as %v and %v: it draws what was for somebody else", got.Pod, got.External)
	}
	may("a GatewayServer", func() error { return apply(server(asPlanned)) })
	live := &networkingv1beta1.GatewayServer{}
	if err := admin.Get(ctx, client.ObjectKey{Namespace: rome.Namespace, Name: "rome"}, live); err != nil {
		t.Fatal(err)
	}
	live.SetGroupVersionKind(networkingv1beta1.GroupVersion.WithKind(networkingv1beta1.GatewayServerKind))
	may("a PublicKey", func() error { return apply(render.PublicKey(rome, [32]byte{1}, live)) })
	may("a Tenant", func() error { return apply(tenant(asAsked)) })
	may("another key of its gateway", patch(live.DeepCopy(), `{"metadata":{"annotations":{"liqo-tui.dev/rotate-key":"x"}}}`))
	may("its Secret", func() error {
		return c.Get(ctx, client.ObjectKey{Namespace: rome.Namespace, Name: peering.NonceName}, &corev1.Secret{})
	})

	tried := 0
	until(t, milan, render.TenantNamespace(rome), "bounded by a policy that the API server knows", func(*corev1.Namespace) bool {
		tried++
		return patch(configuration(), fmt.Sprintf(`{"metadata":{"annotations":{"liqo-tui.dev/other":"%d"}}}`, tried))() != nil
	})
	if err := admin.Patch(ctx, configuration(), mergePatch(`{"metadata":{"annotations":null}}`)); err != nil {
		t.Fatal(err)
	}

	at := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{wire.LabelRemoteCluster: "rome"}}
	}
	nonce := func() *corev1.Secret { return &corev1.Secret{ObjectMeta: at(rome.Namespace, peering.NonceName)} }
	lent := &authv1beta1.Tenant{ObjectMeta: at(rome.Namespace, "rome")}
	milan.create(&corev1.Secret{ObjectMeta: at(rome.Namespace, "token")})
	(&pair{}).refused(t, "a consumer's admin", map[string]attempt{
		"a token": func() error {
			if err := c.Delete(ctx, nonce()); err != nil {
				t.Errorf("delete the nonce: %v", err)
			}
			s := nonce()
			s.Type, s.Annotations = corev1.SecretTypeServiceAccountToken, map[string]string{corev1.ServiceAccountNameKey: peering.UserName}
			s.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}
			return apply(s)
		},
		"a nonce of its own": func() error {
			s := peering.Nonce(rome)
			s.Data = map[string][]byte{peering.KeyNonce: []byte("mine")}
			return apply(s)
		},
		"another Secret, read": func() error {
			return c.Get(ctx, client.ObjectKey{Namespace: rome.Namespace, Name: "token"}, &corev1.Secret{})
		},
		"another Secret, made": func() error {
			return apply(func() *corev1.Secret { s := peering.Nonce(rome); s.Name = "other"; return s }())
		},
		"Secrets":                 func() error { return c.List(ctx, &corev1.SecretList{}, client.InNamespace(rome.Namespace)) },
		"the operator's Secrets":  func() error { return c.List(ctx, &corev1.SecretList{}, client.InNamespace("liqo")) },
		"what its tunnel reaches": patch(configuration(), `{"spec":{"local":{"cidr":{"pod":["192.168.0.0/16"],"external":["10.70.0.0/16"]}}}}`),
		"another peer's object":   patch(configuration(), `{"metadata":{"labels":{"liqo.io/remote-cluster-id":"turin"}}}`),
		"the operator's word":     patch(configuration(), `{"metadata":{"annotations":{"liqo-tui.dev/also":"203.0.113.0/24=10.1.0.0/24"}}}`),
		"an owner":                patch(configuration(), `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Secret","name":"token","uid":"x"}]}}`),
		"another name": func() error {
			o := configuration()
			o.Name = "other"
			return apply(o)
		},
		"a gateway that is called as an account": func() error {
			return apply(server(func(s *networkingv1beta1.GatewayServer) { s.Name = peering.UserName }))
		},
		"another's key": func() error {
			o := render.PublicKey(rome, [32]byte{1}, live)
			o.Name = "other"
			return apply(o)
		},
		"a second gateway":       func() error { return apply(server(func(s *networkingv1beta1.GatewayServer) { s.Name = "rome-2" })) },
		"a Service's annotation": patch(server(asPlanned), `{"spec":{"serviceAnnotations":{"external-dns.alpha.kubernetes.io/hostname":"github.com"}}}`),
		"a Service's label":      patch(server(asPlanned), `{"spec":{"serviceLabels":{"a":"b"}}}`),
		"a Service's address":    patch(server(asPlanned), `{"spec":{"endpoint":{"loadBalancerIP":"192.0.2.1"}}}`),
		"a gateway elsewhere": func() error {
			return apply(render.GatewayServer(render.ServerParams{Tenant: turin, Template: render.TemplateRef{Name: wire.ServerTemplate, Namespace: "liqo"}, ServiceType: corev1.ServiceTypeNodePort, Port: 51840, MTU: 1340}))
		},
		"many addresses to dial": func() error {
			p := render.ClientParams{Tenant: rome, Template: render.TemplateRef{Name: wire.ClientTemplate, Namespace: "liqo"}, Port: 51840, MTU: 1340}
			for range 17 {
				p.Addresses = append(p.Addresses, "192.0.2.7")
			}
			return apply(render.GatewayClient(p))
		},
		"half of all ranges": patch(configuration(), `{"spec":{"remote":{"cidr":{"pod":["64.0.0.0/7"]}}}}`),
		"many ranges": func() error {
			o := configuration()
			for i := range 16 {
				o.Spec.Remote.CIDR.Pod = append(o.Spec.Remote.CIDR.Pod, networkingv1beta1.CIDR(fmt.Sprintf("10.9.%d.0/24", i)))
			}
			return apply(o)
		},
		"another consumer":          patch(lent.DeepCopy(), `{"spec":{"clusterID":"turin"}}`),
		"another Tenant":            func() error { return apply(tenant(func(o *authv1beta1.Tenant) { o.Name = "turin" })) },
		"names that are an admin's": patch(lent.DeepCopy(), `{"metadata":{"annotations":{"liqo-tui.dev/any-namespace":"true"}}}`),
		"its own bound":             patch(lent.DeepCopy(), `{"metadata":{"annotations":{"liqo-tui.dev/lend":"cpu=1000"}}}`),
		"its own state":             patch(lent.DeepCopy(), `{"spec":{"tenantCondition":"Cordoned"}}`),
		"no handshake":              patch(lent.DeepCopy(), `{"spec":{"authzPolicy":"TolerateNoHandshake"}}`),
		"a template": func() error {
			return c.List(ctx, &networkingv1beta1.WgGatewayServerTemplateList{}, client.InNamespace("liqo"))
		},
		"Tenants of all": func() error { return c.List(ctx, &authv1beta1.TenantList{}) },
		"pods of all":    func() error { return c.List(ctx, &corev1.PodList{}) },
		"a pod": func() error {
			return c.Create(ctx, &corev1.Pod{ObjectMeta: at(rome.Namespace, "x"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}})
		},
		"a Role":       func() error { return c.Create(ctx, &rbacv1.Role{ObjectMeta: at(rome.Namespace, "x")}) },
		"its own Role": patch(&rbacv1.Role{ObjectMeta: at(rome.Namespace, peering.UserName)}, `{"rules":[{"apiGroups":["*"],"resources":["*"],"verbs":["*"]}]}`),
		"a binding": func() error {
			return c.Create(ctx, &rbacv1.RoleBinding{ObjectMeta: at(rome.Namespace, "x"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "admin"}})
		},
		"an account":             func() error { return c.Create(ctx, &corev1.ServiceAccount{ObjectMeta: at(rome.Namespace, "x")}) },
		"the namespace, deleted": func() error { return c.Delete(ctx, render.TenantNamespace(rome)) },
		"the namespace's labels": patch(render.TenantNamespace(rome), `{"metadata":{"labels":{"liqo.io/remote-cluster-id":"turin"}}}`),
		"what an admin has bounded, deleted": func() error {
			if err := admin.Patch(ctx, lent.DeepCopy(), mergePatch(`{"metadata":{"annotations":{"liqo-tui.dev/lend":"cpu=1"}}}`)); err != nil {
				t.Error(err)
			}
			return c.Delete(ctx, lent.DeepCopy())
		},
	})
	if err := admin.Patch(ctx, lent.DeepCopy(), mergePatch(`{"metadata":{"annotations":{"liqo-tui.dev/lend":null}}}`)); err != nil {
		t.Fatal(err)
	}
	may("its Tenant, deleted", func() error { return client.IgnoreNotFound(c.Delete(ctx, lent.DeepCopy())) })
}
