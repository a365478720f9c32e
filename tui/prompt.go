package tui

import (
	"fmt"
	"slices"
	"strings"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"
	"github.com/sahilm/fuzzy"

	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/keys"
	"github.com/liqo-tui/liqo-tui/tui/session"
	"github.com/liqo-tui/liqo-tui/tui/wizard"
)

// matches returns the commands that match the palette's text, the best first.
func (m Model) matches(text string) []keys.Command {
	commands := slices.DeleteFunc(m.commands(), func(c keys.Command) bool { return c.Quiet })
	if text = strings.TrimSpace(text); text == "" {
		return commands
	}
	names := make([]string, len(commands))
	for i, c := range commands {
		names[i] = c.Help().Desc
	}
	var out []keys.Command
	for _, match := range fuzzy.Find(text, names) {
		out = append(out, commands[match.Index])
	}
	return out
}

func (m Model) updatePrompt(msg tea.KeyPressMsg) (Model, tea.Cmd) {
	p := *m.prompt
	switch {
	case key.Matches(msg, m.keys.Back):
		m.prompt = nil
		return m, nil
	case key.Matches(msg, m.keys.Enter) && p.palette():
		m.prompt = nil
		matches := m.matches(p.line.String())
		if len(matches) == 0 {
			return m, nil
		}
		return m.update(matches[min(p.selected, len(matches)-1)].Msg)
	case key.Matches(msg, m.keys.Enter):
		var msg tea.Msg
		if msg, p.problem = p.Submit(p.line.String()); p.problem == "" {
			m.prompt = nil
			if _, ok := msg.(session.AddFileMsg); ok {
				m.adding = &p
			}
			return m.update(msg)
		}
	case p.Path && key.Matches(msg, m.keys.Next):
		return m, complete(p.line.String())
	case p.palette() && msg.String() == "up":
		p.selected = max(0, p.selected-1)
	case p.palette() && msg.String() == "down":
		p.selected = min(p.selected+1, max(0, len(m.matches(p.line.String()))-1))
	default:
		edited, ok := p.line.Update(msg)
		if ok && edited.String() != p.line.String() {
			p.problem, p.selected, p.names = "", 0, nil
		}
		p.line = edited
	}
	m.prompt = &p
	return m, nil
}

// paste adds the pasted text to the text that is being typed. Otherwise it is ignored,
// because a paste is no command.
func (m Model) paste(msg tea.PasteMsg) (Model, tea.Cmd) {
	switch {
	case m.tiny() || m.showHelp:
		return m, nil
	case m.prompt != nil:
		p := *m.prompt
		p.line, p.problem, p.selected, p.names = p.line.Insert(msg.Content), "", 0, nil
		m.prompt = &p
		return m, nil
	}
	return m.tell(msg)
}

// added asks for a file again if it can't be read. The prompt shows the path for
// correction, and the problem is not shown in the list.
func (m Model) added(msg contextsMsg) (Model, contextsMsg) {
	files := m.fleet.Added
	if m.adding == nil || msg.added < len(files) {
		return m, msg
	}
	p, file := *m.adding, files[len(files)-1]
	m.adding = nil
	at := slices.IndexFunc(msg.problems, func(err error) bool { return strings.Contains(err.Error(), strings.TrimPrefix(file, "~")) })
	if at < 0 || m.prompt != nil || m.wizard.Step != wizard.Clusters {
		return m, msg
	}
	p.problem = msg.problems[at].Error()
	m.prompt, m.fleet.Added = &p, files[:len(files)-1:len(files)-1]
	msg.problems = slices.Delete(slices.Clone(msg.problems), at, at+1)
	return m, msg
}

func (m Model) promptBody(height int) []string {
	p, t := m.prompt, m.theme
	lines := []string{t.Title.Render(p.Title), "", t.Label.Render("> ") + p.line.View(t, m.width-2, true)}
	if p.problem != "" {
		for _, text := range t.Wrap(p.problem, m.width-2, 0) {
			lines = append(lines, "  "+t.Marks[draw.Fail].Render(text))
		}
	}
	lines = append(lines, "")
	if !p.palette() {
		explain := t.Wrap(p.Explain, m.width, 0)
		return slices.Concat(lines, p.nameLines(t, m.width, height-len(lines)-len(explain)-1), explain)
	}
	matches := m.matches(p.line.String())
	if len(matches) == 0 {
		return append(lines, "No command on this screen matches.")
	}
	rows := make([]string, len(matches))
	selected, names := min(p.selected, len(matches)-1), 0
	for _, c := range matches {
		names = max(names, draw.Cells(c.Help().Desc))
	}
	for i, c := range matches {
		rows[i] = m.theme.Row(i == selected, draw.Pad(c.Help().Desc, names)+"  "+t.Faint.Render(c.Help().Key), m.width)
	}
	room := max(1, height-len(lines))
	if len(rows) <= room || room < 3 {
		return append(lines, draw.Window(rows, selected, room)...)
	}
	lines = append(lines, draw.Window(rows, selected, room-1)...)
	return append(lines, t.Faint.Render(fmt.Sprintf("command %d of %d; type to find one", selected+1, len(rows))))
}
