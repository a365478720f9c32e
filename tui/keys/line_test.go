package keys

import (
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
)

func TestAPasteIsBounded(t *testing.T) {
	novel := strings.Repeat("It was a dark and stormy night; \x1b[2J\x00", 10000)
	if got := len(Line{}.Insert(novel).String()); got > maxLine*4 {
		t.Errorf("got %d bytes kept", got)
	}
}

// Filters have several words, and what is no value has to look like what was typed.
func TestASpaceIsTyped(t *testing.T) {
	var l Line
	for _, r := range "rome !status:ok" {
		l, _ = l.Update(tea.KeyPressMsg{Code: r, Text: string(r)})
	}
	if got := l.String(); got != "rome !status:ok" {
		t.Errorf("got %q", got)
	}
	if got := l.Insert(" \n pasted\nmore").String(); got != "rome !status:okpasted" {
		t.Errorf("got %q", got)
	}
}
