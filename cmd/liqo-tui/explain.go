package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/config"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
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
		Use:   "explain [ID]",
		Short: "Explain a check or an error, offline",
		Long: `Explain a check (LT-P…, LT-D…) or an error (LT-E…), and what helps.
Without an ID it lists all of them. "` + schemaTopic + `" prints the JSON
Schema of -o ndjson, "` + peeringsTopic + `" that of the file of network
connect -f, "` + configurationTopic + `" says what the configuration file can
have.`,
		Example: `  liqo-tui explain LT-D020`,
		RunE: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				for _, id := range check.All() {
					text, _ := check.Explain(id)
					fmt.Fprintf(out, "%s  %s\n", id, text.Title)
				}
				return nil
			case len(args) > 1:
				return exit.UsageError{Err: fmt.Errorf("explain takes one ID, got %s", strings.Join(args, " "))}
			case args[0] == schemaTopic:
				_, err := fmt.Fprint(out, report.EventsSchema)
				return err
			case args[0] == peeringsTopic:
				return report.WriteDocument(out, report.JSON, peerings())
			case args[0] == configurationTopic:
				return config.Explain(out)
			}
			id := flows.Code(strings.ToUpper(args[0]))
			text, ok := check.Explain(id)
			if !ok {
				return exit.UsageError{Err: fmt.Errorf("%s is not a check or error of this version; liqo-tui explain lists all", id)}
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

// explainTopics returns all topics with their titles, for shells to complete.
func explainTopics() []string {
	words := []string{schemaTopic, peeringsTopic, configurationTopic}
	for _, id := range check.All() {
		text, _ := check.Explain(id)
		words = append(words, string(id)+"\t"+text.Title)
	}
	return words
}
