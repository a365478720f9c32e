package main

import (
	"bytes"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report/reporttest"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
)

// runEvents are what a run over the in-memory pair writes, checked as every reader
// may rely on them.
func runEvents(t *testing.T, p *flowtest.Pair, o engine.Options, plan flows.Planner) []map[string]any {
	t.Helper()
	var out bytes.Buffer
	n := &report.NDJSON{Out: &out, Now: p.Now}
	n.Begin("connect", flows.ContextRef{Name: "rome"}, flows.ContextRef{Name: "milan"})
	o.Now = p.Now
	n.End(engine.Run(t.Context(), plan, p.A, p.B, n.Event, o), report.Achieved{})
	return reporttest.CheckEvents(t, out.String())
}

func connectPlan(f flows.Facts) flows.Plan {
	p := flows.Defaults()
	return flows.PlanConnect(p, f)
}

func TestNDJSONTellsARun(t *testing.T) {
	p := flowtest.NewPair()
	lines := runEvents(t, p, engine.Options{}, connectPlan)
	if last := lines[len(lines)-1]; last["ok"] != true || last["exit"] != 0.0 || last["changed"] != true {
		t.Errorf("got result %v, want ok, exit code 0, changed", last)
	}
	created, ended := map[any]bool{}, map[any]bool{}
	for _, l := range lines {
		switch l["type"] {
		case "change":
			created[l["object"]] = true
		case "step.end":
			ended[l["step"]] = l["result"] == "done"
		}
	}
	for _, object := range []string{"GatewayServer liqo-tenant-rome/rome", "GatewayClient liqo-tenant-milan/milan"} {
		if !created[object] {
			t.Errorf("no change line for %s; got %v", object, created)
		}
	}
	for _, step := range []string{"namespace-a", "gateway-server-b", "connected-a", "connected-b"} {
		if !ended[step] {
			t.Errorf("step %s did not end well; got %v", step, ended)
		}
	}
	again := runEvents(t, p, engine.Options{}, connectPlan)
	if last := again[len(again)-1]; last["changed"] != false {
		t.Errorf("a second run: got result %v, want nothing changed", last)
	}
}

func TestNDJSONIsNeverSilentForLong(t *testing.T) {
	p := flowtest.NewPair()
	p.B.Behave(func(b *flowtest.Behaviour) { b.LoadBalancerPending = true })
	lines := runEvents(t, p, engine.Options{Timeout: 3 * time.Minute}, connectPlan)
	last := time.Time{}
	for _, l := range lines {
		ts, err := time.Parse(time.RFC3339Nano, l["ts"].(string))
		if err != nil {
			t.Fatal(err)
		}
		if gap := ts.Sub(last); !last.IsZero() && gap > report.Heartbeat+2*time.Second {
			t.Errorf("%v of silence before %v", gap, l)
		}
		last = ts
	}
	if end := lines[len(lines)-1]; end["ok"] != false || end["exit"] != float64(exit.Timeout) {
		t.Errorf("got result %v, want exit code %d", end, exit.Timeout)
	}
	if e := lines[len(lines)-2]; e["type"] != "error" || e["why"] == "" || e["fix"] == nil {
		t.Errorf("got %v before the result, want the error with a fix", e)
	}
}

func TestExitCodes(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want int
	}{
		"no error":            {nil, 0},
		"anything":            {errors.New("x"), 1},
		"usage":               {exit.UsageError{Err: errors.New("x")}, 2},
		"preflight":           {&flows.StepError{Step: flows.Step{Kind: flows.FailedPreflight}}, 3},
		"unreachable":         {&flows.StepError{Step: flows.Step{Kind: flows.FailedUnreachable}}, 5},
		"refused part-way":    {&flows.StepError{Step: flows.Step{Kind: flows.FailedApply}}, 6},
		"timeout":             {&flows.StepError{Step: flows.Step{Kind: flows.FailedTimeout}}, 7},
		"somebody in the way": {&flows.StepError{Step: flows.Step{Kind: flows.FailedConflict}}, 9},
		"declined":            {engine.ErrDeclined, 130},
		"interrupted":         {exit.Interrupted{Signal: 2}, 130},
		"terminated":          {exit.Interrupted{Signal: 15}, 143},
	} {
		if got := exit.Code(c.err); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}

func TestNDJSONIsNotSilentWhileOneRequestTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		n := &report.NDJSON{Out: &out, Now: time.Now}
		n.Begin("verify", flows.ContextRef{}, flows.ContextRef{})
		stop := n.KeepAlive()
		time.Sleep(5 * time.Minute)
		stop()
		n.End(nil, report.Achieved{})
		var last time.Time
		for _, l := range reporttest.CheckEvents(t, out.String()) {
			ts, err := time.Parse(time.RFC3339Nano, l["ts"].(string))
			if err != nil {
				t.Fatal(err)
			}
			if gap := ts.Sub(last); !last.IsZero() && gap > report.Heartbeat {
				t.Errorf("%v of silence before %v", gap, l)
			}
			last = ts
		}
	})
}
