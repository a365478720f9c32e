package gateway

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/liqo-tui/liqo-tui/internal/ipam"
)

// Table is our only nftables table. The zero Table means that there is no table.
type Table struct {
	Name     string
	Counters []string
	Sets     []Set
	Chains   []Chain
}

// Key is the type of a Set's keys.
type Key uint8

// The keys in use.
const (
	KeyInterface        Key = iota + 1 // exact interface names
	KeyAddress                         // prefixes
	KeyInterfaceAddress                // interface name and prefix
	KeyPort                            // exact ports
	KeyHost                            // addresses: prefixes of all 32 bits
	KeyEndpoint                        // address, protocol and port
)

func (k Key) String() string {
	switch k {
	case KeyInterface:
		return "ifname"
	case KeyAddress, KeyHost:
		return "ipv4_addr"
	case KeyInterfaceAddress:
		return "ifname . ipv4_addr"
	case KeyPort:
		return "inet_service"
	case KeyEndpoint:
		return "ipv4_addr . inet_proto . inet_service"
	}
	return "unknown"
}

func (k Key) interval() bool { return k == KeyAddress || k == KeyInterfaceAddress }

// MarshalText makes keys readable in JSON.
func (k Key) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// Value is the type of a map's values.
type Value uint8

// The values in use. The zero Value makes it a set.
const (
	ValuePrefix Value = iota + 1 // prefixes of the same length as their keys
	ValueMark                    // marks of packets
)

func (v Value) String() string {
	switch v {
	case ValuePrefix:
		return "interval ipv4_addr"
	case ValueMark:
		return "mark"
	}
	return ""
}

// MarshalText makes values readable in JSON.
func (v Value) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// Set is a named set, or a map.
type Set struct {
	Name    string
	Comment string
	Key     Key
	Value   Value
	// Lately is set if rules add the elements, and the kernel removes them after some time. Such
	// elements are in no KernelState.
	Lately   bool
	Elements []Element // sorted
}

// Element is one member of a Set. The Set's Key and Value determine the fields in use.
type Element struct {
	Interface string
	Prefix    netip.Prefix
	To        netip.Prefix // value
	Mark      uint32       `json:",omitempty"` // value
	Protocol  Protocol     `json:",omitempty"`
	Port      uint16       `json:",omitempty"`
	Counts    bool         `json:",omitempty"` // the element counts the packets that match it
	Comment   string
}

// Chain is a base chain. Its policy is always accept.
type Chain struct {
	Name     string
	Type     string // filter, nat or route
	Hook     string // its name in nft
	Priority int
	Rules    []FirewallRule
}

// FirewallRule is a list of conditions followed by effects. A rule in the kernel that this program did not
// make has only Raw.
type FirewallRule struct {
	Statements []Statement
	Comment    string
	Raw        string `json:",omitempty"`
}

// Op is the kind of a Statement.
type Op uint8

