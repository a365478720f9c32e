package session

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/verify"
	"github.com/liqo-tui/liqo-tui/tui/draw"
)

// Verification is the latest measurement of a connection with packets, or the
// one that is under way.
type Verification struct {
	ID    int // of the latest one
	Pair  [2]flows.ContextRef
	Began time.Time
	Stop  context.CancelFunc // of the one under way; nil for none
	// Result is that of the latest one that has ended; err is why it has none.
	Result verify.Result
	Err    error
	Ended  bool
}

// Running reports whether one is under way.
func (v Verification) Running() bool { return v.Stop != nil }

// Of is what was measured between two clusters last; nil: nothing.
func (v Verification) Of(pair [2]flows.ContextRef) *verify.Result {
	if !v.Ended || v.Err != nil || v.Pair != pair {
		return nil
	}
	return &v.Result
}

// VerifiedMsg is what a measurement has found.
type VerifiedMsg struct {
	ID     int
	Result verify.Result
	Err    error
	At     time.Time
}

// Lines say what was measured between two clusters, as lines of at most width cells.
func (v Verification) Lines(t draw.Theme, of [2]flows.ContextRef, now time.Time, width int) []string {
	switch {
	case v.Running() && v.Pair == of:
		text := fmt.Sprintf("measuring with a pod on each side, for %s", draw.Age(now.Sub(v.Began)))
		return []string{t.State(draw.Running, text, 0)}
	case !v.Ended || v.Pair != of:
		return t.Wrap("Not tested from pod to pod yet. Press v to test.", width, 0)
	case v.Err != nil:
		return t.Wrap("Not measured: "+v.Err.Error(), width, 0)
	}
	look := map[verify.Verdict]draw.Mark{verify.Works: draw.OK, verify.Degraded: draw.Warn, verify.Broken: draw.Fail}[v.Result.Verdict()]
	if look == draw.OK && !v.Result.Verified() {
		look = draw.Unknown
	}
	found := v.Result.Measurement().Result
	if v.Result.Between == verify.Gateways {
		found = "not verified: only the gateways' pings are known"
	}
	lines := []string{t.State(look, found, 0) + t.Faint.Render(", "+draw.Age(now.Sub(v.Result.At))+" ago")}
	for _, text := range v.Result.Lines() {
		// Its last line says what the first one here does.
		if !strings.HasPrefix(text, "verified") && !strings.HasPrefix(text, "not verified") {
			lines = append(lines, t.Wrap(text, width-2, 4)...)
		}
	}
	for i := range lines[1:] {
		lines[i+1] = "  " + strings.TrimPrefix(lines[i+1], "  ")
	}
	return lines
}
