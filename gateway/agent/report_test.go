package agent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/gateway/ping"
	"github.com/liqo-tui/liqo-tui/gateway/tunnel"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

func TestReportNamesTheFirstThingThatIsMissing(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	ready := setup{hasKey: true, endpoint: "UDP 192.0.2.7 port 31840", port: 51840}
	with := func(change func(*setup)) setup {
		s := ready
		change(&s)
		return s
	}
	listens := with(func(s *setup) { s.endpoint = "" })
	handshake := linux.PeerStats{Handshake: now.Add(-time.Minute), Received: 10, Sent: 20}
	dialled := handshake
	dialled.Endpoint = netip.MustParseAddrPort("192.0.2.7:31840")
	for name, c := range map[string]struct {
		role      gateway.Role
		setup     setup
		pings     ping.Value
		stats     linux.PeerStats
		value     networkingv1beta1.ConnectionStatusValue
		reason    wire.Reason
		says      string
		strangers uint64
	}{
		"a ping is answered":                                 {gateway.Client, ready, ping.Connected, handshake, networkingv1beta1.Connected, wire.ReasonPinged, "answers pings", 0},
		"no Configuration yet":                               {gateway.Client, with(func(s *setup) { s.problem = errNoConfiguration }), ping.Connecting, linux.PeerStats{}, networkingv1beta1.Connecting, wire.ReasonMisconfigured, "waiting for a Configuration", 0},
		"the kernel refuses":                                 {gateway.Server, with(func(s *setup) { s.problem = errors.New("nftables: operation not permitted") }), ping.Connecting, linux.PeerStats{}, networkingv1beta1.Connecting, wire.ReasonMisconfigured, "operation not permitted", 0},
		"the server's name has no address":                   {gateway.Client, with(func(s *setup) { s.resolve = errors.New("lookup gw.example.com: no such host") }), ping.Connecting, linux.PeerStats{}, networkingv1beta1.Connecting, wire.ReasonUnresolvable, "gw.example.com", 0},
		"nothing to dial":                                    {gateway.Client, with(func(s *setup) { s.endpoint = "" }), ping.Connecting, linux.PeerStats{}, networkingv1beta1.Connecting, wire.ReasonNoEndpoint, "no address", 0},
		"the peer's key is unknown":                          {gateway.Server, with(func(s *setup) { s.hasKey = false }), ping.Connecting, linux.PeerStats{}, networkingv1beta1.Connecting, wire.ReasonNoKey, "public key", 0},
		"nobody has dialled the server":                      {gateway.Server, listens, ping.Connecting, linux.PeerStats{}, networkingv1beta1.Connecting, wire.ReasonNoHandshake, "dialled UDP port 51840", 0},
		"a relay does not answer the server":                 {gateway.Server, ready, ping.Connecting, linux.PeerStats{Sent: 148}, networkingv1beta1.Connecting, wire.ReasonNoHandshake, "no answer by the relay at UDP 192.0.2.7 port 31840", 0},
		"the server does not answer":                         {gateway.Client, ready, ping.Connecting, linux.PeerStats{Sent: 148}, networkingv1beta1.Connecting, wire.ReasonNoHandshake, "UDP 192.0.2.7 port 31840", 0},
		"a client with another key dials":                    {gateway.Server, ready, ping.Connecting, linux.PeerStats{}, networkingv1beta1.Connecting, wire.ReasonKeyMismatch, "none was encrypted with a known key", 9},
		"somebody scans ports":                               {gateway.Server, listens, ping.Connecting, linux.PeerStats{}, networkingv1beta1.Connecting, wire.ReasonNoHandshake, "dialled UDP port 51840", 1},
		"two keys for one peer":                              {gateway.Server, with(func(s *setup) { s.problem = fmt.Errorf("%w: PublicKeys a and b", errAmbiguous) }), ping.Connecting, linux.PeerStats{}, networkingv1beta1.Connecting, wire.ReasonMisconfigured, "PublicKeys a and b", 0},
		"a change that can't be made to a tunnel that works": {gateway.Server, with(func(s *setup) { s.problem = errors.New("CIDRs overlap") }), ping.Connected, handshake, networkingv1beta1.Connected, wire.ReasonPinged, "not in force: CIDRs overlap", 0},
		"a handshake, but no ping":                           {gateway.Client, ready, ping.Connecting, handshake, networkingv1beta1.Connecting, wire.ReasonNoPing, "keys match", 0},
		"pings are no longer answered":                       {gateway.Client, ready, ping.Error, handshake, networkingv1beta1.ConnectionError, wire.ReasonPeerSilent, "stopped answering", 0},
		"what is broken here outranks the silence":           {gateway.Client, with(func(s *setup) { s.problem = errors.New("no such device") }), ping.Error, handshake, networkingv1beta1.ConnectionError, wire.ReasonMisconfigured, "no such device", 0},
		// The name has no address now, but the tunnel to the earlier address works.
		"an unresolvable name of a working tunnel": {gateway.Client, with(func(s *setup) { s.resolve, s.outdated = errors.New("no such host"), true }), ping.Connected, dialled, networkingv1beta1.Connected, wire.ReasonPinged, "answers pings through the tunnel; the server's address is the last known one; no such host", 0},
		"nodes can't be read":                      {gateway.Client, with(func(s *setup) { s.nodes = errNodesUnknown }), ping.Connected, dialled, networkingv1beta1.Connected, wire.ReasonPinged, "answers pings through the tunnel; the nodes' InternalNodes can't be read", 0},
		"nodes that are wrong": {gateway.Client, with(func(s *setup) {
			for _, name := range []string{"a", "b", "c", "d", "e"} {
				s.unfit = append(s.unfit, gateway.UnfitNode{Name: name, Err: errors.Join(errors.New("one"), errors.New("two"))})
			}
		}), ping.Connected, dialled, networkingv1beta1.Connected, wire.ReasonPinged, "answers pings through the tunnel; the report of node a can't be used completely: one, two; the report of node b can't be used completely: one, two; the report of node c can't be used completely: one, two; and 2 more such nodes", 0},
		"one of two names has no address": {gateway.Client, with(func(s *setup) { s.resolve = errors.New("no such host") }), ping.Connected, dialled, networkingv1beta1.Connected, wire.ReasonPinged, "answers pings through the tunnel; no such host", 0},
	} {
		t.Run(name, func(t *testing.T) {
			value, r := reportOf(now, c.role, c.setup, tunnel.Status{Pings: ping.Status{Value: c.pings}, Peer: c.stats, Strangers: c.strangers})
			if value != c.value || r.Reason != c.reason || !strings.Contains(r.Message, c.says) {
				t.Errorf("got %s, %s: %q; want %s, %s, with %q", value, r.Reason, r.Message, c.value, c.reason, c.says)
			}
		})
	}
}