// Conditions first, then effects.
const (
	InputIs               Op = iota + 1 // Name: interface
	OutputIs                            // Name: interface
	InputIn                             // Name: set of interfaces
	OutputIn                            // Name: set of interfaces
	SourceIn                            // Name: set of prefixes
	OriginalSourceIn                    // Name: set of prefixes; the source of the connection's first packet
	DestinationIn                       // Name: set of prefixes
	DestinationHere                     // an address of this machine
	DestinationUnicast                  // an address of another machine, no broadcast or multicast address
	OriginalDestinationIn               // Name: set of prefixes; the destination of the connection's first packet
	EndpointIn                          // Name: set of endpoints; the packet's destination
	FrameNotTo                          // Addr: a VXLAN packet's frame is not for this member of the fabric
	InputSourceIn                       // Name: set of interface and prefix
	InputDestinationIn                  // Name: set of interface and prefix
	UDPDestinationPort                  // Number
	UDPSourcePort                       // Number
	UDPDestinationPortIn                // Name: set of ports
	UDPSourcePortIn                     // Name: set of ports
	TCPDestinationPort                  // Number
	TCPSourcePort                       // Number
	ICMP
	ICMPUnreachable // also: needs fragmentation
	Related         // to a connection, as ICMP errors are
	Established     // of a connection that was answered
	Answer          // from the side that did not begin the connection, or an error about it
	Redirected      // of a connection whose destination is translated
	Masqueraded     // from the side that began the connection, with a translated source
	MarkIs          // Number
	TCPSYN
	TCPOpens // the first packet of a connection: SYN without ACK
	SetZone  // Number
	SetMark  // Number
	// MarkByInput and MarkByDestination are also conditions. The rest of the rule applies only
	// to packets for which the map has a value.
	MarkByInput       // Name: map of interfaces to marks
	MarkByDestination // Name: map of prefixes to marks
	Remember          // Name: set of endpoints, which gets the packet's destination; no condition
	Untrack           // conntrack does not track the packet; only valid before SetZone
	Count             // Name: counter
	Drop
	Accept
	DestinationByMap // Name: map of prefixes
	SourceByMap      // Name: map of interface and prefix
	SourceTo         // Addr
	SourceKeep       // no later rule can translate the connection's source
	MaximumSegment   // Number: bytes; only lowers the value of a packet
	DontFragment
	// SourceOfError sets the source of an ICMP error to the destination of the packet that caused the error.
	// Conntrack does not notice the change.
	SourceOfError
	// DestinationOfFrame sets the destination of a VXLAN packet to the machine to which its
	// frame is addressed (see [FabricMAC]), and removes the UDP checksum.
	DestinationOfFrame
)

// Statement is one step of a rule.
type Statement struct {
	Op     Op
	Not    bool // conditions on sets, InputIs, DestinationUnicast and TCPOpens only
	Name   string
	Number uint32
	Addr   netip.Addr
}

const endpoint = "ip daddr . meta l4proto . th dport"

// String returns the statement in nft's language.
func (s Statement) String() string {
	in := "@" + s.Name
	if s.Not {
		in = "!= @" + s.Name
	}
	switch s.Op {
	case InputIs:
		if s.Not {
			return fmt.Sprintf("iifname != %q", s.Name)
		}
		return fmt.Sprintf("iifname %q", s.Name)
	case OutputIs:
		return fmt.Sprintf("oifname %q", s.Name)
	case InputIn:
		return "iifname " + in
	case OutputIn:
		return "oifname " + in
	case SourceIn:
		return "ip saddr " + in
	case OriginalSourceIn:
		return "ct original ip saddr " + in
	case DestinationIn:
		return "ip daddr " + in
	case FrameNotTo:
		a := s.Addr.As4()
		return fmt.Sprintf("@th,144,32 != 0x%x", a[:])
	case DestinationHere:
		return "fib daddr type local"
	case DestinationUnicast:
		if s.Not {
			return "fib daddr type != unicast"
		}
		return "fib daddr type unicast"
	case OriginalDestinationIn:
		return "ct original ip daddr " + in
	case EndpointIn:
		return endpoint + " " + in
	case Remember:
		return "update @" + s.Name + " { " + endpoint + " }"
	case InputSourceIn:
		return "iifname . ip saddr " + in
	case InputDestinationIn:
		return "iifname . ip daddr " + in
	case UDPDestinationPort:
		return fmt.Sprintf("udp dport %d", s.Number)
	case UDPSourcePort:
		return fmt.Sprintf("udp sport %d", s.Number)
	case UDPDestinationPortIn:
		return "udp dport " + in
	case UDPSourcePortIn:
		return "udp sport " + in
	case TCPDestinationPort:
		return fmt.Sprintf("tcp dport %d", s.Number)
	case TCPSourcePort:
		return fmt.Sprintf("tcp sport %d", s.Number)
	case ICMP:
		return "meta l4proto icmp"
	case ICMPUnreachable:
		return "icmp type destination-unreachable"
	case MarkIs:
		return fmt.Sprintf("meta mark 0x%08x", s.Number)
	case Related:
		return "ct state related"
	case Established:
		return "ct state established"
	case Answer:
		return "ct direction reply"
	case Redirected:
		return "ct status dnat"
	case Masqueraded:
		return "ct direction original ct status snat"
	case TCPSYN:
		return "tcp flags syn"
	case TCPOpens:
		if s.Not {
			return "tcp flags & (syn | ack) != syn"
		}
		return "tcp flags & (syn | ack) == syn"
	case SetZone:
		return fmt.Sprintf("ct zone set %d", s.Number)
	case SetMark:
		return fmt.Sprintf("meta mark set 0x%08x", s.Number)
	case MarkByInput:
		return "meta mark set iifname map @" + s.Name
	case MarkByDestination:
		return "meta mark set ip daddr map @" + s.Name
	case Untrack:
		return "notrack"
	case Count:
		return fmt.Sprintf("counter name %q", s.Name)
	case Drop:
		return "drop"
	case Accept:
		return "accept"
	case DestinationByMap:
		return "dnat ip prefix to ip daddr map @" + s.Name
	case SourceByMap:
		return "snat ip prefix to iifname . ip saddr map @" + s.Name
	case SourceTo:
		return "snat to " + s.Addr.String()
	case SourceKeep:
		return "snat to ip saddr"
	case MaximumSegment:
		return fmt.Sprintf("tcp option maxseg size set %d", s.Number)
	case DontFragment:
		return "ip frag-off set 16384"
	case SourceOfError:
		return "ip saddr set @th,192,32"
	case DestinationOfFrame:
		return "@th,48,16 set 0 ip daddr set @th,144,32"
	}
	return fmt.Sprintf("unknown statement %d", s.Op)
}

