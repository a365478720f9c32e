package wizard

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/keys"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// confirm is the question before a change. It keeps the plan of the question, because
// the yes is only for this plan.
type confirm struct {
	plan flows.Plan
	yes  bool // the choice that enter confirms
	// quiet is the last time at which enter was pressed. Enter has led to this question,
	// so a key that is held down, or pressed twice, must not answer it.
	quiet time.Time
	// word is the text that the admin has to type instead if a protected cluster is
	// changed.
	word    string
	typed   keys.Line
	problem string // of the typed text
}

// pause is the time without enter after which enter answers. It is longer than the time
// between the presses of a double press, and longer than the delay before a held key
// repeats.
const pause = 700 * time.Millisecond

// decision is the admin's answer.
type decision uint8

const (
	actionNone decision = iota // no answer yet
	actionCancel
	actionApply
)

func (q confirm) update(msg tea.KeyPressMsg, k keys.Map, now time.Time) (confirm, decision) {
	if q.word != "" {
		return q.updateWord(msg, k)
	}
	if key.Matches(msg, k.Enter) {
		hasty := now.Sub(q.quiet) < pause
		if q.quiet = now; hasty {
			return q, actionNone
		}
	}
	switch {
	case key.Matches(msg, k.Yes):
		return q, actionApply
	case key.Matches(msg, k.No), key.Matches(msg, k.Quit):
		return q, actionCancel
	case key.Matches(msg, k.Choose):
		q.yes = !q.yes
	case key.Matches(msg, k.Enter) && q.yes:
		return q, actionApply
	case key.Matches(msg, k.Enter):
		return q, actionCancel
	}
	return q, actionNone
}

// updateWord handles a key if only a word approves the plan.
func (q confirm) updateWord(msg tea.KeyPressMsg, k keys.Map) (confirm, decision) {
	switch {
	case key.Matches(msg, k.Back):
		return q, actionCancel
	case key.Matches(msg, k.Enter) && strings.TrimSpace(q.typed.String()) == q.word:
		return q, actionApply
	case key.Matches(msg, k.Enter):
		q.problem = "this is not " + q.word
	default:
		q.typed, _ = q.typed.Update(msg)
		q.problem = ""
	}
	return q, actionNone
}

// askFor returns the question about a plan. If the plan only adds objects, enter means
// yes, so that an admin who has read the plan continues as on all earlier screens.
func (c scene) askFor(p flows.Plan) *confirm {
	return &confirm{plan: p, yes: onlyAdds(p), word: strings.Join(c.protected(), " "), quiet: c.Now}
}

// onlyAdds reports whether a plan changes and deletes no existing object, and interrupts
// nothing.
func onlyAdds(p flows.Plan) bool {
	changes := p.Changes()
	return changes == flows.Summary{Create: changes.Create} && len(p.Interrupts()) == 0
}

// protected returns the contexts of the clusters that the goal changes and whose names
// have to be typed.
func (c scene) protected() []string {
	var names []string
	for _, s := range []flows.Side{flows.A, flows.B} {
		ref := c.pair[s]
		if s == flows.B && c.goal != session.Connect && c.localOnly || !c.isProtected(ref) || slices.Contains(names, ref.Name) {
			continue
		}
		names = append(names, ref.Name)
	}
	return names
}

// view draws the question, in a panel if there is room for frames.
func (q confirm) view(c scene) []string {
	inner := c.framed()
	t := inner.Theme
	if !t.Frames() {
		return q.lines(c)
	}
	inner.Body -= t.Edges() - 2 // its first two lines are the title
	lines := q.lines(inner)
	p := draw.Panel{Title: lines[0], Lines: lines[2:], Grows: true}
	if !onlyAdds(q.plan) {
		p.Mark = draw.Warn
	}
	return t.Stack(c.Width, c.Body, []draw.Panel{p})
}

// lines returns the question, and below it what the answer means.
func (q confirm) lines(c scene) []string {
	t := c.Theme
	question, act := "Apply these changes?", "Yes, apply"
	if c.made != nil {
		act = "Yes, remove"
	} else if c.goal != session.Connect {
		question, act = "Apply these changes? The connection ends.", "Yes, "+c.goal.String()
	}
	lines := []string{t.Title.Render(question), ""}
	if q.word == "" {
		lines = append(lines, c.Theme.Row(!q.yes, "Not yet", c.Width), c.Theme.Row(q.yes, act, c.Width), "")
	} else {
		lines = append(lines, q.wordLines(c)...)
	}
	if c.Body >= roomy {
		lines = append(append(lines, c.counted(q.plan)), c.passed()...)
	}
	means := c.outlook(q.plan)
	if room := c.Body - len(lines) - minList; len(means) >= room { // interruptions are shown on any screen
		means = c.warnings(q.plan)
	}
	if len(means) > 0 {
		means = append(means, "")
	}
	lines = append(lines, means...)
	changes := slices.DeleteFunc(slices.Clone(q.plan.Steps), func(s flows.Step) bool { return s.Status == flows.Done || !s.Action.Changes() })
	for i, s := range changes {
		change, after := c.change(s), min(1, len(changes)-i-1) // one line counts the remaining changes
		if len(lines)+len(change)+after > c.Body {
			return append(lines, t.Faint.Render(fmt.Sprintf("and %d more", len(changes)-i)))
		}
		lines = append(lines, change...)
	}
	return lines
}

// change returns lines about the change by a step. For a deletion, they have the
// condition.
func (c scene) change(s flows.Step) []string {
	label := c.side(s.Side) + "  " + draw.Pad(s.Action.String(), 6) + " "
	if s.Action != flows.Delete || s.Reason == "" {
		return []string{label + c.Theme.Plain(s.Title)}
	}
	lines := c.Theme.Wrap(s.Title+": "+s.Reason, c.Width, draw.Cells(label))
	lines[0] = label + lines[0]
	return lines
}

// wordLines ask for the names of protected contexts.
func (q confirm) wordLines(c scene) []string {
	t := c.Theme
	what := "This cluster is protected by your configuration: type its context's name, and enter."
	if strings.Contains(q.word, " ") {
		what = "Both clusters are protected by your configuration: type their contexts' names, and enter."
	}
	lines := append(t.Wrap(what, c.Width, 0), "", t.Label.Render(t.Plain(q.word)+" > ")+q.typed.View(t, c.Width-len(q.word)-3, true))
	if q.problem != "" {
		lines = append(lines, t.Marks[draw.Fail].Render(t.Glyphs[draw.Fail]+" "+t.Plain(q.problem)))
	}
	return append(lines, "")
}
