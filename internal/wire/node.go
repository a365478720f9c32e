package wire

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NodeReport is the report of a node's agent about its node.
type NodeReport struct {
	IP        netip.Addr     // the address on which the fabric listens
	Networks  []netip.Prefix // the networks that the node has routes to
	Pods      []netip.Prefix // the addresses of its pods: ranges, and single addresses
	Addresses []netip.Addr   // the node's own addresses
	MTU       int            // the smallest MTU of its routes to gateways' pods, in bytes; 0: not known
	// Nameservers are the DNS servers that the node asks.
	Nameservers []netip.Addr
	Also        []netip.Prefix // ranges of peers in a renumbering that the node has routes to
	Status      NodeStatus
}

// NodeStatus is the report of a node's agent about its work. It is stored as JSON in
// [AnnotationStatus]. Fields are only ever added. An agent that is older than a field
// leaves the field out.
type NodeStatus struct {
	// Level is the level of the rules that are in force on the node: [NodeLevel] or less. It is 0 while no
	// rules are in force, and from an agent that does not report a level.
	Level int `json:"level,omitempty"`
	// Problem is the reason that the node is not set up as wanted; "" if it is set up, or if this is unknown.
	Problem string `json:"problem,omitempty"`
	// Unfit contains the gateways with settings that the node can't use, by namespace/name. The text is the
	// node's replacement for the settings, and the reason. It contains at most [NodeStatusMax] gateways.
	Unfit map[string]string `json:"unfit,omitempty"`
	// Refused counts, by the gateway's namespace/name, the peer's packets to the node itself or to gateways'
	// own ports; nil from an agent that does not count them. The count begins when the node learns the peer's
	// ranges. Refused contains at most [NodeStatusMax] gateways.
	Refused map[string]uint64 `json:"refused"`
	// More means that Refused or Unfit lacks gateways, because there are more than [NodeStatusMax].
	More bool `json:"more,omitempty"`
	// Pods compares the addresses of the node's pods with the cluster's pod ranges; nil from an
	// agent that does not compare them, and while the ranges are not known.
	Pods *PodRanges `json:"pods,omitempty"`
	// KubeProxy is also "" from an agent that does not check kube-proxy.
	KubeProxy KubeProxy `json:"kubeProxy,omitempty"`
	// Kernel is "" from an agent that does not report it.
	Kernel KernelState `json:"kernel,omitempty"`
}

// KernelState says whether the node's kernel has our routes, rules and devices.
type KernelState string

// States of a node's kernel.
const (
	KernelUnknown KernelState = ""
	KernelInUse   KernelState = "InUse" // there are gateways, or the agent has not looked yet
	KernelClean   KernelState = "Clean" // everything of ours was removed, because the cluster has no gateways
)

// KubeProxy is the state of the node's kube-proxy, as the node's agent sees it.
type KubeProxy string

// States of a kube-proxy.
const (
	KubeProxyUnknown KubeProxy = "" // kube-proxy has not answered since the start of the agent
	KubeProxyAnswers KubeProxy = "Answers"
	KubeProxySilent  KubeProxy = "Silent" // kube-proxy has answered before, but does not now
)

// PodRanges compares the IPv4 addresses of a node's pods with the cluster's pod ranges, which are in its
// Networks. Peers reach no pod outside of these ranges.
type PodRanges struct {
	Inside  bool           `json:"inside,omitempty"`  // some pod has an address in the ranges
	Outside []netip.Prefix `json:"outside,omitempty"` // prefixes of pods outside of the ranges; at most [NodeStatusMax]
}

// NodeLevel is the level of the present rules on nodes, which close the node's own addresses to peers. It
// grows when nodes enforce more.
const NodeLevel = 1

// NodeStatusMax is the largest number of gateways in each map of a NodeStatus. It limits the text that
// gateways read from each node.
const NodeStatusMax = 32

// ParseNodeStatus reads a NodeStatus from an InternalNode's annotations; zero if the annotation is absent,
// because the agent is older.
func ParseNodeStatus(annotations map[string]string) (s NodeStatus, err error) {
	text, ok := annotations[AnnotationStatus]
	if !ok {
		return NodeStatus{}, nil
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return NodeStatus{}, fmt.Errorf("parse annotation %s: %w", AnnotationStatus, err)
	}
	return s, nil
}

