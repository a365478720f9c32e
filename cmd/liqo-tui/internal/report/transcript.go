package report

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// transcript writes a run as lines of text, one for each change, each with its side. Progress goes to err,
// the result to out.
type transcript struct {
	out, err io.Writer
	told     passed
	last     engine.Event
	spoken   time.Time
	changed  bool
}

func (t *transcript) Begin(command string, a, b flows.ContextRef) {
	slog.Info("begin", "command", command, "a", a.String(), "b", b.String())
}

func (t *transcript) Event(e engine.Event) {
	for _, m := range t.told.news(e.Facts) {
		t.line(t.err, e.At, e.At.Sub(e.Started), m.side, e.Facts.Sides[m.side].ID, m.text)
	}
	for _, r := range engine.Narrate(t.last, e) {
		if r.Type == engine.RecordStart {
			continue // the next line reports the end of this one
		}
		t.record(e.Plan, r)
	}
	for _, r := range heartbeats(e, t.spoken) {
		t.record(e.Plan, r)
	}
	t.changed = t.changed || e.Changed()
	t.last = e
}

// preamble writes the parts of a plan that an admin has to know before it begins.
func (t *transcript) preamble(p flows.Plan) {
	for _, kept := range p.Kept {
		fmt.Fprintf(t.err, "         %s\n", kept)
	}
	for _, interrupted := range p.Interrupts() {
		fmt.Fprintf(t.err, "         warning: %s\n", interrupted)
	}
}

func (t *transcript) record(p flows.Plan, r engine.Record) {
	if r.Type == engine.RecordPlan {
		t.preamble(p)
		fmt.Fprintf(t.err, "%6.1fs  %s\n", r.Elapsed.Seconds(), r.Text)
		return
	}
	t.line(t.err, r.At, r.Elapsed, r.Step.Side, p.ID(r.Step.Side), r.Text)
}

func (t *transcript) line(out io.Writer, at time.Time, elapsed time.Duration, side flows.Side, id wire.ClusterID, text string) {
	fmt.Fprintf(out, "%6.1fs  %-12s %s\n", elapsed.Seconds(), id, indented(text, 9))
	slog.Info(text, "side", side.String(), "cluster", id)
	t.spoken = at
}

func (t *transcript) Pending(p flows.Plan) {
	fmt.Fprint(t.out, Diffs(p))
	fmt.Fprintf(t.out, "\nDry run: %s. Nothing was changed.\n", p.Changes())
}

func (t *transcript) End(err error, a Achieved) {
	slog.Info("end", "error", err, "exit", exit.Code(err))
	if err != nil {
		if exit.Code(err) == exit.Pending {
			WriteNext(t.out, a.Next)
		}
		return // main writes the error for all commands
	}
	if !t.changed {
		fmt.Fprintln(t.out, "No changes.")
	}
	fmt.Fprintln(t.out, strings.TrimSuffix(a.Text, "\n"))
	WriteNext(t.out, a.Next)
	for _, command := range t.last.Plan.Owed {
		fmt.Fprintf(t.out, "for the admin of %s: %s\n", t.last.Plan.B, command)
	}
}

func (t *transcript) HasChanged() bool { return t.changed }

// Counted returns the plan without the text of new objects, where a step makes several: their kinds are counted
// in its title. What changes existing objects stays.
func Counted(p flows.Plan) flows.Plan {
	p.Steps = slices.Clone(p.Steps)
	for i := range p.Steps {
		s := &p.Steps[i]
		const head = "--- live\n"
		var rest strings.Builder
		made, kinds := 0, map[string]int{}
		for n, block := range strings.Split(s.Diff, head) {
			switch {
			case n == 0:
				rest.WriteString(block)
			case strings.HasPrefix(block, "+++ wanted\n@@ -0,0 "):
				_, kind, _ := strings.Cut(block, "\n+kind: ")
				kind, _, _ = strings.Cut(kind, "\n")
				made++
				kinds[kind]++
			default:
				rest.WriteString(head + block)
			}
		}
		if made < 2 {
			continue
		}
		var counts []string
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			counts = append(counts, fmt.Sprintf("%d %s", kinds[kind], kind))
		}
		s.Diff, s.Title = rest.String(), s.Title+", new: "+strings.Join(counts, ", ")
	}
	return p
}

// Diffs returns all changes of a plan as text: diffs of the written objects, and one line for each object
// that is deleted or can't be shown yet.
func Diffs(p flows.Plan) string {
	var b strings.Builder
	listed := false // true if the last change was written as one line
	for _, s := range p.Steps {
		what := fmt.Sprintf("%s: %s %s", p.ID(s.Side), s.Action, s.Title)
		switch {
		case s.Diff != "":
			if s.Edits != "" { // the objects are not ours, so their names are new to the reader
				var objects []string
				for _, o := range s.Objects {
					objects = append(objects, flows.RefTo(o).String())
				}
				what += ": " + strings.Join(objects, ", ")
			}
			if s.Status == flows.Blocked && s.Reason != "" {
				what += ": " + s.Reason
			}
			fmt.Fprintf(&b, "\n%s\n%s", what, s.Diff)
			listed = false
		case s.Changes():
			if !listed {
				b.WriteByte('\n')
			}
			if s.Reason != "" {
				what += ": " + s.Reason
			}
			fmt.Fprintln(&b, what)
			listed = true
		}
	}
	return b.String()
}
