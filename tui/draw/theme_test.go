package draw

import (
	"slices"
	"testing"
)

// The selected row has its own sign beside that of its state, and each state has another.
func TestSignsAreToldApart(t *testing.T) {
	for _, ascii := range []bool{false, true} {
		theme := NewTheme(ascii, false)
		if slices.Contains(theme.Glyphs[:], theme.Pointer) {
			t.Errorf("ascii %t: %q is the pointer and a state", ascii, theme.Pointer)
		}
		for i, g := range theme.Glyphs {
			if slices.Contains(theme.Glyphs[i+1:], g) {
				t.Errorf("ascii %t: %q is two states", ascii, g)
			}
			if Cells(g) != Cells(theme.Glyphs[0]) {
				t.Errorf("ascii %t: %q is wider or narrower than the others", ascii, g)
			}
		}
	}
}
