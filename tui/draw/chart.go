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
	// Low and High are the smallest and the largest value of each bucket, for a band around the line; nil:
	// the line has none.
	Low, High []float64
	Lost      []bool // the buckets with unanswered pings; nil: none
	Style     Style
	Mark      rune // the character for a point on terminals without Braille patterns
}

// Unit says how the values of a chart are written, and which multiples of them have prefixes.
type Unit struct {
	text func(float64) string
	step float64 // between two prefixes
}

// The units of charts.
var (
	InMilliseconds = Unit{Milliseconds, 1000}
	InBytes        = Unit{func(v float64) string { return PerSecond(v) + "/s" }, 1024}
)

// fewValues is the smallest number of values in a curve. With one or two, the numbers beside the chart
// say more.
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

// gutter is the width of the labels of a chart. It is the same in all charts, so that a moment is in the same
// column in charts below each other.
const gutter = 7

// PlotWidth returns the number of cells of a chart's curves.
func PlotWidth(width int) int { return max(1, width-gutter-1) }

// Chart draws curves over the same buckets of time, from back until now, into height lines of at most
// width cells. The last line is the axis of time. Buckets without a value stay empty, because a line
// across them would pretend a measurement.
func (t Theme) Chart(curves []Curve, back time.Duration, width, height int, unit Unit) []string {
	plot := PlotWidth(width)
	for i, c := range curves {
		curves[i] = c.fitted(2 * plot) // a cell has two columns of dots
	}
	top := unit.ceiling(curves)
	labels := t.scale(top, height-1, unit.text)
	n := len(curves[0].Values)
	lc := linechart.New(plot, height-1, 0, float64(max(1, n-1)), 0, top, linechart.WithXYSteps(0, 0))
	for _, c := range curves {
		t.drawBand(&lc, c)
	}
	for _, c := range curves {
		t.draw(&lc, c)
	}
	for _, c := range curves {
		t.drawLost(&lc, c)
	}
	lines := make([]string, height-1)
	for i := range lines {
		lines[i] = t.Faint.Render(PadLeft(labels[i], gutter)+t.axis) + canvasLine(&lc.Canvas, i)
	}
	return append(lines, strings.Repeat(" ", gutter+1)+t.Faint.Render(timeAxis(back, plot)))
}

// fitted returns the curve with at most n values. Each of them is the mean of several buckets, and the band
// has their extremes.
func (c Curve) fitted(n int) Curve {
	all := len(c.Values)
	if all <= n {
		return c
	}
	low, high, lost := c.Low, c.High, c.Lost
	if low == nil {
		low, high = c.Values, c.Values
	}
	f := Curve{Values: make([]float64, n), Low: make([]float64, n), High: make([]float64, n), Style: c.Style, Mark: c.Mark}
	if lost != nil {
		f.Lost = make([]bool, n)
	}
	for i := range n {
		sum, known := 0.0, 0
		f.Low[i], f.High[i] = math.NaN(), math.NaN()
		for j := i * all / n; j < (i+1)*all/n; j++ {
			if lost != nil && lost[j] {
				f.Lost[i] = true
			}
			if math.IsNaN(c.Values[j]) {
				continue
			}
			if known == 0 {
				f.Low[i], f.High[i] = low[j], high[j]
			}
			f.Low[i], f.High[i] = min(f.Low[i], low[j]), max(f.High[i], high[j])
			sum, known = sum+c.Values[j], known+1
		}
		f.Values[i] = sum / float64(known) // NaN for none
	}
	return f
}

