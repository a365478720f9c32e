package mistyped

import (
	"slices"
	"strings"
	"testing"
)

func TestAValueAfterASpaceIsItsFlags(t *testing.T) {
	for line, want := range map[string]string{
		"connect --wait verified --yes":         "connect --wait=verified --yes",
		"connect --dry-run server":              "connect --dry-run=server",
		"connect --wait --yes":                  "connect --wait --yes",
		"connect --wait":                        "connect --wait",
		"connect --wait=none none":              "connect --wait=none none",
		"join --dry-run invitation.yaml":        "join --dry-run invitation.yaml",
		"reset --wait false --context verified": "reset --wait=false --context verified",
	} {
		if got := Join(strings.Fields(line)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}
