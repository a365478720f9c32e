package draw

import (
	"strings"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
)

// Before the first answer there is no share of lost pings.
func TestNothingIsSaidOfLossBeforeAnAnswer(t *testing.T) {
	said := func(value networkingv1beta1.ConnectionStatusValue) string {
		var t Theme
		r := flows.Reading{Exists: true, Reported: true, Value: value}
		return strings.Join(t.ReadingFacts(r, "", func(time.Time) string { return "" }), " ")
	}
	if got := said(networkingv1beta1.Connecting); strings.Contains(got, "loss") {
		t.Errorf("no ping was answered: got %q", got)
	}
	if got := said(networkingv1beta1.Connected); !strings.Contains(got, "loss 0%") {
		t.Errorf("all were: got %q", got)
	}
}

func TestAServerThatDialsARelayListensNowhere(t *testing.T) {
	var theme Theme
	r := flows.Reading{Exists: true, Role: flows.RoleServer, Endpoint: "UDP relay.example.org:51841", Relayed: true}
	if got := strings.Join(theme.ReadingFacts(r, "", func(time.Time) string { return "" }), " · "); !strings.HasPrefix(got, "dials a relay at UDP relay.example.org:51841") {
		t.Errorf("got %q", got)
	}
}
