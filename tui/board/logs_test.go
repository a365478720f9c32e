package board

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// Both gateways' lines are one story, by time; a line without a time stays with the one
// before it.
func TestLogsOfBothSidesAreOne(t *testing.T) {
	e := around(80, 24)
	s := New(session.Options{Contexts: refsOf("rome", "milan")}, e).Take(e, []News{
		toldBy("rome", reported("milan", flows.RoleClient, up, e.Now)), toldBy("milan", reported("rome", flows.RoleServer, up, e.Now)),
	})
	for _, id := range []wire.ClusterID{"rome", "milan"} {
		peer := map[wire.ClusterID]wire.ClusterID{"rome": "milan", "milan": "rome"}[id]
		meta := metav1.ObjectMeta{Namespace: wire.TenantNamespaceName(peer), Name: string(peer), Labels: map[string]string{wire.LabelRemoteCluster: string(peer)}}
		facts := flows.ClusterFacts{
			ID: id, Clients: []networkingv1beta1.GatewayClient{{ObjectMeta: meta}},
			Pods: []flows.PodFacts{{Name: "gw-1", Namespace: meta.Namespace, Gateway: meta.Name}},
		}
		e.Fleet = e.Fleet.With(session.Member{Context: session.Context{Ref: flows.ContextRef{Name: string(id)}}, Good: facts})
	}
	p := s.Board.List[0]
	line := func(second, text string) string {
		return `{"time":"2026-05-04T12:20:0` + second + `Z","level":"INFO","msg":"` + text + `"}` + "\n"
	}
	s.logs = logsMsg{p.ID, session.Logs{Texts: [2]string{line("1", "dials") + line("4", "connected"), line("2", "hears") + "  of 192.0.2.1\n" + line("3", "answers")}}}
	text := ansi.Strip(strings.Join(s.logText(e, p), "\n"))
	at := -1
	for _, want := range []string{"rome  12:20:01 INFO dials", "milan 12:20:02 INFO hears", "milan   of 192.0.2.1", "milan 12:20:03 INFO answers", "rome  12:20:04 INFO connected"} {
		i := strings.Index(text, want)
		if i <= at {
			t.Fatalf("got\n%s\nwant %q after the others", text, want)
		}
		at = i
	}
}
