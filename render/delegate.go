package render

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// LabelDelegate marks all objects that let the peer's operator, or its admin, change something on this
// cluster.
const LabelDelegate = "liqo-tui.dev/delegate"

// Values of [LabelDelegate].
const (
	DelegateIdentity = "identity" // the account of the peer's operator on this cluster, and its rights
	DelegateAccess   = "access"   // the Secret with which our own operator reaches the peer's cluster
	DelegateUser     = "user"     // the account of the peer's admin on this cluster, and its rights
)

// Annotations of a [Delegate.Access] Secret, and of the gateway that the Secret is for.
const (
	annotationPeerGateway = "liqo-tui.dev/peer-gateway"
	annotationPeerKey     = "liqo-tui.dev/peer-key"
	annotationCarries     = "liqo-tui.dev/carries"
	annotationPeerDials   = "liqo-tui.dev/peer-dials"
	annotationExpires     = "liqo-tui.dev/token-expires" // RFC 3339
	// AnnotationCarried on a GatewayClient is the last endpoint that the peer's operator wrote into it, as
	// [EndpointText]. If it differs from the endpoint, another program or person has changed the endpoint.
	AnnotationCarried = "liqo-tui.dev/carried-endpoint"
	// AnnotationLocalRanges on a Configuration contains this cluster's ranges as the operator has written
	// them, as [wire.RangesText]. If the ranges in the spec differ, an admin has changed them. Then the
	// operator does not send them to the peer.
	AnnotationLocalRanges = "liqo-tui.dev/local-ranges"
	// AnnotationPeerRanges on a PublicKey contains the peer's ranges, as [wire.RangesText], which the peer's
	// operator has written.
	AnnotationPeerRanges = "liqo-tui.dev/peer-ranges"
	// AnnotationCarriedRanges on a Configuration lists the peer's ranges that only the peer's operator has
	// stated, with commas between them. No admin of this cluster has agreed to them. On a Network, it
	// contains the range of the Network for the same reason.
	AnnotationCarriedRanges = "liqo-tui.dev/carried-ranges"
	// AnnotationDelegation on a gateway is one sentence of its operator: the changes that it writes to the
	// peer's cluster, or the reason that it can't.
	AnnotationDelegation = "liqo-tui.dev/delegation"
)

// Words in an [AnnotationDelegation] that mean that the operator has reached the peer's cluster.
const (
	DelegationCarried = " carried to "
	DelegationPassed  = " passed to "
)

// Carried reports whether an [AnnotationDelegation] says that the operator has reached the peer's
// cluster.
func Carried(said string) bool {
	return strings.Contains(said, DelegationCarried) || strings.Contains(said, DelegationPassed)
}

// DelegateTokenLife is the lifetime of a delegate's token. The operator renews the token long before its end.
// So a token from an old backup has expired.
const DelegateTokenLife = 24 * time.Hour

const (
	kubeconfigKey   = "kubeconfig"
	carriesKey      = "key"
	carriesEndpoint = "endpoint,key"
)

// EndpointText writes an endpoint as "192.0.2.7:31840", with commas between several addresses.
func EndpointText(e networkingv1beta1.EndpointStatus) string {
	all := make([]string, len(e.Addresses))
	for i, address := range e.Addresses {
		all[i] = net.JoinHostPort(address, strconv.Itoa(int(e.Port)))
	}
	return strings.Join(all, ",")
}

// Delegate is the right of the peer's operator to keep one gateway, and the
// public key beside it, up to date.
type Delegate struct {
	Tenant    Tenant
	Gateway   wire.Object // GatewayServer or GatewayClient on the same cluster, with its kind; it owns all objects of the delegate
	PublicKey string      // name of the PublicKey
}

// DelegateName returns the name of the objects of the peer's operator's identity.
func DelegateName(gateway string) string { return gateway + "-delegate" }

