package flows

import (
	"errors"
	"fmt"
	"net/netip"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/gateway/ipam"
)

// Verifiable says why there is nothing to measure between the clusters.
func Verifiable(f Facts) error {
	c := newConnection(Params{}, f)
	if steps := Unfit(c.facts); len(steps) > 0 {
		facts := c.facts.Side(steps[0].Side)
		e := &StepError{Cluster: facts.Name(), Step: steps[0]}
		if facts.Problem != nil {
			e.Cause = facts.Problem
		}
		return e
	}
	for _, side := range []Side{A, B} {
		if peer := c.peers[side]; peer.Configuration == nil || peer.Server == nil && peer.Client == nil {
			return &StepError{Cluster: c.facts.Side(side).Name(), Step: failure(side, CodeVerification, "connection", FailedPreflight,
				fmt.Sprintf("there is none with %s", c.facts.Side(side.Other()).Name()), "connect them first: liqo-tui network connect")}
		}
	}
	return nil
}

// SeenAs is the address under which the cluster that has conf sees a pod of the
// peer that conf is about.
func SeenAs(conf *networkingv1beta1.Configuration, pod netip.Addr) (netip.Addr, error) {
	if !CIDRsConfigured(conf) {
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
	return netip.Addr{}, fmt.Errorf("the other cluster's pod %s is in none of its ranges, %s", pod, joinCIDRs(conf.Spec.Remote.CIDR.Pod))
}
