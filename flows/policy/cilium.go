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
	Ingress          []ciliumPeers         `json:"ingress"`
	IngressDeny      []ciliumPeers         `json:"ingressDeny"`
	Egress           []ciliumTargets       `json:"egress"`
	EgressDeny       []ciliumTargets       `json:"egressDeny"`
	DefaultDeny      struct {
		Ingress *bool `json:"ingress"`
		Egress  *bool `json:"egress"`
	} `json:"enableDefaultDeny"`
}

// ciliumPeers is an item of a rule's ingress or ingressDeny. A list of peers that is empty but not nil
// matches no peer. If all lists of peers are nil, an item with ports or ICMP types matches all peers, and any
// other item matches none. For Requires, ToPorts and ICMPs, an empty list means the same as nil.
type ciliumPeers struct {
	Endpoints []metav1.LabelSelector `json:"fromEndpoints"`
	Requires  []metav1.LabelSelector `json:"fromRequires"`
	CIDR      []string               `json:"fromCIDR"`
	CIDRSet   []ciliumCIDR           `json:"fromCIDRSet"`
	Entities  []string               `json:"fromEntities"`
	Groups    []json.RawMessage      `json:"fromGroups"`
	Nodes     []json.RawMessage      `json:"fromNodes"`
	Services  []json.RawMessage      `json:"-"`
	FQDNs     []json.RawMessage      `json:"-"`
	ciliumPorts
}

// ciliumTargets is an item of a rule's egress or egressDeny. It has the Go fields of ciliumPeers, so that
// peersOf can convert it. Only the JSON names differ: "-" marks a field that only the other type reads.
type ciliumTargets struct {
	Endpoints []metav1.LabelSelector `json:"toEndpoints"`
	Requires  []metav1.LabelSelector `json:"toRequires"`
	CIDR      []string               `json:"toCIDR"`
	CIDRSet   []ciliumCIDR           `json:"toCIDRSet"`
	Entities  []string               `json:"toEntities"`
	Groups    []json.RawMessage      `json:"toGroups"`
	Nodes     []json.RawMessage      `json:"toNodes"`
	Services  []json.RawMessage      `json:"toServices"`
	FQDNs     []json.RawMessage      `json:"toFQDNs"`
	ciliumPorts
}

type ciliumPorts struct {
	ToPorts []struct {
		Rules json.RawMessage `json:"rules"` // conditions of a protocol such as HTTP
	} `json:"toPorts"`
	ICMPs          []json.RawMessage `json:"icmps"`
	Authentication json.RawMessage   `json:"authentication"`
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

// part returns the items by which the rule allows and refuses packets in a direction. isolates reports
// whether the selected pods refuse all packets that no rule allows.
func (r ciliumRule) part(d Direction) (allow, deny []ciliumPeers, isolates bool) {
	allow, deny, given := r.Ingress, r.IngressDeny, r.DefaultDeny.Ingress
	if d == Egress {
		allow, deny, given = peersOf(r.Egress), peersOf(r.EgressDeny), r.DefaultDeny.Egress
	}
	if given != nil {
		return allow, deny, *given
	}
	return allow, deny, len(allow)+len(deny) > 0
}

func peersOf(targets []ciliumTargets) (all []ciliumPeers) {
	for _, t := range targets {
		all = append(all, ciliumPeers(t))
	}
	return all
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

// Cilium adds labels with these keys to the labels of a pod. ciliumNamespaceLabels is a prefix of such
// keys.
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
	case special: // the rule selects endpoints other than pods, such as reserved:health
		return No
	case err != nil:
		return Unknown
	case selector.Matches(has):
		return Yes
	}
	return No
}

// ciliumSelector returns the selector without its labels' prefixes, such as "k8s:". Cilium calls such a
// prefix the label's source. special is true if the source of a label is neither "k8s" nor "any", because
// pods have no such labels.
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