// DelegateTokenName returns the name of the Secret with the identity's token.
func DelegateTokenName(gateway string) string { return gateway + "-delegate-token" }

// DelegateAccessName returns the name of the Secret with the access to the peer's cluster.
func DelegateAccessName(gateway string) string { return gateway + "-peer-access" }

func (d Delegate) meta(name, value string) metav1.ObjectMeta {
	meta := d.Tenant.meta(name)
	meta.Labels[LabelDelegate], meta.Labels[wire.LabelGatewayName] = value, d.Gateway.GetName()
	meta.OwnerReferences = []metav1.OwnerReference{OwnerReference(d.Gateway)}
	return meta
}

// Identity returns the account of the peer's operator on this cluster, and its only rights: get and patch the
// PublicKey and the GatewayClient, by name. policies.yaml limits the fields. The account may not change a
// GatewayServer. The first token is in a Secret, where all tokens are without expiry. So the operator
// requests a token that expires, and deletes the first one. The deletion of the account ends all its access.
func (d Delegate) Identity() []wire.Object {
	name := DelegateName(d.Gateway.GetName())
	group, verbs := []string{networkingv1beta1.GroupVersion.Group}, []string{"get", "patch"}
	rules := []rbacv1.PolicyRule{
		{APIGroups: group, Resources: []string{"publickeies"}, ResourceNames: []string{d.PublicKey}, Verbs: verbs},
		{APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{name}, Verbs: []string{"create"}},
		{APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{DelegateTokenName(d.Gateway.GetName())}, Verbs: []string{"delete"}},
	}
	if d.Gateway.GetObjectKind().GroupVersionKind().Kind == networkingv1beta1.GatewayClientKind {
		rules = append(rules, rbacv1.PolicyRule{APIGroups: group, Resources: []string{"gatewayclients"}, ResourceNames: []string{d.Gateway.GetName()}, Verbs: verbs})
	}
	token := d.meta(DelegateTokenName(d.Gateway.GetName()), DelegateIdentity)
	token.Annotations = map[string]string{corev1.ServiceAccountNameKey: name}
	return []wire.Object{
		&corev1.ServiceAccount{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}, ObjectMeta: d.meta(name, DelegateIdentity),
		},
		&rbacv1.Role{
			TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "Role"}, ObjectMeta: d.meta(name, DelegateIdentity),
			Rules: rules,
		},
		&rbacv1.RoleBinding{
			TypeMeta: metav1.TypeMeta{APIVersion: rbacv1.SchemeGroupVersion.String(), Kind: "RoleBinding"}, ObjectMeta: d.meta(name, DelegateIdentity),
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: name},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: name, Namespace: d.Tenant.Namespace}},
		},
		&corev1.Secret{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: token, Type: corev1.SecretTypeServiceAccountToken,
		},
	}
}

// PeerAccess is an operator's access to its two objects on the peer's cluster.
type PeerAccess struct {
	Server    string // URL of the peer's API server
	CA        []byte // PEM
	Token     []byte
	Namespace string
	Gateway   string // name of the GatewayServer or GatewayClient
	PublicKey string // name of the PublicKey, in which the operator keeps its gateway's key
	// Endpoint is set if the operator also keeps its server's endpoint in the GatewayClient.
	Endpoint bool
	// Expires is the time of the token's expiry; zero if the token does not expire.
	Expires time.Time
	// Dials is the [EndpointText] of the GatewayClient at the time when the operator got this access; "" if
	// this is not known.
	Dials string
}

