// Package lending has the facts about lending: identities, resources, virtual nodes and offloaded namespaces.
package lending

import (
	"net"
	"strings"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/render/peering"
)

// Facts are facts of one cluster. The cluster may be a consumer of some peers, and the provider of others.
type Facts struct {
	// Missing are kinds that the API server does not serve, such as
	// "tenants.authentication.liqo.io/v1beta1".
	Missing []string
	// Request has the facts that the cluster gives to providers. Its private key stays in the cluster.
	// Request is nil if the key is missing or may not be read: then RequestProblem is the reason.
	Request        *peering.Request
	RequestProblem string
	// Secrets are those of handshakes and certificates. The data of kubeconfigs is left out, except its keys.
	Secrets []corev1.Secret
	// Unread are tenant namespaces whose Secrets the user may not list.
	Unread []string
	// Hidden has the kinds of which some objects may be invisible to the user. Then a missing object proves
	// nothing.
	Hidden      map[string]bool
	Tenants     []authv1beta1.Tenant
	Identities  []authv1beta1.Identity
	Renews      []authv1beta1.Renew
	Slices      []authv1beta1.ResourceSlice
	Nodes       []offloadingv1beta1.VirtualNode
	Maps        []offloadingv1beta1.NamespaceMap
	Offloadings []offloadingv1beta1.NamespaceOffloading
	Clusters    []corev1beta1.ForeignCluster
	// Members are the Nodes of virtual nodes.
	Members []corev1.Node
	// Pods are the local pods on virtual nodes, and the remote pods of consumers. Their specs have only the
	// name of the node and the requests. There are also pods without a node that select virtual nodes: their
	// specs have only the result of [Selected], and their statuses the scheduler's reason.
	Pods []corev1.Pod
	// Kubelets are the Deployments of virtual kubelets, Components the Deployments of Liqo itself.
	Kubelets   []appsv1.Deployment
	Components []appsv1.Deployment
	// Waiting has the reason that the pods of virtual kubelets don't run, by namespace/name of the
	// VirtualNode.
	Waiting map[string]string
	// Proxies are the addresses under which peers reach this cluster's API server through the tunnel.
	Proxies []ipamv1alpha1.IP
	// ControlPlane has one address of each control plane node.
	ControlPlane []string
	// Capacity is the sum of the resources of the cluster's own nodes for pods; nil if it is unknown.
	Capacity corev1.ResourceList
	// Known maps users and groups to a binding that gives them rights here. Bindings of Liqo and of
	// Kubernetes itself are left out.
	Known map[string]string
}

// Add adds an object from the API server. Callers add only local and remote pods, and no others.
func (l *Facts) Add(o metav1.Object) {
	switch o := o.(type) {
	case *corev1.Secret:
		l.Secrets = append(l.Secrets, *o)
	case *authv1beta1.Tenant:
		l.Tenants = append(l.Tenants, *o)
	case *authv1beta1.Identity:
		l.Identities = append(l.Identities, *o)
	case *authv1beta1.Renew:
		l.Renews = append(l.Renews, *o)
	case *authv1beta1.ResourceSlice:
		l.Slices = append(l.Slices, *o)
	case *offloadingv1beta1.VirtualNode:
		l.Nodes = append(l.Nodes, *o)
	case *offloadingv1beta1.NamespaceMap:
		l.Maps = append(l.Maps, *o)
	case *offloadingv1beta1.NamespaceOffloading:
		l.Offloadings = append(l.Offloadings, *o)
	case *corev1beta1.ForeignCluster:
		l.Clusters = append(l.Clusters, *o)
	case *corev1.Node:
		if _, virtual := o.Labels[peering.LabelNodeType]; virtual {
			l.Members = append(l.Members, *o)
		} else {
			l.addNode(o)
		}
	case *rbacv1.ClusterRoleBinding:
		l.know("ClusterRoleBinding "+o.Name, o.RoleRef, o.Subjects)
	case *rbacv1.RoleBinding:
		l.know("RoleBinding "+o.Namespace+"/"+o.Name, o.RoleRef, o.Subjects)
	case *corev1.Pod:
		l.Pods = append(l.Pods, *o)
	case *appsv1.Deployment:
		if o.Labels[peering.LabelKubelet] != "" {
			l.Kubelets = append(l.Kubelets, *o)
		} else {
			l.Components = append(l.Components, *o)
		}
	case *ipamv1alpha1.IP:
		l.Proxies = append(l.Proxies, *o)
	}
}

