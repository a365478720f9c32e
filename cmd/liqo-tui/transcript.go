package main

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/render"
)

// transcript writes a run as lines: one for each change, each with its side.
// Progress goes to err, the result to out.
type transcript struct {
	streams
	facts   flows.Facts
	told    passed
	last    engine.Event
	spoken  time.Time
	changed bool
}

func (t *transcript) begin(command string, a, b flows.ContextRef) {
	slog.Info("begin", "command", command, "a", a.String(), "b", b.String())
}

func (t *transcript) observed(f flows.Facts) { t.facts = f }

func (t *transcript) event(e engine.Event) {
	for _, m := range t.told.news(t.facts) {
		t.line(t.err, e.At, e.At.Sub(e.Started), m.side, t.facts.Side(m.side).ID, m.text)
	}
	if t.last.Started.IsZero() {
		t.preamble(e.Plan)
	}
	for _, r := range engine.Narrate(t.last, e) {
		if r.Type == engine.RecordStart {
			continue // the line that says it is done follows at once
		}
		t.record(e.Plan, r)
	}
	for _, r := range heartbeats(e, t.spoken) {
		t.record(e.Plan, r)
	}
	t.changed = t.changed || e.Changed()
	t.last = e
}

// preamble is what an admin has to know of a plan before it begins.
func (t *transcript) preamble(p flows.Plan) {
	for _, kept := range p.Kept {
		fmt.Fprintf(t.err, "         %s\n", kept)
	}
	for _, interrupted := range p.Interrupts() {
		fmt.Fprintf(t.err, "         warning: %s\n", interrupted)
	}
}

func (t *transcript) record(p flows.Plan, r engine.Record) {
	if r.Step.ID == "" {
		fmt.Fprintf(t.err, "%6.1fs  %s\n", r.Elapsed.Seconds(), r.Text)
		return
	}
	t.line(t.err, r.At, r.Elapsed, r.Step.Side, p.ID(r.Step.Side), r.Text)
}

func (t *transcript) line(out io.Writer, at time.Time, elapsed time.Duration, side flows.Side, id render.ClusterID, text string) {
	fmt.Fprintf(out, "%6.1fs  %s %-12s %s\n", elapsed.Seconds(), side, id, text)
	slog.Info(text, "side", side.String(), "cluster", id)
	t.spoken = at
}

func (t *transcript) pending(p flows.Plan) {
	fmt.Fprint(t.out, diffs(p))
	fmt.Fprintf(t.out, "\nDry run: %s. Nothing was changed.\n", p.Changes())
}

func (t *transcript) end(err error, a achieved) {
	slog.Info("end", "error", err, "exit", exitCode(err))
	if err != nil {
		if exitCode(err) == exitPending {
			writeNext(t.out, a.next)
		}
		return // main says the rest, for every command alike
	}
	if !t.changed {
		fmt.Fprintln(t.out, "No changes.")
	}
	fmt.Fprintln(t.out, strings.TrimSuffix(a.text, "\n"))
	writeNext(t.out, a.next)
	for _, command := range t.last.Plan.Owed {
		fmt.Fprintf(t.out, "for the admin of %s: %s\n", t.last.Plan.B, command)
	}
}

func (t *transcript) hasChanged() bool { return t.changed }
