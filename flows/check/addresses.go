package check

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/ipam"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// addressRange is one range of a cluster, and its use.
type addressRange struct {
	use    string
	prefix netip.Prefix
}

func (r addressRange) String() string {
	if r.prefix.IsSingleIP() {
		return r.use + " " + r.prefix.Addr().String()
	}
	return r.use + " " + r.prefix.String()
}

// ranges are all known ranges of a cluster: pods, Services, external, nodes.
func ranges(c flows.ClusterFacts) []addressRange {
	var out []addressRange
	add := func(use string, cidrs []networkingv1beta1.CIDR) {
		for _, p := range prefixes(cidrs) {
			out = append(out, addressRange{use, p})
		}
	}
	add("pods", c.Networks.Pod)
	add("Services", c.ServiceCIDRs)
	add("external", c.Networks.External)
	for _, n := range c.Nodes {
		for _, a := range n.Internal {
			if a.Is4() {
				out = append(out, addressRange{"node " + n.Name, netip.PrefixFrom(a, a.BitLen())})
			}
		}
	}
	return out
}

func prefixes(cidrs []networkingv1beta1.CIDR) []netip.Prefix {
	var out []netip.Prefix
	for _, c := range cidrs {
		if p, err := netip.ParsePrefix(string(c)); err == nil {
			out = append(out, p.Masked())
		}
	}
	return out
}

// overlapsOf returns the pairs of ranges of a and b that share an address: a cluster could not
// know to which of the two a packet goes. Two nodes with the same address don't count, because a
// node's address only has to be outside of the other cluster's ranges.
func overlapsOf(a, b []addressRange) [][2]addressRange {
	single := func(r addressRange) bool { return r.prefix.IsSingleIP() }
	wide := slices.DeleteFunc(slices.Clone(b), single) // b may have thousands of nodes, but only a few ranges
	var out [][2]addressRange
	for _, x := range a {
		others := b
		if single(x) {
			others = wide
		}
		for _, y := range others {
			if ipam.Overlaps(x.prefix, y.prefix) {
				out = append(out, [2]addressRange{x, y})
			}
		}
	}
	return out
}

// View is how one cluster sees, or will see, a range of the other cluster.
type View struct {
	Use  string // pods or external
	Real netip.Prefix
	// Remapped is the range under which the cluster sees Real; both are equal if Real is not
	// remapped. Liqo has rules and pools of its own, so with Liqo, Remapped is valid only after
	// Liqo's decision.
	Remapped netip.Prefix
	// Predicted is set until the cluster's operator has decided.
	Predicted bool
}

func (v View) String() string {
	if !v.Remapped.IsValid() {
		return fmt.Sprintf("%s %s as a range that Liqo chooses", v.Use, v.Real)
	}
	if v.Real == v.Remapped {
		return fmt.Sprintf("%s %s under the same addresses", v.Use, v.Real)
	}
	return fmt.Sprintf("%s %s as %s", v.Use, v.Real, v.Remapped)
}

// Views returns the side's views of the other cluster. If the side's operator has not decided yet,
// Views predicts the decision of our operator. The operator may know more addresses to avoid. The
// error means that no range is free.
func Views(f flows.Facts, side flows.Side) ([]View, error) {
	me, other := f.Sides[side], f.Sides[side.Other()]
	if conf := me.End(other.ID).Configuration; conf != nil && flows.CIDRsConfigured(conf) {
		return Decided(conf), nil
	}
	taken := takenBy(me)
	var out []View
	var errs []error
	for _, r := range []struct {
		use, kind string
		cidrs     []networkingv1beta1.CIDR
	}{{"pods", ipam.Pods, other.Networks.Pod}, {"external", ipam.External, other.Networks.External}} {
		for _, want := range prefixes(r.cidrs) {
			v := View{Use: r.use, Real: want, Predicted: true}
			if me.Can().Predictable {
				var err error
				if v.Remapped, _, err = ipam.Allocate(taken, ipam.Request{Want: want, Peer: string(other.ID), Kind: r.kind, Remap: me.AsPeer}, pools(me)); err != nil {
					errs = append(errs, fmt.Errorf("%s %s: %w", r.use, want, err))
					continue
				}
				taken = append(taken, ipam.Reservation{Prefix: v.Remapped, Reason: r.use + " of " + string(other.ID)})
			}
			out = append(out, v)
		}
	}
	return out, errors.Join(errs...)
}

