package tenancy_test

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/peer"
	"github.com/liqo-tui/liqo-tui/kube"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// TestPeering has rome use milan, with our operators alone and the plan that peers
// clusters where Liqo runs.
func TestPeering(t *testing.T) {
	requireAPI(t)
	rome, milan := newPlane(t, "rome", render.PeeringConsumer), newPlane(t, "milan", render.PeeringProvider)
	until(t, rome, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: peering.KeysName}}, "made", func(s *corev1.Secret) bool { return len(s.Data) == 2 })
	before := [2][]string{rome.objects(), milan.objects()}
	w := &pair{t: t, rome: rome, milan: milan, proxy: proxy(t)}
	for _, part := range []struct {
		name string
		test func(*testing.T)
	}{
		{"who has the roles of rbac, and no more, peers", w.testRoles},
		{"a handshake", w.testHandshake},
		{"what the consumer may do", w.testConsumerRights},
		{"the certificate is renewed", w.testRenewal},
		{"drained and back", w.testDrained},
		{"another key", w.testAnotherKey},
		{"the end", func(t *testing.T) { w.testEnd(t, before) }},
	} {
		if !t.Run(part.name, part.test) {
			return // the next begins where it should have ended
		}
	}
}

type pair struct {
	t           *testing.T
	rome, milan *plane
	proxy       string
	params      peer.Params  // besides the proxy; the zero value is for access alone
	access      *rest.Config // of rome, to milan
}

func (w *pair) run(t *testing.T, plan func(flows.Facts) flows.Plan) (changed bool, took time.Duration) {
	t.Helper()
	return runOn(t, plan, w.rome.cluster(), w.milan.cluster())
}

func runOn(t *testing.T, plan func(flows.Facts) flows.Plan, rome, milan *kube.Cluster) (changed bool, took time.Duration) {
	t.Helper()
	began := time.Now()
	var last flows.Plan
	err := engine.Run(t.Context(), plan, rome, milan, func(e engine.Event) { last, changed = e.Plan, changed || e.Changed() }, engine.Options{Timeout: patience})
	if err != nil {
		var steps []string
		for _, s := range last.Steps {
			steps = append(steps, fmt.Sprintf("%s %s: %s", s.ID, s.Status, s.Reason))
		}
		t.Fatalf("%v\n%s", err, strings.Join(steps, "\n"))
	}
	return changed, time.Since(began)
}

func (w *pair) peer(t *testing.T) (changed bool, took time.Duration) {
	t.Helper()
	p := w.params
	p.ProxyURL, p.VirtualNode = w.proxy, "false"
	if p.CPU == "" {
		p.Slice = "false"
	}
	return w.run(t, func(f flows.Facts) flows.Plan { return peer.Plan(p, nil, [2]string{}, f) })
}

func tenantIn(p *plane) *authv1beta1.Tenant {
	return &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome"}}
}

func identity() *authv1beta1.Identity {
	return &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "controlplane-milan"}}
}

// config is what the consumer has in its kubeconfig now.
func (w *pair) config(t *testing.T) *rest.Config {
	t.Helper()
	s := &corev1.Secret{}
	if err := w.rome.Get(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-milan", Name: "kubeconfig-controlplane-milan"}, s); err != nil {
		t.Fatal(err)
	}
	if s.Labels[peering.LabelIdentityType] != "ControlPlane" || s.Labels[render.LabelRemoteCluster] != "milan" || s.Annotations[peering.AnnotationRemoteNamespace] != "liqo-tenant-rome" {
		t.Errorf("the kubeconfig is not found by Liqo's programs: %v %v", s.Labels, s.Annotations)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(s.Data[peering.KeyKubeconfig])
	if err != nil {
		t.Fatal(err)
	}
	return config
}

func (w *pair) testHandshake(t *testing.T) {
	changed, took := w.peer(t)
	t.Logf("figure: access from nothing in %s", took.Round(time.Millisecond))
	if !changed {
		t.Error("the first run changed nothing")
	}
	if changed, _ := w.peer(t); changed {
		t.Error("the second run changed something")
	}
	w.access = w.config(t)
	c, err := peering.Certificate(w.access.CertData)
	if err != nil {
		t.Fatal(err)
	}
	if s := c.Subject; s.CommonName != "rome" || !slices.Equal(s.Organization, []string{"liqo.io"}) || len(s.Names) != 2 {
		t.Errorf("the certificate is for %v", s)
	}
	if life := c.NotAfter.Sub(c.NotBefore); life > peering.CertificateLife+time.Hour || !slices.Equal(c.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}) {
		t.Errorf("the certificate is good for %s, and %v", life, c.ExtKeyUsage)
	}
	var requests certificatesv1.CertificateSigningRequestList
	if err := w.milan.List(t.Context(), &requests); err != nil || len(requests.Items) > 0 {
		t.Errorf("requests are left: %d (%v)", len(requests.Items), err)
	}
	fc := &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "rome"}}
	until(t, w.milan, fc, "a consumer", func(fc *corev1beta1.ForeignCluster) bool {
		return fc.Status.Role == corev1beta1.ConsumerRole && fc.Status.Modules.Authentication.Enabled
	})
	fc = &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
	until(t, w.rome, fc, "a provider", func(fc *corev1beta1.ForeignCluster) bool {
		return fc.Status.Role == corev1beta1.ProviderRole && fc.Status.APIServerURL == w.milan.server && fc.Status.ForeignProxyURL == w.proxy && fc.Status.TenantNamespace.Remote == "liqo-tenant-rome"
	})
}

