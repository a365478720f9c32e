package flows

import (
	"fmt"
	"strings"
)

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
