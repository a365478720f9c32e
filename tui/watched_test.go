package tui

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/simulated"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/internal/golden"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// watchedFault is something that breaks while the dashboard is looked at.
type watchedFault struct {
	name        string
	breaks      func(*flowtest.Pair)
	mends       func(*flowtest.Pair) // nil: it stays
	cut         bool                 // the gateways' packets don't pass
	unreachable bool                 // an API server does not answer
	stale       bool                 // a gateway says nothing more
	roots       []string             // what the diagnosis may blame, of which it has to name one; none: nothing
	lasts       time.Duration        // if it mends itself
	counts      time.Duration        // the time over which the reason counts packets: so long it stays true
}

func linked(change func(*simulated.Link)) func(*flowtest.Pair) {
	return func(p *flowtest.Pair) { p.Join("rome", "milan", change) }
}

func behaving(of func(*flowtest.Pair) *flowtest.Cluster, change func(*flowtest.Behaviour)) func(*flowtest.Pair) {
	return func(p *flowtest.Pair) { of(p).Behave(change) }
}

func theA(p *flowtest.Pair) *flowtest.Cluster { return p.A }
func theB(p *flowtest.Pair) *flowtest.Cluster { return p.B }

func unanswering(b *flowtest.Behaviour) { b.Unreachable = []flowtest.Window{{From: 1}} }
func answering(b *flowtest.Behaviour)   { b.Unreachable = nil }

// removed is an object of a kind that somebody has deleted.
func removed[O wire.Object](of func(*flowtest.Pair) *flowtest.Cluster) func(*flowtest.Pair) {
	return func(p *flowtest.Pair) {
		for _, o := range of(p).Objects() {
			if _, ok := o.(O); ok {
				of(p).Remove(o)
			}
		}
	}
}

// edited is one that was applied with something else in it.
func edited[O wire.Object](of func(*flowtest.Pair) *flowtest.Cluster, edit func(O)) func(*flowtest.Pair) {
	return func(p *flowtest.Pair) {
		for _, o := range of(p).Objects() {
			if o, ok := o.(O); ok {
				edit(o)
				of(p).PutAs("liqo-tui", o)
			}
		}
	}
}

const restarting = 30 * time.Second

var watchedFaults = []watchedFault{
	{name: "nothing", breaks: func(*flowtest.Pair) {}},
	{name: "UDP is cut", cut: true, roots: []string{"LT-D020"}, breaks: linked(func(l *simulated.Link) { l.Closed = true }), mends: linked(func(l *simulated.Link) { l.Closed = false })},
	{name: "one of seven packets is lost", roots: []string{"LT-D032"}, counts: time.Minute, breaks: linked(func(l *simulated.Link) { l.Loss = 0.15 }), mends: linked(func(l *simulated.Link) { l.Loss = 0 })},
	{name: "the link is slow", breaks: linked(func(l *simulated.Link) { l.RoundTrip = 400 * time.Millisecond }), mends: linked(func(l *simulated.Link) { l.RoundTrip = 0 })},
	{name: "the server's gateway is killed", cut: true, lasts: restarting, roots: []string{"LT-D012", "LT-D014"}, breaks: func(p *flowtest.Pair) { p.B.KillGateway("rome", restarting) }},
	{name: "the client's gateway is killed", cut: true, lasts: restarting, roots: []string{"LT-D012", "LT-D014"}, breaks: func(p *flowtest.Pair) { p.A.KillGateway("milan", restarting) }},
	{
		name: "the server's pod waits", cut: true, roots: []string{"LT-D012", "LT-D014"},
		breaks: behaving(theB, func(b *flowtest.Behaviour) { b.PodWaiting = "ImagePullBackOff: not found" }),
		mends:  behaving(theB, func(b *flowtest.Behaviour) { b.PodWaiting = "" }),
	},
	{
		name: "a gateway has another key than it says", cut: true, roots: []string{"LT-D020", "LT-D030"},
		breaks: behaving(theB, func(b *flowtest.Behaviour) { b.WrongKey = true }),
		mends:  behaving(theB, func(b *flowtest.Behaviour) { b.WrongKey = false }),
	},
	{name: "A's API server does not answer", unreachable: true, roots: []string{"LT-D001"}, breaks: behaving(theA, unanswering), mends: behaving(theA, answering)},
	{name: "B's API server does not answer", unreachable: true, roots: []string{"LT-D001"}, breaks: behaving(theB, unanswering), mends: behaving(theB, answering)},
	{
		name: "neither API server answers, and UDP is cut", cut: true, unreachable: true, roots: []string{"LT-D001"},
		breaks: func(p *flowtest.Pair) {
			p.A.Behave(unanswering)
			p.B.Behave(unanswering)
			p.Join("rome", "milan", func(l *simulated.Link) { l.Closed = true })
		},
		mends: func(p *flowtest.Pair) {
			p.A.Behave(answering)
			p.B.Behave(answering)
			p.Join("rome", "milan", func(l *simulated.Link) { l.Closed = false })
		},
	},
	{
		name: "a gateway reports nothing more", stale: true, roots: []string{"LT-D014"},
		breaks: behaving(theB, func(b *flowtest.Behaviour) { b.NoReports = true }),
		mends:  behaving(theB, func(b *flowtest.Behaviour) { b.NoReports = false }),
	},
	{name: "the client's gateway is deleted", cut: true, roots: []string{"LT-D010"}, breaks: removed[*networkingv1beta1.GatewayClient](theA)},
	{name: "the server's gateway is deleted", cut: true, roots: []string{"LT-D010"}, breaks: removed[*networkingv1beta1.GatewayServer](theB)},
	{
		name: "the client dials another address", cut: true, roots: []string{"LT-D011"},
		breaks: edited(theA, func(o *networkingv1beta1.GatewayClient) { o.Spec.Endpoint.Addresses = []string{"192.0.2.77"} }),
	},
	{
		name: "a cluster is told another key", cut: true, roots: []string{"LT-D013"},
		breaks: edited(theB, func(o *networkingv1beta1.PublicKey) { o.Spec.PublicKey = slices.Repeat([]byte{7}, 32) }),
	},
}

