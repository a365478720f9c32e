package wizard

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/keys"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// Two clusters may be looked at one after the other, and one measurement may be
// told twice: neither is a measurement of the other, or a second one.
func TestAWitnessKeepsWhatItsSideMeasured(t *testing.T) {
	now := flowtest.Epoch()
	rome, milan := flows.ContextRef{Name: "kind-rome"}, flows.ContextRef{Name: "kind-milan"}
	r := flows.Reading{Peer: "milan", Exists: true, Value: networkingv1beta1.Connected, At: now, Interval: 10 * time.Second, Latency: 1200 * time.Microsecond}
	w := witness{}.note(now, rome, r)
	earlier := w
	w = w.note(now.Add(session.Bucket), rome, r) // the same again
	r.At, r.Latency = now.Add(2*session.Bucket), 3*time.Millisecond
	w = w.note(now.Add(2*session.Bucket), rome, r)
	points := w.history.Until(now.Add(2*session.Bucket), 3)
	if got := ansi.Strip(draw.NewTheme(true, false).SparkRTT(session.RoundTrips(points), session.Lost(points))); got != "= #" {
		t.Errorf("got %q, want two measurements and the gap between", got)
	}
	if got := len(earlier.history.Points); got != 1 {
		t.Errorf("got %d points in the witness of before, want its one", got)
	}
	if w = w.note(now.Add(3*session.Bucket), milan, r); len(w.history.Points) != 1 {
		t.Errorf("got %d points, want one: the others are of another cluster", len(w.history.Points))
	}
}

