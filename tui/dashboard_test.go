package tui

import (
	"errors"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/simulated"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/golden"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/tui/session"
	"github.com/liqo-tui/liqo-tui/tui/wizard"
)

// sceneModel is a dashboard of the scene, without a backend.
func sceneModel(t testing.TB, ascii bool) Model {
	now := flowtest.Epoch()
	m := New(t.Context(), session.Options{
		Start: session.StartDashboard, Contexts: contextRefs("rome", "milan", "prod-eu", "edge-07"), ASCII: ascii,
		Now: func() time.Time { return now },
	})
	m.dashboard = dashScene(m.dashboard)
	now = now.Add(1200 * time.Second)
	m.clock = now
	return m
}

// feedTo gives a model messages, and leaves commands undone.
func feedTo(m Model, all ...tea.Msg) Model {
	for _, msg := range all {
		next, _ := m.Update(msg)
		m = next.(Model)
	}
	return m
}

func pressAll(m Model, keys ...string) Model {
	for _, k := range keys {
		m = feedTo(m, press(k))
	}
	return m
}

// Every screen at every size, with colours, without, and in ASCII.
func TestDashboardScreens(t *testing.T) {
	for name, keys := range map[string][]string{
		"list":   nil,
		"wide":   {"w"},
		"sorted": {"L", "down", "down"},
		"filter": {"/", "r", "o", "m", "e"},
		"paused": {"p"},
		"detail": {"down", "enter"},
		"events": {"E"},
		"matrix": {"t"},
		"help":   {"?"},
		"checks": {"D", "?"},
	} {
		for _, ascii := range []bool{false, true} {
			m := pressAll(feedTo(sceneModel(t, ascii), tea.WindowSizeMsg{Width: 120, Height: 40}), keys...)
			text, coloured := screens(t, func(width, height int) Model {
				return feedTo(m, tea.WindowSizeMsg{Width: width, Height: height})
			}, ascii)
			if ascii {
				golden.Compare(t, "dashboard-"+name+"-ascii.txt", text)
				continue
			}
			golden.Compare(t, "dashboard-"+name+".txt", text)
			golden.Compare(t, "dashboard-"+name+"-colour.txt", coloured)
		}
	}
}

// onDashboard runs a test with a dashboard of the pair, which is connected.
func onDashboard(t *testing.T, test func(*testing.T, *driver)) {
	t.Helper()
	inWorld(t, func(p *flowtest.Pair, _ *world) session.Options {
		connectedPair(t)(p)
		return session.Options{Start: session.StartDashboard, InfoCommand: func(of flows.ContextRef, peer wire.ClusterID) command.Command {
			return command.Ours("info", "peer", string(peer)).On(command.Cluster{Context: of.Name})
		}}
	}, func(t *testing.T, d *driver) {
		d.wait(time.Second)
		test(t, d)
	})
}

// The dashboard does not read kubeconfigs again. A choice of clusters does so at once.
func TestANewConnectionOffersAClusterThatWasAddedSince(t *testing.T) {
	onDashboard(t, func(_ *testing.T, d *driver) {
		d.wait(time.Minute)
		d.world.add(session.Context{Ref: refOf("kind-turin"), File: refOf("").File}, d.pair.B)
		d.keys("n")
		d.settle()
		d.has("kind-turin")
	})
}

func TestTheDashboardLeadsToAllThatIsKnown(t *testing.T) {
	onDashboard(t, func(_ *testing.T, d *driver) {
		d.has("Connections", "2 contexts", "1 · untested", "rome", "milan")
		d.keys("enter")
		d.has("Connections › rome → milan", "dials ", "listens ", "seen as ")
		d.keys("pgdown")
		d.has("History no outage", "─────\n12:00", "Round trip")
		d.keys("y")
		d.has("› YAML", "kind: Namespace")
		d.keys("pgdown", "pgdown", "pgdown", "pgdown", "pgdown")
		d.has("kind: Connection")
		d.keys("pgdown", "pgdown")
		d.has("value: Connected")
		d.keys("e")
		d.has("› timeline", "No events.")
		d.keys("D")
		d.has("› diagnosis", "checks", "✓ gateway ", "✓ nodes", "✓ ═")
		d.keys("l")
		d.wait(time.Second)
		d.has("› logs", "rome  pod gw-milan")
		d.keys("esc")
		d.has("listens ")
		d.keys("q")
		d.has("2 contexts")
		d.keys("q")
		if !d.quit {
			t.Error("q on the list does not quit")
		}
	})
}

