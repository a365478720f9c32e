package tui

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/liqo-tui/liqo-tui/tui/session"
)

type savedMsg struct {
	what, file string
	err        error
}

// save writes a text, or the text of the screen, into a new file in the working
// directory.
func (m Model) save(msg session.SaveMsg) (Model, tea.Cmd) {
	if msg.Text == "" {
		msg = session.SaveMsg{What: "screen", Text: ansi.Strip(m.bannered(m.content())) + "\n", Suffix: ".txt"}
	}
	name := "liqo-tui-" + m.clock.Format("20060102-150405")
	return m, func() tea.Msg {
		file, f, err := newFile(name, msg.Suffix)
		if err != nil {
			return savedMsg{msg.What, file, err}
		}
		_, err = f.WriteString(msg.Text)
		if closed := f.Close(); err == nil {
			err = closed
		}
		return savedMsg{msg.What, file, err}
	}
}

// newFile creates a file with this name. If the name exists, it adds a number.
func newFile(name, suffix string) (file string, f *os.File, err error) {
	for n := 1; n < 10; n++ {
		if file = name + suffix; n > 1 {
			file = fmt.Sprintf("%s-%d%s", name, n, suffix)
		}
		if path, err := filepath.Abs(file); err == nil {
			file = path // the full path is shown, so that the admin can find the file later
		}
		f, err = os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return file, f, err
}

func (m Model) updateSaved(msg savedMsg) Model {
	m.note = "The " + msg.what + " is in " + msg.file + "."
	if msg.err != nil {
		m.note = fmt.Sprintf("The %s was not saved: %v.", msg.what, msg.err)
	}
	return m
}
