package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/config"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/flags"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/manifest"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/connect"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// connectFlags are the admin's choices for a connection. Facts of both clusters decide the open fields, which
// the admin leaves open.
type connectFlags struct {
	params    flows.Params
	flags     []*flags.Flag[flows.Params]
	install   bool
	operators [2]render.InstallParams // the installation for each side, if --install is given
	operator  []*flags.Flag[render.InstallParams]
	probe     bool // test pods try the ways between the clusters before the plan
}

func newConnectFlags() *connectFlags { return &connectFlags{params: flows.Defaults()} }

// add adds flags for the settings for which takes returns true. If takes is nil, it adds flags for all settings.
func (c *connectFlags) add(f *pflag.FlagSet, takes func(flows.ConnectionSetting) bool) {
	ofConnection.add(f, func() { c.addSettings(f, takes) })
}

func (c *connectFlags) addSettings(f *pflag.FlagSet, takes func(flows.ConnectionSetting) bool) {
	for _, s := range connectionSettings {
		if takes == nil || takes(s) {
			c.flags = append(c.flags, flags.Add(f, &c.params, s)...)
		}
	}
	if takes == nil {
		showAuto(f)
	}
}

// showAuto has help show auto as the default of what facts decide without a flag (see [flows.Params.Undecided]).
func showAuto(f *pflag.FlagSet) {
	for _, name := range []string{"server-service-type", "mtu"} {
		f.Lookup(name).DefValue = flags.Auto
	}
}

// parse returns the parameters, and the open fields. p.Given has only the settings whose flags were given, so
// an existing connection keeps its other settings.
func (c *connectFlags) parse() (p flows.Params, open flows.Fields, err error) {
	p = c.params
	for _, v := range c.flags {
		if v.Given {
			p.Given |= v.Sets
		}
		if v.Preset {
			p.Preset |= v.Sets
		}
		if v.Open {
			open |= v.Sets
		}
	}
	p.Given &^= open
	if err = errors.Join(flags.Wrong(c.flags), flags.Wrong(c.operator)); err == nil {
		err = p.Validate()
	}
	if err != nil {
		return p, 0, exit.UsageError{Err: err}
	}
	return p, open, nil
}

// addReplace adds the flag to replace a peer by another cluster. Only the command line can set it, because it
// is meant for one run, and a value in a file or in the environment would stay.
func (c *connectFlags) addReplace(f *pflag.FlagSet) {
	const name = "replace-peer"
	f.BoolVar(&c.params.ReplacePeer, name, false, "connect another cluster that has the cluster ID of a peer, for example a peer that was built anew. The former cluster loses its connection. The plan shows this, and the program asks before it continues")
	config.OnCommandLine(f, name)
}

// goal returns the connection that the flags describe.
func (c *connectFlags) goal() (connect.Goal, error) {
	p, open, err := c.parse()
	g := connect.Goal{Params: p, Open: open, Auto: true, Probe: c.probe}
	if c.install {
		g.Offer = &install.Offer{Image: c.operators[flows.A].Image, IDs: [2]wire.ClusterID{c.operators[flows.A].ClusterID, c.operators[flows.B].ClusterID}}
	}
	return g, err
}

// try runs test pods that try the ways between the clusters, if --probe is given. The returned goal has
// their results.
func (c *connectFlags) try(ctx context.Context, goal flows.Goal, a, b engine.Cluster) (flows.Goal, error) {
	g, ok := goal.(connect.Goal)
	if !ok || !g.Probe {
		return goal, nil
	}
	f, err := engine.Observe(ctx, a, b, time.Now)
	if err != nil || len(flows.NoAnswer(f, flows.A, flows.B)) > 0 {
		return g, err // the plan gives the reason that a cluster can't be used
	}
	reach, err := engine.TryReach(ctx, g.Decide(f).Params, f, a, b, c.operators[flows.A].Image, time.Now)
	g.Reach = &reach
	return g, err
}

