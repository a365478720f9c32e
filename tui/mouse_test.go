package tui

import (
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/tui/board"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

func TestTheMouseIsForWhoAsksForIt(t *testing.T) {
	inChoice(t, crowd, func(t *testing.T, d *driver) {
		if got := d.model.View().MouseMode; got != tea.MouseModeNone {
			t.Errorf("got mouse mode %v, which takes selecting from the terminal", got)
		}
		d.keys("m")
		if got := d.model.View().MouseMode; got != tea.MouseModeCellMotion {
			t.Errorf("got mouse mode %v after asking for it", got)
		}
		d.has("The mouse selects")
		d.keys("g")
		before := d.selected()
		d.send(tea.MouseWheelMsg{Button: tea.MouseWheelDown})
		if d.selected() == before {
			t.Error("the wheel does not move the selection")
		}
		d.keys("m")
		if got := d.model.View().MouseMode; got != tea.MouseModeNone {
			t.Errorf("got mouse mode %v", got)
		}
	})
}

// click presses the left button on the first text like this on the screen.
func (d *driver) click(text string) {
	d.t.Helper()
	x, y := find(d.t, d.model, text)
	d.send(tea.MouseClickMsg{Button: tea.MouseLeft, X: x, Y: y})
}

// find is where a text is on the screen.
func find(t testing.TB, m Model, text string) (x, y int) {
	t.Helper()
	screen := ansi.Strip(m.View().Content)
	for y, line := range strings.Split(screen, "\n") {
		if before, _, ok := strings.Cut(line, text); ok {
			return ansi.StringWidth(before), y
		}
	}
	t.Fatalf("%q is not on the screen:\n%s", text, screen)
	return 0, 0
}

func TestClicksOnTheDashboard(t *testing.T) {
	for _, size := range [][2]int{{80, 24}, {120, 40}, {40, 12}, {60, 20}} {
		m := feedTo(sceneModel(t, false), tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		click := func(text string) {
			t.Helper()
			x, y := find(t, m, text)
			m = feedTo(m, tea.MouseClickMsg{Button: tea.MouseLeft, X: x, Y: y})
		}
		before := m.View().Content
		if click("turin"); m.View().Content != before {
			t.Fatalf("%v: a click selects, and nobody asked for the mouse", size)
		}
		m = pressAll(m, "m", "g")
		click("turin")
		if got := m.dashboard.Subject(); m.dashboard.Detail || got == nil || got.ID != board.PairOf("rome", "turin") {
			t.Fatalf("%v: got %+v selected, want the row of turin", size, got)
		}
		click("STATUS")
		if got := m.dashboard.Board.Order; got.By != board.ByStatus || !got.Reverse {
			t.Errorf("%v: got order %+v, want the other way round", size, got)
		}
		if got := m.dashboard.Subject(); got.ID != board.PairOf("rome", "turin") {
			t.Errorf("%v: after sorting %v is selected, want still turin's", size, got.ID)
		}
		click("RTT")
		if got := m.dashboard.Board.Order; got.By != board.ByLatency {
			t.Errorf("%v: got order %+v, want by latency", size, got)
		}
		m = feedTo(m, tea.MouseClickMsg{Button: tea.MouseLeft, X: 3, Y: size[1] - 1}) // the keys
		m = feedTo(m, tea.MouseClickMsg{Button: tea.MouseLeft, X: 3, Y: 0})
		m = feedTo(m, tea.MouseClickMsg{Button: tea.MouseRight, X: 3, Y: 7})
		if m.dashboard.Detail || m.dashboard.Subject().ID != board.PairOf("rome", "turin") {
			t.Fatalf("%v: a click beside the list does something", size)
		}
		click("turin")
		if !m.dashboard.Detail || m.dashboard.Subject().ID != board.PairOf("rome", "turin") {
			t.Errorf("%v: a click on the selected row does not open it", size)
		}
	}
}

func TestAClickOnThePaneOpensIt(t *testing.T) {
	m := pressAll(feedTo(sceneModel(t, false), tea.WindowSizeMsg{Width: 120, Height: 40}), "m", "down")
	id := m.dashboard.Subject().ID
	m = feedTo(m, tea.MouseClickMsg{Button: tea.MouseLeft, X: 100, Y: 20})
	if !m.dashboard.Detail || m.dashboard.Subject().ID != id {
		t.Error("it does not")
	}
}

func TestClicksOnTheListOfClusters(t *testing.T) {
	inChoice(t, crowd, func(t *testing.T, d *driver) {
		d.keys("m")
		d.click("kind-milan")
		if got := d.selected(); !strings.Contains(got, "kind-milan") || d.model.wizard.Pair() != [2]flows.ContextRef{} {
			t.Fatalf("got %q selected, and %v chosen", got, d.model.wizard.Pair())
		}
		d.click("kind-milan")
		if d.model.wizard.Pair()[flows.A] != refOf("kind-milan") {
			t.Error("a click on the selected cluster does not choose it")
		}
	})
}

// A click never answers the question before something is changed.
func TestAClickIsNoYes(t *testing.T) {
	inBubble(t, session.Options{}, nil, func(t *testing.T, d *driver) {
		d.keys("m", "a")
		d.has("Apply these changes?")
		for y := range 24 {
			for range 2 {
				d.send(tea.MouseClickMsg{Button: tea.MouseLeft, X: 4, Y: y})
			}
		}
		d.wait(time.Second)
		d.has("Apply these changes?", "┃ Yes, apply")
		if log := d.pair.Log(); len(log) > 0 {
			t.Errorf("got writes %v", log)
		}
	})
}
