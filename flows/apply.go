package flows

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/liqo-tui/liqo-tui/render"
)

// applied is what a run has made of one step.
type applied struct {
	want  string // the objects, as YAML
	times int    // how often that changed something
}

// maxRepeats is how often a run makes the same change before it says that
// somebody else undoes it: twice may be an operator that was just starting.
const maxRepeats = 3

// apply does all that is ready, both sides at once. If there was trouble, the
// plan that it returns has the steps that failed, or are to be tried again.
func (r *runner) apply(ctx context.Context, p Plan) (_ []Change, _ Plan, trouble bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), finishTimeout)
	defer cancel()
	p.Steps = slices.Clone(p.Steps)
	var both sync.WaitGroup
	var changes [2][]Change
	for _, side := range []Side{A, B} {
		both.Go(func() { changes[side] = r.applySide(ctx, p.Steps, side) })
	}
	both.Wait()
	all := append(changes[A], changes[B]...)
	r.changed = r.changed || changedAnything(all)
	return all, p, slices.ContainsFunc(p.Steps, func(s Step) bool { return s.Cause != nil || s.Status == Failed })
}

// applySide applies the ready steps of one side, until one goes wrong.
func (r *runner) applySide(ctx context.Context, steps []Step, side Side) []Change {
	var all []Change
	for i := range steps {
		s := &steps[i]
		if s.Side != side || s.Status != Ready || !s.Action.Changes() {
			continue
		}
		if r.undone(*s) {
			s.fail(FailedConflict, CodeUndone, "it was applied, and does not stay as applied"+othersOf(*s),
				"look for another program, or another run of this one, that changes it: kubectl get with --show-managed-fields")
			return all
		}
		changes, err := r.act(side, *s)(ctx, s.Objects)
		for i := range changes {
			changes[i].Side = side
		}
		all = append(all, changes...)
		if changedAnything(changes) {
			r.count(*s)
		}
		if err != nil {
			s.refused(err)
			return all
		}
	}
	return all
}

func (r *runner) act(side Side, s Step) func(context.Context, []render.Object) ([]Change, error) {
	c := r.clusters[side]
	forcer, can := c.(Forcer)
	switch {
	case s.Action == Delete || s.Action == Replace:
		return c.Delete
	case r.options.Force && can:
		return forcer.ForceApply
	}
	return c.Apply
}

func (s *Step) fail(kind FailureKind, code Code, reason, hint string) {
	s.Status, s.Kind, s.Code, s.Reason, s.Hint = Failed, kind, code, reason, hint
}

// refused makes of a step what an API server's answer means for it: it failed,
// or it has to be tried again.
func (s *Step) refused(err error) {
	s.Cause = err
	hint := hintOf(err)
	var problem *Problem
	if errors.As(err, &problem) {
		hint = problem.Hint
	}
	var conflict *ConflictError
	switch {
	case errors.As(err, &conflict):
		s.fail(FailedConflict, CodeOwnership, err.Error(), hint)
	case problem != nil && problem.Kind == Unauthorized, apierrors.IsUnauthorized(err):
		s.fail(FailedAccess, CodeCredentials, err.Error(), orElse(hint, "log in to the cluster again, then run the same command again"))
	case isGoing(err):
		s.Status, s.Reason = Waiting, err.Error()
	case problem != nil && problem.Kind == Forbidden, apierrors.IsForbidden(err):
		s.fail(FailedAccess, CodeForbidden, err.Error(), orElse(hint, "ask the cluster's administrator for the rights that liqo-tui rbac prints"))
	case problem != nil, isPassing(err):
		s.Status, s.Reason = Waiting, "trying again: "+err.Error()
	case apierrors.IsInvalid(err) && aboutNodePort(err.Error()):
		s.fail(FailedApply, CodeNodePort, err.Error(), nodePortHint)
	default:
		s.fail(FailedApply, CodeRefused, err.Error(), orElse(hint, "what was applied stays; run the same command again to continue"))
	}
}

// isGoing reports whether the namespace of what was applied is being deleted,
// or gone: the next plan waits for that, or makes it again.
func isGoing(err error) bool {
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return true
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	details := status.Status().Details
	return apierrors.IsNotFound(err) && details != nil && details.Kind == "namespaces" ||
		apierrors.IsForbidden(err) && strings.Contains(err.Error(), "because it is being terminated")
}

// isPassing reports whether an error is one that goes away by itself: the API
// server is overloaded, restarts, or is not there for a moment.
func isPassing(err error) bool {
	var network *url.Error
	return apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) || apierrors.IsConflict(err) ||
		errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded)
}

const nodePortHint = "choose another --node-port, or leave it out and let Kubernetes choose"

func aboutNodePort(text string) bool { return strings.Contains(strings.ToLower(text), "nodeport") }

func orElse(text, other string) string {
	if text != "" {
		return text
	}
	return other
}

// undone reports whether a step was made often enough, just as it would be made
// again now.
func (r *runner) undone(s Step) bool {
	a := r.taken(s)
	return a.times >= maxRepeats && a.want == wantedText(s)
}

// count notes that a step has changed something.
func (r *runner) count(s Step) {
	a, text := r.taken(s), wantedText(s)
	if a.want != text {
		a = applied{want: text}
	}
	a.times++
	r.mu.Lock()
	defer r.mu.Unlock()
	r.applied[s.ID] = a
}

func (r *runner) taken(s Step) applied {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.applied[s.ID]
}

func wantedText(s Step) string {
	text, err := render.YAML(s.Objects...)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// othersOf names who else writes the object of a step.
func othersOf(s Step) string {
	if who := s.Evidence[evidenceManagers]; who != "" {
		return fmt.Sprintf(" (%s writes it too)", who)
	}
	return ""
}

// hintOf is the advice that an error brings along.
func hintOf(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}
