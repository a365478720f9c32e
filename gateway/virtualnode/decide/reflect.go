package decide

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/render/peering"
)

// Mentioned holds the names of the ConfigMaps and Secrets that pods need. No others are copied to the
// provider.
type Mentioned struct{ ConfigMaps, Secrets map[string]bool }

// NewMentioned returns an empty set.
func NewMentioned() Mentioned { return Mentioned{map[string]bool{}, map[string]bool{}} }

// Add adds the names that a pod mentions. It leaves out the CA certificates that Kubernetes writes into every
// namespace: the mapped namespace has the provider's certificates.
func (m Mentioned) Add(s *corev1.PodSpec) {
	for _, all := range [][]corev1.Container{s.InitContainers, s.Containers} {
		for i := range all {
			m.container(&all[i])
		}
	}
	for i := range s.Volumes {
		if v := &s.Volumes[i]; !isToken(*v) {
			m.volume(v)
		}
	}
	for _, ref := range s.ImagePullSecrets {
		m.Secrets[ref.Name] = true
	}
	delete(m.ConfigMaps, "")
	delete(m.Secrets, "")
	delete(m.ConfigMaps, everywhere)
}

// everywhere is the ConfigMap that Kubernetes creates in each namespace.
const everywhere = "kube-root-ca.crt"

func (m Mentioned) container(c *corev1.Container) {
	for i := range c.EnvFrom {
		if ref := c.EnvFrom[i].ConfigMapRef; ref != nil {
			m.ConfigMaps[ref.Name] = true
		}
		if ref := c.EnvFrom[i].SecretRef; ref != nil {
			m.Secrets[ref.Name] = true
		}
	}
	for i := range c.Env {
		switch from := c.Env[i].ValueFrom; {
		case from == nil:
		case from.ConfigMapKeyRef != nil:
			m.ConfigMaps[from.ConfigMapKeyRef.Name] = true
		case from.SecretKeyRef != nil:
			m.Secrets[from.SecretKeyRef.Name] = true
		}
	}
}

func (m Mentioned) volume(v *corev1.Volume) {
	switch {
	case v.ConfigMap != nil:
		m.ConfigMaps[v.ConfigMap.Name] = true
	case v.Secret != nil:
		m.Secrets[v.Secret.SecretName] = true
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			if ref := v.Projected.Sources[i].ConfigMap; ref != nil {
				m.ConfigMaps[ref.Name] = true
			}
			if ref := v.Projected.Sources[i].Secret; ref != nil {
				m.Secrets[ref.Name] = true
			}
		}
	}
}

// Stays reports whether an object must not be copied: its annotation says so, or it is a ServiceAccount token
// or a bootstrap token. A token is useless on the provider, and the provider's controllers would treat it as
// a token of the provider.
func Stays(o metav1.Object, kind corev1.SecretType) bool {
	return o.GetAnnotations()[peering.AnnotationStays] != "" || kind == corev1.SecretTypeServiceAccountToken || kind == corev1.SecretTypeBootstrapToken
}

// meta returns the metadata of a copy, without the object's own labels and annotations: on the provider, they
// could control programs that read all namespaces.
func (v View) meta(name, version string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: v.Mapped, Name: name, Labels: map[string]string{peering.LabelPodOrigin: v.Consumer, peering.LabelPodDestination: v.Provider},
		Annotations: map[string]string{peering.AnnotationVersion: version},
	}
}

// ConfigMap returns the provider's copy of a ConfigMap.
func (v View) ConfigMap(o *corev1.ConfigMap, version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: v.meta(o.Name, version),
		Data: o.Data, BinaryData: o.BinaryData, Immutable: o.Immutable,
	}
}

// Secret returns the provider's copy of a Secret. A type that is not one of Kubernetes' own has no effect on
// a pod, and becomes Opaque.
func (v View) Secret(o *corev1.Secret, version string) *corev1.Secret {
	kind := o.Type
	if !slices.Contains(peering.SecretTypes, kind) {
		kind = corev1.SecretTypeOpaque
	}
	return &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: v.meta(o.Name, version),
		Data: o.Data, Type: kind, Immutable: o.Immutable,
	}
}

// Service returns the provider's copy of a Service; nil if it must not be copied. The copy has the same name
// and another address. It is reachable only inside the provider's cluster, and selects the pods there.
func (v View) Service(o *corev1.Service) *corev1.Service {
	if o.Spec.Type == corev1.ServiceTypeExternalName || Stays(o, "") || o.Namespace == metav1.NamespaceDefault && o.Name == "kubernetes" {
		return nil
	}
	s := &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: v.meta(o.Name, ""),
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, Selector: o.Spec.Selector, PublishNotReadyAddresses: o.Spec.PublishNotReadyAddresses,
			SessionAffinity: o.Spec.SessionAffinity, SessionAffinityConfig: o.Spec.SessionAffinityConfig,
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, // endpoints of the other cluster have no other address
		},
	}
	if o.Spec.ClusterIP == corev1.ClusterIPNone {
		s.Spec.ClusterIP = corev1.ClusterIPNone
	}
	for _, p := range o.Spec.Ports {
		p.NodePort = 0
		s.Spec.Ports = append(s.Spec.Ports, p)
	}
	s.Annotations[peering.AnnotationVersion] = versionOf(s)
	return s
}

// Endpoints returns the endpoints of a Service that the provider does not have itself; nil if there are none.
// The addresses are those of this cluster. The provider translates them.
func (v View) Endpoints(o *discoveryv1.EndpointSlice) *offloadingv1beta1.ShadowEndpointSlice {
	if o.AddressType != discoveryv1.AddressTypeIPv4 || o.Labels[discoveryv1.LabelServiceName] == "" {
		return nil
	}
	s := &offloadingv1beta1.ShadowEndpointSlice{
		TypeMeta:   metav1.TypeMeta{APIVersion: offloadingv1beta1.SchemeGroupVersion.String(), Kind: "ShadowEndpointSlice"},
		ObjectMeta: v.meta(o.Name, ""),
		Spec:       offloadingv1beta1.ShadowEndpointSliceSpec{Template: offloadingv1beta1.EndpointSliceTemplate{AddressType: o.AddressType, Ports: o.Ports}},
	}
	s.Labels[discoveryv1.LabelServiceName] = o.Labels[discoveryv1.LabelServiceName]
	for _, e := range o.Endpoints {
		if !slices.ContainsFunc(e.Addresses, v.Ranges.Contain) {
			s.Spec.Template.Endpoints = append(s.Spec.Template.Endpoints, discoveryv1.Endpoint{Addresses: e.Addresses, Conditions: e.Conditions, Hostname: e.Hostname})
		}
	}
	if len(s.Spec.Template.Endpoints) == 0 {
		return nil
	}
	// A different order is no change.
	slices.SortFunc(s.Spec.Template.Endpoints, func(a, b discoveryv1.Endpoint) int {
		return cmp.Compare(strings.Join(a.Addresses, ","), strings.Join(b.Addresses, ","))
	})
	s.Annotations[peering.AnnotationVersion] = versionOf(s)
	return s
}

// versionOf returns a hash that differs for different objects.
func versionOf(o any) string {
	text, err := json.Marshal(o)
	if err != nil {
		return "" // cannot happen: Kubernetes' types can be marshalled
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:12])
}
