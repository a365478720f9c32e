package tui

import (
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/liqo-tui/liqo-tui/flows"
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
	for text, want := range map[string]string{"340μs": "340us", "340µs": "340us", "1.25ms": "1.2ms", "148ms": "148ms", "2s": "2000ms"} {
		if got := roundTrip(parseLatency(text)); got != want {
			t.Errorf("%s: got %s, want %s", text, got, want)
		}
	}
	for _, text := range []string{"", "N/A", "-3ms", "soon"} {
		if got := parseLatency(text); got != 0 {
			t.Errorf("%q: got %v, want none", text, got)
		}
	}
}

func TestASparklineKeepsTheLatestSamples(t *testing.T) {
	var h history
	start := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for i := range 100 {
		at := start.Add(time.Duration(i) * time.Second)
		h = h.add(at, time.Duration(i)*time.Millisecond)
		h = h.add(at, time.Hour) // the same measurement again
	}
	h = h.add(start.Add(200*time.Second), 0) // no answer
	if len(h.samples) != historyLength {
		t.Errorf("got %d samples, want %d", len(h.samples), historyLength)
	}
	low, high, ok := h.bounds()
	if !ok || low != 69*time.Millisecond || high != 99*time.Millisecond {
		t.Errorf("got %v to %v, %v", low, high, ok)
	}
	if got := h.sparkline(newTheme(false, false), 5); got != "▇▇▇█·" {
		t.Errorf("got %s", got)
	}
	if got := h.sparkline(newTheme(true, false), 5); got != "^^^# " && got != "***# " {
		t.Errorf("got %s", got)
	}
	if got := (history{}).sparkline(newTheme(false, false), 5); got != "" {
		t.Errorf("got %q of nothing", got)
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
