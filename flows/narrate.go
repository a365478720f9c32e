package flows

import (
	"cmp"
	"fmt"
	"time"
)

// RecordType is the kind of a [Record]; scripts match on it.
type RecordType string

// The types of records. More may be added.
const (
	RecordPlan  RecordType = "plan"       // what will be done
	RecordStart RecordType = "step.start" // a step can be worked on
	RecordWait  RecordType = "step.wait"  // what a step waits for has changed
	RecordEnd   RecordType = "step.end"   // a step is done or has failed
)

// Record is one thing that happened in a run, as a line of text and for
// machines.
type Record struct {
	At   time.Time
	Type RecordType
	Step Step
	Text string
	// Elapsed since the run started.
	Elapsed time.Duration
}

// Narrate says what is new in next. The zero Event stands for the start of a
// run. It is pure: the same two events give the same records.
func Narrate(prev, next Event) []Record {
	var out []Record
	record := func(t RecordType, s Step, text string) {
		out = append(out, Record{At: next.At, Type: t, Step: s, Text: text, Elapsed: next.At.Sub(next.Started)})
	}
	if prev.Started.IsZero() {
		record(RecordPlan, Step{}, "plan: "+next.Plan.Changes().String())
	}
	for _, s := range prev.Plan.Steps {
		if _, still := next.Plan.Step(s.ID); s.Code == CodeLost && s.Status == Waiting && !still {
			s.Status = Done
			record(RecordEnd, s, s.Title+" again")
		}
	}
	for _, s := range next.Plan.Steps {
		before, known := prev.Plan.Step(s.ID)
		if known && before.Status == s.Status && before.Reason == s.Reason {
			continue
		}
		switch s.Status {
		case Done:
			if !known || before.Status != Done {
				record(RecordEnd, s, doneText(s, known, before))
			}
		case Failed:
			record(RecordEnd, s, s.Title+" failed: "+s.Reason)
		case Waiting:
			record(RecordWait, s, fmt.Sprintf("%s: waiting, %s", s.Title, s.Reason))
		case Ready:
			record(RecordStart, s, fmt.Sprintf("%s: %s", s.Action, s.Title))
		case Blocked: // nothing to say before it can start
		}
	}
	return out
}

func doneText(s Step, known bool, before Step) string {
	text := s.Title
	if known && s.Action == Delete {
		text = before.Title // what is gone has no name any more
	}
	// A step that never had anything to apply did nothing.
	idle := !known || before.Status != Ready && before.Objects == nil
	switch {
	case s.Action == Wait:
	case idle && s.Action == Delete:
		text += ": " + cmp.Or(s.Reason, "nothing to delete")
	case idle:
		text += ": unchanged"
	default:
		text += " " + map[Action]string{Create: "created", Update: "updated", Replace: "replaced", Delete: "deleted"}[before.Action]
	}
	if s.Reason != "" && s.Action == Wait {
		text += ": " + s.Reason
	}
	return text
}
