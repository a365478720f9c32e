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

// Cilium is a CiliumNetworkPolicy or CiliumClusterwideNetworkPolicy. It has only the fields that
// this package reads. For Cilium, a remote pod belongs to the entity "world", and to each range
// of a policy that contains its address.
// Source: https://docs.cilium.io/en/stable/security/policy/language/
type Cilium struct {
	Kind, Namespace, Name string // Namespace is "" for a clusterwide policy
	Rules                 []ciliumRule
}

type ciliumRule struct {
	EndpointSelector *metav1.LabelSelector `json:"endpointSelector"` // nil if the rule selects nodes
	Ingress          []ciliumSources       `json:"ingress"`
	IngressDeny      []ciliumSources       `json:"ingressDeny"`
	Egress           []ciliumTargets       `json:"egress"`
	EgressDeny       []ciliumTargets       `json:"egressDeny"`
	DefaultDeny      struct {
		Ingress *bool `json:"ingress"`
	} `json:"enableDefaultDeny"`
}

// ciliumSources is an item of a rule's ingress or ingressDeny. A list of sources that is empty but
// not nil matches no source. If all lists of sources are nil, an item with ports or ICMP types
// matches all sources, and an item without them matches none. For FromRequires, ToPorts and ICMPs
// an empty list means the same as nil.
type ciliumSources struct {
	FromEndpoints []metav1.LabelSelector `json:"fromEndpoints"`
	FromRequires  []metav1.LabelSelector `json:"fromRequires"`
	FromCIDR      []string               `json:"fromCIDR"`
	FromCIDRSet   []ciliumCIDR           `json:"fromCIDRSet"`
	FromEntities  []string               `json:"fromEntities"`
	FromGroups    []json.RawMessage      `json:"fromGroups"`
	FromNodes     []json.RawMessage      `json:"fromNodes"`
	ToPorts       []struct {
		Rules json.RawMessage `json:"rules"` // conditions of a protocol such as HTTP
	} `json:"toPorts"`
	ICMPs          []json.RawMessage `json:"icmps"`
	Authentication json.RawMessage   `json:"authentication"`
}

// ciliumTargets has the ranges of an item of a rule's egress or egressDeny.
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

// ParseCilium parses the JSON of a policy of Cilium.
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

// String returns the kind, the namespace if there is one, and the name.
func (p Cilium) String() string {
	if p.Namespace == "" {
		return p.Kind + " " + p.Name
	}
	return p.Kind + " " + p.Namespace + "/" + p.Name
}

// isolates reports whether the pods that the rule selects refuse all packets that no rule lets in.
func (r ciliumRule) isolates() bool {
	if r.DefaultDeny.Ingress != nil {
		return *r.DefaultDeny.Ingress
	}
	return len(r.Ingress)+len(r.IngressDeny) > 0
}

// Answer is the answer to a question about a policy: whether a rule selects a pod, for example, or
// lets packets in.
type Answer uint8

// The answers.
const (
	Unknown Answer = iota // this package can't judge the policy
	No
	Yes
)

// Cilium adds labels with these keys to the labels of a pod.
const (
	ciliumNamespace       = "io.kubernetes.pod.namespace"
	ciliumNamespaceLabels = "io.cilium.k8s.namespace.labels."
	ciliumServiceAccount  = "io.cilium.k8s.policy.serviceaccount"
)

// selects reports whether the rule r of the policy selects the pod.
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
	case special: // the rule selects endpoints of Cilium that are no pods, such as reserved:health
		return No
	case err != nil:
		return Unknown
	case selector.Matches(has):
		return Yes
	}
	return No
}

// ciliumSelector returns the selector without the prefixes of its labels, such as "k8s:". Cilium calls
// such a prefix the label's source. special is true if the source of a label is neither k8s nor any:
// pods don't have such labels.
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

// matches reports whether one of the sources contains the whole range from. It does not look at
// ports. A source does not contain the range if one of its exceptions overlaps the range.
func (s ciliumSources) matches(from netip.Prefix, groups map[string][]netip.Prefix) Answer {
	if s.FromEndpoints == nil && s.FromCIDR == nil && s.FromCIDRSet == nil && s.FromEntities == nil && s.FromGroups == nil && s.FromNodes == nil {
		if len(s.ToPorts)+len(s.ICMPs) > 0 { // from all sources
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

// overlaps reports whether the sources may contain a part of the range from.
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

// admits reports whether an item of ingress lets in packets from the whole range, at least at one port.
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
		return Unknown // a proxy decides by the content of the packets
	case len(s.ICMPs) > 0:
		return No // the item lets in only ICMP
	}
	return of
}

// Selection is a rule of a policy of Cilium that selects a pod.
type Selection struct {
	Policy, Rule int  // indices in [Facts.Cilium], and in the policy's Rules
	Doubt        bool // it is not known whether the rule selects the pod
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

// ofCilium judges the rules of Cilium that select a group of pods. isolated is the answer to whether
// the pods refuse all packets that no rule lets in. admits is the answer to whether a rule lets in
// packets from the range. refuses is the answer to whether a rule refuses packets from it.
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

// stronger returns Yes if one of the answers is Yes, otherwise Unknown if one of them is Unknown.
func stronger(a, b Answer) Answer {
	switch {
	case a == Yes || b == Yes:
		return Yes
	case a == Unknown || b == Unknown:
		return Unknown
	}
	return No
}

// named returns four lists of a policy's ranges: of ingress, the exceptions of these, of egress, the
// exceptions of these. Each list has allowed and denied ranges.
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
