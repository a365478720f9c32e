package view

import (
	"strings"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/render"
)

const (
	up       = networkingv1beta1.Connected
	dialling = networkingv1beta1.Connecting
	broken   = networkingv1beta1.ConnectionError
)

func reported(peer render.ClusterID, role flows.Role, value networkingv1beta1.ConnectionStatusValue, at time.Time) flows.Reading {
	return flows.Reading{
		Peer: peer, Namespace: render.TenantNamespaceName(peer), Role: role, CIDRs: true, Created: flowtest.Epoch().Add(-48 * time.Hour),
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
	quiet := b(up, now)
	quiet.Silent, quiet.Problem = now.Add(-3*time.Minute), "i/o timeout"
	lossy := b(up, now)
	lossy.Reading.Loss = 0.2
	configured := End{ID: "milan", Chosen: true, Reading: flows.Reading{Peer: "rome", CIDRs: true}}
	old := now.Add(-time.Minute)
	for name, test := range map[string]struct {
		a, b End
		want State
		why  string
	}{
		"both say connected":                {a(up, now), b(up, now), Connected, "each gateway gets answers"},
		"one pings in vain":                 {a(up, now), b(broken, now), Down, "milan: as the gateway says"},
		"one is still connecting":           {a(dialling, now), b(up, now), Connecting, "rome:"},
		"one loses pings":                   {a(up, now), lossy, Degraded, "milan: connected, but 20%"},
		"one has gone quiet":                {a(up, now), b(up, old), Stale, "milan: it said Connected 1m0s ago"},
		"one's API server does not answer":  {a(up, now), quiet, Unreachable, "milan: i/o timeout; rome says connected"},
		"a tunnel that is down outranks it": {a(broken, now), quiet, Down, "rome:"},
		"the other is old news then":        {a(up, old), quiet, Unreachable, "milan: i/o timeout"},
		"one has no gateway":                {a(broken, now), configured, Down, "rome:"},
		"one has no gateway, one connects":  {a(dialling, now), configured, OneSided, "rome has a gateway for it, milan has none"},
		"one has nothing of it":             {a(dialling, now), End{ID: "milan", Chosen: true}, OneSided, "milan has none"},
		"none has a gateway": {
			End{ID: "rome", Chosen: true, Reading: flows.Reading{Peer: "milan"}}, configured, NotConnected, "there is no gateway",
		},
		"one is not among the contexts": {a(up, now), End{ID: "milan"}, Connected, "rome gets answers to its pings; milan is not among the contexts"},
	} {
		t.Run(name, func(t *testing.T) {
			for order, ends := range map[string][2]End{"": {test.a, test.b}, ", the other way round": {test.b, test.a}} {
				got := Judge(ends, now)
				if got.State != test.want || !strings.Contains(got.Why, test.why) {
					t.Errorf("got %s: %q; want %s, with %q%s", got.State, got.Why, test.want, test.why, order)
				}
			}
		})
	}
}
