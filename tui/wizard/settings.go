package wizard

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/connect"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/flows/peer"
	"github.com/liqo-tui/liqo-tui/flows/setting"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/keys"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// settingsScreen is the form for the settings of a connection. It keeps what was typed,
// even in fields that have no effect now, and invalid texts. Its maps have the names of
// settings as keys, and are never changed in place.
type settingsScreen struct {
	focus    string       // the name of a setting
	draft    flows.Params // the chosen values, without texts that are still being typed
	texts    map[string]keys.Line
	problems map[string]string
	chosen   flows.Fields // the fields that differ from the suggestion
	left     bool         // the admin went back before the form was submitted
	explain  bool
}

func with[V any](m map[string]V, key string, value V) map[string]V {
	m = maps.Clone(m)
	m[key] = value
	return m
}

// settings returns the fields of the form in their order. Options have the names of the
// clusters.
func (c scene) settings() []flows.ConnectionSetting {
	a, b := c.name(flows.A), c.name(flows.B)
	return slices.Concat(c.installSettings(), peer.Form(c.facts(), a, b), flows.Form(c.options.Settings, a, b))
}

// installSettings returns the settings for clusters without an operator: their IDs, and
// the image.
func (c scene) installSettings() []flows.ConnectionSetting {
	var out []flows.ConnectionSetting
	installs := false
	for _, s := range []flows.Side{flows.A, flows.B} {
		facts := c.on(s).Good
		if c.options.Install == nil || !facts.Installable() {
			continue
		}
		installs = true
		if facts.ID != "" {
			continue
		}
		var made flows.Installation // with the ID that was found valid
		out = append(out, flows.ConnectionSetting{
			Name: [...]string{"cluster-id", "remote-cluster-id"}[s], Label: "ID of " + c.Fleet.Call(c.on(s)),
			Valid: func(text string) (err error) {
				if err = wire.ClusterID(text).Choose(); err == nil {
					made, err = c.options.Install(facts, wire.ClusterID(text))
				}
				return err
			},
			Store: setting.Store[flows.Params]{
				Write: func(p flows.Params) string {
					if p.Install[s] == nil {
						return ""
					}
					return string(p.Install[s].ClusterID())
				},
				Read: func(p *flows.Params, _ string) {
					image := install.ImageSetting()
					before := image.Write(*p)
					p.Install[s] = made
					image.Read(p, before) // the image may have been chosen already
				},
			},
			Explain: "The operator is installed there first. Other clusters know it by this ID: lower-case letters, digits and dashes. It can't be changed later without ending all its connections.",
		})
	}
	if installs {
		out = append(out, install.ImageSetting())
	}
	return out
}

// open fills the form with the present values. Text that was typed before the admin left
// the form stays.
func (s settingsScreen) open(c scene) settingsScreen {
	before := s
	s = settingsScreen{draft: c.params, explain: s.explain, texts: map[string]keys.Line{}, problems: map[string]string{}}
	for _, f := range c.settings() {
		s.texts[f.Name] = keys.Line{}.Insert(f.Write(c.params))
		switch kept := f.Sets == 0 || before.chosen.Has(f.Sets); {
		case !before.left || !kept:
		case f.Kind == setting.Choice:
			f.Read(&s.draft, f.Write(before.draft))
			s.chosen |= f.Sets
		default:
			s.texts[f.Name] = before.texts[f.Name]
			s.chosen |= f.Sets
		}
	}
	s.focus = flows.Form(c.options.Settings, "", "")[0].Name
	return s
}

// shown returns the fields that have an effect now.
func (s settingsScreen) shown(c scene) []flows.ConnectionSetting {
	return slices.DeleteFunc(c.settings(), func(f flows.ConnectionSetting) bool { return !s.draft.Uses(f) })
}

func (s settingsScreen) focused(c scene) flows.ConnectionSetting {
	fields := s.shown(c)
	return fields[max(0, slices.IndexFunc(fields, func(f flows.ConnectionSetting) bool { return f.Name == s.focus }))]
}

