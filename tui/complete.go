package tui

import (
	"os"
	"path/filepath"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/keys"
)

// completedMsg has the possible continuations of a path that was typed.
type completedMsg struct {
	typed string
	path  string   // the common beginning of all matching paths
	names []string // the names of all matching files, if there are several
}

func complete(typed string) tea.Cmd {
	return func() tea.Msg { return completePath(typed) }
}

// completePath returns the continuations of a path, as in a shell: a hidden file
// matches only if its dot was typed, and a directory ends with a slash.
func completePath(typed string) completedMsg {
	msg := completedMsg{typed: typed, path: typed}
	dir, begun := filepath.Split(typed)
	look := dir
	if rest, ok := strings.CutPrefix(dir, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			look = filepath.Join(home, rest)
		}
	}
	if look == "" {
		look = "."
	}
	entries, err := os.ReadDir(look)
	if err != nil {
		return msg // the error is shown when the path is submitted
	}
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasPrefix(name, begun) || begun == "" && strings.HasPrefix(name, ".") {
			continue
		}
		if info, err := os.Stat(filepath.Join(look, name)); err == nil && info.IsDir() { // a link to a directory counts as a directory
			name += string(filepath.Separator)
		}
		msg.names = append(msg.names, name)
	}
	if len(msg.names) == 0 {
		return msg
	}
	common := msg.names[0]
	for _, name := range msg.names[1:] {
		for !strings.HasPrefix(name, common) {
			runes := []rune(common)
			common = string(runes[:len(runes)-1])
		}
	}
	msg.path = dir + common
	if len(msg.names) == 1 {
		msg.names = nil
	}
	return msg
}

// completed puts the continuation into the prompt, unless the text has changed
// meanwhile.
func (m Model) completed(msg completedMsg) Model {
	if m.prompt == nil || !m.prompt.Path || m.prompt.line.String() != msg.typed {
		return m
	}
	p := *m.prompt
	if msg.path != msg.typed {
		p.line, p.problem = keys.Line{}.Insert(msg.path), ""
	}
	p.names = msg.names
	m.prompt = &p
	return m
}

// nameLines returns lines with the names of matching files, as many as fit.
func (p prompt) nameLines(t draw.Theme, width, height int) []string {
	if len(p.names) == 0 {
		return nil
	}
	lines := t.Wrap(strings.Join(p.names, "  "), width, 0)
	if height = max(1, height); len(lines) > height {
		lines = append(lines[:height-1], t.Ellipsis)
	}
	for i := range lines {
		lines[i] = t.Faint.Render(lines[i])
	}
	return append(lines, "")
}
