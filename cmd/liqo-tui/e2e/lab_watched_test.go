package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/internal/sample"
)

// Bounds for the dashboard to show what pods experience: that no packet passes any more, and
// that packets pass again.
const (
	watchedCut   = 10 * time.Second
	watchedAgain = 20 * time.Second
	// watchedFault is the duration of a fault that is not over at once.
	watchedFault = 25 * time.Second
)

// TestLabDashboardWatchesFaults lets the dashboard watch while things break, and records its
// text each second. No text may contradict the pods, which send all the time.
func TestLabDashboardWatchesFaults(t *testing.T) {
	l := useLab(t)
	l.prepare(t)
	program := program(t)
	l.connect("--server-service-type", "NodePort", "--yes").want(t, exit.OK)

	c := connection{"rome", "milan"}
	r := &faultRun{lab: l, connections: []connection{c}, nodesOf: map[string][]string{}}
	for _, cluster := range l.clusters {
		r.nodesOf[cluster] = l.nodes(t, cluster)
	}
	for _, way := range c.ways() {
		r.senders = append(r.senders, l.sender(t, way))
	}
	r.settle(t)
	for _, s := range r.senders {
		r.streams = append(r.streams, s.stream(t, 200, "--interval", "20ms"))
	}
	w := &labWatch{terminal: openTerminal(t, 120, 40, nil, program, "dashboard", "--kubeconfig", l.kubeconfig)}
	w.Wait(60*time.Second, "2 contexts", "1 ✓ connected")

	random := rand.New(rand.NewPCG(sample.Seed(t), 0))
	all := faults()
	for _, i := range random.Perm(len(all))[:sample.Of(3, len(all))] {
		f := all[i]
		d := damage{r, t, c.ways()[random.IntN(2)], rand.New(rand.NewPCG(random.Uint64(), 0))}
		w.begin(f.name)
		over := make(chan struct{})
		go func() {
			defer close(over)
			detail, err := f.apply(d)
			t.Logf("%s %s on %s: %s %v", time.Now().Format("15:04:05.0"), f.name, d.way.a, detail, err)
			if f.undo == nil {
				return
			}
			time.Sleep(watchedFault)
			if err := f.undo(d); err != nil {
				t.Errorf("%s: undo: %v", f.name, err)
			}
		}()
		w.record(over)
		r.settle(t)
		w.recordFor(watchedAgain + 2*time.Second)
	}
	var stalls []stall
	for _, stream := range r.streams {
		stalls = append(stalls, stream.stop(t)...)
	}
	w.judge(t, stalls)
}

// labWatch is the text of a dashboard, second by second.
type labWatch struct {
	*terminal
	fault string
	said  []saying
}

// saying is the state of the only row at a time.
type saying struct {
	fault  string
	at     time.Time
	state  view.PairState
	screen string
}

func (w *labWatch) begin(fault string) { w.fault = fault }

// record notes the text each second until over is closed.
func (w *labWatch) record(over <-chan struct{}) {
	for {
		w.note()
		select {
		case <-over:
			return
		case <-time.After(time.Second):
		}
	}
}

func (w *labWatch) recordFor(d time.Duration) {
	over := make(chan struct{})
	timer := time.AfterFunc(d, func() { close(over) })
	defer timer.Stop()
	w.record(over)
}

func (w *labWatch) note() {
	s := saying{fault: w.fault, at: time.Now(), state: view.States, screen: w.Screen()}
	for line := range strings.Lines(s.screen) {
		row, ok := strings.CutPrefix(strings.TrimPrefix(line, "│ "), "┃ ")
		if !ok {
			continue
		}
		_, row, _ = strings.Cut(row, " ") // without the sign
		for state := range view.States {
			if strings.HasPrefix(row, state.String()+" ") {
				s.state = state
			}
		}
	}
	w.said = append(w.said, s)
}

// judge compares the texts with the times without answers.
func (w *labWatch) judge(t *testing.T, stalls []stall) {
	t.Helper()
	var told []string
	last := saying{state: view.States}
	for _, s := range w.said {
		if s.fault != last.fault {
			told = append(told, "\n"+s.fault+":")
		}
		if s.fault != last.fault || s.state != last.state {
			told = append(told, fmt.Sprintf("%s %s", s.at.Format(time.TimeOnly), s.state))
		}
		last = s
		if wrong := s.wrong(stalls); wrong != "" {
			t.Errorf("%s, %s: the dashboard says %s: %s\n%s", s.at.Format(time.TimeOnly), s.fault, s.state, wrong, s.screen)
		}
	}
	for _, s := range stalls {
		told = append(told, fmt.Sprintf("\nno answers from %s to %s", s.Last.Format("15:04:05.0"), s.First.Format("15:04:05.0")))
	}
	t.Logf("%d seconds were watched%s", len(w.said), strings.Join(told, " "))
}

// wrong is the reason that a text contradicts the pods; "" if it does not.
func (s saying) wrong(stalls []stall) string {
	cut := slices.ContainsFunc(stalls, func(x stall) bool { return s.at.After(x.Last.Add(watchedCut)) && s.at.Before(x.First) })
	lately := slices.ContainsFunc(stalls, func(x stall) bool { return s.at.After(x.Last) && s.at.Before(x.First.Add(watchedAgain)) })
	switch {
	case s.state == view.States:
		return "there is no row"
	case cut && s.state.Works():
		return "nothing passes"
	case !lately && s.state.Broken():
		return "packets pass"
	case s.state == view.Unreachable && !strings.Contains(s.fault, "API server"):
		return "both API servers answer"
	}
	return ""
}
