package engine

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// RecordType is the kind of a [Record]. Scripts compare it.
type RecordType string

// The types of records. Later versions may add more.
const (
	RecordPlan  RecordType = "plan"       // the changes that the run will make
	RecordStart RecordType = "step.start" // a step can begin
	RecordWait  RecordType = "step.wait"  // the reason of a waiting step has changed
	RecordEnd   RecordType = "step.end"   // a step is done or has failed
)

// Record is one event of a run. It is written as a line of text, or as JSON.
type Record struct {
	At   time.Time
	Type RecordType
	Step flows.Step
	Text string
	// Elapsed is the time since the run started.
	Elapsed time.Duration
}

// Narrate returns records of the differences between two events. The zero Event
// stands for the start of a run. Narrate is pure: the same two events give the
// same records.
func Narrate(prev, next Event) []Record {
	var out []Record
	record := func(t RecordType, s flows.Step, text string) {
		out = append(out, Record{At: next.At, Type: t, Step: s, Text: text, Elapsed: next.At.Sub(next.Started)})
	}
	// A plan that failed at once has no changes to count.
	if first := prev.Started.IsZero(); first && next.Plan.Failure() == nil || !first && prev.Plan.Params.Server != next.Plan.Params.Server {
		record(RecordPlan, flows.Step{}, "plan: "+next.Plan.Changes().String())
	}
	for _, s := range prev.Plan.Steps {
		if _, still := next.Plan.Step(s.ID); s.Code == flows.CodeLost && s.Status == flows.Waiting && !still {
			s.Status = flows.Done
			record(RecordEnd, s, s.Title+" again")
		}
	}
	for _, s := range prev.Plan.Steps {
		if _, still := next.Plan.Step(s.ID); !still && s.Status == flows.Ready && applies(s, prev.Changes) {
			s.Status = flows.Done
			record(RecordEnd, s, doneText(s, true, s))
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
		case flows.Blocked: // nothing to report before the step can start
		}
	}
	return out
}

// applies reports whether a step has made one of the changes. A plan has no such step any more if nothing is
// left that the step was about.
func applies(s flows.Step, changes []flows.Change) bool {
	return slices.ContainsFunc(changes, func(c flows.Change) bool {
		return c.Side == s.Side && c.Verb != flows.Unchanged && slices.ContainsFunc(s.Objects, func(o wire.Object) bool { return apply.Name(o) == c.Object })
	})
}

func doneText(s flows.Step, known bool, before flows.Step) string {
	text := s.Title
	if known && s.Action == flows.Delete {
		text = before.Title // the step of a deleted object has lost the object's name
	}
	// A step that never had objects to apply has done nothing.
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
