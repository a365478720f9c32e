package lending_test

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	certificatesv1 "k8s.io/api/certificates/v1"
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

// TestTenantsThatAreRefused tries to get the rights of others by a Tenant. Each Tenant has a namespace with
// the labels, a nonce, and everything else that it needs.
func TestTenantsThatAreRefused(t *testing.T) {
	t.Parallel() // because it mostly waits
	requireAPI(t)
	abuses.Begin(t)
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
		id     wire.ClusterID
		change func(*applying)
		want   string // "" if it is accepted
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
				abuses.Permitted(t, "an applicant", c.name, nil)
				return
			}
			until(t, milan, a.t, "refused with "+c.want, func(o *authv1beta1.Tenant) bool {
				said := o.Annotations[wire.AnnotationProblem]
				return strings.HasPrefix(said, wire.ProblemRefused) && strings.Contains(said, c.want)
			})
			milan.gaveNothing(t, namespace, a.t)
			milan.untilTold(t, a.t)
			abuses.Refused(t, "an applicant", c.name, errors.New(a.t.Annotations[wire.AnnotationProblem]))
		})
	}
	t.Run("two in one place", func(t *testing.T) {
		second := peering.Tenant(render.Tenant{Namespace: "liqo-tenant-0", Remote: "turin"}, peering.Applicant{ID: "turin-2", Request: newConsumer(t, "turin").request})
		second.Spec.ClusterID = "turin"
		milan.create(second)
		until(t, milan, second, "refused", func(o *authv1beta1.Tenant) bool {
			return strings.Contains(o.Annotations[wire.AnnotationProblem], "tenant liqo-tenant-0/x is older")
		})
		first := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-0", Name: "x"}}
		if err := milan.Get(t.Context(), client.ObjectKeyFromObject(first), first); err != nil || first.Annotations[wire.AnnotationProblem] != "" {
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

// gaveNothing tests that a refused Tenant has no right, no certificate and no request.
func (p *plane) gaveNothing(t *testing.T, namespace string, tenant *authv1beta1.Tenant) {
	t.Helper()
	if tenant.Status.AuthParams != nil {
		t.Error("it has access")
	}
	for _, o := range []client.Object{
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: wire.ConsumerAccessName}},
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

// untilTold waits for the Event with the reason.
func (p *plane) untilTold(t *testing.T, tenant *authv1beta1.Tenant) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		var all corev1.EventList
		if err := p.List(t.Context(), &all, client.InNamespace(tenant.Namespace)); err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(all.Items, func(e corev1.Event) bool {
			return e.InvolvedObject.UID == tenant.UID && e.Message == tenant.Annotations[wire.AnnotationProblem]
		}) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("no Event says %q", tenant.Annotations[wire.AnnotationProblem])
		}
	}
}

// testOperatorRights makes an attacker's requests with the operator's token.
func (p *plane) testOperatorRights(t *testing.T) {
	c := p.clientAs(t, p.as(operatorUser, "system:serviceaccounts"))
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
		u, err := apply.Wanted(b)
		if err != nil {
			return err
		}
		return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner("test"), client.ForceOwnership)
	}
	user := func(name string) rbacv1.Subject {
		return rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: name}
	}
	self := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: "liqo", Name: wire.OperatorName}
	until(t, p, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "of-genoa", Name: wire.PeeringAccessName}}, "made", func(*rbacv1.RoleBinding) bool { return true })
	abuses.Permitted(t, "the operator", "rights for the consumer", binding("of-genoa", wire.ConsumerAccessName, wire.ConsumerAccessName, user("genoa")))
	abuses.Permitted(t, "the operator", "a request for a certificate", c.Create(ctx, request("fine", certificatesv1.KubeAPIServerClientSignerName, certificatesv1.UsageClientAuth), client.DryRunAll))
	(&pair{}).refused(t, "the operator", map[string]attempt{
		"rights for the consumer elsewhere": func() error {
			return binding("plain", wire.ConsumerAccessName, wire.ConsumerAccessName, user("genoa"))
		},
		"rights for another consumer": func() error {
			return binding("of-genoa", wire.ConsumerAccessName, wire.ConsumerAccessName, user("turin"))
		},
		"rights for a group": func() error {
			return binding("of-genoa", wire.ConsumerAccessName, wire.ConsumerAccessName, rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "genoa"})
		},
		"other rights":               func() error { return binding("of-genoa", wire.ConsumerAccessName, "admin", user("genoa")) },
		"the Secrets of a namespace": func() error { return binding("plain", wire.PeeringAccessName, wire.PeeringAccessName, self) },
		"the Secrets of kube-system": func() error { return binding("kube-system", wire.PeeringAccessName, wire.PeeringAccessName, self) },
		"Secrets for somebody else": func() error {
			return binding("of-genoa", wire.PeeringAccessName, wire.PeeringAccessName, user("genoa"))
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
	})
}