// Selected returns which virtual nodes a pod selects: their type, or the name of a node. The node may be a
// real one. Selected returns nil if the pod selects neither.
func Selected(s *corev1.PodSpec) map[string]string {
	for _, key := range []string{peering.LabelNodeType, corev1.LabelHostname} {
		if value := s.NodeSelector[key]; value != "" {
			return map[string]string{key: value}
		}
	}
	if s.Affinity == nil || s.Affinity.NodeAffinity == nil || s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	for _, term := range s.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, e := range term.MatchExpressions {
			if (e.Key == peering.LabelNodeType || e.Key == corev1.LabelHostname) && e.Operator == corev1.NodeSelectorOpIn && len(e.Values) == 1 {
				return map[string]string{e.Key: e.Values[0]}
			}
		}
	}
	return nil
}

// labelControlPlane is the label that Kubernetes' own tools give to nodes with an API server.
const labelControlPlane = "node-role.kubernetes.io/control-plane"

func (l *Facts) addNode(n *corev1.Node) {
	if _, marked := n.Labels[labelControlPlane]; marked {
		if address := addressOf(n); address != "" {
			l.ControlPlane = append(l.ControlPlane, address)
		}
	}
	if n.Spec.Unschedulable || NodeCondition(n, corev1.NodeReady) != corev1.ConditionTrue {
		return
	}
	if l.Capacity == nil {
		l.Capacity = corev1.ResourceList{}
	}
	for name, q := range n.Status.Allocatable {
		sum := l.Capacity[name]
		sum.Add(q)
		l.Capacity[name] = sum
	}
}

func (l *Facts) know(binding string, role rbacv1.RoleRef, subjects []rbacv1.Subject) {
	if strings.HasPrefix(role.Name, "liqo-") {
		return // these rights are for lending
	}
	for _, s := range subjects {
		if s.Kind == rbacv1.ServiceAccountKind || strings.HasPrefix(s.Name, "system:") {
			continue
		}
		if l.Known == nil {
			l.Known = map[string]string{}
		}
		l.Known[s.Name] = binding
	}
}

// addressOf returns the address of a node that Liqo would choose.
func addressOf(n *corev1.Node) string {
	for _, kind := range []corev1.NodeAddressType{corev1.NodeExternalDNS, corev1.NodeExternalIP, corev1.NodeInternalDNS, corev1.NodeInternalIP, corev1.NodeHostName} {
		for _, a := range n.Status.Addresses {
			if a.Type == kind {
				return a.Address
			}
		}
	}
	return ""
}

// APIServer returns the URL of the API server that the cluster's Liqo gives to consumers; "" if it is
// unknown. Liqo tells the URL only to consumers that it has accepted.
func (l *Facts) APIServer() string {
	for i := range l.Components {
		for _, container := range l.Components[i].Spec.Template.Spec.Containers {
			for _, arg := range container.Args {
				if address, ok := strings.CutPrefix(arg, "--api-server-address-override="); ok && address != "" {
					return "https://" + strings.TrimPrefix(address, "https://")
				}
			}
		}
	}
	if len(l.ControlPlane) == 0 {
		return ""
	}
	return "https://" + net.JoinHostPort(l.ControlPlane[0], "6443")
}

// Lent names an object by which the cluster lends to peer, or uses it as provider; "" if there is none.
func (l *Facts) Lent(peer string) (what string, uses bool) {
	if l == nil {
		return "", false
	}
	for i := range l.Nodes {
		if n := &l.Nodes[i]; string(n.Spec.ClusterID) == peer {
			return "VirtualNode " + n.Name, true
		}
	}
	for i := range l.Slices {
		switch s := &l.Slices[i]; {
		case s.Labels[peering.LabelReplicated] == "" && s.Labels[peering.LabelDestination] == peer:
			return "ResourceSlice " + s.Name, true
		case s.Labels[peering.LabelReplicated] != "" && s.Labels[peering.LabelOrigin] == peer:
			return "ResourceSlice " + s.Name, false
		}
	}
	return "", false
}

// Troubled calls add for each namespace whose lending is not complete.
func (l *Facts) Troubled(add func(namespace string)) {
	for i := range l.Tenants {
		if l.Tenants[i].Status.AuthParams == nil {
			add(l.Tenants[i].Namespace)
		}
	}
	for i := range l.Slices {
		if s := &l.Slices[i]; !Granted(s) {
			add(s.Namespace)
		}
	}
	for i := range l.Kubelets {
		if l.Kubelets[i].Status.AvailableReplicas == 0 {
			add(l.Kubelets[i].Namespace)
		}
	}
}
