package render_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/liqo-tui/liqo-tui/render"
)

func TestAnEventHoldsItsNote(t *testing.T) {
	if got := render.EventNote("short"); got != "short" {
		t.Errorf("got %q", got)
	}
	for n := range 4 { // wherever it is cut
		got := render.EventNote(strings.Repeat("x", n) + strings.Repeat("ä€", 600))
		if len(got) > 1024 || len(got) < 1000 || !utf8.ValidString(got) || !strings.HasSuffix(got, "…") {
			t.Errorf("got %d bytes: %q", len(got), got)
		}
	}
}
