package check

import (
	"slices"
	"strings"
	"testing"
)

func TestEachCheckHasASubject(t *testing.T) {
	for id, text := range texts {
		if !strings.HasPrefix(string(id), "LT-E") && !slices.Contains(Subjects(), SubjectOf(id)) { // LT-E… are errors
			t.Errorf("%s, %s: its subject is %q, want one of %v", id, text.Title, SubjectOf(id), Subjects())
		}
	}
}
