package view

import (
	"fmt"
	"strings"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/verify"
)

// endsOf are all ends that differ in what a verdict depends on.
func endsOf(now time.Time) []End {
	began := now.Add(-10 * time.Minute)
	var all []End
	for _, value := range []networkingv1beta1.ConnectionStatusValue{"", dialling, up, broken} {
		for _, at := range []time.Time{{}, now.Add(-time.Second), now.Add(-time.Hour)} {
			r := flows.Reading{
				Peer: "milan", Role: flows.RoleClient, Exists: true, Value: value, At: at, Since: began,
				Interval: 10 * time.Second, Latency: time.Millisecond,
			}
			all = append(all, End{Chosen: true, Reading: r}) // Liqo's
			r.Reported = true
			for _, r.PodTraffic = range []time.Time{{}, began.Add(-time.Minute), began.Add(time.Minute)} {
				all = append(all, End{Chosen: true, Reading: r})
			}
			all = append(all, End{Chosen: true, Reading: r, Silent: now.Add(-time.Minute), Problem: "i/o timeout"})
		}
	}
	return append(all, End{}, End{Chosen: true}, End{Chosen: true, Reading: flows.Reading{Peer: "milan"}})
}

// Whatever both ends say, and whenever a test was made: a verdict claims no more
// than what was measured while the connection was what it is.
func TestNoVerdictClaimsWhatWasNotMeasured(t *testing.T) {
	now := flowtest.Epoch()
	began := now.Add(-10 * time.Minute)
	test := func(at time.Time, between verify.Ends, loss float64) *verify.Result {
		return &verify.Result{At: at, Between: between, Directions: [2]verify.Direction{{Sent: 10, Received: 10}, {Sent: 10, Loss: loss}}}
	}
	tests := []*verify.Result{
		nil, test(began.Add(time.Minute), verify.Pods, 0), test(began.Add(-time.Minute), verify.Pods, 0),
		test(began.Add(time.Minute), verify.Gateways, 0), test(began.Add(time.Minute), verify.Pods, 1),
	}
	all := endsOf(now)
	for _, a := range all {
		for _, b := range all {
			a.ID, b.ID = "rome", "milan"
			ends := [2]End{a, b}
			if !a.Says() && !b.Says() {
				continue // nothing is shown of them
			}
			for n, tested := range tests {
				v := Together(ends, tested, now)
				if wrong := overstated(v, ends, tested, began, now); wrong != "" {
					t.Fatalf("%s: got %s: %q, with test %d of\n%+v\n%+v", wrong, v.State, v.Why, n, a, b)
				}
			}
		}
	}
}

// overstated is what a verdict claims that nobody measured, "" for nothing.
func overstated(v Verdict, ends [2]End, tested *verify.Result, began, now time.Time) string {
	proof := tested != nil && tested.Verified() && tested.At.After(began)
	for _, e := range ends {
		if !e.Chosen {
			continue
		}
		state, _ := e.Reading.State(now)
		answered := e.Says() && e.Reading.Answered(now)
		proof = proof || e.Says() && e.Reading.PodTraffic.After(began)
		switch {
		case v.State.Works() && !e.Says():
			return "works, where a side can't be asked"
		case v.State.Works() && !state.Works():
			return fmt.Sprintf("works, where a side says %s", state)
		case v.State.Works() && !answered && (strings.Contains(v.Why, "each gateway gets answers") || strings.Contains(v.Why, string(e.ID)+" gets answers")):
			return "pings are answered, where a side has measured none"
		}
	}
	switch {
	case v.State == Connected && !proof:
		return "connected, where no packet of a pod has passed since"
	}
	return ""
}