// A maximum below the round trip beside it would be no maximum. The bucket of now is not in the line of bars.
func TestTheHighestRoundTripIsNotBelowTheLatest(t *testing.T) {
	now := flowtest.Epoch()
	r := flows.Reading{Peer: "milan", Exists: true, Value: networkingv1beta1.Connected, At: now, Interval: 10 * time.Second, Latency: 63 * time.Millisecond}
	w := witness{}.note(now, flows.ContextRef{}, r)
	now = now.Add(session.Bucket)
	r.At, r.Latency = now, 78*time.Millisecond
	s := liveScreen{witnesses: [2]witness{w.note(now, flows.ContextRef{}, r)}}
	c := scene{Env: session.Env{Theme: draw.NewTheme(true, false), Now: now}}
	if got := ansi.Strip(s.roundTrip(c, flows.A, r, 40)); !strings.HasPrefix(got, "78ms") || !strings.HasSuffix(got, " max 78ms") || draw.Cells(got) != 4+2+liveBuckets+9 {
		t.Errorf("got %q", got)
	}
	if got := ansi.Strip(s.roundTrip(c, flows.A, r, 25)); !strings.HasSuffix(got, " max 78ms") || draw.Cells(got) != 25 {
		t.Errorf("got %q, want fewer of the earlier round trips", got)
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

// A run tells of runs on the same clusters, and not of those on others.
func TestARunOnOtherClustersBeginsAnew(t *testing.T) {
	e, pair, _ := around(120, 40)
	e.Ctx, e.Clock = t.Context(), func() time.Time { return e.Now }
	w := New(session.Options{A: pair[flows.A], B: pair[flows.B], Params: flows.Defaults()}).Replan(e)
	changed, unchanged := []flows.Change{{Verb: flows.Created}}, []flows.Change{{Verb: flows.Unchanged}}
	for name, test := range map[string]struct {
		of                  [2]flows.ContextRef
		changes             []flows.Change
		says, changedBefore bool
	}{
		"the same clusters": {pair, changed, true, true},
		"nothing was to do": {pair, unchanged, false, false},
		"other clusters":    {[2]flows.ContextRef{pair[flows.A], {Name: "turin"}}, changed, false, true},
	} {
		before := applyScreen{of: task{pair: test.of}, log: []engine.Record{{}}}.take(engine.Event{Changes: test.changes})
		s, _ := before.start(w.scene(e), flows.Plan{})
		s.phase, s.err = phaseFailed, errors.New("refused")
		if got := strings.Contains(ansi.Strip(strings.Join(s.card(w.scene(e)), "\n")), "What was applied is kept."); got != test.says || (len(s.log) > 0) != (test.of == pair) {
			t.Errorf("%s: got %v with a log of %d lines, want %v", name, got, len(s.log), test.says)
		}
		if got := (Wizard{apply: s}).Changed(); got != test.changedBefore {
			t.Errorf("%s: changed %v, want %v", name, got, test.changedBefore)
		}
	}
}

// Whoever looks on after a failure is not told that it went well.
func TestAFailedStepHasNoTick(t *testing.T) {
	theme := draw.NewTheme(true, false)
	e := session.Env{Theme: theme, Width: 120, Now: flowtest.Epoch()}
	for how, want := range map[phase]string{phaseDone: "5" + theme.Done, phaseFailed: "5" + theme.Glyphs[draw.Fail], phaseStopped: "5" + theme.Glyphs[draw.Fail]} {
		w := Wizard{Step: Live, apply: applyScreen{phase: how}}
		if got := ansi.Strip(w.Progress(e)); !strings.Contains(got, want) {
			t.Errorf("phase %v: got %q, want %q in it", how, got, want)
		}
	}
}

// The row under the cursor may go at the moment in which the admin presses enter.
func TestEnterNeverMeansAnotherRowThanBefore(t *testing.T) {
	waiting := flows.Plan{Steps: []flows.Step{{ID: "namespace", Status: flows.Done}, {ID: "connected", Action: flows.Wait, Status: flows.Waiting}}}
	connected := flows.Plan{Steps: []flows.Step{{ID: "namespace", Status: flows.Done}, {ID: "connected", Action: flows.Wait, Status: flows.Done}}}
	s := planScreen{}.keep(waiting)
	if s.selected != applyRow {
		t.Fatalf("got %q selected, want the first row", s.selected)
	}
	if s = s.keep(connected); s.selected != noRow {
		t.Errorf("got %q selected, want no row until the admin chooses one", s.selected)
	}
	c := scene{task: task{Current: connected}}
	if s = s.update(c, keys.MoveMsg(1)); s.selected != "namespace" {
		t.Errorf("got %q selected, want the first row", s.selected)
	}
}

func TestStepsHaveNamesWhereThereIsRoom(t *testing.T) {
	e, pair, _ := around(120, 40)
	w := New(session.Options{A: pair[flows.A], B: pair[flows.B], Params: flows.Defaults()})
	w.Step = Plan
	if got := ansi.Strip(w.Progress(e)); !strings.Contains(got, "2✓ Preflight") || !strings.Contains(got, "6 Live") {
		t.Errorf("got %q, want all names", got)
	}
	e.Width = 80
	if got := ansi.Strip(w.Progress(e)); strings.Contains(got, "Preflight") || !strings.Contains(got, "4 Plan") {
		t.Errorf("got %q, want the name of the present step alone", got)
	}
}

// To the plan, what a run has deleted and what never existed are the same.
func TestWhatARunHasDeletedIsCalledSo(t *testing.T) {
	e, pair, _ := around(120, 40)
	c := New(session.Options{A: pair[flows.A], B: pair[flows.B], Params: flows.Defaults()}).scene(e)
	s := applyScreen{phase: phaseDone, times: map[flows.StepID]stepTime{"client": {began: e.Now, ended: e.Now.Add(time.Second)}}}
	for id, want := range map[flows.StepID]string{"client": "deleted", "key": "does not exist"} {
		step := flows.Step{ID: id, Action: flows.Delete, Status: flows.Done, Title: "object", Reason: "does not exist"}
		if got := ansi.Strip(s.row(c, step)); !strings.Contains(got, "object  "+want) {
			t.Errorf("%s: got %q, want %q", id, got, want)
		}
	}
}
