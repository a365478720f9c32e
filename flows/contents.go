package flows

import (
	"fmt"
	"strings"

	"github.com/liqo-tui/liqo-tui/render"
)

// AskContents asks for objects in a namespace that do not belong to the connection. A plan
// that deletes the namespace asks at its beginning, to list the objects, and again just
// before the deletion, because somebody may have created objects meanwhile.
type AskContents struct {
	Side   Side
	Tenant render.Tenant
	// Last is set if only the namespace itself is left to delete.
	Last bool
}

// On implements [Question].
func (q AskContents) On() Side { return q.Side }

// Terms implements [Question].
func (q AskContents) Terms() Terms { return Terms{Lasts: true} }

func (q AskContents) slot(f *Facts) slot { return q.in(f) }

func (q AskContents) in(f *Facts) *Answer[Contents] { return &f.Contents[q.Side] }

// Contents lists the objects in a namespace that do not belong to the connection.
type Contents struct {
	// Others lists objects of other owners by kind and name, sorted.
	Others []string
	// Unknown is the reason that Others may be incomplete; "" if all kinds were read.
	Unknown string
}

// namedOthers is the largest number of names in a sentence.
const namedOthers = 3

// Keeps returns the reason that the namespace must stay; "" if it may be deleted.
func (c Contents) Keeps() string {
	switch n := len(c.Others); {
	case n > namedOthers:
		return fmt.Sprintf("it holds %s and %d more", strings.Join(c.Others[:namedOthers], ", "), n-namedOthers)
	case n > 0:
		return "it holds " + strings.Join(c.Others, ", ")
	case c.Unknown != "":
		return "it may hold other objects: " + c.Unknown
	}
	return ""
}

// keepsNamespace returns the reason that a namespace must stay; "" if it may be deleted, or
// if the question was not asked.
func keepsNamespace(a Answer[Contents]) string {
	if found := a.Value(); found != nil {
		return found.Keeps()
	}
	return Contents{Unknown: a.Unknown()}.Keeps()
}
