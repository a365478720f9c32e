package agent

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/gateway/probe"
	"github.com/liqo-tui/liqo-tui/render"
)

func TestReportNamesTheFirstThingThatIsMissing(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	ready := setup{hasKey: true, endpoint: "UDP 192.0.2.7 port 31840", port: 51840, mtu: 1340}
	with := func(change func(*setup)) setup {
		s := ready
		change(&s)
		return s
	}
	handshake := linux.PeerStats{Handshake: now.Add(-time.Minute), Received: 10, Sent: 20}
	for name, c := range map[string]struct {
		role   gateway.Role
		setup  setup
		pings  probe.Value
		stats  linux.PeerStats
		value  networkingv1beta1.ConnectionStatusValue
		reason render.Reason
		says   string
	}{
		"a ping is answered":                       {gateway.Client, ready, probe.Connected, handshake, networkingv1beta1.Connected, render.ReasonPinged, "answers pings"},
		"no Configuration yet":                     {gateway.Client, with(func(s *setup) { s.problem = errNoConfiguration }), probe.Connecting, linux.PeerStats{}, networkingv1beta1.Connecting, render.ReasonMisconfigured, "no Configuration says"},
		"the kernel refuses":                       {gateway.Server, with(func(s *setup) { s.problem = errors.New("nftables: operation not permitted") }), probe.Connecting, linux.PeerStats{}, networkingv1beta1.Connecting, render.ReasonMisconfigured, "operation not permitted"},
		"the server's name has no address":         {gateway.Client, with(func(s *setup) { s.resolve = errors.New("lookup gw.example.com: no such host") }), probe.Connecting, linux.PeerStats{}, networkingv1beta1.Connecting, render.ReasonUnresolvable, "gw.example.com"},
		"nothing to dial":                          {gateway.Client, with(func(s *setup) { s.endpoint = "" }), probe.Connecting, linux.PeerStats{}, networkingv1beta1.Connecting, render.ReasonNoEndpoint, "no address"},
		"the peer's key is unknown":                {gateway.Server, with(func(s *setup) { s.hasKey = false }), probe.Connecting, linux.PeerStats{}, networkingv1beta1.Connecting, render.ReasonNoKey, "public key"},
		"nobody has dialled the server":            {gateway.Server, ready, probe.Connecting, linux.PeerStats{}, networkingv1beta1.Connecting, render.ReasonNoHandshake, "UDP port 51840"},
		"the server does not answer":               {gateway.Client, ready, probe.Connecting, linux.PeerStats{Sent: 148}, networkingv1beta1.Connecting, render.ReasonNoHandshake, "UDP 192.0.2.7 port 31840"},
		"a handshake, but no ping":                 {gateway.Client, ready, probe.Connecting, handshake, networkingv1beta1.Connecting, render.ReasonNoPing, "keys match"},
		"pings are no longer answered":             {gateway.Client, ready, probe.Error, handshake, networkingv1beta1.ConnectionError, render.ReasonPeerSilent, "stopped answering"},
		"what is broken here outranks the silence": {gateway.Client, with(func(s *setup) { s.problem = errors.New("no such device") }), probe.Error, handshake, networkingv1beta1.ConnectionError, render.ReasonMisconfigured, "no such device"},
		// The address is not found now, but the tunnel to the one found before works.
		"an unresolvable name of a working tunnel": {gateway.Client, with(func(s *setup) { s.resolve = errors.New("no such host") }), probe.Connected, handshake, networkingv1beta1.Connected, render.ReasonPinged, "answers pings"},
	} {
		t.Run(name, func(t *testing.T) {
			value, r := judge(now, c.role, c.setup, probe.Status{Value: c.pings}, c.stats)
			if value != c.value || r.Reason != c.reason || !strings.Contains(r.Message, c.says) {
				t.Errorf("got %s, %s: %q; want %s, %s, with %q", value, r.Reason, r.Message, c.value, c.reason, c.says)
			}
		})
	}
}

func TestReportCarriesWhatWasMeasured(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	_, r := judge(now, gateway.Client, setup{mtu: 1340}, probe.Status{Value: probe.Connected, Latency: 1500 * time.Microsecond, Loss: 0.25},
		linux.PeerStats{
			Handshake: now.Add(-time.Minute), Received: 10, Sent: 20,
			Endpoint: netip.MustParseAddrPort("192.0.2.7:31840"), Implementation: gateway.Userspace,
		})
	if r.LatencyMicros != 1500 || r.Loss != 0.25 || r.ReceivedBytes != 10 || r.SentBytes != 20 || r.MTU != 1340 ||
		r.Endpoint != "192.0.2.7:31840" || r.Implementation != "userspace" || r.Handshake == nil || !r.Handshake.Equal(now.Add(-time.Minute)) {
		t.Errorf("got %+v", r)
	}
	if r.Stale(now.Add(29*time.Second)) || !r.Stale(now.Add(31*time.Second)) {
		t.Errorf("a report every %d s: want it stale after three of them, not before", r.Interval)
	}
}

func TestEndpointIsResolved(t *testing.T) {
	got, err := resolve(t.Context(), "192.0.2.7", 31840)
	if want := netip.MustParseAddrPort("192.0.2.7:31840"); err != nil || got != want {
		t.Errorf("an address: got %v, %v; want %v", got, err, want)
	}
	if got, err = resolve(t.Context(), "localhost", 1); err != nil || got.Addr() != netip.MustParseAddr("127.0.0.1") {
		t.Errorf("a name: got %v, %v; want 127.0.0.1", got, err)
	}
}
