package board

import (
	"strings"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/tui/draw"
)

// Whatever a gateway has said, however long ago, and whether its cluster answers or not:
// the row has a figure only where one was measured and is of now.
func TestARowShowsNoFigureThatWasNotMeasured(t *testing.T) {
	now := flowtest.Epoch()
	columns := columnsOf(draw.NewTheme(false, false), sparkCells)
	text := func(title string, p *peering) string {
		for _, c := range columns {
			if strings.Contains(c.title, title) {
				return strings.TrimSpace(c.text(p, now))
			}
		}
		t.Fatalf("there is no column %q", title)
		return ""
	}
	for _, value := range []networkingv1beta1.ConnectionStatusValue{"", dialling, up, broken} {
		for _, age := range []time.Duration{time.Second, time.Hour} {
			for _, told := range []bool{false, true} {
				for _, answers := range []bool{false, true} {
					r := flows.Reading{Peer: "milan", Role: flows.RoleClient, Exists: true, Value: value, At: now.Add(-age), Interval: 10 * time.Second, Reported: told}
					if value == up {
						r.Latency = time.Millisecond
					}
					before := r
					if told {
						before.At, before.Received, before.Sent = r.At.Add(-10*time.Second), 10, 10
						r.Received, r.Sent, r.Handshake = 1000, 1000, r.At.Add(-time.Second)
					}
					b := newBoard(refsOf("rome"), now)
					b.take(now, []News{toldBy("rome", before)})
					b.take(now, []News{toldBy("rome", r)})
					if !answers {
						b.take(now, []News{silent("rome")})
					}
					p := b.Rows[PairOf("rome", "milan")]
					fresh := age == time.Second && answers
					for title, want := range map[string]bool{
						"RTT":       fresh && value == up,
						"LOSS":      fresh && told && (value == up || value == broken),
						"IN/s":      fresh && told,
						"OUT/s":     fresh && told,
						"HANDSHAKE": fresh && told,
					} {
						if got := text(title, p); (got != "-") != want {
							t.Errorf("%s: got %q of a gateway that said %q %s ago, reports %t, answers %t", title, got, value, age, told, answers)
						}
					}
					if value != up && p.State.Works() || p.State == view.Connected {
						t.Errorf("got %s of a gateway that said %q", p.State, value)
					}
				}
			}
		}
	}
}