// connectShortly returns `network connect` as a command of the program itself.
func connectShortly(io streams) *cobra.Command {
	pair := &pairFlags{}
	cmd := connectCommand(io, pair)
	pair.add(cmd.Flags())
	cmd.Short = "Connect two clusters: the same as network connect"
	return cmd
}

func connectCommand(io streams, pair *pairFlags) *cobra.Command {
	var r runFlags
	var e exportFlags
	var file string
	var between, details bool
	c := newConnectFlags()
	cmd := &cobra.Command{
		Use:   "connect" + ofContexts,
		Short: "Connect two clusters, and wait until the gateways are connected",
		Long: `Connect the pod networks of the local (A) and the remote (B) cluster.

The command shows a plan and asks before it changes anything, unless --yes is
given. Run it again to continue an earlier run. If there is nothing to do, it
says so.

Run it with other flags to change a connection. Settings without a flag stay as
they are. The plan says which changes interrupt traffic.`,
		Example: `  liqo-tui connect rome milan

  liqo-tui network connect --context rome --remote-context milan \
    --server-service-type NodePort

  # install the operator where it is needed, and connect
  liqo-tui network connect --install --image registry.example/liqo-gateway:v1 \
    --context rome --remote-context milan

  # rome's peers reach each other without rome
  liqo-tui network connect --shortcuts --context rome

  # show the plan only; exit code 4 if it changes something
  liqo-tui network connect --context rome --remote-context milan --dry-run`,
		Args: contexts,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case file != "" || between:
				return connectMany(cmd.Context(), io, file, pair.local, cmd.Flags(), r)
			case e.folder != "":
				return e.run(cmd.Context(), io, pair, c)
			}
			pair.image = c.operators[flows.A].Image
			r.brief = c.install && !details
			op := operation{
				name: "connect", undo: "network reset",
				goal:    func() (flows.Goal, error) { return c.goal() },
				prepare: c.try,
				done:    func(e engine.Event) report.Achieved { return achieved(pair, c.params.Wait, e.Facts) },
			}
			return op.run(cmd.Context(), io, pair, r)
		},
	}
	r.add(cmd)
	f := cmd.Flags()
	c.add(f, nil)
	c.addReplace(f)
	f.BoolVar(&c.probe, "probe", false, "first run short-lived pods that try the ways between the clusters, as check --pre --probe does. This takes 8 s at most. If the way is closed, nothing is applied. --server-location auto chooses a side that the other one reaches")
	f.StringVarP(&file, "filename", "f", "", "connect all pairs of this YAML file. \"peerings\" has a map of these flags for each pair. \"defaults\" is a map of flags for all pairs. Flags of the command line are defaults, too")
	f.BoolVar(&between, "shortcuts", false, "connect the peers of the local cluster directly with each other, if contexts of the kubeconfig files lead to them. Run it again after a peer was added")
	f.StringVar(&e.folder, "export", "", "write the manifests of both clusters into this folder instead of applying them")
	f.StringVar(&e.format, "format", manifest.YAML, "format of the manifests of --export: yaml, kustomize or argocd (with sync waves)")
	c.addInstall(f)
	addDetails(f, &details)
	cmd.MarkFlagsMutuallyExclusive("filename", "shortcuts", "export", "probe")
	for _, many := range []string{"filename", "shortcuts"} { // these connect many peers, and --replace-peer is for one
		cmd.MarkFlagsMutuallyExclusive(many, "replace-peer")
	}
	cmd.MarkFlagsMutuallyExclusive("install", "export") // the manifests depend on the installed operator
	acceptLiqoctl(cmd)
	return cmd
}

// addInstall adds the flags to install the operator on clusters without an operator.
func (c *connectFlags) addInstall(f *pflag.FlagSet) {
	ofInstallation.add(f, func() { c.addOperator(f) })
}