func (r FirewallRule) String() string {
	if r.Raw != "" {
		return "# not ours: " + r.Raw
	}
	words := make([]string, len(r.Statements))
	for i, s := range r.Statements {
		words[i] = s.String()
	}
	return strings.Join(words, " ") + commentText(r.Comment)
}

// commentText ends a rule or follows an element's key.
func commentText(c string) string {
	if c == "" {
		return ""
	}
	return fmt.Sprintf(" comment %q", c)
}

func (e Element) text(k Key, v Value) string {
	var s string
	switch k {
	case KeyInterface:
		s = fmt.Sprintf("%q", e.Interface)
	case KeyAddress:
		s = e.Prefix.String()
	case KeyHost:
		s = e.Prefix.Addr().String()
	case KeyInterfaceAddress:
		s = fmt.Sprintf("%q . %s", e.Interface, e.Prefix)
	case KeyPort:
		s = itoa(int(e.Port))
	case KeyEndpoint:
		s = fmt.Sprintf("%s . %s . %d", e.Prefix.Addr(), e.Protocol, e.Port)
	}
	if e.Counts {
		s += " counter"
	}
	s += commentText(e.Comment)
	switch v {
	case ValuePrefix:
		s += " : " + e.To.String()
	case ValueMark:
		s += fmt.Sprintf(" : 0x%08x", e.Mark)
	}
	return s
}

func (s Set) typeText() string {
	kind, text := "set", s.Key.String()
	if s.Value != 0 {
		kind, text = "map", text+" : "+s.Value.String()
	}
	text = kind + " " + s.Name + " { type " + text + ";"
	if s.Key.interval() {
		text += " flags interval;"
	}
	if s.Lately {
		text += fmt.Sprintf(" size %d; flags dynamic,timeout; timeout %ds;", LatelySize, int(LatelyTime.Seconds()))
	}
	if s.Comment != "" {
		text += fmt.Sprintf(" comment %q;", s.Comment)
	}
	return text
}

// Counts reports whether the set has elements that count packets.
func (s Set) Counts() bool {
	return slices.ContainsFunc(s.Elements, func(e Element) bool { return e.Counts })
}

func (s Set) String() string {
	if len(s.Elements) == 0 {
		return s.typeText() + " }"
	}
	text := s.typeText()
	if s.Counts() {
		text += " counter;" // without this, nft refuses elements that count
	}
	words := make([]string, len(s.Elements))
	for i, e := range s.Elements {
		words[i] = e.text(s.Key, s.Value)
	}
	return text + " elements = { " + strings.Join(words, ", ") + " } }"
}

