package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/sleep"
	"github.com/liqo-tui/liqo-tui/kube"
)

type checkFlags struct {
	pre      bool
	probe    bool
	problems bool
	details  bool
	strict   bool
	watch    bool
	firewall bool
	output   string
}

func checkCommand(io streams) *cobra.Command {
	var o checkFlags
	c := newConnectFlags()
	cmd := &cobra.Command{
		Use:   "check" + ofContexts,
		Short: "Diagnose a connection, or check if there can be one",
		Long: `Diagnose the connection of the local (A) and the remote (B) cluster by what both
say of it: the first thing that is broken is named, and what follows from it is
not held against anybody. Where one uses resources of the other, that is
checked, too. With --pre, check whether the two can be connected, as
network connect with the same flags would want it.

With --pre --install, a short-lived pod on each cluster that needs the operator
pulls the image. With --pre --probe, a short-lived pod on each cluster answers
behind a Service like the gateway server's, dials the other one by UDP, and asks
its API server: within 8 seconds it is known what a firewall drops. --image
names the image for clusters with Liqo.

With --watch it looks on, and tells what changes, until ctrl+c: the exit code is
that of the last look. --firewall lists what firewalls have to let through for
the connection, instead of checks.

It leaves nothing behind. Exit code 8: something of the connection does not
work; with --pre, 3: the clusters can't be connected like this. liqo-tui explain
ID says more about each check.`,
		Example: `  liqo-tui check --context rome --remote-context milan
  liqo-tui check --pre --context rome --remote-context milan \
    --server-service-type NodePort

  # what has to be open, for the admin of the firewall?
  liqo-tui check --firewall --context rome --remote-context milan

  # what does a firewall drop?
  liqo-tui check --pre --probe --context rome --remote-context milan \
    --server-service-type NodePort --node-port 31840`,
		Args: contexts,
	}
	pair := newPairFlags(cmd, false)
	f := cmd.Flags()
	f.BoolVar(&o.pre, "pre", false, "check whether the clusters can be connected, instead of a connection")
	f.BoolVar(&o.probe, "probe", false, "send packets from pod to pod too, as network verify does; with --pre, try the ways between the clusters before there is a connection")
	f.BoolVar(&o.problems, "problems", false, "leave out what passed")
	f.BoolVar(&o.details, "details", false, "print also what each check that passed has seen")
	f.BoolVar(&o.strict, "strict", false, "let warnings, and what can't be known, count as failures")
	f.BoolVar(&o.watch, "watch", false, "continue, and print changes")
	f.BoolVar(&o.firewall, "firewall", false, "list what firewalls have to let through for the connection, instead of checks")
	f.StringVarP(&o.output, "output", "o", report.Text, report.FormatHelp)
	c.add(f, nil)
	c.addInstall(f)
	acceptLiqoctl(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		switch {
		case o.watch && (o.firewall || o.pre || o.probe), o.firewall && (o.pre || o.probe):
			return exit.UsageError{Err: errors.New("give one of --watch, --firewall, and --pre or --probe")}
		case o.problems && o.details:
			return exit.UsageError{Err: errors.New("give one of --problems and --details")}
		case o.watch && o.output != report.Text && o.output != report.EventStream:
			return exit.UsageError{Err: errors.New("--watch never ends: give -o text or -o ndjson")}
		}
		return inSession(io, o.output, "check", pair, func(s *report.Session) error {
			if _, _, err := c.parse(); err != nil {
				return err
			}
			a, b, closeBoth, err := pair.withLending(kube.LendingShown).openFor(false)
			if err != nil {
				return err
			}
			defer closeBoth()
			return o.run(cmd.Context(), s, a, b, c)
		})
	}
	return cmd
}

func (o checkFlags) run(ctx context.Context, s *report.Session, a, b engine.Cluster, c *connectFlags) error {
	f, err := engine.Observe(ctx, a, b, time.Now)
	s.Observed(f)
	var results []check.Result
	var observe lookFunc
	var answers engine.Answers
	switch {
	case err != nil:
	case o.firewall:
		open, failed := check.Openings(f)
		if len(failed) == 0 {
			s.Result("openings", report.OpeningsOf(f, open), func() { report.WriteOpenings(s.Out, open) })
			return nil
		}
		results = failed
	case o.pre:
		results, f, err = o.before(ctx, s, f, a, b, c)
	default:
		if err = answers.Ask(ctx, &f, [2]engine.Cluster{a, b}, flows.AskDefinitions{Side: flows.A}, flows.AskDefinitions{Side: flows.B},
			flows.AskPolicies{Side: flows.A}, flows.AskPolicies{Side: flows.B}); err != nil {
			break
		}
		if err = askServices(ctx, &f, a, b, &answers); err != nil {
			break
		}
		if f, err = engine.ReadWarnings(ctx, f, a, b); err != nil {
			break
		}
		observe = func(ctx context.Context) (flows.Facts, error) {
			now, err := engine.Observe(ctx, a, b, time.Now)
			if err != nil {
				return now, err
			}
			answers.AddTo(&now)
			if err := askServices(ctx, &now, a, b, &answers); err != nil {
				return now, err
			}
			return engine.ReadWarnings(ctx, now, a, b)
		}
		results, f, err = diagnose(ctx, f, observe, func(ctx context.Context) error { return awaitMovement(ctx, s) })
	}
	if err != nil {
		return stopped(ctx, err)
	}
	doc := o.tell(s, f, results)
	if o.watch {
		pause := func() bool { return sleep.For(ctx, lookInterval) }
		if f, results, err = watch(ctx, f, results, observe, pause, s.CheckChanges); err != nil {
			return err
		}
	}
	bad := o.verdict(f, results)
	network := slices.DeleteFunc(slices.Clone(results), func(r check.Result) bool {
		return r.OfLending() || r.OfServices() || r.ID == check.PacketLoss // lost packets are worth a measurement
	})
	if o.probe && !o.pre && check.Worst(network) != check.Fail {
		v, err := engine.VerifyPair(ctx, a, b, engine.VerifyRequest{}, func(flows.Side, string) {})
		if err != nil {
			return err
		}
		if doc.Verification = new(report.VerificationOf(v)); s.Format == report.Text || s.Events != nil {
			s.Result("verification", doc.Verification, func() { report.WriteVerification(s.Out, v) })
		}
		if bad == nil && !v.Tested() {
			bad = exit.Verdict(exit.Unhealthy)
		}
	}
	if s.Format != report.Text && s.Events == nil {
		s.Document(doc)
	}
	return bad
}

