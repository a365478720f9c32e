package wizard

import (
	"fmt"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/setting"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/keys"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// around is the program around a wizard whose clusters have answered. What the
// wizard asks of it is in posted.
func around(width, height int) (e session.Env, pair [2]flows.ContextRef, posted *[]tea.Msg) {
	posted = new([]tea.Msg)
	e = session.Env{
		Now: flowtest.Epoch(), Theme: draw.NewTheme(false, false), Keys: keys.NewMap(false),
		Width: width, Height: height, Body: height - session.FrameLines,
		Pane: func() []string { return nil },
		Post: func(msg tea.Msg) { *posted = append(*posted, msg) },
	}
	p := flowtest.NewPair()
	for i, c := range []*flowtest.Cluster{p.A, p.B} {
		pair[i] = c.Facts().Context
		e.Fleet = e.Fleet.With(session.Member{Context: session.Context{Ref: pair[i]}}).Learn(pair[i], c.Facts(), e.Now)
	}
	e.Fleet.Listed = e.Now
	return e, pair, posted
}

func TestEveryScreenIsDrawnWithoutTheProgram(t *testing.T) {
	for _, size := range [][2]int{{120, 40}, {80, 24}, {40, 12}} {
		e, pair, _ := around(size[0], size[1])
		w := New(session.Options{A: pair[flows.A], B: pair[flows.B], Params: flows.Defaults()}).Replan(e)
		c := w.scene(e)
		for name, test := range map[string]struct {
			lines []string
			want  string
		}{
			"clusters":  {w.clusters.view(c), "kind-rome"},
			"preflight": {w.preflight.evaluate(c).view(c), "passed"},
			"settings":  {w.form.open(c).view(c), "Gateway server on"},
			"plan":      {w.plan.view(c), "Apply: 8 changes"},
			"apply":     {applyScreen{phase: phaseRunning}.view(c), "Looking at both clusters"},
			"live":      {w.live.text(c), "both sides say: not connected"},
			"question":  {c.askFor(w.Current).view(c), "Apply these changes?"},
		} {
			text := ansi.Strip(strings.Join(test.lines, "\n"))
			if !strings.Contains(text, test.want) {
				t.Errorf("%v: %s does not say %q:\n%s", size, name, test.want, text)
			}
			if got := len(test.lines); name != "live" && got > e.Body { // that one scrolls
				t.Errorf("%v: %s has %d lines, want at most %d", size, name, got, e.Body)
			}
		}
	}
}

// planned is an installation that nobody has made yet.
type planned struct{ flows.Installation }

func (planned) ClusterID() wire.ClusterID { return "milan" }

// Until an installation has ended, nobody knows the addresses. Until a run has ended, a connection with one side is no
// failure.
func TestThePictureForetellsOnlyWhatIsKnown(t *testing.T) {
	e, pair, _ := around(120, 40)
	w := New(session.Options{A: pair[flows.A], B: pair[flows.B], Params: flows.Defaults()}).Replan(e)
	w.Step = Plan
	seen := func(w Wizard) string {
		c, picture := w.headed(w.scene(e))
		if len(picture) == 0 || !c.Theme.Frames() || c.Body+len(picture) != e.Body {
			t.Fatalf("got %d lines of a picture above %d of %d lines", len(picture), c.Body, e.Body)
		}
		return ansi.Strip(strings.Join(picture, "\n"))
	}
	if got := seen(w); strings.Count(got, "seen as     2") != 2 {
		t.Errorf("got\n%s\nwant both ranges", got)
	}
	bare := flowtest.NewPair().B
	bare.Bare()
	e.Fleet = e.Fleet.Learn(pair[flows.B], bare.Facts(), e.Now)
	w.wanted.Install[flows.B] = planned{}
	if got := seen(w); strings.Count(got, "seen as     -") != 2 || !strings.Contains(got, "pods        10.244.0.0/16") {
		t.Errorf("before the installation: got\n%s", got)
	}
	for running, want := range map[bool]draw.Mark{false: draw.Fail, true: draw.Running} {
		if got := w.scene(e).picture(e.Theme, view.Verdict{State: view.OneSided}, running).Line; got != want {
			t.Errorf("running %t: got mark %v, want %v", running, got, want)
		}
	}
}

// All panels together are as high as the screen, and no line of them is wider.
func TestPanelsFillThePlanAndTheRun(t *testing.T) {
	for _, size := range [][2]int{{200, 60}, {120, 40}, {100, 30}} {
		e, pair, _ := around(size[0], size[1])
		w := New(session.Options{A: pair[flows.A], B: pair[flows.B], Params: flows.Defaults()}).Replan(e)
		run := applyScreen{phase: phaseRunning, began: e.Now}
		run.event.Plan = w.Current
		w.plan = w.plan.keep(w.Current)
		for step, draws := range map[Step]func(Wizard) Wizard{
			Plan:  func(w Wizard) Wizard { return w },
			Apply: func(w Wizard) Wizard { w.apply = run; return w },
		} {
			w := draws(w)
			w.Step = step
			lines := w.View(e)
			if len(lines) != e.Body {
				t.Errorf("%v, step %v: got %d lines, want %d", size, step, len(lines), e.Body)
			}
			for _, line := range lines {
				if got := draw.Cells(line); got > e.Width {
					t.Errorf("%v, step %v: got %d cells: %q", size, step, got, ansi.Strip(line))
				}
			}
		}
	}
}

func TestAClusterIsChosenOnce(t *testing.T) {
	e, pair, posted := around(80, 24)
	w := New(session.Options{Params: flows.Defaults()})
	w.clusters.selected = pair[flows.A]
	w, _ = w.Update(e, actChoose)
	if len(*posted) != 1 || (*posted)[0] != chosenMsg(pair[flows.A]) {
		t.Fatalf("got %v asked of the wizard, want cluster A", *posted)
	}
	w, _ = w.Update(e, (*posted)[0])
	if w.Pair() != [2]flows.ContextRef{pair[flows.A]} {
		t.Fatalf("got the pair %v", w.Pair())
	}
	if w.clusters.selected != pair[flows.B] {
		t.Errorf("got %v selected, want what can be chosen next", w.clusters.selected)
	}
	w.clusters.selected = pair[flows.A]
	_, _ = w.Update(e, actChoose)
	if note, ok := (*posted)[1].(session.NoteMsg); !ok || !strings.Contains(string(note), "it is chosen already") {
		t.Errorf("got %v for the same cluster again, want why not", (*posted)[1:])
	}
}

func TestAFormWithAProblemIsNotSubmitted(t *testing.T) {
	e, pair, posted := around(80, 24)
	w := New(session.Options{A: pair[flows.A], B: pair[flows.B], Params: flows.Defaults()}).Replan(e)
	w = w.openSettings(e)
	w.form.texts = with(w.form.texts, "mtu", keys.Line{}.Insert("12"))
	w, _ = w.Update(e, actSubmit)
	if note, ok := (*posted)[0].(session.NoteMsg); !ok || !strings.HasPrefix(string(note), "MTU at most: ") || w.form.focus != "mtu" {
		t.Fatalf("got %v, and field %v in focus", *posted, w.form.focus)
	}
	w.form.texts = with(w.form.texts, "mtu", keys.Line{}.Insert("1300"))
	_, _ = w.Update(e, actSubmit)
	if p, ok := (*posted)[1].(submittedMsg); !ok || p.MTU != 1300 {
		t.Errorf("got %v, want the form with its MTU", (*posted)[1:])
	}
}

// An entry of the table is all that a field of the form needs.
func TestASettingOfTheTableIsAField(t *testing.T) {
	e, pair, posted := around(80, 40)
	got := "3"
	cable := flows.ConnectionSetting{
		Name: "cable", Label: "Colour of the cable", Explain: "It is laid out in the sun.", Want: "a colour code", Kind: setting.Number, Min: 3, Max: 9,
		Store: setting.Store[flows.Params]{Write: func(flows.Params) string { return got }, Read: func(_ *flows.Params, text string) { got = text }},
	}
	w := New(session.Options{A: pair[flows.A], B: pair[flows.B], Params: flows.Defaults(), Settings: append(flows.Settings(), cable)}).Replan(e)
	w = w.openSettings(e)
	w.form.focus = "cable"
	w.form.texts = with(w.form.texts, "cable", keys.Line{}.Insert("12"))
	w, _ = w.Update(e, actSubmit)
	text := ansi.Strip(strings.Join(w.View(e), "\n"))
	for _, want := range []string{"Colour of the cable", "It is laid out in the sun.", "want a colour code, 3 to 9"} {
		if !strings.Contains(text, want) {
			t.Errorf("the form does not say %q:\n%s", want, text)
		}
	}
	w.form.texts = with(w.form.texts, "cable", keys.Line{}.Insert("7"))
	_, _ = w.Update(e, actSubmit)
	if p, ok := (*posted)[len(*posted)-1].(submittedMsg); !ok || got != "7" {
		t.Errorf("got %v and the cable %s, want the form with cable 7", p, got)
	}
}

// On the smallest screen a list that goes on says so, too.
func TestAListOfClustersThatGoesOnSaysSo(t *testing.T) {
	e, _, _ := around(40, 12)
	for i := range 20 {
		e.Fleet = e.Fleet.With(session.Member{Context: session.Context{
			Ref: flows.ContextRef{Name: fmt.Sprintf("edge-%02d", i)}, Problem: strings.Repeat("its certificate can't be read; ", 8),
		}})
	}
	w := New(session.Options{Params: flows.Defaults()})
	for _, want := range []string{"1 of 22", "9 of 22", "22 of 22"} {
		lines := w.View(e)
		if text := ansi.Strip(strings.Join(lines, "\n")); !strings.Contains(text, want) || len(lines) > e.Body {
			t.Errorf("got\n%s\nwant %q in %d lines", text, want, e.Body)
		}
		w, _ = w.Update(e, keys.MoveMsg(8))
		if want == "9 of 22" {
			w, _ = w.Update(e, keys.MoveMsg(8))
		}
	}
}

// Each change is shown whole, with the condition of a deletion, or counted.
func TestTheQuestionCountsTheChangesThatHaveNoRoom(t *testing.T) {
	const condition = "needs the other deletions; kept if anything else is in it"
	var p flows.Plan
	for i := range 9 {
		p.Steps = append(p.Steps, flows.Step{ID: flows.StepID(fmt.Sprint(i)), Action: flows.Delete, Status: flows.Blocked, Title: fmt.Sprintf("Namespace ns%d", i), Reason: condition})
	}
	for _, size := range [][2]int{{120, 40}, {80, 24}, {60, 20}} {
		e, pair, _ := around(size[0], size[1])
		w := New(session.Options{A: pair[flows.A], B: pair[flows.B], Params: flows.Defaults()}).Replan(e)
		lines := confirm{plan: p}.view(w.scene(e))
		text := strings.Join(strings.Fields(ansi.Strip(strings.Join(lines, " "))), " ")
		shown, rest := strings.Count(text, condition), 0
		_, _ = fmt.Sscanf(ansi.Strip(lines[len(lines)-1]), "and %d more", &rest)
		if shown == 0 || shown+rest != len(p.Steps) || strings.Count(text, "Namespace ns") != shown || len(lines) > e.Body {
			t.Errorf("%v: %d changes are whole and %d counted, want %d in %d lines:\n%s", size, shown, rest, len(p.Steps), e.Body, strings.Join(lines, "\n"))
		}
	}
}
