package check_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/internal/golden"
)

// The page of codes contains the output of explain. UPDATE=1 rewrites it.
func TestThePageOfCodesIsWhatExplainSays(t *testing.T) {
	var page strings.Builder
	page.WriteString("# Codes\n\nThe output of `liqo-tui explain CODE` for each code of `check`, of errors and of runs. A test writes this page.\n")
	words := strings.NewReplacer("<", "&lt;", "*", "\\*", "_", "\\_") // characters that have a meaning in Markdown
	for _, id := range check.All() {
		text, _ := check.Explain(id)
		fmt.Fprintf(&page, "\n## %s\n\n**%s.** %s\n", id, words.Replace(text.Title), words.Replace(text.Meaning))
		if len(text.Fix) > 0 {
			page.WriteString("\n")
		}
		for _, fix := range text.Fix {
			fmt.Fprintf(&page, "* %s\n", words.Replace(fix))
		}
	}
	golden.Compare(t, "../../../docs/reference/codes.md", page.String())
}