// askServices asks for Services by name, and for what gives them names. answers keeps the latter. Services change
// while the command looks on, so each observation asks for them.
func askServices(ctx context.Context, f *flows.Facts, a, b engine.Cluster, answers *engine.Answers) error {
	if err := answers.AskAll(ctx, f, [2]engine.Cluster{a, b}, check.AsksNames); err != nil {
		return err
	}
	return new(engine.Answers).Ask(ctx, f, [2]engine.Cluster{a, b}, check.AsksServices(*f)...)
}

// before makes the checks of two clusters that are not connected yet.
func (o checkFlags) before(ctx context.Context, s *report.Session, f flows.Facts, a, b engine.Cluster, c *connectFlags) ([]check.Result, flows.Facts, error) {
	g, err := c.goal()
	if err != nil {
		return nil, f, err
	}
	if g.Offer != nil {
		if _, failed := g.Offer.Installations(f); failed != nil {
			return nil, f, &flows.StepError{Step: *failed, Cluster: f.Sides[failed.Side].Name()}
		}
	}
	var answers engine.Answers
	p := g.Decide(f).Params
	if err := answers.Ask(ctx, &f, [2]engine.Cluster{a, b}, flows.PlanConnect(p, f).Trials(f)...); err != nil {
		return nil, f, err
	}
	if o.probe && len(flows.NoAnswer(f, flows.A, flows.B)) == 0 {
		progress(s, "trying the ways between the clusters, for 8 s at most")
		reach, err := engine.TryReach(ctx, p, f, a, b, c.operators[flows.A].Image, time.Now)
		if err != nil {
			return nil, f, err
		}
		f.Reach = &reach
		p = g.Decide(f).Params
	}
	reviews, errs := engine.Review(ctx, [2]engine.Cluster{a, b}, rights.OfBoth(flows.PlanConnect(p, f)))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, f, err
	}
	tried, err := engine.DryRun(ctx, flows.Planner(func(f flows.Facts) flows.Plan { return flows.PlanConnect(p, f) }), a, b, true, engine.Options{})
	if err != nil {
		return nil, f, err
	}
	f.Tried = &tried.Plan
	return check.Preflight(p, f, reviews), f, nil
}

// progress prints a line about work that takes some time.
func progress(s *report.Session, text string) {
	if s.Events != nil {
		s.Events.Progress(flows.A, text)
	} else {
		fmt.Fprintln(s.Err, text)
	}
}

// awaitMovement waits for the time between two observations, and prints that it waits.
func awaitMovement(ctx context.Context, s *report.Session) error {
	progress(s, fmt.Sprintf("measuring for %s in which direction packets move", check.Movement))
	if !sleep.For(ctx, check.Movement) {
		return ctx.Err()
	}
	return nil
}

// verdict returns the exit code for the checks of f. A connection is judged as by info and on
// screens.
func (o checkFlags) verdict(f flows.Facts, results []check.Result) error {
	bad := check.Worst(results) == check.Fail || o.strict && check.Worst(results) != check.Pass
	switch bad = bad || !o.pre && check.Verdict(f, results).Health() != view.Healthy; {
	case !bad:
		return nil
	case o.pre:
		return exit.Verdict(exit.Preflight)
	}
	return exit.Verdict(exit.Unhealthy)
}

// tell writes the results, as text or line by line, and returns them as a document.
func (o checkFlags) tell(s *report.Session, f flows.Facts, results []check.Result) report.CheckDocument {
	worst, all := check.Worst(results), results
	if o.problems {
		results = slices.DeleteFunc(slices.Clone(results), func(r check.Result) bool { return r.State == check.Pass })
	}
	doc := report.CheckDocument{V: report.SchemaVersion, At: f.At.UTC(), A: string(f.Sides[flows.A].ID), B: string(f.Sides[flows.B].ID), Worst: worst.String(), Checks: []report.Check{}}
	for _, r := range results {
		doc.Checks = append(doc.Checks, report.CheckOf(r))
		if s.Events != nil {
			s.Events.Check(r)
		}
		if r.Root {
			s.Next = []report.NextStep{{Command: command.Ours("explain", string(r.ID))}}
		}
	}
	if s.Format == report.Text {
		listed := report.Brief
		switch {
		case o.problems:
			listed = report.Problems
		case o.details:
			listed = report.Details
		}
		report.WriteChecks(s.Out, all, listed)
	}
	return doc
}
