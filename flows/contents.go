package flows

import (
	"fmt"
	"strings"

	"github.com/liqo-tui/liqo-tui/render"
)

// AskContents asks what a namespace holds besides the objects of one connection. A plan
// that deletes the namespace asks when it is first made, so that it says what it finds, and
// again just before the deletion: anybody may have put something there meanwhile.
type AskContents struct {
	Side   Side
	Tenant render.Tenant
	// Last is set where all else that the plan removes is gone.
	Last bool
}

// On implements [Question].
func (q AskContents) On() Side { return q.Side }

// Terms implements [Question].
func (q AskContents) Terms() Terms { return Terms{Lasts: true} }

func (q AskContents) slot(f *Facts) slot { return q.in(f) }

func (q AskContents) in(f *Facts) *Answer[Contents] { return &f.Contents[q.Side] }

// Contents are what a namespace holds besides the objects of one connection.
type Contents struct {
	// Others are objects that somebody else made, by kind and name, sorted.
	Others []string
	// Unknown says why there may be more; "" if all kinds were looked at.
	Unknown string
}

// namedOthers bounds how many of the others a sentence names.
const namedOthers = 3

// Keeps says why the namespace must stay; "" if it may be deleted.
func (c Contents) Keeps() string {
	switch n := len(c.Others); {
	case n > namedOthers:
		return fmt.Sprintf("it holds %s and %d more", strings.Join(c.Others[:namedOthers], ", "), n-namedOthers)
	case n > 0:
		return "it holds " + strings.Join(c.Others, ", ")
	case c.Unknown != "":
		return "it may hold more: " + c.Unknown
	}
	return ""
}

// keepsNamespace says why a namespace must stay; "" if it may be deleted, or nobody has
// looked into it.
func keepsNamespace(a Answer[Contents]) string {
	if found := a.Value(); found != nil {
		return found.Keeps()
	}
	return Contents{Unknown: a.Unknown()}.Keeps()
}
