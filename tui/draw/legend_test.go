package draw

import (
	"testing"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
)

// A state that is added later has to be explained.
func TestEveryStateIsExplained(t *testing.T) {
	theme := NewTheme(false, false)
	for legend, want := range map[string]struct {
		rows [][2]string
		all  int
	}{
		"checks": {theme.CheckLegend(check.Outcomes).Rows, check.Outcomes},
		"steps":  {theme.StepLegend().Rows, int(flows.Failed) + 1},
	} {
		if len(want.rows) != want.all {
			t.Errorf("%s: got %d rows, want %d", legend, len(want.rows), want.all)
		}
		for _, row := range want.rows {
			if row[1] == "" {
				t.Errorf("%s: nothing says what %q is", legend, row[0])
			}
		}
	}
}
