// Package policy finds the policies that keep a peer's packets from local pods, or packets of local
// pods from the peer. The pod network does not know remote pods as pods. So a rule for pods or
// namespaces does not match a remote pod, but a rule for an address range does.
package policy

import (
	"net/netip"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Facts are one cluster's policies, and the pods that they select.
type Facts struct {
	// Policies are the NetworkPolicies that restrict ingress or egress, or that name addresses.
	Policies []networkingv1.NetworkPolicy
	// Cilium are the policies of Cilium. CIDRGroups has the ranges of the groups that they name.
	Cilium     []Cilium
	CIDRGroups map[string][]netip.Prefix
	// CiliumMode is Cilium's setting enable-policy: "default", "always" or "never". It is "" if Cilium
	// does not run or has no such setting, and [HiddenMode] if this user may not read the setting.
	CiliumMode string
	Pods       []Group // the pods that policies for ingress select
	Senders    []Group // the pods whose egress NetworkPolicies restrict
	// Others names other programs, such as Calico, with policies of their own kinds on the cluster.
	// This package does not read them.
	Others []string
	// Unknown is the reason that policies or pods could not be read; "" if they were read.
	Unknown string
}

// HiddenMode is the [Facts.CiliumMode] of a cluster whose settings of Cilium may not be read.
const HiddenMode = "hidden"

// named returns four lists of a policy's address ranges: of ingress, the exceptions of these, of egress,
// the exceptions of these.
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
	for _, r := range p.Spec.Ingress {
		add(0, 1, r.From)
	}
	for _, r := range p.Spec.Egress {
		add(2, 3, r.To)
	}
	return all
}

// Prefixes parses ranges. It leaves out texts that are no ranges.
func Prefixes(texts []string) []netip.Prefix { return prefixes(texts...) }

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		if p, err := netip.ParsePrefix(text); err == nil {
			all = append(all, p)
		}
	}
	return all
}

// NamesRanges reports whether a policy names addresses, for ingress or egress.
func NamesRanges(p *networkingv1.NetworkPolicy) bool {
	return slices.ContainsFunc(named(p), func(ranges []netip.Prefix) bool { return len(ranges) > 0 })
}

// Outdated returns the names of policies that name the range left, but not the range next that replaces
// it. After the change, such policies would allow or refuse other packets.
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

// Pod has the parts of a pod at which selectors of policies look.
type Pod struct {
	Namespace, ServiceAccount string
	Labels, NamespaceLabels   map[string]string
}

// Isolates reports whether a policy restricts ingress. A policy without types does.
func Isolates(p *networkingv1.NetworkPolicy) bool {
	return len(p.Spec.PolicyTypes) == 0 || slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeIngress)
}

// IsolatesSenders reports whether a policy restricts egress. A policy without types does if it has egress rules.
func IsolatesSenders(p *networkingv1.NetworkPolicy) bool {
	return len(p.Spec.PolicyTypes) == 0 && len(p.Spec.Egress) > 0 || slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeEgress)
}

// Count adds a pod to its groups. A pod that no policy selects is in no group.
func (f *Facts) Count(pod Pod) {
	f.Pods = counted(f.Pods, f.GroupOf(pod))
	f.Senders = counted(f.Senders, Group{Namespace: pod.Namespace, Policies: selecting(f.Policies, pod, IsolatesSenders)})
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

// GroupOf returns the group to which a pod belongs. The number of its pods is 0.
func (f *Facts) GroupOf(pod Pod) Group {
	return Group{Namespace: pod.Namespace, Policies: selecting(f.Policies, pod, Isolates), Cilium: f.selections(pod)}
}

// selecting returns the names of the NetworkPolicies that select a pod and isolate it, sorted.
func selecting(all []networkingv1.NetworkPolicy, pod Pod, isolates func(*networkingv1.NetworkPolicy) bool) []string {
	var names []string
	for i := range all {
		p := &all[i]
		if p.Namespace != pod.Namespace || !isolates(p) {
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

// Groups returns the groups for which Admits returns this answer, the largest first.
func (f Facts) Groups(from netip.Prefix, answer Answer) []Group {
	var all []Group
	for _, g := range f.Pods {
		if f.Admits(g, from) == answer {
			all = append(all, g)
		}
	}
	slices.SortStableFunc(all, func(a, b Group) int { return b.Pods - a.Pods })
	return all
}

// Mute returns the groups of pods that can't send packets to the whole range because of NetworkPolicies, the largest
// first.
func (f Facts) Mute(to netip.Prefix) []Group {
	mute := slices.DeleteFunc(slices.Clone(f.Senders), func(g Group) bool {
		return slices.ContainsFunc(f.Policies, func(p networkingv1.NetworkPolicy) bool {
			return p.Namespace == g.Namespace && slices.Contains(g.Policies, p.Name) && slices.ContainsFunc(p.Spec.Egress, func(r networkingv1.NetworkPolicyEgressRule) bool {
				return len(r.To) == 0 || slices.ContainsFunc(r.To, func(peer networkingv1.NetworkPolicyPeer) bool { return contains(peer.IPBlock, to) })
			})
		})
	})
	slices.SortStableFunc(mute, func(a, b Group) int { return b.Pods - a.Pods })
	return mute
}

// UnjudgedSenders returns the name of a policy of Cilium that restricts egress; "" if there is none. This package
// does not judge such restrictions.
func (f Facts) UnjudgedSenders() string {
	for _, p := range f.Cilium {
		for _, r := range p.Rules {
			if r.EndpointSelector != nil && len(r.Egress)+len(r.EgressDeny) > 0 {
				return p.String()
			}
		}
	}
	return ""
}

// Admits reports whether the policies let in packets from the whole range to a group of pods, at least at one
// port. Without a policy, all packets are let in.
func (f Facts) Admits(g Group, from netip.Prefix) Answer {
	isolated, admits, refuses := f.ofCilium(g, from)
	if len(g.Policies) > 0 {
		isolated = Yes
	}
	if slices.ContainsFunc(f.Policies, func(p networkingv1.NetworkPolicy) bool {
		return p.Namespace == g.Namespace && slices.Contains(g.Policies, p.Name) && slices.ContainsFunc(p.Spec.Ingress, func(r networkingv1.NetworkPolicyIngressRule) bool {
			return len(r.From) == 0 || slices.ContainsFunc(r.From, func(peer networkingv1.NetworkPolicyPeer) bool { return contains(peer.IPBlock, from) })
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

// Rule returns an item of a policy's spec.ingress that lets ranges in.
func Rule(from []netip.Prefix) string { return "- from: [" + blocks(from) + "]" }

// SenderRule returns an item of a policy's spec.egress that lets packets out to ranges.
func SenderRule(to []netip.Prefix) string { return "- to: [" + blocks(to) + "]" }

func blocks(ranges []netip.Prefix) string {
	all := make([]string, len(ranges))
	for i, p := range ranges {
		all[i] = "{ipBlock: {cidr: " + p.String() + "}}"
	}
	return strings.Join(all, ", ")
}

// CiliumRule returns an item of spec.ingress that lets ranges in, for a policy of Cilium.
func CiliumRule(from []netip.Prefix) string {
	ranges := make([]string, len(from))
	for i, p := range from {
		ranges[i] = p.String()
	}
	return "- fromCIDR: [" + strings.Join(ranges, ", ") + "]"
}
