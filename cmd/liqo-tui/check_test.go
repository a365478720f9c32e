package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/connect"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// cutOff are facts of a connection whose UDP was cut 100 s ago, after it had
// carried something. The client has dialled every second since then; the reports
// are as old as said.
func cutOff(ctx context.Context, t *testing.T, now, reports time.Duration) flows.Facts {
	t.Helper()
	pair := flowtest.NewPair()
	p := flows.Defaults()
	p.ServiceType = "NodePort"
	o := engine.Options{Now: pair.Now}
	if err := engine.Run(ctx, connect.Goal{Params: p}, pair.A, pair.B, func(engine.Event) {}, o); err != nil {
		t.Fatal(err)
	}
	f := flows.Facts{Sides: [2]flows.ClusterFacts{pair.A.Facts(), pair.B.Facts()}, At: pair.Now()}
	cut := f.At
	f.At = f.At.Add(100*time.Second + now)
	said := f.At.Add(-reports)
	for _, side := range []flows.Side{flows.A, flows.B} {
		c := &f.Sides[side].Connections[0]
		c.Status.Value = networkingv1beta1.ConnectionError
		r := wire.Report{At: said, Interval: 10, Reason: wire.ReasonPeerSilent, Message: "nothing comes back", Since: &cut, ReceivedBytes: 90_000, SentBytes: 90_000}
		if side == flows.A { // the client
			r.SentBytes += 148 * uint64(said.Sub(cut)/time.Second)
		} else {
			r.SentBytes += 32 * uint64(said.Sub(cut)/time.Second)
		}
		text, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		c.Annotations = map[string]string{wire.AnnotationStatus: string(text)}
	}
	return f
}

func TestCheckFindsAPathThatWasCutAfterItWorked(t *testing.T) {
	var waited []time.Duration
	results, f, err := diagnose(t.Context(), cutOff(t.Context(), t, 0, time.Second),
		func(ctx context.Context) (flows.Facts, error) {
			// The first time the gateways have not reported anew.
			late := time.Duration(len(waited)) * check.Movement
			if len(waited) == 1 {
				return cutOff(ctx, t, late, check.Movement+time.Second), nil
			}
			return cutOff(ctx, t, late, time.Second), nil
		},
		func(context.Context) error { waited = append(waited, check.Movement); return nil })
	if err != nil {
		t.Fatal(err)
	}
	if len(waited) != 2 || !f.At.Equal(cutOff(t.Context(), t, 2*check.Movement, 0).At) {
		t.Errorf("looked again %d times, want 2; facts of %s", len(waited), f.At)
	}
	var roots []check.Result
	for _, r := range results {
		if r.Root {
			roots = append(roots, r)
		}
		if r.ID == check.UDPPath && (r.State == check.Pass || r.State == check.Measuring) {
			t.Errorf("%s: got %s, %s", r.Where(), r.State, r.Summary)
		}
	}
	if len(roots) != 1 || roots[0].ID != check.UDPPath || !strings.Contains(roots[0].Summary, "no packet gets through between") {
		t.Errorf("got root causes %+v, want both directions to be named", roots)
	}
	if err := (checkFlags{}).verdict(f, results); exit.Code(err) != exit.Unhealthy {
		t.Errorf("got %v, want exit code %d", err, exit.Unhealthy)
	}
}

// What could not be measured is neither good nor bad.
func TestCheckLeavesOpenWhatItCouldNotMeasure(t *testing.T) {
	pair := flowtest.NewPair()
	flowtest.MustRun(t, pair, flowtest.Connect(flowtest.NodePort()))
	f := flowtest.Facts(pair)
	r := check.Result{Names: [2]wire.ClusterID{"rome", "milan"}, ID: check.UDPPath, Title: "UDP between the gateways", Sides: []flows.Side{flows.A, flows.B}, Directed: true, State: check.Measuring, Summary: "two looks"}
	if err := (checkFlags{}).verdict(f, []check.Result{r}); err != nil {
		t.Errorf("got %v, want no verdict", err)
	}
	if err := (checkFlags{strict: true}).verdict(f, []check.Result{r}); exit.Code(err) != exit.Unhealthy {
		t.Errorf("--strict: got %v, want exit code %d", err, exit.Unhealthy)
	}
	var out bytes.Buffer
	report.WriteChecks(&out, []check.Result{r}, report.Brief)
	if text := out.String(); !strings.HasPrefix(text, "Result: measuring") || !strings.Contains(text, "\n...  LT-D020 rome → milan ") {
		t.Errorf("got %q", text)
	}
	if got := report.CheckOf(r).Result; got != "measuring" {
		t.Errorf("got %q for programs", got)
	}
}

// What is left out of the list is counted, and what helps is said once.
func TestCheckCountsWhatItLeavesOut(t *testing.T) {
	fix := "firewall: allow UDP"
	all := []check.Result{
		{ID: check.Answers, Title: "the API server answers", Sides: []flows.Side{flows.A}, State: check.Pass},
		{ID: check.Warnings, Title: "no warnings about the gateway", Sides: []flows.Side{flows.B}, State: check.Warn},
		{Names: [2]wire.ClusterID{"rome", "milan"}, ID: check.UDPPath, Title: "UDP between the gateways", Sides: []flows.Side{flows.A, flows.B}, Directed: true, State: check.Fail, Root: true, Fix: command.Texts(fix)},
		{ID: check.UDPPath, Title: "UDP between the gateways", Sides: []flows.Side{flows.B, flows.A}, Directed: true, State: check.Fail, Root: true, Fix: command.Texts(fix, "see the logs")},
	}
	var out bytes.Buffer
	s := &report.Session{Out: &out, Format: report.Text}
	(checkFlags{problems: true}).tell(s, flows.Facts{}, all)
	text := out.String()
	if !strings.HasPrefix(text, "Result: failed: UDP between the gateways · 1 of 4 checks passed\n\nFAIL LT-D020 rome → milan ") {
		t.Errorf("got\n%s", text)
	}
	if strings.Contains(text, "API server") || strings.Count(text, fix) != 1 || !strings.Contains(text, "fix: see the logs") {
		t.Errorf("got\n%s, want each remedy once, and no check that passed", text)
	}
}
