package draw

import (
	"math"
	"testing"
)

// Bars of two lines mean the same: ten times as much is as much higher everywhere.
func TestLinesOfBarsHaveOneScale(t *testing.T) {
	theme := NewTheme(false, false)
	for want, values := range map[string][]float64{
		"▁▁▁▁":  {0, 0.1, 0.3, 0.4},
		"▂▂▂":   {1, 1.2, 0.9},
		"▇▇█":   {150, 148, 300},
		"·▂·▇█": {math.NaN(), 1, math.NaN(), 150, 1e6},
	} {
		if got := theme.SparkBetween(values, 0.3, 300); got != want {
			t.Errorf("%v: got %s, want %s", values, got, want)
		}
	}
}
