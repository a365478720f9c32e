package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/internal/lines"
)

type runFlags struct {
	yes     bool
	timeout time.Duration
	output  string
	dryRun  string
	force   bool
	strict  bool
	// brief counts the new objects of a plan where it has many. It is only for people.
	brief bool
}

// Values of --dry-run.
const (
	dryRunNone   = "none"
	dryRunClient = "client" // only the plan: no request that would write
	dryRunServer = "server" // the API servers try every object
)

func (r *runFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	ofRun.add(f, func() { r.addTo(f) })
}

func (r *runFlags) addTo(f *pflag.FlagSet) {
	f.BoolVarP(&r.yes, "yes", "y", false, "don't ask before changing the clusters")
	f.DurationVar(&r.timeout, "timeout", 5*time.Minute, "how long to wait for the clusters")
	f.StringVarP(&r.output, "output", "o", report.Text, report.FormatHelp)
	f.StringVar(&r.dryRun, "dry-run", dryRunNone, "change nothing, print what would change (exit code 4 if anything): client, or server to let the API servers check it")
	f.Lookup("dry-run").NoOptDefVal = dryRunClient
	f.BoolVar(&r.force, "force-conflicts", false, "take over fields that another program manages")
	f.BoolVar(&r.strict, "strict", false, "treat warnings as failures: refuse plans that interrupt traffic (exit code 3)")
}

// addDetails adds the flag for plans that may install the operator.
func addDetails(f *pflag.FlagSet, details *bool) {
	ofRun.add(f, func() {
		f.BoolVar(details, "details", false, "show the new objects of a plan as a whole, also where a step makes several; without it, they are counted")
	})
}

func (r *runFlags) validate() error {
	switch r.dryRun {
	case dryRunNone, dryRunClient, dryRunServer:
	default:
		return exit.UsageError{Err: fmt.Errorf("--dry-run %q: want none, client or server", r.dryRun)}
	}
	if r.timeout <= 0 {
		return exit.UsageError{Err: fmt.Errorf("--timeout %s: want more than 0", r.timeout)}
	}
	return nil
}

// operation is a command that runs a plan on the two clusters.
type operation struct {
	name string
	// localOnly is set if the operation works on the local cluster only, and does not open the remote one.
	localOnly bool
	// unasked is set if the operation asks no question, except before it interrupts traffic or changes a
	// protected cluster.
	unasked bool
	// undo is the command that removes the objects which an interrupted run has applied; "" if there is none.
	undo string
	// goal makes the goal from the flags. The error is about the command line.
	goal func() (flows.Goal, error)
	// prepare completes the goal before the run, except in a dry run; nil if there is nothing to do.
	prepare func(ctx context.Context, goal flows.Goal, a, b engine.Cluster) (flows.Goal, error)
	// finish runs after the last event, when the plan is done; nil if there is nothing to do.
	finish func(engine.Event) error
	// done returns the result, from the last event.
	done func(engine.Event) report.Achieved
}

// changed returns the clusters that the operation may change.
func (o operation) changed(pair *pairFlags) []clusterFlags {
	if o.localOnly {
		return []clusterFlags{pair.local}
	}
	return []clusterFlags{pair.local, pair.remote}
}

// run opens both clusters, runs the plan, and prints it in the form that the admin chose.
func (o operation) run(ctx context.Context, io streams, pair *pairFlags, r runFlags) (err error) {
	reporter, err := report.New(io.out, io.err, r.output)
	if err != nil {
		return err
	}
	reporter.Begin(o.name, pair.local.options().Context, pair.remote.options().Context)
	stop := func() {}
	if n, ok := reporter.(*report.NDJSON); ok {
		stop = n.KeepAlive()
	}
	var last engine.Event
	defer func() {
		stop()
		if cause := recover(); cause != nil {
			slog.Error("panic", "cause", cause, "stack", string(debug.Stack()))
			err = fmt.Errorf("this is a bug in liqo-tui: %v; --log-file keeps the details", cause)
		}
		a := report.Achieved{Next: afterwards(io, pair, err)}
		if err == nil {
			a = o.done(last)
		}
		reporter.End(err, a)
		if err != nil {
			err = report.Told{Err: err}
		}
	}()
	if err := r.validate(); err != nil {
		return err
	}
	goal, err := o.goal()
	if err != nil {
		return err
	}
	a, b, closeBoth, err := pair.openFor(o.localOnly)
	if err != nil {
		return err
	}
	defer closeBoth()
	if o.prepare != nil && r.dryRun == dryRunNone {
		if goal, err = o.prepare(ctx, goal, a, b); err != nil {
			return stopped(ctx, err)
		}
	}
	if r.dryRun != dryRunNone {
		return r.pretend(ctx, a, b, goal, reporter)
	}
	asked := false
	err = engine.Run(ctx, goal, a, b, func(e engine.Event) { last = e; reporter.Event(e) }, engine.Options{
		Timeout: r.timeout, Force: r.force, Strict: r.strict,
		Approve: func(p flows.Plan) (bool, error) {
			if asked && !r.yes && len(p.Edits()) == 0 {
				fmt.Fprintln(io.err, "\nThe clusters have changed: the plan now deletes or replaces more than you have confirmed.")
			}
			asked = true
			names := protected(io.settings.Protected, o.changed(pair)...)
			if o.unasked && len(names) == 0 && len(p.Interrupts()) == 0 {
				return true, nil
			}
			return approve(ctx, io, r, p, names)
		},
	})
	switch {
	case errors.Is(err, context.Canceled) && ctx.Err() != nil && reporter.HasChanged():
		return o.interrupted(context.Cause(ctx))
	case errors.Is(err, context.Canceled) && ctx.Err() != nil:
		return stopped(ctx, err)
	case err == nil && o.finish != nil:
		return o.finish(last)
	}
	return err
}