// matches reports whether one of the peers contains the whole range. Ports don't matter here. A peer does not
// contain the range if one of its exceptions overlaps the range.
func (s ciliumPeers) matches(peer netip.Prefix, groups map[string][]netip.Prefix) Answer {
	if s.Endpoints == nil && s.CIDR == nil && s.CIDRSet == nil && s.Entities == nil && s.Groups == nil && s.Nodes == nil && s.Services == nil && s.FQDNs == nil {
		if len(s.ToPorts)+len(s.ICMPs) > 0 { // all peers match
			return Yes
		}
		return No
	}
	answer := No
	if len(s.Groups)+len(s.Services)+len(s.FQDNs) > 0 {
		answer = Unknown
	}
	for _, e := range s.Entities {
		switch e {
		case "all", "world":
			return Yes
		case "world-ipv4": // an entity of clusters with both IP families
			answer = Unknown
		}
	}
	for _, e := range s.Endpoints {
		if _, special, err := ciliumSelector(e); special || err != nil { // such as reserved:world
			answer = Unknown
		}
	}
	for _, cidr := range s.CIDR {
		if covers(prefixes(cidr), nil, peer) {
			return Yes
		}
	}
	for _, c := range s.CIDRSet {
		ranges, known := c.ranges(groups)
		switch {
		case !known:
			answer = Unknown
		case covers(ranges, prefixes(c.Except...), peer):
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

// overlaps reports whether the peers may contain a part of the range.
func (s ciliumPeers) overlaps(peer netip.Prefix, groups map[string][]netip.Prefix) bool {
	if s.matches(peer, groups) != No {
		return true
	}
	within := prefixes(s.CIDR...)
	for _, c := range s.CIDRSet {
		ranges, _ := c.ranges(groups)
		within = append(within, ranges...)
	}
	return slices.ContainsFunc(within, peer.Overlaps)
}

// admits reports whether the item allows packets from or to the whole range, at least at one port.
func (s ciliumPeers) admits(peer netip.Prefix, groups map[string][]netip.Prefix) Answer {
	of := s.matches(peer, groups)
	switch {
	case of == No:
		return No
	case len(s.Requires) > 0, len(s.Authentication) > 0:
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
	Doubt        bool // true if it is unknown whether the rule selects the pod
}

func (f *Facts) selections(d Direction, pod Pod) (all []Selection) {
	for i, p := range f.Cilium {
		for j, r := range p.Rules {
			allow, deny, isolates := r.part(d)
			if answer := p.selects(r, pod); answer != No && (isolates || len(allow)+len(deny) > 0) {
				all = append(all, Selection{Policy: i, Rule: j, Doubt: answer == Unknown})
			}
		}
	}
	return all
}

// ofCilium judges the rules of Cilium that select a group of pods. isolated: do the pods refuse all packets
// that no rule allows? admits: does a rule allow packets from or to the range? refuses: does a rule refuse
// them?
func (f Facts) ofCilium(d Direction, g Group, peer netip.Prefix) (isolated, admits, refuses Answer) {
	isolated, admits, refuses = No, No, No
	for _, s := range g.Cilium {
		allow, deny, isolates := f.Cilium[s.Policy].Rules[s.Rule].part(d)
		says := func(is bool, otherwise Answer) Answer {
			if is && s.Doubt {
				return Unknown
			} else if is {
				return Yes
			}
			return otherwise
		}
		isolated = stronger(isolated, says(isolates, No))
		for _, item := range allow {
			answer := item.admits(peer, f.CIDRGroups)
			admits = stronger(admits, says(answer == Yes, answer))
		}
		for _, item := range deny {
			if item.overlaps(peer, f.CIDRGroups) {
				all := item.matches(peer, f.CIDRGroups) != Unknown && len(item.ToPorts)+len(item.ICMPs) == 0
				refuses = stronger(refuses, says(all, Unknown))
			}
		}
	}
	return isolated, admits, refuses
}

// stronger returns Yes if one of the answers is Yes, else Unknown if one of them is Unknown, else No.
func stronger(a, b Answer) Answer {
	switch {
	case a == Yes || b == Yes:
		return Yes
	case a == Unknown || b == Unknown:
		return Unknown
	}
	return No
}

// named returns four lists of a policy's ranges: the ingress ranges, their exceptions, the egress ranges, and
// their exceptions. Each list contains ranges of both allow and deny rules.
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
		for i, d := range []Direction{Ingress, Egress} {
			allow, deny, _ := r.part(d)
			for _, item := range slices.Concat(allow, deny) {
				add(2*i, item.CIDR, item.CIDRSet)
			}
		}
	}
	return all
}