func (s settingsScreen) commands(c scene) []keys.Command {
	k := c.Keys
	commands := []keys.Command{
		{Binding: keys.Named(k.Enter, "see the plan"), Msg: actSubmit},
		{Binding: k.Back, Msg: goBack},
		{Binding: k.Previous, Msg: keys.MoveMsg(-1), Quiet: true},
		{Binding: k.Next, Msg: keys.MoveMsg(+1)},
	}
	if c.Height < explained {
		commands = append(commands, keys.Command{Binding: k.Explain, Msg: actExplain})
	}
	if s.focused(c).Kind == setting.Choice {
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
		if f := s.focused(c); f.Kind != setting.Choice {
			return s.typed(f, s.texts[f.Name].Insert(msg.Content))
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

// key handles a key that edits a text; ok is false for any other key.
func (s settingsScreen) key(c scene, msg tea.KeyPressMsg) (_ settingsScreen, ok bool) {
	f := s.focused(c)
	if f.Kind == setting.Choice || msg.String() == "?" {
		return s, false // the key asks for help; no valid text contains it
	}
	edited, ok := s.texts[f.Name].Update(msg)
	return s.typed(f, edited), ok
}

// typed sets the text of a field. A shown problem disappears when the text becomes valid.
func (s settingsScreen) typed(f flows.ConnectionSetting, text keys.Line) settingsScreen {
	if text.String() != s.texts[f.Name].String() {
		s.chosen |= f.Sets
	}
	s.texts = with(s.texts, f.Name, text)
	if s.problems[f.Name] != "" {
		s = s.check(f)
	}
	return s
}

// check parses the text of a field.
func (s settingsScreen) check(f flows.ConnectionSetting) settingsScreen {
	if f.Kind == setting.Choice {
		return s
	}
	problem := ""
	if err := f.Set(&s.draft, strings.TrimSpace(s.texts[f.Name].String())); err != nil {
		problem = err.Error()
	}
	s.problems = with(s.problems, f.Name, problem)
	return s
}

func (s settingsScreen) move(c scene, by int) settingsScreen {
	fields, f := s.shown(c), s.focused(c)
	s = s.check(f)
	i := slices.IndexFunc(fields, func(g flows.ConnectionSetting) bool { return g.Name == f.Name })
	s.focus = fields[(i+by+len(fields))%len(fields)].Name
	return s
}

func (s settingsScreen) choose(c scene, by int) settingsScreen {
	f := s.focused(c)
	i := f.Option(s.draft)
	if next := min(max(i+by, 0), len(f.Options)-1); next != i {
		f.Read(&s.draft, f.Options[next].Value)
		s.chosen |= f.Sets
	}
	return s
}

// submit shows the plan, unless a field has a problem.
func (s settingsScreen) submit(c scene) settingsScreen {
	for _, f := range c.settings() {
		if !s.draft.Uses(f) {
			f.Read(&s.draft, "")
		}
	}
	for _, f := range slices.Backward(s.shown(c)) {
		if s = s.check(f); s.problems[f.Name] != "" {
			s.focus = f.Name
		}
	}
	for _, f := range s.shown(c) {
		if s.problems[f.Name] != "" {
			c.Post(session.NoteMsg(fmt.Sprintf("%s: %s.", f.Label, s.problems[f.Name])))
			return s
		}
	}
	s.draft.Given |= s.chosen
	c.Post(submittedMsg(s.draft))
	return s
}

// suggestion returns the value that the clusters' facts suggest, with the reason.
func (s settingsScreen) suggestion(c scene, f flows.ConnectionSetting) string {
	if !f.Auto {
		return ""
	}
	p, why := connect.Suggestion(f, s.draft, c.facts())
	first, _, _ := strings.Cut(f.Value(p), " ")
	return fmt.Sprintf("Suggested: %s, because %s.", first, why)
}

func (c scene) labelWidth() int {
	if c.Width < 60 {
		return 18 // leaves room for the longest word for an empty text
	}
	return 20
}

func (s settingsScreen) view(c scene) []string {
	outer := c.Width
	c = c.framed()
	t := c.Theme
	var lines []string
	at := 0
	focus := s.focused(c)
	for _, f := range s.shown(c) {
		if f.Name == focus.Name {
			at = len(lines)
		}
		lines = append(lines, s.line(c, f, f.Name == focus.Name))
		if problem := s.problems[f.Name]; problem != "" {
			for _, text := range t.Clauses(t.Glyphs[draw.Fail]+" "+problem, c.Width-c.labelWidth()-2) {
				lines = append(lines, draw.Pad("", c.labelWidth()+2)+t.Marks[draw.Fail].Render(text))
			}
		}
	}
	foot := s.foot(c, focus)
	if t.Frames() {
		help := draw.Panel{Title: t.Title.Render(t.Plain(focus.Label)), Lines: foot[1:]}
		fields := draw.Panel{Title: t.Title.Render("Settings"), Lines: draw.Window(lines, at, max(1, c.Body-len(foot)-2*t.Edges())), Grows: true}
		return t.Stack(outer, c.Body, []draw.Panel{fields}, []draw.Panel{help})
	}
	if len(lines)+len(foot) > c.Body && !s.explain {
		foot = nil
	}
	lines = draw.Window(lines, at, max(1, c.Body-len(foot)))
	return c.below(lines, foot)
}

func (s settingsScreen) line(c scene, f flows.ConnectionSetting, focused bool) string {
	t := c.Theme
	label := t.Label.Render(draw.Pad(t.Middle(f.Label, c.labelWidth()-1), c.labelWidth()))
	room := c.Width - c.labelWidth() - 2
	if f.Kind != setting.Choice {
		text := s.texts[f.Name]
		if text.String() == "" && f.Empty != "" {
			return c.Theme.Row(focused, label+t.Fit(t.Instead(f.Empty, focused), room), c.Width)
		}
		return c.Theme.Row(focused, label+text.View(t, room, focused), c.Width)
	}
	chosen := f.Option(s.draft)
	words := make([]string, len(f.Options))
	for i, option := range f.Options {
		words[i] = t.Radio[0] + " " + t.Plain(option.String())
		if i == chosen {
			words[i] = t.Radio[1] + " " + t.Plain(option.String())
		}
	}
	value := strings.Join(words, "  ")
	if len([]rune(value)) > room {
		count := fmt.Sprintf(" (%d/%d)", chosen+1, len(f.Options))
		value = t.Fit(t.Plain(f.Options[chosen].String()), room-len(count)) + count
	}
	return c.Theme.Row(focused, label+value, c.Width)
}

// explained is the smallest height on which the form explains each field without a
// request.
const explained = 20

// foot explains the field, or the options of its choice.
func (s settingsScreen) foot(c scene, f flows.ConnectionSetting) []string {
	t := c.Theme
	lines := []string{c.Theme.RuleLine(f.Label, c.Width)}
	if s.explain || c.Height >= explained {
		lines = append(lines, t.Clauses(f.Explain, c.Width)...)
		if why := s.suggestion(c, f); why != "" {
			lines = append(lines, t.Clauses(why, c.Width)...)
		}
		return lines
	}
	return append(lines, t.Faint.Render(keys.Called(c.Keys.Explain)+" explains this field"))
}
