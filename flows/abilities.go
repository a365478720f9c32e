package flows

import (
	"context"
	"fmt"
	"strings"

	"github.com/liqo-tui/liqo-tui/render"
)

// What follows are abilities that a [Cluster] may have besides: ask for them by
// type assertion.

// DryRunner asks the API server what an apply would do, without doing it.
type DryRunner interface {
	// DryRun answers for each object, in order. force is as of [Forcer]. The
	// error is of the cluster as a whole; what is wrong with one object is in
	// its answer.
	DryRun(ctx context.Context, objects []render.Object, force bool) ([]DryRun, error)
}

// DryRun is what applying one object would do.
type DryRun struct {
	Change
	// Diff from what is there to what would be, by the API server's own merge.
	Diff string
	// Err is why it would be refused: a [ConflictError], or the API server's
	// answer. An object whose namespace does not exist yet can't be tried: the
	// error satisfies apierrors.IsNotFound.
	Err error
}

// Forcer applies objects although other managers own some of the fields, and
// takes those fields over.
type Forcer interface {
	ForceApply(context.Context, []render.Object) ([]Change, error)
}

// Reviewer asks the API server what its user may do.
type Reviewer interface {
	// Review says which of the permissions are missing. A verb that the cluster
	// can do without is not: update where patch is not allowed, list for watch.
	Review(context.Context, []Permission) (Review, error)
}

// Review is the API server's answer about its user.
type Review struct {
	User    string // "" if the API server doesn't say
	Missing []Permission
}

// Permission is the right to do one thing to one kind of object.
type Permission struct {
	Verb      string
	Group     string // "" for Kubernetes' own
	Resource  string // plural
	Namespace string // "" for all of them, and for what is in none
}

func (p Permission) String() string {
	text := p.Verb + " " + p.Resource
	if p.Group != "" {
		text += "." + p.Group
	}
	if p.Namespace != "" {
		text += " in " + p.Namespace
	}
	return text
}

// Logger reads what a pod has written.
type Logger interface {
	// Logs are the last lines of a gateway's pod.
	Logs(ctx context.Context, pod PodFacts, lines int) (string, error)
}

// ConflictError is an apply that another manager's ownership of fields stands
// against.
type ConflictError struct {
	Object   string   // as [render.Name] writes it
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

// Hint says how to go on.
func (e *ConflictError) Hint() string {
	return fmt.Sprintf("change it with %s, or take the fields over with --force-conflicts", strings.Join(e.Managers, " and "))
}
