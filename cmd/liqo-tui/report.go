package main

import (
	"fmt"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
)

// Formats of --output.
const (
	formatText   = "text"
	formatJSON   = "json"
	formatYAML   = "yaml"
	formatNDJSON = "ndjson"
)

// reporter tells a run to a person or to a program.
type reporter interface {
	begin(command string, a, b flows.ContextRef)
	// observed is called with what both clusters are before the event that is
	// made of it.
	observed(flows.Facts)
	event(engine.Event)
	// pending is what a dry run would change.
	pending(flows.Plan)
	// end is called once, at last, with what the run achieved. After an error that
	// is only what to do next.
	end(err error, a achieved)
	hasChanged() bool
}

func newReporter(io streams, format string) (reporter, error) {
	switch format {
	case formatText:
		return &transcript{streams: io}, nil
	case formatNDJSON:
		return &ndjson{out: io.out, now: time.Now}, nil
	case formatJSON, formatYAML:
		return &document{transcript: transcript{streams: streams{in: io.in, out: io.err, err: io.err}}, out: io.out, format: format}, nil
	}
	return nil, usageError{fmt.Errorf("--output %q: want text, json, yaml or ndjson", format)}
}

// heartbeat bounds the silence of a run that waits.
const heartbeat = 30 * time.Second

// heartbeats are what a run still waits for, if nothing was said for long.
func heartbeats(e engine.Event, spoken time.Time) []engine.Record {
	if spoken.IsZero() || e.At.Sub(spoken) < heartbeat {
		return nil
	}
	var out []engine.Record
	for _, s := range e.Plan.Steps {
		if s.Status == flows.Waiting {
			out = append(out, engine.Record{
				At: e.At, Type: engine.RecordWait, Step: s, Elapsed: e.At.Sub(e.Started), Text: s.Title + ": still waiting, " + s.Reason,
			})
		}
	}
	return out
}
