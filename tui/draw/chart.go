package draw

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/NimbleMarkets/ntcharts/v2/canvas"
	"github.com/NimbleMarkets/ntcharts/v2/canvas/graph"
	"github.com/NimbleMarkets/ntcharts/v2/linechart"
)

// Curve is one line of a chart. It has a value for each bucket of time, or NaN for none.
type Curve struct {
	Values []float64
	Lost   []bool // the buckets whose pings got no answer; nil: none
	Style  Style
	Mark   rune // draws it where there are no Braille patterns
}

// fewValues are the least that are a curve: of one or two, the figures beside it say more.
const fewValues = 3

// Curved reports whether there are enough values for a curve.
func Curved(values []float64) bool {
	known := 0
	for _, v := range values {
		if !math.IsNaN(v) {
			known++
		}
	}
	return known >= fewValues
}

// Chart draws curves over the same buckets of time, back until now, into height lines of at most width
// cells, the last one being the axis of time. Buckets without a value stay
// empty: a line across them would be a measurement that nobody made.
func (t Theme) Chart(curves []Curve, back time.Duration, width, height int, unit func(float64) string) []string {
	top := ceiling(curves)
	labels := t.scale(top, height-1, unit)
	side := 0
	for _, l := range labels {
		side = max(side, Cells(l))
	}
	plot := max(1, width-side-1)
	n := len(curves[0].Values)
	lc := linechart.New(plot, height-1, 0, float64(max(1, n-1)), 0, top, linechart.WithXYSteps(0, 0))
	for _, c := range curves {
		t.draw(&lc, c)
	}
	for _, c := range curves {
		t.drawLost(&lc, c)
	}
	lines := make([]string, height-1)
	for i := range lines {
		lines[i] = t.Faint.Render(strings.Repeat(" ", side-Cells(labels[i]))+labels[i]+t.axis) + canvasLine(&lc.Canvas, i)
	}
	return append(lines, strings.Repeat(" ", side+1)+t.Faint.Render(timeAxis(back, plot)))
}

func (t Theme) draw(lc *linechart.Model, c Curve) {
	at := func(i int) canvas.Float64Point { return canvas.Float64Point{X: float64(i), Y: c.Values[i]} }
	// One grid for the whole curve, because linechart would make a grid for each line.
	dots := graph.NewBrailleGrid(lc.GraphWidth(), lc.GraphHeight(), lc.MinX(), lc.MaxX(), lc.MinY(), lc.MaxY())
	for i, v := range c.Values {
		from := max(0, i-1)
		switch {
		case math.IsNaN(v):
			continue
		case math.IsNaN(c.Values[from]):
			from = i
		}
		if t.ascii {
			lc.DrawRuneLineWithStyle(at(from), at(i), c.Mark, c.Style.Style)
			continue
		}
		for _, p := range graph.GetLinePoints(dots.GridPoint(at(from)), dots.GridPoint(at(i))) {
			dots.Set(p)
		}
	}
	graph.DrawBraillePatterns(&lc.Canvas, canvas.Point{}, dots.BraillePatterns(), c.Style.Style)
}

// drawLost draws the sign of lost pings on the lowest line of the canvas, unless a curve is there.
func (t Theme) drawLost(lc *linechart.Model, c Curve) {
	n, width := len(c.Lost), lc.GraphWidth()
	for x := range width {
		from := x * n / width
		lost := slices.Contains(c.Lost[from:max(min(from+1, n), (x+1)*n/width)], true)
		at := canvas.Point{X: x, Y: lc.GraphHeight() - 1}
		if r := lc.Canvas.Cell(at).Rune; lost && (r == 0 || r == ' ') {
			lc.Canvas.SetCell(at, canvas.NewCellWithStyle([]rune(t.lost)[0], t.Marks[Fail].Style))
		}
	}
}

// canvasLine returns a line of a canvas. It writes one colour sequence for each run of cells with the
// same colour. The canvas itself would write one for each cell.
func canvasLine(c *canvas.Model, y int) string {
	var line, run strings.Builder
	var style lipgloss.Style
	flush := func() {
		if run.Len() > 0 {
			line.WriteString(style.Render(run.String()))
			run.Reset()
		}
	}
	for x := range c.Width() {
		cell := c.Cell(canvas.Point{X: x, Y: y})
		if cell.Rune == 0 {
			cell = canvas.NewCell(' ')
		}
		if cell.Style.GetForeground() != style.GetForeground() {
			flush()
			style = cell.Style
		}
		run.WriteRune(cell.Rune)
	}
	flush()
	return line.String()
}

// Highest returns the largest of all values; 0 if there are none.
func Highest(all ...[]float64) (top float64) {
	for _, values := range all {
		for _, v := range values {
			if !math.IsNaN(v) {
				top = max(top, v)
			}
		}
	}
	return top
}

