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

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/config"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/flags"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/kube/credentials"
	"github.com/liqo-tui/liqo-tui/tui"
)

func main() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr)) }

// streams are the program's inputs and outputs. Results go to out, all other texts to err.
type streams struct {
	in       io.Reader
	out, err io.Writer
	args     []string // the program's arguments, to print the same command again
	// settings are the screens' settings; they are read before a command runs.
	settings *config.Screens
}

// interactive reports whether the program can show screens: stdin and stdout are terminals, and
// the program does not run in CI.
func (s streams) interactive() bool {
	return isTerminal(s.in) && isTerminal(s.out) && os.Getenv("CI") == ""
}

// asks reports whether the program can ask a person. Questions go to stderr, because a person
// still reads them there if stdout is a file or another program.
func (s streams) asks() bool {
	return isTerminal(s.in) && isTerminal(s.err) && os.Getenv("CI") == ""
}

func isTerminal(stream any) bool {
	if w, ok := stream.(io.Writer); ok {
		stream = report.TerminalOf(w)
	}
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// run is the whole program, except for the exit.
func run(args []string, in io.Reader, out, err io.Writer) int {
	results := &report.Kept{Writer: out}
	out, err = report.Printable{Writer: results}, report.Printable{Writer: err}
	args = flags.JoinValues(args)
	ctx, stop := withSignals(context.Background())
	defer stop()
	defer credentials.EndPlugins()
	io := streams{in: in, out: out, err: err, args: args, settings: &config.Screens{}}
	root, closeLog := rootCommand(io)
	defer closeLog()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(err)
	cmd, failure := root.ExecuteContextC(ctx)
	code := conclude(io, cmd, args, failure)
	if lost := results.Err(); lost != nil && slices.Contains([]int{exit.OK, exit.Pending, exit.Unhealthy}, code) {
		fmt.Fprintln(err, "error: write the results:", lost)
		return exit.Unexpected // a reader would take a part of the results for all of them
	}
	return code
}

// withSignals cancels the context at the first signal. The second signal ends the program at
// once, because it has its default action again.
func withSignals(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	received := make(chan os.Signal, 1)
	signal.Notify(received, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		select {
		case s := <-received:
			signal.Stop(received)
			signal.Reset()
			cancel(exit.Interrupted{Signal: s.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() { signal.Stop(received); cancel(nil) }
}

// rootCommand returns the tree of all commands. The returned function closes the log.
func rootCommand(io streams) (*cobra.Command, func()) {
	var g flags.Global
	closeLog := func() {}
	flags.DiscardLogs()
	root := &cobra.Command{
		Use:         "liqo-tui",
		Annotations: map[string]string{cobra.CommandDisplayNameAnnotation: flags.ProgramName(os.Args[0])},
		Short:       "Connect the pod networks of two Kubernetes clusters",
		Long: `Connect the pod networks of two Kubernetes clusters through an encrypted tunnel,
also when both use the same addresses.

Without a command, on a terminal: shows all connections of your clusters. If
there is none, it connects two clusters, those of --context and --remote-context
or those that you choose.

` + config.Help,
		SilenceErrors: true, SilenceUsage: true,
		Args: noCommand,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) (err error) {
			if *io.settings, err = config.Apply(cmd, os.Getenv); err != nil {
				return err
			}
			if err := cmd.ValidateFlagGroups(); err != nil {
				return exit.UsageError{Err: err}
			}
			if err := errors.Join(flags.RemoteFile(cmd.Flags()), g.Validate()); err != nil {
				return err
			}
			cmd.SetContext(awaitingLogins(cmd, io))
			end, err := g.OpenLog()
			if err == nil {
				closeLog = end
			}
			return err
		},
	}
	g.Add(root)
	o := newPairFlags(root, false)
	addImage(root, o)
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		return openProgram(cmd.Context(), io, &g, o, tui.StartAny, nil)
	}
	root.SetFlagErrorFunc(flags.UnknownFlag)
	root.Version = version
	root.SetVersionTemplate("liqo-tui {{.Version}}\n")
	addCommands(root, "Connect clusters", connectShortly(io), wizardCommand(io, &g), networkCommand(io), generateCommand(io), createCommand(io), deleteCommand(io), discoverCommand(io.out))
	addCommands(root, "See and diagnose", dashboardCommand(io, &g), checkCommand(io), infoCommand(io), addressCommand(io), explainCommand(io.out, peeringsSchema), bundleCommand(io))
	addCommands(root, "Use what the other cluster has", serviceCommand(io), peerCommand(io), unpeerCommand(io), offloadCommand(io), unoffloadCommand(io))
	addCommands(root, "Prepare a cluster", installCommand(io), uninstallCommand(io), rbacCommand(io))
	root.AddCommand(demoCommand(io, &g), manCommand(io.out, version), versionCommand(io))
	flags.Complete(root)
	completeValues(root)
	wrapHelp(root, io.out)
	if name := flags.ProgramName(os.Args[0]); name != root.Use {
		callAs(root, name)
	}
	return root, func() { closeLog() }
}

// loginTime is the time limit for a login program if no person can log in.
const loginTime = time.Minute

// awaitingLogins returns the command's context. While a login program waits, it prints the
// reason. Without a terminal, it limits the wait, because no person can log in.
func awaitingLogins(cmd *cobra.Command, io streams) context.Context {
	most := time.Duration(0)
	if !io.asks() {
		most = loginTime
	}
	return credentials.OnWait(cmd.Context(), most, func(waits error) { fmt.Fprintf(io.err, "waiting (ctrl+c ends it): %v\n", waits) })
}

// callAs changes the program's name in the examples of all commands to the name that the admin
// uses.
func callAs(cmd *cobra.Command, name string) {
	cmd.Example = strings.ReplaceAll(cmd.Example, "  liqo-tui ", "  "+name+" ")
	for _, c := range cmd.Commands() {
		callAs(c, name)
	}
}

// addCommands adds commands below a title of the help.
func addCommands(root *cobra.Command, title string, all ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: title, Title: title + ":"})
	for _, c := range all {
		c.GroupID = title
	}
	root.AddCommand(all...)
}

func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return flags.UnknownCommand(cmd, args[0])
	}
	return nil
}