// Bytes from the time when the path worked do not prove that it works now.
func TestReportTellsAPathThatIsCutFromOneThatWorksOneWay(t *testing.T) {
	cut := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	const nothing = ", and nothing comes in from it"
	for _, c := range []struct {
		name       string
		now, heard time.Duration // times since the last answer
		says       string
	}{
		{"cut", 11 * time.Second, 0, nothing},
		{"cut between two pings, with traffic", 11 * time.Second, 2100 * time.Millisecond, nothing},
		{"it works towards us only", 11 * time.Second, 10 * time.Second, "although packets of it come in"},
		{"and then not even that", time.Hour, 10 * time.Second, nothing},
		{"now it does again", time.Hour, time.Hour - 25*time.Second, "although packets of it come in"},
		{"not heard by this process", time.Hour, -time.Hour, nothing},
	} {
		status := tunnel.Status{
			Pings: ping.Status{Value: ping.Error, LastReply: cut}, Heard: cut.Add(c.heard),
			Peer: linux.PeerStats{Handshake: cut.Add(-time.Minute), Received: 5000},
		}
		_, r := reportOf(cut.Add(c.now), gateway.Server, setup{hasKey: true, port: 51840}, status)
		if r.Reason != wire.ReasonPeerSilent || !strings.HasSuffix(r.Message, c.says) {
			t.Errorf("%s: got %s: %q, want it to end with %q", c.name, r.Reason, r.Message, c.says)
		}
	}
	mute := tunnel.Status{
		Pings: ping.Status{Value: ping.Error, LastReply: cut}, Heard: cut.Add(59 * time.Second),
		Peer: linux.PeerStats{Handshake: cut.Add(30 * time.Second), Received: 5000},
	}
	if _, r := reportOf(cut.Add(time.Minute), gateway.Server, setup{hasKey: true}, mute); r.Reason != wire.ReasonPeerSilent || !strings.Contains(r.Message, "WireGuard works") {
		t.Errorf("a handshake since the last answer: got %s: %q", r.Reason, r.Message)
	}
	s := setup{hasKey: true, endpoint: "UDP 192.0.2.7 port 31840"}
	if _, r := reportOf(cut.Add(time.Minute), gateway.Client, s, tunnel.Status{Pings: ping.Status{Value: ping.Error, LastReply: cut}}); !strings.HasSuffix(r.Message, "nothing comes back from UDP 192.0.2.7 port 31840") {
		t.Errorf("a client: got %q", r.Message)
	}
}

