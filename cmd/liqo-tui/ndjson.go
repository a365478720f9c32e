package main

import (
	"encoding/json"
	"io"
	"strings"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
)

// schemaVersion is "v" of every line: fields and types of lines are only added
// while it stays the same, and readers ignore what they don't know.
const schemaVersion = 1

// line is one line of -o ndjson. The first is of type run.start, the last of
// type result, also after an interruption.
type line struct {
	V    int       `json:"v"`
	Seq  int       `json:"seq"`
	TS   time.Time `json:"ts"`
	Type string    `json:"type"`

	Command string   `json:"cmd,omitempty"`     // run.start
	A       *cluster `json:"a,omitempty"`       // run.start, plan
	B       *cluster `json:"b,omitempty"`       // run.start, plan
	Summary *summary `json:"summary,omitempty"` // plan

	Side      string `json:"side,omitempty"` // step.*, change: "a" or "b"
	Step      string `json:"step,omitempty"` // step.*: its ID, the same in every run
	Title     string `json:"title,omitempty"`
	Result    string `json:"result,omitempty"`    // step.end: "done" or "failed"
	Reason    string `json:"reason,omitempty"`    // step.*: what it waits for, or why it failed
	ElapsedMS *int64 `json:"elapsedMs,omitempty"` // step.*: since the run started

	Verb   string `json:"verb,omitempty"`   // change: "created", "updated", "deleted"
	Object string `json:"object,omitempty"` // change

	Message string `json:"message,omitempty"` // error
	Hint    string `json:"hint,omitempty"`    // error

	OK      *bool `json:"ok,omitempty"`      // result
	Exit    *int  `json:"exit,omitempty"`    // result: the exit code
	Changed *bool `json:"changed,omitempty"` // result: whether either cluster was changed
}

type cluster struct {
	Context string `json:"context,omitempty"`
	ID      string `json:"id,omitempty"`
}

type summary struct {
	Create int `json:"create"`
	Update int `json:"update"`
	Delete int `json:"delete"`
}

// ndjson writes a run as one JSON object a line.
type ndjson struct {
	out     io.Writer
	now     func() time.Time
	seq     int
	last    flows.Event
	spoken  time.Time // when the last line was written
	changed bool
}

func (n *ndjson) write(l line) {
	l.V, l.Seq, l.TS = schemaVersion, n.seq, n.now().UTC()
	n.seq++
	n.spoken = l.TS
	// Encoding can't fail for these types; if nobody reads, nobody is to be told.
	_ = json.NewEncoder(n.out).Encode(l)
}

func (n *ndjson) begin(command string, a, b flows.ContextRef) {
	n.write(line{Type: "run.start", Command: command, A: &cluster{Context: a.Name}, B: &cluster{Context: b.Name}})
}

func (n *ndjson) event(e flows.Event) {
	n.changed = n.changed || e.Changed()
	for _, c := range e.Changes {
		if c.Verb != flows.Unchanged {
			n.write(line{Type: "change", Side: sideName(c.Side), Verb: string(c.Verb), Object: c.Object})
		}
	}
	for _, r := range flows.Narrate(n.last, e) {
		n.record(e, r)
	}
	for _, r := range heartbeats(e, n.spoken) {
		n.record(e, r)
	}
	n.last = e
}

func (n *ndjson) record(e flows.Event, r flows.Record) {
	if r.Type == flows.RecordPlan {
		create, update, del := e.Plan.Changes()
		n.write(line{
			Type: string(r.Type), Summary: &summary{create, update, del},
			A: &cluster{ID: string(e.Plan.A)}, B: &cluster{ID: string(e.Plan.B)},
		})
		return
	}
	l := line{
		Type: string(r.Type), Side: sideName(r.Step.Side), Step: string(r.Step.ID), Title: r.Step.Title,
		Reason: r.Step.Reason, ElapsedMS: new(r.Elapsed.Milliseconds()),
	}
	if r.Type == flows.RecordEnd {
		l.Result = r.Step.Status.String()
	}
	n.write(l)
}

func (n *ndjson) end(err error, _ string) {
	if err != nil {
		n.write(line{Type: "error", Message: err.Error(), Hint: hint(err)})
	}
	n.write(line{Type: "result", OK: new(err == nil), Exit: new(exitCode(err)), Changed: new(n.changed)})
}

func (n *ndjson) hasChanged() bool { return n.changed }

func sideName(s flows.Side) string { return strings.ToLower(s.String()) }
