package tui

import (
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
)

func TestDurationsAreReadable(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0.0s", 0: "0.0s", 1249 * time.Millisecond: "1.2s", 59*time.Second + 900*time.Millisecond: "59s",
		61 * time.Second: "1m01s", 3*time.Hour + 5*time.Minute: "3h05m", 72 * time.Hour: "3d",
	} {
		if got := seconds(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

func TestBytesAreReadable(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 1 << 20: "1 MiB", 1023 * 1024: "0.999 MiB", 1<<64 - 1: "16 EiB",
	} {
		if got := byteCount(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

func TestRoundTripsAreReadable(t *testing.T) {
	for d, want := range map[time.Duration]string{
		340 * time.Microsecond: "340us", 1250 * time.Microsecond: "1.2ms", 148 * time.Millisecond: "148ms", 2 * time.Second: "2000ms",
	} {
		if got := roundTrip(d); got != want {
			t.Errorf("%s: got %s, want %s", d, got, want)
		}
	}
}

// Two clusters may be looked at one after the other, and one measurement may be
// told twice: neither is a measurement of the other, or a second one.
func TestAWitnessKeepsWhatItsSideMeasured(t *testing.T) {
	now := flowtest.Epoch()
	rome, milan := refOf("kind-rome"), refOf("kind-milan")
	r := reading("milan", flows.RoleClient, isConnected, now)
	w := witness{}.note(now, rome, r)
	earlier := w
	w = w.note(now.Add(bucket), rome, r) // the same again
	r.At, r.Latency = now.Add(2*bucket), 3*time.Millisecond
	w = w.note(now.Add(2*bucket), rome, r)
	if got := newTheme(true, false).spark(roundTrips(w.history.until(now.Add(2*bucket), 3))); got != "~ #" && got != "- #" {
		t.Errorf("got %q, want two measurements and the gap between", got)
	}
	if got := len(earlier.history.points); got != 1 {
		t.Errorf("got %d points in the witness of before, want its one", got)
	}
	if w = w.note(now.Add(3*bucket), milan, r); len(w.history.points) != 1 {
		t.Errorf("got %d points, want one: the others are of another cluster", len(w.history.points))
	}
}

func TestACommandLineIsBrokenSoThatItRuns(t *testing.T) {
	const command = "liqo-tui network connect --context a-very-long-name --remote-context another-very-long-name"
	lines := newTheme(false, false).command("same: ", command, 50)
	var words []string
	for i, line := range lines {
		if got := ansi.StringWidth(line); got > 50 {
			t.Errorf("line %q has %d cells", line, got)
		}
		line, more := strings.CutSuffix(line, " \\")
		if more != (i < len(lines)-1) {
			t.Errorf("line %q: got continued %v", line, more)
		}
		words = append(words, strings.Fields(strings.TrimPrefix(line, "same: "))...)
	}
	if got := strings.Join(words, " "); got != command {
		t.Errorf("got %q, want %q", got, command)
	}
}

func TestWhatAYesCovers(t *testing.T) {
	step := func(id flows.StepID, a flows.Action, s flows.Status, diff string) flows.Step {
		return flows.Step{ID: id, Title: string(id), Action: a, Status: s, Diff: diff}
	}
	plan := func(steps ...flows.Step) flows.Plan { return flows.Plan{Steps: steps, A: "rome", B: "milan"} }
	approved := plan(
		step("namespace", flows.Create, flows.Ready, "+ns"),
		step("client", flows.Create, flows.Blocked, ""),
		step("key", flows.Update, flows.Done, ""),
		step("connected", flows.Wait, flows.Waiting, ""),
	)
	other := approved
	other.B = "turin"
	for name, test := range map[string]struct {
		now  flows.Plan
		want bool
	}{
		"the same":                           {approved, true},
		"further on":                         {plan(step("namespace", flows.Update, flows.Done, ""), step("client", flows.Create, flows.Ready, "+c")), true},
		"another diff":                       {plan(step("namespace", flows.Create, flows.Ready, "+other")), false},
		"an update where it said create":     {plan(step("namespace", flows.Update, flows.Ready, "+ns")), false},
		"an update of what was not there":    {plan(step("client", flows.Update, flows.Ready, "-x +c")), false},
		"a change of what was done":          {plan(step("key", flows.Update, flows.Ready, "-k +k")), false},
		"a step that was not there":          {plan(step("new", flows.Delete, flows.Ready, "")), false},
		"other clusters":                     {other, false},
		"only things to wait for were added": {plan(step("other", flows.Wait, flows.Waiting, "")), true},
	} {
		if got := covers(approved, test.now); got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}
