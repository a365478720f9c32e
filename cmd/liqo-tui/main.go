// Command liqo-tui connects the pod networks of two Kubernetes clusters.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// version is set when a release is built.
var version = "dev"

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// streams are the program's ends. Results go to out, everything else to err.
type streams struct {
	in       io.Reader
	out, err io.Writer
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
	// What the client libraries log would land in the middle of the screen;
	// what matters of it comes back as an error.
	klog.SetLogger(logr.Discard())
	ctrllog.SetLogger(logr.Discard())
	ctx, stop := withSignals(context.Background())
	defer stop()
	io := streams{in: in, out: out, err: err}
	root := rootCommand(io)
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(err)
	return report(io, root.ExecuteContext(ctx))
}

// interrupted is a signal as the cause of a cancellation.
type interrupted struct{ signal syscall.Signal }

func (i interrupted) Error() string { return "stopped by signal " + i.signal.String() }

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

func rootCommand(io streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "liqo-tui",
		Short: "Connect the pod networks of two Kubernetes clusters",
		Long: `Connect the pod networks of two Kubernetes clusters through an encrypted tunnel,
also when both use the same addresses.

Without a command, on a terminal, it opens the two clusters that --context and
--remote-context name: the plan, its progress, and the live connection.`,
		SilenceErrors: true, SilenceUsage: true,
		Args: noCommand,
	}
	o := newPairFlags(root, false)
	root.RunE = func(cmd *cobra.Command, _ []string) error { return openProgram(cmd.Context(), io, o) }
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(networkCommand(io), installCommand(io), uninstallCommand(io), infoCommand(io), versionCommand(io))
	return root
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

// report prints err, if any, and gives the exit code for it.
func report(io streams, err error) int {
	if err == nil {
		return exitOK
	}
	fmt.Fprintln(io.err, "error:", err)
	if h := hint(err); h != "" {
		fmt.Fprintln(io.err, "hint:", h)
	}
	return exitCode(err)
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