// The report is new if a peer's translated ranges change, because a change of the range waits for it.
func TestReportNamesTheRangesThatAreInForce(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	both := []netip.Prefix{netip.MustParsePrefix("10.60.0.0/16"), netip.MustParsePrefix("240.5.0.0/16")}
	connected := tunnel.Status{Pings: ping.Status{Value: ping.Connected, LastReply: now}}
	value, before := reportOf(now, gateway.Client, setup{}, connected)
	h := reporting{last: before, value: value, written: now}
	if value, r := reportOf(now, gateway.Client, setup{also: both}, connected); !slices.Equal(r.Also, both) || !h.news(now, value, r) {
		t.Errorf("got %v, want %v, and at once", r.Also, both)
	}
	if _, r := reportOf(now, gateway.Client, setup{also: both, problem: errors.New("refused")}, connected); r.Also != nil {
		t.Errorf("got %v, which is not in force", r.Also)
	}
	broken := connected
	broken.Problem = errors.New("the table can't be changed")
	if _, r := reportOf(now, gateway.Client, setup{also: both}, broken); r.Also != nil {
		t.Errorf("got %v, which the kernel does not have", r.Also)
	}
}

// A gateway reports what its kernel closes. The report is new if this changes, because connect waits for it.
func TestReportNamesWhatIsAllowedInForce(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	connected := tunnel.Status{Pings: ping.Status{Value: ping.Connected, LastReply: now}}
	value, before := reportOf(now, gateway.Client, setup{allow: "all"}, connected)
	h := reporting{last: before, value: value, written: now}
	if value, r := reportOf(now, gateway.Client, setup{allow: "none"}, connected); r.Allow != "none" || !h.news(now, value, r) {
		t.Errorf("got %q, want none, and at once", r.Allow)
	}
	broken := connected
	broken.Problem = errors.New("the table can't be changed")
	for what, r := range map[string]wire.Report{
		"refused":           second(reportOf(now, gateway.Client, setup{allow: "none", problem: errors.New("refused")}, connected)),
		"not in the kernel": second(reportOf(now, gateway.Client, setup{allow: "none"}, broken)),
		"not read yet":      second(reportOf(now, gateway.Client, setup{}, connected)),
	} {
		if r.Allow != "" {
			t.Errorf("%s: got %q, which is not in force", what, r.Allow)
		}
	}
	at := netip.MustParseAddr("10.244.1.9")
	lately := []gateway.Endpoint{{Addr: at, Protocol: gateway.UDP, Port: 53}, {Addr: at, Protocol: 1, Port: 7}, {Addr: at, Protocol: 1, Port: 8}, {Addr: at, Protocol: gateway.TCP, Port: 80}}
	if got, want := closedTo(lately, nil), []string{"protocol 1 10.244.1.9", "tcp 10.244.1.9:80", "udp 10.244.1.9:53"}; !slices.Equal(got, want) {
		t.Errorf("closed to %q, want %q", got, want)
	}
}

func second[A, B any](_ A, b B) B { return b }

