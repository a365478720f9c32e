// Package lending is what is there of peerings besides the network: identities,
// resources, virtual nodes and offloaded namespaces.
package lending

import (
	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/render/peering"
)

// Facts are of one cluster, which may be consumer of some peers and provider of
// others.
type Facts struct {
	// Missing are kinds that the API server does not serve, as
	// "tenants.authentication.liqo.io/v1beta1".
	Missing []string
	// Request is what the cluster shows to providers. Its key stays in the cluster;
	// nil if that may not be read, or is not there: RequestProblem says why.
	Request        *peering.Request
	RequestProblem string
	// Secrets of handshakes and certificates. Of kubeconfigs only the keys are known.
	Secrets     []corev1.Secret
	Tenants     []authv1beta1.Tenant
	Identities  []authv1beta1.Identity
	Renews      []authv1beta1.Renew
	Slices      []authv1beta1.ResourceSlice
	Nodes       []offloadingv1beta1.VirtualNode
	Maps        []offloadingv1beta1.NamespaceMap
	Offloadings []offloadingv1beta1.NamespaceOffloading
	Clusters    []corev1beta1.ForeignCluster
	// Members are the Nodes that virtual nodes have made, in the way of Kubernetes.
	Members []corev1.Node
	// Pods are those that run on virtual nodes, without their specs.
	Pods []corev1.Pod
	// Kubelets are the Deployments of virtual nodes, Components those of Liqo itself.
	Kubelets   []appsv1.Deployment
	Components []appsv1.Deployment
	// Waiting says what keeps the pods of virtual nodes from running, by
	// namespace/name of the VirtualNode.
	Waiting map[string]string
	// Proxies are the addresses by which peers reach this cluster's API server through
	// the tunnel.
	Proxies []ipamv1alpha1.IP
}

// Troubled names the namespaces in which something of a peering is not there yet.
func (l *Facts) Troubled(add func(namespace string)) {
	for i := range l.Tenants {
		if l.Tenants[i].Status.AuthParams == nil {
			add(l.Tenants[i].Namespace)
		}
	}
	for i := range l.Slices {
		if s := &l.Slices[i]; Granted(s, authv1beta1.ResourceSliceConditionTypeAuthentication) != authv1beta1.ResourceSliceConditionAccepted ||
			Granted(s, authv1beta1.ResourceSliceConditionTypeResources) != authv1beta1.ResourceSliceConditionAccepted {
			add(s.Namespace)
		}
	}
	for i := range l.Kubelets {
		if l.Kubelets[i].Status.AvailableReplicas == 0 {
			add(l.Kubelets[i].Namespace)
		}
	}
}

// Granted is what the provider has said of one side of a slice, "" if nothing.
func Granted(s *authv1beta1.ResourceSlice, what authv1beta1.ResourceSliceConditionType) authv1beta1.ResourceSliceConditionStatus {
	for _, c := range s.Status.Conditions {
		if c.Type == what {
			return c.Status
		}
	}
	return ""
}
