package tui

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

func TestTheYAMLPageShowsWhatTheObjectsAreNow(t *testing.T) {
	onDashboard(t, func(t *testing.T, d *driver) {
		d.keys("enter", "y")
		page := func() string { return d.model.pane.GetContent() }
		if !strings.Contains(page(), "value: Connected") {
			t.Fatalf("got\n%s", page())
		}
		d.keys("pgdown", "pgdown")
		offset := d.model.pane.YOffset()
		d.pair.B.Behave(func(b *flowtest.Behaviour) { b.WrongKey = true })
		d.wait(15 * time.Second)
		if got := page(); !strings.Contains(got, "value: Error") {
			t.Errorf("the page has not followed the Connection:\n%s", got)
		}
		if got := d.model.pane.YOffset(); got != offset {
			t.Errorf("got the page at line %d, want where it was, %d", got, offset)
		}
		d.keys("z")
		before := page()
		d.pair.B.Behave(func(b *flowtest.Behaviour) { b.WrongKey = false })
		d.wait(15 * time.Second)
		if page() != before {
			t.Error("what is paused changes")
		}
		d.keys("z")
		if page() == before {
			t.Error("after the pause it is still the page from before")
		}
	})
}

func TestALongPageIsBrokenForItsTerminal(t *testing.T) {
	onDashboard(t, func(t *testing.T, d *driver) {
		for _, key := range []string{"y", "l"} {
			d.keys("enter", key)
			d.wait(time.Second)
			widest := func() int {
				widest := 0
				for line := range strings.SplitSeq(ansi.Strip(d.model.pane.GetContent()), "\n") {
					widest = max(widest, len([]rune(line)))
				}
				return widest
			}
			wide := widest()
			d.send(tea.WindowSizeMsg{Width: 41, Height: 24})
			narrow := widest()
			d.send(tea.WindowSizeMsg{Width: 80, Height: 24})
			if again := widest(); again != wide || key == "y" && narrow >= wide {
				t.Errorf("%s: got lines of %d runes, %d at 41 columns, %d again", key, wide, narrow, again)
			}
			d.keys("esc", "esc")
		}
	})
}

// withLogs is a cluster that says what it is told to.
type withLogs struct {
	engine.Cluster
	logs func() (string, error)
}

func (w withLogs) Logs(context.Context, flows.PodFacts, int) (string, error) { return w.logs() }

// withoutLogs hides what else a cluster can do.
type withoutLogs struct{ engine.Cluster }

// Who opens a log wants its latest lines, and those that come.
func TestALogBeginsAtItsEndAndFollows(t *testing.T) {
	written := 100
	inWorld(t, func(p *flowtest.Pair, w *world) session.Options {
		connectedPair(t)(p)
		w.replace("kind-milan", withLogs{p.B, func() (string, error) {
			var b strings.Builder
			for i := range written {
				fmt.Fprintf(&b, "line %d.\n", i)
			}
			return b.String(), nil
		}})
		return session.Options{Start: session.StartDashboard}
	}, func(_ *testing.T, d *driver) {
		d.wait(time.Second)
		d.keys("enter", "l")
		d.settle()
		d.has("line 99.")
		d.hasNot("line 0.")
		written++
		d.wait(session.LogInterval)
		d.has("line 100.")
		d.keys("g")
		written++
		d.wait(session.LogInterval)
		d.has("line 0.") // who reads something else stays there
		d.hasNot("line 101.")
	})
}

// A run may take minutes: meanwhile its events and the gateways' logs can be read.
func TestARunIsReadWhileItGoesOn(t *testing.T) {
	lines := 0
	inWorld(t, func(p *flowtest.Pair, w *world) session.Options {
		p.B.Behave(func(b *flowtest.Behaviour) { b.WrongKey = true }) // so it takes its time
		w.replace("kind-milan", withLogs{p.B, func() (string, error) {
			lines++
			return fmt.Sprintf("handshake %d", lines), nil
		}})
		return session.Options{A: refOf("kind-rome"), B: refOf("kind-milan")}
	}, func(t *testing.T, d *driver) {
		d.keys("a", "y")
		d.wait(6 * time.Second)
		d.has("of at most", "e events", "l gateways' logs")
		d.keys("e")
		d.has("esc back", "ctrl+c stop", "GatewayClient milan created")
		d.hasNot("of at most")
		if at := strings.Index(d.screen(), "GatewayClient milan created"); at < strings.Index(d.screen(), "ContainerCreating") {
			t.Errorf("want the latest at the end:\n%s", d.screen())
		}
		d.keys("l")
		d.settle()
		d.has("milan  pod gw-rome", "milan handshake 1")
		d.wait(session.LogInterval)
		d.has("milan handshake 2")
		d.keys("esc")
		d.has("of at most")
		read := lines
		d.wait(3 * session.LogInterval)
		if lines > read+1 {
			t.Errorf("the logs were read %d times after the page was left", lines-read)
		}
		d.keys("l", "ctrl+c")
		d.wait(time.Second)
		d.has("what now?", "continue where it stopped", "enter choose · ? help\n") // each choice has its row
	})
}

func TestTheLogsPageSaysWhatItCanNotRead(t *testing.T) {
	lines := 0
	inWorld(t, func(p *flowtest.Pair, w *world) session.Options {
		connectedPair(t)(p)
		w.replace("kind-rome", withoutLogs{p.A})
		w.replace("kind-milan", withLogs{p.B, func() (string, error) {
			if lines++; lines > 2 {
				return "", errors.New("pods \"gw-rome-7c9d\" is forbidden")
			}
			return fmt.Sprintf("handshake %d done\n\x1b[2Jhello", lines), nil
		}})
		return session.Options{Start: session.StartDashboard, InfoCommand: func(flows.ContextRef, wire.ClusterID) command.Command { return command.Command{} }}
	}, func(_ *testing.T, d *driver) {
		d.wait(time.Second)
		d.keys("enter", "l")
		d.settle()
		d.has("rome  pod gw-milan-7c9d", "can't be read: the logs of this cluster are not available here", "handshake 1 done", "hello")
		d.wait(session.LogInterval)
		d.has("handshake 2 done")
		d.wait(session.LogInterval)
		d.has("can't be read: pods", "is forbidden")
		for range 3 { // of a page that is left no log is read any more
			d.keys("esc")
		}
		read := lines
		d.wait(3 * session.LogInterval)
		if lines != read && lines != read+1 {
			d.t.Errorf("the logs were read %d times after the page was left", lines-read)
		}
	})
}
