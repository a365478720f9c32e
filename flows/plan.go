package flows

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/liqo-tui/liqo-tui/render"
)

// StepID names a step; it stays the same from one plan to the next.
type StepID string

// Action is what a step does.
type Action uint8

// The actions.
const (
	Create Action = iota
	Update
	Delete
	Wait // for something that others do
)

func (a Action) String() string {
	return [...]string{"create", "update", "delete", "wait"}[a]
}

// Status is how far a step is.
type Status uint8

// The states of a step.
const (
	Blocked Status = iota // needs a value from an earlier step
	Ready                 // can be applied now
	Waiting               // for something that others do
	Done
	Failed
)

func (s Status) String() string {
	return [...]string{"blocked", "ready", "waiting", "done", "failed"}[s]
}

// Step is one line of a plan.
type Step struct {
	ID     StepID
	Side   Side
	Action Action
	Title  string
	Status Status
	// Reason says what the step waits for, or what was found, or why it failed.
	Reason string
	// Hint is what the admin can do about a failure.
	Hint string
	// Kind is the class of a failure.
	Kind FailureKind
	// Objects to apply or delete when the step is Ready.
	Objects []render.Object
	// Diff is what applying changes, as a unified diff.
	Diff string
}

// Plan is all that is to do, and how far it is.
type Plan struct {
	Steps []Step
	// IDs of the two clusters, for texts.
	A, B render.ClusterID
}

// FailureKind is the class of a failed step; each has its exit code.
type FailureKind uint8

// Classes of failures.
const (
	FailedPreflight   FailureKind = iota + 1 // nothing was changed: the clusters aren't fit for it
	FailedUnreachable                        // no answer, or credentials or rights are missing
	FailedConflict                           // somebody else's state is in the way
	FailedApply                              // the API server refused a change
	FailedTimeout                            // what was waited for did not come
)

// Done reports whether nothing is left to do or to wait for.
func (p Plan) Done() bool {
	return !slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Status != Done })
}

// Failure is the first failed step, or nil.
func (p Plan) Failure() *Step {
	for i := range p.Steps {
		if p.Steps[i].Status == Failed {
			return &p.Steps[i]
		}
	}
	return nil
}

// Changes counts the steps that still change something, by action.
func (p Plan) Changes() (create, update, del int) {
	for _, s := range p.Steps {
		if s.Status == Done {
			continue
		}
		switch s.Action {
		case Create:
			create++
		case Update:
			update++
		case Delete:
			del++
		case Wait:
		}
	}
	return create, update, del
}

// Empty reports whether the plan changes nothing on either cluster.
func (p Plan) Empty() bool {
	create, update, del := p.Changes()
	return create+update+del == 0
}

// ID is the cluster ID of a side.
func (p Plan) ID(s Side) render.ClusterID {
	if s == B {
		return p.B
	}
	return p.A
}

// Step finds a step by its ID.
func (p Plan) Step(id StepID) (Step, bool) {
	i := slices.IndexFunc(p.Steps, func(s Step) bool { return s.ID == id })
	if i < 0 {
		return Step{}, false
	}
	return p.Steps[i], true
}

func stepID(side Side, what string) StepID {
	return StepID(fmt.Sprintf("%s-%s", what, map[Side]string{A: "a", B: "b"}[side]))
}

// ensure is the step that makes want exist: done when live already says it.
func ensure(side Side, what, title string, live, want render.Object) Step {
	if exists(live) && live.GetLabels()[render.LabelManagedBy] != render.ManagedBy {
		// What somebody else made is used as it is, and does not become ours: a
		// reset deletes namespaces that are, with whatever else is in them.
		delete(want.GetLabels(), render.LabelManagedBy)
	}
	s := Step{ID: stepID(side, what), Side: side, Title: title, Status: Ready, Action: Create, Objects: []render.Object{want}}
	switch {
	case exists(live) && live.GetDeletionTimestamp() != nil:
		s.Status, s.Reason = Waiting, render.Name(want)+" is still being deleted"
	case render.Contains(live, want):
		s.Status, s.Action, s.Objects = Done, Update, nil
	case exists(live):
		s.Action, s.Diff = Update, render.Diff(live, want)
	default:
		s.Diff = render.Diff(nil, want)
	}
	return s
}

// remove is the step that makes live go away; done when it does not exist.
func remove(side Side, what, title string, live render.Object) Step {
	s := Step{ID: stepID(side, what), Side: side, Title: title, Action: Delete, Status: Done, Reason: "does not exist"}
	if !exists(live) {
		return s
	}
	s.Status, s.Reason, s.Objects = Ready, "", []render.Object{live}
	if live.GetDeletionTimestamp() != nil {
		s.Status, s.Reason, s.Objects = Waiting, "being deleted", nil
		if f := live.GetFinalizers(); len(f) > 0 {
			s.Reason = fmt.Sprintf("being deleted, finalizers left: %v", f)
		}
	}
	return s
}

func blocked(side Side, action Action, what, title, reason string) Step {
	return Step{ID: stepID(side, what), Side: side, Action: action, Title: title, Status: Blocked, Reason: reason}
}

// exists reports whether o is there: the facts hold nil pointers for what isn't.
func exists(o render.Object) bool { return o != nil && !reflect.ValueOf(o).IsNil() }
