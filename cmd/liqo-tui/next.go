package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/liqo-tui/liqo-tui/flows/engine"
)

// achieved is what a command has done, in a person's words, and what to do next.
type achieved struct {
	text string
	next []nextStep
}

// nextStep is a command line, and what it is for. The first of several is the
// one to take.
type nextStep struct{ command, why string }

func writeNext(out io.Writer, next []nextStep) {
	for i, n := range next {
		fmt.Fprint(out, [...]string{"next: ", "or:   "}[min(i, 1)], n.command)
		if n.why != "" {
			fmt.Fprintf(out, "  # %s", n.why)
		}
		fmt.Fprintln(out)
	}
}

// firstCommand is what a program is told of next.
func firstCommand(next []nextStep) string {
	if len(next) == 0 {
		return ""
	}
	return next[0].command
}

// command is a command line of this program for the same clusters.
func (p *pairFlags) command(words ...string) string {
	return strings.Join(slices.Concat([]string{"liqo-tui"}, words, pairWords(p)), " ")
}

// command is a command line of this program for the same cluster.
func (c clusterFlags) command(words ...string) string {
	return strings.Join(slices.Concat([]string{"liqo-tui"}, words, clusterWords("", c)), " ")
}

// afterwards is what to do after a run that did not succeed, if a command helps.
func afterwards(io streams, pair *pairFlags, err error) []nextStep {
	if errors.Is(err, engine.ErrDeclined) || len(io.args) == 0 {
		return nil
	}
	again := func(args []string) string {
		words := []string{"liqo-tui"}
		for _, a := range args {
			words = append(words, shellWord(a))
		}
		return strings.Join(words, " ")
	}
	switch code := exitCode(err); {
	case code == exitPending:
		applied := slices.DeleteFunc(slices.Clone(io.args), func(a string) bool { return strings.HasPrefix(a, "--dry-run") })
		return []nextStep{{again(applied), "applies it"}}
	case code == exitApply, code == exitTimeout, code == exitUnreachable, code > exitSignal:
		return []nextStep{{again(io.args), "continues"}}
	case code == exitUnhealthy:
		return []nextStep{{pair.command("check"), "finds what is broken"}}
	}
	return nil
}
