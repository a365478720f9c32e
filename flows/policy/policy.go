// Package policy finds the policies that keep a peer's packets from local pods, or packets of local pods
// from the peer. The pod network does not know remote pods as pods, so a remote pod matches no rule for
// pods or namespaces, but it can match a rule for an address range.
package policy

import (
	"net/netip"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Direction is the direction of packets, named as in policies.
type Direction uint8

// The directions.
const (
	Ingress Direction = iota // to the pods
	Egress                   // from the pods
)

// Facts are one cluster's policies, and the pods that they select.
type Facts struct {
	// Policies are the NetworkPolicies that restrict ingress or egress, or that name addresses.
	Policies []networkingv1.NetworkPolicy
	// Cilium are the policies of Cilium. CIDRGroups has the ranges of the groups that they name.
	Cilium     []Cilium
	CIDRGroups map[string][]netip.Prefix
	// CiliumMode is Cilium's setting enable-policy: "default", "always" or "never". It is "" if there is
	// no Cilium or no such setting, and [HiddenMode] if this user may not read the setting.
	CiliumMode string
	Pods       []Group // the pods whose ingress policies restrict
	Senders    []Group // the pods whose egress policies restrict
	// Others names other programs on the cluster, such as Calico, that have policies of their own kinds.
	// This package does not read these policies.
	Others []string
	// Unknown is the reason that policies or pods could not be read; "" if they were read.
	Unknown string
}

// HiddenMode is the [Facts.CiliumMode] of a cluster whose Cilium settings this user may not read.
const HiddenMode = "hidden"

// named returns four lists of a policy's address ranges: the ingress ranges, their exceptions, the
// egress ranges, and their exceptions.
func named(p *networkingv1.NetworkPolicy) [][]netip.Prefix {
	all := make([][]netip.Prefix, 4)
	add := func(allowed, excepted int, peers []networkingv1.NetworkPolicyPeer) {
		for _, peer := range peers {
			if peer.IPBlock == nil {
				continue
			}
			all[allowed] = append(all[allowed], prefixes(peer.IPBlock.CIDR)...)
			all[excepted] = append(all[excepted], prefixes(peer.IPBlock.Except...)...)
		}
	}
	for i, d := range []Direction{Ingress, Egress} {
		for _, rule := range peers(d, p.Spec) {
			add(2*i, 2*i+1, rule)
		}
	}
	return all
}

// Prefixes parses ranges. It ignores texts that are no ranges.
func Prefixes(texts []string) []netip.Prefix { return prefixes(texts...) }

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		if p, err := netip.ParsePrefix(text); err == nil {
			all = append(all, p)
		}
	}
	return all
}

// NamesRanges reports whether a policy contains address ranges, for ingress or egress.
func NamesRanges(p *networkingv1.NetworkPolicy) bool {
	return slices.ContainsFunc(named(p), func(ranges []netip.Prefix) bool { return len(ranges) > 0 })
}

// Outdated returns the names of policies that name the range left, but not its replacement, the range
// next. After the change, such policies would allow or refuse other packets than now.
func (f Facts) Outdated(left, next netip.Prefix) (names []string) {
	outdated := func(ranges []netip.Prefix) bool {
		return slices.ContainsFunc(ranges, left.Overlaps) && !slices.ContainsFunc(ranges, next.Overlaps)
	}
	for i := range f.Policies {
		if p := &f.Policies[i]; slices.ContainsFunc(named(p), outdated) {
			names = append(names, p.Namespace+"/"+p.Name)
		}
	}
	for _, p := range f.Cilium {
		if slices.ContainsFunc(p.named(f.CIDRGroups), outdated) {
			names = append(names, p.String())
		}
	}
	slices.Sort(names)
	return names
}

// Group stands for the pods of a namespace that the same policies select.
type Group struct {
	Namespace string
	Policies  []string // names of NetworkPolicies, sorted
	Cilium    []Selection
	Pods      int
}

// Pod has the parts of a pod that selectors of policies use.
type Pod struct {
	Namespace, ServiceAccount string
	Labels, NamespaceLabels   map[string]string
}

// Isolates reports whether a policy restricts a direction. A policy without types restricts ingress, and
// also egress if it has rules for egress.
func Isolates(d Direction, p *networkingv1.NetworkPolicy) bool {
	if d == Egress {
		return len(p.Spec.PolicyTypes) == 0 && len(p.Spec.Egress) > 0 || slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
	}
	return len(p.Spec.PolicyTypes) == 0 || slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeIngress)
}

// Count adds a pod to its groups. A pod that no policy selects belongs to no group.
func (f *Facts) Count(pod Pod) {
	f.Pods = counted(f.Pods, f.GroupOf(Ingress, pod))
	f.Senders = counted(f.Senders, f.GroupOf(Egress, pod))
}

