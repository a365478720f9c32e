package engine

import (
	"strings"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
)

// A container that crashes is in one of two states, by turns.
func TestReasonsThatTakeTurnsAreSaidOnceInAWhile(t *testing.T) {
	r := runner{waits: map[flows.StepID]wait{}, reported: map[waitReason]time.Time{}, again: map[flows.StepID]bool{}}
	start := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	prev := Event{Started: start}
	var told []string
	say := func(at time.Time, reason string) {
		p := flows.Plan{Steps: []flows.Step{{ID: "connected-a", Status: flows.Waiting, Title: "Connection", Reason: reason}}}
		r.note(p.Steps, at)
		next := Event{Started: start, At: at, Plan: p, Again: r.again}
		for _, record := range Narrate(prev, next) {
			told = append(told, record.Text)
		}
		prev = next
	}
	for i := range 60 {
		say(start.Add(time.Duration(i)*time.Second), []string{"CrashLoopBackOff", "the gateway has reported nothing yet"}[i%2])
	}
	if len(told) < 2 || len(told) > 6 {
		t.Errorf("a minute took %d lines: %q", len(told), told)
	}
	told = nil
	say(start.Add(time.Minute), "ImagePullBackOff")
	if len(told) != 1 || !strings.Contains(told[0], "ImagePullBackOff") {
		t.Errorf("what is new: got %q", told)
	}
}
