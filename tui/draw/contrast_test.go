package draw

import (
	"math"
	"strconv"
	"testing"
)

func (p palette) all() []string {
	return []string{p.ok, p.running, p.warn, p.fail, p.unknown, p.a, p.b, p.label}
}

// linear is a colour as light: red, green and blue from 0 to 1.
func linear(t *testing.T, hex string) (c [3]float64) {
	t.Helper()
	for i := range c {
		n, err := strconv.ParseUint(hex[1+2*i:3+2*i], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		v := float64(n) / 255
		if c[i] = v / 12.92; v > 0.04045 {
			c[i] = math.Pow((v+0.055)/1.055, 2.4)
		}
	}
	return c
}

// contrast is the ratio of WCAG 2, 1 to 21.
func contrast(a, b [3]float64) float64 {
	luminance := func(c [3]float64) float64 { return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2] }
	x, y := luminance(a), luminance(b)
	return (max(x, y) + 0.05) / (min(x, y) + 0.05)
}

// blindness is what eyes without one kind of cones see of linear colours (Machado, Oliveira and
// Fernandes 2009, severity 1).
var blindness = map[string][3][3]float64{
	"all cones":    {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"protanopia":   {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
	"deuteranopia": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
	"tritanopia":   {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
}

// distance is how different two colours look: OKLab's, in which 0.02 is just visible.
func distance(a, b [3]float64) float64 {
	lab := func(c [3]float64) [3]float64 {
		r, g, b := max(c[0], 0), max(c[1], 0), max(c[2], 0)
		l := math.Cbrt(0.4122214708*r + 0.5363325363*g + 0.0514459929*b)
		m := math.Cbrt(0.2119034982*r + 0.6806995451*g + 0.1073969566*b)
		s := math.Cbrt(0.0883024619*r + 0.2817188376*g + 0.6299787005*b)
		return [3]float64{0.2104542553*l + 0.7936177850*m - 0.0040720468*s, 1.9779984951*l - 2.4285922050*m + 0.4505937099*s, 0.0259040371*l + 0.7827717662*m - 0.8086757660*s}
	}
	x, y, sum := lab(a), lab(b), 0.0
	for i := range x {
		sum += (x[i] - y[i]) * (x[i] - y[i])
	}
	return math.Sqrt(sum)
}

func TestHighContrast(t *testing.T) {
	const enough, apart = 7, 0.06 // WCAG's AAA; three times what is just visible
	for name, test := range map[string]struct {
		palette
		backgrounds []string
	}{
		"dark":  {onDark, []string{"#000000", "#1e1e1e"}},
		"light": {onLight, []string{"#ffffff", "#f0f0f0"}},
	} {
		p := test.palette
		for _, colour := range p.all() {
			for _, background := range test.backgrounds {
				if got := contrast(linear(t, colour), linear(t, background)); got < enough {
					t.Errorf("%s: %s on %s has contrast %.1f, want %d", name, colour, background, got, enough)
				}
			}
		}
		for eyes, m := range blindness {
			see := func(hex string) (c [3]float64) {
				rgb := linear(t, hex)
				for i := range c {
					c[i] = m[i][0]*rgb[0] + m[i][1]*rgb[1] + m[i][2]*rgb[2]
				}
				return c
			}
			for _, pair := range [][2]string{{p.ok, p.warn}, {p.ok, p.fail}, {p.warn, p.fail}, {p.ok, p.unknown}, {p.fail, p.unknown}, {p.a, p.b}} {
				if got := distance(see(pair[0]), see(pair[1])); got < apart {
					t.Errorf("%s, %s: %s and %s are %.3f apart, want %.2f", name, eyes, pair[0], pair[1], got, apart)
				}
			}
		}
	}
}

// terminals are what common ones show for the colours that the usual themes name, and the
// contrast that those must have: WCAG's AA for text, or for what is large or a sign where
// the terminal's own colours allow no more.
var terminals = map[string]struct {
	colours map[string]string
	least   float64
}{
	"xterm":   {map[string]string{"1": "#cd0000", "2": "#00cd00", "3": "#cdcd00", "4": "#0000ee", "5": "#cd00cd", "6": "#00cdcd", "9": "#ff0000", "12": "#5c5cff", "13": "#ff00ff"}, 4.4}, // of its bright blue
	"GNOME":   {map[string]string{"1": "#cc0000", "2": "#4e9a06", "3": "#c4a000", "4": "#3465a4", "5": "#75507b", "6": "#06989a", "9": "#ef2929", "12": "#729fcf", "13": "#ad7fa8"}, 4.5},
	"VGA":     {map[string]string{"1": "#aa0000", "2": "#00aa00", "3": "#aa5500", "4": "#0000aa", "5": "#aa00aa", "6": "#00aaaa", "9": "#ff5555", "12": "#5555ff", "13": "#ff55ff"}, 3},
	"Windows": {map[string]string{"1": "#c50f1f", "2": "#13a10e", "3": "#c19c00", "4": "#0037da", "5": "#881798", "6": "#3a96dd", "9": "#e74856", "12": "#3b78ff", "13": "#b4009e"}, 3},
}

// The usual themes can be read, too, on the terminals that people have.
func TestUsualColoursCanBeRead(t *testing.T) {
	for background, p := range map[string]palette{"#000000": usualDark, "#ffffff": usualLight} {
		for name, terminal := range terminals {
			for _, colour := range p.all() {
				shown, named := terminal.colours[colour]
				if !named {
					shown = colour
				}
				if got := contrast(linear(t, shown), linear(t, background)); got < terminal.least {
					t.Errorf("%s: %s (%s) on %s has contrast %.1f, want %.1f", name, colour, shown, background, got, terminal.least)
				}
			}
		}
	}
}
