// Package reference has what the program prints of the documents in this folder.
package reference

import (
	_ "embed"
	"regexp"
	"strings"
)

//go:embed glossary.md
var glossary string

// Entry is a row of the glossary.
type Entry struct {
	Section string
	Words   []string // for the same thing
	Meaning string
}

var (
	word = regexp.MustCompile(`\*\*([^*]+)\*\*`)
	mark = regexp.MustCompile("\\*\\*|`|\\[([^]]*)\\]\\([^)]*\\)")
)

// Glossary returns the rows of glossary.md without their Markdown, in its order.
func Glossary() (all []Entry) {
	section := ""
	for line := range strings.Lines(glossary) {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section = strings.TrimSpace(title)
		}
		words, meaning, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		if !ok || !strings.HasPrefix(words, "**") {
			continue
		}
		e := Entry{Section: section, Meaning: mark.ReplaceAllString(strings.TrimSuffix(strings.TrimSpace(meaning), " |"), "$1")}
		for _, found := range word.FindAllStringSubmatch(words, -1) {
			e.Words = append(e.Words, found[1])
		}
		all = append(all, e)
	}
	return all
}
