// Package report writes a run, or a single result, for people and programs: as text,
// as one document, or as a stream of events.
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

// Formats has all formats.
var Formats = []string{Text, JSON, YAML, EventStream}

// FormatHelp is the help of --output.
const FormatHelp = "text for people; json or yaml: one document at the end; ndjson: one JSON object a line"

func wantFormat(format string) error {
	return exit.UsageError{Err: fmt.Errorf("--output %q: want text, json, yaml or ndjson", format)}
}

// Reporter writes a run in one format.
type Reporter interface {
	Begin(command string, a, b flows.ContextRef)
	Event(engine.Event)
	// Pending writes the changes that a dry run would make.
	Pending(flows.Plan)
	// End is called once, at the end, with the result of the run. After an error, a
	// has only the next steps.
	End(err error, a Achieved)
	HasChanged() bool
}

// New returns the reporter of an output format. Results go to out.
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

// Heartbeat is the longest time without output while a run waits.
const Heartbeat = 30 * time.Second

// heartbeats returns the open waits of a run if nothing was written for a long time.
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

// Told marks an error that the reporter has already written, so that main does not
// write it again.
type Told struct{ Err error }

func (t Told) Error() string { return t.Err.Error() }
func (t Told) Unwrap() error { return t.Err }
