package verify

import (
	"errors"
	"fmt"
	"net/netip"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/gateway/ipam"
)

// SeenAs is the address under which the cluster that has conf sees a pod of the
// peer that conf is about.
func SeenAs(conf *networkingv1beta1.Configuration, pod netip.Addr) (netip.Addr, error) {
	if !flows.CIDRsConfigured(conf) {
		return netip.Addr{}, errors.New("how it sees the other cluster's addresses is not decided yet")
	}
	for i, cidr := range conf.Spec.Remote.CIDR.Pod {
		real, err := netip.ParsePrefix(string(cidr))
		if err != nil || !real.Contains(pod) {
			continue
		}
		seen, err := netip.ParsePrefix(string(conf.Status.Remote.CIDR.Pod[i]))
		if err != nil {
			return netip.Addr{}, fmt.Errorf("its view of %s: %w", cidr, err)
		}
		return ipam.Remap(pod, real, seen)
	}
	return netip.Addr{}, fmt.Errorf("the other cluster's pod %s is in none of its ranges, %s", pod, conf.Spec.Remote.CIDR.Pod)
}
