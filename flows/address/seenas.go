package address

import (
	"errors"
	"fmt"
	"net/netip"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/ipam"
)

// SeenAs returns the address under which a cluster sees real. real is an address of its
// peer: a pod's, or one in the external range. conf is the cluster's Configuration for
// the peer.
func SeenAs(conf *networkingv1beta1.Configuration, real netip.Addr) (netip.Addr, error) {
	if !flows.CIDRsConfigured(conf) {
		return netip.Addr{}, errors.New("how it sees the other cluster's addresses is not decided yet")
	}
	own, seen := conf.Spec.Remote.CIDR, conf.Status.Remote.CIDR
	for _, ranges := range [][2][]networkingv1beta1.CIDR{{own.Pod, seen.Pod}, {own.External, seen.External}} {
		for i, cidr := range ranges[0] {
			from, err := netip.ParsePrefix(string(cidr))
			if err != nil || !from.Contains(real) || i >= len(ranges[1]) {
				continue
			}
			to, err := netip.ParsePrefix(string(ranges[1][i]))
			if err != nil {
				return netip.Addr{}, fmt.Errorf("its view of %s: %w", cidr, err)
			}
			return ipam.Remap(real, from, to)
		}
	}
	return netip.Addr{}, fmt.Errorf("%s is in none of the other cluster's ranges that peers reach: pods %s, external %s", real, own.Pod, own.External)
}
