package engine

import (
	"cmp"
	"fmt"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
)

// RecordType is the kind of a [Record]; scripts match on it.
type RecordType string

// The types of records. More may be added.
const (
	RecordPlan  RecordType = "plan"       // the changes that the run will make
	RecordStart RecordType = "step.start" // a step can be worked on
	RecordWait  RecordType = "step.wait"  // the reason of a waiting step has changed
	RecordEnd   RecordType = "step.end"   // a step is done or has failed
)

// Record is one event of a run, as a line of text and for machines.
type Record struct {
	At   time.Time
	Type RecordType
	Step flows.Step
	Text string
	// Elapsed is the time since the run started.
	Elapsed time.Duration
}

// Narrate returns the news in next. The zero Event stands for the start of a run.
// It is pure: the same two events give the same records.
func Narrate(prev, next Event) []Record {
	var out []Record
	record := func(t RecordType, s flows.Step, text string) {
		out = append(out, Record{At: next.At, Type: t, Step: s, Text: text, Elapsed: next.At.Sub(next.Started)})
	}
	if prev.Started.IsZero() || prev.Plan.Params.Server != next.Plan.Params.Server {
		record(RecordPlan, flows.Step{}, "plan: "+next.Plan.Changes().String())
	}
	for _, s := range prev.Plan.Steps {
		if _, still := next.Plan.Step(s.ID); s.Code == flows.CodeLost && s.Status == flows.Waiting && !still {
			s.Status = flows.Done
			record(RecordEnd, s, s.Title+" again")
		}
	}
	for _, s := range next.Plan.Steps {
		before, known := prev.Plan.Step(s.ID)
		if known && before.Status == s.Status && before.Reason == s.Reason {
			continue
		}
		switch s.Status {
		case flows.Done:
			if !known || before.Status != flows.Done {
				record(RecordEnd, s, doneText(s, known, before))
			}
		case flows.Failed:
			record(RecordEnd, s, s.Title+" failed: "+s.Reason)
		case flows.Waiting:
			if next.Again[s.ID] {
				continue
			}
			record(RecordWait, s, fmt.Sprintf("%s: waiting, %s", s.Title, s.Reason))
		case flows.Ready:
			record(RecordStart, s, fmt.Sprintf("%s: %s", s.Action, s.Title))
		case flows.Blocked: // nothing to report before it can start
		}
	}
	return out
}

func doneText(s flows.Step, known bool, before flows.Step) string {
	text := s.Title
	if known && s.Action == flows.Delete {
		text = before.Title // the step of a deleted object has no name any more
	}
	// A step that never had anything to apply did nothing.
	idle := !known || before.Status != flows.Ready && before.Objects == nil
	switch {
	case s.Action == flows.Wait:
	case idle && s.Action == flows.Delete:
		text += ": " + cmp.Or(s.Reason, "nothing to delete")
	case idle:
		text += ": unchanged"
	default:
		text += " " + map[flows.Action]string{flows.Create: "created", flows.Update: "updated", flows.Replace: "replaced", flows.Delete: "deleted"}[before.Action]
	}
	if s.Reason != "" && s.Action == flows.Wait {
		text += ": " + s.Reason
	}
	return text
}
