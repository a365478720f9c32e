package main

import (
	"encoding/json"
	"io"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
)

// outcome is what -o json and -o yaml write at the end of a run. Fields are
// only added while "v" stays the same.
type outcome struct {
	V       int      `json:"v"`
	Command string   `json:"cmd"`
	A       cluster  `json:"a"`
	B       cluster  `json:"b"`
	OK      bool     `json:"ok"`
	Exit    int      `json:"exit"`
	Changed bool     `json:"changed"`
	Steps   []step   `json:"steps"`
	Changes []change `json:"changes"`
	Error   *problem `json:"error,omitempty"`
	Message string   `json:"message,omitempty"` // what was achieved, as the text says it
	Next    string   `json:"next,omitempty"`    // a command line
}

type change struct {
	Side   string `json:"side"`
	Verb   string `json:"verb"`
	Object string `json:"object"`
}

func newOutcome(command string, a, b flows.ContextRef) outcome {
	return outcome{
		V: schemaVersion, Command: command, A: cluster{Context: a.Name}, B: cluster{Context: b.Name},
		Steps: []step{}, Changes: []change{},
	}
}

func (o *outcome) add(changes []flows.Change) {
	for _, c := range changes {
		if c.Verb != flows.Unchanged {
			o.Changed = true
			o.Changes = append(o.Changes, change{sideName(c.Side), string(c.Verb), c.Object})
		}
	}
}

func (o *outcome) end(err error, a achieved) {
	o.OK, o.Exit, o.Error = err == nil, exitCode(err), problemOf(err)
	o.Message, o.Next = strings.TrimSuffix(a.text, "\n"), firstCommand(a.next)
}

// document writes the outcome as one document to out, and progress to err.
type document struct {
	transcript
	out    io.Writer
	format string
	outcome
}

func (d *document) begin(command string, a, b flows.ContextRef) {
	d.transcript.begin(command, a, b)
	d.outcome = newOutcome(command, a, b)
}

func (d *document) event(e engine.Event) {
	d.transcript.event(e)
	d.A.introduce(d.facts.Local)
	d.B.introduce(d.facts.Remote)
	d.A.ID, d.B.ID = string(e.Plan.A), string(e.Plan.B)
	d.Steps = stepsOf(e.Plan)
	d.add(e.Changes)
}

func (d *document) pending(flows.Plan) {} // the steps say it

func (d *document) end(err error, a achieved) {
	d.outcome.end(err, a)
	// Encoding can't fail for these types; if nobody reads, nobody is to be told.
	_ = writeDocument(d.out, d.format, d.outcome)
}

// writeDocument writes v as JSON or YAML.
func writeDocument(out io.Writer, format string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if format == formatYAML {
		if text, err = yaml.JSONToYAML(text); err != nil {
			return err
		}
		_, err = out.Write(text)
		return err
	}
	_, err = out.Write(append(text, '\n'))
	return err
}
