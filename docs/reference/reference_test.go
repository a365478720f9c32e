package reference

import (
	"slices"
	"strings"
	"testing"
)

func TestAllRowsOfTheGlossaryAreRead(t *testing.T) {
	all := Glossary()
	if rows := strings.Count(glossary, "\n| **"); len(all) != rows || rows < 50 {
		t.Errorf("got %d of %d rows", len(all), rows)
	}
	var words []string
	for _, e := range all {
		if e.Section == "" || e.Meaning == "" || strings.ContainsAny(e.Meaning, "*`|[]") {
			t.Errorf("got %+v", e)
		}
		for _, w := range e.Words {
			if slices.Contains(words, strings.ToLower(w)) {
				t.Errorf("%s has two meanings", w)
			}
			words = append(words, strings.ToLower(w))
		}
	}
	if first := all[0]; !slices.Equal(first.Words, []string{"A", "local"}) || first.Section != "The two clusters" || !strings.HasPrefix(first.Meaning, "the cluster of --context.") {
		t.Errorf("got %+v", first)
	}
}
