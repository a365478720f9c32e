package operator

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strings"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// endpointOf returns the endpoint of the server behind a Service, and its reason in one sentence. The
// endpoint is nil until it is known. current is the present endpoint. If its NodePort address still works, it
// stays, because a change makes the client dial again. The endpoint of a NodePort has one node's address for
// each replica of the gateway. If one node is lost, the client dials the next one.
func endpointOf(s *corev1.Service, nodes []corev1.Node, pod *corev1.Pod, replicas int, current *networkingv1beta1.EndpointStatus) (*networkingv1beta1.EndpointStatus, string) {
	if len(s.Spec.Ports) == 0 {
		return nil, fmt.Sprintf("Service %s has no port", s.Name)
	}
	port := s.Spec.Ports[0].Port
	var addresses []string
	var why string
	switch s.Spec.Type {
	case corev1.ServiceTypeNodePort:
		port = s.Spec.Ports[0].NodePort
		if port == 0 {
			return nil, fmt.Sprintf("Kubernetes has not chosen the node port of Service %s yet", s.Name)
		}
		if s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
			if pod == nil {
				return current, "only the node that runs the gateway answers, and no pod of the gateway has an address yet"
			}
			nodes, current = slices.DeleteFunc(slices.Clone(nodes), func(n corev1.Node) bool { return n.Name != pod.Spec.NodeName }), nil
		}
		var address string
		if address, why = nodeAddress(nodes, pod, current); address != "" {
			addresses = append([]string{address}, spareAddresses(nodes, address, replicas-1, current)...)
		}
	case corev1.ServiceTypeLoadBalancer:
		addresses, why = balancerAddresses(s)
	case corev1.ServiceTypeClusterIP:
		why = "the cluster IP of Service " + s.Name + ", for peers that reach this cluster's Services"
		if ip := wire.ServiceIPv4(s); ip != "" {
			addresses = []string{ip}
		}
	case corev1.ServiceTypeExternalName:
		addresses, why = []string{s.Spec.ExternalName}, "the external name of Service "+s.Name
	}
	if len(addresses) == 0 || port == 0 {
		return nil, why
	}
	return &networkingv1beta1.EndpointStatus{Addresses: addresses, Port: port, Protocol: new(corev1.ProtocolUDP)}, why
}

func balancerAddresses(s *corev1.Service) (addresses []string, why string) {
	for _, ingress := range s.Status.LoadBalancer.Ingress {
		if a := cmp.Or(ingress.IP, ingress.Hostname); a != "" {
			addresses = append(addresses, a)
		}
	}
	switch {
	case len(addresses) > 0:
		return addresses, "what the load balancer gave Service " + s.Name
	case s.Spec.LoadBalancerIP != "":
		return nil, fmt.Sprintf("the load balancer has not given Service %s the address %s yet", s.Name, s.Spec.LoadBalancerIP)
	}
	return nil, fmt.Sprintf("the load balancer has not given Service %s an address yet", s.Name)
}

// nodeAddress chooses the address of a NodePort. First comes the present one while its node is ready, then
// that of the gateway's own node, then that of any ready node. Every node forwards a NodePort unless the
// policy is Local, so the pod need not have a node yet.
func nodeAddress(nodes []corev1.Node, pod *corev1.Pod, current *networkingv1beta1.EndpointStatus) (address, why string) {
	why = "no node with an IPv4 address is ready"
	for i := range nodes {
		n := &nodes[i]
		a, kind := publicAddress(n)
		if a == "" || !ready(n) {
			continue
		}
		runsHere := pod != nil && pod.Spec.NodeName == n.Name
		said := current != nil && len(current.Addresses) > 0 && current.Addresses[0] == a
		if address != "" && !runsHere && !said {
			continue
		}
		address, why = a, fmt.Sprintf("%s of node %s, which forwards to the gateway", kind, n.Name)
		if runsHere {
			why = fmt.Sprintf("%s of node %s, which runs the gateway", kind, n.Name)
		}
		if said {
			return address, why
		}
	}
	return address, why
}

// spareAddresses returns up to n addresses of ready nodes, without the first one. Addresses of the present
// endpoint come first.
func spareAddresses(nodes []corev1.Node, first string, n int, current *networkingv1beta1.EndpointStatus) []string {
	var spares []string
	for i := range nodes {
		if a, _ := publicAddress(&nodes[i]); a != "" && a != first && ready(&nodes[i]) {
			spares = append(spares, a)
		}
	}
	if current != nil {
		slices.SortStableFunc(spares, func(a, b string) int { return position(current.Addresses, a) - position(current.Addresses, b) })
	}
	return spares[:max(0, min(n, len(spares)))]
}

// position returns the index of a in list; the length of list if a is not in it.
func position(list []string, a string) int {
	if i := slices.Index(list, a); i >= 0 {
		return i
	}
	return len(list)
}

// publicAddress prefers the address that is reachable from farthest away. It never takes InternalDNS or
// Hostname, because another cluster can't resolve them.
func publicAddress(n *corev1.Node) (string, corev1.NodeAddressType) {
	if render.VirtualNode(n.Labels) {
		return "", ""
	}
	for _, kind := range []corev1.NodeAddressType{corev1.NodeExternalIP, corev1.NodeExternalDNS, corev1.NodeInternalIP} {
		for _, a := range n.Status.Addresses {
			// Tunnels run only over IPv4.
			if isName := kind == corev1.NodeExternalDNS; a.Type == kind && a.Address != "" && (isName || isIPv4(a.Address)) {
				return a.Address, kind
			}
		}
	}
	return "", ""
}

func isIPv4(address string) bool {
	return net.ParseIP(address) != nil && !strings.Contains(address, ":")
}