func (c Chain) header() string {
	return fmt.Sprintf("type %s hook %s priority %d; policy accept;", c.Type, c.Hook, c.Priority)
}

// String returns the table as a script for nft -f.
func (t Table) String() string {
	if t.Name == "" {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "table ip %s {\n", t.Name)
	for _, c := range t.Counters {
		fmt.Fprintf(&b, "\tcounter %s { }\n", c)
	}
	for _, s := range t.Sets {
		fmt.Fprintf(&b, "\t%s\n", s)
	}
	for _, c := range t.Chains {
		fmt.Fprintf(&b, "\tchain %s {\n\t\t%s\n", c.Name, c.header())
		for _, r := range c.Rules {
			fmt.Fprintf(&b, "\t\t%s\n", r)
		}
		b.WriteString("\t}\n")
	}
	b.WriteString("}\n")
	return b.String()
}

// lines describes the table for comparisons, with one line for each counter, set element,
// chain and rule. Rules have their position, because their order matters.
func (t Table) lines() []string {
	if t.Name == "" {
		return nil
	}
	lines := []string{"table ip " + t.Name}
	for _, c := range t.Counters {
		lines = append(lines, "counter "+c)
	}
	for _, s := range t.Sets {
		lines = append(lines, s.typeText()+" }")
		for _, e := range s.Elements {
			lines = append(lines, "element "+s.Name+" { "+e.text(s.Key, s.Value)+" }")
		}
	}
	for _, c := range t.Chains {
		lines = append(lines, "chain "+c.Name+" { "+c.header()+" }")
		for i, r := range c.Rules {
			lines = append(lines, fmt.Sprintf("rule %s %d: %s", c.Name, i+1, r))
		}
	}
	return lines
}

// Equal reports whether two tables are the same, in the same order.
func (t Table) Equal(o Table) bool {
	return t.Name == o.Name && slices.Equal(t.Counters, o.Counters) &&
		slices.EqualFunc(t.Sets, o.Sets, func(a, b Set) bool {
			return a.Name == b.Name && a.Comment == b.Comment && a.Key == b.Key && a.Value == b.Value && a.Lately == b.Lately && slices.Equal(a.Elements, b.Elements)
		}) &&
		slices.EqualFunc(t.Chains, o.Chains, func(a, b Chain) bool {
			return a.Name == b.Name && a.Type == b.Type && a.Hook == b.Hook && a.Priority == b.Priority &&
				slices.EqualFunc(a.Rules, b.Rules, func(a, b FirewallRule) bool {
					return a.Raw == b.Raw && a.Comment == b.Comment && slices.Equal(a.Statements, b.Statements)
				})
		})
}

func rule(about string, s ...Statement) FirewallRule {
	return FirewallRule{Statements: s, Comment: about}
}

// addressSet returns a set without elements that another element contains, because the kernel refuses
// overlapping elements in an interval set.
func addressSet(name, about string, elements []Element) Set {
	slices.SortFunc(elements, compareElement)
	kept := elements[:0] // there can be thousands
	for _, e := range elements {
		// A container precedes its content.
		if n := len(kept); n == 0 || !ipam.Contains(kept[n-1].Prefix, e.Prefix) {
			kept = append(kept, e)
		}
	}
	return Set{Name: name, Comment: about, Key: KeyAddress, Elements: kept}
}

func elements(about string, prefixes []netip.Prefix) []Element {
	list := make([]Element, len(prefixes))
	for i, p := range prefixes {
		list[i] = Element{Prefix: p, Comment: about}
	}
	return list
}

// hosts returns an element for each address, and then the others.
func hosts(addresses []netip.Addr, others ...Element) []Element {
	list := make([]Element, len(addresses), len(addresses)+len(others))
	for i, a := range addresses {
		list[i] = Element{Prefix: netip.PrefixFrom(a, 32)}
	}
	return append(list, others...)
}
