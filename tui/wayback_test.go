package tui

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/tui/session"
	"github.com/liqo-tui/liqo-tui/tui/wizard"
)

// Esc leads to where the admin came from.
func TestEscLeadsBackToWhereItCameFrom(t *testing.T) {
	onDashboard(t, func(_ *testing.T, d *driver) {
		for _, key := range []string{"x", "X", "C"} {
			d.keys(key)
			d.hasNot("2 contexts")
			d.keys("esc")
			d.at(wizard.Away)
			d.has("2 contexts")
		}
		d.keys("D", "esc")
		d.has("2 contexts")
		d.keys("enter", "D", "esc")
		d.has("listens ")
		d.keys("esc")
		d.has("2 contexts")
	})
}

// Where the selected connection is not to be seen, no key takes it away.
func TestPagesOfAllConnectionsChangeNone(t *testing.T) {
	onDashboard(t, func(_ *testing.T, d *driver) {
		for _, page := range []string{"E", "i"} {
			d.keys(page)
			before := d.screen()
			d.keys("x", "X", "C", "v", "D")
			d.at(wizard.Away)
			if got := d.screen(); got != before {
				d.t.Errorf("%s: keys lead elsewhere:\n%s", page, got)
			}
			d.keys("esc")
		}
	})
}

// A run looks at its two clusters instead of the dashboard, which knows of it all the same: a
// long run would leave a gap in the history of every peering that these two have.
func TestTheDashboardKnowsWhatARunSees(t *testing.T) {
	onDashboard(t, func(t *testing.T, d *driver) {
		d.keys("X", "a")
		d.hasNot("Removed.")
		d.keys("y")
		gone := false
		for range 100 {
			d.wait(100 * time.Millisecond)
			if d.model.wizard.Step == wizard.Apply && d.model.wizard.Running() && len(d.model.dashboard.Board.Rows) == 0 {
				gone = true
			}
		}
		if !gone {
			t.Errorf("the dashboard did not see the peering go while the run went on:\n%s", d.screen())
		}
	})
}

// measuredSoFar is what comes of a test where no pods can be run, as in memory.
const measuredSoFar = "not verified: only the gateways' pings are known"

// What the wizard called A and what it measured are the same in the dashboard, also
// where the contexts are in another order.
func TestTheDashboardGoesOnFromTheWizard(t *testing.T) {
	inWorld(t, func(p *flowtest.Pair, w *world) session.Options {
		connectedPair(t)(p)
		w.contexts[0], w.contexts[1] = w.contexts[1], w.contexts[0]
		return session.Options{}
	}, func(_ *testing.T, d *driver) {
		d.keys("/", "r", "o", "m", "e", "enter", "enter", "enter")
		d.at(wizard.Live)
		d.has("rome", "milan")
		d.keys("v")
		d.wait(time.Second)
		d.has(measuredSoFar)
		d.keys("d")
		d.wait(time.Second)
		d.keys("enter")
		d.has("› rome → milan", measuredSoFar, "rome → milan: latency 1.20 ms")
		d.hasNot("Press v to test")
	})
}

// A key that starts something is answered on a small screen, too.
func TestATestFromTheDashboardIsSeen(t *testing.T) {
	onDashboard(t, func(_ *testing.T, d *driver) {
		d.view(80, 24)
		d.keys("v")
		d.wait(time.Second)
		d.has(measuredSoFar)
	})
}

func TestAPageIsSearchedAndScrolled(t *testing.T) {
	onDashboard(t, func(_ *testing.T, d *driver) {
		d.keys("enter", "y")
		d.has("lines 1 to ")
		d.keys("G")
		d.hasNot("lines 1 to ")
		d.keys("g")
		d.has("lines 1 to ")
		d.keys("/", "K", "i", "n", "d", ":")
		d.has("search: Kind:", "kind: Connection", "kind: Configuration", "lines  ")
		d.hasNot("apiVersion", "lines 1 to ")
		d.keys("enter", "esc")
		d.has("apiVersion")
		d.keys("esc")
		d.has("listens ")
	})
}

// A connection is diagnosed from where it is looked at.
func TestTheWizardLeadsToTheDiagnosis(t *testing.T) {
	inBubble(t, session.Options{}, connectedPair(t), func(_ *testing.T, d *driver) {
		d.at(wizard.Live)
		d.keys("D")
		d.wait(time.Second)
		d.has("› diagnosis", "rome", "✓ gateway", "passed")
		d.keys("esc")
		d.at(wizard.Live)
	})
}

// So is one that does not come up.
func TestAFailedRunLeadsToTheDiagnosis(t *testing.T) {
	prepare := func(p *flowtest.Pair) { p.B.Behave(func(b *flowtest.Behaviour) { b.WrongKey = true }) }
	inBubble(t, session.Options{Timeout: 20 * time.Second}, prepare, func(_ *testing.T, d *driver) {
		d.keys("a", "y")
		d.wait(30 * time.Second)
		d.has("LT-E041", "find what is broken")
		d.keys("D")
		d.wait(time.Second)
		d.has("› diagnosis", "rome")
		d.keys("esc") // what can be done now is still to be chosen
		d.has("LT-E041", "find what is broken")
		d.keys("p", "esc")
		d.at(wizard.Live)
		d.has("D diagnose · v verify with packets")
	})
}