// consumerClient is milan's API as rome may use it.
func (w *pair) consumerClient(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: w.milan.Scheme(), Mapper: w.milan.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func renew(name string) *authv1beta1.Renew {
	return &authv1beta1.Renew{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: name},
		Spec:       authv1beta1.RenewSpec{ConsumerClusterID: "rome", IdentityType: authv1beta1.ControlPlaneIdentityType},
	}
}

// testConsumerRights tries what an attacker would with the consumer's real credentials.
// The first row shows that what is refused afterwards gets to the API server.
func (w *pair) testConsumerRights(t *testing.T) {
	c := w.consumerClient(t, w.access)
	ctx := t.Context()
	own := renew("controlplane-milan")
	if err := c.Create(ctx, own); err != nil {
		t.Fatalf("what it may do: %v", err)
	}
	until(t, w.milan, own, "answered", func(r *authv1beta1.Renew) bool { return r.Status.AuthParams != nil })
	w.milan.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "victim"}})
	w.milan.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "victim", Name: "token"}})
	merge := func(text string) client.Patch { return client.RawPatch("application/merge-patch+json", []byte(text)) }
	other := newConsumer(t, "system:admin")
	impersonating := func(user string, groups ...string) client.Client {
		config := rest.CopyConfig(w.access)
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
		return w.consumerClient(t, config)
	}
	object := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	attempts := map[string]func() error{
		"a second Renew":               func() error { return c.Create(ctx, renew("controlplane-milan-2")) },
		"a Renew for another consumer": func() error { return c.Patch(ctx, renew(own.Name), merge(`{"spec":{"consumerClusterID":"turin"}}`)) },
		"a finalizer that holds all":   func() error { return c.Patch(ctx, renew(own.Name), merge(`{"metadata":{"finalizers":["x.io/y"]}}`)) },
		"an owner": func() error {
			return c.Patch(ctx, renew(own.Name), merge(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"x","uid":"y"}]}}`))
		},
		"its own answer": func() error {
			return c.Status().Patch(ctx, renew(own.Name), merge(`{"status":{"authParams":{"apiServer":"https://x"}}}`))
		},
		"another tenant's namespace": func() error { return c.List(ctx, &authv1beta1.RenewList{}, client.InNamespace("liqo-tenant-turin")) },
		"all namespaces' Renews":     func() error { return c.List(ctx, &authv1beta1.RenewList{}) },
		"its Tenant, read":           func() error { return c.Get(ctx, client.ObjectKeyFromObject(tenantIn(w.milan)), tenantIn(w.milan)) },
		"its Tenant, changed":        func() error { return c.Patch(ctx, tenantIn(w.milan), merge(`{"spec":{"tenantCondition":"Active"}}`)) },
		"its Tenant's status": func() error {
			return c.Status().Patch(ctx, tenantIn(w.milan), merge(`{"status":{"tenantNamespace":"x"}}`))
		},
		"a Tenant": func() error { return c.Create(ctx, &authv1beta1.Tenant{ObjectMeta: object("liqo-tenant-rome", "x")}) },
		"a ResourceSlice of nobody": func() error {
			return c.Create(ctx, &authv1beta1.ResourceSlice{ObjectMeta: object("liqo-tenant-rome", "x")})
		},
		"its nonce and certificate": func() error { return c.List(ctx, &corev1.SecretList{}, client.InNamespace("liqo-tenant-rome")) },
		"another nonce": func() error {
			return c.Patch(ctx, &corev1.Secret{ObjectMeta: object("liqo-tenant-rome", peering.NonceName)}, merge(`{"data":{"nonce":"eA=="}}`))
		},
		"a Secret of its own": func() error { return c.Create(ctx, &corev1.Secret{ObjectMeta: object("liqo-tenant-rome", "x")}) },
		"others' Secrets": func() error {
			return c.Get(ctx, client.ObjectKey{Namespace: "victim", Name: "token"}, &corev1.Secret{})
		},
		"all Secrets":              func() error { return c.List(ctx, &corev1.SecretList{}) },
		"the operator's namespace": func() error { return c.List(ctx, &corev1.ConfigMapList{}, client.InNamespace("liqo")) },
		"namespaces":               func() error { return c.List(ctx, &corev1.NamespaceList{}) },
		"its namespace's labels": func() error {
			return c.Patch(ctx, &corev1.Namespace{ObjectMeta: object("", "liqo-tenant-rome")}, merge(`{"metadata":{"labels":{"liqo.io/remote-cluster-id":"turin"}}}`))
		},
		"nodes": func() error { return c.List(ctx, &corev1.NodeList{}) },
		"a pod": func() error {
			return c.Create(ctx, &corev1.Pod{ObjectMeta: object("liqo-tenant-rome", "x"), Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "x", Image: "x"}}}})
		},
		"a ConfigMap": func() error { return c.Create(ctx, &corev1.ConfigMap{ObjectMeta: object("liqo-tenant-rome", "x")}) },
		"a Service": func() error {
			return c.Create(ctx, &corev1.Service{ObjectMeta: object("liqo-tenant-rome", "x"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}})
		},
		"a binding of its role elsewhere": func() error {
			return c.Create(ctx, &rbacv1.RoleBinding{ObjectMeta: object("victim", render.ConsumerAccessName), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: render.ConsumerAccessName}})
		},
		"a binding to cluster-admin": func() error {
			return c.Create(ctx, &rbacv1.RoleBinding{ObjectMeta: object("liqo-tenant-rome", "x"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}})
		},
		"more in its role": func() error {
			return c.Patch(ctx, &rbacv1.ClusterRole{ObjectMeta: object("", render.ConsumerAccessName)}, merge(`{"rules":[]}`))
		},
		"no policy": func() error {
			return c.Delete(ctx, &rbacv1.ClusterRole{ObjectMeta: object("", render.ConsumerAccessName)})
		},
		"a request for an admin's certificate": func() error {
			return c.Create(ctx, &certificatesv1.CertificateSigningRequest{ObjectMeta: object("", "x"), Spec: certificatesv1.CertificateSigningRequestSpec{
				Request: other.request.CSR, SignerName: certificatesv1.KubeAPIServerClientSignerName, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
			}})
		},
		"requests of others": func() error { return c.List(ctx, &certificatesv1.CertificateSigningRequestList{}) },
		"a token of the operator": func() error {
			return c.SubResource("token").Create(ctx, &corev1.ServiceAccount{ObjectMeta: object("liqo", render.OperatorName)}, &authenticationv1.TokenRequest{})
		},
		"the operator's account": func() error {
			return impersonating(operatorUser).List(ctx, &corev1.SecretList{}, client.InNamespace("liqo-tenant-rome"))
		},
		"the group of admins": func() error { return impersonating("rome", "system:masters").List(ctx, &corev1.SecretList{}) },
		"another consumer": func() error {
			return impersonating("turin").List(ctx, &authv1beta1.RenewList{}, client.InNamespace("liqo-tenant-rome"))
		},
		"the other side's ForeignCluster": func() error { return c.List(ctx, &corev1beta1.ForeignClusterList{}) },
	}
	for name, try := range attempts {
		if err := try(); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			t.Errorf("%s: got %v, want a refusal", name, err)
		}
	}
	t.Logf("figure: %d attempts with the consumer's credentials refused", len(attempts))
	if err := c.Delete(ctx, own); err != nil {
		t.Error(err)
	}
	// Without the certificate of milan's authority it is nobody.
	foreign := rest.CopyConfig(w.access)
	foreign.CertData, foreign.KeyData = w.rome.config.CertData, w.rome.config.KeyData
	if err := w.consumerClient(t, foreign).List(ctx, &authv1beta1.RenewList{}, client.InNamespace("liqo-tenant-rome")); !apierrors.IsUnauthorized(err) {
		t.Errorf("with an admin's certificate of the other cluster: got %v", err)
	}
}

// testRenewal gives rome a certificate whose last third has begun.
func (w *pair) testRenewal(t *testing.T) {
	keys := &corev1.Secret{}
	if err := w.rome.Get(t.Context(), client.ObjectKey{Namespace: "liqo", Name: peering.KeysName}, keys); err != nil {
		t.Fatal(err)
	}
	request, err := peering.NewRequest(keys.Data[render.SecretPrivateKey], "rome", rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(request.PublicKey)
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	old, err := w.milan.authority.sign(key, pkix.Name{CommonName: "rome", Organization: []string{"liqo.io"}}, time.Now().Add(-21*24*time.Hour), time.Now().Add(9*24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	// First the consumer's, then the provider's: the event of that one starts it all.
	i := identity()
	until(t, w.rome, i, "there", func(*authv1beta1.Identity) bool { return true })
	i.Spec.AuthParams.SignedCRT = old
	if err := w.rome.Update(t.Context(), i); err != nil {
		t.Fatal(err)
	}
	until(t, w.milan, renew("controlplane-milan"), "asked for", func(*authv1beta1.Renew) bool { return true })
	stored := until(t, w.milan, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: peering.CertificateName}}, "there", func(*corev1.Secret) bool { return true })
	stored.Data[peering.KeyCertificate] = old
	if err := w.milan.Update(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	fresh := func(certificate []byte) bool {
		c, err := peering.Certificate(certificate)
		return err == nil && time.Until(c.NotAfter) > 25*24*time.Hour
	}
	until(t, w.milan, stored, "renewed", func(s *corev1.Secret) bool { return fresh(s.Data[peering.KeyCertificate]) })
	until(t, w.rome, i, "renewed", func(i *authv1beta1.Identity) bool { return fresh(i.Spec.AuthParams.SignedCRT) })
	until(t, w.rome, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "kubeconfig-controlplane-milan"}}, "renewed", func(s *corev1.Secret) bool {
		config, err := clientcmd.RESTConfigFromKubeConfig(s.Data[peering.KeyKubeconfig])
		return err == nil && fresh(config.CertData)
	})
	untilGone(t, w.milan, renew("controlplane-milan"))
	if changed, _ := w.peer(t); changed {
		t.Error("after a renewal, peer changed something")
	}
}

// mayRead reports whether rome's certificate gives it access.
func (w *pair) mayRead(t *testing.T) error {
	return w.consumerClient(t, w.config(t)).List(t.Context(), &authv1beta1.RenewList{}, client.InNamespace("liqo-tenant-rome"))
}

func (w *pair) condition(t *testing.T, to authv1beta1.TenantCondition) {
	t.Helper()
	if err := w.milan.Patch(t.Context(), tenantIn(w.milan), client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"tenantCondition":%q}}`, to))); err != nil {
		t.Fatal(err)
	}
}

