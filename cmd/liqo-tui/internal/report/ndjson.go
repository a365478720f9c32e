package report

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// EventsSchema describes the lines, as a JSON Schema.
//
//go:embed events.schema.json
var EventsSchema string

// SchemaVersion is "v" in every line. While it stays the same, fields and types of lines are only added,
// and readers ignore unknown ones.
const SchemaVersion = 1

// line is one line of -o ndjson. The first line has the type run.start, the last one the type result,
// even after an interruption. events.schema.json describes the lines for programs.
type line struct {
	V    int       `json:"v"`
	Seq  int       `json:"seq"`
	TS   time.Time `json:"ts"`
	Type string    `json:"type"`

	Command string   `json:"cmd,omitempty"`     // run.start
	A       *cluster `json:"a,omitempty"`       // run.start, plan
	B       *cluster `json:"b,omitempty"`       // run.start, plan
	Summary *summary `json:"summary,omitempty"` // plan
	// Sentences about the plan: the settings that stay without a flag, the interrupted traffic, and
	// commands for the other cluster's admin.
	Kept         []string          `json:"kept,omitempty"`
	Interrupts   []string          `json:"interrupts,omitempty"`
	Owed         []string          `json:"owed,omitempty"`
	OwedCommands []command.Command `json:"owedCommands,omitempty"` // the same commands for programs
	Steps        []step            `json:"steps,omitempty"`        // pending: what a dry run would change

	Side      string `json:"side,omitempty"` // step.*, change: "a" or "b"
	Step      string `json:"step,omitempty"` // step.*: its ID, the same in every run
	Title     string `json:"title,omitempty"`
	Result    string `json:"result,omitempty"`    // step.end: "done" or "failed"
	Reason    string `json:"reason,omitempty"`    // step.*: what it waits for, or why it failed
	ElapsedMS *int64 `json:"elapsedMs,omitempty"` // step.*: since the run started

	Verb   string `json:"verb,omitempty"`   // change: "created", "updated", "deleted"
	Object string `json:"object,omitempty"` // change

	Milestone string `json:"milestone,omitempty"` // milestone: its ID
	Message   string `json:"message,omitempty"`   // milestone, progress, check, result: what was achieved

	ID    string   `json:"id,omitempty"`    // check
	Sides []string `json:"sides,omitempty"` // check
	Data  any      `json:"data,omitempty"`  // verification

	*problem // error

	OK      *bool  `json:"ok,omitempty"`      // result
	Exit    *int   `json:"exit,omitempty"`    // result: the exit code
	Changed *bool  `json:"changed,omitempty"` // result: whether either cluster was changed
	Next    string `json:"next,omitempty"`    // result: the next command line
}

// problem is an error: what has failed, why, and the advice.
type problem struct {
	Code     string            `json:"code"` // LT-E…, as in liqo-tui explain
	What     string            `json:"what"`
	Why      string            `json:"why,omitempty"`
	Fix      []string          `json:"fix,omitempty"`
	Commands []command.Command `json:"commands,omitempty"` // the commands in fix
	Evidence map[string]string `json:"evidence,omitempty"`
}

type step struct {
	Step   string `json:"step"`
	Side   string `json:"side"`
	Action string `json:"action"`
	Title  string `json:"title"`
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"`
	Diff   string `json:"diff,omitempty"`
}

func stepsOf(p flows.Plan) []step {
	out := make([]step, len(p.Steps))
	for i, s := range p.Steps {
		out[i] = step{string(s.ID), Side(s.Side), s.Action.String(), s.Title, s.Status.String(), s.Reason, s.Diff}
	}
	return out
}

func texts[T fmt.Stringer](all []T) (out []string) {
	for _, c := range all {
		out = append(out, c.String())
	}
	return out
}

type cluster struct {
	Context string `json:"context,omitempty"`
	ID      string `json:"id,omitempty"`
	UID     string `json:"uid,omitempty"` // of the cluster, whatever the context
}

// introduce sets the cluster's IDs after the first observation, and the context if no flag names it.
func (c *cluster) introduce(f flows.ClusterFacts) {
	c.ID, c.UID, c.Context = string(f.ID), f.UID, cmp.Or(c.Context, f.Context.Name)
}

// plannedIDs returns the IDs of a plan's clusters. If a cluster has no ID, the plan has the context's
// name instead.
func plannedIDs(p flows.Plan, f flows.Facts) (a, b string) {
	of := func(id wire.ClusterID, c flows.ClusterFacts) string {
		if c.ID == "" && id == c.Name() {
			return ""
		}
		return string(id)
	}
	return of(p.A, f.Sides[flows.A]), of(p.B, f.Sides[flows.B])
}

type summary struct {
	Create  int `json:"create"`
	Update  int `json:"update"`
	Replace int `json:"replace"`
	Delete  int `json:"delete"`
}

// NDJSON writes a run as JSON objects, one in each line.
type NDJSON struct {
	Out     io.Writer
	Now     func() time.Time
	start   *line // run.start, until it was written
	seq     int
	told    passed
	last    engine.Event
	spoken  time.Time // when the last line was written
	changed bool
	mu      sync.Mutex // keepAlive also writes
}

