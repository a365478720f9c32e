package draw

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
)

// A row shows its own changes, whether it takes 1 ms or 100.
func TestALineOfBarsHasItsOwnScale(t *testing.T) {
	theme := NewTheme(false, false)
	const lost = -1
	for want, values := range map[string][]float64{
		"▅▅▅▅":  {100, 100, 101, 100},
		"▅▅▅█":  {1, 1.1, 1, 2},
		"▅·▅×█": {1, math.NaN(), 1, lost, 150},
		"··":    {math.NaN(), math.NaN()},
	} {
		marks := make([]bool, len(values))
		for i, v := range values {
			if marks[i] = v == lost; marks[i] {
				values[i] = math.NaN()
			}
		}
		got := theme.SparkRTT(values, marks)
		if ansi.Strip(got) != want {
			t.Errorf("%v: got %s, want %s", values, ansi.Strip(got), want)
		}
		if slow := strings.Contains(got, theme.Marks[Running].Render("█")); slow != strings.Contains(want, "█") {
			t.Errorf("%v: got %q, want a colour for what takes twice as long", values, got)
		}
	}
}

// Charts below each other have the same moments in the same columns, and say them in round numbers.
func TestChartsHaveOneGutterAndRoundTicks(t *testing.T) {
	theme := NewTheme(false, false)
	hour := make([]float64, 360)
	for i := range hour {
		hour[i] = float64(7 + i%3)
	}
	for _, test := range []struct {
		unit  Unit
		scale float64
		back  time.Duration
		top   string
		axis  string
	}{
		{InMilliseconds, 1, 20 * time.Minute, "   10ms┤", "        -20 min     -15          -10         -5          now"},
		{InBytes, 1024 * 1024, time.Hour, "10.0M/s┤", "        -60 min     -45          -30         -15         now"},
	} {
		values := make([]float64, len(hour))
		for i, v := range hour {
			values[i] = v * test.scale
		}
		lines := theme.Chart([]Curve{{Values: values}}, test.back, 60, 8, test.unit)
		if got := ansi.Strip(lines[0]); !strings.HasPrefix(got, test.top) {
			t.Errorf("got %q, want %q", got, test.top)
		}
		if got := ansi.Strip(lines[7]); got != test.axis {
			t.Errorf("got\n%q, want\n%q", got, test.axis)
		}
		for _, line := range lines {
			if Cells(line) > 60 {
				t.Errorf("got %d cells: %q", Cells(line), ansi.Strip(line))
			}
		}
	}
}

// More buckets than columns: the line has their means, and the band their extremes.
func TestALongCurveKeepsItsExtremes(t *testing.T) {
	none := math.NaN()
	c := Curve{Values: []float64{1, 3, none, 5, none, none, 2, 100}, Lost: []bool{false, false, true, false, false, false, false, false}}.fitted(4)
	for i, want := range []struct{ low, mean, high float64 }{{1, 2, 3}, {5, 5, 5}, {none, none, none}, {2, 51, 100}} {
		same := func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }
		if !same(c.Low[i], want.low) || !same(c.Values[i], want.mean) || !same(c.High[i], want.high) || c.Lost[i] != (i == 1) {
			t.Errorf("%d: got %v to %v, mean %v, lost %v, want %v", i, c.Low[i], c.High[i], c.Values[i], c.Lost[i], want)
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
		fail, usual := theme.Marks[Fail], theme.Bars[len(theme.Bars)/2]
		want := usual + usual + fail.Render(theme.lost) + usual
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
	for ascii, want := range map[bool]string{false: "      0┤  ××    ", true: "      0|  xx    "} {
		lines := NewTheme(ascii, false).Chart([]Curve{curve}, time.Minute, 16, 5, InMilliseconds)
		if got := ansi.Strip(lines[3]); got != want {
			t.Errorf("ascii %t: got %q, want %q", ascii, got, want)
		}
	}
}
