package engine_test

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/trial"
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
		if _, err := engine.Look(t.Context(), flows.Planner(plan), cluster, pair.B); err != nil {
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
	if err := engine.Run(t.Context(), flows.Planner(plan), cluster, pair.B, func(engine.Event) {}, engine.Options{Now: pair.Now}); err != nil {
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

// Pods are run after the approval, and a run that changes nothing runs none.
func TestPodsTryNothingBeforeTheApproval(t *testing.T) {
	q := flows.AskAPI{Side: flows.A, URL: "https://192.0.2.7:6443"}
	for name, reply := range map[string]func(flows.Question) (flows.Reply, error){
		"answered": func(flows.Question) (flows.Reply, error) { return q.Reply(trial.API{URL: q.URL}), nil },
		"lost":     func(flows.Question) (flows.Reply, error) { return nil, &flows.Problem{Message: "gone"} },
		"no way":   func(flows.Question) (flows.Reply, error) { return nil, engine.ErrNoWay },
	} {
		pair := flowtest.NewPair()
		cluster := told{pair.A, reply, map[flows.Question]int{}}
		plan := func(f flows.Facts) flows.Plan {
			a := f.Sides[flows.A].APITrial
			try := flows.Step{ID: "try", Action: flows.Wait, Status: flows.Waiting, Asks: q}
			if a.Asked() {
				try.Status = flows.Done
			}
			ns := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "x"}}
			return flows.Plan{Steps: []flows.Step{try, flows.Ensure(flows.A, "ns", f.Sides[flows.A].FindNamespace("x"), ns)}}
		}
		if _, err := engine.Look(t.Context(), flows.Planner(plan), cluster, pair.B); err != nil || cluster.asked[q] > 0 {
			t.Errorf("%s: who only looks: got %v, asked %d times", name, err, cluster.asked[q])
		}
		approve := func(flows.Plan) (bool, error) {
			if cluster.asked[q] > 0 {
				t.Errorf("%s: pods ran before the approval", name)
			}
			return true, nil
		}
		err := engine.Run(t.Context(), flows.Planner(plan), cluster, pair.B, func(engine.Event) {}, engine.Options{Now: pair.Now, Approve: approve})
		if err != nil || cluster.asked[q] != 1 {
			t.Errorf("%s: got %v, asked %d times, want once", name, err, cluster.asked[q])
		}
	}
}