// InternalNode returns the object that carries a NodeReport. The kind is Liqo's, and so are its required
// fields.
func InternalNode(node *corev1.Node, r NodeReport) *networkingv1beta1.InternalNode {
	mtu := ""
	if r.MTU > 0 {
		mtu = strconv.Itoa(r.MTU)
	}
	o := &networkingv1beta1.InternalNode{
		TypeMeta: metav1.TypeMeta{APIVersion: networkingv1beta1.GroupVersion.String(), Kind: networkingv1beta1.InternalNodeKind},
		ObjectMeta: metav1.ObjectMeta{
			Name: node.Name, Labels: map[string]string{LabelManagedBy: ManagedBy},
			Annotations: map[string]string{
				AnnotationNetworks: Joined(r.Networks), AnnotationPods: Joined(r.Pods), AnnotationAddresses: Joined(r.Addresses),
				AnnotationMTU: mtu,
			},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
		},
		Spec: networkingv1beta1.InternalNodeSpec{Interface: networkingv1beta1.InternalNodeSpecInterface{
			Gateway: networkingv1beta1.InternalNodeSpecInterfaceGateway{Name: FabricDevice},
			Node:    networkingv1beta1.InternalNodeSpecInterfaceNode{IP: networkingv1beta1.IP(r.IP.String())},
		}},
	}
	if len(r.Also) > 0 {
		o.Annotations[AnnotationAlso] = Joined(r.Also)
	}
	if len(r.Nameservers) > 0 {
		o.Annotations[AnnotationNameservers] = Joined(r.Nameservers)
	}
	if text, err := json.Marshal(r.Status); err == nil { // all fields can be JSON
		o.Annotations[AnnotationStatus] = string(text)
	}
	return o
}

// unreachedKey is the key in the ConfigMap of [UnreachedConfigMap].
const unreachedKey = "unreached"

// UnreachedConfigMap returns the object in which a node's agent lists the gateways that don't answer the node
// over the fabric, as namespace/name. Nothing in the cluster reads it. It is not a part of the InternalNode,
// because every gateway watches the InternalNodes of all nodes, and one absent gateway changes the list of every
// node.
func UnreachedConfigMap(namespace string, node *corev1.Node, gateways []string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: FabricName + "-" + node.Name, Labels: map[string]string{LabelAppName: FabricName, LabelManagedBy: ManagedBy},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
		},
		Data: map[string]string{unreachedKey: strings.Join(gateways, ",")},
	}
}

// ParseUnreached reads an [UnreachedConfigMap]. ok is false for other ConfigMaps.
func ParseUnreached(m *corev1.ConfigMap) (node string, gateways []string, ok bool) {
	if node, ok = strings.CutPrefix(m.Name, FabricName+"-"); !ok || m.Labels[LabelAppName] != FabricName {
		return "", nil, false
	}
	if text := m.Data[unreachedKey]; text != "" {
		gateways = strings.Split(text, ",")
	}
	return node, gateways, true
}

// ParseNode reads the report in an InternalNode. The error names the parts that can't be read. The other
// parts are valid.
func ParseNode(n *networkingv1beta1.InternalNode) (r NodeReport, err error) {
	var errs [8]error
	if r.IP, errs[0] = netip.ParseAddr(string(n.Spec.Interface.Node.IP)); errs[0] != nil {
		errs[0] = fmt.Errorf("its address %q is no IP address", n.Spec.Interface.Node.IP)
	}
	r.Networks, errs[1] = NodeNetworks(n)
	r.Pods, errs[2] = parsed(n, AnnotationPods, netip.ParsePrefix)
	r.Addresses, errs[3] = nodeAddresses(n)
	if text := n.Annotations[AnnotationMTU]; text != "" {
		if r.MTU, errs[4] = strconv.Atoi(text); errs[4] != nil {
			errs[4] = fmt.Errorf("annotation %s: %q is no number", AnnotationMTU, text)
		}
	}
	r.Also, errs[5] = Also(n)
	r.Nameservers, errs[6] = NodeNameservers(n)
	r.Status, errs[7] = ParseNodeStatus(n.Annotations)
	return r, errors.Join(errs[:]...)
}

// NodeNetworks reads only the networks that the node has routes to.
func NodeNetworks(n *networkingv1beta1.InternalNode) ([]netip.Prefix, error) {
	return parsed(n, AnnotationNetworks, netip.ParsePrefix)
}

// NodeNameservers reads only the DNS servers that the node asks.
func NodeNameservers(n *networkingv1beta1.InternalNode) ([]netip.Addr, error) {
	return parsed(n, AnnotationNameservers, netip.ParseAddr)
}

func nodeAddresses(n *networkingv1beta1.InternalNode) ([]netip.Addr, error) {
	return parsed(n, AnnotationAddresses, netip.ParseAddr)
}

// Joined returns a list as annotations contain it, with commas between the items.
func Joined[T fmt.Stringer](items []T) string {
	text := make([]string, len(items))
	for i, item := range items {
		text[i] = item.String()
	}
	return strings.Join(text, ",")
}

func parsed[T any](o metav1.Object, annotation string, parse func(string) (T, error)) (out []T, err error) {
	list := o.GetAnnotations()[annotation]
	if list == "" {
		return nil, nil
	}
	for text := range strings.SplitSeq(list, ",") {
		item, bad := parse(text)
		if bad != nil {
			err = fmt.Errorf("annotation %s: %q is no address", annotation, text)
			continue
		}
		out = append(out, item)
	}
	return out, err
}