func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) > 0 && cmd.HasSubCommands() {
		return flags.UnknownCommand(cmd, args[0])
	}
	if len(args) > 0 {
		return exit.UsageError{Err: fmt.Errorf("%s takes no arguments, got %s", cmd.CommandPath(), strings.Join(args, " "))}
	}
	return nil
}

// ofContexts is the usage of a command that takes [contexts].
const ofContexts = " [CONTEXT REMOTE-CONTEXT]"

// contexts accepts the kubeconfig contexts of both clusters as arguments, in place of --context and
// --remote-context.
func contexts(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if len(args) != 2 {
		return exit.UsageError{Err: fmt.Errorf("%s takes two contexts or none, got %d: %s", cmd.CommandPath(), len(args), strings.Join(args, ", "))}
	}
	for i, name := range []string{"context", "remote-context"} {
		if f := cmd.Flags().Lookup(name); f.Changed {
			return exit.UsageError{Err: fmt.Errorf("%s %s: --%s %s names this cluster, too: leave out one of them", cmd.CommandPath(), strings.Join(args, " "), name, f.Value)}
		}
		if err := cmd.Flags().Set(name, args[i]); err != nil {
			return exit.UsageError{Err: fmt.Errorf("%s: %w", args[i], err)}
		}
	}
	return nil
}

// conclude prints err, unless it is nil, and returns the exit code for it.
func conclude(io streams, cmd *cobra.Command, args []string, err error) int {
	if err == nil {
		return exit.OK
	}
	if _, ok := errors.AsType[report.Told](err); !ok && wantsEvents(cmd, args) {
		// The run was refused before it began. A program reads this error in the same form as
		// the errors of other runs.
		n := &report.NDJSON{Out: io.out, Now: time.Now}
		n.Begin(cmd.Name(), flows.ContextRef{}, flows.ContextRef{})
		n.End(err, report.Achieved{})
	}
	if _, ok := errors.AsType[exit.Verdict](err); ok {
		return exit.Code(err)
	}
	prefix := "error: "
	if _, ok := errors.AsType[exit.Interrupted](err); ok || errors.Is(err, engine.ErrDeclined) {
		prefix = "" // the user asked for it
	}
	fmt.Fprintln(io.err, prefix+err.Error())
	if h := exit.Hint(err); !h.IsZero() {
		fmt.Fprintln(io.err, "hint:", h)
	}
	return exit.Code(err)
}

// wantsEvents reports whether the command should write NDJSON. It also looks at the arguments,
// because an error in them may have prevented the flag from being parsed.
func wantsEvents(cmd *cobra.Command, args []string) bool {
	f := cmd.Flags().Lookup("output")
	if f == nil {
		return false
	}
	words := strings.FieldsFunc(strings.Join(args, "\n"), func(r rune) bool { return r == '\n' || r == '=' })
	after := slices.Index(words, report.EventStream)
	return f.Value.String() == report.EventStream || slices.Contains(words, "-o"+report.EventStream) ||
		after > 0 && (words[after-1] == "-o" || words[after-1] == "--output")
}
