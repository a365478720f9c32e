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

// StepID names a step; it stays the same from one plan to the next.
type StepID string

// Action is what a step does.
type Action uint8

// The actions.
const (
	Create Action = iota
	Update
	Replace // the object can't be changed in place: delete it now, create it once it is gone
	Delete
	Wait   // for something that others do
	Verify // by measuring; changes nothing
)

func (a Action) String() string {
	return [...]string{"create", "update", "replace", "delete", "wait", "verify"}[a]
}

// Changes reports whether the action changes a cluster.
func (a Action) Changes() bool { return a != Wait && a != Verify }

// Status is how far a step has come.
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
	// Object is the object that the step is about; the zero value for waits.
	Object ObjectRef
	// Interrupts names the traffic that this step interrupts; "" if none.
	Interrupts string
	// Reason is what the step waits for, what it found, or why it failed.
	Reason string
	// Fix is what the admin can do about a failure, or about a wait that does not end: one way
	// each, the best first.
	Fix []command.Hint
	// Kind is the class of a failure; Code names the failure itself.
	Kind FailureKind
	Code Code
	// Evidence of a failure; the keys are names such as [EvidenceObject].
	Evidence map[string]string
	// Events are the cluster's recent warnings about what the step waits for.
	Events []EventFacts
	// Want lists the objects that the step ensures, Gone those that it removes. The status does not
	// matter for either.
	Want, Gone []wire.Object
	// Objects lists what to apply or delete now; it is empty unless the step is Ready. For a
	// Replace, they are to be deleted.
	Objects []wire.Object
	// Asks is the question on which the step depends; nil for none. See [Plan.Asks].
	Asks Question
	// Diff is what applying changes, as a unified diff.
	Diff string
	// Tried is set if the API server has tried the step's objects in a dry run.
	Tried bool

	// Cause is the API server's answer that made the step fail; nil for other failures.
	Cause error
}

// Keys of a failure's evidence.
const (
	EvidenceObject   = "object"
	evidenceManagers = "managers" // other programs that write the object
	EvidenceObserved = "observed" // the last observation
	EvidenceSince    = "since"    // since when that was observed
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

// Hint is [Step.Fix] in one sentence.
func (s Step) Hint() command.Hint { return command.Join(s.Fix, "; ") }

// Plan lists all steps, and how far each has come.
type Plan struct {
	Steps []Step
	// IDs of the two clusters, for texts.
	A, B wire.ClusterID
	// Params are the parameters of PlanConnect, completed with what an existing connection keeps.
	// They suffice to give the same command again.
	Params Params
	// Kept has notes for the admin, one sentence each: settings that are kept although they are not
	// the default; values that will probably be chosen; after a removal, what stays on nodes
	// without an agent.
	Kept []string
	// Asks lists the plan's questions besides those of its steps, also those that the facts answer
	// already.
	Asks []Question
	// Replaces lists peers that are replaced by another cluster with the same ID, one sentence
	// each. The admin confirms them separately.
	Replaces []string
	// Owed lists commands that somebody else has to run on the other cluster, because this run
	// can't reach that cluster or leaves it alone.
	Owed []command.Command
}

// FailureKind is the class of a failed step; each class has its exit code.
type FailureKind uint8

// Classes of failures.
const (
	FailedPreflight   FailureKind = iota + 1 // nothing was changed: the clusters aren't fit for it
	FailedUnreachable                        // no answer
	FailedConflict                           // somebody else's state is in the way
	FailedApply                              // the API server refused a change
	FailedTimeout                            // a wait did not end in time
	FailedAccess                             // credentials or rights are missing
	FailedUsage                              // the chosen settings don't fit together
	FailedVerify                             // both clusters report that it works, but a packet does not come through
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

// Total is the number of steps counted.
func (s Summary) Total() int { return s.Create + s.Update + s.Replace + s.Delete }

// Changes counts the steps that still change something, by action.
func (p Plan) Changes() Summary {
	var sum Summary
	for _, s := range p.Steps {
		if s.Status == Done {
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

// Foresaw reports whether the plan has already announced everything that later deletes or replaces.
func (p Plan) Foresaw(later Plan) bool {
	return !slices.ContainsFunc(later.Steps, func(s Step) bool {
		if s.Status == Done || s.Action != Delete && s.Action != Replace {
			return false
		}
		before, known := p.Step(s.ID)
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

// ID is the cluster ID of a side.
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

// IDOf is the ID of the step with this name on a side.
func IDOf(side Side, what string) StepID {
	return StepID(fmt.Sprintf("%s-%s", what, map[Side]string{A: "a", B: "b"}[side]))
}

// The kinds of objects that plans are about.
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

// Title is the object without its namespace: texts about a side don't need it.
func (r ObjectRef) Title() string { return r.Kind + " " + r.Name }

// Ensure is the step that makes want exist; it is done if live already has all that want sets.
func Ensure(side Side, what string, live, want wire.Object) Step {
	if Exists(live) && live.GetLabels()[wire.LabelManagedBy] != wire.ManagedBy {
		// An object that somebody else made is used as it is. The label would make it ours, and a
		// reset deletes our namespaces with everything in them.
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

// Managers lists the other programs that wrote a part of the object outside its status, the latest
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

// deletionState names what a deletion waits for, as the end of a sentence.
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

// Remove is the step that deletes live; it is done if live does not exist.
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

// BlockedStep is a step that can't begin yet; reason names what it needs.
func BlockedStep(side Side, action Action, what string, object ObjectRef, reason string) Step {
	return Step{ID: IDOf(side, what), Side: side, Action: action, Object: object, Title: object.Title(), Status: Blocked, Reason: reason}
}

// Exists reports whether o exists: the facts hold typed nil pointers for objects that don't.
func Exists(o wire.Object) bool { return o != nil && !reflect.ValueOf(o).IsNil() }

// RefTo names an object. Objects from typed clients have no kind set: it is the name of their Go
// type.
func RefTo(o wire.Object) ObjectRef {
	kind := o.GetObjectKind().GroupVersionKind().Kind
	return ObjectRef{Kind: cmp.Or(kind, reflect.TypeOf(o).Elem().Name()), Namespace: o.GetNamespace(), Name: o.GetName()}
}
