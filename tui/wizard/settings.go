package wizard

import (
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/keys"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// settingsScreen asks how the clusters are to be connected. What was typed
// stays, also in fields that do not apply now, and texts that are no values.
type settingsScreen struct {
	focus    session.FieldID
	draft    flows.Params // of the choices; texts are not in it yet
	texts    [session.FieldCount]keys.Line
	problems [session.FieldCount]string
	chosen   flows.Fields // that differ from what was offered
	explain  bool
}

// settings are the fields in their order. The names are those of the clusters.
func (c scene) settings() []session.Field {
	name := func(s flows.Side) string { return s.String() + " " + c.name(s) }
	return append(c.idSettings(), session.Fields(name(flows.A), name(flows.B))...)
}

// idSettings name the clusters that have no ID yet, because nothing is
// installed there.
func (c scene) idSettings() []session.Field {
	var out []session.Field
	for _, s := range []flows.Side{flows.A, flows.B} {
		facts := c.on(s).Good
		if c.options.Install == nil || !facts.Installable() || facts.ID != "" {
			continue
		}
		out = append(out, session.Field{
			ID: session.FieldIDA + session.FieldID(s), Label: "Cluster ID of " + s.String(), Applies: session.Always,
			Write: func(p flows.Params) string {
				if p.Install[s] == nil {
					return ""
				}
				return string(p.Install[s].ClusterID())
			},
			Read: func(p *flows.Params, text string) (err error) {
				if err := render.ClusterID(text).Validate(); err != nil {
					return err
				}
				p.Install[s], err = c.options.Install(facts, render.ClusterID(text))
				return err
			},
			Explain: "The operator is installed there first. Other clusters will know it by this ID: lower case letters, digits and dashes. It can't be changed later without ending all its connections.",
		})
	}
	return out
}

// open fills the form with what holds now.
func (s settingsScreen) open(c scene) settingsScreen {
	s = settingsScreen{draft: c.params, explain: s.explain, focus: session.FieldServer}
	for _, f := range c.settings() {
		if f.Write != nil {
			s.texts[f.ID] = keys.Line{}.Insert(f.Write(c.params))
		}
	}
	return s
}

// shown are the fields that apply.
func (s settingsScreen) shown(c scene) []session.Field {
	return slices.DeleteFunc(c.settings(), func(f session.Field) bool { return !f.Applies(s.draft) })
}

// focused is the field that keys go to.
func (s settingsScreen) focused(c scene) session.Field {
	fields := s.shown(c)
	return fields[max(0, slices.IndexFunc(fields, func(f session.Field) bool { return f.ID == s.focus }))]
}

func (s settingsScreen) commands(c scene) []keys.Command {
	k := c.Keys
	commands := []keys.Command{
		{Binding: keys.Named(k.Enter, "see the plan"), Msg: actSubmit},
		{Binding: k.Back, Msg: goBack},
		{Binding: k.Explain, Msg: actExplain},
		{Binding: k.Previous, Msg: keys.MoveMsg(-1), Quiet: true},
		{Binding: k.Next, Msg: keys.MoveMsg(+1), Quiet: true},
	}
	if s.focused(c).Options != nil {
		commands = append(commands,
			keys.Command{Binding: k.Left, Msg: actLeft, Quiet: true},
			keys.Command{Binding: k.Right, Msg: actRight},
		)
	}
	return commands
}

func (s settingsScreen) update(c scene, msg tea.Msg) settingsScreen {
	switch msg := msg.(type) {
	case keys.MoveMsg:
		return s.move(c, int(msg))
	case tea.PasteMsg:
		if f := s.focused(c); f.Options == nil {
			return s.typed(f, s.texts[f.ID].Insert(msg.Content))
		}
	case action:
		switch msg {
		case actExplain:
			s.explain = !s.explain
		case actLeft:
			return s.choose(c, -1)
		case actRight:
			return s.choose(c, +1)
		case actSubmit:
			return s.submit(c)
		default:
		}
	}
	return s
}

// key takes a key that edits a text; ok is false for any other.
func (s settingsScreen) key(c scene, msg tea.KeyPressMsg) (_ settingsScreen, ok bool) {
	f := s.focused(c)
	if f.Options != nil || msg.String() == "?" {
		return s, false // none of the texts can have one, and it asks for help
	}
	edited, ok := s.texts[f.ID].Update(msg)
	return s.typed(f, edited), ok
}

// typed puts a text into a field. A problem goes as soon as the text is a value.
func (s settingsScreen) typed(f session.Field, text keys.Line) settingsScreen {
	if text.String() != s.texts[f.ID].String() {
		s.chosen |= f.Sets
	}
	s.texts[f.ID] = text
	if s.problems[f.ID] != "" {
		s = s.check(f)
	}
	return s
}

// check reads the text of a field.
func (s settingsScreen) check(f session.Field) settingsScreen {
	if f.Read == nil {
		return s
	}
	s.problems[f.ID] = ""
	if err := f.Read(&s.draft, strings.TrimSpace(s.texts[f.ID].String())); err != nil {
		s.problems[f.ID] = err.Error()
	}
	return s
}

func (s settingsScreen) move(c scene, by int) settingsScreen {
	fields, f := s.shown(c), s.focused(c)
	s = s.check(f)
	i := slices.IndexFunc(fields, func(g session.Field) bool { return g.ID == f.ID })
	s.focus = fields[(i+by+len(fields))%len(fields)].ID
	return s
}

func (s settingsScreen) choose(c scene, by int) settingsScreen {
	f := s.focused(c)
	i := f.Choice(s.draft)
	if next := min(max(i+by, 0), len(f.Options)-1); next != i {
		f.Choose(&s.draft, next)
		s.chosen |= f.Sets
	}
	return s
}

// submit shows the plan, unless a field has a problem.
func (s settingsScreen) submit(c scene) settingsScreen {
	s.draft.NodePort, s.draft.LoadBalancerIP = 0, "" // unless their fields apply
	for _, f := range slices.Backward(s.shown(c)) {
		if s = s.check(f); s.problems[f.ID] != "" {
			s.focus = f.ID
		}
	}
	for _, f := range s.shown(c) {
		if s.problems[f.ID] != "" {
			c.Post(session.NoteMsg(fmt.Sprintf("%s: %s.", f.Label, s.problems[f.ID])))
			return s
		}
	}
	s.draft.Given |= s.chosen
	c.Post(submittedMsg(s.draft))
	return s
}

// filled are the parameters of a form that may be left half filled, as far as it
// has values.
func (s settingsScreen) filled(c scene) flows.Params {
	draft, given := s.draft, s.chosen
	for _, f := range s.shown(c) {
		if f.Read == nil {
			continue
		}
		before := draft
		if f.Read(&draft, strings.TrimSpace(s.texts[f.ID].String())) != nil {
			draft, given = before, given&^f.Sets
		}
	}
	draft.Given |= given
	return draft
}

// suggestion says what the clusters make likely for a field, and why.
func (s settingsScreen) suggestion(c scene, id session.FieldID) string {
	facts := c.facts()
	switch id {
	case session.FieldServer:
		side, why := check.SuggestServer(facts)
		return fmt.Sprintf("Suggested: %s, because %s.", side, why)
	case session.FieldService:
		kind, why := check.SuggestServiceType(facts.Side(s.draft.Server))
		return fmt.Sprintf("Suggested: %s, because %s.", kind, why)
	default:
		return ""
	}
}

// labelWidth is the room for a field's label.
func (c scene) labelWidth() int {
	if c.Width < 60 {
		return 18 // leaves room for the longest word that stands for no text
	}
	return 20
}

func (s settingsScreen) view(c scene) []string {
	t := c.Theme
	var lines []string
	at := 0
	focus := s.focused(c)
	for _, f := range s.shown(c) {
		if f.ID == focus.ID {
			at = len(lines)
		}
		lines = append(lines, s.line(c, f, f.ID == focus.ID))
		if problem := s.problems[f.ID]; problem != "" {
			for _, text := range t.Wrap(t.Glyphs[draw.Fail]+" "+problem, c.Width-c.labelWidth()-2, 0) {
				lines = append(lines, draw.Pad("", c.labelWidth()+2)+t.Marks[draw.Fail].Render(text))
			}
		}
	}
	foot := s.foot(c, focus)
	if len(lines)+len(foot) > c.Body && !s.explain {
		foot = nil
	}
	lines = draw.Window(lines, at, max(1, c.Body-len(foot)))
	for len(lines)+len(foot) < c.Body {
		lines = append(lines, "")
	}
	return append(lines, foot...)
}

func (s settingsScreen) line(c scene, f session.Field, focused bool) string {
	t := c.Theme
	label := t.Label.Render(draw.Pad(f.Label, c.labelWidth()))
	room := c.Width - c.labelWidth() - 2
	if f.Options == nil {
		text := s.texts[f.ID]
		if text.String() == "" && f.Empty != "" {
			return c.Theme.Row(focused, label+t.Fit(t.Instead(f.Empty, focused), room))
		}
		return c.Theme.Row(focused, label+text.View(t, room, focused))
	}
	chosen := f.Choice(s.draft)
	words := make([]string, len(f.Options))
	for i, option := range f.Options {
		words[i] = t.Radio[0] + " " + t.Plain(option)
		if i == chosen {
			words[i] = t.Radio[1] + " " + t.Plain(option)
		}
	}
	value := strings.Join(words, "  ")
	if len([]rune(value)) > room {
		count := fmt.Sprintf(" (%d/%d)", chosen+1, len(f.Options))
		value = t.Fit(t.Plain(f.Options[chosen]), room-len(count)) + count
	}
	return c.Theme.Row(focused, label+value)
}

// foot explains the field, or says what the choices mean.
func (s settingsScreen) foot(c scene, f session.Field) []string {
	t := c.Theme
	lines := []string{c.Theme.RuleLine(f.Label, c.Width)}
	if s.explain || c.Height >= 20 {
		lines = append(lines, t.Wrap(f.Explain, c.Width, 0)...)
		if why := s.suggestion(c, f.ID); why != "" {
			lines = append(lines, t.Wrap(why, c.Width, 0)...)
		}
		return lines
	}
	return append(lines, t.Faint.Render(keys.Called(c.Keys.Explain)+" explains this field"))
}