// Access returns the Secret that gives this cluster's operator access to the peer's cluster.
func (d Delegate) Access(a PeerAccess) (*corev1.Secret, error) {
	kubeconfig, err := Kubeconfig("peer", a.Server, a.CA, a.Token, a.Namespace)
	if err != nil {
		return nil, fmt.Errorf("render access to %s: %w", d.Tenant.Remote, err)
	}
	meta := d.meta(DelegateAccessName(d.Gateway.GetName()), DelegateAccess)
	meta.Annotations = map[string]string{annotationPeerGateway: a.Gateway, annotationPeerKey: a.PublicKey, annotationCarries: carriesKey}
	if !a.Expires.IsZero() {
		meta.Annotations[annotationExpires] = a.Expires.UTC().Format(time.RFC3339)
	}
	if a.Endpoint {
		meta.Annotations[annotationCarries] = carriesEndpoint
		if a.Dials != "" {
			meta.Annotations[annotationPeerDials] = a.Dials
		}
	}
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: meta,
		Data: map[string][]byte{kubeconfigKey: kubeconfig},
	}, nil
}

// Kubeconfig returns a kubeconfig file with one context: a ServiceAccount in its namespace. ca is PEM. If ca
// is empty, programs use the certificates of their machine.
func Kubeconfig(name, server string, ca, token []byte, namespace string) ([]byte, error) {
	cluster := map[string]any{"server": server}
	if len(ca) > 0 {
		cluster["certificate-authority-data"] = ca
	}
	return yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": name,
		"clusters": []any{map[string]any{"name": name, "cluster": cluster}},
		"users":    []any{map[string]any{"name": name, "user": map[string]any{"token": string(token)}}},
		"contexts": []any{map[string]any{"name": name, "context": map[string]any{"cluster": name, "user": name, "namespace": namespace}}},
	})
}

// ParsePeerAccess reads the Secret that [Delegate.Access] made. It uses only data in the kubeconfig itself.
// It ignores names of files and programs, because everybody who can write the Secret could make the operator
// read or run them.
func ParsePeerAccess(s *corev1.Secret) (PeerAccess, error) {
	var config struct {
		Clusters []struct {
			Cluster struct {
				Server string `json:"server"`
				CA     []byte `json:"certificate-authority-data"`
			} `json:"cluster"`
		} `json:"clusters"`
		Users []struct {
			User struct {
				Token string `json:"token"`
			} `json:"user"`
		} `json:"users"`
		Contexts []struct {
			Context struct {
				Namespace string `json:"namespace"`
			} `json:"context"`
		} `json:"contexts"`
	}
	if err := yaml.Unmarshal(s.Data[kubeconfigKey], &config); err != nil {
		return PeerAccess{}, fmt.Errorf("parse kubeconfig of Secret %s/%s: %w", s.Namespace, s.Name, err)
	}
	if len(config.Clusters) != 1 || len(config.Users) != 1 || len(config.Contexts) != 1 {
		return PeerAccess{}, fmt.Errorf("kubeconfig of Secret %s/%s: want one cluster, one user and one context", s.Namespace, s.Name)
	}
	a := PeerAccess{
		Server: config.Clusters[0].Cluster.Server, CA: config.Clusters[0].Cluster.CA, Token: []byte(config.Users[0].User.Token),
		Namespace: config.Contexts[0].Context.Namespace,
		Gateway:   s.Annotations[annotationPeerGateway], PublicKey: s.Annotations[annotationPeerKey],
		Endpoint: s.Annotations[annotationCarries] == carriesEndpoint,
		Dials:    s.Annotations[annotationPeerDials],
	}
	if text := s.Annotations[annotationExpires]; text != "" {
		var err error
		if a.Expires, err = time.Parse(time.RFC3339, text); err != nil {
			return PeerAccess{}, fmt.Errorf("annotation %s of Secret %s/%s: %w", annotationExpires, s.Namespace, s.Name, err)
		}
	}
	if !strings.HasPrefix(a.Server, "https://") || len(a.CA) == 0 || len(a.Token) == 0 || a.Namespace == "" || a.PublicKey == "" {
		return PeerAccess{}, fmt.Errorf("kubeconfig of Secret %s/%s: want an https server with its certificate authority, a token, a namespace, and the PublicKey's name", s.Namespace, s.Name)
	}
	return a, nil
}
