package board

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/keys"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// around is the program around a screen of this size.
func around(width, height int) session.Env {
	return session.Env{
		Now: flowtest.Epoch(), Theme: draw.NewTheme(false, false), Keys: keys.NewMap(false),
		Width: width, Height: height, Body: height - session.FrameLines,
	}
}

// Rows move while the admin reads. The one under the cursor stays there.
func TestTheSelectedRowStaysUnderTheCursor(t *testing.T) {
	const clusters = 21
	name := func(i int) string { return fmt.Sprintf("cluster-%03d", i%clusters) }
	var names []string
	var all []News
	e := around(80, 24)
	for i := range clusters {
		n := toldBy(wire.ClusterID(name(i)))
		for j := range clusters {
			if j != i {
				n.Changed = append(n.Changed, reported(wire.ClusterID(name(j)), flows.RoleServer, up, e.Now))
			}
		}
		names, all = append(names, name(i)), append(all, n)
	}
	s := New(session.Options{Contexts: refsOf(names...)}, e).Take(e, all)
	press := func(msgs ...any) {
		for _, msg := range msgs {
			s, _ = s.Update(e, msg)
			s = s.Follow(e)
		}
	}
	line := func() (int, string) {
		for i, text := range s.View(e) {
			if text = ansi.Strip(text); strings.HasPrefix(text, "┃") {
				words := strings.Fields(text)
				return i, words[3] + " " + words[5] // beside an arrow
			}
		}
		return -1, ""
	}
	press(byName, keys.MoveMsg(8), ByStatus)
	at, row := line()
	for n := 1; n <= 30; n++ {
		e.Now = e.Now.Add(time.Second)
		s = s.Take(e, []News{toldBy(wire.ClusterID(name(n)), reported(wire.ClusterID(name(n+1)), flows.RoleServer, broken, e.Now))}).Follow(e)
		if nowAt, nowRow := line(); nowRow != row || nowAt != at && s.list.top > 0 {
			t.Fatalf("after %d changes: got %q on line %d, want %q on line %d", n, nowRow, nowAt, row, at)
		}
	}
	press(keys.MoveMsg(-1 << 20))
	top := s.Board.List[0]
	press(byName, byName) // backwards: another one is the first
	if !s.list.held || s.list.current() != top || s.Board.List[0] == top {
		t.Errorf("sorted anew: got %s, want the row that was gone to, %s, and another one on top", s.list.current().name, top.name)
	}
	press(keys.MoveMsg(-1<<20), keys.MoveMsg(-1))
	if s.list.held || s.list.current() != s.Board.List[0] {
		t.Errorf("beyond the top: got a row that is held on to, %+v", s.list)
	}
}

// Of one ping there is no curve, and a pane leaves none of its lines to a chart that it has no room for.
func TestAChartNeedsValuesAndRoom(t *testing.T) {
	e := around(120, 40)
	s := New(session.Options{Contexts: refsOf("rome", "milan")}, e)
	look := func() string {
		s = s.Take(e, []News{toldBy("rome", reported("milan", flows.RoleClient, up, e.Now)), toldBy("milan", reported("rome", flows.RoleServer, up, e.Now))})
		return ansi.Strip(strings.Join(s.View(e), "\n"))
	}
	if got := look(); !strings.Contains(got, "mean 1.2ms") || strings.Contains(got, "┤") {
		t.Errorf("after one report got\n%s\nwant its figures and no chart", got)
	}
	for range 3 {
		e.Now = e.Now.Add(session.Bucket)
		look()
	}
	if got := look(); !strings.Contains(got, "0┤") {
		t.Errorf("after four reports got\n%s\nwant a chart", got)
	}
	for e.Height = 24; e.Height < 60; e.Height++ {
		lines := s.View(e)
		if more := strings.Contains(lines[len(lines)-1], "more lines"); more && len(lines) != body(e) {
			t.Errorf("%d lines high: got\n%s\nwant no empty ones below", e.Height, strings.Join(lines, "\n"))
		}
		if got := strings.Join(lines, "\n"); strings.Contains(got, "┤") && !strings.Contains(got, "-5 min") {
			t.Errorf("%d lines high: got\n%s\nwant the whole chart", e.Height, ansi.Strip(got))
		}
	}
}

