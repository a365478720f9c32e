package main

import (
	"fmt"
	"io"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
)

// reporter tells a run to a person or to a program.
type reporter interface {
	begin(command string, a, b flows.ContextRef)
	event(flows.Event)
	// end is called once, at last, with what the run achieved in a person's words.
	end(err error, result string)
	hasChanged() bool
}

func newReporter(io streams, format string) (reporter, error) {
	switch format {
	case "text":
		return &transcript{streams: io}, nil
	case "ndjson":
		return &ndjson{out: io.out, now: time.Now}, nil
	}
	return nil, usageError{fmt.Errorf("--output %q: want text or ndjson", format)}
}

// heartbeat bounds the silence of a run that waits.
const heartbeat = 30 * time.Second

// heartbeats are what a run still waits for, if nothing was said for long.
func heartbeats(e flows.Event, spoken time.Time) []flows.Record {
	if spoken.IsZero() || e.At.Sub(spoken) < heartbeat {
		return nil
	}
	var out []flows.Record
	for _, s := range e.Plan.Steps {
		if s.Status == flows.Waiting {
			out = append(out, flows.Record{
				At: e.At, Type: flows.RecordWait, Step: s, Elapsed: e.At.Sub(e.Started), Text: s.Title + ": still waiting, " + s.Reason,
			})
		}
	}
	return out
}

// transcript writes a run as lines: one for each change, each with its side.
// Progress goes to err, the result to out.
type transcript struct {
	streams
	last    flows.Event
	spoken  time.Time
	changed bool
}

func (t *transcript) begin(string, flows.ContextRef, flows.ContextRef) {}

func (t *transcript) event(e flows.Event) {
	for _, r := range flows.Narrate(t.last, e) {
		if r.Type == flows.RecordStart {
			continue // the line that says it is done follows at once
		}
		t.line(t.err, e.Plan, r, r.Text)
	}
	for _, r := range heartbeats(e, t.spoken) {
		t.line(t.err, e.Plan, r, r.Text)
	}
	t.changed = t.changed || e.Changed()
	t.last = e
}

func (t *transcript) line(out io.Writer, p flows.Plan, r flows.Record, text string) {
	side := ""
	if r.Step.ID != "" {
		side = fmt.Sprintf("%s %-12s ", r.Step.Side, p.ID(r.Step.Side))
	}
	fmt.Fprintf(out, "%6.1fs  %s%s\n", r.Elapsed.Seconds(), side, text)
	t.spoken = r.At
}

func (t *transcript) end(err error, result string) {
	if err != nil {
		return // main says it, for every command alike
	}
	if !t.changed {
		fmt.Fprintln(t.out, "No changes.")
	}
	fmt.Fprintln(t.out, result)
}

func (t *transcript) hasChanged() bool { return t.changed }
