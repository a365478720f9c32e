package engine_test

import (
	"context"
	"errors"
	"testing"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
)

// told is a cluster that answers as a test says, and counts how often it was asked.
type told struct {
	*flowtest.Cluster
	reply func(flows.Question) (flows.Reply, error)
	asked map[flows.Question]int
}

func (c told) Ask(_ context.Context, q flows.Question) (flows.Reply, error) {
	c.asked[q]++
	return c.reply(q)
}

func TestWhatAClusterSaysIsAFact(t *testing.T) {
	q := flows.AskInstallation{Side: flows.A}
	for name, c := range map[string]struct {
		reply        func(flows.Question) (flows.Reply, error)
		unknown      string
		known, unfit bool
	}{
		"a value":       {reply: func(flows.Question) (flows.Reply, error) { return flows.Read(q, flows.InstallationFacts{}), nil }, known: true},
		"no way":        {reply: func(flows.Question) (flows.Reply, error) { return nil, engine.ErrNoWay }, unknown: "this program has no way to find out"},
		"unknown":       {reply: func(flows.Question) (flows.Reply, error) { return flows.Unknown(q, "it is secret"), nil }, unknown: "it is secret"},
		"no answer now": {reply: func(flows.Question) (flows.Reply, error) { return nil, &flows.Problem{Message: "gone"} }, unfit: true},
		"with a value and an error": {
			reply: func(flows.Question) (flows.Reply, error) {
				return flows.Read(q, flows.InstallationFacts{}), errors.New("half of it")
			},
			unknown: "half of it",
		},
	} {
		pair := flowtest.NewPair()
		cluster := told{pair.A, c.reply, map[flows.Question]int{}}
		var seen flows.ClusterFacts
		plan := func(f flows.Facts) flows.Plan {
			seen = f.Sides[flows.A]
			return flows.Plan{Asks: []flows.Question{q}}
		}
		if _, err := engine.Look(t.Context(), plan, cluster, pair.B); err != nil {
			t.Fatal(err)
		}
		a := seen.Installation
		if a.Unknown() != c.unknown || (a.Value() != nil) != c.known || (seen.Problem != nil) != c.unfit || cluster.asked[q] != 1 {
			t.Errorf("%s: got value %v, unknown %q, problem %v; asked %d times", name, a.Value(), a.Unknown(), seen.Problem, cluster.asked[q])
		}
	}
}

// A run changes what is installed, so it asks again after each observation.
func TestAnAnswerThatDoesNotLastIsAskedForAgain(t *testing.T) {
	q := flows.AskInstallation{Side: flows.A}
	pair := flowtest.NewPair()
	cluster := told{pair.A, func(flows.Question) (flows.Reply, error) { return flows.Read(q, flows.InstallationFacts{}), nil }, map[flows.Question]int{}}
	looks := 0
	plan := func(f flows.Facts) flows.Plan {
		s := flows.Step{ID: "x", Action: flows.Wait, Status: flows.Waiting}
		if f.Sides[flows.A].Installation.Value() != nil {
			if looks++; looks == 3 {
				s.Status = flows.Done
			}
		}
		return flows.Plan{Asks: []flows.Question{q}, Steps: []flows.Step{s}}
	}
	if err := engine.Run(t.Context(), plan, cluster, pair.B, func(engine.Event) {}, engine.Options{Now: pair.Now}); err != nil {
		t.Fatal(err)
	}
	if cluster.asked[q] != 3 {
		t.Errorf("asked %d times in 3 looks", cluster.asked[q])
	}
}

func TestNobodyAnswersForAClusterThatIsNotAsked(t *testing.T) {
	reply, err := engine.Absent{}.Ask(t.Context(), flows.AskInstallation{Side: flows.B})
	if reply != nil || err == nil {
		t.Errorf("got %v, %v", reply, err)
	}
}