func answers(status corev1beta1.ConditionStatusType) func(*corev1beta1.ForeignCluster) bool {
	return func(fc *corev1beta1.ForeignCluster) bool {
		return slices.ContainsFunc(fc.Status.Conditions, func(c corev1beta1.Condition) bool {
			return c.Type == corev1beta1.APIServerStatusCondition && c.Status == status
		})
	}
}

func (w *pair) testDrained(t *testing.T) {
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: render.ConsumerAccessName}}
	w.condition(t, authv1beta1.TenantConditionDrained)
	untilGone(t, w.milan, binding)
	if err := w.mayRead(t); !apierrors.IsForbidden(err) {
		t.Errorf("drained: got %v", err)
	}
	milan := &corev1beta1.ForeignCluster{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
	until(t, w.rome, milan, "seen to be drained", answers(corev1beta1.ConditionStatusError))
	w.condition(t, authv1beta1.TenantConditionActive)
	until(t, w.milan, binding, "there again", func(*rbacv1.RoleBinding) bool { return true })
	until(t, w.rome, milan, "back", answers(corev1beta1.ConditionStatusEstablished))
	// Who takes the binding away by hand takes nothing away.
	if err := w.milan.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	until(t, w.milan, binding, "there again", func(*rbacv1.RoleBinding) bool { return true })
}

