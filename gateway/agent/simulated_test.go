package agent

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/simulated"
	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/gateway/ping"
	"github.com/liqo-tui/liqo-tui/gateway/tunnel"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// The simulated gateways, which the demonstration shows and most tests use, write the same report about a
// tunnel as our gateways: value, reason, text and the other fields.
func TestSimulatedGatewaysSayWhatOursSay(t *testing.T) {
	both := []gateway.Role{gateway.Client, gateway.Server}
	closed := func(p *flowtest.Pair) { p.Join("rome", "milan", func(l *simulated.Link) { l.Closed = true }) }
	for name, c := range map[string]struct {
		past      func(*testing.T, *flowtest.Pair)
		pings     ping.Value
		hasKey    bool
		handshake []gateway.Role // the roles whose WireGuard still has a handshake
	}{
		"connected": {flowtest.Connected, ping.Connected, true, both},
		"lossy": {flowtest.But(flowtest.Connected, func(p *flowtest.Pair) {
			p.Join("rome", "milan", func(l *simulated.Link) { l.RoundTrip, l.Jitter, l.Loss = 90*time.Millisecond, 40*time.Millisecond, 0.2 })
			pass(p, time.Minute)
		}), ping.Connected, true, both},
		"cut": {flowtest.But(flowtest.Connected, func(p *flowtest.Pair) { closed(p); pass(p, 15*time.Second) }), ping.Error, true, []gateway.Role{gateway.Server}}, // a redial of the client has dropped its handshake
		"closed from the beginning": {flowtest.But(flowtest.Nothing, func(p *flowtest.Pair) {
			closed(p)
			flowtest.PartWay(flowtest.ManyRounds, flowtest.NodePort())(t, p)
		}), ping.Connecting, true, nil},
		"nobody has published a key": {flowtest.But(flowtest.Nothing, func(p *flowtest.Pair) {
			for _, side := range []*flowtest.Cluster{p.A, p.B} {
				side.Behave(func(b *flowtest.Behaviour) { b.NoKeys = true })
			}
			flowtest.PartWay(flowtest.ManyRounds, flowtest.NodePort())(t, p)
		}), ping.Connecting, false, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := flowtest.NewPair()
			c.past(t, p)
			for _, side := range []flows.Side{flows.A, flows.B} {
				peer := p.Side(side).Facts().End(p.Side(side.Other()).Facts().ID)
				if peer.Connection == nil {
					t.Fatalf("%s has no Connection", side)
				}
				said, ok, err := wire.ParseReport(peer.Connection.Annotations)
				if !ok || err != nil {
					t.Fatalf("%s reports nothing: %v", side, err)
				}
				role, s := situation(t, peer, c.hasKey, said.At)
				status := tunnel.Status{
					LinkMTU: said.MTU, PathMTU: said.PathMTU,
					Pings: ping.Status{Value: c.pings, Latency: time.Duration(said.LatencyMicros) * time.Microsecond, Loss: said.Loss},
					Peer:  linux.PeerStats{Received: said.ReceivedBytes, Sent: said.SentBytes, Implementation: gateway.Implementation(said.Implementation)},
				}
				status.MovedOver = time.Duration(said.Lately.Over) * time.Second
				status.Moved = ping.Traffic{Sent: said.Lately.Sent, Received: said.Lately.Received}
				if c.pings != ping.Connecting {
					status.Pings.LastReply = said.At.Add(-20 * time.Second)
				}
				if c.pings == ping.Connected {
					status.Pings.LastReply = said.At
				}
				if slices.Contains(c.handshake, role) {
					status.Peer.Handshake = *said.Handshake
				}
				if said.Endpoint != "" {
					status.Peer.Endpoint = netip.MustParseAddrPort(said.Endpoint)
				}
				value, want := reportOf(said.At, role, s, status)
				want.Since = said.Since     // depends on earlier reports
				want.Refused = said.Refused // comes from the kernel's counters
				if want.Generation == 0 {
					want.Generation = said.Generation
				}
				if diff := cmp.Diff(reportFields(t, want), reportFields(t, said)); diff != "" {
					t.Errorf("%s (-ours +simulated):\n%s", side, diff)
				}
				wanted := connectionStatus(value, want)
				wanted.Latency.Timestamp = peer.Connection.Status.Latency.Timestamp
				if diff := cmp.Diff(wanted, peer.Connection.Status); diff != "" {
					t.Errorf("%s: status (-ours +simulated):\n%s", side, diff)
				}
			}
		})
	}
}

// reportFields returns the fields of a report.
func reportFields(t *testing.T, r wire.Report) (all map[string]any) {
	t.Helper()
	text, err := json.Marshal(r)
	if err == nil {
		err = json.Unmarshal(text, &all)
	}
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// pass lets time pass.
func pass(p *flowtest.Pair, d time.Duration) {
	for range int(d / flowtest.TickLength) {
		p.Tick()
	}
}

// situation returns the role and the setup that our gateway would have read.
func situation(t *testing.T, peer flows.End, hasKey bool, now time.Time) (gateway.Role, setup) {
	t.Helper()
	s := setup{hasKey: hasKey, allow: "all", since: now.Add(-time.Hour)}
	if peer.Server != nil {
		s.port, s.generation = uint16(peer.Server.Spec.Endpoint.Port), peer.Server.Generation
		return gateway.Server, s
	}
	if peer.Client == nil {
		t.Fatal("there is no gateway")
	}
	s.generation = peer.Client.Generation
	if e := peer.Client.Spec.Endpoint; len(e.Addresses) > 0 {
		s.endpoint = fmt.Sprintf("UDP %s port %d", strings.Join(e.Addresses, ", "), e.Port)
	}
	return gateway.Client, s
}
