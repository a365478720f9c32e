package wizard

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/keys"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// liveScreen shows the connection as each side sees it.
type liveScreen struct {
	witnesses [2]witness
	verify    session.Verification
}

// witness has one side's reports while the screen has watched it.
type witness struct {
	of      flows.ContextRef
	reading flows.Reading
	history session.Series
}

// note adds the side's present report. It forgets reports of another cluster, or about
// another peer.
func (w witness) note(now time.Time, of flows.ContextRef, r flows.Reading) witness {
	if w.of != of || w.reading.Peer != r.Peer {
		w = witness{of: of}
	}
	if session.Newer(w.reading, r) {
		w.history.Points = slices.Clone(w.history.Points) // copies of the model share them
		w.history.Add(now, r, session.RateOf(w.reading, r))
	}
	w.reading = r
	return w
}

// witness adds the present reports of both sides.
func (s liveScreen) witness(c scene) liveScreen {
	for _, side := range []flows.Side{flows.A, flows.B} {
		s.witnesses[side] = s.witnesses[side].note(c.Now, c.pair[side], c.peer(side).Reading())
	}
	return s
}

func (s liveScreen) commands(c scene) []keys.Command {
	k := c.Keys
	if c.apart() { // there is no connection to measure, to use or to remove
		return []keys.Command{
			{Binding: keys.Named(k.Plan, "plan to connect"), Msg: goPlan},
			{Binding: k.Dashboard, Msg: goBoard},
			{Binding: k.Settings, Msg: goSettings},
			{Binding: k.Reset, Msg: takeAwayMsg(session.Reset)},
			{Binding: k.CopyCommand, Msg: session.CopyMsg(c.command())},
			{Binding: k.Back, Msg: goClusters},
		}
	}
	first := []keys.Command{{Binding: k.Verify, Msg: session.VerifyMsg{Pair: c.pair}}, {Binding: k.Diagnose, Msg: c.diagnosis()}}
	if s.together(c).State.Broken() { // packets would only show the same again
		slices.Reverse(first)
	}
	return append(first, []keys.Command{
		{Binding: k.Address, Msg: askAddress{}},
		{Binding: keys.Named(k.Services, "reach a Service"), Msg: goReach{}},
		{Binding: k.Settings, Msg: goSettings},
		{Binding: k.Plan, Msg: goPlan},
		{Binding: k.Disconnect, Msg: takeAwayMsg(session.Disconnect)},
		{Binding: k.Reset, Msg: takeAwayMsg(session.Reset)},
		{Binding: k.CopyCommand, Msg: session.CopyMsg(c.command())},
		{Binding: k.Back, Msg: goClusters},
		{Binding: k.Dashboard, Msg: goBoard},
	}...)
}

// diagnosis returns the message that shows the checks of the connection.
func (c scene) diagnosis() session.DiagnoseMsg {
	return session.DiagnoseMsg{A: c.id(flows.A), B: c.id(flows.B)}
}

func (s liveScreen) text(c scene) []string {
	if inner := c.framed(); inner.Theme.Frames() {
		return s.panels(c, inner)
	}
	width, lines := c.Width, s.verdict(c)
	var measured []string
	if both := c.peer(flows.A).Connection != nil && c.peer(flows.B).Connection != nil; both {
		measured = s.verify.Lines(c.Env, c.pair, s.together(c), width)
		lines = append(lines, measured[0])
		measured = measured[1:]
	}
	t := c.Theme
	lines = append(append(lines, ""), t.Connection(s.picture(c, t), width)...)
	for _, side := range []flows.Side{flows.A, flows.B} {
		lines = append(lines, t.Lending(view.Lendings(c.on(side).Good, c.id(side.Other())), c.id(side), c.id(side.Other()), width)...)
	}
	if len(measured) > 0 {
		lines = append(lines, "")
		lines = append(lines, measured...)
	}
	if left := c.leftToDo(); left != "" {
		lines = append(lines, "")
		lines = append(lines, c.Theme.Wrap(left, width, 0)...)
	}
	lines = append(lines, s.reach(c)...)
	return append(lines, s.chart(c, c.Body-len(lines))...)
}

