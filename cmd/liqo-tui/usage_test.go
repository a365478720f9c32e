package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
)

// Scripts tell a wrong command line, which nothing helps, from other failures by the exit code.
func TestWrongCommandLinesHaveTheirExitCode(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("KUBECONFIG", "absent")
	fails := func(args ...string) {
		var out, errs bytes.Buffer
		if code := run(args, strings.NewReader(""), &out, &errs); code != exit.Usage {
			t.Errorf("%s: got exit code %d (%s), want %d", strings.Join(args, " "), code, strings.TrimSpace(errs.String()), exit.Usage)
		}
	}
	root, closeLog := rootCommand(streams{})
	defer closeLog()
	var visit func(*cobra.Command, []string)
	visit = func(c *cobra.Command, words []string) {
		fails(append(words, "--no-such-flag")...)
		fails(append(words, "one", "two", "three")...)
		for _, sub := range c.Commands() {
			visit(sub, append(slices.Clip(words), sub.Name()))
		}
	}
	visit(root, nil)
	for _, line := range []string{
		"address", "network connect -f x --shortcuts", "network connect --export x --install", "network connect -f x --replace-peer",
		"dashboard --contexts a --all-contexts", "discover --domain a --interface b", "--color green", "check -v 6",
	} {
		fails(strings.Fields(line)...)
	}
}