// testAnotherKey: another key that has signed nothing is refused, and ends the access.
// An installation that was made again, and so has another key, gets access by peer.
func (w *pair) testAnotherKey(t *testing.T) {
	other := newConsumer(t, "rome")
	tenant := until(t, w.milan, tenantIn(w.milan), "there", func(*authv1beta1.Tenant) bool { return true })
	w.milan.apply(t, peering.Tenant(render.Tenant{Namespace: tenant.Namespace, Remote: "rome"}, peering.Applicant{
		ID: "rome", Request: other.request, Signature: tenant.Spec.Signature, ProxyURL: w.proxy,
	}))
	until(t, w.milan, tenant, "refused", func(o *authv1beta1.Tenant) bool {
		return strings.Contains(o.Annotations[render.AnnotationProblem], "its signature is not one of this namespace's present nonce")
	})
	untilGone(t, w.milan, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: render.ConsumerAccessName}})
	w.rome.stop()
	w.rome.runDelete(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: peering.KeysName}})
	w.rome.runOperator(render.PeeringConsumer)
	until(t, w.rome, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: peering.KeysName}}, "made again", func(*corev1.Secret) bool { return true })
	if changed, _ := w.peer(t); !changed {
		t.Error("peer did nothing for the other key")
	}
	if err := w.mayRead(t); err != nil {
		t.Errorf("with the other key: %v", err)
	}
}

