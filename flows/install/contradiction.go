package install

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/ipam"
	"github.com/liqo-tui/liqo-tui/render"
)

// ownRange is a range that the cluster has, or that the installation's settings give it.
type ownRange struct {
	use    string
	prefix netip.Prefix
}

func (r ownRange) String() string { return r.use + " " + r.prefix.String() }

// rangesOf returns the ranges of the valid texts among cidrs. use says what the ranges are for.
func rangesOf[S ~string](use string, cidrs ...S) (out []ownRange) {
	for _, c := range cidrs {
		if p, err := netip.ParsePrefix(string(c)); err == nil {
			out = append(out, ownRange{use, p.Masked()})
		}
	}
	return out
}

// contradiction returns a failed step if a range in the settings overlaps another range in the settings
// or of the cluster; else nil. A gateway can't set up its tunnel if an address belongs to the external
// range and to another range. The ranges of pods, Services and nodes may overlap, for example if the pod
// network has all of 10.0.0.0/8: packets inside of the cluster pass no gateway, and no peer gets these
// ranges. Ranges that only the operator will find are unknown here.
func (i *Installation) contradiction(side flows.Side, c flows.ClusterFacts) *flows.Step {
	pods := rangesOf("pod range", i.params.PodCIDRs...)
	if len(pods) == 0 {
		pods = rangesOf("pod range", c.Networks.Pod...)
	}
	services := rangesOf("Service range", c.ServiceCIDRs...)
	if i.params.ServiceCIDR != "" {
		services = rangesOf("Service range", i.params.ServiceCIDR)
	}
	others := append(pods, services...)
	for _, n := range c.Nodes {
		for _, a := range n.Internal {
			others = append(others, rangesOf("address of node "+n.Name, netip.PrefixFrom(a, a.BitLen()).String())...)
		}
	}
	external := rangesOf("external range", c.Networks.External...)
	if stated := i.params.ExternalCIDR; stated != "" && stated != string(c.ExternalCIDR) {
		external = rangesOf("external range", stated)
	}
	refuse := func(a, b ownRange, fix command.Hint) *flows.Step {
		return new(flows.Refuse(side, flows.CodeUsage, "address ranges", flows.FailedUsage, fmt.Sprintf("%s and %s overlap", a, b), fix))
	}
	for _, e := range external {
		for _, o := range others {
			if ipam.Overlaps(e.prefix, o.prefix) {
				return refuse(o, e, i.elsewhere(c, e, others))
			}
		}
	}
	for _, p := range rangesOf("pool", i.params.Pools...) {
		for _, o := range append(others, external...) {
			if o.prefix.Bits() <= p.prefix.Bits() && o.prefix.Contains(p.prefix.Addr()) {
				return refuse(o, p, command.Text("give --pools a range that the cluster does not use: peers are seen under it"))
			}
		}
	}
	return nil
}

// elsewhere returns the advice to install with an external range that is free.
func (i *Installation) elsewhere(c flows.ClusterFacts, external ownRange, others []ownRange) command.Hint {
	var taken []ipam.Reservation
	for _, o := range others {
		taken = append(taken, ipam.Reservation{Prefix: o.prefix, Reason: o.use})
	}
	for _, o := range rangesOf("taken", c.Taken...) {
		taken = append(taken, ipam.Reservation{Prefix: o.prefix, Reason: o.use})
	}
	pools := ipam.DefaultPools()
	if len(i.params.Pools) > 0 {
		pools = nil
		for _, p := range rangesOf("pool", i.params.Pools...) {
			pools = append(pools, p.prefix)
		}
	}
	free := "RANGE"
	for _, want := range append(rangesOf("", render.DefaultExternalCIDR), external) {
		if got, _, err := ipam.Allocate(taken, ipam.Request{Want: want.prefix, Kind: ipam.External}, pools); err == nil {
			free = got.String()
			break
		}
	}
	again := c.Ours("install")
	if len(i.params.PodCIDRs) > 0 {
		again = again.Flag("--pod-cidr", strings.Join(i.params.PodCIDRs, ","))
	}
	if i.params.ServiceCIDR != "" {
		again = again.Flag("--service-cidr", i.params.ServiceCIDR)
	}
	return command.Hintf("choose another external range: %s", again.Flag("--external-cidr", free))
}
