package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/config"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/docs/reference"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/internal/nearest"
)

// Topics of explain that are no codes of checks or errors.
const (
	schemaTopic        = "events-schema"
	peeringsTopic      = "peerings-schema"
	configurationTopic = "config"
)

// explainCommand returns the command that writes to out. peerings returns the schema of
// the file of network connect -f.
func explainCommand(out io.Writer, peerings func() map[string]any) *cobra.Command {
	return &cobra.Command{
		Use:   "explain [ID | WORD]",
		Short: "Explain a check, an error or a word, offline",
		Long: `Explain a check (LT-P…, LT-D…) or an error (LT-E…), and what helps, or a word
of the glossary, such as untested. Without an ID it lists all of them.
"` + schemaTopic + `" prints the JSON Schema of -o ndjson,
"` + peeringsTopic + `" that of the file of network connect -f,
"` + configurationTopic + `" says what the configuration file can have.`,
		Example: `  liqo-tui explain LT-D020
  liqo-tui explain untested`,
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				for _, id := range check.All() {
					text, _ := check.Explain(id)
					fmt.Fprintf(out, "%s  %s\n", id, text.Title)
				}
				listWords(out)
				return nil
			case args[0] == schemaTopic:
				_, err := fmt.Fprint(out, report.EventsSchema)
				return err
			case args[0] == peeringsTopic:
				return report.WriteDocument(out, report.JSON, peerings())
			case args[0] == configurationTopic:
				return config.Explain(out)
			}
			what := strings.Join(args, " ")
			if e, ok := explained(what); ok {
				fmt.Fprintf(out, "%s: %s.\n", strings.Join(e.Words, ", "), e.Meaning)
				return nil
			}
			id := flows.Code(strings.ToUpper(what))
			text, ok := check.Explain(id)
			if !ok {
				return exit.UsageError{Err: fmt.Errorf("%s is not a check or error of this version, nor a word of the glossary%s; liqo-tui explain lists all", what, nearest.Question(what, "", glossaryWords()))}
			}
			fmt.Fprintf(out, "%s  %s\n\n%s\n", id, text.Title, text.Meaning)
			if len(text.Fix) > 0 {
				fmt.Fprintln(out, "\nWhat helps:")
			}
			for _, fix := range text.Fix {
				fmt.Fprintf(out, "  - %s\n", fix)
			}
			return nil
		},
	}
}

// explained finds a word in the glossary.
func explained(word string) (reference.Entry, bool) {
	all := reference.Glossary()
	i := slices.IndexFunc(all, func(e reference.Entry) bool {
		return slices.ContainsFunc(e.Words, func(w string) bool { return strings.EqualFold(w, word) })
	})
	if i < 0 {
		return reference.Entry{}, false
	}
	return all[i], true
}

func glossaryWords() (words []string) {
	for _, e := range reference.Glossary() {
		words = append(words, e.Words...)
	}
	return words
}

// listWords writes the words of each section of the glossary.
func listWords(out io.Writer) {
	section := ""
	for _, e := range reference.Glossary() {
		words := strings.Join(e.Words, ", ")
		if e.Section != section {
			section = e.Section
			fmt.Fprintf(out, "\n%s: %s", section, words)
			continue
		}
		fmt.Fprint(out, ", ", words)
	}
	fmt.Fprintln(out)
}

// explainTopics returns all topics with their titles, for completion in shells.
func explainTopics() []string {
	words := []string{schemaTopic, peeringsTopic, configurationTopic}
	for _, id := range check.All() {
		text, _ := check.Explain(id)
		words = append(words, string(id)+"\t"+text.Title)
	}
	for _, word := range glossaryWords() {
		if !strings.Contains(word, " ") {
			words = append(words, word)
		}
	}
	return words
}
