package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/liqo-tui/liqo-tui/flows"
)

// transcript writes a run as lines: one for each change, each with its side.
type transcript struct {
	out     io.Writer
	last    flows.Event
	changed bool
}

func (t *transcript) event(e flows.Event) {
	for _, r := range flows.Narrate(t.last, e) {
		if r.Type == flows.RecordStart {
			continue // the line that says it is done follows at once
		}
		fmt.Fprintf(t.out, "%6.1fs  %s%s\n", r.Elapsed.Seconds(), sideText(e.Plan, r), r.Text)
	}
	t.changed = t.changed || slices.ContainsFunc(e.Changes, func(c flows.Change) bool { return c.Verb != flows.Unchanged })
	t.last = e
}

func sideText(p flows.Plan, r flows.Record) string {
	if r.Step.ID == "" {
		return ""
	}
	return fmt.Sprintf("%s %-12s ", r.Step.Side, p.ID(r.Step.Side))
}