// testEnd: nothing is left, and the certificate that can't be called back allows nothing.
func (w *pair) testEnd(t *testing.T, before [2][]string) {
	access := w.config(t)
	nonce := until(t, w.milan, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: peering.NonceName}}, "there", func(*corev1.Secret) bool { return true })
	tenant := until(t, w.milan, tenantIn(w.milan), "there", func(*authv1beta1.Tenant) bool { return true })
	// A Tenant that is made again with the signature of before gets nothing by it.
	if err := w.milan.Delete(t.Context(), tenant); err != nil {
		t.Fatal(err)
	}
	text := nonce.Data[peering.KeyNonce]
	until(t, w.milan, nonce, "another", func(s *corev1.Secret) bool { return string(s.Data[peering.KeyNonce]) != string(text) })
	if err := w.consumerClient(t, access).List(t.Context(), &authv1beta1.RenewList{}, client.InNamespace("liqo-tenant-rome")); !apierrors.IsForbidden(err) {
		t.Errorf("without a Tenant: got %v", err)
	}
	again := peering.Tenant(render.Tenant{Namespace: tenant.Namespace, Remote: "rome"}, peering.Applicant{
		ID: "rome", Request: peering.Request{PublicKey: tenant.Spec.PublicKey, CSR: tenant.Spec.CSR}, Signature: tenant.Spec.Signature, ProxyURL: w.proxy,
	})
	w.milan.apply(t, again)
	until(t, w.milan, again, "refused", func(o *authv1beta1.Tenant) bool {
		return strings.HasPrefix(o.Annotations[render.AnnotationProblem], render.ProblemRefused+"its signature")
	})
	if again.Status.AuthParams != nil {
		t.Error("a replayed signature was given access")
	}
	_, _ = w.peer(t)
	w.milan.runDelete(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "victim"}})
	w.run(t, peer.Removing(peer.RemoveOptions{Consumer: flows.A}))
	if err := w.consumerClient(t, access).List(t.Context(), &authv1beta1.RenewList{}, client.InNamespace("liqo-tenant-rome")); !apierrors.IsForbidden(err) {
		t.Errorf("after unpeer: got %v", err)
	}
	for i, p := range []*plane{w.rome, w.milan} {
		p.untilLike(t, before[i])
	}
}