func counted(groups []Group, g Group) []Group {
	if len(g.Policies)+len(g.Cilium) == 0 {
		return groups
	}
	i := slices.IndexFunc(groups, func(o Group) bool {
		return o.Namespace == g.Namespace && slices.Equal(o.Policies, g.Policies) && slices.Equal(o.Cilium, g.Cilium)
	})
	if i < 0 {
		i, groups = len(groups), append(groups, g)
	}
	groups[i].Pods++
	return groups
}

// GroupOf returns the group of a pod, without a count.
func (f *Facts) GroupOf(d Direction, pod Pod) Group {
	return Group{Namespace: pod.Namespace, Policies: selecting(d, f.Policies, pod), Cilium: f.selections(d, pod)}
}

// selecting returns the names of the NetworkPolicies that select a pod and isolate it, sorted.
func selecting(d Direction, all []networkingv1.NetworkPolicy, pod Pod) []string {
	var names []string
	for i := range all {
		p := &all[i]
		if p.Namespace != pod.Namespace || !Isolates(d, p) {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(&p.Spec.PodSelector)
		if err == nil && selector.Matches(labels.Set(pod.Labels)) {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Groups returns the groups of pods for which the answer to this question is answer: may packets pass
// between the group and the whole range, in this direction, at least at one port? The largest group is
// first.
func (f Facts) Groups(d Direction, peer netip.Prefix, answer Answer) []Group {
	var all []Group
	for _, g := range f.groups(d) {
		if f.Admits(d, g, peer) == answer {
			all = append(all, g)
		}
	}
	slices.SortStableFunc(all, func(a, b Group) int { return b.Pods - a.Pods })
	return all
}

func (f Facts) groups(d Direction) []Group {
	if d == Egress {
		return f.Senders
	}
	return f.Pods
}

// Admits reports whether the policies allow packets between a group of pods and a whole range, in a
// direction, at least at one port. Without a policy, everything is allowed.
func (f Facts) Admits(d Direction, g Group, peer netip.Prefix) Answer {
	isolated, admits, refuses := f.ofCilium(d, g, peer)
	if len(g.Policies) > 0 {
		isolated = Yes
	}
	if slices.ContainsFunc(f.Policies, func(p networkingv1.NetworkPolicy) bool {
		return p.Namespace == g.Namespace && slices.Contains(g.Policies, p.Name) && slices.ContainsFunc(peers(d, p.Spec), func(rule []networkingv1.NetworkPolicyPeer) bool {
			return len(rule) == 0 || slices.ContainsFunc(rule, func(of networkingv1.NetworkPolicyPeer) bool { return contains(of.IPBlock, peer) })
		})
	}) {
		admits = Yes
	}
	switch {
	case refuses == Yes, isolated == Yes && admits == No:
		return No
	case refuses == Unknown, isolated != No && admits != Yes:
		return Unknown
	}
	return Yes
}

// peers returns the peers of each rule in one direction.
func peers(d Direction, s networkingv1.NetworkPolicySpec) (all [][]networkingv1.NetworkPolicyPeer) {
	if d == Egress {
		for _, r := range s.Egress {
			all = append(all, r.To)
		}
		return all
	}
	for _, r := range s.Ingress {
		all = append(all, r.From)
	}
	return all
}

// Refuses reports whether a deny rule of Cilium refuses packets of a group. No allow rule can override
// it.
func (f Facts) Refuses(d Direction, g Group, peer netip.Prefix) bool {
	_, _, refuses := f.ofCilium(d, g, peer)
	return refuses == Yes
}

func contains(b *networkingv1.IPBlock, from netip.Prefix) bool {
	return b != nil && covers(prefixes(b.CIDR), prefixes(b.Except...), from)
}

// covers reports whether one of the ranges contains the range from, and no exception overlaps from.
func covers(ranges, except []netip.Prefix, from netip.Prefix) bool {
	return slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Bits() <= from.Bits() && r.Overlaps(from) }) &&
		!slices.ContainsFunc(except, from.Overlaps)
}

// Names returns the policies of a group with their kinds.
func (f Facts) Names(g Group) string {
	var names []string
	for i, name := range g.Policies {
		name = g.Namespace + "/" + name
		if i == 0 {
			name = "NetworkPolicy " + name
		}
		names = append(names, name)
	}
	for _, s := range g.Cilium {
		if name := f.Cilium[s.Policy].String(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// Rule returns an item for a policy's spec.ingress or spec.egress that allows packets from or to the
// ranges. If cilium is set, the item is for a policy of Cilium.
func Rule(d Direction, peers []netip.Prefix, cilium bool) string {
	word := map[Direction]string{Ingress: "from", Egress: "to"}[d]
	all := make([]string, len(peers))
	for i, p := range peers {
		if all[i] = p.String(); !cilium {
			all[i] = "{ipBlock: {cidr: " + all[i] + "}}"
		}
	}
	if cilium {
		word += "CIDR"
	}
	return "- " + word + ": [" + strings.Join(all, ", ") + "]"
}
