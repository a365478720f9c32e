package wire_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

func TestAnEventHoldsItsNote(t *testing.T) {
	if got := wire.EventNote("short"); got != "short" {
		t.Errorf("got %q", got)
	}
	for n := range 4 { // wherever it is cut
		got := wire.EventNote(strings.Repeat("x", n) + strings.Repeat("ä€", 600))
		if len(got) > 1024 || len(got) < 1000 || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
			t.Errorf("got %d bytes: %q", len(got), got)
		}
	}
}

// A warning of ours is about the content of the object. Warnings of others, and of the operator about its own
// Deployment, are not.
func TestAnEventOfOursIsKnown(t *testing.T) {
	gateway := render.GatewayClient(render.ClientParams{Tenant: render.Tenant{Namespace: "liqo-tenant-milan", Remote: "milan"}})
	about := *wire.EventAbout(gateway)
	if about.Kind != "GatewayClient" || about.APIVersion != "networking.liqo.io/v1beta1" || about.Namespace != gateway.Namespace || about.ResourceVersion != "" {
		t.Errorf("it is about %+v", about)
	}
	home := corev1.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "liqo", Name: wire.OperatorName}
	for _, c := range []struct {
		about corev1.ObjectReference
		by    string
		own   bool
	}{
		{about, wire.GatewayReporter, true}, {about, wire.OperatorName, true}, {about, "liqo-controller-manager", false}, {about, "", false}, {home, wire.OperatorName, false},
	} {
		if got := wire.IsOwnEvent(&corev1.Event{InvolvedObject: c.about, ReportingController: c.by}); got != c.own {
			t.Errorf("about %s, by %q: got %v", c.about.Kind, c.by, got)
		}
	}
}

func TestAProblemIsAnEvent(t *testing.T) {
	for problem, want := range map[string][2]string{
		"":                                     {corev1.EventTypeNormal, "Recovered"},
		"template not found":                   {corev1.EventTypeWarning, "Failing"},
		wire.ProblemRefused + "port not valid": {corev1.EventTypeWarning, "Refused"},
	} {
		if kind, reason, said := wire.ProblemEvent(problem); [2]string{kind, reason} != want || said == "" {
			t.Errorf("%q: got %s %s %q", problem, kind, reason, said)
		}
	}
}