// Decided returns the views in a Configuration in which the operator has decided all ranges.
func Decided(conf *networkingv1beta1.Configuration) []View {
	spec, status := conf.Spec.Remote.CIDR, conf.Status.Remote.CIDR
	return append(decided("pods", spec.Pod, status.Pod), decided("external", spec.External, status.External)...)
}

// pools returns the ranges from which the cluster's operator chooses remapped ranges.
func pools(c flows.ClusterFacts) []netip.Prefix {
	if told := prefixes(c.Pools); len(told) > 0 {
		return told
	}
	return ipam.DefaultPools()
}

func decided(use string, from, to []networkingv1beta1.CIDR) []View {
	var out []View
	reals, remapped := prefixes(from), prefixes(to)
	for i := range min(len(reals), len(remapped)) {
		out = append(out, View{Use: use, Real: reals[i], Remapped: remapped[i]})
	}
	return out
}

// Becomes replaces a range under which a cluster sees a peer. It has the present range, the likely
// next range, and the reason.
type Becomes struct {
	Left, Next netip.Prefix
	Why        string
}

func (b Becomes) String() string {
	return fmt.Sprintf("%s becomes %s: %s", b.Left, b.Next, b.Why)
}

// Renumbered predicts the next range for each range in left. The cluster sees the peer under these
// ranges, and our operator has to give them up. If the operator has already chosen the next range,
// Renumbered returns the operator's choice. The error means that no range is free.
func Renumbered(c flows.ClusterFacts, conf *networkingv1beta1.Configuration, left []netip.Prefix) ([]Becomes, error) {
	taken := takenBy(c)
	overlaps := wire.Overlaps(conf)
	for _, o := range overlaps {
		taken = append(taken, o.With)
	}
	for _, p := range left {
		taken = append(taken, ipam.Reservation{Prefix: p, Reason: "the range that is to be left"})
	}
	chosen, _ := wire.ParseAliases(conf) // written by the operator
	peer := conf.Labels[wire.LabelRemoteCluster]
	var out []Becomes
	var errs []error
	for _, r := range []struct {
		kind        string
		reals, seen []networkingv1beta1.CIDR
	}{
		{ipam.Pods, conf.Spec.Remote.CIDR.Pod, conf.Status.Remote.CIDR.Pod}, {ipam.External, conf.Spec.Remote.CIDR.External, conf.Status.Remote.CIDR.External},
	} {
		for _, v := range decided(r.kind, r.reals, r.seen) {
			b := Becomes{Left: v.Remapped}
			if i := slices.IndexFunc(chosen, func(a wire.Alias) bool { return a.Real == v.Real && !slices.Contains(left, a.Seen) }); i >= 0 {
				b.Next, b.Why = chosen[i].Seen, "the operator has chosen it"
				if j := slices.IndexFunc(chosen, func(a wire.Alias) bool { return a.Real == v.Real && slices.Contains(left, a.Seen) }); j >= 0 {
					b.Left = chosen[j].Seen
				}
				out = append(out, b)
				continue
			}
			if !slices.Contains(left, v.Remapped) {
				continue
			}
			next, why, err := ipam.Allocate(taken, ipam.Request{Want: v.Real, Peer: peer, Kind: r.kind}, pools(c))
			if err != nil {
				errs = append(errs, fmt.Errorf("%s %s: %w", v.Use, v.Real, err))
				continue
			}
			taken = append(taken, ipam.Reservation{Prefix: next, Reason: v.Use + " of " + peer})
			b.Next, b.Why = next, because(overlaps, v, why)
			out = append(out, b)
		}
	}
	return out, errors.Join(errs...)
}

