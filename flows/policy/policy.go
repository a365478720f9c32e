// Package policy finds the NetworkPolicies that keep a peer's packets from local pods.
// For the network that enforces them, a remote pod is not a pod: of a rule's peers, only
// an address range matches it.
package policy

import (
	"net/netip"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Facts are one cluster's NetworkPolicies, and the pods that they select.
type Facts struct {
	// Policies are those that restrict ingress, or that name addresses.
	Policies []networkingv1.NetworkPolicy
	Pods     []Group // that such policies select
	// Others are makers of policies of their own kinds that the cluster has, too: we
	// don't read those.
	Others []string
	// Unknown is the reason that policies or pods could not be read; "" if they were.
	Unknown string
}

// named returns four lists of a policy's address ranges: allowed ingress, its exceptions,
// allowed egress, its exceptions.
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

// Outdated returns the policies, as namespace/name, that name the range left but not the
// range next that replaces it: they would allow or refuse other packets than before.
func (f Facts) Outdated(left, next netip.Prefix) (names []string) {
	outdated := func(ranges []netip.Prefix) bool {
		return slices.ContainsFunc(ranges, left.Overlaps) && !slices.ContainsFunc(ranges, next.Overlaps)
	}
	for i := range f.Policies {
		if p := &f.Policies[i]; slices.ContainsFunc(named(p), outdated) {
			names = append(names, p.Namespace+"/"+p.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Group are the pods of a namespace that the same policies select.
type Group struct {
	Namespace string
	Policies  []string // names, sorted
	Pods      int
}

// Isolates reports whether a policy restricts ingress. Without types, it does.
func Isolates(p *networkingv1.NetworkPolicy) bool {
	return len(p.Spec.PolicyTypes) == 0 || slices.Contains(p.Spec.PolicyTypes, networkingv1.PolicyTypeIngress)
}

// Selecting returns the names of the policies that select a pod, sorted.
func Selecting(all []networkingv1.NetworkPolicy, namespace string, of map[string]string) []string {
	var names []string
	for i := range all {
		p := &all[i]
		if p.Namespace != namespace || !Isolates(p) {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(&p.Spec.PodSelector)
		if err == nil && selector.Matches(labels.Set(of)) {
			names = append(names, p.Name)
		}
	}
	slices.Sort(names)
	return names
}

// Count adds a pod to its group. A pod that no policy selects is in no group.
func (f *Facts) Count(namespace string, of map[string]string) {
	names := Selecting(f.Policies, namespace, of)
	if len(names) == 0 {
		return
	}
	i := slices.IndexFunc(f.Pods, func(g Group) bool { return g.Namespace == namespace && slices.Equal(g.Policies, names) })
	if i < 0 {
		i, f.Pods = len(f.Pods), append(f.Pods, Group{Namespace: namespace, Policies: names})
	}
	f.Pods[i].Pods++
}

// Closed returns the groups of pods that nothing in a range reaches, the largest first.
func (f Facts) Closed(from netip.Prefix) []Group {
	var closed []Group
	for _, g := range f.Pods {
		if !f.Admits(g.Namespace, g.Policies, from) {
			closed = append(closed, g)
		}
	}
	slices.SortStableFunc(closed, func(a, b Group) int { return b.Pods - a.Pods })
	return closed
}

// Admits reports whether one of the policies lets a whole range in, at least at one port.
// Without a policy, everything is let in.
func (f Facts) Admits(namespace string, names []string, from netip.Prefix) bool {
	if len(names) == 0 {
		return true
	}
	return slices.ContainsFunc(f.Policies, func(p networkingv1.NetworkPolicy) bool {
		return p.Namespace == namespace && slices.Contains(names, p.Name) && slices.ContainsFunc(p.Spec.Ingress, func(r networkingv1.NetworkPolicyIngressRule) bool {
			return len(r.From) == 0 || slices.ContainsFunc(r.From, func(peer networkingv1.NetworkPolicyPeer) bool { return contains(peer.IPBlock, from) })
		})
	})
}

func contains(b *networkingv1.IPBlock, from netip.Prefix) bool {
	if b == nil {
		return false
	}
	block, err := netip.ParsePrefix(b.CIDR)
	if err != nil || block.Bits() > from.Bits() || !block.Overlaps(from) {
		return false
	}
	return !slices.ContainsFunc(b.Except, func(text string) bool {
		except, err := netip.ParsePrefix(text)
		return err == nil && except.Overlaps(from)
	})
}

// Names returns the policies of a group as namespace/name.
func (g Group) Names() string {
	names := make([]string, len(g.Policies))
	for i, name := range g.Policies {
		names[i] = g.Namespace + "/" + name
	}
	return strings.Join(names, ", ")
}

// Rule returns an item of a policy's spec.ingress that lets ranges in.
func Rule(from []netip.Prefix) string {
	blocks := make([]string, len(from))
	for i, p := range from {
		blocks[i] = "{ipBlock: {cidr: " + p.String() + "}}"
	}
	return "- from: [" + strings.Join(blocks, ", ") + "]"
}
