package draw

import (
	"math"
	"testing"
)

// Bars of two lines mean the same: ten times as much is as much higher everywhere.
func TestLinesOfBarsHaveOneScale(t *testing.T) {
	theme := NewTheme(false, false)
	const lost = -1
	for want, values := range map[string][]float64{
		"▁▁▁▁":  {0, 0.1, 0.3, 0.4},
		"▂▂▂":   {1, 1.2, 0.9},
		"▇▇█":   {150, 148, 300},
		"·▂×▇█": {math.NaN(), 1, lost, 150, 1e6},
	} {
		marks := make([]bool, len(values))
		for i, v := range values {
			marks[i] = v == lost
		}
		if got := theme.SparkRTT(values, marks); got != want {
			t.Errorf("%v: got %s, want %s", values, got, want)
		}
	}
}

// What is received and what is sent are drawn with the same top.
func TestBarsGoUpToTheirTop(t *testing.T) {
	theme := NewTheme(false, false)
	received, sent := []float64{800, 400, math.NaN()}, []float64{100, 0, 200}
	top := Highest(received, sent)
	if got := theme.Spark(received, top) + " " + theme.Spark(sent, top); got != "█▅· ▂▁▃" {
		t.Errorf("got %s", got)
	}
}
