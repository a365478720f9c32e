package lending_test

import (
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"slices"
	"strconv"
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
	"github.com/liqo-tui/liqo-tui/internal/abuses"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/kube"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// In TestPeering, rome uses milan, only with our operators and with the plan that peers clusters with Liqo.
func TestPeering(t *testing.T) {
	t.Parallel() // because it mostly waits
	requireAPI(t)
	abuses.Begin(t)
	rome, milan := newPlane(t, "rome", render.PeeringConsumer), newPlane(t, "milan", render.PeeringProvider)
	until(t, rome, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: peering.KeysName}}, "made", func(s *corev1.Secret) bool { return len(s.Data) == 2 })
	before := [2][]string{rome.begun(t), milan.begun(t)}
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
			return // the next part needs the end state of this part
		}
	}
}

type pair struct {
	t           *testing.T
	rome, milan *plane
	proxy       string
	params      peer.Params  // except the proxy; the zero value requests only access
	access      *rest.Config // of rome, to milan
	node        bool         // with a virtual node
	watched     func()       // stops [hasNoGap] on milan
}

func (w *pair) run(t *testing.T, goal flows.Goal) (changed bool, took time.Duration) {
	t.Helper()
	return runOn(t, goal, w.rome.cluster(), w.milan.cluster())
}

func runOn(t *testing.T, goal flows.Goal, rome, milan *kube.Cluster) (changed bool, took time.Duration) {
	t.Helper()
	began := time.Now()
	var last flows.Plan
	err := engine.Run(t.Context(), goal, rome, milan, func(e engine.Event) { last, changed = e.Plan, changed || e.Changed() }, engine.Options{Timeout: patience})
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
	p.ProxyURL, p.VirtualNode = w.proxy, strconv.FormatBool(w.node)
	if p.CPU == "" {
		p.Slice = "false"
	}
	return w.run(t, flows.Planner(func(f flows.Facts) flows.Plan { return peer.Plan(p, nil, [2]string{}, f) }))
}

func tenantIn(p *plane) *authv1beta1.Tenant {
	return &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "rome"}}
}

func identity() *authv1beta1.Identity {
	return &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "controlplane-milan"}}
}

// config returns the access that is in the consumer's kubeconfig now.
func (w *pair) config(t *testing.T) *rest.Config {
	t.Helper()
	s := &corev1.Secret{}
	if err := w.rome.Get(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-milan", Name: "kubeconfig-controlplane-milan"}, s); err != nil {
		t.Fatal(err)
	}
	if s.Labels[peering.LabelIdentityType] != "ControlPlane" || s.Labels[wire.LabelRemoteCluster] != "milan" || s.Annotations[peering.AnnotationRemoteNamespace] != "liqo-tenant-rome" {
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

// consumerClient returns a client of milan's API with rome's rights.
func (w *pair) consumerClient(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	return w.milan.clientAs(t, config)
}

func renew(name string) *authv1beta1.Renew {
	return &authv1beta1.Renew{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: name},
		Spec:       authv1beta1.RenewSpec{ConsumerClusterID: "rome", IdentityType: authv1beta1.ControlPlaneIdentityType},
	}
}

// testConsumerRights makes an attacker's requests with the consumer's real credentials. The first row proves
// that the later requests reach the API server.
func (w *pair) testConsumerRights(t *testing.T) {
	c := w.consumerClient(t, w.access)
	ctx := t.Context()
	own := renew("controlplane-milan")
	abuses.Permitted(t, "the consumer", "its Renew", c.Create(ctx, own))
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
	w.refused(t, "the consumer", map[string]attempt{
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
			return c.Create(ctx, &rbacv1.RoleBinding{ObjectMeta: object("victim", wire.ConsumerAccessName), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: wire.ConsumerAccessName}})
		},
		"a binding to cluster-admin": func() error {
			return c.Create(ctx, &rbacv1.RoleBinding{ObjectMeta: object("liqo-tenant-rome", "x"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}})
		},
		"more in its role": func() error {
			return c.Patch(ctx, &rbacv1.ClusterRole{ObjectMeta: object("", wire.ConsumerAccessName)}, merge(`{"rules":[]}`))
		},
		"no policy": func() error {
			return c.Delete(ctx, &rbacv1.ClusterRole{ObjectMeta: object("", wire.ConsumerAccessName)})
		},
		"a request for an admin's certificate": func() error {
			return c.Create(ctx, &certificatesv1.CertificateSigningRequest{ObjectMeta: object("", "x"), Spec: certificatesv1.CertificateSigningRequestSpec{
				Request: other.request.CSR, SignerName: certificatesv1.KubeAPIServerClientSignerName, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
			}})
		},
		"requests of others": func() error { return c.List(ctx, &certificatesv1.CertificateSigningRequestList{}) },
		"a token of the operator": func() error {
			return c.SubResource("token").Create(ctx, &corev1.ServiceAccount{ObjectMeta: object("liqo", wire.OperatorName)}, &authenticationv1.TokenRequest{})
		},
		"the operator's account": func() error {
			return impersonating(operatorUser).List(ctx, &corev1.SecretList{}, client.InNamespace("liqo-tenant-rome"))
		},
		"the group of admins": func() error { return impersonating("rome", "system:masters").List(ctx, &corev1.SecretList{}) },
		"another consumer": func() error {
			return impersonating("turin").List(ctx, &authv1beta1.RenewList{}, client.InNamespace("liqo-tenant-rome"))
		},
		"the other side's ForeignCluster": func() error { return c.List(ctx, &corev1beta1.ForeignClusterList{}) },
	})
	if err := c.Delete(ctx, own); err != nil {
		t.Error(err)
	}
	// Without a certificate of milan's authority, the client has no user.
	foreign := rest.CopyConfig(w.access)
	foreign.CertData, foreign.KeyData = w.rome.config.CertData, w.rome.config.KeyData
	if err := w.consumerClient(t, foreign).List(ctx, &authv1beta1.RenewList{}, client.InNamespace("liqo-tenant-rome")); !apierrors.IsUnauthorized(err) {
		t.Errorf("with an admin's certificate of the other cluster: got %v", err)
	}
}

