package flows

import (
	"fmt"

	"github.com/liqo-tui/liqo-tui/render"
)

// StepError is a run that ended because a step failed.
type StepError struct {
	Step    Step
	Cluster render.ClusterID
	// Changed reports whether the run had changed anything before.
	Changed bool
	// Cause is the API server's answer, if that is what failed the step.
	Cause error
}

func (e *StepError) Error() string {
	return fmt.Sprintf("%s %s: %s: %s", e.Step.Side, e.Cluster, e.Step.Title, e.Step.Reason)
}

func (e *StepError) Unwrap() error { return e.Cause }

// Code names what went wrong.
func (e *StepError) Code() Code { return e.Step.Code }

// Hint is what the admin can do.
func (e *StepError) Hint() string { return e.Step.Hint }
