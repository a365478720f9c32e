package board

import (
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/google/go-cmp/cmp"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/history"
	"github.com/liqo-tui/liqo-tui/tui/draw"
)

// answered returns the answers of rome, and of milan, which has none.
func answered(t *testing.T, rome history.Record, milan string) (recorded, *peering) {
	t.Helper()
	var f flows.Facts
	flows.Read(flows.AskHistory{Side: flows.A}, rome).Store(&f, flowtest.Epoch())
	flows.Unknown(flows.AskHistory{Side: flows.B}, milan).Store(&f, flowtest.Epoch())
	p := &peering{}
	p.ends[0].ID, p.ends[1].ID = "rome", "milan"
	return recorded{sides: [2]flows.Answer[history.Record]{f.Sides[flows.A].History, f.Sides[flows.B].History}}, p
}

// The gateways of one side are of an earlier release, and those of the other have not begun to record.
func TestADayWithoutARecordIsNotDrawnAsGood(t *testing.T) {
	recorded, p := answered(t, history.Record{}, "this gateway records nothing")
	var lines []string
	for _, line := range recorded.lines(draw.NewTheme(true, false), p, flowtest.Epoch(), 60) {
		lines = append(lines, strings.TrimRight(ansi.Strip(line), " "))
	}
	want := []string{
		"rome", "            nothing was recorded",
		"milan       not known: this gateway records nothing",
		"            12:00                                        now",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Each column is an hour. A part of an hour that was not recorded is never drawn as good.
func TestAGapInTheLastDayIsDrawnAsAGap(t *testing.T) {
	now := flowtest.Epoch().Truncate(history.Step)
	var r history.Record
	record := func(from, until time.Duration, of history.Cell) {
		for at := now.Add(-from); at.Before(now.Add(-until)); at = at.Add(history.Step) {
			*r.At(at) = history.Cell{Start: at, Up: of.Up, Down: of.Down, Answered: of.Answered, Lost: of.Lost, Mean: of.Mean, Longest: of.Mean}
		}
	}
	good := history.Cell{Up: history.Step, Answered: 150, Mean: 2 * time.Millisecond}
	record(20*time.Hour, 10*time.Hour, good)
	record(15*time.Hour, 14*time.Hour+55*time.Minute, history.Cell{Up: 4 * time.Minute, Down: time.Minute, Answered: 120, Lost: 30, Mean: 2 * time.Millisecond})
	record(8*time.Hour, 7*time.Hour+5*time.Minute, good)
	record(6*time.Hour, 5*time.Hour, good)
	*r.At(now.Add(-5*time.Hour - 30*time.Minute)) = history.Cell{Start: now.Add(-5*time.Hour - 30*time.Minute), Up: 2 * time.Minute}
	record(3*time.Hour, 2*time.Hour, history.Cell{Down: history.Step, Lost: 150})
	recorded, p := answered(t, r, "ConfigMap x: parse the recorded history: \x1b[2Jit has version 2")
	var lines []string
	for _, line := range recorded.lines(draw.NewTheme(true, false), p, now, 12+24) {
		lines = append(lines, strings.TrimRight(ansi.Strip(line), " "))
	}
	want := []string{
		"rome            =====X====  ? ?  X",
		"            up 11h51m0s, down",
		"            1h1m0s, unknown 11h8m0s;",
		"            round trip 2ms on",
		"            average, 2ms at most;",
		"            7.9% of pings lost",
		"milan       not known: ConfigMap x:",
		"            parse the recorded",
		"            history: [2Jit has",
		"            version 2",
		"Round trip      ==========  = =  x",
		"            12:00                now",
	}
	if diff := cmp.Diff(want, lines); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
