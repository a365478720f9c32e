package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Cilium is a CiliumNetworkPolicy or CiliumClusterwideNetworkPolicy, without what this package
// does not judge. For Cilium, a remote pod is of the entity "world"; if a policy names ranges,
// it is of those, too.
// Source: https://docs.cilium.io/en/stable/security/policy/language/
type Cilium struct {
	Kind, Namespace, Name string // Namespace is "" for a clusterwide policy
	Rules                 []ciliumRule
}

type ciliumRule struct {
	EndpointSelector *metav1.LabelSelector `json:"endpointSelector"` // nil for a policy of nodes
	Ingress          []ciliumSources       `json:"ingress"`
	IngressDeny      []ciliumSources       `json:"ingressDeny"`
	Egress           []ciliumTargets       `json:"egress"`
	EgressDeny       []ciliumTargets       `json:"egressDeny"`
	DefaultDeny      struct {
		Ingress *bool `json:"ingress"`
	} `json:"enableDefaultDeny"`
}

// ciliumSources is an item of a rule's ingress. A list that is there and empty matches nothing;
// nil is no condition.
type ciliumSources struct {
	FromEndpoints []metav1.LabelSelector `json:"fromEndpoints"`
	FromRequires  []metav1.LabelSelector `json:"fromRequires"`
	FromCIDR      []string               `json:"fromCIDR"`
	FromCIDRSet   []ciliumCIDR           `json:"fromCIDRSet"`
	FromEntities  []string               `json:"fromEntities"`
	FromGroups    []json.RawMessage      `json:"fromGroups"`
	FromNodes     []json.RawMessage      `json:"fromNodes"`
	ToPorts       []struct {
		Rules json.RawMessage `json:"rules"` // of the application's protocol
	} `json:"toPorts"`
	ICMPs          []json.RawMessage `json:"icmps"`
	Authentication json.RawMessage   `json:"authentication"`
}

// ciliumTargets are the ranges of an item of a rule's egress.
type ciliumTargets struct {
	ToCIDR    []string     `json:"toCIDR"`
	ToCIDRSet []ciliumCIDR `json:"toCIDRSet"`
}

type ciliumCIDR struct {
	CIDR          string                `json:"cidr"`
	Except        []string              `json:"except"`
	Group         string                `json:"cidrGroupRef"`
	GroupSelector *metav1.LabelSelector `json:"cidrGroupSelector"`
}

// ParseCilium reads a policy of Cilium as JSON.
func ParseCilium(object []byte) (Cilium, error) {
	var o struct {
		Kind     string            `json:"kind"`
		Metadata metav1.ObjectMeta `json:"metadata"`
		Spec     *ciliumRule       `json:"spec"`
		Specs    []ciliumRule      `json:"specs"`
	}
	if err := json.Unmarshal(object, &o); err != nil {
		return Cilium{}, fmt.Errorf("read a policy of Cilium: %w", err)
	}
	p := Cilium{Kind: o.Kind, Namespace: o.Metadata.Namespace, Name: o.Metadata.Name, Rules: o.Specs}
	if o.Spec != nil {
		p.Rules = append(p.Rules, *o.Spec)
	}
	return p, nil
}

// String is the kind and name.
func (p Cilium) String() string {
	if p.Namespace == "" {
		return p.Kind + " " + p.Name
	}
	return p.Kind + " " + p.Namespace + "/" + p.Name
}

// isolates reports whether the rule, which selects a pod, closes it to what no rule lets in.
func (r ciliumRule) isolates() bool {
	if r.DefaultDeny.Ingress != nil {
		return *r.DefaultDeny.Ingress
	}
	return len(r.Ingress)+len(r.IngressDeny) > 0
}

// Answer is what a policy says about packets.
type Answer uint8

// The answers.
const (
	Unknown Answer = iota // the policy can't be judged
	No
	Yes
)

// The labels of Cilium's that are no labels of a pod.
const (
	ciliumNamespace       = "io.kubernetes.pod.namespace"
	ciliumNamespaceLabels = "io.cilium.k8s.namespace.labels."
	ciliumServiceAccount  = "io.cilium.k8s.policy.serviceaccount"
)

// selects reports whether the rule is about a pod of this namespace.
func (p Cilium) selects(r ciliumRule, pod Pod) Answer {
	if r.EndpointSelector == nil || p.Namespace != "" && p.Namespace != pod.Namespace {
		return No
	}
	has := labels.Set{ciliumNamespace: pod.Namespace, ciliumServiceAccount: pod.ServiceAccount}
	maps.Copy(has, pod.Labels)
	for key, value := range pod.NamespaceLabels {
		has[ciliumNamespaceLabels+key] = value
	}
	selector, special, err := ciliumSelector(*r.EndpointSelector)
	switch {
	case special: // Cilium's own endpoints, such as reserved:health
		return No
	case err != nil:
		return Unknown
	case selector.Matches(has):
		return Yes
	}
	return No
}

// ciliumSelector returns the selector without the sources of its labels: k8s and any. With
// special, it has labels of another source, which pods don't have.
func ciliumSelector(s metav1.LabelSelector) (selector labels.Selector, special bool, err error) {
	plain := metav1.LabelSelector{MatchLabels: map[string]string{}}
	key := func(k string) string {
		source, rest, has := strings.Cut(k, ":")
		special = special || has && source != "k8s" && source != "any"
		if has {
			return rest
		}
		return k
	}
	for k, v := range s.MatchLabels {
		plain.MatchLabels[key(k)] = v
	}
	for _, e := range s.MatchExpressions {
		e.Key = key(e.Key)
		plain.MatchExpressions = append(plain.MatchExpressions, e)
	}
	selector, err = metav1.LabelSelectorAsSelector(&plain)
	return selector, special, err
}

