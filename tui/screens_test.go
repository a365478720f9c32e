package tui

import (
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/golden"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// everySize is from more than the screens need down to less than they can use.
var everySize = [][2]int{{200, 60}, {120, 40}, {80, 24}, {60, 20}, {40, 12}, {20, 5}}

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
				inWorld(t, func(p *flowtest.Pair, w *world) session.Options {
					o := fresh(test.prepare)(p, w)
					o.ASCII = ascii
					return o
				}, func(t *testing.T, d *driver) {
					d.keys(test.keys...)
					d.wait(test.after)
					goldens(t, d, "wizard-"+name, ascii)
				})
			}
		})
	}
}

// atEverySize is the screen at every size, plain and with its colours.
func (d *driver) atEverySize(ascii bool) (plain, coloured string) {
	d.t.Helper()
	return screens(d.t, func(width, height int) Model {
		d.send(tea.WindowSizeMsg{Width: width, Height: height})
		return d.model
	}, ascii)
}

// goldens keeps a screen as text, in colour, and in ASCII.
func goldens(t *testing.T, d *driver, name string, ascii bool) {
	t.Helper()
	text, coloured := d.atEverySize(ascii)
	if ascii {
		golden.Compare(t, name+"-ascii.txt", text)
		return
	}
	golden.Compare(t, name+".txt", text)
	golden.Compare(t, name+"-colour.txt", coloured)
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