// because returns the reason to give up the range of v. It also says whether the next range is the
// peer's own. If it is not, the argument why has the reason.
func because(overlaps []wire.Overlap, v View, why string) string {
	text := "it was asked for"
	if i := slices.IndexFunc(overlaps, func(o wire.Overlap) bool { return o.Range == v.Remapped }); i >= 0 {
		text = "it overlaps " + overlaps[i].With.String()
	}
	switch {
	case why == "":
		return text + "; the peer's own range is free"
	case v.Real != v.Remapped:
		return fmt.Sprintf("%s; the peer's own range %s does not fit: %s", text, v.Real, why)
	}
	return text
}

// takenBy lists the ranges that the operator avoids, as far as this program knows them: the ranges
// of the cluster and of its peers, its nodes, and the endpoints of its tunnels.
func takenBy(c flows.ClusterFacts) []ipam.Reservation {
	taken := neededBy(c)
	add := func(reason string, all []netip.Prefix) {
		for _, p := range all {
			taken = append(taken, ipam.Reservation{Prefix: p, Reason: reason})
		}
	}
	add("a Network", prefixes(c.Taken))
	for i := range c.Configurations {
		if s := c.Configurations[i].Status.Remote; s != nil {
			add("a peer", prefixes(slices.Concat(s.CIDR.Pod, s.CIDR.External)))
		}
	}
	return taken
}

// neededBy lists the addresses that a cluster needs itself.
func neededBy(c flows.ClusterFacts) []ipam.Reservation {
	var needed []ipam.Reservation
	for _, r := range ranges(c) {
		needed = append(needed, ipam.Reservation{Prefix: r.prefix, Reason: r.use})
	}
	for _, n := range c.Nodes {
		needed = append(needed, ipam.Node(n.Name, slices.Concat(n.Internal, n.External))...)
	}
	endpoint := func(e *networkingv1beta1.EndpointStatus) {
		for _, text := range e.Addresses {
			if a, err := netip.ParseAddr(text); err == nil {
				needed = append(needed, ipam.Host(a, "an endpoint"))
			}
		}
	}
	for i := range c.Clients {
		endpoint(&c.Clients[i].Spec.Endpoint)
	}
	for i := range c.Servers {
		if e := c.Servers[i].Status.Endpoint; e != nil {
			endpoint(e)
		}
	}
	return needed
}

// free compares the ranges under which the side sees the peer with the addresses that the side's
// cluster uses itself. If the operator makes this comparison, only the operator's report counts,
// because the operator reads objects that an admin may not read.
func (in diagnosis) free(side flows.Side) Result {
	c, other := in.cluster(side), in.cluster(side.Other()).ID
	overlaps := wire.Overlaps(in.peers[side].Configuration)
	if !c.Can().ReportOverlaps {
		views, _ := Views(in.facts, side) // the operator has decided the views, so Views allocates nothing
		for _, v := range views {
			for _, n := range neededBy(c) {
				if o := (wire.Overlap{Range: v.Remapped, With: n}); v.Remapped.Overlaps(n.Prefix) && !slices.Contains(overlaps, o) {
					overlaps = append(overlaps, o)
				}
			}
		}
	}
	if len(overlaps) == 0 {
		return pass(fmt.Sprintf("no address that %s needs is in them", c.ID))
	}
	r := result(Warn, fmt.Sprintf("%s needs addresses in ranges under which it sees %s: its nodes send packets for these addresses to %s", c.ID, other, other))
	for _, o := range overlaps {
		r.Evidence = append(r.Evidence, o.String())
	}
	if !c.Can().Renumber {
		r.Fix = []command.Hint{command.Hintf("Liqo can't change these ranges in operation: %s, then connect again", in.facts.Ours("network", "reset"))}
		return r
	}
	r.Summary += "; API servers, DNS and nodes still work: no route to the peer has their addresses"
	r.Fix = []command.Hint{command.Hintf("give %s other ranges while packets flow: %s", other, c.Ours("network", "renumber", string(other)))}
	return r
}

func (in diagnosis) podAddresses(side flows.Side) Result { return podAddresses(in.cluster(side)) }

