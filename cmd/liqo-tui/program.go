package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"syscall"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"
	"github.com/spf13/cobra"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/files"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/flags"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/flows/peer"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/kube/credentials"
	"github.com/liqo-tui/liqo-tui/kube/kubeconfig"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/tui"
	"github.com/liqo-tui/liqo-tui/tui/accessible"
)

var errNoTerminal = errors.New("this needs a terminal, and there is none: use a command, " +
	"such as liqo-tui network connect; liqo-tui alone prints the state of the cluster as text")

// openProgram runs the program on the terminal. Without a terminal, it prints the
// state of the clusters, unless a screen was requested by name.
func openProgram(ctx context.Context, io streams, g *flags.Global, o *pairFlags, start tui.Start, contexts []string) error {
	if !io.interactive() {
		if start != tui.StartAny {
			return exit.UsageError{Err: errNoTerminal}
		}
		return printStatus(ctx, io, o)
	}
	b, refs, err := newBackend(o)
	if err != nil {
		return err
	}
	kept := files.ReadAnswers(files.AnswersPath(os.Getenv))
	options := b.options(io, g)
	options.Answers, options.Backend, options.Start, options.A, options.B = kept.Complete, b, start, refs[flows.A], refs[flows.B]
	options.Protected, options.Looked = io.settings.Protected.ProtectedContext, kubeconfig.Looked(b.files)
	if g.Accessible || os.Getenv("TERM") == "dumb" {
		if start == tui.StartDashboard {
			return exit.UsageError{Err: errors.New("the dashboard draws screens; liqo-tui info says the same in lines")}
		}
		return converse(ctx, io, options)
	}
	for _, name := range contexts {
		ref, err := b.resolve(clusterFlags{kubeconfig: o.local.kubeconfig, files: o.local.files, context: name})
		if err != nil {
			return err
		}
		options.Contexts = append(options.Contexts, ref)
	}

	final, err := runProgram(ctx, io, g, options)
	if err != nil {
		return err
	}
	if first, second, p, ok := final.Answers(); ok {
		if err := kept.Keep(first, second, p); err != nil {
			fmt.Fprintln(io.err, "warning:", err)
		}
	}
	return programResult(ctx, io, final)
}

// options returns the options that are the same for all kinds of clusters, real or
// simulated.
func (b *backend) options(io streams, g *flags.Global) tui.Options {
	return tui.Options{
		Params: flows.Defaults(), Settings: connectionSettings, HighContrast: g.Theme == flags.Themes[1], ASCII: g.ASCII || report.ASCIIOnly(os.Getenv, runtime.GOOS),
		Keys: io.settings.Keys, Command: b.commandLine, InfoCommand: b.infoCommandLine, Install: b.offer.For,
	}
}

func runProgram(ctx context.Context, io streams, g *flags.Global, options tui.Options) (tui.Model, error) {
	// A signal does not cancel the model's context: a run first finishes its
	// requests, and reports the result.
	alive, end := context.WithCancel(credentials.OnWait(context.WithoutCancel(ctx), 0, nil)) // the screens show why a plug-in waits
	defer end()
	program := tea.NewProgram(tui.New(alive, options), programOptions(io, g)...)
	defer context.AfterFunc(ctx, func() { program.Send(tui.StopMsg{}) })()
	final, err := program.Run()
	if err != nil {
		return tui.Model{}, fmt.Errorf("run on the terminal: %w", err)
	}
	return final.(tui.Model), nil
}

func wizardCommand(io streams, g *flags.Global) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "wizard",
		Short: "Connect two clusters step by step, on a terminal",
		Long: `Connect two clusters step by step, on a terminal: choose them, read the plan,
apply it, and watch the connection. --context and --remote-context skip the
choice.`,
		Args: noArguments,
	}
	o := newPairFlags(cmd, false)
	addImage(cmd, o)
	cmd.Flags().Lookup("context").Usage = "kubeconfig context of the local cluster (A; default: you choose)"
	cmd.Flags().Lookup("remote-context").Usage = "kubeconfig context of the remote cluster (B; default: you choose)"
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return openProgram(cmd.Context(), io, g, o, tui.StartWizard, nil)
	}
	return cmd
}

// addImage adds the flag for the wizard's image. All commands that can become the wizard have it.
func addImage(cmd *cobra.Command, o *pairFlags) {
	cmd.Flags().StringVar(&o.image, "image", releasedImage, "image of operator, gateways and node agent, for clusters where nothing is installed")
}

func dashboardCommand(io streams, g *flags.Global) *cobra.Command {
	var contexts []string
	var all bool
	cmd := &cobra.Command{
		Use:   "dashboard",
		Short: "Watch all connections of several clusters, on a terminal",
		Args:  noArguments,
	}
	o := &pairFlags{}
	addImage(cmd, o)
	cmd.Flags().Var((*kubeconfigs)(&o.local), "kubeconfig", "kubeconfig file; may be repeated (default: as kubectl finds it)")
	addRequests(cmd.Flags(), "", &o.others)
	cmd.Flags().StringSliceVar(&contexts, "contexts", nil, "kubeconfig contexts to watch, separated by commas (default: all)")
	cmd.Flags().BoolVar(&all, "all-contexts", false, "watch all contexts of the kubeconfig (the default)")
	cmd.MarkFlagsMutuallyExclusive("contexts", "all-contexts")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return openProgram(cmd.Context(), io, g, o, tui.StartDashboard, contexts)
	}
	return cmd
}