// Whenever a path is cut between two pings: within 10 s the screen says so, and nothing else before.
func TestACutPathIsNamedWithinTenSeconds(t *testing.T) {
	for n := range 4 { // pings are 2 s apart, a tick of the clusters is 1 s
		after := time.Duration(n) * time.Second
		onDashboard(t, func(t *testing.T, d *driver) {
			d.send(tea.WindowSizeMsg{Width: 120, Height: 40})
			d.keys("D")
			d.wait(20*time.Second + after)
			d.pair.Join("rome", "milan", func(l *simulated.Link) { l.Closed = true })
			cut, named := time.Now(), time.Duration(0)
			for since := time.Duration(0); since < 20*time.Second; since = time.Since(cut) {
				screen := d.screen()
				for line := range strings.Lines(screen) {
					if strings.Contains(line, "ROOT CAUSE") && !strings.Contains(line, "LT-D020") {
						t.Fatalf("%s after the cut something else is blamed:\n%s", since, screen)
					}
				}
				if named == 0 && strings.Contains(screen, "ROOT CAUSE") {
					named = since
				}
				d.wait(time.Second)
			}
			if named == 0 || named > seen {
				t.Errorf("cut %s later: named after %s, want at most %s", after, named, seen)
			}
		})
	}
}

const (
	// seen is how long what changes on the way may take until the screen says it.
	seen = 10 * time.Second
	// explained is how long the reason may take where a report has to grow too old first.
	explained = 45 * time.Second
	// back is how long a connection that works again may take.
	back = 20 * time.Second
)

// The dashboard is watched while things break, second by second: what it says is recorded,
// and no second has a wrong claim.
func TestNoSecondOfTheDashboardShowsAWrongClaim(t *testing.T) {
	var record strings.Builder
	for _, f := range watchedFaults {
		fmt.Fprintln(&record, f.name)
		for _, page := range []string{"list", "diagnosis"} {
			onDashboard(t, func(t *testing.T, d *driver) {
				d.send(tea.WindowSizeMsg{Width: 120, Height: 40})
				if page == "diagnosis" {
					d.keys("D")
				}
				d.wait(15 * time.Second)
				w := &watch{driver: d, fault: f, page: page}
				w.look(5*time.Second, false)
				f.breaks(d.pair)
				lasts := time.Minute
				if f.lasts > 0 {
					lasts = f.lasts
				}
				w.look(lasts, true)
				if f.mends != nil {
					f.mends(d.pair)
				}
				if f.mends != nil || f.lasts > 0 {
					w.look(time.Minute, false)
				}
				fmt.Fprintf(&record, "  %-9s %s\n", page, strings.Join(w.said, " · "))
			})
		}
	}
	golden.Compare(t, "watched.txt", record.String())
}

