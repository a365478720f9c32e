package tui

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

// curve is one line of a chart: a value for each bucket, NaN where there is none.
type curve struct {
	values []float64
	style  style
	mark   rune // draws it where there are no Braille patterns
}

// chart draws curves over the same buckets into height lines of at most width
// cells, the last one being the axis of time. Buckets without a value stay
// empty: a line across them would be a measurement that nobody made.
func (t theme) chart(curves []curve, width, height int, unit func(float64) string) []string {
	top := ceiling(curves)
	labels := t.scale(top, height-1, unit)
	side := 0
	for _, l := range labels {
		side = max(side, cells(l))
	}
	plot := max(1, width-side-1)
	n := len(curves[0].values)
	lc := linechart.New(plot, height-1, 0, float64(max(1, n-1)), 0, top, linechart.WithXYSteps(0, 0))
	for _, c := range curves {
		t.draw(&lc, c)
	}
	lines := make([]string, height-1)
	for i := range lines {
		lines[i] = t.faint.Render(strings.Repeat(" ", side-cells(labels[i]))+labels[i]+t.axis) + canvasLine(&lc.Canvas, i)
	}
	return append(lines, strings.Repeat(" ", side+1)+t.faint.Render(t.span(n, plot)))
}

// draw puts one curve on the canvas.
func (t theme) draw(lc *linechart.Model, c curve) {
	at := func(i int) canvas.Float64Point { return canvas.Float64Point{X: float64(i), Y: c.values[i]} }
	// One grid for the whole curve: linechart's own lines take one for each.
	dots := graph.NewBrailleGrid(lc.GraphWidth(), lc.GraphHeight(), lc.MinX(), lc.MaxX(), lc.MinY(), lc.MaxY())
	for i, v := range c.values {
		from := max(0, i-1)
		switch {
		case math.IsNaN(v):
			continue
		case math.IsNaN(c.values[from]):
			from = i
		}
		if t.ascii {
			lc.DrawRuneLineWithStyle(at(from), at(i), c.mark, c.style.Style)
			continue
		}
		for _, p := range graph.GetLinePoints(dots.GridPoint(at(from)), dots.GridPoint(at(i))) {
			dots.Set(p)
		}
	}
	graph.DrawBraillePatterns(&lc.Canvas, canvas.Point{}, dots.BraillePatterns(), c.style.Style)
}

// canvasLine is a line of a canvas, with one sequence for each run of cells of
// one colour, and not, as the canvas itself draws it, for each cell.
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

// ceiling is a round number that no value is above.
func ceiling(curves []curve) float64 {
	top := 0.0
	for _, c := range curves {
		for _, v := range c.values {
			if !math.IsNaN(v) {
				top = max(top, v)
			}
		}
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

// scale are the labels of a chart's lines, from the top: the ceiling, its half
// where there is room, and 0.
func (t theme) scale(top float64, height int, unit func(float64) string) []string {
	labels := make([]string, height)
	labels[0], labels[height-1] = unit(top), "0"
	if height >= 5 && height%2 == 1 {
		labels[height/2] = unit(top / 2)
	}
	return labels
}

// span says how far back n buckets go.
func (t theme) span(n, width int) string {
	left, right := fmt.Sprintf("-%d min", int((time.Duration(n)*bucket).Minutes())), "now"
	return left + strings.Repeat(" ", max(1, width-len(left)-len(right))) + right
}

// spark draws values as one line of bars, from 0 to the largest; NaN is a gap.
func (t theme) spark(values []float64) string {
	top := 0.0
	for _, v := range values {
		if !math.IsNaN(v) {
			top = max(top, v)
		}
	}
	var b strings.Builder
	for _, v := range values {
		switch {
		case math.IsNaN(v):
			b.WriteString(t.gap)
		case top == 0:
			b.WriteString(t.bars[0])
		default:
			b.WriteString(t.bars[int(v/top*float64(len(t.bars)-1)+0.5)])
		}
	}
	return b.String()
}

// roundTrips are milliseconds; NaN where no ping was answered.
func roundTrips(points []point) []float64 {
	return valuesOf(points, func(p point) (float64, bool) {
		return float64(p.micros) / 1000, p.flags&answered != 0 && p.micros > 0
	})
}

func receivedRates(points []point) []float64 {
	return valuesOf(points, func(p point) (float64, bool) { return float64(p.received), p.flags&sampled != 0 && p.received >= 0 })
}

func sentRates(points []point) []float64 {
	return valuesOf(points, func(p point) (float64, bool) { return float64(p.sent), p.flags&sampled != 0 && p.sent >= 0 })
}

func valuesOf(points []point, value func(point) (float64, bool)) []float64 {
	values := make([]float64, len(points))
	for i, p := range points {
		v, ok := value(p)
		if !ok {
			v = math.NaN()
		}
		values[i] = v
	}
	return values
}

// statistics of what was measured; ok is false if nothing was.
func statistics(values []float64) (mean, p95, highest float64, ok bool) {
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

// milliseconds writes a number of them with the digits that mean something.
func milliseconds(v float64) string { return roundTrip(time.Duration(v * float64(time.Millisecond))) }

// perSecond writes a rate in at most five cells.
func perSecond(v float64) string {
	const unit = 1024
	if v < unit {
		return fmt.Sprintf("%.0fB", v)
	}
	prefix := -1
	for ; v >= 999.5 && prefix < 4; prefix++ {
		v /= unit
	}
	return fmt.Sprintf("%.3g%c", v, "KMGTP"[max(0, prefix)])
}