// apply applies as the admin's program does.
func (p *plane) apply(t *testing.T, o render.Object) {
	t.Helper()
	u, err := render.Wanted(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(render.FieldManager), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
}

func (p *plane) runDelete(t *testing.T, o client.Object) {
	t.Helper()
	if err := p.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	untilGone(t, p, o)
}

// TestTenantsThatAreRefused tries to become somebody that one must not be. Each has a
// namespace with the labels, a nonce, and all else that it needs.
func TestTenantsThatAreRefused(t *testing.T) {
	requireAPI(t)
	milan := newPlane(t, "milan", render.PeeringProvider)
	bind := func(kind, name, binding string) {
		milan.create(&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: binding}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}},
		})
	}
	milan.create(&rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "of-admins"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "admins"}},
	})
	bind(rbacv1.UserKind, "ada", "of-ada")
	request := func(c consumer, subject pkix.Name, change func(*x509.CertificateRequest)) []byte {
		block, _ := pem.Decode(c.private)
		key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.CertificateRequest{Subject: subject}
		if change != nil {
			change(template)
		}
		der, err := x509.CreateCertificateRequest(rand.Reader, template, key.(crypto.Signer))
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
	}
	type applying struct {
		consumer
		t *authv1beta1.Tenant
	}
	subject := func(a *applying, organizations ...string) pkix.Name {
		return pkix.Name{CommonName: string(a.t.Spec.ClusterID), Organization: organizations}
	}
	with := func(change func(a *applying, name *pkix.Name, csr *x509.CertificateRequest)) func(*applying) {
		return func(a *applying) {
			name := subject(a, "liqo.io")
			a.t.Spec.CSR = request(a.consumer, name, func(r *x509.CertificateRequest) { change(a, &r.Subject, r) })
		}
	}
	none := func(*applying) {}
	cases := []struct {
		name   string
		id     render.ClusterID
		change func(*applying)
		want   string // "" for one that is accepted
	}{
		{"a control", "turin", none, ""},
		{"two groups", "two-groups", with(func(_ *applying, n *pkix.Name, _ *x509.CertificateRequest) {
			n.Organization = []string{"liqo.io", "turin"}
		}), "for the groups"},
		{"a group of admins first", "masters", with(func(_ *applying, n *pkix.Name, _ *x509.CertificateRequest) {
			n.Organization = []string{"system:masters", "liqo.io"}
		}), "for the groups"},
		{"a group of admins alone", "masters-alone", with(func(_ *applying, n *pkix.Name, _ *x509.CertificateRequest) {
			n.Organization = []string{"system:masters"}
		}), "for the groups"},
		{"no group", "no-group", with(func(_ *applying, n *pkix.Name, _ *x509.CertificateRequest) { n.Organization = nil }), "for the groups"},
		{"another user", "another-user", with(func(_ *applying, n *pkix.Name, _ *x509.CertificateRequest) { n.CommonName = "turin" }), `is for user "turin"`},
		{"an admin", "admin", with(func(_ *applying, n *pkix.Name, _ *x509.CertificateRequest) { n.CommonName = "kubernetes-admin" }), "is for user"},
		{"a component of the control plane", "component", with(func(_ *applying, n *pkix.Name, _ *x509.CertificateRequest) { n.CommonName = "system:kube-scheduler" }), "is for user"},
		{"a unit", "unit", with(func(_ *applying, n *pkix.Name, _ *x509.CertificateRequest) { n.OrganizationalUnit = []string{"x"} }), "more than a name and a group"},
		{"a UID", "uid", with(func(_ *applying, n *pkix.Name, _ *x509.CertificateRequest) {
			n.ExtraNames = []pkix.AttributeTypeAndValue{{Type: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57683, 2}, Value: "x"}}
		}), "more than a name and a group"},
		{"a DNS name", "dns-name", with(func(_ *applying, _ *pkix.Name, r *x509.CertificateRequest) {
			r.DNSNames = []string{"kubernetes.default.svc"}
		}), "asks for extensions"},
		{"a usage", "usage", with(func(_ *applying, _ *pkix.Name, r *x509.CertificateRequest) {
			r.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 37}, Value: []byte{0x30, 0x0a, 0x06, 0x08, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x07, 0x03, 0x01}}}
		}), "asks for extensions"},
		{"another's request", "anothers", func(a *applying) { a.t.Spec.CSR = newConsumer(t, "anothers").request.CSR }, "for another key than the Tenant's"},
		{"two requests", "two-requests", func(a *applying) { a.t.Spec.CSR = slices.Concat(a.t.Spec.CSR, a.t.Spec.CSR) }, "not one request"},
		{"a request that is none", "none", func(a *applying) { a.t.Spec.CSR = []byte("x") }, "not one request"},
		{"a request whose signature is damaged", "damaged", func(a *applying) {
			block, _ := pem.Decode(a.t.Spec.CSR)
			block.Bytes[len(block.Bytes)-1] ^= 1
			a.t.Spec.CSR = pem.EncodeToMemory(block)
		}, "not signed by its own key"},
		{"a group of admins as cluster", "admins", none, "ClusterRoleBinding of-admins gives rights to a user or group admins"},
		{"a user as cluster", "ada", none, "RoleBinding default/of-ada gives rights to a user or group ada"},
		{"the provider itself", "milan", none, "this cluster's own"},
		{"no signature", "unsigned", func(a *applying) { a.t.Spec.Signature = nil }, "its signature is not"},
		{"a signature of something else", "signed-else", func(a *applying) { a.t.Spec.Signature = a.sign(t, nonce(t)) }, "its signature is not"},
		{"another's signature", "forged", func(a *applying) { a.t.Spec.Signature = newConsumer(t, "forged").sign(t, nonce(t)) }, "its signature is not"},
		{"no handshake", "tolerated", func(a *applying) {
			policy := authv1beta1.TolerateNoHandshake
			a.t.Spec.AuthzPolicy = &policy
		}, "it wants no handshake"},
	}
	for n, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			namespace := fmt.Sprintf("liqo-tenant-%d", n)
			ns := render.TenantNamespace(render.Tenant{Namespace: namespace, Remote: c.id})
			milan.create(ns)
			secret := peering.Nonce(render.Tenant{Namespace: namespace, Remote: c.id})
			milan.create(secret)
			until(t, milan, secret, "filled", func(s *corev1.Secret) bool { return len(s.Data[peering.KeyNonce]) > 0 })
			a := &applying{consumer: newConsumer(t, c.id)}
			a.t = peering.Tenant(render.Tenant{Namespace: namespace, Remote: c.id}, peering.Applicant{ID: "x", Request: a.request, Signature: a.sign(t, secret.Data[peering.KeyNonce])})
			a.t.Spec.ClusterID = corev1beta1.ClusterID(c.id)
			c.change(a)
			milan.create(a.t)
			if c.want == "" {
				until(t, milan, a.t, "accepted", func(o *authv1beta1.Tenant) bool { return o.Status.AuthParams != nil })
				return
			}
			until(t, milan, a.t, "refused with "+c.want, func(o *authv1beta1.Tenant) bool {
				said := o.Annotations[render.AnnotationProblem]
				return strings.HasPrefix(said, render.ProblemRefused) && strings.Contains(said, c.want)
			})
			milan.gaveNothing(t, namespace, a.t)
			milan.untilTold(t, a.t)
		})
	}
	t.Run("two in one place", func(t *testing.T) {
		second := peering.Tenant(render.Tenant{Namespace: "liqo-tenant-0", Remote: "turin"}, peering.Applicant{ID: "turin-2", Request: newConsumer(t, "turin").request})
		second.Spec.ClusterID = "turin"
		milan.create(second)
		until(t, milan, second, "refused", func(o *authv1beta1.Tenant) bool {
			return strings.Contains(o.Annotations[render.AnnotationProblem], "tenant liqo-tenant-0/x is older")
		})
		first := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-0", Name: "x"}}
		if err := milan.Get(t.Context(), client.ObjectKeyFromObject(first), first); err != nil || first.Annotations[render.AnnotationProblem] != "" {
			t.Errorf("the first: %v, %v", first.Annotations, err)
		}
	})
	t.Run("the operator itself", milan.testOperatorRights)
}

