// Package exit has the program's exit codes, and chooses the code for an error.
package exit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/kube"
	"github.com/liqo-tui/liqo-tui/kube/kubeconfig"
)

// The exit codes. Scripts rely on them: docs/scripting.md documents them, and their
// meaning never changes.
const (
	OK          = 0
	Unexpected  = 1
	Usage       = 2 // nothing changed
	Preflight   = 3 // nothing changed
	Pending     = 4 // a dry run: changes are pending
	Unreachable = 5 // nothing changed
	Apply       = 6 // stopped part-way, run again to continue
	Timeout     = 7 // objects applied, but a wait did not end
	Unhealthy   = 8 // a connection is not healthy; nothing changed
	Conflict    = 9
	Signal      = 128 // plus the signal's number
)

// Code returns the exit code for an error.
func Code(err error) int {
	var usage UsageError
	var unknown *kubeconfig.ContextError
	var file *kubeconfig.Error
	var step *flows.StepError
	var conflict *flows.ConflictError
	var foreign *flows.ForeignError
	var problem *flows.Problem
	var wait *kube.WaitError
	var signalled Interrupted
	var said Verdict
	switch {
	case err == nil:
		return OK
	case errors.As(err, &said):
		return int(said)
	case errors.As(err, &signalled):
		return Signal + int(signalled.Signal)
	case errors.Is(err, engine.ErrDeclined):
		return Signal + 2 // the same code as after Ctrl-C at the question
	case errors.As(err, &usage), errors.As(err, &unknown), errors.As(err, &file):
		return Usage
	case errors.As(err, &conflict), errors.As(err, &foreign):
		return Conflict
	case errors.As(err, &step):
		return stepCode(step.Step.Kind)
	case errors.As(err, &problem):
		return Unreachable
	case errors.As(err, &wait), errors.Is(err, context.DeadlineExceeded):
		return Timeout
	}
	return Unexpected
}

func stepCode(kind flows.FailureKind) int {
	switch kind {
	case flows.FailedUsage:
		return Usage
	case flows.FailedPreflight:
		return Preflight
	case flows.FailedUnreachable, flows.FailedAccess:
		return Unreachable
	case flows.FailedConflict:
		return Conflict
	case flows.FailedApply:
		return Apply
	case flows.FailedTimeout:
		return Timeout
	case flows.FailedVerify:
		return Unhealthy
	}
	return Unexpected
}

// Reason returns the code that programs read for an error.
func Reason(err error) flows.Code {
	if step, ok := errors.AsType[*flows.StepError](err); ok {
		return cmp.Or(step.Step.Code, flows.CodeUnfit)
	}
	if _, ok := errors.AsType[*kube.WaitError](err); ok {
		return flows.CodeNotReady
	}
	if p, ok := errors.AsType[*flows.Problem](err); ok {
		if p.Kind == flows.Unreachable {
			return flows.CodeUnreachable
		}
		return flows.CodeAccess
	}
	switch code := Code(err); {
	case errors.Is(err, engine.ErrDeclined):
		return flows.CodeDeclined
	case code > Signal:
		return flows.CodeInterrupted
	case code == Usage:
		return flows.CodeUsage
	case code == Conflict:
		return flows.CodeOwnership
	}
	return flows.CodeUnexpected
}

// UsageError is the error of a command line that can't be run.
type UsageError struct{ Err error }

func (u UsageError) Error() string { return u.Err.Error() }
func (u UsageError) Unwrap() error { return u.Err }

// Verdict is a result that is no failure but has its own exit code. The result was
// already written.
type Verdict int

func (v Verdict) Error() string { return fmt.Sprintf("exit code %d", int(v)) }

// Interrupted is the signal that caused a cancellation.
type Interrupted struct{ Signal syscall.Signal }

func (i Interrupted) Error() string {
	if i.Signal == syscall.SIGINT {
		return "stopped by Ctrl-C"
	}
	return "stopped by signal " + i.Signal.String()
}

// Hint returns the advice about err, if there is any.
func Hint(err error) command.Hint {
	h := flows.HintOf(err)
	if _, ok := errors.AsType[UsageError](err); ok && h.IsZero() {
		return command.Hintf("see %s, or --help after a command", command.Ours("--help"))
	}
	return h
}
