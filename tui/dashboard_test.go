package tui

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/charmbracelet/x/ansi"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/render"
)

// sceneModel is a dashboard of the scene, without a backend.
func sceneModel(t *testing.T, ascii bool) Model {
	now := flowtest.Epoch().Add(1200 * time.Second)
	m := New(t.Context(), Options{
		Start: StartDashboard, Contexts: contextRefs("rome", "milan", "prod-eu", "edge-07"), ASCII: ascii,
		Now: func() time.Time { return now },
	})
	m.dashboard.board = scene()
	m.dashboard.list.board = m.dashboard.board
	m.clock = now
	return m
}

// feedTo gives a model messages, and leaves commands undone.
func feedTo(m Model, all ...tea.Msg) Model {
	for _, msg := range all {
		next, _ := m.Update(msg)
		m = next.(Model)
	}
	return m
}

func TestLook(t *testing.T) {
	if os.Getenv("LOOK") == "" {
		t.Skip()
	}
	for _, size := range [][2]int{{120, 40}, {80, 24}, {60, 20}, {40, 12}, {20, 5}} {
		m := feedTo(sceneModel(t, false), tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		fmt.Println(m.View().Content)
		m = feedTo(m, press("down"), press("enter"))
		fmt.Println(m.View().Content)
		m = feedTo(m, press("e"))
		fmt.Println(m.View().Content)
	}
}

var (
	_ = filepath.Join
	_ = ansi.Strip
	_ flows.Side
	_ render.ClusterID
)