// drawBand fills the room between the extremes of a curve.
func (t Theme) drawBand(lc *linechart.Model, c Curve) {
	if c.Low == nil || t.ascii {
		return
	}
	dots := graph.NewBrailleGrid(lc.GraphWidth(), lc.GraphHeight(), lc.MinX(), lc.MaxX(), lc.MinY(), lc.MaxY())
	columns := 2 * lc.GraphWidth()
	n := len(c.Low)
	for x := range columns {
		at := float64(x) * float64(n-1) / float64(max(1, columns-1))
		i, share := int(at), at-math.Floor(at)
		j := min(i+1, n-1)
		low, high := c.Low[i]+share*(c.Low[j]-c.Low[i]), c.High[i]+share*(c.High[j]-c.High[i])
		if math.IsNaN(low) {
			continue
		}
		bottom, top := dots.GridPoint(canvas.Float64Point{X: at, Y: low}), dots.GridPoint(canvas.Float64Point{X: at, Y: high})
		for y := min(top.Y, bottom.Y); y <= max(top.Y, bottom.Y); y++ {
			dots.Set(canvas.Point{X: bottom.X, Y: y})
		}
	}
	graph.DrawBraillePatterns(&lc.Canvas, canvas.Point{}, dots.BraillePatterns(), t.Faint.Style)
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
		if cell.Style.GetForeground() != style.GetForeground() || cell.Style.GetFaint() != style.GetFaint() {
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

// ceiling returns a number that is not below any value, and is round when it is written.
func (u Unit) ceiling(curves []Curve) float64 {
	top := 0.0
	for _, c := range curves {
		top = max(top, Highest(c.Values, c.High))
	}
	if top <= 0 {
		return 1
	}
	prefix := math.Pow(u.step, math.Floor(math.Log(top)/math.Log(u.step)))
	magnitude := math.Pow(10, math.Floor(math.Log10(top/prefix))) * prefix
	for _, round := range []float64{1, 1.5, 2, 3, 4, 5, 6, 8} {
		if top <= round*magnitude {
			return round * magnitude
		}
	}
	return min(10*magnitude, prefix*u.step)
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

// ticks are the times between two labels of an axis.
var ticks = []time.Duration{time.Minute, 2 * time.Minute, 5 * time.Minute, 10 * time.Minute, 15 * time.Minute, 30 * time.Minute, time.Hour}

// timeAxis returns the axis of time: its beginning, round times, and now.
func timeAxis(back time.Duration, width int) string {
	left, right := fmt.Sprintf("-%d min", int(back.Minutes())), "now"
	const most, apart = 5, 10 // labels, and the cells for each
	step := ticks[0]
	for _, step = range ticks {
		if back/step < most && int(back/step)*apart <= width {
			break
		}
	}
	line := left
	for at := (back - 1).Truncate(step); at > 0; at -= step {
		label := fmt.Sprintf("-%d", int(at.Minutes()))
		column := int(float64(width-1)*(1-float64(at)/float64(back))+0.5) - len(label)/2
		if column > len(line)+1 && column+len(label)+len(right)+1 < width {
			line = Pad(line, column) + label
		}
	}
	return line + strings.Repeat(" ", max(1, width-len(line)-len(right))) + right
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

// SparkRTT draws round trips in ms, compared with the middle one of the row: half of the height stands for it,
// and twice of it has another colour. So a row shows its own changes, whether it takes 1 ms or 100. NaN is a
// gap if nothing was measured, and has the sign of lost pings if no answer came.
func (t Theme) SparkRTT(values []float64, lost []bool) string {
	usual := middle(values)
	return t.runs(len(values), func(i int) (string, Style) {
		switch v := values[i]; {
		case lost[i]:
			return t.lost, t.Marks[Fail]
		case math.IsNaN(v):
			return t.gap, t.Faint
		default:
			look := Style{}
			if v >= slow*usual {
				look = t.Marks[Running]
			}
			return t.Bars[int(min(v/(slow*usual), 1)*float64(len(t.Bars)-1)+0.5)], look
		}
	})
}

// slow is the multiple of the usual round trip that is worth a look.
const slow = 2

// middle returns the median of the known values.
func middle(values []float64) float64 {
	known := make([]float64, 0, len(values))
	for _, v := range values {
		if !math.IsNaN(v) {
			known = append(known, v)
		}
	}
	if len(known) == 0 {
		return math.NaN()
	}
	slices.Sort(known)
	return known[(len(known)-1)/2]
}

// RTTLegend returns the signs in a sparkline of round trips, with their meanings.
func (t Theme) RTTLegend() [][2]string {
	half := t.Bars[len(t.Bars)/2]
	gap := t.gap
	if gap == " " {
		gap = "a space"
	}
	return [][2]string{
		{half, "as long as usual in this row"},
		{t.Marks[Running].Render(t.Bars[len(t.Bars)-1]), "twice as long, or longer"},
		{t.Marks[Fail].Render(t.lost), "no ping was answered"},
		{t.Faint.Render(gap), "nothing was measured"},
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

// Statistics returns the mean, the 95th percentile and the maximum of the values in milliseconds; ok is
// false if there are none. The maximum is at least the latest value, whose bucket may not be among values.
func Statistics(values []float64, latest time.Duration) (mean, p95, highest float64, ok bool) {
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
	return mean / float64(len(known)), known[(len(known)*95+99)/100-1], max(known[len(known)-1], float64(latest.Microseconds())/1000), true
}
