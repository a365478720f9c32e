package flows

import "slices"

// Change is one thing that was done to one object.
type Change struct {
	Side   Side
	Verb   Verb
	Object string // as [apply.Name] writes it
}

// Verb is what was done.
type Verb string

// What can be done to an object.
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