// watch is what a screen said while something was broken.
type watch struct {
	*driver
	fault   watchedFault
	page    string
	broken  bool
	changed time.Time // when that began or ended
	said    []string  // whenever it changed
	last    string
	named   bool // the reason
	wrong   int  // seconds
}

// look judges each second for so long.
func (w *watch) look(length time.Duration, broken bool) {
	w.t.Helper()
	if broken != w.broken {
		w.said = append(w.said, map[bool]string{true: "BROKEN", false: "MENDED"}[broken])
		w.broken, w.changed, w.last = broken, time.Now(), ""
	}
	for range length / time.Second {
		w.wait(time.Second)
		since := time.Since(w.changed)
		if w.changed.IsZero() {
			since = time.Hour // it was well before
		}
		screen := w.screen()
		says, wrong := w.state(screen, since)
		if w.page == "diagnosis" {
			says, wrong = w.reason(screen, since)
		}
		if says != w.last {
			w.last = says
			w.said = append(w.said, map[bool]string{true: "", false: fmt.Sprintf("%.0fs ", since.Seconds())}[w.changed.IsZero()]+says)
		}
		if wrong != "" {
			w.wrong++
			if w.wrong == 1 { // the others are likely the same
				w.t.Errorf("%s, %.0f s later, broken %t: %s: %s\n%s", w.fault.name, since.Seconds(), w.broken, says, wrong, screen)
			}
		}
	}
	if w.page == "diagnosis" && broken && len(w.fault.roots) > 0 && !w.named {
		w.t.Errorf("%s: the reason was never named", w.fault.name)
	}
}

// state is what the list says of the peering, and what is wrong with that.
func (w *watch) state(screen string, since time.Duration) (says, wrong string) {
	for line := range strings.Lines(screen) {
		row, ok := strings.CutPrefix(strings.TrimPrefix(line, "│ "), "┃ ")
		if !ok {
			continue
		}
		_, row, _ = strings.Cut(row, " ") // its sign
		for s := range view.States {
			if strings.HasPrefix(row, s.String()+" ") {
				return s.String(), w.judge(s, since)
			}
		}
	}
	return "?", "the peering has no row, or no state"
}

func (w *watch) judge(s view.PairState, since time.Duration) string {
	cut, lately := w.broken && w.fault.cut, w.broken || since < seen
	silent, stale := w.fault.unreachable && lately, (w.fault.stale || w.fault.unreachable) && lately
	switch {
	case cut && since > seen && s.Works():
		return "nothing passes"
	case !cut && since > back && s.Broken():
		return "packets pass"
	case s == view.Unreachable && !silent:
		return "both API servers answer"
	case s == view.Stale && !stale:
		return "both gateways report"
	}
	return ""
}

// reason is what the diagnosis blames, and what is wrong with that.
func (w *watch) reason(screen string, since time.Duration) (says, wrong string) {
	var roots []string
	for line := range strings.Lines(screen) {
		if strings.Contains(line, "ROOT CAUSE") {
			roots = append(roots, strings.Fields(strings.TrimPrefix(line, "│ "))[1])
		}
	}
	says = strings.Join(slices.Compact(slices.Clone(roots)), ", ")
	for _, root := range roots {
		switch {
		case !slices.Contains(w.fault.roots, root):
			return says, root + " is not broken"
		case !w.broken && since > max(back, w.fault.counts):
			return says, root + " was mended"
		}
	}
	w.named = w.named || len(roots) > 0
	switch { // a report is stale after 30 s, so all is explained by then
	case w.broken && since > explained && len(w.fault.roots) > 0 && len(roots) == 0:
		wrong = "it does not say why"
	case strings.Contains(screen, "measuring"):
		return "measuring", wrong
	case says == "":
		says = "no reason"
	}
	return says, wrong
}