// A path is judged by two looks: before the second one there is no verdict.
func TestADiagnosisMeasuresBeforeItJudgesAPath(t *testing.T) {
	onDashboard(t, func(_ *testing.T, d *driver) {
		d.pair.B.Behave(func(b *flowtest.Behaviour) { b.WrongKey = true })
		d.keys("enter", "D")
		for range 10 { // until one of the gateways says that it hears nothing
			if d.wait(time.Second); strings.Contains(d.screen(), " ✗  ") {
				break
			}
		}
		d.has("the cause is being measured", "measuring")
		d.hasNot("✓ ═", "ROOT CAUSE")
		d.wait(2 * time.Second) // both do
		d.has("30020 ✗", "ROOT CAUSE")
		d.hasNot("measuring")
	})
}

// Where nothing is wrong there is nothing to leave out.
func TestADiagnosisWithoutProblemsShowsWhatItChecked(t *testing.T) {
	podTraffic := func(r *wire.Report) { r.PodTraffic = &r.At }
	inWorld(t, func(p *flowtest.Pair, w *world) session.Options {
		connectedPair(t)(p)
		w.replace("kind-rome", reporting{p.A, podTraffic})
		w.replace("kind-milan", reporting{p.B, podTraffic})
		return session.Options{Start: session.StartDashboard}
	}, func(_ *testing.T, d *driver) {
		d.wait(2 * time.Minute)
		d.keys("D")
		d.wait(time.Minute)
		d.view(120, 60)
		d.has("37 of 37 checks passed", "the keys match", "Not looked at here: definitions of Liqo's API, policies let the peer in. ")
		d.hasNot("shows them", "all or only problems")
	})
}

// What helps against what the diagnosis has found is a plan like any other: it is shown, it
// asks, and back leads to the diagnosis.
func TestTheRemedyOfADiagnosisIsAPlan(t *testing.T) {
	onDashboard(t, func(t *testing.T, d *driver) {
		d.pair.Join("rome", "milan", func(l *simulated.Link) { l.Closed = true })
		d.wait(20 * time.Second)
		d.keys("D")
		d.has("LT-D020", "ROOT CAUSE", "30020 ✗", "c  copy: ", "a  plan: let milan dial", "rome reported at 12:0")
		d.keys("c")
		if !strings.HasPrefix(d.clip, "firewall: allow UDP") && !strings.Contains(d.clip, "allow UDP") {
			t.Errorf("got %q copied, want the firewall's rule", d.clip)
		}
		d.keys("a")
		d.at(wizard.Plan)
		d.has("server on rome", "GatewayServer", "What it means")
		d.keys("esc")
		d.has("› diagnosis", "LT-D020")
		d.keys("esc")
		d.has("2 contexts")
		d.keys("D")
		d.wait(30 * time.Second)
		d.keys("a", "a")
		d.has("Apply these changes?")
		if log := d.pair.Log(); len(log) > 0 {
			t.Fatalf("got writes %v without a yes", log)
		}
		d.keys("y")
		d.wait(30 * time.Second)
		if server, _ := flows.ServerSide([2]flows.Reading{d.pair.A.Facts().End("milan").Reading(), d.pair.B.Facts().End("rome").Reading()}); server != flows.A {
			t.Error("milan does not dial")
		}
	})
}

func TestTheDashboardShowsALostClusterAndALostTunnel(t *testing.T) {
	onDashboard(t, func(t *testing.T, d *driver) {
		d.pair.B.Behave(func(b *flowtest.Behaviour) { b.Unreachable = []flowtest.Window{{From: 1}} })
		d.wait(5 * time.Second)
		d.has("? unreachable", "no answer from milan for ", "does not answer", "rome", "1 ? unreachable")
		d.hasNot("· untested")
		d.keys("enter")
		d.settle()
		d.keys("pgdown")
		d.has("Last 24 h", "rome        ", "up ", "milan       not known: ", "does not answer")
		d.keys("D")
		d.has("LT-D001", "ROOT CAUSE", "Fix:")
		d.keys("esc", "esc")
		d.pair.B.Behave(func(b *flowtest.Behaviour) { b.Unreachable, b.WrongKey = nil, true })
		d.wait(15 * time.Second)
		d.has("1 ✗ down")
		d.keys("E")
		d.has("rome/milan: down (was ", "rome/milan: unreachable (was untested)")
		d.keys("esc", "enter", "pgdown", "up", "up")
		d.has("1 outage since 12:0", "(history begins there)", "Last 24 h")
	})
}

