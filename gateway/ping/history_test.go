package ping

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/liqo-tui/liqo-tui/internal/history"
)

// recorded is a gateway for tests: it pings every 2 s.
type recorded struct {
	tracker *Tracker
	now     time.Time
}

// pings lets time pass. A round trip of 0 means that no ping is answered.
func (r *recorded) pings(lasts, roundTrip time.Duration) {
	for end := r.now.Add(lasts); r.now.Before(end); r.now = r.now.Add(DefaultInterval) {
		r.tracker.Sent(r.now)
		if roundTrip > 0 {
			r.tracker.Received(r.now.Add(roundTrip), r.now)
		}
	}
}

// sleeps lets time pass in which the program does not run.
func (r *recorded) sleeps(d time.Duration) { r.now = r.now.Add(d) }

func TestARecorderAddsUpWhatPingsShow(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	const ms = time.Millisecond
	cell := func(after time.Duration, up, down time.Duration, answered, lost int) history.Cell {
		return history.Cell{Start: noon.Add(after), Up: up, Down: down, Answered: answered, Lost: lost}
	}
	for name, c := range map[string]struct {
		do   func(*recorded)
		want []history.Cell // without round trips, times in whole seconds
	}{
		"all is well": {func(r *recorded) { r.pings(10*time.Minute, ms) }, []history.Cell{
			cell(0, 5*time.Minute, 0, 149, 0), cell(history.Step, 298*time.Second, 0, 150, 0),
		}},
		"two minutes are no five": {func(r *recorded) { r.pings(2*time.Minute, ms) }, []history.Cell{cell(0, 118*time.Second, 0, 59, 0)}},
		"an outage over two cells": {func(r *recorded) { r.pings(4*time.Minute, ms); r.pings(2*time.Minute, 0); r.pings(4*time.Minute, ms) }, []history.Cell{
			// The state is Error after 8 s, and until the first answer.
			cell(0, 248*time.Second, 52*time.Second, 119, 30), cell(history.Step, 238*time.Second, 60*time.Second, 120, 30),
		}},
		"the program stands still": {func(r *recorded) { r.pings(time.Minute, ms); r.sleeps(3 * time.Minute); r.pings(time.Minute, ms) }, []history.Cell{
			cell(0, 116*time.Second, 0, 59, 0),
		}},
		"another process holds the tunnel meanwhile": {func(r *recorded) {
			r.pings(time.Minute, ms)
			r.tracker.recorder.End()
			r.pings(2*time.Minute, 0)
			r.tracker.recorder.Begin(r.now)
			r.pings(time.Minute, ms)
		}, []history.Cell{cell(0, 116*time.Second, 0, 59, 0)}},
		"the clock is set back": {func(r *recorded) { r.pings(7*time.Minute, ms); r.sleeps(-time.Hour); r.pings(2*time.Minute, ms) }, []history.Cell{
			// These times have no monotonic clock, so all pings seem to be older than the recording.
			cell(-55*time.Minute, 118*time.Second, 0, 0, 0),
		}},
		"the clock is set back a little": {func(r *recorded) { r.pings(4*time.Minute, ms); r.sleeps(-3 * time.Minute); r.pings(2*time.Minute, ms) }, []history.Cell{
			cell(0, 48*time.Second, 0, 24, 0), // after the time that came twice was found
		}},
		"the clock is set forward": {func(r *recorded) { r.pings(2*time.Minute, ms); r.sleeps(time.Hour); r.pings(2*time.Minute, ms) }, []history.Cell{
			cell(0, 118*time.Second, 0, 59, 0), cell(time.Hour, 118*time.Second, 0, 60, 0),
		}},
		"the peer was away before": {func(r *recorded) { r.pings(time.Minute, 0) }, []history.Cell{cell(0, 0, 58*time.Second, 0, 0)}},
		"a path of a satellite":    {func(r *recorded) { r.pings(2*time.Minute, 1900*ms) }, []history.Cell{cell(0, 118*time.Second, 2*time.Second, 59, 0)}},
	} {
		t.Run(name, func(t *testing.T) {
			r := recorded{NewTracker(Timing{}), noon}
			r.tracker.recorder.Begin(noon)
			c.do(&r)
			got := r.tracker.recorder.Take()
			for i := range got {
				c := &got[i]
				c.Up, c.Down, c.Shortest, c.Mean, c.Longest = c.Up.Round(time.Second), c.Down.Round(time.Second), 0, 0, 0
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if again := r.tracker.recorder.Take(); again != nil {
				t.Errorf("taken twice: %v", again)
			}
		})
	}
}
