package report

import (
	"fmt"
	"io"

	"github.com/liqo-tui/liqo-tui/internal/command"
)

// Achieved is the result of a command in words, with the next steps.
type Achieved struct {
	Text string
	Next []NextStep
}

// NextStep is a command, and its purpose. The first of several steps is the
// recommended one.
type NextStep struct {
	Command command.Command
	Why     string
}

// WriteNext writes the next steps for a person.
func WriteNext(out io.Writer, next []NextStep) {
	for i, n := range next {
		fmt.Fprint(out, [...]string{"next: ", "or:   "}[min(i, 1)], n.Command)
		if n.Why != "" {
			fmt.Fprintf(out, "  # %s", n.Why)
		}
		fmt.Fprintln(out)
	}
}

// firstCommand returns the first next step, for programs.
func firstCommand(next []NextStep) string {
	if len(next) == 0 {
		return ""
	}
	return next[0].Command.String()
}