// testRenewal gives rome a certificate in the last third of its life.
func (w *pair) testRenewal(t *testing.T) {
	keys := &corev1.Secret{}
	if err := w.rome.Get(t.Context(), client.ObjectKey{Namespace: "liqo", Name: peering.KeysName}, keys); err != nil {
		t.Fatal(err)
	}
	request, err := peering.NewRequest(keys.Data[wire.SecretPrivateKey], "rome", rand.Reader)
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
	// The consumer's certificate is replaced first, because the event of the provider's certificate starts
	// the renewal.
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
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: wire.ConsumerAccessName}}
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
	// A user who deletes the binding does not end the access.
	if err := w.milan.Delete(t.Context(), binding); err != nil {
		t.Fatal(err)
	}
	until(t, w.milan, binding, "there again", func(*rbacv1.RoleBinding) bool { return true })
}

// testAnotherKey tests that a key without a signature is refused, and ends the access. A new installation,
// which has another key, gets access by peer.
func (w *pair) testAnotherKey(t *testing.T) {
	other := newConsumer(t, "rome")
	tenant := until(t, w.milan, tenantIn(w.milan), "there", func(*authv1beta1.Tenant) bool { return true })
	w.milan.apply(t, peering.Tenant(render.Tenant{Namespace: tenant.Namespace, Remote: "rome"}, peering.Applicant{
		ID: "rome", Request: other.request, Signature: tenant.Spec.Signature, ProxyURL: w.proxy,
	}))
	until(t, w.milan, tenant, "refused", func(o *authv1beta1.Tenant) bool {
		return strings.Contains(o.Annotations[wire.AnnotationProblem], "its signature is not valid for this namespace's present nonce")
	})
	untilGone(t, w.milan, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: wire.ConsumerAccessName}})
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

// testEnd tests that no object is left, and that the certificate, which can't be revoked, allows nothing.
func (w *pair) testEnd(t *testing.T, before [2][]string) {
	access := w.config(t)
	nonce := until(t, w.milan, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: peering.NonceName}}, "there", func(*corev1.Secret) bool { return true })
	tenant := until(t, w.milan, tenantIn(w.milan), "there", func(*authv1beta1.Tenant) bool { return true })
	// A new Tenant with the earlier signature gets no access.
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
		return strings.HasPrefix(o.Annotations[wire.AnnotationProblem], wire.ProblemRefused+"its signature")
	})
	if again.Status.AuthParams != nil {
		t.Error("a replayed signature was given access")
	}
	_, _ = w.peer(t)
	w.milan.runDelete(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "victim"}})
	w.run(t, peer.Removal{RemoveOptions: peer.RemoveOptions{Consumer: flows.A}})
	if err := w.consumerClient(t, access).List(t.Context(), &authv1beta1.RenewList{}, client.InNamespace("liqo-tenant-rome")); !apierrors.IsForbidden(err) {
		t.Errorf("after unpeer: got %v", err)
	}
	for i, p := range []*plane{w.rome, w.milan} {
		p.untilLike(t, before[i])
	}
}

// apply applies an object as the admin's program does.
func (p *plane) apply(t *testing.T, o wire.Object) {
	t.Helper()
	u, err := apply.Wanted(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(wire.FieldManager), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
}

func (p *plane) runDelete(t *testing.T, o client.Object) {
	t.Helper()
	if err := p.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		t.Fatal(err)
	}
	was := o.GetUID()
	if err := p.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	// Another program may create the object again before a read shows that it is gone.
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		err := p.Get(t.Context(), client.ObjectKeyFromObject(o), o)
		if apierrors.IsNotFound(err) || err == nil && o.GetUID() != was {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%T %s is still there (%v)", o, client.ObjectKeyFromObject(o), err)
		}
	}
}
