package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/kube"
	"github.com/liqo-tui/liqo-tui/render"
)

func installCommand(io streams) *cobra.Command {
	p := render.InstallParams{Image: defaultImage()}
	var c clusterFlags
	var dryRun, yes bool
	output, timeout := formatText, 5*time.Minute
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install the operator and the node agent on a cluster without Liqo",
		Long: `Install the liqo-tui operator and its node agent ("fabric") on a cluster without
Liqo, and wait until they run. Run it again to update them, or to correct the
image. network connect --install does this as part of connecting.`,
		Example: `  liqo-tui install --context rome --cluster-id rome

  # as manifests, for another tool to apply
  liqo-tui install --context rome --cluster-id rome -o yaml`,
		Args: noArguments,
	}
	f := cmd.Flags()
	c.add(f, "", "the cluster")
	settings := addSettings(f, &p, flows.InstallSettings()...)
	f.BoolVar(&dryRun, "dry-run", false, "print the objects as YAML instead of applying them, as -o yaml does")
	f.StringVarP(&output, "output", "o", output, "text; ndjson; or yaml to print the objects instead of applying them")
	f.DurationVar(&timeout, "timeout", timeout, "how long to wait until everything runs")
	f.BoolVarP(&yes, "yes", "y", false, "don't ask before a protected cluster is changed; other clusters are changed without a question")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		p.Namespace = c.namespace
		switch err := wrong(settings); {
		case err != nil:
			return usageError{err}
		case dryRun, output == formatYAML:
			return printInstallation(cmd.Context(), io, c, p)
		case output == formatJSON:
			return usageError{fmt.Errorf("--output %q: want text, yaml or ndjson", output)}
		}
		return inSession(io, output, "install", &pairFlags{local: c}, func(s *session) error {
			return install(cmd.Context(), s, c, p, yes, timeout)
		})
	}
	return cmd
}

// defaultImage is the image of this program's own release.
func defaultImage() string { return "liqo-tui/liqo-gateway:" + version }

// printInstallation writes the objects instead of applying them.
func printInstallation(ctx context.Context, io streams, c clusterFlags, p render.InstallParams) error {
	cluster, err := c.open()
	if err != nil {
		return err
	}
	defer cluster.Close()
	objects, err := installation(ctx, cluster, &p, func(flows.Facts) {})
	if err != nil {
		return err
	}
	text, err := render.YAML(objects...)
	if err != nil {
		return err
	}
	_, err = io.out.Write(text)
	return err
}

func install(ctx context.Context, s *session, c clusterFlags, p render.InstallParams, yes bool, timeout time.Duration) error {
	cluster, err := c.open()
	if err != nil {
		return err
	}
	defer cluster.Close()
	objects, err := installation(ctx, cluster, &p, s.observed)
	if err != nil {
		return err
	}
	if names := s.io.settings.protected.of(c); len(names) > 0 {
		if ok, err := confirm(s.io, yes, fmt.Sprintf("Install liqo-tui on %s?", p.ClusterID), names); err != nil || !ok {
			return cmp.Or(err, engine.Declined(false))
		}
	}
	start := time.Now()
	progress := func(line string) {
		fmt.Fprintf(s.io.err, "%6.1fs  %-12s %s\n", time.Since(start).Seconds(), p.ClusterID, line)
		if s.events != nil {
			s.events.progress(flows.A, line)
		}
	}
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	changes, err := cluster.Install(limited, objects, progress)
	s.changes(changes)
	if err != nil && ctx.Err() != nil {
		return stopped(ctx, len(changes) > 0)
	}
	if err != nil {
		return err
	}
	s.next = []nextStep{{c.command("network", "connect") + " --remote-context CONTEXT", "connects it with another cluster"}}
	if s.format == formatText {
		fmt.Fprintf(s.io.out, "%s can be connected now: the operator and the node agent run in namespace %s.\n", p.ClusterID, p.Namespace)
		writeNext(s.io.out, s.next)
	}
	return nil
}

// installation are the objects for the cluster, once it was looked at. p gets
// what the admin left out.
func installation(ctx context.Context, cluster *kube.Cluster, p *render.InstallParams, seen func(flows.Facts)) ([]render.Object, error) {
	facts, err := lookAt(ctx, cluster)
	if err != nil {
		return nil, err
	}
	seen(flows.Facts{Local: facts})
	if err := complete(facts, p); err != nil {
		return nil, err
	}
	if p.GatewayReplicas == 0 {
		if p.GatewayReplicas, err = cluster.GatewayReplicas(ctx); err != nil {
			return nil, err
		}
	}
	objects, err := render.Install(*p)
	if err = errors.Join(flows.Check(flows.InstallSettings(), *p), err); err != nil {
		return nil, usageError{err}
	}
	// A namespace of somebody else's is not for us to change, nor for who applies
	// what is printed.
	return slices.DeleteFunc(objects, func(o render.Object) bool {
		live := facts.FindNamespace(o.GetName())
		_, ok := o.(*corev1.Namespace)
		return ok && live != nil && live.Labels[render.LabelManagedBy] != render.ManagedBy
	}), nil
}

