package flows

import (
	"fmt"
	"strings"

	"github.com/liqo-tui/liqo-tui/internal/command"
)

// ConflictError is an apply that failed because another manager owns fields.
type ConflictError struct {
	Object   string   // as [apply.Name] writes it
	Managers []string // at least one
	Fields   []string // as the API server writes them; may be unknown
	Cause    error
}

func (e *ConflictError) Error() string {
	what := "fields of this object"
	if len(e.Fields) > 0 {
		what = strings.Join(e.Fields, ", ")
	}
	verb := "manages"
	if len(e.Managers) > 1 {
		verb = "manage"
	}
	return fmt.Sprintf("apply %s: %s also %s %s", e.Object, strings.Join(e.Managers, " and "), verb, what)
}

func (e *ConflictError) Unwrap() error { return e.Cause }

// Hint is the advice.
func (e *ConflictError) Hint() command.Hint {
	return command.Hintf("change it with %s, or take the fields over with --force-conflicts", strings.Join(e.Managers, " and "))
}

// ForeignError is a refused apply: somebody else made an object with the name that we
// use.
type ForeignError struct {
	Object ObjectRef
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("apply %s: it exists, and is not ours", e.Object)
}