func TestWhatIsOnAPausedScreenStays(t *testing.T) {
	onDashboard(t, func(_ *testing.T, d *driver) {
		d.keys("z")
		d.pair.B.Behave(func(b *flowtest.Behaviour) { b.WrongKey = true })
		d.wait(15 * time.Second)
		d.has("· untested", "paused at 12:")
		d.keys("z")
		d.has("✗ down")
		d.hasNot("paused")
	})
}

// The clusters go on to report during a pause. So nothing has become stale when it ends.
func TestAPauseMakesNothingStale(t *testing.T) {
	onDashboard(t, func(_ *testing.T, d *driver) {
		d.wait(time.Minute)
		d.keys("z")
		d.wait(2 * time.Minute)
		d.keys("z", "E")
		d.hasNot("stale")
	})
}

func TestDisconnectingFromTheDashboard(t *testing.T) {
	onDashboard(t, func(t *testing.T, d *driver) {
		for _, key := range []string{"x", "X"} { // one key, and whatever is usually pressed next, but for yes
			d.keys(key, "enter", "esc", "esc", "esc")
			d.has("2 contexts")
		}
		if log := d.pair.Log(); len(log) > 0 {
			t.Fatalf("got writes %v without a yes", log)
		}
		d.keys("x")
		d.has("1 2 3 4 Plan 5 6", "\n4 to delete\n") // nobody was asked before, and nothing has a server
		d.keys("a")
		d.has("The connection ends.")
		d.keys("y")
		d.wait(20 * time.Second)
		d.keys("esc")
		d.wait(time.Second)
		d.has("2 contexts", "1 · no gateways")
	})
}

func TestAPeeringThatGoesWhileItIsShown(t *testing.T) {
	onDashboard(t, func(t *testing.T, d *driver) {
		d.keys("enter")
		for _, c := range []*flowtest.Cluster{d.pair.A, d.pair.B} {
			c.Behave(func(b *flowtest.Behaviour) { b.Silent = true })
			for _, o := range c.Objects() {
				c.Remove(o)
			}
		}
		d.wait(5 * time.Second)
		d.has("Nothing is known of this peering, or no more.")
		d.keys("x", "X", "C", "v", "y", "l", "D", "c")
		d.has("Connections")
		d.hasNot("Plan")
		d.keys("esc")
		d.has("None of these clusters has a peer")
	})
}

func TestOtherWaysFromTheDashboard(t *testing.T) {
	onDashboard(t, func(t *testing.T, d *driver) {
		d.keys("c")
		if want := "liqo-tui info peer milan --context kind-rome"; d.clip != want || d.model.Summary() != want {
			t.Errorf("got %q copied and %q printed at the end, want %q", d.clip, d.model.Summary(), want)
		}
		d.keys("C")
		d.has("rome", "milan", "Gateway server on")
		d.keys("esc", "esc")
		d.has("2 contexts")
		d.keys("n")
		d.has("Choose the first")
		d.keys("esc")
		d.has("2 contexts")
		d.keys("/", "x", "y", "z", "enter")
		d.has("0 of 1  filter: xyz", "No connection matches")
		d.keys("esc")
		d.has("· untested")
	})
}

func TestTheScreenIsSavedAsText(t *testing.T) {
	t.Chdir(t.TempDir())
	onDashboard(t, func(t *testing.T, d *driver) {
		screen := d.screen()
		d.keys("s")
		d.has("The screen is in", "/001/liqo-tui-2026") // with its folder
		d.keys("s")                                     // in the same second: nothing is overwritten
		d.has("-2.txt")
		files, err := os.ReadDir(".")
		if err != nil || len(files) != 2 {
			t.Fatalf("got files %v, error %v", files, err)
		}
		text, err := os.ReadFile(files[1].Name()) // "-" sorts before "."
		if err != nil || string(text) != screen {
			t.Errorf("got %v and\n%s\nwant\n%s", err, text, screen)
		}
	})
}

