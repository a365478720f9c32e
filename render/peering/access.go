package peering

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/render"
)

// What our operator writes besides what Liqo's contract names.
const (
	// AnnotationUsed on a Secret with a nonce is the UID of the Tenant that it was for:
	// it is good for no other.
	AnnotationUsed = "liqo-tui.dev/used-for"
	// AnnotationRemoteNamespace on a kubeconfig is the tenant namespace on the provider.
	AnnotationRemoteNamespace = "liqo.io/remote-tenant-namespace"
	// AnnotationTenant on a request for a certificate is namespace/name of its Tenant,
	// AnnotationSlice that of its ResourceSlice.
	AnnotationTenant = "liqo-tui.dev/tenant"
	AnnotationSlice  = "liqo-tui.dev/slice"
	// LabelRequest marks requests for certificates of consumers.
	LabelRequest = "liqo.io/remote-tenant-csr"
	// KeyPublicKey of a certificate's Secret is the key for which the consumer has
	// signed a nonce.
	KeyPublicKey = "publicKey"
)

// CertificateLife is how long a consumer's certificate is good for. It can't be called
// back, so it is short; it is renewed when two thirds are over.
const CertificateLife = 30 * 24 * time.Hour

// RenewAt is when a certificate is to be replaced: then a third of its life is left.
func RenewAt(from, until time.Time) time.Time { return until.Add(-until.Sub(from) / 3) }

func operatorMeta(namespace, name string, remote string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{
		render.LabelRemoteCluster: remote, render.LabelManagedBy: render.OperatorName,
	}}
}

// OperatorAccess gives the operator, which is in namespace home, its rights in a
// namespace that an admin has labelled for a peer.
func OperatorAccess(ns *corev1.Namespace, home string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
		ObjectMeta: operatorMeta(ns.Name, render.PeeringAccessName, ns.Labels[render.LabelRemoteCluster]),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: render.PeeringAccessName},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: home, Name: render.OperatorName}},
	}
}

// ownedBy has o go with its Tenant or Identity.
func ownedBy(kind string, o render.Object) []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: authv1beta1.GroupVersion.String(), Kind: kind, Name: o.GetName(), UID: o.GetUID(), Controller: new(true),
	}}
}

// ConsumerAccess gives a consumer its rights, in its own namespace. They are those of
// the user alone: certificates of slices have the cluster's ID as their group.
func ConsumerAccess(t *authv1beta1.Tenant) *rbacv1.RoleBinding {
	b := &rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
		ObjectMeta: operatorMeta(t.Namespace, render.ConsumerAccessName, string(t.Spec.ClusterID)),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: render.ConsumerAccessName},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: string(t.Spec.ClusterID)}},
	}
	b.OwnerReferences = ownedBy(authv1beta1.TenantKind, t)
	return b
}

// Certified is whom a provider gives a certificate: a Tenant, or one of its slices.
type Certified struct {
	Request
	Subject

	Consumer render.ClusterID
	Owner    render.Object // the certificate goes with it
	kind     string        // of the owner
	mark     string        // annotation that names the owner
	secret   string        // what keeps the certificate
}

// OfTenant is a consumer's control plane.
func OfTenant(t *authv1beta1.Tenant) Certified {
	id := render.ClusterID(t.Spec.ClusterID)
	return Certified{
		Request: Request{PublicKey: t.Spec.PublicKey, CSR: t.Spec.CSR}, Subject: ControlPlane(id),
		Consumer: id, Owner: t, kind: authv1beta1.TenantKind, mark: AnnotationTenant, secret: CertificateName,
	}
}

// OfSlice is who uses the resources of a slice. Its key is the Tenant's.
func OfSlice(s *authv1beta1.ResourceSlice, t *authv1beta1.Tenant) Certified {
	id := render.ClusterID(t.Spec.ClusterID)
	return Certified{
		Request: Request{PublicKey: t.Spec.PublicKey, CSR: s.Spec.CSR}, Subject: SliceUser(s.Name, id),
		Consumer: id, Owner: s, kind: authv1beta1.ResourceSliceKind, mark: AnnotationSlice, secret: SliceCertificateName(s.Name),
	}
}

