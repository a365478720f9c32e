package session

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/verify"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/keys"
)

// Verification is the latest measurement of a connection with packets, running or
// finished.
type Verification struct {
	ID    int // of the latest measurement
	Pair  [2]flows.ContextRef
	Began time.Time
	Stop  context.CancelFunc // stops the running measurement; nil if there is none
	// Result is the result of the latest finished measurement; err is the reason if it
	// has none.
	Result verify.Result
	Err    error
	Ended  bool
}

// Running reports whether a measurement runs.
func (v Verification) Running() bool { return v.Stop != nil }

// About reports whether the measurement is between these two clusters, in either order.
func (v Verification) About(pair [2]flows.ContextRef) bool {
	return v.Pair == pair || v.Pair == [2]flows.ContextRef{pair[flows.B], pair[flows.A]}
}

// Of returns the last result between two clusters; nil if there is none.
func (v Verification) Of(pair [2]flows.ContextRef) *verify.Result {
	if !v.Ended || v.Err != nil || !v.About(pair) {
		return nil
	}
	r := v.Result
	if v.Pair != pair {
		r = r.Turned()
	}
	return &r
}

// VerifiedMsg has the result of a measurement.
type VerifiedMsg struct {
	ID     int
	Result verify.Result
	Err    error
	At     time.Time
}

// Lines returns the result between two clusters as lines of at most width cells. A
// result that is older than the present state of the connection does not count.
func (v Verification) Lines(e Env, of [2]flows.ContextRef, is view.Verdict, width int) []string {
	t := e.Theme
	age := func(at time.Time) string { return draw.Age(e.Now.Sub(at)) }
	untested := "Not tested from pod to pod yet."
	if k := keys.Called(e.Keys.Verify); k != "" { // a report has no keys
		untested += " Press " + k + " to test."
	}
	switch {
	case v.Running() && v.About(of):
		text := fmt.Sprintf("measuring with a pod on each side, for %s", age(v.Began))
		return []string{t.State(draw.Running, text, 0)}
	case !v.Ended || !v.About(of):
		return t.Wrap(untested, width, 0)
	case v.Err != nil:
		return t.Wrap("Not measured: "+v.Err.Error(), width, 0)
	}
	r := v.Of(of)
	look := map[verify.Verdict]draw.Mark{verify.Unknown: draw.Unknown, verify.Works: draw.OK, verify.Degraded: draw.Warn, verify.Broken: draw.Fail, verify.Closed: draw.OK}[r.Verdict()]
	if look == draw.OK && !r.Tested() {
		look = draw.Unknown
	}
	found := r.Measurement().Result
	if r.Between == verify.Gateways {
		found = "not verified: only the gateways' pings are known"
	}
	works := r.Verdict() != verify.Broken
	if (works && is.State.Broken() || is.State.Works()) && is.Since.After(r.At) {
		if r.Between == verify.Gateways {
			return t.Wrap(untested, width, 0)
		}
		word := map[verify.Verdict]string{verify.Broken: "failed", verify.Degraded: "lost packets"}[r.Verdict()]
		when := "the last change"
		if is.State.Broken() {
			when = "this outage"
		}
		return t.Wrap(fmt.Sprintf("The last test %s %s ago, before %s.", cmp.Or(word, "passed"), age(r.At), when), width, 0)
	}
	lines := []string{t.State(look, found, 0) + t.Faint.Render(", "+age(r.At)+" ago")}
	for _, text := range r.Lines() {
		// The last line of the text says the same as the first line here.
		if !strings.HasPrefix(text, "verified") && !strings.HasPrefix(text, "not verified") && !strings.HasPrefix(text, "the tunnel is tested") {
			text = strings.TrimSuffix(text, " (pod to pod)") // the first line says this
			lines = append(lines, t.Wrap(text, width-2, 4)...)
		}
	}
	for i := range lines[1:] {
		lines[i+1] = "  " + strings.TrimPrefix(lines[i+1], "  ")
	}
	return lines
}
