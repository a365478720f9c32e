package board

import (
	"slices"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/tui/draw"
)

// drawn is a timeline without colours.
func drawn(marks []draw.Mark) string {
	signs := map[draw.Mark]string{draw.Pending: "-", draw.Running: "o", draw.OK: "=", draw.Warn: "!", draw.Fail: "X", draw.Unknown: "?", draw.Blank: " "}
	text := ""
	for _, m := range marks {
		text += signs[m]
	}
	return text
}

func TestATimelineTellsWhatWasSeenAndWhen(t *testing.T) {
	began := flowtest.Epoch()
	b := newBoard(refsOf("rome", "milan"), began)
	told := func(after time.Duration, state func(peer wire.ClusterID, role flows.Role, at time.Time) flows.Reading) {
		at := began.Add(after)
		b.take(at, []News{toldBy("rome", state("milan", flows.RoleClient, at)), toldBy("milan", state("rome", flows.RoleServer, at))})
	}
	connected := func(peer wire.ClusterID, role flows.Role, at time.Time) flows.Reading {
		return reported(peer, role, up, at)
	}
	down := func(peer wire.ClusterID, role flows.Role, at time.Time) flows.Reading {
		return reported(peer, role, broken, at)
	}
	line := func(cells int) string {
		p := b.Rows[PairOf("rome", "milan")]
		return drawn(lane(b.Log.past(p), began, b.now, cells))
	}

	told(2*time.Minute, connected)
	told(150*time.Second, connected)
	if got := line(5); got != "    =" {
		t.Errorf("before the first look: got %q, want %q", got, "    =")
	}
	told(6*time.Minute, down)
	told(6*time.Minute+5*time.Second, connected)
	for now := 7 * time.Minute; now <= 10*time.Minute; now += 10 * time.Second {
		told(now, connected)
	}
	if got, want := line(10), "  ====X==="; got != want {
		t.Errorf("an outage of 5 s: got %q, want %q", got, want)
	}
	if got, want := line(2), "=X"; got != want {
		t.Errorf("the worst of a cell: got %q, want %q", got, want)
	}
	// Without news, reports get too old, and that is known, too.
	for now := 10 * time.Minute; now <= 30*time.Minute; now += time.Minute {
		b.take(began.Add(now), nil)
	}
	if got, want := line(3), "X??"; got != want {
		t.Errorf("after silence: got %q, want %q", got, want)
	}
}

func TestATimelineDoesNotSayMoreThanTheLogKeeps(t *testing.T) {
	began := flowtest.Epoch()
	p := &peering{ID: PairOf("rome", "milan"), known: began}
	var l eventLog
	for i := range EventsKept + 1 { // the first one, of the peering, is lost
		e := event{at: began.Add(time.Duration(i) * time.Second), id: PairOf("oslo", "milan")}
		if i == 0 {
			e.id = p.ID
		}
		l.add(e)
	}
	if got, want := l.past(p)[0].at, began.Add(time.Second); !got.Equal(want) {
		t.Errorf("got a state since %v, want since %v", got, want)
	}
	marks := lane(l.past(p), began, began.Add(1000*time.Second), 1000)
	if want := []draw.Mark{draw.Blank}; !slices.Equal(marks[:1], want) {
		t.Errorf("got %v, want %v", marks[:1], want)
	}
}
