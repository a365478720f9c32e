package tui

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/charmbracelet/x/ansi"

	"github.com/liqo-tui/liqo-tui/flows/flowtest"
)

// everySize is from more than the screens need down to less than they can use.
var everySize = [][2]int{{120, 40}, {80, 24}, {60, 20}, {40, 12}, {20, 5}}

// TestTheWizardAtEverySize keeps the wizard's screens as text, in colour, and
// in ASCII. No line is wider than the terminal, none is missing, and NO_COLOR
// takes nothing but the colours.
func TestTheWizardAtEverySize(t *testing.T) {
	bare := func(p *flowtest.Pair, _ *world) { p.B.Bare() }
	toForm := []string{"enter", "down", "enter", "enter"}
	for name, test := range map[string]struct {
		prepare func(*flowtest.Pair, *world)
		keys    []string
		after   time.Duration
	}{
		"clusters":          {crowd, []string{"enter", "down"}, 2 * time.Second},
		"clusters-refusal":  {crowd, []string{"enter", "enter"}, 0},
		"clusters-bare":     {bare, []string{"down"}, 0},
		"clusters-filter":   {crowd, []string{"/", "m", "i"}, 0},
		"clusters-file":     {nil, []string{"a"}, 0},
		"preflight":         {nil, []string{"enter", "down", "enter"}, 0},
		"preflight-explain": {nil, []string{"enter", "down", "enter", "e"}, 0},
		"gateway":           {nil, toForm, 0},
		"gateway-problem":   {nil, append(toForm, "down", "down", "ctrl+u", "x", "down"), 0},
		"plan-install":      {bare, append(toForm, "enter"), 0},
		"palette":           {nil, []string{":"}, 0},
		"help-clusters":     {nil, []string{"?"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			for _, ascii := range []bool{false, true} {
				inWorld(t, func(p *flowtest.Pair, w *world) Options {
					o := fresh(test.prepare)(p, w)
					o.ASCII = ascii
					return o
				}, func(t *testing.T, d *driver) {
					d.keys(test.keys...)
					d.wait(test.after)
					text, coloured := d.atEverySize(ascii)
					if ascii {
						golden(t, "wizard-"+name+"-ascii", text)
						return
					}
					golden(t, "wizard-"+name, text)
					golden(t, "wizard-"+name+"-colour", coloured)
				})
			}
		})
	}
}

// atEverySize is the screen at every size, plain and with its colours.
func (d *driver) atEverySize(ascii bool) (plain, coloured string) {
	d.t.Helper()
	var text, styled strings.Builder
	for _, size := range everySize {
		d.send(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
		view := d.model.View().Content
		checkFits(d.t, view, size[0], size[1])
		if lines := strings.Count(view, "\n") + 1; size[0] >= minWidth && lines != size[1] {
			d.t.Errorf("%v: got %d lines, want all", size, lines)
		}
		stripped := ansi.Strip(view)
		fmt.Fprintf(&text, "%dx%d\n%s\n\n", size[0], size[1], stripped)
		fmt.Fprintf(&styled, "%dx%d\n%s\n\n", size[0], size[1], view)
		var grey bytes.Buffer // what NO_COLOR leaves
		fmt.Fprint(&colorprofile.Writer{Forward: &grey, Profile: colorprofile.Ascii}, view)
		if ansi.Strip(grey.String()) != stripped || strings.Contains(grey.String(), "\x1b[3") {
			d.t.Errorf("%v: without colours the text is another, or there are colours:\n%q", size, grey.String())
		}
		if ascii && strings.ContainsFunc(stripped, func(r rune) bool { return r >= 0x80 }) {
			d.t.Errorf("%v: more than ASCII:\n%s", size, stripped)
		}
	}
	return text.String(), styled.String()
}

func TestWhatIsLightIsSeenOnLight(t *testing.T) {
	inWorld(t, fresh(crowd), func(t *testing.T, d *driver) {
		dark := d.model.View().Content
		d.send(tea.BackgroundColorMsg{Color: ansi.HexColor("#ffffff")})
		light := d.model.View().Content
		if dark == light || ansi.Strip(dark) != ansi.Strip(light) {
			t.Error("a light background changes nothing, or more than colours")
		}
		d.send(tea.BackgroundColorMsg{Color: ansi.HexColor("#000000")})
		if d.model.View().Content != dark {
			t.Error("a dark background does not look as at first")
		}
	})
}

func TestTheMouseIsForWhoAsksForIt(t *testing.T) {
	inWorld(t, fresh(crowd), func(t *testing.T, d *driver) {
		if got := d.model.View().MouseMode; got != tea.MouseModeNone {
			t.Errorf("got mouse mode %v, which takes selecting from the terminal", got)
		}
		d.keys("m")
		if got := d.model.View().MouseMode; got != tea.MouseModeCellMotion {
			t.Errorf("got mouse mode %v after asking for it", got)
		}
		d.keys("g")
		before := d.model.clusters.selected
		d.send(tea.MouseWheelMsg{Button: tea.MouseWheelDown})
		if d.model.clusters.selected == before {
			t.Error("the wheel does not move the selection")
		}
		d.keys("m")
		if got := d.model.View().MouseMode; got != tea.MouseModeNone {
			t.Errorf("got mouse mode %v", got)
		}
	})
}
