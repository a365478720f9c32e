package draw

import (
	"charm.land/lipgloss/v2"

	"github.com/liqo-tui/liqo-tui/flows"
)

// palette has the colours of a theme with colours of its own. Tests compare each colour
// with backgrounds, and the colours of states with each other, also as colour-blind people
// see them.
type palette struct {
	ok, running, warn, fail, unknown, a, b, label string
	tint                                          string // of a background; "": none differs enough
}

// The usual palettes, by background. They use the terminal's own colours, which an admin
// may have chosen. A colour that common terminals show too dark on black has its bright
// variant. On white, green, yellow and cyan are unreadable, so the theme has other ones
// there.
var (
	usualDark  = palette{ok: "2", running: "3", warn: "3", fail: "9", unknown: "13", a: "6", b: "13", label: "12", tint: "236"}
	usualLight = palette{ok: "#1a6b1a", running: "#7a5200", warn: "#7a5200", fail: "1", unknown: "5", a: "#005f6b", b: "5", label: "4", tint: "254"}
)

// The palettes of the high contrast theme, by background.
var (
	onDark  = palette{ok: "#5ce6d0", running: "#ffe45c", warn: "#ffd000", fail: "#ff8a70", unknown: "#e3a9ff", a: "#5cd6ff", b: "#ffa8d8", label: "#a8c7ff"}
	onLight = palette{ok: "#00524a", running: "#5c4700", warn: "#5c4700", fail: "#990044", unknown: "#5b2a86", a: "#004f6e", b: "#8a0058", label: "#003c8f"}
)

// HighContrast returns the theme with colours that differ strongly from the background,
// and without faint text.
func (t Theme) HighContrast(light bool) Theme {
	p := onDark
	if light {
		p = onLight
	}
	var none lipgloss.Style
	colour := func(c string) Style { return newStyle(none.Foreground(lipgloss.Color(c))) }
	bold := func(c string) Style { return newStyle(none.Foreground(lipgloss.Color(c)).Bold(true)) }
	t.Faint, t.Label = newStyle(none), colour(p.label)
	t.Sides = [2]Style{flows.A: colour(p.a), flows.B: colour(p.b)}
	t.Marks = [...]Style{Pending: t.Faint, Running: colour(p.running), OK: colour(p.ok), Warn: bold(p.warn), Fail: bold(p.fail), Unknown: colour(p.unknown)}
	t.edges[Warn], t.edges[Fail] = colour(p.warn), colour(p.fail)
	t = t.Reversing()
	t.added, t.removed, t.hunk = colour(p.ok), colour(p.fail), colour(p.a)
	return t
}
