package draw

import (
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
)

func factsOf(r flows.Reading) map[string]string {
	all := map[string]string{}
	for _, f := range NewTheme(false, false).EndFacts(r, nil, "", func(time.Time) string { return "1m" }) {
		all[f.Label] = f.Value
	}
	return all
}

// Before the first answer there is no share of lost pings.
func TestNothingIsSaidOfLossBeforeAnAnswer(t *testing.T) {
	for value, want := range map[networkingv1beta1.ConnectionStatusValue]string{networkingv1beta1.Connecting: "", networkingv1beta1.Connected: "0%"} {
		if got := factsOf(flows.Reading{Exists: true, Reported: true, Value: value})["loss"]; got != want {
			t.Errorf("%s: got loss %q, want %q", value, got, want)
		}
	}
}

func TestAServerThatDialsARelayListensNowhere(t *testing.T) {
	got := factsOf(flows.Reading{Exists: true, Role: flows.RoleServer, Endpoint: "UDP relay.example.org:51841", Relayed: true})
	if _, listens := got["listens"]; listens || got["dials relay"] != "relay.example.org:51841" {
		t.Errorf("got %q", got)
	}
}

// A row keeps its place, whatever is known.
func TestAnEndHasAlwaysTheSameRows(t *testing.T) {
	theme := NewTheme(false, false)
	ago := func(time.Time) string { return "1m" }
	nothing := theme.EndFacts(flows.Reading{}, nil, "", ago)
	all := theme.EndFacts(flows.Reading{
		Exists: true, Reported: true, Role: flows.RoleClient, Value: networkingv1beta1.Connected, Endpoint: "UDP 192.0.2.7:31840", PeerAddress: "192.0.2.7:31840",
		At: time.Unix(1, 0), Handshake: time.Unix(1, 0), Created: time.Unix(1, 0), Implementation: "kernel", MTU: 1340,
	}, &networkingv1beta1.Configuration{}, "gw-milan-7c9d", ago)
	if len(all) != len(nothing) {
		t.Fatalf("got %d rows, and %d if nothing is known", len(all), len(nothing))
	}
	for i, f := range all[1:] {
		if f.Label != nothing[1+i].Label {
			t.Errorf("row %d is %q, and %q if nothing is known", 1+i, f.Label, nothing[1+i].Label)
		}
	}
}