func nonce(t *testing.T) []byte {
	t.Helper()
	n, err := peering.NewNonce(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// gaveNothing: a Tenant that is refused leaves no right, no certificate and no request.
func (p *plane) gaveNothing(t *testing.T, namespace string, tenant *authv1beta1.Tenant) {
	t.Helper()
	if tenant.Status.AuthParams != nil {
		t.Error("it has access")
	}
	for _, o := range []client.Object{
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: render.ConsumerAccessName}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: peering.CertificateName}},
	} {
		if err := p.Get(t.Context(), client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
			t.Errorf("%T is there: %v", o, err)
		}
	}
	var requests certificatesv1.CertificateSigningRequestList
	if err := p.List(t.Context(), &requests); err != nil {
		t.Fatal(err)
	}
	for _, r := range requests.Items {
		if strings.HasPrefix(r.Annotations[peering.AnnotationTenant], namespace+"/") {
			t.Errorf("a certificate was asked for: %s", r.Name)
		}
	}
}

// untilTold waits for the Event that says why.
func (p *plane) untilTold(t *testing.T, tenant *authv1beta1.Tenant) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		var all corev1.EventList
		if err := p.List(t.Context(), &all, client.InNamespace(tenant.Namespace)); err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(all.Items, func(e corev1.Event) bool {
			return e.InvolvedObject.UID == tenant.UID && e.Message == tenant.Annotations[render.AnnotationProblem]
		}) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no Event says %q", tenant.Annotations[render.AnnotationProblem])
		}
	}
}