func TestReportCarriesWhatWasMeasured(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	_, r := reportOf(now, gateway.Client, setup{generation: 7, since: now.Add(-time.Second)}, tunnel.Status{
		LinkMTU: 1340, PathMTU: 1328, Fights: []string{"missing: a rule (5 times in the last minute)"},
		Pings: ping.Status{Value: ping.Connected, Latency: 1500 * time.Microsecond, Loss: 0.25, LastReply: now},
		Peer: linux.PeerStats{
			Handshake: now.Add(-time.Minute), Received: 10, Sent: 20,
			Endpoint: netip.MustParseAddrPort("192.0.2.7:31840"), Implementation: gateway.Userspace,
		},
	})
	if r.LatencyMicros != 1500 || r.Loss != 0.25 || r.ReceivedBytes != 10 || r.SentBytes != 20 || r.MTU != 1340 || r.PathMTU != 1328 || r.Generation != 7 ||
		r.Endpoint != "192.0.2.7:31840" || r.Implementation != "userspace" || r.Handshake == nil || !r.Handshake.Equal(now.Add(-time.Minute)) {
		t.Errorf("got %+v", r)
	}
	for _, says := range []string{"up to 1328 bytes", "keeps changing", "missing: a rule"} {
		if !strings.Contains(r.Message, says) {
			t.Errorf("got message %q, want it to say %q", r.Message, says)
		}
	}
	if r.Stale(now.Add(29*time.Second)) || !r.Stale(now.Add(31*time.Second)) {
		t.Errorf("a report every %d s: want it stale after three of them, not before", r.Interval)
	}
}

// The report confirms a generation when a ping was answered after the generation came into force.
func TestReportConfirmsAGenerationWithAPing(t *testing.T) {
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	h := reporting{}
	report := func(after time.Duration, generation int64, inForce, reply time.Duration) wire.Report {
		s := setup{generation: generation, since: start.Add(inForce)}
		pings := ping.Status{Value: ping.Connected, LastReply: start.Add(reply)}
		value, r := h.complete(reportOf(start.Add(after), gateway.Client, s, tunnel.Status{Pings: pings}))
		h = reporting{last: r, value: value, written: r.At}
		return r
	}
	for _, c := range []struct {
		name                  string
		after, inForce, reply time.Duration
		generation, want      int64
	}{
		{"answered", 2 * time.Second, 0, time.Second, 1, 1},
		{"changed, not answered yet", 4 * time.Second, 3 * time.Second, 2 * time.Second, 2, 1},
		{"answered again", 6 * time.Second, 3 * time.Second, 5 * time.Second, 2, 2},
	} {
		r := report(c.after, c.generation, c.inForce, c.reply)
		if r.Generation != c.want {
			t.Errorf("%s: got generation %d, want %d", c.name, r.Generation, c.want)
		}
		if r.Since == nil || !r.Since.Equal(start.Add(2*time.Second)) {
			t.Errorf("%s: connected since %v, want the first report's time", c.name, r.Since)
		}
	}
}

// An answer may belong to the earlier setup.
func TestReportConfirmsNoGenerationThatIsNotInForce(t *testing.T) {
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	s := setup{generation: 1}
	s.follow(setup{}, start)
	for _, c := range []struct {
		name    string
		setup   setup
		problem error // of the kernel
		want    int64
	}{
		{"set up", setup{generation: 1}, nil, 1},
		{"a name that was mistyped", setup{generation: 2, outdated: true, resolve: errors.New("no such host")}, nil, 0},
		{"what it was before answers", setup{generation: 2, outdated: true, resolve: errors.New("no such host")}, nil, 0},
		{"the name was added to the DNS, and nothing answered since", setup{generation: 2}, nil, 0},
		{"answered", setup{generation: 2}, nil, 2},
		{"refused", setup{generation: 3, problem: errors.New("CIDRs overlap")}, nil, 0},
		{"still refused", setup{generation: 3, problem: errors.New("CIDRs overlap")}, nil, 0},
		{"no longer refused, and nothing answered since", setup{generation: 3}, nil, 0},
		{"answered that, too", setup{generation: 3}, nil, 3},
		{"the kernel does not take it", setup{generation: 3}, errors.New("nftables: no memory"), 0},
	} {
		now := start.Add(time.Second)
		c.setup.follow(s, now)
		s = c.setup
		// The earlier ping was answered while the last setup was in force.
		status := tunnel.Status{Pings: ping.Status{Value: ping.Connected, LastReply: now.Add(-time.Millisecond)}, Problem: c.problem}
		if _, r := reportOf(now, gateway.Client, s, status); r.Generation != c.want {
			t.Errorf("%s: got generation %d, want %d", c.name, r.Generation, c.want)
		}
		start = now
	}
}

func TestConnectionHasALatencyWhileItIsConnected(t *testing.T) {
	r := wire.Report{At: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), LatencyMicros: 1500}
	for value, want := range map[networkingv1beta1.ConnectionStatusValue]string{
		networkingv1beta1.Connected: "1ms", networkingv1beta1.Connecting: "N/A", networkingv1beta1.ConnectionError: "N/A",
	} {
		if got := connectionStatus(value, r); got.Value != value || got.Latency.Value != want || !got.Latency.Timestamp.Time.Equal(r.At) {
			t.Errorf("%s: got %+v, want latency %s", value, got, want)
		}
	}
}

