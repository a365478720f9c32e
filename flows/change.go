package flows

import "slices"

// Change is one change of one object.
type Change struct {
	Side   Side
	Verb   Verb
	Object string // in the form of [apply.Name]
}

// Verb names the kind of a change.
type Verb string

// The kinds of changes.
const (
	Created   Verb = "created"
	Updated   Verb = "updated"
	Deleted   Verb = "deleted"
	Unchanged Verb = "unchanged"
)

// Changed reports whether anything was changed.
func Changed(changes []Change) bool {
	return slices.ContainsFunc(changes, func(c Change) bool { return c.Verb != Unchanged })
}
