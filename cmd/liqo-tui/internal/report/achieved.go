package report

import (
	"fmt"
	"io"

	"github.com/liqo-tui/liqo-tui/internal/command"
)

// Achieved is the result of a command, in a person's words, and the next steps.
type Achieved struct {
	Text string
	Next []NextStep
}

// NextStep is a command, and its purpose. The first of several is the recommended
// one.
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

// firstCommand is the next step for a program.
func firstCommand(next []NextStep) string {
	if len(next) == 0 {
		return ""
	}
	return next[0].Command.String()
}
