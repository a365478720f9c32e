package draw

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
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
		if got := ansi.Strip(theme.SparkRTT(values, marks)); got != want {
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

// What was lost, and what is known of a time, is seen at a glance, and without colours, too.
func TestSignsOfALineHaveTheirColours(t *testing.T) {
	for _, ascii := range []bool{false, true} {
		theme := NewTheme(ascii, false)
		fail, label := theme.Marks[Fail], theme.Label
		want := label.Render(theme.Bars[0]+theme.Bars[0]) + fail.Render(theme.lost) + label.Render(theme.Bars[0])
		if got := theme.SparkRTT([]float64{0.1, 0.1, 0, 0.1}, []bool{false, false, true, false}); got != want {
			t.Errorf("ascii %t: got %q, want %q", ascii, got, want)
		}
		ok := theme.Marks[OK]
		want = "  " + ok.Render(theme.lane[OK]+theme.lane[OK]) + fail.Render(theme.lane[Fail])
		if got := theme.Lane([]Mark{Blank, Blank, OK, OK, Fail}); got != want {
			t.Errorf("ascii %t: got %q, want %q", ascii, got, want)
		}
		signs := map[string]bool{" ": true}
		for _, sign := range theme.lane {
			if signs[sign] {
				t.Errorf("ascii %t: %q is the sign of two states", ascii, sign)
			}
			signs[sign] = true
		}
	}
}

// A chart tells lost pings from what nobody measured, as the lines of bars do.
func TestAChartShowsLostPings(t *testing.T) {
	none := math.NaN()
	curve := Curve{Values: []float64{8, 8, none, none, 8, none, 8, 8}, Lost: []bool{false, false, true, true, false, false, false, false}, Mark: 'A'}
	for ascii, want := range map[bool]string{false: "0┤  ××    ", true: "0|  xx    "} {
		lines := NewTheme(ascii, false).Chart([]Curve{curve}, time.Minute, 10, 5, func(v float64) string { return fmt.Sprint(v) })
		if got := ansi.Strip(lines[3]); got != want {
			t.Errorf("ascii %t: got %q, want %q", ascii, got, want)
		}
	}
}