// converse runs the wizard in sentences. If input ends without an answer, the wizard
// makes no changes after those that it has reported.
func converse(ctx context.Context, io streams, o tui.Options) error {
	err := accessible.Run(ctx, o, io.in, io.out)
	switch {
	case errors.Is(err, accessible.ErrLeft):
		return engine.Declined(false)
	case errors.Is(err, accessible.ErrNoAnswer):
		return exit.UsageError{Err: err}
	case errors.Is(err, context.Canceled):
		return context.Cause(ctx)
	}
	return err
}

// programResult prints one line after the screens are closed.
func programResult(ctx context.Context, io streams, m tui.Model) error {
	if _, err := fmt.Fprintln(io.out, m.Summary()); err != nil {
		return err
	}
	if !errors.Is(m.Err(), tui.ErrInterrupted) {
		return m.Err()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return exit.Interrupted{Signal: syscall.SIGINT} // ctrl+c is a key while our screens use the terminal
}

// sshFrames is how often the screen is drawn over SSH. There, Bubble Tea does not
// find out whether the terminal can take a frame as a whole, so users may see a frame
// half drawn.
const sshFrames = 5 // per second

func programOptions(io streams, g *flags.Global) []tea.ProgramOption {
	options := []tea.ProgramOption{
		tea.WithInput(io.in), tea.WithOutput(report.TerminalOf(io.out)),
		tea.WithoutSignalHandler(), // main has a signal handler
	}
	switch g.Color {
	case "never":
		options = append(options, tea.WithColorProfile(colorprofile.ASCII))
	case "always":
		options = append(options, tea.WithColorProfile(colorprofile.TrueColor))
	}
	frames := tui.FramesPerSecond
	if os.Getenv("SSH_TTY") != "" {
		frames = sshFrames
	}
	return append(options, tea.WithFPS(frames))
}

func (b *backend) commandLine(r tui.Request) command.Command {
	pair := &pairFlags{local: b.cluster(r.A), remote: b.cluster(r.B)}
	if r.Goal == tui.Connect {
		return connectCommandLine(pair, r.Params).Add(b.installWords(r.Params)...)
	}
	return pair.command("network", r.Goal.String()).Add(localOnlyWords(r.Removal)...)
}

// localOnlyWords returns the flags of a removal that does not change the other
// cluster.
func localOnlyWords(o flows.RemoveOptions) []string {
	if !o.LocalOnly {
		return nil
	}
	words := []string{"--local-only"}
	if o.Peer != "" {
		words = append(words, "--remote-cluster-id", string(o.Peer))
	}
	return words
}

func (b *backend) infoCommandLine(of flows.ContextRef, peer wire.ClusterID) command.Command {
	return b.cluster(of).command("info", "peer", string(peer))
}

// installWords returns the flags to install our operator on the clusters of the
// request.
func (b *backend) installWords(p flows.Params) []string {
	if p.Install == ([2]flows.Installation{}) {
		return nil
	}
	words := []string{"--install"}
	for side, i := range p.Install {
		if i != nil {
			words = append(words, [...]string{"--cluster-id", "--remote-cluster-id"}[side], string(i.ClusterID()))
		}
	}
	if image := install.ImageSetting().Write(p); image != releasedImage {
		words = append(words, "--image", image)
	}
	return words
}

func connectCommandLine(o *pairFlags, p flows.Params) command.Command {
	own, whole := p.Lending.(*peer.Params)
	line := o.command("network", "connect")
	if whole {
		line = o.command("peer")
	}
	// A template is in the namespace of its side, unless a flag names another one.
	namespaces := [2]string{o.local.namespace, o.remote.namespace}
	for side, t := range map[flows.Side]*render.TemplateRef{p.Server: &p.ServerTemplate, p.Server.Other(): &p.ClientTemplate} {
		if t.Namespace == namespaces[side] {
			t.Namespace = ""
		}
	}
	standard := flows.Defaults()
	if whole {
		standard.Server = own.Consumer.Other()
		line = line.Add(peerWords(*own)...)
	}
	for _, s := range connectionSettings {
		if whole && s.Name == "wait" {
			continue // peerWords adds these flags
		}
		// An existing connection keeps settings whose flag is missing. So each chosen
		// setting needs its flag, even with its default or an empty value.
		value, given := s.Write(p), s.Sets != 0 && p.Given.Has(s.Sets)
		if value == s.Write(standard) && (!given || value == "" && s.Empty == "") {
			continue
		}
		if s.Sets == flows.FieldMTU && !given && p.MTU == wire.MaxMTU {
			continue // the gateways find it: so does the command without the flag
		}
		if word := s.Word(p); s.Bare != "" {
			line = line.Add("--" + s.Name + "=" + word)
		} else {
			line = line.Flag("--"+s.Name, word)
		}
	}
	return line
}

func peerWords(p peer.Params) (words []string) {
	for _, s := range peer.Settings() {
		if value := s.Write(p); value != s.Write(peer.Params{}) {
			words = append(words, "--"+s.Name, value)
		}
	}
	return words
}