// interrupted returns the error of a run that was interrupted after it had changed a cluster.
func (o operation) interrupted(cause error) error {
	if o.undo == "" {
		return fmt.Errorf("%w; what was applied stays: the same command continues", cause)
	}
	return fmt.Errorf("%w; what was applied stays: the same command continues, liqo-tui %s removes all of it, also what existed before", cause, o.undo)
}

// stopped returns the error of a run that has changed nothing: err, or the cause of an interruption.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	return fmt.Errorf("%w; nothing was changed", context.Cause(ctx))
}

// approve shows the plan and asks for approval, unless a flag gives it.
func approve(ctx context.Context, io streams, r runFlags, p flows.Plan, protected []string) (bool, error) {
	switch {
	case !r.yes && io.asks():
		shown := p
		if r.brief {
			shown = report.Counted(p)
		}
		fmt.Fprint(io.err, report.Diffs(shown))
	case len(p.Edits()) > 0: // what is not ours is shown in any case
		shown := p
		shown.Steps = slices.DeleteFunc(slices.Clone(p.Steps), func(s flows.Step) bool { return s.Edits == "" })
		fmt.Fprint(io.err, report.Diffs(shown))
	}
	if len(p.Replaces) > 0 {
		question := fmt.Sprintf("\n%s.\nThe old cluster will lose its connection. Does the new cluster replace it?", strings.Join(p.Replaces, ";\n"))
		if yes, err := confirm(ctx, io, r.yes, question, nil); !yes || err != nil {
			return false, err
		}
	}
	edits, all := questions(p)
	if edits != "" {
		if yes, err := confirm(ctx, io, r.yes, edits, protected); !yes || err != nil || onlyEdits(p) {
			return yes, err
		}
	}
	return confirm(ctx, io, r.yes, all, protected)
}

// questions are the one about what was there before us, "" if the plan does not change that, and the one about the
// whole plan.
func questions(p flows.Plan) (edits, all string) {
	what := strings.Join(p.Edits(), ", ")
	switch {
	case what == "":
		return "", "\nApply these changes?"
	case onlyEdits(p):
		return fmt.Sprintf("\nThis changes what was there before liqo-tui: %s. Change it as shown?", what), ""
	}
	return fmt.Sprintf("\nQuestion 1 of 2. The plan changes what was there before liqo-tui: %s. May it do so, as shown above?", what), "\nQuestion 2 of 2. Apply the plan, with all changes above?"
}

// onlyEdits reports whether the plan changes nothing but what was there before us.
func onlyEdits(p flows.Plan) bool {
	return !slices.ContainsFunc(p.Steps, func(s flows.Step) bool { return s.Changes() && s.Edits == "" })
}

// confirm asks a question, unless --yes answers it. Without a terminal it returns an error, because it can't
// ask. Before changes of protected contexts, the admin has to type their names. If ctx ends before there is
// an answer, the error is that of ctx.
func confirm(ctx context.Context, io streams, yes bool, question string, protected []string) (bool, error) {
	if yes {
		return true, nil
	}
	if !io.asks() {
		return false, exit.UsageError{Err: errors.New("this changes the clusters, and there is no terminal to ask on: give --yes")}
	}
	names := strings.Join(protected, " ")
	choice := "[y/N]"
	if names != "" {
		choice = fmt.Sprintf("They are protected: type %q to go on:", names)
		if len(protected) == 1 {
			choice = fmt.Sprintf("The cluster is protected: type %q to go on:", names)
		}
	}
	fmt.Fprint(io.err, question+" "+choice+" ")
	line, err := lines.NewReader(io.in).Line(ctx)
	if ctx.Err() != nil {
		fmt.Fprintln(io.err) // so that the error begins on a new line
		return false, ctx.Err()
	}
	if names != "" {
		return err == nil && strings.TrimSpace(line) == names, nil
	}
	answer := strings.ToLower(strings.TrimSpace(line))
	// Input that ends without a newline is no answer.
	return err == nil && (answer == "y" || answer == "yes"), nil
}