// names answers like a DNS server.
type names map[string][]string

func (n names) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	var ips []netip.Addr
	for _, a := range n[host] {
		ips = append(ips, netip.MustParseAddr(a))
	}
	if len(ips) == 0 {
		return nil, fmt.Errorf("lookup %s: no such host", host)
	}
	return ips, nil
}

func TestEndpointIsResolved(t *testing.T) {
	dns := names{"one.example": {"192.0.2.1"}, "two.example": {"192.0.2.9", "192.0.2.3"}}
	for _, c := range []struct {
		name  string
		hosts []string
		want  string
		named bool
		says  string
	}{
		{"an address", []string{"192.0.2.7"}, "[192.0.2.7:31840]", false, ""},
		{"a name", []string{"one.example"}, "[192.0.2.1:31840]", true, ""},
		{"a name of two addresses, always in the same order", []string{"two.example"}, "[192.0.2.3:31840 192.0.2.9:31840]", true, ""},
		{"several", []string{"two.example", "192.0.2.3", "one.example"}, "[192.0.2.3:31840 192.0.2.9:31840 192.0.2.1:31840]", true, ""},
		{"a name of nothing", []string{"none.example"}, "[]", true, "none.example"},
		{"a name of nothing beside an address", []string{"none.example", "192.0.2.7"}, "[192.0.2.7:31840]", true, "none.example"},
		{"IPv6", []string{"2001:db8::1"}, "[]", false, "IPv6 is not supported yet"},
	} {
		found, named, err := resolve(t.Context(), dns, c.hosts, 31840)
		if fmt.Sprint(found) != c.want || named != c.named {
			t.Errorf("%s: got %v, named %v; want %s, %v", c.name, found, named, c.want, c.named)
		}
		if (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got error %v, want %q", c.name, err, c.says)
		}
	}
}

func TestPodTrafficIsWhatPassesBothWaysFromNowOn(t *testing.T) {
	start := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	var p podTraffic
	for i, look := range []struct {
		sent, received uint64
		passed         int // the look that last noted packets in both directions; -1: none
	}{
		{700, 700, -1}, // these packets passed before this process began, at an unknown time
		{701, 700, -1}, // the pod sends a question
		{709, 700, -1},
		{709, 701, 3}, // the answer passes
		{709, 702, 3},
		{710, 702, 5},
		{1, 1, 5}, // the counters begin again
		{2, 2, 7},
	} {
		p = p.next(start.Add(time.Duration(i)*reportInterval), look.sent, look.received)
		switch {
		case look.passed < 0 && p.passed != nil, look.passed >= 0 && (p.passed == nil || !p.passed.Equal(start.Add(time.Duration(look.passed)*reportInterval))):
			t.Errorf("look %d: got %v, want look %d", i, p.passed, look.passed)
		}
	}
}

func TestNothingIsRefusedOnlyWhereItIsCounted(t *testing.T) {
	if got := refusedOf(map[string]linux.Counter{}); got != nil {
		t.Errorf("without rules: got %d", *got)
	}
	got := refusedOf(map[string]linux.Counter{gateway.DroppedNodes: {Packets: 3}, gateway.DroppedInput: {Packets: 4}, gateway.DroppedSource: {Packets: 9}})
	if got == nil || *got != 7 {
		t.Errorf("got %v, want 7", got)
	}
}

// A client that gets no answer dials from another port several times a second.
func TestReportOfAnEndpointWaitsALittle(t *testing.T) {
	written := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	h := reporting{value: networkingv1beta1.Connecting, written: written, last: wire.Report{Endpoint: "192.0.2.7:1000"}}
	moved := wire.Report{Endpoint: "192.0.2.7:1001"}
	for after, want := range map[time.Duration]bool{500 * time.Millisecond: false, lookInterval: true} {
		if got := h.news(written.Add(after), networkingv1beta1.Connecting, moved); got != want {
			t.Errorf("another endpoint after %s: got %t, want %t", after, got, want)
		}
	}
	if !h.news(written.Add(500*time.Millisecond), networkingv1beta1.Connected, moved) {
		t.Error("another state waits")
	}
}