// podAddresses collects the reports of the nodes' agents. Each agent compares the addresses of its
// node's pods with the ranges that peers know. A difference is possible: these ranges come from
// the settings of a pod network, which may be wrong.
func podAddresses(c flows.ClusterFacts) Result {
	inside := false
	var nodes, silent []string
	var outside []netip.Prefix
	for _, node := range c.Agents {
		p := c.AgentStatus[node].Pods
		if p == nil || !attended(&c, node) {
			silent = append(silent, node)
			continue
		}
		inside = inside || p.Inside
		if len(p.Outside) > 0 {
			nodes, outside = append(nodes, node), append(outside, p.Outside...)
		}
	}
	told := joined(c.Networks.Pod)
	switch {
	case !c.Can().ReportNodes:
		return result(Inconclusive, noAgents)
	case c.AgentsUnknown:
		return result(Inconclusive, "not known: InternalNodes may not be read")
	case len(nodes) > 0:
		r := result(Warn, fmt.Sprintf("pods on %s have addresses outside of %s: no peer reaches them, and peers see the address of their node instead", flows.Some(nodes), told))
		if !inside {
			r.State, r.Summary = Fail, fmt.Sprintf("no pod has an address in %s: peers reach no pod", told)
		}
		slices.SortFunc(outside, netip.Prefix.Compare)
		outside = slices.Compact(outside)
		for _, p := range outside[:min(len(outside), maxGroups)] {
			r.Evidence = append(r.Evidence, "pods in "+p.String())
		}
		if more := len(outside) - maxGroups; more > 0 {
			r.Evidence = append(r.Evidence, fmt.Sprintf("and in %d more", more))
		}
		r.Fix = []command.Hint{command.Hintf("give all ranges of pods, also the present ones: %s", c.Ours("install").Flag("--pod-cidr", strings.ReplaceAll(told, " ", "")+",RANGE"))}
		return r
	case len(c.Agents) == 0:
		return result(Inconclusive, noReports)
	case len(silent) > 0:
		return result(Inconclusive, fmt.Sprintf("no report about pods from %d of %s: perhaps the agents there do not run, or are older than this program", len(silent), count(len(c.Agents), "node", "nodes")))
	case !inside:
		return result(Inconclusive, "no pod has an address of its own")
	}
	return pass(fmt.Sprintf("pods on %s have addresses in %s alone", count(len(c.Agents), "node", "nodes"), told))
}

// mostOverlaps is the largest number of overlaps in a result, because a range may contain the
// addresses of thousands of nodes.
const mostOverlaps = 20

func (in preflight) overlaps(flows.Side) Result {
	a, b := in.facts.Sides[flows.A], in.facts.Sides[flows.B]
	if len(prefixes(a.Networks.Pod)) == 0 || len(prefixes(b.Networks.Pod)) == 0 {
		return result(Inconclusive, "overlaps are known after the installation; overlapping ranges are remapped then")
	}
	shared := overlapsOf(ranges(a), ranges(b))
	r := pass("no ranges of the two clusters overlap")
	if len(shared) > 0 {
		r = result(Warn, "overlapping ranges are remapped: applications have to use the addresses that their own cluster sees")
	}
	for i, o := range shared {
		if i == mostOverlaps {
			r.Evidence = append(r.Evidence, fmt.Sprintf("and %d more overlaps", len(shared)-i))
			break
		}
		r.Evidence = append(r.Evidence, fmt.Sprintf("%s %s overlaps %s %s", a.ID, o[0], b.ID, o[1]))
	}
	for _, side := range []flows.Side{flows.A, flows.B} {
		me, other := in.facts.Sides[side], in.facts.Sides[side.Other()]
		views, err := Views(in.facts, side)
		if err != nil {
			return result(Fail, fmt.Sprintf("%s has no room for %s: %v", me.ID, other.ID, err),
				me.MoreRoom())
		}
		for _, v := range views {
			verb := "sees"
			switch {
			case !v.Remapped.IsValid():
				verb = "will see"
			case v.Predicted:
				verb = "will probably see"
			}
			r.Evidence = append(r.Evidence, fmt.Sprintf("%s %s %s's %s", me.ID, verb, other.ID, v))
		}
	}
	return r
}
