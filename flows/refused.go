package flows

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Fail sets the step's status to Failed.
func (s *Step) Fail(kind FailureKind, code Code, reason string, fix ...command.Hint) {
	s.Status, s.Kind, s.Code, s.Reason = Failed, kind, code, reason
	s.Fix = slices.DeleteFunc(slices.Clone(fix), command.Hint.IsZero)
}

// Refused changes the step after an API server's error: the step fails, or waits for another attempt.
func (s *Step) Refused(err error, f Facts) {
	s.Cause = err
	hint := HintOf(err)
	problem, _ := errors.AsType[*Problem](err)
	var conflict *ConflictError
	var foreign *ForeignError
	switch {
	case errors.As(err, &conflict):
		s.Fail(FailedConflict, CodeOwnership, err.Error(), hint)
	case errors.As(err, &foreign):
		s.Fail(FailedConflict, CodeOwnership, err.Error(), command.Hintf("find out who made it: %s; delete it if nobody needs it, or run this command again with --force-conflicts to take it over",
			f.Sides[s.Side].SeeWriters(foreign.Object)))
	case problem != nil && problem.Kind == Unauthorized, apierrors.IsUnauthorized(err):
		s.Fail(FailedAccess, CodeCredentials, err.Error(), orElse(hint, command.Text("log in to the cluster again, then run the same command again")))
	case isGoing(err):
		s.Status, s.Reason = Waiting, err.Error()
	case isPolicy(err):
		s.Fail(FailedApply, CodeRefused, err.Error(), orElse(hint, command.Text("a policy of the cluster forbids this, regardless of your rights: ask the admin of the policy or program that the message names, then run the same command again to continue")))
	case problem != nil && problem.Kind == Forbidden, apierrors.IsForbidden(err):
		s.Fail(FailedAccess, CodeForbidden, err.Error(), orElse(hint, f.AskForRights()))
	case problem != nil, isPassing(err):
		s.Status, s.Reason = Waiting, "trying again: "+err.Error()
	case apierrors.IsInvalid(err) && aboutNodePort(err.Error()):
		s.Fail(FailedApply, CodeNodePort, err.Error(), otherNodePort())
	default:
		s.Fail(FailedApply, CodeRefused, err.Error(), orElse(hint, command.Text("what was applied stays; run the same command again to continue")))
	}
}

// isGoing reports whether the object's namespace is gone or being deleted. The next plan waits for the
// deletion, or creates the namespace again.
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

// isPolicy reports whether admission refused the object. API servers also answer 403 if the user lacks a
// right; only the texts differ.
func isPolicy(err error) bool {
	return slices.ContainsFunc([]string{
		"admission webhook ", "ValidatingAdmissionPolicy ", "violates PodSecurity", "exceeded quota", "failed quota",
		"usage per Container is", "usage per Pod is", "no PriorityClass with name", "error looking up service account",
	}, func(text string) bool { return strings.Contains(err.Error(), text) })
}

// isPassing reports whether the error will probably go away by itself: the API server is
// overloaded, restarts, or is unreachable for a moment.
func isPassing(err error) bool {
	var network *url.Error
	return apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) || apierrors.IsConflict(err) ||
		errors.As(err, &network) || errors.Is(err, context.DeadlineExceeded)
}

func otherNodePort() command.Hint {
	return command.Text("choose another --node-port, or --node-port 0 to let Kubernetes choose")
}

func aboutNodePort(text string) bool { return strings.Contains(strings.ToLower(text), "nodeport") }

func orElse(hint, other command.Hint) command.Hint {
	if hint.IsZero() {
		return other
	}
	return hint
}

// AlsoWrittenBy names the other programs that write the step's object, as the end of a sentence.
func (s Step) AlsoWrittenBy() string {
	if who := s.Evidence[evidenceManagers]; who != "" {
		return fmt.Sprintf(" (%s writes it too)", who)
	}
	return ""
}

// HintOf returns the advice of an error; the zero value if it has none.
func HintOf(err error) command.Hint {
	var h interface{ Hint() command.Hint }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return command.Hint{}
}

// refusedRelay returns a failed step if the plan has a relay, but the server's gateway can't dial relays.
func (c Connection) refusedRelay(server Side) *Step {
	if f := c.Facts.Sides[server]; c.Params.Relay != "" && c.Params.Server == server && !f.Can().DialRelay {
		return new(Refuse(server, CodeSoftware, "relay", FailedPreflight,
			fmt.Sprintf("the gateway of %s is of %s, which dials no relay", f.Name(), f.Software),
			command.Text("let the other cluster host the server, if liqo-tui's operator runs there: --server-location")))
	}
	return nil
}

// refusedAllow returns a failed step if the plan closes a cluster's pods to the peer, and this is not
// possible: the cluster's gateway can't do it, or lending needs the pods open.
func (c Connection) refusedAllow(side Side) *Step {
	f, allow := c.Facts.Sides[side], c.Params.Allow[side]
	refuse := func(code Code, reason string, fix command.Hint) *Step {
		return new(Refuse(side, code, "--"+allowSetting(side).Name, FailedPreflight, reason, fix))
	}
	switch {
	case allow == wire.AllowAll:
	case !f.Can().Close && f.Can().Connect:
		return refuse(CodeSoftware, fmt.Sprintf("the gateway of %s is of %s, which lets the peer's pods reach all pods", f.Name(), f.Software),
			command.Text("omit this setting; NetworkPolicies can refuse the peer's pods by their addresses"))
	case c.Params.ForLending || c.gatewaysForPeering():
		fix := command.Text("omit this setting, or choose all")
		if c.Params.Given&allowField(side) == 0 { // the gateway has it, such as that of an invitation
			open := c.Facts.Ours("network", "connect").Flag("--allow", wire.AllowAll.String())
			if side == B {
				open = c.Facts.Ours("network", "connect").Flag("--remote-allow", wire.AllowAll.String())
			}
			fix = command.Hintf("open the pods of %s first: %s. Or its admin runs network invite or join again, with --allow all", f.Name(), open)
		}
		return refuse(CodeUsage, "the two clusters lend, so their pods must be able to reach each other", fix)
	}
	return nil
}

// StepError is the error of a run that ended with a failed step.
type StepError struct {
	Step    Step
	Cluster wire.ClusterID
	// Changed reports whether the run had changed anything before the failure.
	Changed bool
	// Cause is the API server's answer that made the step fail; nil for other failures.
	Cause error
}

func (e *StepError) Error() string {
	return fmt.Sprintf("%s: %s: %s", e.Cluster, e.Step.Title, e.Step.Reason)
}

func (e *StepError) Unwrap() error { return e.Cause }

// Code returns the code of the failure.
func (e *StepError) Code() Code { return e.Step.Code }

// Hint returns the advice about the failure.
func (e *StepError) Hint() command.Hint { return e.Step.Hint() }
