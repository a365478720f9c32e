package flows

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// StepID names a step. The step has the same ID in all plans of a run.
type StepID string

// Action is what a step does.
type Action uint8

// The actions.
const (
	Create Action = iota
	Update
	Replace // delete the object, and create it again when it is gone, because it can't be changed
	Delete
	Wait   // wait for a change by another program
	Verify // measure; this changes nothing
)

func (a Action) String() string {
	return [...]string{"create", "update", "replace", "delete", "wait", "verify"}[a]
}

// Changes reports whether the action changes a cluster.
func (a Action) Changes() bool { return a != Wait && a != Verify }

// Status says how far a step has come.
type Status uint8

// The states of a step.
const (
	Blocked Status = iota // needs a value from an earlier step
	Ready                 // can be applied now
	Waiting               // waits for a change by another program
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
	// Object is the object that the step changes; the zero value for waits.
	Object ObjectRef
	// Interrupts names the traffic that this step interrupts; "" if it interrupts none.
	Interrupts string
	// Reason says what the step waits for, what it found, or why it failed.
	Reason string
	// Fix has advice to the admin about a failure, or about a wait that does not end. The hints are
	// alternatives, the best one first.
	Fix []command.Hint
	// Kind is the class of a failure; Code names the failure itself.
	Kind FailureKind
	Code Code
	// Evidence is the evidence of a failure. The keys are names such as [EvidenceObject].
	Evidence map[string]string
	// Events are the cluster's recent warnings about the objects for which the step waits.
	Events []EventFacts
	// Want lists the objects that the step ensures, and Gone the objects that it removes. Both stay the same
	// whatever the status of the step is.
	Want, Gone []wire.Object
	// Objects lists the objects to apply or delete now. It is empty unless the step is Ready. A Replace
	// deletes them.
	Objects []wire.Object
	// Force is set if the step takes over fields of other managers without the admin's request.
	Force bool
	// Edits is set if the step changes an object that was there before us and that others use. It names
	// what changes, such as "the cluster's DNS". The admin confirms such a change by itself, with its
	// diff. It is made only if the object is still as it was observed.
	Edits string
	// Asks is the question on which the step depends; nil if there is none. See [Plan.Asks].
	Asks Question
	// Diff shows the changes by the step, as a unified diff.
	Diff string
	// Tried is set if the API server has tried the step's objects in a dry run.
	Tried bool

	// Cause is the API server's error if the step failed because of it; nil for other failures.
	Cause error
}

// Keys of a failure's evidence.
const (
	EvidenceObject   = "object"
	evidenceManagers = "managers" // other programs that write the object
	EvidenceObserved = "observed" // the last observation
	EvidenceSince    = "since"    // the time of the first observation with the same result
	EvidenceEvent    = "event"    // the cluster's latest warning about the object
)

// ObjectRef names an object of a cluster.
type ObjectRef struct{ Kind, Namespace, Name string }

func (r ObjectRef) String() string {
	switch {
	case r.Kind == "":
		return ""
	case r.Namespace == "":
		return r.Kind + " " + r.Name
	}
	return r.Kind + " " + r.Namespace + "/" + r.Name
}

// Hint returns [Step.Fix] as one sentence.
func (s Step) Hint() command.Hint { return command.Join(s.Fix, "; ") }

// Plan lists all steps with their states.
type Plan struct {
	Steps []Step
	// A and B are the IDs of the two clusters, for texts.
	A, B wire.ClusterID
	// Params are the parameters of PlanConnect, completed with the settings that an existing connection
	// keeps. A command with all of them makes the same plan.
	Params Params
	// Kept has notes for the admin, one sentence each. They name kept settings that differ from the
	// default, values that will probably be chosen, and nodes that keep routes after a removal.
	Kept []string
	// Asks lists the questions of the plan that belong to no step. It also has those that the facts already
	// answer.
	Asks []Question
	// Replaces lists the peers that another cluster with the same ID replaces, one sentence each. The
	// admin confirms them separately.
	Replaces []string
	// Owed lists commands for the other cluster. Its admin has to run them, because this run can't reach
	// that cluster or must not change it.
	Owed []command.Command
}

// FailureKind is the class of a failed step. Each class has an exit code of its own.
type FailureKind uint8

// Classes of failures.
const (
	FailedPreflight   FailureKind = iota + 1 // nothing was changed, because the clusters don't fit the plan
	FailedUnreachable                        // an API server does not answer
	FailedConflict                           // an object of another program or admin is in the way
	FailedApply                              // the API server refused a change
	FailedTimeout                            // a wait did not end in time
	FailedAccess                             // credentials or rights are missing
	FailedUsage                              // the chosen settings don't fit together
	FailedVerify                             // both clusters report the connection as connected, but test packets are lost
)

