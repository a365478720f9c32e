package wizard

import (
	"fmt"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/setting"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/keys"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// Text returns the part of the screen that scrolls.
func (w Wizard) Text(e session.Env) session.Text {
	c, _ := w.headed(w.scene(e))
	switch {
	case w.Step == Preflight && w.preflight.explain:
		return session.Text{ID: "explain", Lines: w.preflight.text(c), Height: e.Room()}
	case w.Step == Clusters && w.clusters.info:
		return session.Text{ID: "info", Lines: w.clusters.text(c), Height: e.Room()}
	case w.Step == Live:
		return session.Text{ID: "live", Lines: w.live.text(c), Height: e.Room()}
	case w.Step == Reach:
		return session.Text{ID: fmt.Sprint("reach", w.reach.phase), Lines: w.reach.text(c), Height: e.Room()}
	case w.Step == Apply && w.apply.reading() != pageSteps:
		return w.apply.pageText(c)
	case w.Step == Apply && !w.apply.active():
		return session.Text{ID: "ended", Lines: w.apply.text(c), Height: max(1, e.Room()-len(w.apply.choiceRows(c)))}
	case w.Step == Plan:
		return w.plan.text(c)
	}
	return session.Text{}
}

// View draws the screen, or the question before a change.
func (w Wizard) View(e session.Env) []string {
	c := w.scene(e)
	if w.confirm != nil {
		return w.confirm.view(c)
	}
	switch w.Step {
	case Clusters:
		return w.clusters.view(c)
	case Preflight:
		return w.preflight.view(c)
	case Settings:
		return w.form.view(c)
	case Plan:
		below, picture := w.headed(c)
		return append(picture, w.plan.view(below)...)
	case Apply:
		below, picture := w.headed(c)
		return append(picture, w.apply.view(below)...)
	case Live, Reach, Away:
	}
	return e.Pane()
}

// Heading returns the line above the screen.
func (w Wizard) Heading(e session.Env) string {
	if w.Step == Plan && w.plan.zoom {
		return w.plan.heading(w.scene(e))
	}
	return e.Theme.RuleLine("", e.Width)
}

// Title returns the subject of the screen.
func (w Wizard) Title(e session.Env) string {
	c, t := w.scene(e), e.Theme
	if !c.chosen(flows.B) {
		return t.Title.Render("Connect two clusters")
	}
	what := t.Side(flows.A, c.name(flows.A), 0) + " " + t.Between + " " + t.Side(flows.B, c.name(flows.B), 0)
	if w.goal != session.Connect {
		what += "  " + t.Marks[draw.Warn].Render(c.goalName())
	}
	return what
}

// Name returns the names of the pair as plain text; "" if no pair is chosen.
func (w Wizard) Name(e session.Env) string {
	c := w.scene(e)
	if !c.chosen(flows.B) {
		return ""
	}
	return c.name(flows.A) + " " + e.Theme.Between + " " + c.name(flows.B)
}

// Progress returns the steps with their results, the name of the present one, and the time. All names are shown if
// there is room. An admin who comes from the dashboard has done no step.
func (w Wizard) Progress(e session.Env) string {
	const program = 10 + 2 // the name of the program, and a space
	if all := w.steps(e, true); draw.Cells(w.Title(e))+draw.Cells(all)+program <= e.Width {
		return all
	}
	return w.steps(e, false)
}

func (w Wizard) steps(e session.Env, named bool) string {
	var words []string
	apart := " "
	if named {
		apart = "  "
	}
	for s := Clusters; s <= Live; s++ {
		word, look := fmt.Sprint(int(s)), e.Theme.Faint
		switch {
		case s == w.Step:
			look = e.Theme.Title
		case s >= w.Step || w.visiting:
		case s > Clusters && w.Step == Live && w.apply.phase == phaseNone: // these clusters were connected before
		case s == Apply && (w.apply.phase == phaseFailed || w.apply.phase == phaseStopped):
			word += e.Theme.Glyphs[draw.Fail]
		default:
			word += e.Theme.Done
		}
		if s == w.Step || named {
			word += " " + s.String()
		}
		words = append(words, look.Render(word))
	}
	return strings.Join(words, apart) + "  " + e.Theme.Faint.Render(e.Now.Format(time.TimeOnly))
}

// Gist returns the state of everything in a few words.
func (w Wizard) Gist(e session.Env) string {
	c := w.scene(e)
	switch {
	case w.confirm != nil:
		return "asks whether to apply"
	case w.Step == Apply:
		return map[phase]string{
			phaseRunning: "applying", phaseStopping: "stopping", phaseStopped: "stopped", phaseFailed: "failed", phaseDone: "done",
		}[w.apply.phase]
	case w.Step == Clusters:
		return "asks for a cluster"
	case w.Step == Preflight:
		return w.preflight.tally(e.Theme.Dot)
	case w.Step == Settings:
		return "asks how to connect"
	case w.Step == Reach:
		return "asks for a Service"
	case w.Step == Live:
		return c.name(flows.A) + ": " + c.status(flows.A).word + ", " + c.name(flows.B) + ": " + c.status(flows.B).word
	case !c.planned():
		return "looking at both clusters"
	case w.Current.Failure() != nil:
		return "can't connect yet"
	}
	return "plan ready"
}

// Answering returns the keys that answer the present question; nil if there is none.
func (w Wizard) Answering(k keys.Map) []key.Binding {
	q, no := w.confirm, keys.Named(k.No, "see the plan")
	if w.Step == Reach {
		q, no = w.reach.ask, k.No
	}
	switch {
	case q == nil:
		return nil
	case q.word != "":
		return []key.Binding{keys.Named(k.Enter, "apply if the name is right"), keys.Named(k.Back, "no")}
	}
	return []key.Binding{keys.Named(k.Enter, "confirm"), k.Choose, k.Yes, no}
}

// Typing reports whether keys are parts of a text.
func (w Wizard) Typing() bool {
	return w.clusters.filtering || w.confirm != nil && w.confirm.word != "" || w.Step == Reach && w.reach.ask != nil && w.reach.ask.word != ""
}

// Writes reports whether letters are parts of a text in the form.
func (w Wizard) Writes(e session.Env) bool {
	return w.Step == Settings && w.form.focused(w.scene(e)).Kind != setting.Choice
}

// Running reports whether a plan is being applied.
func (w Wizard) Running() bool { return w.apply.active() || w.reach.phase == reachRunning }

// Busy reports whether the screen shows a run that has not ended.
func (w Wizard) Busy() bool {
	return w.Step == Apply && w.apply.active() || w.Step == Reach && w.reach.phase == reachRunning
}

// Pair returns the clusters of the task; zero: not chosen.
func (w Wizard) Pair() [2]flows.ContextRef { return w.pair }

// Works reports whether a cluster is one of these.
func (w Wizard) Works(ref flows.ContextRef) bool { return w.paired(ref) }

// Verified returns the latest measurement with packets.
func (w Wizard) Verified() session.Verification { return w.live.verify }

// Measures reports whether a measurement runs. It has test pods on both clusters.
func (w Wizard) Measures() bool { return w.live.verify.Running() || w.reach.phase == reachCalling }

// Changed reports whether any cluster was changed.
func (w Wizard) Changed() bool { return w.apply.changed || w.apply.before || w.reach.changed }

// CommandLine returns the command that does the same without this program; "" if no pair is chosen, or no
// command does it.
func (w Wizard) CommandLine(e session.Env) string {
	c := w.scene(e)
	if !c.chosen(flows.B) {
		return ""
	}
	return c.command()
}

// removals are the commands that remove the connection, and what was installed for it.
func (w Wizard) removals(c scene) string {
	commands := []string{"Remove the whole connection: " + c.commandFor(session.Reset)}
	for _, s := range []flows.Side{flows.A, flows.B} {
		if w.apply.changed && c.wanted.Install[s] != nil {
			commands = append(commands, fmt.Sprintf("Remove the operator, too: %s", c.on(s).Good.Ours("uninstall")))
		}
	}
	return strings.Join(commands, "\n")
}

// Summary returns the text for the terminal after the end of the program.
func (w Wizard) Summary(e session.Env) string {
	c := w.scene(e)
	if of := w.apply.of; w.apply.changed && w.pair != of.pair {
		// The result of a run matters more than clusters that were shown later.
		c.task, w.Step = of, Apply
		if w.apply.phase == phaseDone {
			w.Step = Live
		}
	}
	a, b := string(c.id(flows.A)), string(c.id(flows.B))
	switch {
	case w.apply.phase == phaseDone && w.apply.goal != session.Connect && !w.apply.partial && w.Step == Live:
		return fmt.Sprintf("%s and %s are no longer connected.\nConnect again: %s", a, b, c.commandFor(session.Connect))
	case w.Step == Live, w.Step == Reach, w.plan.pinned && w.Step == Plan && w.goal == session.Connect && w.Current.Done():
		return fmt.Sprintf("%s says: %s; %s says: %s.\n%s", a, c.status(flows.A).word, b, c.status(flows.B).word, w.removals(c))
	case w.apply.changed && w.apply.goal != session.Connect && !w.apply.partial:
		return "What was not removed stays.\nContinue: " + c.commandFor(w.apply.goal)
	case w.apply.changed:
		return "What was applied stays.\nContinue: " + c.commandFor(session.Connect) + "\n" + w.removals(c)
	case w.Step == Plan && c.planned() && w.Current.Failure() == nil:
		return w.unchanged() + "\nThe same as a command: " + c.command()
	}
	return w.unchanged()
}

// unchanged says that the last run has changed nothing, and what earlier ones have left.
func (w Wizard) unchanged() string {
	switch {
	case w.reach.changed:
		return "The exported Services stay exported. Nothing else was changed."
	case w.apply.before:
		return "The changes of earlier runs stay. Nothing else was changed."
	}
	return "Nothing was changed."
}

// largeBody is the height from which on a foot is directly below its list. At the end of a high screen,
// nobody would look for the explanation of a row.
const largeBody = 30

// below puts a foot below a list. On a small screen it is at the end, so that the list has room to grow.
func (c scene) below(lines, foot []string) []string {
	at := c.Body - len(foot)
	if c.Body > largeBody {
		at = min(at, len(lines)+1)
	}
	for len(lines) < at {
		lines = append(lines, "")
	}
	return append(lines, foot...)
}

// Legend explains the signs of the screen.
func (w Wizard) Legend(e session.Env) []string {
	switch w.Step {
	case Preflight:
		return e.Theme.Legend(e.Theme.CheckLegend(check.Measuring), e.Width)
	case Plan, Apply:
		return e.Theme.Legend(e.Theme.StepLegend(), e.Width)
	case Away, Clusters, Settings, Live, Reach:
	}
	return nil
}
