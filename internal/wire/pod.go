package wire

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// PodIPv4 returns the pod's IPv4 address; "" if it has none. The address need not be the first one, because
// Status.PodIP is an IPv6 address if IPv6 comes first.
func PodIPv4(p *corev1.Pod) string {
	all := []string{p.Status.PodIP}
	for _, ip := range p.Status.PodIPs {
		all = append(all, ip.IP)
	}
	return firstIPv4(all)
}

// ServiceIPv4 returns the Service's cluster IP of IPv4; "" if it has none, or is headless.
func ServiceIPv4(s *corev1.Service) string {
	return firstIPv4(append([]string{s.Spec.ClusterIP}, s.Spec.ClusterIPs...))
}

func firstIPv4(all []string) string {
	for _, text := range all {
		if a, err := netip.ParseAddr(text); err == nil && a.Is4() {
			return text
		}
	}
	return ""
}