// Done reports whether nothing is left to do or to wait for.
func (p Plan) Done() bool {
	return !slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Status != Done })
}

// Failure returns the first failed step; nil if there is none.
func (p Plan) Failure() *Step {
	for i := range p.Steps {
		if p.Steps[i].Status == Failed {
			return &p.Steps[i]
		}
	}
	return nil
}

// Summary counts the steps of a plan that are still to do, by action.
type Summary struct{ Create, Update, Replace, Delete int }

func (s Summary) String() string {
	text := fmt.Sprintf("%d to create, %d to update, ", s.Create, s.Update)
	if s.Replace > 0 {
		text += fmt.Sprintf("%d to replace, ", s.Replace)
	}
	return text + fmt.Sprintf("%d to delete", s.Delete)
}

// Total returns the number of all counted steps.
func (s Summary) Total() int { return s.Create + s.Update + s.Replace + s.Delete }

// Changes counts the steps that still change something, by action.
func (p Plan) Changes() Summary {
	var sum Summary
	for _, s := range p.Steps {
		if !s.Changes() {
			continue
		}
		switch s.Action {
		case Create:
			sum.Create++
		case Update:
			sum.Update++
		case Replace:
			sum.Replace++
		case Delete:
			sum.Delete++
		case Wait, Verify:
		}
	}
	return sum
}

// Changes reports whether the step will change a cluster.
func (s Step) Changes() bool {
	return s.Status != Done && s.Action != Wait && s.Action != Verify
}

// Wants lists the objects that the plan wants on a side, whether they exist or not.
func (p Plan) Wants(side Side) (objects []wire.Object) {
	for _, s := range p.Steps {
		if s.Side == side {
			objects = append(objects, s.Want...)
		}
	}
	return objects
}

// Empty reports whether the plan changes nothing on either cluster.
func (p Plan) Empty() bool { return p.Changes() == Summary{} }

// MeasureNext reports whether only the measurement is left to do.
func (p Plan) MeasureNext() bool {
	return !p.Done() && !slices.ContainsFunc(p.Steps, func(s Step) bool {
		return s.Status != Done && (s.Action != Verify || s.Status != Ready)
	})
}

// Foresaw reports whether this plan already has all deletions and replacements of the plan later, and all
// its changes of what was there before us.
func (p Plan) Foresaw(later Plan) bool {
	return !slices.ContainsFunc(later.Steps, func(s Step) bool {
		before, known := p.Step(s.ID)
		if s.Edits != "" && s.Status == Ready && (!known || before.Diff != s.Diff) {
			return true
		}
		if s.Status == Done || s.Action != Delete && s.Action != Replace {
			return false
		}
		return !known || before.Status == Done || before.Action != s.Action || before.Object != s.Object
	})
}

// Interrupts names the traffic that the plan interrupts, one sentence each.
func (p Plan) Interrupts() []string {
	var out []string
	for _, s := range p.Steps {
		if s.Status != Done && s.Interrupts != "" && !slices.Contains(out, s.Interrupts) {
			out = append(out, s.Interrupts)
		}
	}
	return out
}

// Edits names what the plan changes now of what was there before us.
func (p Plan) Edits() []string {
	var out []string
	for _, s := range p.Steps {
		if s.Status == Ready && s.Edits != "" && !slices.Contains(out, s.Edits) {
			out = append(out, s.Edits)
		}
	}
	return out
}

