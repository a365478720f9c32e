package view

import (
	"strings"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/verify"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

const (
	up       = networkingv1beta1.Connected
	dialling = networkingv1beta1.Connecting
	broken   = networkingv1beta1.ConnectionError
)

func reported(peer wire.ClusterID, role flows.Role, value networkingv1beta1.ConnectionStatusValue, at time.Time) flows.Reading {
	return flows.Reading{
		Peer: peer, Namespace: wire.TenantNamespaceName(peer), Role: role, CIDRs: true, Created: flowtest.Epoch().Add(-48 * time.Hour),
		Exists: true, Value: value, At: at, Interval: 10 * time.Second, Latency: 1200 * time.Microsecond, Reported: true, Message: "as the gateway says",
	}
}

func TestTheStateOfAPeeringComesFromBothSides(t *testing.T) {
	now := flowtest.Epoch()
	const server, client = flows.RoleServer, flows.RoleClient
	a := func(value networkingv1beta1.ConnectionStatusValue, at time.Time) End {
		return End{ID: "rome", Chosen: true, Reading: reported("milan", client, value, at)}
	}
	b := func(value networkingv1beta1.ConnectionStatusValue, at time.Time) End {
		return End{ID: "milan", Chosen: true, Reading: reported("rome", server, value, at)}
	}
	old := now.Add(-time.Minute)
	quiet := b(up, now)
	quiet.Silent, quiet.Problem = now.Add(-3*time.Minute), "i/o timeout"
	lossy := b(up, now)
	lossy.Reading.Loss = 0.2
	lossyHere := a(up, now)
	lossyHere.Reading.Loss = 0.1
	ours := a(up, now)
	ours.Reading.PodTraffic = now.Add(-12 * time.Second)
	broke := a(broken, now)
	broke.Reading.PodTraffic = now.Add(-12 * time.Second)
	measured := func(ends verify.Ends, loss float64, at time.Time) *verify.Result {
		return &verify.Result{At: at, Between: ends, Directions: [2]verify.Direction{{Sent: 10, Received: 10}, {Sent: 10, Loss: loss}}}
	}
	configured := End{ID: "milan", Chosen: true, Reading: flows.Reading{Peer: "rome", CIDRs: true}}
	for name, test := range map[string]struct {
		a, b   End
		want   PairState
		why    string
		tested *verify.Result
	}{
		"both say connected":                {a: a(up, now), b: b(up, now), want: Untested, why: "each gateway gets answers to its pings; no pod traffic seen yet"},
		"both lose pings, B more":           {a: lossyHere, b: lossy, want: Degraded, why: "milan: connected, but 20% of the pings are lost"},
		"and pods' packets have passed":     {a: ours, b: b(up, now), want: Connected, why: "pod traffic seen 12s ago"},
		"a test passed":                     {a: a(up, now), b: b(up, now), want: Connected, why: "tested from pod to pod 1m0s ago", tested: measured(verify.Pods, 0, old)},
		"the gateways alone were tested":    {a: a(up, now), b: b(up, now), want: Untested, why: "no pod traffic", tested: measured(verify.Gateways, 0, old)},
		"a test failed":                     {a: ours, b: b(up, now), want: Degraded, why: "the last test from pod to pod, 1m0s ago, failed", tested: measured(verify.Pods, 1, old)},
		"packets passed before it broke":    {a: broke, b: b(up, now), want: Down, why: "rome:", tested: measured(verify.Pods, 0, old)},
		"what a side that is gone has seen": {a: End{ID: "rome"}, b: b(up, now), want: Untested, why: "nothing is known from rome itself; no pod traffic seen yet"},
		"one pings in vain":                 {a: a(up, now), b: b(broken, now), want: Down, why: "milan: as the gateway says"},
		"one is still connecting":           {a: a(dialling, now), b: b(up, now), want: Connecting, why: "rome:"},
		"one loses pings":                   {a: a(up, now), b: lossy, want: Degraded, why: "milan: connected, but 20%"},
		"one has gone quiet":                {a: a(up, now), b: b(up, old), want: Stale, why: "milan: it said Connected 1m0s ago"},
		"one's API server does not answer":  {a: a(up, now), b: quiet, want: Unreachable, why: "milan: i/o timeout; rome says tunnel up"},
		"a tunnel that is down outranks it": {a: a(broken, now), b: quiet, want: Down, why: "rome:"},
		"the other is old news then":        {a: a(up, old), b: quiet, want: Unreachable, why: "milan: i/o timeout"},
		"one has no gateway":                {a: a(broken, now), b: configured, want: Down, why: "rome:"},
		"one has no gateway, one connects":  {a: a(dialling, now), b: configured, want: OneSided, why: "rome has a gateway for it, milan has none"},
		"one has nothing of it":             {a: a(dialling, now), b: End{ID: "milan", Chosen: true}, want: OneSided, why: "milan has none"},
		"none has a gateway": {
			a: End{ID: "rome", Chosen: true, Reading: flows.Reading{Peer: "milan"}}, b: configured, want: NotConnected, why: "there is no gateway",
		},
		"one is not among the contexts": {a: a(up, now), b: End{ID: "milan"}, want: Untested, why: "rome gets answers to its pings; nothing is known from milan itself"},
	} {
		t.Run(name, func(t *testing.T) {
			for order, ends := range map[string][2]End{"": {test.a, test.b}, ", the other way round": {test.b, test.a}} {
				got := Together(ends, test.tested, now)
				if got.State != test.want || !strings.Contains(got.Why, test.why) {
					t.Errorf("got %s: %q; want %s, with %q%s", got.State, got.Why, test.want, test.why, order)
				}
			}
		})
	}
}
