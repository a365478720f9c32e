package tui

import (
	"slices"
	"strings"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"github.com/sahilm/fuzzy"
)

// prompt asks for one line of text, or, as the palette, for one command.
type prompt struct {
	title, explain string
	line           line
	problem        string // with the text; it stays until the text changes
	palette        bool
	selected       int
	// submit takes the text. It may leave the prompt open, with a problem.
	submit func(Model, string) (Model, tea.Cmd)
}

func (m Model) openPalette() Model {
	m.prompt = &prompt{title: "What to do?", palette: true}
	return m
}

// matches are the commands that the palette's text stands for, the best first.
func (m Model) matches(text string) []command {
	commands := slices.DeleteFunc(m.commands(), func(c command) bool { return c.quiet })
	if text = strings.TrimSpace(text); text == "" {
		return commands
	}
	names := make([]string, len(commands))
	for i, c := range commands {
		names[i] = c.Help().Desc
	}
	var out []command
	for _, match := range fuzzy.Find(text, names) {
		out = append(out, commands[match.Index])
	}
	return out
}

func (m Model) updatePrompt(msg tea.KeyPressMsg) (Model, tea.Cmd) {
	p := *m.prompt
	switch {
	case key.Matches(msg, m.keys.back):
		m.prompt = nil
		return m, nil
	case key.Matches(msg, m.keys.enter) && p.palette:
		m.prompt = nil
		matches := m.matches(p.line.String())
		if len(matches) == 0 {
			return m, nil
		}
		return matches[min(p.selected, len(matches)-1)].do(m)
	case key.Matches(msg, m.keys.enter):
		return p.submit(m, p.line.String())
	case p.palette && msg.String() == "up":
		p.selected = max(0, p.selected-1)
	case p.palette && msg.String() == "down":
		p.selected = min(p.selected+1, max(0, len(m.matches(p.line.String()))-1))
	default:
		edited, ok := p.line.update(msg)
		if ok && edited.String() != p.line.String() {
			p.problem, p.selected = "", 0
		}
		p.line = edited
	}
	m.prompt = &p
	return m, nil
}

// paste goes where text is being typed, or nowhere: a paste is no command.
func (m Model) paste(text string) Model {
	switch {
	case m.tiny() || m.showHelp:
	case m.confirm != nil:
		c := *m.confirm
		c.typed, c.problem = c.typed.insert(text), ""
		m.confirm = &c
	case m.prompt != nil:
		p := *m.prompt
		p.line, p.problem, p.selected = p.line.insert(text), "", 0
		m.prompt = &p
	case m.screen == screenSettings && m.focused().Options == nil:
		f := m.focused()
		m = m.typed(f, m.form.texts[f.id].insert(text))
	case m.screen == screenClusters && m.clusters.filtering:
		m.clusters.filter = m.clusters.filter.insert(text)
		m.clusters = m.clusters.keep(m.clusterRows())
	}
	return m
}

func (m Model) promptBody(height int) []string {
	p, t := m.prompt, m.theme
	lines := []string{t.title.Render(p.title), "", t.label.Render("> ") + p.line.view(t, m.width-2, true)}
	if p.problem != "" {
		for _, text := range t.wrap(p.problem, m.width-2, 0) {
			lines = append(lines, "  "+t.marks[markFail].Render(text))
		}
	}
	lines = append(lines, "")
	if !p.palette {
		return append(lines, t.wrap(p.explain, m.width, 0)...)
	}
	matches := m.matches(p.line.String())
	if len(matches) == 0 {
		return append(lines, "No command on this screen matches.")
	}
	rows := make([]string, len(matches))
	selected := min(p.selected, len(matches)-1)
	for i, c := range matches {
		rows[i] = m.cursor(i == selected, pad(c.Help().Desc, 24)+"  "+t.faint.Render(c.Help().Key))
	}
	return append(lines, m.window(rows, selected, max(1, height-len(lines)))...)
}

// cursor is a row of a list: the selected one has a sign and is bold.
func (m Model) cursor(selected bool, row string) string {
	if selected {
		return m.theme.selected.Render("> " + row)
	}
	return "  " + row
}