// matches reports whether packets of the range are of these sources, before their ports are
// looked at. A range of which a part is excepted is not of the set.
func (s ciliumSources) matches(from netip.Prefix, groups map[string][]netip.Prefix) Answer {
	if s.FromEndpoints == nil && s.FromCIDR == nil && s.FromCIDRSet == nil && s.FromEntities == nil && s.FromGroups == nil && s.FromNodes == nil {
		if len(s.ToPorts)+len(s.ICMPs) > 0 { // of all sources
			return Yes
		}
		return No
	}
	answer := No
	if len(s.FromGroups) > 0 {
		answer = Unknown
	}
	for _, e := range s.FromEntities {
		if e == "all" || e == "world" {
			return Yes
		}
	}
	for _, e := range s.FromEndpoints {
		if _, special, err := ciliumSelector(e); special || err != nil { // such as reserved:world
			answer = Unknown
		}
	}
	for _, cidr := range s.FromCIDR {
		if covers(prefixes(cidr), nil, from) {
			return Yes
		}
	}
	for _, c := range s.FromCIDRSet {
		ranges, known := c.ranges(groups)
		switch {
		case !known:
			answer = Unknown
		case covers(ranges, prefixes(c.Except...), from):
			return Yes
		}
	}
	return answer
}

func (c ciliumCIDR) ranges(groups map[string][]netip.Prefix) (all []netip.Prefix, known bool) {
	switch {
	case c.GroupSelector != nil:
		return nil, false
	case c.Group != "":
		all, known = groups[c.Group]
		return all, known
	}
	return prefixes(c.CIDR), true
}

// overlaps reports whether packets of a part of the range may be of these sources.
func (s ciliumSources) overlaps(from netip.Prefix, groups map[string][]netip.Prefix) bool {
	if s.matches(from, groups) != No {
		return true
	}
	within := prefixes(s.FromCIDR...)
	for _, c := range s.FromCIDRSet {
		ranges, _ := c.ranges(groups)
		within = append(within, ranges...)
	}
	return slices.ContainsFunc(within, from.Overlaps)
}

// admits reports whether an item of ingress lets the range in, at least at one port.
func (s ciliumSources) admits(from netip.Prefix, groups map[string][]netip.Prefix) Answer {
	of := s.matches(from, groups)
	switch {
	case of == No:
		return No
	case len(s.FromRequires) > 0, len(s.Authentication) > 0:
		return Unknown
	case len(s.ToPorts) > 0:
		for _, ports := range s.ToPorts {
			if len(ports.Rules) == 0 {
				return of
			}
		}
		return Unknown // a proxy decides by the content
	case len(s.ICMPs) > 0:
		return No // to no port
	}
	return of
}

// Selection is a rule of a policy of Cilium that is about a pod.
type Selection struct {
	Policy, Rule int  // positions in [Facts.Cilium], and in its rules
	Doubt        bool // it is not known whether the rule is about the pod
}

func (f *Facts) selections(pod Pod) (all []Selection) {
	for i, p := range f.Cilium {
		for j, r := range p.Rules {
			if answer := p.selects(r, pod); answer != No && (answer == Unknown || r.isolates() || len(r.Ingress) > 0) {
				all = append(all, Selection{Policy: i, Rule: j, Doubt: answer == Unknown})
			}
		}
	}
	return all
}

// ofCilium judges the rules of Cilium that are about a group of pods: whether one closes the pods
// to what no policy lets in, whether one lets the range in, and whether one refuses it.
func (f Facts) ofCilium(g Group, from netip.Prefix) (isolated, admits, refuses Answer) {
	isolated, admits, refuses = No, No, No
	for _, s := range g.Cilium {
		r := f.Cilium[s.Policy].Rules[s.Rule]
		says := func(is bool, otherwise Answer) Answer {
			if is && s.Doubt {
				return Unknown
			} else if is {
				return Yes
			}
			return otherwise
		}
		isolated = stronger(isolated, says(r.isolates(), No))
		for _, in := range r.Ingress {
			answer := in.admits(from, f.CIDRGroups)
			admits = stronger(admits, says(answer == Yes, answer))
		}
		for _, in := range r.IngressDeny {
			if in.overlaps(from, f.CIDRGroups) {
				all := in.matches(from, f.CIDRGroups) != Unknown && len(in.ToPorts)+len(in.ICMPs) == 0
				refuses = stronger(refuses, says(all, Unknown))
			}
		}
	}
	return isolated, admits, refuses
}

// stronger is Yes if one answer is, and Unknown if one could be.
func stronger(a, b Answer) Answer {
	switch {
	case a == Yes || b == Yes:
		return Yes
	case a == Unknown || b == Unknown:
		return Unknown
	}
	return No
}

// named returns the ranges that a policy names, as that of a NetworkPolicy does.
func (p Cilium) named(groups map[string][]netip.Prefix) [][]netip.Prefix {
	all := make([][]netip.Prefix, 4)
	add := func(allowed int, cidrs []string, sets []ciliumCIDR) {
		all[allowed] = append(all[allowed], prefixes(cidrs...)...)
		for _, c := range sets {
			ranges, _ := c.ranges(groups)
			all[allowed] = append(all[allowed], ranges...)
			all[allowed+1] = append(all[allowed+1], prefixes(c.Except...)...)
		}
	}
	for _, r := range p.Rules {
		for _, in := range append(slices.Clone(r.Ingress), r.IngressDeny...) {
			add(0, in.FromCIDR, in.FromCIDRSet)
		}
		for _, out := range append(slices.Clone(r.Egress), r.EgressDeny...) {
			add(2, out.ToCIDR, out.ToCIDRSet)
		}
	}
	return all
}