// panels draws the screen in frames. Commands stand outside of them.
func (s liveScreen) panels(c, inner scene) []string {
	t, title := inner.Theme, inner.Theme.Title.Render
	verdict := draw.Panel{Title: title("Now"), Lines: s.verdict(inner), Mark: draw.PairMarks[s.together(c).State]}
	lines := append(t.Stack(c.Width, 0, []draw.Panel{verdict}), t.Connection(s.picture(c, t), c.Width)...)
	measured, lent := draw.Panel{Title: title("From pod to pod")}, draw.Panel{Title: title("Lending")}
	if both := c.peer(flows.A).Connection != nil && c.peer(flows.B).Connection != nil; both {
		measured.Lines = s.verify.Lines(inner.Env, c.pair, s.together(c), inner.Width)
	}
	for _, side := range []flows.Side{flows.A, flows.B} {
		lent.Lines = append(lent.Lines, t.Lending(view.Lendings(c.on(side).Good, c.id(side.Other())), c.id(side), c.id(side.Other()), inner.Width)...)
	}
	lines = append(lines, t.Stack(c.Width, 0, []draw.Panel{measured}, []draw.Panel{lent})...)
	if left := c.leftToDo(); left != "" {
		lines = append(lines, c.Theme.Wrap(left, c.Width, 0)...)
	}
	lines = append(lines, s.reach(c)...)
	if chart := s.chart(inner, c.Body-len(lines)-t.Edges()+1); len(chart) > 1 {
		lines = append(lines, t.Panel(draw.Panel{Title: chart[1], Lines: chart[2:]}, c.Width, 0)...)
	}
	return lines
}

const (
	// leastChart and mostChart are the smallest and the largest height of the chart,
	// without the lines above it.
	leastChart, mostChart = 7, 15
	// fewBuckets is the smallest number of buckets in the chart: five minutes.
	fewBuckets = 30
)

// chart returns the chart of both sides' round trips, if there is room for it.
func (s liveScreen) chart(c scene, room int) []string {
	t := c.Theme
	height := min(room-2, mostChart)
	length := fewBuckets
	for _, w := range s.witnesses {
		length = max(length, len(w.history.Points))
	}
	length = min(length, 2*draw.PlotWidth(c.Width)) // a bucket takes half a cell
	head := []string{t.Label.Render("Round trip") + t.Faint.Render(fmt.Sprintf(" between the gateways, every %s ", session.Bucket))}
	var curves []draw.Curve
	for i, w := range s.witnesses {
		side := flows.Side(i)
		points := w.history.Until(c.Now, length)
		values := session.RoundTrips(points)
		if draw.Curved(values) {
			curves = append(curves, draw.Curve{Values: values, Lost: session.Lost(points), Style: t.Sides[side], Mark: [...]rune{'*', 'o'}[side]})
			head = append(head, t.Side(side, c.name(side)+" "+t.To+" "+c.name(side.Other()), 0))
		}
	}
	if height < leastChart || len(curves) == 0 {
		return nil
	}
	back := time.Duration(length) * session.Bucket
	return append([]string{"", strings.Join(head, " ")}, t.Chart(curves, back, c.Width, height, draw.InMilliseconds)...)
}

func (s liveScreen) verdict(c scene) []string {
	a, b := c.status(flows.A), c.status(flows.B)
	v := s.together(c)
	text := fmt.Sprintf("%s says %s, %s says %s", c.name(flows.A), a.word, c.name(flows.B), b.word)
	if a.word == b.word {
		text = "both sides say: " + a.word
	}
	if v.State == view.Connected || v.State == view.Untested || v.State == view.Degraded && a.word == flows.StateConnected.Word() && a.word == b.word {
		why, _, _ := strings.Cut(v.Why, "; tested from pod to pod") // the next line says this
		text = v.State.String() + ": " + why
	}
	mark := draw.PairMarks[v.State]
	lines := c.Theme.Wrap(c.Theme.Glyphs[mark]+" "+text, c.Width, 2)
	for i := range lines {
		lines[i] = c.Theme.Marks[mark].Render(lines[i])
	}
	for side, of := range []status{a, b} {
		if of.why != "" && !strings.Contains(text, of.why) {
			lines = append(lines, c.Theme.Wrap("  "+c.name(flows.Side(side))+": "+of.why, c.Width, 2)...)
		}
	}
	return lines
}