// A command to copy has a line of its own on the normal screen.
func TestTheSummaryHasEachCommandOnItsOwnLine(t *testing.T) {
	inBubble(t, session.Options{}, nil, func(t *testing.T, d *driver) {
		d.keys("a", "y")
		d.wait(2 * time.Second)
		d.keys("ctrl+c")
		d.wait(time.Second)
		lines := strings.Split(d.model.Summary(), "\n")
		if len(lines) != 3 || !strings.HasPrefix(lines[1], "Continue: liqo-tui network connect") || !strings.HasPrefix(lines[2], "Remove the whole connection: liqo-tui network reset") {
			t.Errorf("got %q", lines)
		}
	})
}

func TestTheClustersThatCanBeChosenComeFirst(t *testing.T) {
	inChoice(t, func(p *flowtest.Pair, w *world) {
		for _, dead := range []string{"aaa", "arn:aws:eks:eu-central-1:123456789012:cluster/rome-a"} {
			w.add(session.Context{Ref: refOf(dead), Problem: "its user is missing"}, p.B)
		}
		w.contexts = append(w.contexts[2:], w.contexts[:2]...)
		w.contexts[3].Current = true // kind-milan
		p.A.Be(func(f *flows.ClusterFacts) { f.Operator.Problem = "pod liqo-tui-operator-7c9d: ImagePullBackOff" })
	}, func(t *testing.T, d *driver) {
		order := []string{"kind-milan", "kind-rome", "aaa", "arn:aws:eks:eu"}
		at := -1
		for _, name := range order {
			i := strings.Index(d.screen(), name)
			if i < at {
				t.Errorf("%s comes too early:\n%s", name, d.screen())
			}
			at = i
		}
		d.has("cluster/rome-a", "! operator not ready ")
		d.keys("enter")
		d.has("kind-milan is chosen. Choose the other cluster", "ImagePullBackOff") // the selection has moved on
		d.keys("/", "r", "o", "m", "e", "-", "a")
		d.hasNot("kind-rome", "aaa ")
		d.keys("esc", "/", "k", "r", "o", "m", "e") // letters are missing
		d.has("kind-rome")
	})
}

// KUBECONFIG may name a file that is not there, which kubectl passes over in silence.
func TestWithoutContextsTheFilesAreNamed(t *testing.T) {
	inWorld(t, func(_ *flowtest.Pair, w *world) session.Options {
		w.contexts = nil
		return session.Options{Looked: []string{"/home/ada/nowhere.yaml"}}
	}, func(_ *testing.T, d *driver) {
		d.has("There are no contexts in /home/ada/nowhere.yaml.", "add a kubeconfig file")
		d.hasNot("enter choose", "filter")
	})
}

// What a diagnosis says to do can be copied, with the clusters in it.
func TestARemedyIsCopied(t *testing.T) {
	onDashboard(t, func(t *testing.T, d *driver) {
		d.pair.B.Behave(func(b *flowtest.Behaviour) { b.Unreachable = []flowtest.Window{{From: 1}} })
		d.wait(5 * time.Second)
		d.keys("D", "c")
		if !strings.Contains(d.clip, "check") || strings.Contains(d.clip, "info peer") {
			t.Errorf("got %q copied, want what helps", d.clip)
		}
	})
}

// A request that is under way is said to be.
func TestAStepThatIsAppliedIsNotSaidToBeReady(t *testing.T) {
	inBubble(t, session.Options{}, nil, func(_ *testing.T, d *driver) {
		d.keys("a", "y")
		d.hasNot("· ready")
		d.wait(30 * time.Second)
		d.at(wizard.Live)
	})
}

// Whoever looks at other clusters afterwards still learns how to take back what was applied.
func TestTheEndIsAboutWhatWasApplied(t *testing.T) {
	inBubble(t, session.Options{}, nil, func(t *testing.T, d *driver) {
		d.keys("a", "y")
		d.wait(30 * time.Second)
		d.at(wizard.Live)
		d.keys("esc")
		d.at(wizard.Clusters)
		d.has("It has 1 connection: rome.", "F add a kubeconfig file…") // no word of the last line is cut
		d.keys("esc")
		got := d.model.Summary()
		for _, want := range []string{"rome says: tunnel up", "Remove the whole connection: liqo-tui network reset --context kind-rome --remote-context kind-milan"} {
			if !strings.Contains(got, want) {
				t.Errorf("got %q, want %q in it", got, want)
			}
		}
	})
}

func TestNotToRemoveLeadsBackToTheEndOfTheRun(t *testing.T) {
	inBubble(t, session.Options{}, connecting, func(_ *testing.T, d *driver) {
		d.keys("a", "y")
		d.wait(3 * time.Second)
		d.keys("ctrl+c")
		d.wait(time.Second)
		d.keys("x")
		d.at(wizard.Plan)
		d.keys("esc")
		d.at(wizard.Apply)
		d.has("continue where it stopped")
		d.keys("r")
		d.has("ctrl+c stop")
	})
}

// On a large screen nothing that belongs together is far apart.
func TestTheEndOfARunStaysTogether(t *testing.T) {
	inBubble(t, session.Options{}, connecting, func(t *testing.T, d *driver) {
		d.view(200, 60)
		d.keys("a", "y")
		d.wait(3 * time.Second)
		d.keys("ctrl+c")
		d.wait(time.Second)
		d.hasNot("0.0s")
		lines := strings.Split(d.screen(), "\n")
		if at := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "what now?") }); at > 40 {
			t.Errorf("got the choices in line %d:\n%s", at, d.screen())
		}
		for _, line := range lines {
			if strings.Contains(line, "✓ done") && len([]rune(line)) > 120 {
				t.Errorf("got a time far from its step: %s", line)
			}
		}
	})
}