// A colleague who has neither the program nor the clusters reads what was known, and when.
func TestAReportHasAllPagesOfAPeering(t *testing.T) {
	t.Chdir(t.TempDir())
	onDashboard(t, func(t *testing.T, d *driver) {
		d.keys("o")
		d.wait(time.Second)
		d.has("The report is in", "/001/liqo-tui-2026")
		files, err := os.ReadDir(".")
		if err != nil || len(files) != 1 {
			t.Fatalf("got files %v, error %v", files, err)
		}
		text, err := os.ReadFile(files[0].Name())
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{
			"# rome/milan: untested\n", "Written by liqo-tui at 2026-", "## Details\n\n```\n", "dials       172.18.0.20:30020", "## Timeline\n", "───\n", "No events.",
			"## Diagnosis\n", "LT-D020 rome → milan UDP between the gateways", "## Logs\n", "rome  pod gw-milan", "milan  pod gw-rome",
		} {
			if !strings.Contains(string(text), want) {
				t.Errorf("the report does not say %q:\n%s", want, text)
			}
		}
		for _, key := range []string{"Press ", "copy:", "plan:", "shows them"} {
			if strings.Contains(string(text), key) {
				t.Errorf("the report names a key (%s), which a file does not have:\n%s", key, text)
			}
		}
		if strings.ContainsRune(string(text), '\x1b') {
			t.Errorf("the report draws on the terminal: %q", text)
		}
	})
}

// FuzzDashboard presses any keys on a dashboard while clusters misbehave; what
// must not happen is the same as in [FuzzUpdate].
func FuzzDashboard(f *testing.F) {
	f.Add([]byte("\x02\x01\rD\xd1\xf4ely\x1b\x1bq"))
	f.Add([]byte("x\r\x1bSLNTAp\xf4p/a\x1b"))
	f.Add([]byte("\rxay\xf4\xf4\x1b\xd2\xf4vC"))
	f.Fuzz(playDashboard)
}

func TestRandomDashboardScripts(t *testing.T) {
	const likely = "omw\xc8\xc9\xca\xcb\r\x1b\x01\x02\x04DelyEpsNSLTAxXCvnc/ra?jG"
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		var script []byte
		for range 60 {
			b := byte(r.UintN(256))
			if r.UintN(3) > 0 {
				b = likely[r.IntN(len(likely))]
			}
			if (b == 'q' || b == 3) && r.UintN(4) > 0 {
				continue // or few would last
			}
			script = append(script, b)
		}
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) { playDashboard(t, script) })
	}
}

func playDashboard(t *testing.T, script []byte) {
	const longest = 200
	t.Chdir(t.TempDir()) // s saves the screen
	script = script[:min(len(script), longest)]
	onDashboard(t, playing(script))
}

func TestAKubeconfigThatCantBeReadIsSaidOnTheDashboard(t *testing.T) {
	inWorld(t, func(p *flowtest.Pair, w *world) session.Options {
		connectedPair(t)(p)
		w.problems = []error{errors.New("read kubeconfig /home/ada/.kube/config: yaml: line 3")}
		w.contexts, w.files["later"] = nil, w.contexts
		return session.Options{Start: session.StartDashboard}
	}, func(_ *testing.T, d *driver) {
		d.has("There are no contexts", "✗ read kubeconfig /home/ada/.kube/config: yaml: line 3")
		d.world.mu.Lock()
		d.world.problems, d.world.contexts = nil, d.world.files["later"]
		d.world.mu.Unlock()
		d.wait(10 * time.Second)
		d.has("1 · untested")
		d.hasNot("read kubeconfig")
	})
}

type nothingReal struct{}

func (nothingReal) Play(session.Trick, [2]flows.ContextRef) string { return "" }

// A demonstration needs no more of a terminal than the program does: on the lowest one, its mark is in the title.
func TestADemonstrationNeedsNoHigherTerminal(t *testing.T) {
	m := sceneModel(t, false)
	m.options.Demo = nothingReal{}
	for height, want := range map[int]bool{minHeight - 1: true, minHeight: false, minHeight + 1: false} {
		got := ansi.Strip(feedTo(m, tea.WindowSizeMsg{Width: minWidth, Height: height}).View().Content)
		if said := strings.Contains(strings.ReplaceAll(got, "\n", " "), "needs 40x12"); said != want || !strings.HasPrefix(got, " DEMO ") {
			t.Errorf("at %d lines: got\n%s", height, got)
		}
		if lines := strings.Count(got, "\n") + 1; lines > height {
			t.Errorf("at %d lines: got %d", height, lines)
		}
	}
	if got := m.Summary(); !strings.HasPrefix(got, "This was a demonstration") {
		t.Errorf("got %q at the end, want it to say that nothing was real", got)
	}
}
