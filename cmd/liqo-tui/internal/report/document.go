package report

import (
	"cmp"
	"encoding/json"
	"io"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
)

// outcome is the document of -o json and -o yaml at the end of a run. While "v"
// stays the same, fields are only added.
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
	Message string   `json:"message,omitempty"` // the result, as in the text output
	Next    string   `json:"next,omitempty"`    // a command line
}

type change struct {
	Side   string `json:"side"`
	Verb   string `json:"verb"`
	Object string `json:"object"`
}

// newOutcome returns the outcome of a run that has just begun.
func newOutcome(command string, a, b flows.ContextRef) outcome {
	return outcome{
		V: SchemaVersion, Command: command, A: cluster{Context: a.Name}, B: cluster{Context: b.Name},
		Steps: []step{}, Changes: []change{},
	}
}

func (o *outcome) add(changes []flows.Change) {
	for _, c := range changes {
		if c.Verb != flows.Unchanged {
			o.Changed = true
			o.Changes = append(o.Changes, change{Side(c.Side), string(c.Verb), c.Object})
		}
	}
}

func (o *outcome) End(err error, a Achieved) {
	o.OK, o.Exit, o.Error = err == nil, exit.Code(err), problemOf(err)
	o.Message, o.Next = strings.TrimSuffix(a.Text, "\n"), firstCommand(a.Next)
}

// document writes the outcome as one document to out, and progress to err.
type document struct {
	transcript
	out    io.Writer
	format string
	outcome
	actions map[string]string // by step, from the plan before the step was done
}

// stepsOf returns the steps with the actions that the run has taken. For a step
// that is done, the plan has only the action that it would take now.
func (d *document) stepsOf(p flows.Plan) []step {
	steps := stepsOf(p)
	for i, s := range p.Steps {
		if s.Status != flows.Done {
			d.actions[steps[i].Step] = steps[i].Action
		}
		steps[i].Action = cmp.Or(d.actions[steps[i].Step], steps[i].Action)
	}
	return steps
}

func (d *document) Begin(command string, a, b flows.ContextRef) {
	d.transcript.Begin(command, a, b)
	d.outcome, d.actions = newOutcome(command, a, b), map[string]string{}
}

func (d *document) Event(e engine.Event) {
	d.transcript.Event(e)
	d.A.introduce(e.Facts.Sides[flows.A])
	d.B.introduce(e.Facts.Sides[flows.B])
	d.A.ID, d.B.ID = plannedIDs(e.Plan, e.Facts)
	d.Steps = d.stepsOf(e.Plan)
	d.add(e.Changes)
}

func (d *document) Pending(flows.Plan) {} // the document has the steps

func (d *document) End(err error, a Achieved) {
	d.outcome.End(err, a)
	// These types can always be encoded. If the reader is gone, nobody would read
	// the error either.
	_ = WriteDocument(d.out, d.format, d.outcome)
}

// WriteDocument writes v as JSON or YAML.
func WriteDocument(out io.Writer, format string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	if format == YAML {
		if text, err = yaml.JSONToYAML(text); err != nil {
			return err
		}
		_, err = out.Write(text)
		return err
	}
	_, err = out.Write(append(text, '\n'))
	return err
}