// testOperatorRights tries what somebody would who has the operator's token.
func (p *plane) testOperatorRights(t *testing.T) {
	c, err := client.New(p.as(operatorUser, "system:serviceaccounts"), client.Options{Scheme: p.Scheme(), Mapper: p.RESTMapper()})
	if err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	p.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "plain"}})
	p.create(render.TenantNamespace(render.Tenant{Namespace: "of-genoa", Remote: "genoa"}))
	request := func(name, signer string, usages ...certificatesv1.KeyUsage) *certificatesv1.CertificateSigningRequest {
		return &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: newConsumer(t, "genoa").request.CSR, SignerName: signer, Usages: usages, ExpirationSeconds: new(int32(3600)),
		}}
	}
	others := request("others", certificatesv1.KubeAPIServerClientSignerName, certificatesv1.UsageClientAuth)
	p.create(others)
	binding := func(namespace, name, role string, subject rbacv1.Subject) error {
		b := &rbacv1.RoleBinding{
			TypeMeta:   metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "RoleBinding"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}, Subjects: []rbacv1.Subject{subject},
		}
		u, err := render.Wanted(b)
		if err != nil {
			return err
		}
		return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("test"), client.ForceOwnership)
	}
	user := func(name string) rbacv1.Subject {
		return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}
	}
	self := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "liqo", Name: render.OperatorName}
	until(t, p, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "of-genoa", Name: render.PeeringAccessName}}, "made", func(*rbacv1.RoleBinding) bool { return true })
	if err := binding("of-genoa", render.ConsumerAccessName, render.ConsumerAccessName, user("genoa")); err != nil {
		t.Fatalf("what it may do: %v", err)
	}
	for name, try := range map[string]func() error{
		"rights for the consumer elsewhere": func() error {
			return binding("plain", render.ConsumerAccessName, render.ConsumerAccessName, user("genoa"))
		},
		"rights for another consumer": func() error {
			return binding("of-genoa", render.ConsumerAccessName, render.ConsumerAccessName, user("turin"))
		},
		"rights for a group": func() error {
			return binding("of-genoa", render.ConsumerAccessName, render.ConsumerAccessName, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "genoa"})
		},
		"other rights":               func() error { return binding("of-genoa", render.ConsumerAccessName, "admin", user("genoa")) },
		"the Secrets of a namespace": func() error { return binding("plain", render.PeeringAccessName, render.PeeringAccessName, self) },
		"the Secrets of kube-system": func() error { return binding("kube-system", render.PeeringAccessName, render.PeeringAccessName, self) },
		"Secrets for somebody else": func() error {
			return binding("of-genoa", render.PeeringAccessName, render.PeeringAccessName, user("genoa"))
		},
		"a label": func() error {
			return c.Patch(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "plain"}}, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"liqo.io/tenant-namespace":"true"}}}`)))
		},
		"Secrets without a binding": func() error { return c.List(ctx, &corev1.SecretList{}, client.InNamespace("plain")) },
		"a Tenant": func() error {
			return c.Create(ctx, &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: "of-genoa", Name: "x"}})
		},
		"a ResourceSlice": func() error {
			return c.Create(ctx, &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "of-genoa", Name: "x"}})
		},
		"a bound on others' pods": func() error {
			return c.Create(ctx, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "x"}})
		},
		"a serving certificate": func() error {
			return c.Create(ctx, request("serving", certificatesv1.KubeletServingSignerName, certificatesv1.UsageServerAuth))
		},
		"a kubelet's certificate": func() error {
			return c.Create(ctx, request("kubelet", certificatesv1.KubeAPIServerClientKubeletSignerName, certificatesv1.UsageClientAuth))
		},
		"another usage": func() error {
			return c.Create(ctx, request("usage", certificatesv1.KubeAPIServerClientSignerName, certificatesv1.UsageClientAuth, certificatesv1.UsageKeyEncipherment))
		},
		"a long life": func() error {
			r := request("long", certificatesv1.KubeAPIServerClientSignerName, certificatesv1.UsageClientAuth)
			r.Spec.ExpirationSeconds = new(int32(31536000))
			return c.Create(ctx, r)
		},
		"a request of another": func() error {
			r := others.DeepCopy()
			r.Status.Conditions = []certificatesv1.CertificateSigningRequestCondition{{Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "x"}}
			return c.SubResource("approval").Update(ctx, r)
		},
	} {
		if err := try(); !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
			t.Errorf("%s: got %v, want a refusal", name, err)
		}
	}
}