// complete fills in what the admin did not say and the cluster does.
func complete(facts flows.ClusterFacts, p *render.InstallParams) error {
	if facts.Software == flows.Liqo {
		return unfit(facts, "Liqo's controller-manager already connects this cluster, and two operators would fight over the same objects",
			"use liqo-tui network connect as it is: it works with Liqo's")
	}
	if s := flows.InstalledElsewhere(flows.A, facts); s != nil {
		return unfit(facts, s.Reason, s.Hint)
	}
	if s := flows.InstallNamespace(flows.A, facts, p.Namespace); s != nil {
		return unfit(facts, s.Reason, s.Hint)
	}
	p.ExternalCIDR = cmp.Or(p.ExternalCIDR, string(facts.ExternalCIDR)) // it can't be changed just so
	if len(p.Pools) == 0 {
		for _, pool := range facts.Pools {
			p.Pools = append(p.Pools, string(pool))
		}
	}
	switch {
	case p.ClusterID == "" && facts.ID != "":
		p.ClusterID = facts.ID
	case p.ClusterID == "":
		p.ClusterID = idFrom(facts.Context.Name)
	case facts.ID != "" && facts.ID != p.ClusterID:
		return usageError{fmt.Errorf("--cluster-id %s: the cluster already has the ID %s, by which its peers know it", p.ClusterID, facts.ID)}
	}
	return nil
}

// unfit is a cluster that must not be changed in this way.
func unfit(f flows.ClusterFacts, reason, hint string) error {
	return &flows.StepError{
		Step:    flows.Step{Title: "not changed", Kind: flows.FailedPreflight, Reason: reason, Hint: hint},
		Cluster: cmp.Or(f.ID, render.ClusterID(f.Context.Name)),
	}
}

func uninstallCommand(io streams) *cobra.Command {
	var c clusterFlags
	var yes bool
	output := formatText
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove the operator and the node agent; the CRDs stay",
		Long: `Remove the liqo-tui operator and its node agent from a cluster without peers.
The CRDs of Liqo's API stay, with all objects of these kinds.`,
		Example: `  liqo-tui uninstall --context rome`,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return inSession(io, output, "uninstall", &pairFlags{local: c}, func(s *session) error {
				return uninstall(cmd.Context(), s, c, yes)
			})
		},
	}
	c.add(cmd.Flags(), "", "the cluster")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "don't ask before changing the cluster")
	cmd.Flags().StringVarP(&output, "output", "o", output, "text, json, yaml or ndjson")
	return cmd
}

func uninstall(ctx context.Context, s *session, c clusterFlags, yes bool) error {
	cluster, err := c.open()
	if err != nil {
		return err
	}
	defer cluster.Close()
	facts, err := lookAt(ctx, cluster)
	if err != nil {
		return err
	}
	s.observed(flows.Facts{Local: facts})
	if n := len(facts.KnownPeers()); n > 0 {
		// Without the operator nobody would clean the nodes up after a gateway.
		return unfit(facts, fmt.Sprintf("it still has %d peers", n), "run liqo-tui network reset for each; liqo-tui info lists them")
	}
	objects, err := render.Installed(c.namespace)
	if err != nil {
		return err
	}
	question := fmt.Sprintf("Remove liqo-tui from %s?", cmp.Or(string(facts.ID), facts.Context.Name))
	if ok, err := confirm(s.io, yes, question, s.io.settings.protected.of(c)); err != nil || !ok {
		return cmp.Or(err, engine.Declined(false))
	}
	changes, kept, err := cluster.Uninstall(ctx, objects)
	s.changes(changes)
	for _, change := range changes {
		fmt.Fprintf(s.io.err, "%s %s\n", change.Object, change.Verb)
	}
	if err != nil && ctx.Err() != nil {
		return stopped(ctx, len(changes) > 0)
	}
	if err != nil || s.format != formatText {
		return err
	}
	text := "liqo-tui is removed. The CRDs stay; kubectl delete crd removes them, with all objects of these kinds."
	if len(changes) == 0 {
		text = "No changes: nothing of liqo-tui is in namespace " + c.namespace + "."
	}
	if kept != "" {
		text += "\n" + strings.ToUpper(kept[:1]) + kept[1:] + "."
	}
	_, err = fmt.Fprintln(s.io.out, text)
	return err
}

var notInID = regexp.MustCompile(`[^a-z0-9]+`)

// idFrom makes a cluster ID of a context's name.
func idFrom(context string) render.ClusterID {
	return render.ClusterID(strings.Trim(notInID.ReplaceAllString(strings.ToLower(context), "-"), "-"))
}
