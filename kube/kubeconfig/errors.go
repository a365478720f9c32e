package kubeconfig

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/nearest"
)

// ContextError is an error about a context that is in no kubeconfig, or in several with different contents.
type ContextError struct {
	Ref        flows.ContextRef
	Looked     []string  // the files that were read
	Known      []string  // the existing contexts
	Candidates []Context // several, if the name is ambiguous
}

func (e *ContextError) Error() string {
	switch {
	case len(e.Candidates) > 0:
		return fmt.Sprintf("context %s is in %d kubeconfig files, and not the same in each", e.Ref, len(e.Candidates))
	case e.Ref.Name == "":
		return "no context is chosen, and no kubeconfig has a current one"
	case e.Ref.File == "" && len(e.Looked) > 0:
		return fmt.Sprintf("no context %s in %s", e.Ref, flows.Some(e.Looked))
	}
	return fmt.Sprintf("no context %s", e.Ref)
}

// Hint lists the existing contexts.
func (e *ContextError) Hint() command.Hint {
	switch {
	case len(e.Candidates) > 0:
		text := make([]string, len(e.Candidates))
		for i, c := range e.Candidates {
			text[i] = fmt.Sprintf("%s (%s)", c.File, cmp.Or(c.Server, "no server"))
		}
		return command.Hintf("choose a file with --kubeconfig: %s", strings.Join(text, ", "))
	case len(e.Known) == 0:
		return command.Hintf("no contexts in %s; check --kubeconfig (of the other cluster: --remote-kubeconfig) and KUBECONFIG", strings.Join(e.Looked, ", "))
	}
	hint := command.Hintf("contexts there: %s", strings.Join(e.Known[:min(len(e.Known), fewContexts)], ", "))
	if more := len(e.Known) - fewContexts; more > 0 {
		hint = command.Hintf("%s and %d more (%s)", hint, more, command.Kubectl(command.Cluster{}, "config", "get-contexts"))
	}
	if meant := nearest.To(e.Ref.Name, e.Known); meant != "" {
		hint = command.Hintf("did you mean %s? %s", meant, hint)
	}
	return hint
}

// noUserError is an error about groups or a UID without a user.
type noUserError struct{}

func (noUserError) Error() string { return "a group or UID is given to impersonate, and no user" }

func (noUserError) Hint() command.Hint {
	return command.Text("name the user, too: --as, or --remote-as for the remote cluster")
}

// fewContexts is the largest number of contexts in a hint.
const fewContexts = 10

// Error is an error about a kubeconfig file that can't be used.
type Error struct {
	File  string
	Cause error
}

func (e *Error) Error() string {
	cause := e.Cause
	if path, ok := errors.AsType[*fs.PathError](cause); ok {
		cause = path.Err // the message already contains the path
	}
	return fmt.Sprintf("kubeconfig %s: %v", e.File, cause)
}

func (e *Error) Unwrap() error { return e.Cause }

// Hint returns the advice to the admin.
func (e *Error) Hint() command.Hint {
	if h := flows.HintOf(e.Cause); !h.IsZero() {
		return h
	}
	return command.Text("check --kubeconfig and KUBECONFIG")
}