// Keys on the matrix are about the pair that its cursor is on, and the title names.
func TestTheMatrixHasACursor(t *testing.T) {
	e := around(60, 24)
	s := New(session.Options{Contexts: refsOf("rome", "milan", "oslo", "turin")}, e)
	s = s.Take(e, []News{
		toldBy("rome", reported("milan", flows.RoleClient, up, e.Now), reported("oslo", flows.RoleClient, up, e.Now)),
		toldBy("milan"), toldBy("oslo"), toldBy("turin", reported("paris", flows.RoleClient, up, e.Now)),
	})
	s, _ = s.Update(e, pageMatrix)
	if lines := s.matrixText(e); !strings.HasPrefix(ansi.Strip(lines[2]), "rome ") {
		t.Fatalf("got\n%s\nwant rome first, which has most peers", strings.Join(lines, "\n"))
	}
	for i, step := range []struct {
		by   stepMsg
		want [2]wire.ClusterID // the cursor's line and column
	}{
		{stepMsg{}, [2]wire.ClusterID{"rome", "milan"}},
		{stepMsg{right: +1}, [2]wire.ClusterID{"rome", "oslo"}},
		{stepMsg{right: +1}, [2]wire.ClusterID{"rome", "oslo"}}, // rome has no more
		{stepMsg{down: -1}, [2]wire.ClusterID{"rome", "oslo"}},
		{stepMsg{down: +1}, [2]wire.ClusterID{"milan", "rome"}}, // the nearest that milan has
		{stepMsg{right: -1}, [2]wire.ClusterID{"milan", "rome"}},
		{stepMsg{down: +1}, [2]wire.ClusterID{"oslo", "rome"}},
		{stepMsg{down: +1}, [2]wire.ClusterID{"paris", "turin"}}, // of other clusters
	} {
		s, _ = s.Update(e, step.by)
		m := s.matrix(e)
		title := ansi.Strip(s.Title(e))
		if m.cursor != step.want || !strings.Contains(title, string(step.want[0])) || !strings.Contains(title, string(step.want[1])) {
			t.Errorf("step %d: got the cursor on %v below %q, want %v", i, m.cursor, title, step.want)
		}
		if got := ansi.Strip(s.matrixText(e)[2+m.line]); !strings.HasPrefix(got, string(step.want[0])) || !strings.Contains(got, "┃") {
			t.Errorf("step %d: the cursor is not on its line: %q", i, got)
		}
		if p := s.Subject(); p == nil || p.ID != PairOf(step.want[0], step.want[1]) {
			t.Errorf("step %d: keys are about %+v, want %v", i, p, step.want)
		}
	}
	if text := s.Text(e); text.Cursor != 2+s.matrix(e).line {
		t.Errorf("got line %d kept in sight, want the cursor's", text.Cursor)
	}
	s.from, s.list.selected = "rome", PairOf("rome", "oslo")
	e.Width = 33 // only rome and milan have columns
	if m := s.matrix(e); m.cursor != [2]wire.ClusterID{"oslo", "rome"} || m.column != 0 {
		t.Errorf("got the cursor on %v, column %d of %v, want the cell of the pair that has room", m.cursor, m.column, m.columns)
	}
}

// Without rows there is nothing to arrange: the first key that is offered connects clusters.
func TestAnEmptyListOffersNothingThatNeedsRows(t *testing.T) {
	e := around(80, 24)
	s := New(session.Options{Contexts: refsOf("rome")}, e).Take(e, []News{silent("rome")})
	commands := s.Commands(e)
	if got := ansi.Strip(strings.Join(s.View(e), "\n")); !strings.Contains(got, "rome     ? no answer for 0s") || !strings.Contains(got, "\n  i/o timeout") {
		t.Errorf("got\n%s\nwant the reason where there is so much room", got)
	}
	if commands[0].Msg != (session.ChooseMsg{}) {
		t.Errorf("got %q first", commands[0].Help().Desc)
	}
	for _, c := range commands {
		switch c.Msg {
		case actFilter, actWiden, byName, resizeMsg(+2):
			t.Errorf("without rows there is %q", c.Help().Desc)
		}
	}
}

// Without contexts none has a name to hide.
func TestWithoutContextsThereIsNoNameToHide(t *testing.T) {
	e := around(80, 24)
	for _, c := range New(session.Options{}, e).Commands(e) {
		if c.Msg == actHide {
			t.Errorf("got %q", c.Help().Desc)
		}
	}
}

// What rows leave of a list that is alone on the screen is for more events than the latest.
func TestAListAloneShowsWhatHappened(t *testing.T) {
	e := around(100, 30)
	s := New(session.Options{Contexts: refsOf("rome")}, e)
	for i, value := range []networkingv1beta1.ConnectionStatusValue{up, broken, up} {
		e.Now = e.Now.Add(time.Duration(i) * time.Minute)
		s = s.Take(e, nil) // the screen wakes when a reading becomes too old
		s = s.Take(e, []News{toldBy("rome", reported("milan", flows.RoleClient, value, e.Now))})
	}
	s.wide = true
	if got := ansi.Strip(strings.Join(s.View(e), "\n")); !strings.Contains(got, "─ Events ─") || !strings.Contains(got, "✓ connected  rome → milan") || !strings.Contains(got, "✗ down       rome → milan") {
		t.Errorf("got\n%s\nwant all events", got)
	}
}

// What is connected since long may have been degraded in between.
func TestAStateBeginsWithItsLastChange(t *testing.T) {
	e := around(100, 30)
	s := New(session.Options{Contexts: refsOf("rome")}, e)
	began := e.Now.Add(-time.Hour)
	for _, loss := range []float64{0, 0.5, 0} {
		e.Now = e.Now.Add(10 * time.Second)
		r := reported("milan", flows.RoleClient, up, e.Now)
		r.Since, r.Loss = began, loss
		s = s.Take(e, []News{toldBy("rome", r)})
	}
	e.Now = e.Now.Add(2 * time.Second)
	if got := ansi.Strip(strings.Join(s.View(e), "\n")); !strings.Contains(got, "connected for 0s") {
		t.Errorf("got\n%s\nwant it connected since it is not degraded any more", got)
	}
}
