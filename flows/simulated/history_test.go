package simulated_test

import (
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/simulated"
)

// Two minutes of connection, a minute of a cut path, and a minute in which the pod starts again.
func TestSimulatedGatewaysRecordWhatHappens(t *testing.T) {
	p := flowtest.NewPair()
	flowtest.Connected(t, p)
	pass := func(d time.Duration) {
		for range int(d / flowtest.TickLength) {
			p.Tick()
		}
	}
	pass(2 * time.Minute)
	p.Join("rome", "milan", func(l *simulated.Link) { l.Closed = true })
	pass(time.Minute)
	p.Join("rome", "milan", func(l *simulated.Link) { l.Closed = false })
	if !p.A.KillGateway(p.B.Facts().ID, time.Minute) {
		t.Fatal("there is no gateway")
	}
	pass(2 * time.Minute)
	facts := p.A.Facts()
	q := facts.End(p.B.Facts().ID).AskHistory(flows.A)
	if len(q) != 1 {
		t.Fatalf("got questions %v", q)
	}
	reply, err := p.A.Ask(t.Context(), q[0])
	if err != nil {
		t.Fatal(err)
	}
	var f flows.Facts
	reply.Store(&f, time.Time{})
	sum := f.Sides[flows.A].History.Value().Sum()
	if sum.Up < 170*time.Second || sum.Up > 230*time.Second || sum.Down < 45*time.Second || sum.Down > 65*time.Second || sum.Answered < 80 || sum.Lost < 20 {
		t.Errorf("got %+v, want 3 minutes up, and one down", sum)
	}
}
