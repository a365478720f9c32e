package flows_test

import (
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
)

func TestAnAnswerIsUnreadUnknownOrAValue(t *testing.T) {
	q := flows.AskInstallation{Side: flows.B}
	plan := flows.Plan{Asks: []flows.Question{q}}
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var f flows.Facts
	answer := func() flows.Answer[flows.InstallationFacts] { return f.Sides[flows.B].Installation }
	if a := answer(); a.Value() != nil || a.Unknown() != "" || a.Answers(q) || a.Answers(nil) || len(plan.Open(f)) != 1 {
		t.Errorf("nobody has asked: got %+v, open %v", a, plan.Open(f))
	}
	flows.Unknown(q, "it may not be read").Store(&f, at)
	if a := answer(); a.Value() != nil || a.Unknown() != "it may not be read" || !a.At().Equal(at) || len(plan.Open(f)) != 0 {
		t.Errorf("nobody knows: got %+v, open %v", a, plan.Open(f))
	}
	flows.Read(q, flows.InstallationFacts{Hosts: 3}).Store(&f, at)
	if a := answer(); a.Value() == nil || a.Value().Hosts != 3 || a.Unknown() != "" || !a.At().Equal(at) || len(plan.Open(f)) != 0 {
		t.Errorf("it is known: got %+v, open %v", a, plan.Open(f))
	}
	if a := f.Sides[flows.A].Installation; a.Answers(q) || a.Value() != nil {
		t.Errorf("the other side: got %+v", a)
	}
	lost := flows.Facts{}
	lost.Sides[flows.B].Problem = &flows.Problem{Message: "no answer"}
	if open := plan.Open(lost); len(open) != 0 {
		t.Errorf("a cluster that can't be used is asked %v", open)
	}
}