// Key names the owner in the annotation of a request.
func (c Certified) Key() string { return c.Owner.GetNamespace() + "/" + c.Owner.GetName() }

// SigningRequest asks Kubernetes for a certificate. name differs for each that is asked
// for.
func (c Certified) SigningRequest(name string) *certificatesv1.CertificateSigningRequest {
	r := &certificatesv1.CertificateSigningRequest{
		TypeMeta:   metav1.TypeMeta{APIVersion: certificatesv1.SchemeGroupVersion.String(), Kind: "CertificateSigningRequest"},
		ObjectMeta: operatorMeta("", name, string(c.Consumer)),
		Spec: certificatesv1.CertificateSigningRequestSpec{
			Request: c.CSR, SignerName: certificatesv1.KubeAPIServerClientSignerName, ExpirationSeconds: new(int32(CertificateLife / time.Second)),
			Usages: []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth},
		},
	}
	r.Labels[LabelRequest] = "true"
	r.Annotations = map[string]string{c.mark: c.Key()}
	return r
}

// AnnotationAuthority on what was signed tells under which certificate authority of the
// cluster it was.
const AnnotationAuthority = "liqo-tui.dev/authority"

// Secret keeps what was signed, and for which key.
func (c Certified) Secret(certificate []byte) *corev1.Secret {
	s := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: operatorMeta(c.Owner.GetNamespace(), c.secret, string(c.Consumer))}
	s.OwnerReferences = ownedBy(c.kind, c.Owner)
	s.Data = map[string][]byte{KeyCSR: c.CSR, KeyCertificate: certificate, KeyPublicKey: c.PublicKey}
	return s
}

// KubeconfigName is the name of the Secret with an Identity's kubeconfig.
func KubeconfigName(identity string) string { return "kubeconfig-" + identity }

// Kubeconfig is the Secret with which the cluster of this private key uses an Identity.
func Kubeconfig(i *authv1beta1.Identity, privateKey []byte) (*corev1.Secret, error) {
	p := i.Spec.AuthParams
	if u, err := url.Parse(p.APIServer); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, fmt.Errorf("its API server %q is no URL like https://203.0.113.7:6443", p.APIServer)
	}
	_, request, err := parseKey(privateKey)
	if err != nil {
		return nil, err
	}
	if !request.Certifies(p.SignedCRT) {
		return nil, errors.New("its certificate is not for the key of this cluster")
	}
	cluster := map[string]any{"server": p.APIServer}
	if len(p.CA) > 0 {
		cluster["certificate-authority-data"] = p.CA
	}
	if p.ProxyURL != nil && *p.ProxyURL != "" {
		cluster["proxy-url"] = *p.ProxyURL
	}
	name, use := string(i.Spec.ClusterID), map[string]any{}
	use["cluster"], use["user"] = name, i.Name
	s := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: operatorMeta(i.Namespace, KubeconfigName(i.Name), name)}
	s.OwnerReferences = ownedBy(authv1beta1.IdentityKind, i)
	s.Labels[LabelIdentityType] = string(i.Spec.Type)
	if i.Spec.Namespace != nil {
		use["namespace"] = *i.Spec.Namespace
		s.Annotations = map[string]string{AnnotationRemoteNamespace: *i.Spec.Namespace}
	}
	text, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "default-context",
		"clusters": []any{map[string]any{"name": name, "cluster": cluster}},
		"users":    []any{map[string]any{"name": i.Name, "user": map[string]any{"client-certificate-data": p.SignedCRT, "client-key-data": privateKey}}},
		"contexts": []any{map[string]any{"name": "default-context", "context": use}},
	})
	if err != nil {
		return nil, fmt.Errorf("render the kubeconfig: %w", err)
	}
	s.Data = map[string][]byte{KeyKubeconfig: text}
	return s, nil
}