// together returns the verdict from both sides.
func (s liveScreen) together(c scene) view.Verdict {
	return view.Together([2]view.End{c.end(flows.A), c.end(flows.B)}, s.verify.Of(c.pair), c.Now)
}

// end returns the side of the connection in the form of the dashboard.
func (c scene) end(s flows.Side) view.End {
	side := c.on(s)
	e := view.End{ID: c.id(s), Chosen: true, Reading: c.peer(s).Reading()}
	if p := side.Latest.Problem; p != nil {
		e.Problem, e.Silent = p.Message, side.Since
	}
	return e
}

// apart reports whether both clusters answer, and neither has a gateway for the other.
func (c scene) apart() bool {
	for _, s := range []flows.Side{flows.A, flows.B} {
		if c.on(s).Latest.Problem != nil || c.peer(s).Reading().Exists || c.peer(s).Reading().Role != "" {
			return false
		}
	}
	return true
}

// leftToDo describes the differences between the connection and the wanted settings.
func (c scene) leftToDo() string {
	switch n := c.Current.Changes().Total(); {
	case !c.planned() || c.Current.Failure() != nil || n == 0:
		return ""
	case c.apart():
		return fmt.Sprintf("No gateway connects %s and %s now. Press %s for the plan to connect them.", c.id(flows.A), c.id(flows.B), keys.Called(c.Keys.Plan))
	default:
		return fmt.Sprintf("The plan has %d changes: press %s to see them.", n, keys.Called(c.Keys.Plan))
	}
}

// picture returns the picture of the connection, with the facts about both ends.
func (s liveScreen) picture(c scene, t draw.Theme) draw.Connection {
	v := s.together(c)
	p := draw.Connection{Line: draw.PairMarks[v.State]}
	if v.State == view.Untested { // the tunnel itself works
		p.Line = draw.OK
	}
	p.Listens, p.Known = flows.ServerSide([2]flows.Reading{c.peer(flows.A).Reading(), c.peer(flows.B).Reading()})
	for i := range p.Names {
		side := flows.Side(i)
		p.Names[i] = c.name(side)
		p.Lines[i], p.Marks[i] = s.end(c, t, side)
	}
	return p
}

// end returns the facts about one end as a table, and the state of the end.
func (s liveScreen) end(c scene, t draw.Theme, side flows.Side) ([]string, draw.Mark) {
	now, width := c.status(side), t.EndWidth(c.Width)
	mark := now.mark
	if mark == draw.OK {
		mark = draw.EndMark(flows.StateConnected, s.together(c).State)
	}
	r := c.peer(side).Reading()
	pod := ""
	if p := c.peer(side).Pod; p != nil {
		pod = p.Name
	}
	facts := append([]draw.Fact{{Label: "round trip", Value: s.roundTrip(c, side, r, t.EndWidth(c.Width)-draw.LabelCells)}},
		t.EndFacts(r, c.peer(side.Other()).Configuration, pod, func(at time.Time) string { return draw.Age(c.Now.Sub(at)) })...)
	if now.mark == draw.Unknown { // these facts are old
		for i, f := range facts {
			facts[i].Value = t.Faint.Render(f.Value)
		}
	}
	return t.Table(append([]draw.Fact{{Label: "state", Value: t.State(mark, now.word, 0)}}, facts...), width), mark
}

// liveBuckets is the length of a side's sparkline: three minutes.
const liveBuckets = 18

// roundTrip returns the latest round trip, and as many of the earlier ones as have room, as a sparkline; "" if none was
// measured.
func (s liveScreen) roundTrip(c scene, side flows.Side, r flows.Reading, width int) string {
	if !r.Exists || r.Latency == 0 {
		return ""
	}
	text := draw.RoundTrip(r.Latency)
	points := s.witnesses[side].history.Until(c.Now.Add(-session.Bucket), liveBuckets) // the present bucket is not full yet
	values, lost := session.RoundTrips(points), session.Lost(points)
	if _, _, highest, ok := draw.Statistics(values, r.Latency); ok {
		most := " max " + draw.Milliseconds(highest)
		first := len(values) - max(0, min(len(values), width-draw.Cells(text)-2-draw.Cells(most)))
		text += "  " + c.Theme.SparkRTT(values[first:], lost[first:]) + c.Theme.Faint.Render(most)
	}
	return text
}