// ceiling is a round number that no value is above.
func ceiling(curves []Curve) float64 {
	top := 0.0
	for _, c := range curves {
		top = max(top, Highest(c.Values))
	}
	if top <= 0 {
		return 1
	}
	magnitude := math.Pow(10, math.Floor(math.Log10(top)))
	for _, round := range []float64{1, 1.5, 2, 3, 4, 5, 6, 8} {
		if top <= round*magnitude {
			return round * magnitude
		}
	}
	return 10 * magnitude
}

// scale returns the labels of a chart's lines, from the top: the ceiling, half of it if there is room,
// and 0.
func (t Theme) scale(top float64, height int, unit func(float64) string) []string {
	labels := make([]string, height)
	labels[0], labels[height-1] = unit(top), "0"
	if height >= 5 && height%2 == 1 {
		labels[height/2] = unit(top / 2)
	}
	return labels
}

// timeAxis says how far back the buckets go.
func timeAxis(back time.Duration, width int) string {
	left, right := fmt.Sprintf("-%d min", int(back.Minutes())), "now"
	return left + strings.Repeat(" ", max(1, width-len(left)-len(right))) + right
}

// Spark draws values as one line of bars, from 0 to top. NaN is a gap. To compare several lines, use
// the same top.
func (t Theme) Spark(values []float64, top float64) string {
	var b strings.Builder
	for _, v := range values {
		switch {
		case math.IsNaN(v):
			b.WriteString(t.gap)
		case top == 0:
			b.WriteString(t.Bars[0])
		default:
			b.WriteString(t.Bars[int(min(v/top, 1)*float64(len(t.Bars)-1)+0.5)])
		}
	}
	return b.String()
}

// All sparklines of round trips, in ms, have one scale, so that any two can be compared:
// each bar stands for as many times the one below it.
const lowRTT, highRTT = 0.3, 300

// SparkRTT draws round trips in ms. NaN is a gap, but where pings were lost: nothing that
// was measured and nothing that came back are not the same.
func (t Theme) SparkRTT(values []float64, lost []bool) string {
	return t.runs(len(values), func(i int) (string, Style) {
		switch v := values[i]; {
		case lost[i]:
			return t.lost, t.Marks[Fail]
		case math.IsNaN(v):
			return t.gap, t.Faint
		default:
			share := math.Log(max(v, lowRTT)/lowRTT) / math.Log(highRTT/lowRTT)
			return t.Bars[int(min(share, 1)*float64(len(t.Bars)-1)+0.5)], t.Label
		}
	})
}

// RTTLegend are the signs of such a line, with what each means.
func (t Theme) RTTLegend() [][2]string {
	n := len(t.Bars)
	bars := make([]float64, n)
	for i := range bars {
		bars[i] = lowRTT * math.Pow(highRTT/lowRTT, float64(i)/float64(n-1))
	}
	gap := t.SparkRTT([]float64{math.NaN()}, []bool{false})
	if t.gap == " " {
		gap = "a space"
	}
	return [][2]string{
		{t.SparkRTT(bars, make([]bool, n)), fmt.Sprintf("from %gms or less to %gms or more, each %.1f times the one before", lowRTT, float64(highRTT), bars[1]/bars[0])},
		{t.SparkRTT([]float64{0}, []bool{true}), "no ping was answered"},
		{gap, "nothing was measured"},
	}
}

// Lane draws a line of states, one cell for each. Each state has its own sign. Cells with an unknown
// state are empty.
func (t Theme) Lane(cells []Mark) string {
	return t.runs(len(cells), func(i int) (string, Style) {
		if cells[i] == Blank {
			return " ", Style{}
		}
		return t.lane[cells[i]], t.Marks[cells[i]]
	})
}

// runs draws n cells, with one sequence for each run of cells with the same style.
func (t Theme) runs(n int, cell func(i int) (string, Style)) string {
	var line, run strings.Builder
	var style Style
	for i := range n {
		sign, look := cell(i)
		if look.on != style.on {
			line.WriteString(style.Render(run.String()))
			run.Reset()
			style = look
		}
		run.WriteString(sign)
	}
	line.WriteString(style.Render(run.String()))
	return line.String()
}

// Statistics of what was measured; ok is false if nothing was.
func Statistics(values []float64) (mean, p95, highest float64, ok bool) {
	var known []float64
	for _, v := range values {
		if !math.IsNaN(v) {
			known = append(known, v)
			mean += v
		}
	}
	if len(known) == 0 {
		return 0, 0, 0, false
	}
	slices.Sort(known)
	return mean / float64(len(known)), known[(len(known)*95+99)/100-1], known[len(known)-1], true
}
