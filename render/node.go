package render

import (
	"net/netip"
	"strings"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// InternalNode is what a node's fabric says of its node: the networks that the
// node knows a way to. The kind is Liqo's, and so are its required fields.
func InternalNode(node *corev1.Node, ip netip.Addr, networks []netip.Prefix) *networkingv1beta1.InternalNode {
	text := make([]string, len(networks))
	for i, p := range networks {
		text[i] = p.String()
	}
	return &networkingv1beta1.InternalNode{
		TypeMeta: networkingType(networkingv1beta1.InternalNodeKind),
		ObjectMeta: metav1.ObjectMeta{
			Name: node.Name, Labels: map[string]string{LabelManagedBy: ManagedBy},
			Annotations:     map[string]string{AnnotationNetworks: strings.Join(text, ",")},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
		},
		Spec: networkingv1beta1.InternalNodeSpec{Interface: networkingv1beta1.InternalNodeSpecInterface{
			Gateway: networkingv1beta1.InternalNodeSpecInterfaceGateway{Name: FabricDevice},
			Node:    networkingv1beta1.InternalNodeSpecInterfaceNode{IP: networkingv1beta1.IP(ip.String())},
		}},
	}
}

// NodeNetworks reads what an InternalNode says. What is no network is left out.
func NodeNetworks(n *networkingv1beta1.InternalNode) []netip.Prefix {
	var out []netip.Prefix
	for text := range strings.SplitSeq(n.Annotations[AnnotationNetworks], ",") {
		if p, err := netip.ParsePrefix(text); err == nil {
			out = append(out, p)
		}
	}
	return out
}
