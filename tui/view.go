package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/key"
	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/keys"
	"github.com/liqo-tui/liqo-tui/tui/session"
	"github.com/liqo-tui/liqo-tui/tui/wizard"
)

// The size of the smallest terminal on which the screens work.
const (
	minWidth  = 40
	minHeight = 12
)

// headLines counts the lines above the body: the title and the rule.
const headLines = 2

// updateKey gives a key to the topmost part of the screen.
func (m Model) updateKey(msg tea.KeyPressMsg) (Model, tea.Cmd) {
	k := m.keys
	m.touched, m.note = true, ""
	switch {
	case key.Matches(msg, k.Interrupt):
		return m.tell(session.InterruptMsg{})
	case m.tiny():
		// The screen is too small to show an answer to a key, but the admin can always
		// leave. A run does not end by this.
		if key.Matches(msg, k.Quit) && !m.typing() && m.wizard.Step != wizard.Apply {
			return m.quit(nil)
		}
		return m, nil
	case m.showHelp:
		switch {
		case key.Matches(msg, k.Help), key.Matches(msg, k.Back), key.Matches(msg, k.Quit):
			m.showHelp = false
			return m, nil
		}
		return m.scroll(msg)
	case m.prompt != nil:
		return m.updatePrompt(msg)
	}
	if next, cmd, ok := m.typed(msg); ok {
		return next, cmd
	}
	if next, cmd, ok := m.do(msg); ok {
		return next, cmd
	}
	return m.scroll(msg)
}

// typed gives a key to a room in which it is a part of a text, or an answer.
func (m Model) typed(msg tea.KeyPressMsg) (_ Model, _ tea.Cmd, ok bool) {
	if m.onBoard() {
		m.dashboard, ok = m.dashboard.Key(m.env(), msg)
		return m, nil, ok
	}
	var posted []tea.Msg
	var cmd tea.Cmd
	e := m.env()
	e.Post = func(msg tea.Msg) { posted = append(posted, msg) }
	m.wizard, cmd, ok = m.wizard.Key(e, msg)
	m, cmd = m.take(posted, cmd)
	return m, cmd, ok
}

// typing reports whether keys are parts of a text.
func (m Model) typing() bool { return m.prompt != nil || m.wizard.Typing() || m.dashboard.Typing() }

func (m Model) scroll(msg tea.KeyPressMsg) (Model, tea.Cmd) {
	switch {
	case key.Matches(msg, m.keys.Top):
		m.pane.GotoTop()
		return m, nil
	case key.Matches(msg, m.keys.Bottom):
		m.pane.GotoBottom()
		return m, nil
	}
	var cmd tea.Cmd
	m.pane, cmd = m.pane.Update(msg)
	return m, cmd
}

// arrange sets the size and the content of the pane. A pane with another subject starts
// at its top. A pane with the same subject keeps its position, even if the content has
// changed.
func (m Model) arrange() Model {
	var text session.Text
	m.paged = false
	switch {
	case m.tiny():
		return m
	case m.showHelp:
		text = session.Text{ID: "help", Lines: m.helpText(), Height: m.env().Room()}
	default:
		if m.onBoard() {
			m.dashboard = m.dashboard.Follow(m.env())
		}
		if text = m.room().Text(m.env()); text.ID == "" {
			return m
		}
	}
	width := cmp.Or(text.Width, m.width)
	if !text.Sideways {
		for i, line := range text.Lines {
			text.Lines[i] = m.theme.Fit(line, width)
		}
	}
	m.paged = text.Height >= m.env().Room()
	m.pane.SetWidth(width)
	m.pane.SetHeight(text.Height)
	follows := text.Tail && (m.pane.AtBottom() || text.ID != m.paneKey)
	m.pane.SetContentLines(text.Lines)
	if text.ID != m.paneKey {
		m.pane.GotoTop()
		m.pane.EnsureVisible(text.Cursor, 0, 0)
		m.paneKey = text.ID
	}
	if follows {
		m.pane.GotoBottom()
	}
	return m
}

func (m Model) paneLines() []string {
	if m.pane.Height() == 0 {
		return nil
	}
	lines := strings.Split(m.pane.View(), "\n")
	// A pane with the full height shows its position in the rule above it.
	if left := m.pane.TotalLineCount() - m.pane.YOffset() - m.pane.Height(); !m.paged && left > 0 && len(lines) > 1 {
		more := fmt.Sprintf("%d more lines: %s", left+1, keys.Called(m.keys.PageDown))
		lines[len(lines)-1] = m.theme.Faint.Render(more)
	}
	return lines
}

// position names the visible lines of a page; "" if all lines are visible, or if the
// pane is only a part of the screen.
func (m Model) position() string {
	total := m.pane.TotalLineCount()
	if !m.paged || m.prompt != nil && !m.showHelp || total <= m.pane.Height() {
		return ""
	}
	return fmt.Sprintf("lines %d to %d of %d", m.pane.YOffset()+1, min(total, m.pane.YOffset()+min(m.pane.Height(), m.bodyHeight())), total)
}

func (m Model) tiny() bool { return m.width < minWidth || m.height < minHeight }

// View draws the model.
func (m Model) View() tea.View {
	v := tea.NewView(m.bannered(m.content()))
	v.AltScreen = true
	if m.mouse {
		v.MouseMode = tea.MouseModeCellMotion
	}
	v.WindowTitle = strings.TrimSpace("liqo-tui " + m.demonstration() + m.theme.Plain(m.wizard.Name(m.env())))
	if m.wizard.Busy() {
		v.ProgressBar = tea.NewProgressBar(tea.ProgressBarIndeterminate, 0)
	}
	return v
}