func (c *connectFlags) addOperator(f *pflag.FlagSet) {
	f.BoolVar(&c.install, "install", false, "first install the liqo-tui operator on clusters where nothing is installed")
	c.operators[flows.A].Image = releasedImage
	for _, s := range install.Settings() {
		s.Help = "with --install: " + s.Help
		switch s.Name {
		case "image":
			c.operator = append(c.operator, flags.Add(f, &c.operators[flows.A], s)...)
		case "cluster-id":
			c.operator = append(c.operator, flags.Add(f, &c.operators[flows.A], s)...)
			s.Name, s.Help = "remote-cluster-id", "with --install: like --cluster-id, but for the remote cluster"
			c.operator = append(c.operator, flags.Add(f, &c.operators[flows.B], s)...)
		}
	}
}

func initCommand(io streams, pair *pairFlags) *cobra.Command {
	var r runFlags
	c := newConnectFlags()
	cmd := &cobra.Command{
		Use:   "init" + ofContexts,
		Short: "Exchange address ranges, without gateways",
		Long: `Tell the local (A) and the remote (B) cluster each other's address ranges. Wait
until each cluster has assigned addresses to the other cluster's pods.
network connect does this, too.`,
		Example: `  liqo-tui network init --context rome --remote-context milan`,
		Args:    contexts,
		RunE: func(cmd *cobra.Command, _ []string) error {
			op := operation{
				name: "init", undo: "network reset",
				goal: func() (flows.Goal, error) {
					p, _, err := c.parse()
					if err == nil && p.Wait == flows.WaitVerified {
						err = exit.UsageError{Err: errors.New("--wait=verified: packets can be sent only after network connect")}
					}
					return flows.Planner(func(f flows.Facts) flows.Plan { return flows.PlanInit(p, f) }), err
				},
				done: func(e engine.Event) report.Achieved {
					return report.Achieved{
						Text: "The clusters know each other's address ranges.\n" + rangesText(e.Facts),
						Next: []report.NextStep{{Command: pair.command("network", "connect"), Why: "connects them"}},
					}
				},
			}
			return op.run(cmd.Context(), io, pair, r)
		},
	}
	r.add(cmd)
	c.add(cmd.Flags(), func(s flows.ConnectionSetting) bool { return s.Sets == 0 }) // no settings of gateways
	c.addReplace(cmd.Flags())
	acceptLiqoctl(cmd)
	return cmd
}

func achieved(pair *pairFlags, wait flows.WaitLevel, f flows.Facts) report.Achieved {
	var b strings.Builder
	a, z := f.Sides[flows.A].ID, f.Sides[flows.B].ID
	switch wait {
	case flows.WaitNone:
		fmt.Fprintf(&b, "All changes are applied on %s and %s. With --wait none, the connection was not checked.\n", a, z)
	case flows.WaitVerified:
		fmt.Fprintf(&b, "%s and %s are connected", a, z)
		if m := f.Measured.Value(); m != nil {
			fmt.Fprintf(&b, ": %s", m.Result)
		}
		fmt.Fprintln(&b)
	case flows.WaitConnected:
		fmt.Fprintf(&b, "%s and %s are connected: each gateway answers the other's pings. No packet was sent from pod to pod yet.\n", a, z)
	}
	b.WriteString(rangesText(f))
	next := []report.NextStep{
		{Command: pair.command("network", "verify"), Why: "sends packets from pod to pod"},
		{Command: pair.command("network", "reset"), Why: "undoes this"},
	}
	if wait == flows.WaitVerified {
		next = next[1:]
	}
	return report.Achieved{Text: b.String(), Next: next}
}

// rangesText lists, for each cluster, the addresses of the other cluster's pods.
func rangesText(f flows.Facts) string {
	var b strings.Builder
	for _, side := range []flows.Side{flows.A, flows.B} {
		id, other := f.Sides[side].ID, f.Sides[side.Other()].ID
		if conf := f.Sides[side].End(other).Configuration; conf != nil && flows.CIDRsConfigured(conf) {
			fmt.Fprintf(&b, "  pods of %s reach %s's pods %s as %s\n", id, other,
				flows.Joined(conf.Spec.Remote.CIDR.Pod), flows.Joined(conf.Status.Remote.CIDR.Pod))
		}
	}
	return b.String()
}
