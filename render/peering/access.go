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

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Annotations and labels of our operator, beyond Liqo's contract.
const (
	// AnnotationUsed on the Secret of a nonce is the UID of the Tenant that has used it. The nonce is valid
	// for no other Tenant.
	AnnotationUsed = "liqo-tui.dev/used-for"
	// AnnotationRemoteNamespace on a kubeconfig is the tenant namespace on the provider.
	AnnotationRemoteNamespace = "liqo.io/remote-tenant-namespace"
	// AnnotationTenant on a signing request is the namespace/name of its Tenant, and AnnotationSlice that of
	// its ResourceSlice.
	AnnotationTenant = "liqo-tui.dev/tenant"
	AnnotationSlice  = "liqo-tui.dev/slice"
	// LabelRequest marks the signing requests for consumers.
	LabelRequest = "liqo.io/remote-tenant-csr"
	// KeyPublicKey in the Secret of a certificate is the key with which the consumer has signed a nonce.
	KeyPublicKey = "publicKey"
)

// CertificateLife is the lifetime of a consumer's certificate. It is short, because a certificate can't be
// revoked. The certificate is renewed after two thirds of it.
const CertificateLife = 30 * 24 * time.Hour

// RenewAt returns the time at which a certificate has to be replaced: when a third of its life is left.
func RenewAt(from, until time.Time) time.Time { return until.Add(-until.Sub(from) / 3) }

func operatorMeta(namespace, name string, remote string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{
		wire.LabelRemoteCluster: remote, wire.LabelManagedBy: wire.OperatorName,
	}}
}

// OperatorAccess returns the rights of the operator in namespace home, in a namespace that an admin has
// labelled for a peer.
func OperatorAccess(ns *corev1.Namespace, home string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
		ObjectMeta: operatorMeta(ns.Name, wire.PeeringAccessName, ns.Labels[wire.LabelRemoteCluster]),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: wire.PeeringAccessName},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: home, Name: wire.OperatorName}},
	}
}

// ownedBy returns a reference that makes o, which is of this kind, the owner.
func ownedBy(kind string, o wire.Object) []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: authv1beta1.GroupVersion.String(), Kind: kind, Name: o.GetName(), UID: o.GetUID(), Controller: new(true),
	}}
}

// ConsumerAccess returns the rights of a consumer in its tenant namespace. Only the user of its control plane
// has them: certificates of slices have the cluster ID only as their group.
func ConsumerAccess(t *authv1beta1.Tenant) *rbacv1.RoleBinding {
	b := &rbacv1.RoleBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"},
		ObjectMeta: operatorMeta(t.Namespace, wire.ConsumerAccessName, string(t.Spec.ClusterID)),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: wire.ConsumerAccessName},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: string(t.Spec.ClusterID)}},
	}
	b.OwnerReferences = ownedBy(authv1beta1.TenantKind, t)
	return b
}

// Certified is the owner of a certificate: a Tenant, or one of its slices.
type Certified struct {
	Request
	Subject

	Consumer wire.ClusterID
	Owner    wire.Object // its deletion deletes the certificate
	kind     string      // of the owner
	mark     string      // annotation that names the owner
	secret   string      // the Secret that keeps the certificate
}

// OfTenant returns the certificate's owner for a consumer's control plane.
func OfTenant(t *authv1beta1.Tenant) Certified {
	id := wire.ClusterID(t.Spec.ClusterID)
	return Certified{
		Request: Request{PublicKey: t.Spec.PublicKey, CSR: t.Spec.CSR}, Subject: ControlPlane(id),
		Consumer: id, Owner: t, kind: authv1beta1.TenantKind, mark: AnnotationTenant, secret: CertificateName,
	}
}

// OfSlice returns the certificate's owner for the user of a slice. The key is the Tenant's.
func OfSlice(s *authv1beta1.ResourceSlice, t *authv1beta1.Tenant) Certified {
	id := wire.ClusterID(t.Spec.ClusterID)
	return Certified{
		Request: Request{PublicKey: t.Spec.PublicKey, CSR: s.Spec.CSR}, Subject: SliceUser(s.Name, id),
		Consumer: id, Owner: s, kind: authv1beta1.ResourceSliceKind, mark: AnnotationSlice, secret: SliceCertificateName(s.Name),
	}
}

// Key returns the value of the annotation that names the owner.
func (c Certified) Key() string { return c.Owner.GetNamespace() + "/" + c.Owner.GetName() }

// SigningRequest returns a request to Kubernetes for a certificate. Each certificate needs another name.
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

// AnnotationAuthority on the Secret of a certificate identifies the cluster's certificate authorities at
// the time of signing.
const AnnotationAuthority = "liqo-tui.dev/authority"

// Secret returns the Secret with a certificate, its request and its key.
func (c Certified) Secret(certificate []byte) *corev1.Secret {
	s := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: operatorMeta(c.Owner.GetNamespace(), c.secret, string(c.Consumer))}
	s.OwnerReferences = ownedBy(c.kind, c.Owner)
	s.Data = map[string][]byte{KeyCSR: c.CSR, KeyCertificate: certificate, KeyPublicKey: c.PublicKey}
	return s
}

// KubeconfigName returns the name of the Secret with an Identity's kubeconfig.
func KubeconfigName(identity string) string { return "kubeconfig-" + identity }

// Kubeconfig returns the Secret with the kubeconfig for an Identity. privateKey is this cluster's private
// key.
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