func (m Model) content() string {
	switch {
	case m.width <= 0 || m.height <= 0:
		return "" // the size is not known yet
	case m.tiny():
		text := fmt.Sprintf("%s (liqo-tui needs %dx%d)", m.room().Gist(m.env()), minWidth, minHeight)
		lines := m.theme.Wrap(text, m.width, 0)
		return strings.Join(lines[:min(len(lines), m.height)], "\n")
	}
	height := m.bodyHeight()
	body := m.body(height)
	lines := make([]string, 0, m.height)
	rule := m.theme.RuleLine("", m.width)
	if !m.showHelp {
		rule = m.room().Heading(m.env())
	}
	if where := m.position(); where != "" {
		rule = m.theme.RuleLine(where, m.width)
	}
	lines = append(lines, m.titleLine(), rule)
	for i := range height {
		lines = append(lines, draw.At(body, i))
	}
	for _, text := range m.noteLines() {
		lines = append(lines, m.theme.Label.Render(text))
	}
	m.help.SetWidth(m.width)
	bindings := m.short()
	short := m.help.ShortHelpView(bindings)
	for draw.Cells(short) > m.width && len(bindings) > 1 { // package bubbles writes too long lines if its ellipsis has no room
		bindings = bindings[:len(bindings)-1]
		short = m.help.ShortHelpView(bindings) + m.theme.Faint.Render(m.theme.Ellipsis)
	}
	lines = append(lines, short)
	for i, line := range lines {
		lines[i] = strings.TrimRight(m.theme.Fit(line, m.width), " ")
	}
	return strings.Join(lines, "\n")
}

// noteLines returns the lines below the body with the answer to the latest key.
func (m Model) noteLines() []string {
	if m.note == "" {
		return nil
	}
	lines := m.theme.Wrap(m.note, m.width, 0)
	return lines[:max(0, min(len(lines), m.height-session.FrameLines-1))]
}

func (m Model) bodyHeight() int { return max(0, m.height-session.FrameLines-len(m.noteLines())) }

func (m Model) body(height int) []string {
	switch {
	case m.showHelp:
		return m.paneLines()
	case m.prompt != nil:
		return m.promptBody(height)
	}
	e := m.env()
	e.Pane = m.paneLines
	return m.room().View(e)
}

// titleLine returns the title: the subject, the place in the program, and the time.
func (m Model) titleLine() string {
	t := m.theme
	what, right := t.Title.Render("Help"), t.Faint.Render(m.clock.Format(time.TimeOnly))
	if !m.showHelp {
		what, right = m.room().Title(m.env()), m.room().Progress(m.env())
	}
	mark := ""
	if m.options.Demo != nil && m.low {
		mark = t.Cursor.Render(demoMark) + " "
	}
	left := mark + t.Title.Render("liqo-tui") + "  " + what
	if room := m.width - draw.Cells(right) - 2; draw.Cells(left) > room {
		left = mark + t.Fit(what, max(0, room-draw.Cells(mark)))
	}
	return draw.Pad(left, m.width-draw.Cells(right)) + right
}

// helpColumn is the width of a column of help.
const helpColumn = 38

// helpText returns the help about the commands of the screen, in groups. If there is
// room, the groups are beside each other.
func (m Model) helpText() []string {
	t := m.theme
	commands := m.commands()
	for _, c := range []keys.Command{{Binding: m.keys.PageUp, Group: keys.Move}, {Binding: m.keys.PageDown, Group: keys.Move}, {Binding: m.keys.Interrupt, Group: keys.Everywhere}} {
		if !slices.ContainsFunc(commands, func(o keys.Command) bool { return slices.Equal(o.Keys(), c.Keys()) }) {
			commands = append(commands, c)
		}
	}
	commands = slices.DeleteFunc(commands, func(c keys.Command) bool { return !c.Enabled() })
	names := keys.Column(commands, 8)
	columns := make([][]string, max(1, min(m.width/helpColumn, 4)))
	width := m.width / len(columns)
	for g := range keys.Groups {
		var block []string
		for _, c := range commands {
			if c.Group == g {
				block = append(block, t.Fit("  "+t.Title.Render(draw.Pad(keys.Called(c.Binding), names))+c.Help().Desc, width-1))
			}
		}
		if len(block) == 0 {
			continue
		}
		shortest := 0
		for i := range columns {
			if len(columns[i]) < len(columns[shortest]) {
				shortest = i
			}
		}
		columns[shortest] = slices.Concat(columns[shortest], []string{t.Label.Render(g.String())}, block, []string{""})
	}
	var lines []string
	for i := range slices.MaxFunc(columns, func(a, b []string) int { return len(a) - len(b) }) {
		line := ""
		for c := range columns {
			line = draw.Pad(line, c*width) + draw.At(columns[c], i)
		}
		lines = append(lines, line)
	}
	if m.onBoard() {
		return append(lines, m.dashboard.Legend(m.env())...)
	}
	lines = append(lines, t.Wrap("Tunnel up: the gateways answer each other's pings. Connected: packets went from pod to pod, too.", m.width, 0)...)
	if command := m.wizard.CommandLine(m.env()); command != "" {
		lines = append(lines, "", "The same as a command:")
		lines = append(lines, t.Command("  ", command, m.width)...)
	}
	return append(append(lines, ""), m.wizard.Legend(m.env())...)
}
