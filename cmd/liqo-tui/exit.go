package main

import (
	"cmp"
	"context"
	"errors"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/kube"
)

// Exit codes. Scripts rely on them: they are documented in docs/scripting.md
// and never change their meaning.
const (
	exitOK          = 0
	exitUnexpected  = 1
	exitUsage       = 2 // nothing changed
	exitPreflight   = 3 // nothing changed
	exitPending     = 4 // a dry run: changes are pending
	exitUnreachable = 5 // nothing changed
	exitApply       = 6 // stopped part-way, run again to continue
	exitTimeout     = 7 // objects applied, what was waited for did not come
	exitUnhealthy   = 8 // a peering is not healthy; nothing changed
	exitConflict    = 9
	exitSignal      = 128 // plus the signal's number
)

func exitCode(err error) int {
	var usage usageError
	var unknown *kube.ContextError
	var kubeconfig *kube.KubeconfigError
	var step *flows.StepError
	var conflict *flows.ConflictError
	var problem *flows.Problem
	var wait *kube.WaitError
	var signalled interrupted
	var said verdict
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &said):
		return int(said)
	case errors.As(err, &signalled):
		return exitSignal + int(signalled.signal)
	case errors.Is(err, engine.ErrDeclined):
		return exitSignal + 2 // as if interrupted at the question
	case errors.As(err, &usage), errors.As(err, &unknown), errors.As(err, &kubeconfig):
		return exitUsage
	case errors.As(err, &conflict):
		return exitConflict
	case errors.As(err, &step):
		return stepCode(step.Step.Kind)
	case errors.As(err, &problem):
		return exitUnreachable
	case errors.As(err, &wait), errors.Is(err, context.DeadlineExceeded):
		return exitTimeout
	}
	return exitUnexpected
}

func stepCode(kind flows.FailureKind) int {
	switch kind {
	case flows.FailedUsage:
		return exitUsage
	case flows.FailedPreflight:
		return exitPreflight
	case flows.FailedUnreachable, flows.FailedAccess:
		return exitUnreachable
	case flows.FailedConflict:
		return exitConflict
	case flows.FailedApply:
		return exitApply
	case flows.FailedTimeout:
		return exitTimeout
	case flows.FailedVerify:
		return exitUnhealthy
	}
	return exitUnexpected
}

// codeOf names the kind of an error for programs.
func codeOf(err error) flows.Code {
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
	switch code := exitCode(err); {
	case errors.Is(err, engine.ErrDeclined):
		return flows.CodeDeclined
	case code > exitSignal:
		return flows.CodeInterrupted
	case code == exitUsage:
		return flows.CodeUsage
	case code == exitConflict:
		return flows.CodeOwnership
	}
	return flows.CodeUnexpected
}
