// Package report tells a run, or one result, to a person or to a program: as text, as
// one document, or as a stream of events.
package report

import (
	"fmt"
	"io"
	"time"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
)

// Formats of --output.
const (
	Text        = "text"
	JSON        = "json"
	YAML        = "yaml"
	EventStream = "ndjson"
)

// Formats are all that a command takes.
var Formats = []string{Text, JSON, YAML, EventStream}

// FormatHelp is the help of --output.
const FormatHelp = "text for people; json or yaml: one document at the end; ndjson: one JSON object a line"

// wantFormat is what is wrong with a format that is none of them.
func wantFormat(format string) error {
	return exit.UsageError{Err: fmt.Errorf("--output %q: want text, json, yaml or ndjson", format)}
}

// Reporter tells a run to a person or to a program.
type Reporter interface {
	Begin(command string, a, b flows.ContextRef)
	// Observed is called with what both clusters are before the event that is
	// made of it.
	Observed(flows.Facts)
	Event(engine.Event)
	// Pending is what a dry run would change.
	Pending(flows.Plan)
	// End is called once, at last, with what the run achieved. After an error that
	// is only what to do next.
	End(err error, a Achieved)
	HasChanged() bool
}

// New is the reporter of an output format. Results go to out.
func New(out, progress io.Writer, format string) (Reporter, error) {
	switch format {
	case Text:
		return &transcript{out: out, err: progress}, nil
	case EventStream:
		return &NDJSON{Out: out, Now: time.Now}, nil
	case JSON, YAML:
		return &document{transcript: transcript{out: progress, err: progress}, out: out, format: format}, nil
	}
	return nil, wantFormat(format)
}

// Heartbeat bounds the silence of a run that waits.
const Heartbeat = 30 * time.Second

// heartbeats are what a run still waits for, if nothing was said for long.
func heartbeats(e engine.Event, spoken time.Time) []engine.Record {
	if spoken.IsZero() || e.At.Sub(spoken) < Heartbeat {
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

// Told is an error of a run whose reporter has ended: what a program reads of
// it is written.
type Told struct{ Err error }

func (t Told) Error() string { return t.Err.Error() }
func (t Told) Unwrap() error { return t.Err }
