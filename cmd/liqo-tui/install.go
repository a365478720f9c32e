package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/config"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/flags"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

func installCommand(io streams) *cobra.Command {
	p := render.InstallParams{Image: releasedImage}
	var r runFlags
	pair := &pairFlags{}
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install the operator and the node agent on a cluster without Liqo",
		Long: `Install the liqo-tui operator and its node agent ("fabric") on a cluster without
Liqo, and wait until they run. It shows a plan and asks, unless --yes is given.
The plan counts new objects, and shows what changes in existing ones; --details
shows all.

Run it again to continue, to update, or to correct the image. Settings without
a flag stay as they are. network connect --install does this while connecting.

The cluster's own DNS is changed only with --names: the change is shown, and
confirmed by itself. With --names, --yes confirms it. --names=off takes it back
and removes the DNS server, as --services=off and uninstall do.`,
		Example: `  liqo-tui install --context rome --cluster-id rome

  # show the plan only; exit code 4 if it changes something
  liqo-tui install --context rome --dry-run

  # with the same settings as the Helm chart
  liqo-tui install --context rome -f values.yaml

  # as manifests, for another tool to apply
  liqo-tui install --context rome --cluster-id rome --print`,
		Args: noArguments,
	}
	r.add(cmd)
	f := cmd.Flags()
	pair.local.add(f, "", "the cluster")
	settings := flags.Add(f, &p, install.Settings()...)
	var file, podsFile string
	var prints, details bool
	f.StringVar((*string)(&p.Names), "names", "", "give imported Services names below clusterset.local: install a DNS server, and have the cluster's DNS forward these names to it, after it has shown the change and asked. off removes the server, and takes the change back in the same way (default: unchanged, at first off)")
	f.Lookup("names").NoOptDefVal = string(render.On)
	config.OnCommandLine(f, "names")
	addDetails(f, &details)
	f.BoolVar(&prints, "print", false, "print the objects as YAML instead of applying them")
	config.OnCommandLine(f, "print")
	f.StringVarP(&file, "filename", "f", "", "YAML file with settings: values of the Helm chart liqo-tui. Flags count more")
	f.StringVar(&podsFile, "pod-settings", "", "YAML file with pull secrets, node selector, tolerations and other settings of pods: for all, or apart for operator, fabric and gateway (default: unchanged)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := flags.Wrong(settings); err != nil {
			return exit.UsageError{Err: err}
		}
		if p.Names != "" && p.Names != render.On && p.Names != render.Off {
			return exit.UsageError{Err: fmt.Errorf("--names %q: want %s or %s", p.Names, render.On, render.Off)}
		}
		if err := readValues(file, &p, settings); err != nil {
			return exit.UsageError{Err: err}
		}
		if err := readPods(podsFile, &p); err != nil {
			return exit.UsageError{Err: err}
		}
		goal := func(f flows.Facts) flows.Plan {
			p := p
			p.ClusterID = cmp.Or(p.ClusterID, f.Sides[flows.A].ID, install.IDFrom(f.Sides[flows.A].Context.Name))
			return install.Plan(p, f)
		}
		if prints && r.output != report.Text && r.output != report.YAML {
			return exit.UsageError{Err: errors.New("--print: the objects are YAML; leave out --output")}
		}
		if prints {
			return printInstallation(cmd.Context(), io, pair.local, goal)
		}
		r.brief = !details
		op := operation{
			name: "install", localOnly: true, undo: "uninstall",
			goal: func() (flows.Goal, error) { return flows.Planner(goal), nil },
			done: func(e engine.Event) report.Achieved { return installed(e.Facts.Sides[flows.A], pair.local) },
		}
		return op.run(cmd.Context(), io, pair, r)
	}
	return cmd
}

// installed returns the result, with next steps that depend on the state of the cluster.
func installed(c flows.ClusterFacts, where clusterFlags) report.Achieved {
	runs := "the operator and the node agent run in namespace " + c.Namespace + "."
	switch peers := c.KnownPeers(); {
	case len(peers) == 0:
		return report.Achieved{
			Text: string(c.ID) + " can be connected now: " + runs,
			Next: []report.NextStep{{Command: where.command("network", "connect").Flag("--remote-context", "CONTEXT"), Why: "connects it with another cluster"}},
		}
	case c.Operator.Peering != "" && c.Operator.Peering != render.PeeringNone:
		return report.Achieved{
			Text: string(c.ID) + " can lend and borrow resources as its settings say: " + runs,
			Next: []report.NextStep{{Command: where.command("peer").Flag("--remote-context", "CONTEXT"), Why: "makes it use resources of another cluster"}},
		}
	}
	return report.Achieved{
		Text: string(c.ID) + " is up to date: " + runs,
		Next: []report.NextStep{{Command: where.command("info"), Why: "shows its connections"}},
	}
}

// readValues reads settings from a file, if file is not "". A flag on the command line counts more than the
// file.
func readValues(file string, p *render.InstallParams, flags []*flags.Flag[render.InstallParams]) error {
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("--filename: %w", err)
	}
	asked := *p
	if err := install.ReadValues(text, p); err != nil {
		return fmt.Errorf("--filename %s: %w", file, err)
	}
	for _, f := range flags {
		if f.Given {
			f.Read(p, f.Write(asked))
		}
	}
	return nil
}

func readPods(file string, p *render.InstallParams) error {
	if file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("--pod-settings: %w", err)
	}
	if p.Pods, err = render.ParsePods(text); err != nil {
		return fmt.Errorf("--pod-settings %s: %w", file, err)
	}
	return nil
}

// printInstallation prints the objects, and applies nothing.
func printInstallation(ctx context.Context, io streams, c clusterFlags, goal flows.Planner) error {
	cluster, err := c.open()
	if err != nil {
		return err
	}
	defer cluster.Close()
	seen, err := engine.Look(ctx, goal, cluster, engine.Absent{})
	if err != nil {
		return err
	}
	text, err := apply.YAML(seen.Plan.Wants(flows.A)...)
	if err != nil {
		return err
	}
	_, err = io.out.Write(text)
	return err
}

func uninstallCommand(io streams) *cobra.Command {
	var r runFlags
	pair := &pairFlags{}
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove the operator and the node agent; the CRDs stay",
		Long: `Remove the liqo-tui operator and its node agent from a cluster without peers.
The CRDs of Liqo's API stay, with all objects of these kinds.`,
		Example: `  liqo-tui uninstall --context rome`,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			op := operation{
				name: "uninstall", localOnly: true,
				goal: func() (flows.Goal, error) { return install.Removal{}, nil },
				done: func(e engine.Event) report.Achieved { return report.Achieved{Text: uninstalled(e)} },
			}
			return op.run(cmd.Context(), io, pair, r)
		},
	}
	r.add(cmd)
	pair.local.add(cmd.Flags(), "", "the cluster")
	return cmd
}

// uninstalled returns the result of a removal.
func uninstalled(e engine.Event) string {
	home := e.Facts.Sides[flows.A].Namespace
	text := "liqo-tui is removed. The CRDs stay; kubectl delete crd removes them, with all objects of these kinds."
	if r, _ := e.Goal.(install.Removal); !r.Found {
		text = "Nothing of liqo-tui is in namespace " + home + "."
	}
	if why := install.KeptNamespace(e.Plan); why != "" {
		text += "\nNamespace " + home + " stays: " + why + "."
	}
	return text
}