// KeepAlive writes a line whenever nothing was written for a long time, for example because the run
// measures or waits for a slow API server. The returned function ends this.
func (n *NDJSON) KeepAlive() (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(Heartbeat / 6)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
			}
			if n.Now().Sub(n.lastSpoken()) >= Heartbeat-Heartbeat/6 {
				n.write(line{Type: "progress", Message: "still at work"})
			}
		}
	}()
	return func() { close(done); <-ended }
}

func (n *NDJSON) lastSpoken() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.spoken
}

func (n *NDJSON) write(l line) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.start != nil {
		start := *n.start
		n.start = nil
		n.encode(start)
	}
	n.encode(l)
}

// encode writes a line. The caller holds n.mu.
func (n *NDJSON) encode(l line) {
	l.V, l.Seq, l.TS = SchemaVersion, n.seq, n.Now().UTC()
	n.seq++
	n.spoken = l.TS
	// These types can always be encoded. If the reader is gone, nobody would read the error.
	_ = json.NewEncoder(n.Out).Encode(l)
}

// Begin announces a run. It writes its line when both clusters' IDs are known, but before any other
// line.
func (n *NDJSON) Begin(command string, a, b flows.ContextRef) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.start = &line{Type: "run.start", Command: command, A: &cluster{Context: a.Name}, B: &cluster{Context: b.Name}}
	n.spoken = n.Now()
}

// Observed tells the clusters' IDs.
func (n *NDJSON) Observed(f flows.Facts) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.start == nil {
		return
	}
	start := *n.start
	n.start = nil
	start.A.introduce(f.Sides[flows.A])
	start.B.introduce(f.Sides[flows.B])
	n.encode(start)
}

// Event implements [Reporter].
func (n *NDJSON) Event(e engine.Event) {
	n.Observed(e.Facts)
	for _, m := range n.told.news(e.Facts) {
		n.write(line{Type: "milestone", Side: Side(m.side), Milestone: m.id, Message: m.text})
	}
	n.changes(e.Changes)
	for _, r := range engine.Narrate(n.last, e) {
		n.record(e, r)
	}
	for _, r := range heartbeats(e, n.lastSpoken()) {
		n.record(e, r)
	}
	n.last = e
}

func (n *NDJSON) changes(changes []flows.Change) {
	for _, c := range changes {
		if c.Verb != flows.Unchanged {
			n.changed = true
			n.write(line{Type: "change", Side: Side(c.Side), Verb: string(c.Verb), Object: c.Object})
		}
	}
}

func (n *NDJSON) record(e engine.Event, r engine.Record) {
	if r.Type == engine.RecordPlan {
		sum := e.Plan.Changes()
		a, b := plannedIDs(e.Plan, e.Facts)
		n.write(line{
			Type: string(r.Type), Summary: &summary{sum.Create, sum.Update, sum.Replace, sum.Delete},
			A: &cluster{ID: a}, B: &cluster{ID: b},
			Kept: e.Plan.Kept, Interrupts: e.Plan.Interrupts(), Owed: texts(e.Plan.Owed), OwedCommands: e.Plan.Owed,
		})
		return
	}
	l := line{
		Type: string(r.Type), Side: Side(r.Step.Side), Step: string(r.Step.ID), Title: r.Step.Title,
		Reason: r.Step.Reason, ElapsedMS: new(r.Elapsed.Milliseconds()),
	}
	if r.Type == engine.RecordEnd {
		l.Result = r.Step.Status.String()
	}
	n.write(l)
}

// Progress writes the reason why a command without a plan waits.
func (n *NDJSON) Progress(side flows.Side, text string) {
	n.write(line{Type: "progress", Side: Side(side), Message: text})
}

// Check writes a line about one check.
func (n *NDJSON) Check(r check.Result) {
	d := CheckOf(r)
	n.write(line{Type: "check", ID: string(d.ID), Title: d.Title, Sides: d.Sides, Result: d.Result, Message: d.Summary, Data: d})
}

// Pending implements [Reporter].
func (n *NDJSON) Pending(p flows.Plan) { n.write(line{Type: "pending", Steps: stepsOf(p)}) }

// End implements [Reporter].
func (n *NDJSON) End(err error, a Achieved) {
	if e := problemOf(err); e != nil {
		n.write(line{Type: "error", problem: e})
	}
	n.write(line{Type: "result", OK: new(err == nil), Exit: new(exit.Code(err)), Changed: new(n.changed), Message: strings.TrimSuffix(a.Text, "\n"), Next: firstCommand(a.Next)})
}

// HasChanged implements [Reporter].
func (n *NDJSON) HasChanged() bool { return n.changed }

// Side returns the name of a side for programs: "a" or "b".
func Side(s flows.Side) string { return strings.ToLower(s.String()) }

// problemOf returns err in the form for programs; nil for a result that is no failure.
func problemOf(err error) *problem {
	if _, ok := errors.AsType[exit.Verdict](err); ok || err == nil {
		return nil
	}
	p := &problem{Code: string(exit.Reason(err)), What: err.Error()}
	if s, ok := errors.AsType[*flows.StepError](err); ok {
		p.What, p.Why = fmt.Sprintf("%s: %s", s.Cluster, s.Step.Title), s.Step.Reason
		p.Evidence = map[string]string{"step": string(s.Step.ID), "side": Side(s.Step.Side)}
		maps.Copy(p.Evidence, s.Step.Evidence)
	}
	if h := exit.Hint(err); !h.IsZero() {
		p.Fix, p.Commands = []string{h.String()}, h.Commands()
	}
	return p
}