// ID returns the cluster ID of a side.
func (p Plan) ID(s Side) wire.ClusterID {
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

// IDOf returns the ID of the step with the name what on a side.
func IDOf(side Side, what string) StepID {
	return StepID(fmt.Sprintf("%s-%s", what, map[Side]string{A: "a", B: "b"}[side]))
}

// The kinds of objects that plans of connections change.
const (
	kindNamespace     = "Namespace"
	kindConfiguration = "Configuration"
	kindServer        = "GatewayServer"
	kindClient        = "GatewayClient"
	kindPublicKey     = "PublicKey"
)

// Names of steps that more than one plan has.
const (
	stepServer = "gateway-server"
	stepClient = "gateway-client"
	stepKey    = "public-key"
	stepOwnKey = "own-key"
)

// Title returns the kind and the name of the object, without the namespace. Texts about a side don't need
// it.
func (r ObjectRef) Title() string { return r.Kind + " " + r.Name }

// Ensure returns the step that creates want, or updates live so that it has all fields of want. The step is done if
// live already has them.
func Ensure(side Side, what string, live, want wire.Object) Step {
	if Exists(live) && live.GetLabels()[wire.LabelManagedBy] != wire.ManagedBy {
		// The object of another owner does not get our label, because a reset deletes namespaces with our
		// label, with all objects in them.
		delete(want.GetLabels(), wire.LabelManagedBy)
	}
	object := RefTo(want)
	s := Step{ID: IDOf(side, what), Side: side, Object: object, Title: object.Title(), Status: Ready, Action: Create}
	s.Want, s.Objects = []wire.Object{want}, []wire.Object{want}
	switch {
	case Exists(live) && live.GetDeletionTimestamp() != nil:
		s.Status, s.Reason, s.Objects, s.Code = Waiting, object.Title()+" is still being deleted"+deletionState(live), nil, CodeDeletion
	case apply.Contains(wire.FieldManager, live, want):
		s.Status, s.Action, s.Objects = Done, Update, nil
	case Exists(live):
		s.Action, s.Diff = Update, apply.Diff(live, want)
		if who := strings.Join(Managers(live), ", "); who != "" {
			s.Evidence = map[string]string{evidenceManagers: who}
		}
	default:
		s.Diff = apply.Diff(nil, want)
	}
	return s
}

// Managers returns the other programs that have written fields of the object outside its status, the latest
// first.
func Managers(live wire.Object) []string {
	fields := slices.Clone(live.GetManagedFields())
	slices.SortStableFunc(fields, func(a, b metav1.ManagedFieldsEntry) int {
		switch {
		case a.Time == nil || b.Time == nil:
			return 0
		default:
			return b.Time.Compare(a.Time.Time)
		}
	})
	var names []string
	for _, e := range fields {
		if e.Subresource == "" && e.Manager != wire.FieldManager && !slices.Contains(names, e.Manager) {
			names = append(names, e.Manager)
		}
	}
	return names
}

// Edited reports whether a program other than ours has written the spec of the object. Then our change
// causes a conflict, unless it takes over the fields.
func Edited(o wire.Object) bool {
	return slices.ContainsFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Subresource == "" && touchesSpec(e) && !slices.Contains([]string{wire.FieldManager, wire.OperatorName, "liqo-gateway"}, e.Manager)
	})
}

// deletionState returns the reason that a deletion is not finished, as the end of a sentence.
func deletionState(o wire.Object) string {
	if ns, ok := o.(*corev1.Namespace); ok {
		if why := wire.Stays(ns); why != "" {
			return ": " + why
		}
	}
	if f := o.GetFinalizers(); len(f) > 0 {
		return ", held by " + strings.Join(f, ", ")
	}
	return ""
}

// Remove returns the step that deletes live. The step is done if live does not exist.
func Remove(side Side, what string, object ObjectRef, live wire.Object, interrupts string) Step {
	s := Step{
		ID: IDOf(side, what), Side: side, Object: object, Title: object.Title(), Action: Delete,
		Status: Done, Reason: "does not exist",
	}
	if !Exists(live) {
		return s
	}
	s.Status, s.Reason, s.Interrupts = Ready, "", interrupts
	s.Gone, s.Objects = []wire.Object{live}, []wire.Object{live}
	if live.GetDeletionTimestamp() != nil {
		s.Status, s.Reason, s.Objects, s.Code = Waiting, "being deleted"+deletionState(live), nil, CodeDeletion
	}
	return s
}

// BlockedStep returns a step that can't begin yet. The argument reason names what is missing.
func BlockedStep(side Side, action Action, what string, object ObjectRef, reason string) Step {
	return Step{ID: IDOf(side, what), Side: side, Action: action, Object: object, Title: object.Title(), Status: Blocked, Reason: reason}
}

// Exists reports whether o is neither nil nor a typed nil pointer. Facts have typed nil pointers for objects
// that don't exist.
func Exists(o wire.Object) bool { return o != nil && !reflect.ValueOf(o).IsNil() }

// RefTo returns the name of an object. Objects from typed clients have no kind, so the kind is the name of
// their Go type.
func RefTo(o wire.Object) ObjectRef {
	kind := o.GetObjectKind().GroupVersionKind().Kind
	return ObjectRef{Kind: cmp.Or(kind, reflect.TypeOf(o).Elem().Name()), Namespace: o.GetNamespace(), Name: o.GetName()}
}
