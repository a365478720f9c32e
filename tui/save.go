package tui

import (
	"fmt"
	"os"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"
)

// savedMsg tells what became of a screen that was to be saved.
type savedMsg struct {
	file string
	err  error
}

// saveScreen writes the screen as text into a new file of the working directory.
func (m Model) saveScreen() (Model, tea.Cmd) {
	text := ansi.Strip(m.bannered(m.content())) + "\n"
	file := "liqo-tui-" + m.clock.Format("20060102-150405") + ".txt"
	return m, func() tea.Msg {
		f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return savedMsg{file, err}
		}
		_, err = f.WriteString(text)
		if closed := f.Close(); err == nil {
			err = closed
		}
		return savedMsg{file, err}
	}
}

func (m Model) updateSaved(msg savedMsg) Model {
	m.note = "The screen is in " + msg.file + "."
	if msg.err != nil {
		m.note = fmt.Sprintf("The screen was not saved: %v.", msg.err)
	}
	return m
}
