// Command liqo-tui connects the pod networks of two Kubernetes clusters.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/tui"
)

// version is set when a release is built.
var version = "dev"

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// streams are the program's ends. Results go to out, everything else to err.
type streams struct {
	in       io.Reader
	out, err io.Writer
	args     []string // of the program, to name the same command again
	// settings are how to ask on them; they are read before a command runs.
	settings *screenSettings
}

// interactive reports whether a person can be asked: stdin and stdout are
// terminals, and no CI runs the program.
func (s streams) interactive() bool {
	return isTerminal(s.in) && isTerminal(s.out) && os.Getenv("CI") == ""
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// run is the whole program but for the exit.
func run(args []string, in io.Reader, out, err io.Writer) int {
	ctx, stop := withSignals(context.Background())
	defer stop()
	io := streams{in: in, out: out, err: err, args: args, settings: &screenSettings{}}
	root, closeLog := rootCommand(io)
	defer closeLog()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(err)
	cmd, failure := root.ExecuteContextC(ctx)
	return report(io, cmd, args, failure)
}

// interrupted is a signal as the cause of a cancellation.
type interrupted struct{ signal syscall.Signal }

func (i interrupted) Error() string {
	if i.signal == syscall.SIGINT {
		return "stopped by Ctrl-C"
	}
	return "stopped by signal " + i.signal.String()
}

// withSignals cancels the context at the first signal. The second one ends the
// program at once, as the default action of the signal.
func withSignals(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	received := make(chan os.Signal, 1)
	signal.Notify(received, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		select {
		case s := <-received:
			signal.Stop(received)
			signal.Reset()
			cancel(interrupted{s.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(received); cancel(nil) }
}

// rootCommand is the tree of all commands. The function closes the log.
func rootCommand(io streams) (*cobra.Command, func()) {
	var g globals
	closeLog := func() {}
	discardLogs()
	root := &cobra.Command{
		Use:         "liqo-tui",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: programName(os.Args[0])},
		Short:       "Connect the pod networks of two Kubernetes clusters",
		Long: `Connect the pod networks of two Kubernetes clusters through an encrypted tunnel,
also when both use the same addresses.

Without a command, on a terminal: shows all connections of your clusters. If
there is none, it connects two clusters, those of --context and --remote-context
or those that you choose.

` + valuesHelp,
		SilenceErrors: true, SilenceUsage: true,
		Args: noCommand,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) (err error) {
			if *io.settings, err = applySettings(cmd, os.Getenv); err != nil {
				return err
			}
			if err := g.validate(); err != nil {
				return err
			}
			closeLog, err = g.openLog()
			return err
		},
	}
	g.add(root)
	o := newPairFlags(root, false)
	o.image = releasedImage
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		return openProgram(cmd.Context(), io, &g, o, tui.StartAny, nil)
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(
		wizardCommand(io, &g), dashboardCommand(io, &g), networkCommand(io), checkCommand(io), infoCommand(io), rbacCommand(io),
		installCommand(io), uninstallCommand(io), explainCommand(io), manCommand(io), versionCommand(io),
	)
	completeSettings(root)
	wrapHelp(root, io)
	if name := programName(os.Args[0]); name != root.Use {
		callAs(root, name)
	}
	return root, func() { closeLog() }
}

// callAs has the examples of all commands name the program as the admin does.
func callAs(cmd *cobra.Command, name string) {
	cmd.Example = strings.ReplaceAll(cmd.Example, "  liqo-tui ", "  "+name+" ")
	for _, c := range cmd.Commands() {
		callAs(c, name)
	}
}

func noCommand(_ *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("unknown command %q", args[0])}
	}
	return nil
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%s takes no arguments, got %s", cmd.CommandPath(), strings.Join(args, " "))}
	}
	return nil
}

func versionCommand(io streams) *cobra.Command {
	return &cobra.Command{
		Use: "version", Short: "Print the version of this program", Args: noArguments,
		RunE: func(*cobra.Command, []string) error {
			_, err := fmt.Fprintln(io.out, "liqo-tui", version)
			return err
		},
	}
}

// usageError is a command line that can't be run.
type usageError struct{ error }

func (u usageError) Unwrap() error { return u.error }

// told is an error of a run whose reporter has ended: what a program reads of
// it is written.
type told struct{ error }

func (t told) Unwrap() error { return t.error }

// verdict is a result that is not a failure, and has an exit code of its own:
// what it is about is written already.
type verdict int

func (v verdict) Error() string { return fmt.Sprintf("exit code %d", int(v)) }

// report prints err, if any, and gives the exit code for it.
func report(io streams, cmd *cobra.Command, args []string, err error) int {
	if err == nil {
		return exitOK
	}
	if _, ok := errors.AsType[told](err); !ok && wantsEvents(cmd, args) {
		// Refused before it began; a program reads it like any other run.
		n := &ndjson{out: io.out, now: time.Now}
		n.begin(cmd.Name(), flows.ContextRef{}, flows.ContextRef{})
		n.end(err, achieved{})
	}
	if _, ok := errors.AsType[verdict](err); ok {
		return exitCode(err)
	}
	prefix := "error: "
	if _, ok := errors.AsType[interrupted](err); ok {
		prefix = "" // the user wanted it
	}
	fmt.Fprintln(io.err, prefix+err.Error())
	if h := hint(err); h != "" {
		fmt.Fprintln(io.err, "hint:", h)
	}
	return exitCode(err)
}

// wantsEvents reports whether a command was asked for NDJSON. An error among
// the arguments may have kept the flag from being read.
func wantsEvents(cmd *cobra.Command, args []string) bool {
	f := cmd.Flags().Lookup("output")
	if f == nil {
		return false
	}
	words := strings.FieldsFunc(strings.Join(args, "\n"), func(r rune) bool { return r == '\n' || r == '=' })
	after := slices.Index(words, formatNDJSON)
	return f.Value.String() == formatNDJSON || slices.Contains(words, "-o"+formatNDJSON) ||
		after > 0 && (words[after-1] == "-o" || words[after-1] == "--output")
}

// hint is what to do about err, "" where nobody knows.
func hint(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) && h.Hint() != "" {
		return h.Hint()
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return "see liqo-tui --help, or --help after a command"
	}
	return ""
}
