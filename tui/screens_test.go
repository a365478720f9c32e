package tui

import (
	"slices"
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
	toPlan := []string{"enter", "down", "enter", "n"}
	toForm := append(slices.Clip(toPlan), "C")
	for name, test := range map[string]struct {
		prepare func(*flowtest.Pair, *world)
		keys    []string
		after   time.Duration
		offered bool // the program has chosen the clusters
	}{
		"clusters":          {crowd, []string{"enter", "down"}, 2 * time.Second, false},
		"clusters-refusal":  {crowd, []string{"enter", "up", "enter"}, 0, false},
		"clusters-bare":     {bare, []string{"down"}, 0, false},
		"clusters-filter":   {crowd, []string{"/", "m", "i"}, 0, false},
		"clusters-file":     {nil, []string{"a"}, 0, false},
		"preflight":         {nil, append(slices.Clip(toPlan), "i"), 0, false},
		"preflight-explain": {nil, append(slices.Clip(toPlan), "i", "e"), 0, false},
		"gateway":           {nil, toForm, 0, false},
		"gateway-problem":   {nil, append(slices.Clip(toForm), "down", "down", "ctrl+u", "x", "down"), 0, false},
		"plan-install":      {bare, toPlan, 0, false},
		"plan-offered":      {nil, nil, 0, true},
		"palette":           {nil, []string{":"}, 0, false},
		"help-clusters":     {nil, []string{"?"}, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			for _, ascii := range []bool{false, true} {
				inWorld(t, func(p *flowtest.Pair, w *world) session.Options {
					o := fresh(test.prepare)(p, w)
					o.ASCII = ascii
					return o
				}, func(t *testing.T, d *driver) {
					if !test.offered {
						d.toChoice()
					}
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
	inChoice(t, crowd, func(t *testing.T, d *driver) {
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
