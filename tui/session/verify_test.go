package session

import (
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/verify"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/tui/draw"
)

// A test says nothing of what came after it: neither that packets pass a connection that is
// down now, or that was down in between, nor that one is broken which works again.
func TestATestOfBeforeIsSaidToBe(t *testing.T) {
	at := flowtest.Epoch()
	of := [2]flows.ContextRef{{Name: "kind-rome"}, {Name: "kind-milan"}}
	passed := verify.Result{A: "rome", B: "milan", At: at, Between: verify.Pods, Directions: [2]verify.Direction{{Sent: 5, Received: 5}, {Sent: 5, Received: 5}}}
	failed := passed
	failed.Directions = [2]verify.Direction{{Sent: 5, Loss: 1}, {Sent: 5, Loss: 1}}
	for name, c := range map[string]struct {
		result verify.Result
		is     view.Verdict
		before bool
	}{
		"it works, as the test said":        {passed, view.Verdict{State: view.Connected, Since: at.Add(-time.Second)}, false},
		"it was down since the test":        {passed, view.Verdict{State: view.Untested, Since: at.Add(time.Second)}, true},
		"it is down since the test":         {passed, view.Verdict{State: view.Down, Since: at.Add(time.Second)}, true},
		"packets pass, whatever is said":    {passed, view.Verdict{State: view.Down, Since: at.Add(-time.Second)}, false},
		"it works again":                    {failed, view.Verdict{State: view.Connected, Since: at.Add(time.Second)}, true},
		"it is said to work, and does not":  {failed, view.Verdict{State: view.Connected, Since: at.Add(-time.Second)}, false},
		"it is down, as the test has found": {failed, view.Verdict{State: view.Down, Since: at.Add(time.Second)}, false},
	} {
		v := Verification{Pair: of, Result: c.result, Ended: true}
		lines := v.Lines(Env{Theme: draw.NewTheme(false, false), Now: at.Add(time.Minute)}, of, c.is, 100)
		if got := strings.HasPrefix(ansi.Strip(lines[0]), "The last test "); got != c.before {
			t.Errorf("%s: got %q, want it to be said: %t", name, lines[0], c.before)
		}
		if text := strings.Join(lines, "\n"); strings.Contains(text, "(pod to pod)") {
			t.Errorf("%s: got %q, which says twice what was measured", name, text)
		}
	}
}
