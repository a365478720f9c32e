package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/liqo-tui/liqo-tui/kube"
	"github.com/liqo-tui/liqo-tui/render"
)

func installCommand(io streams) *cobra.Command {
	var c clusterFlags
	var p render.InstallParams
	var id string
	var dryRun bool
	timeout := 5 * time.Minute
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install our operator and fabric on a cluster without Liqo",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			p.ClusterID, p.Namespace = render.ClusterID(id), c.namespace
			return install(cmd.Context(), io, c, p, dryRun, timeout)
		},
	}
	f := cmd.Flags()
	c.add(f, "", "the cluster")
	f.StringVar(&id, "cluster-id", "", "name by which peers know the cluster (default: its ID if it has one, else from the context's name)")
	f.StringVar(&p.Image, "image", "liqo-tui/liqo-gateway:"+version, "image of operator, gateways and fabric")
	f.StringVar(&p.PodCIDR, "pod-cidr", "", "address range of the pods (default: from the cluster's own settings)")
	f.StringVar(&p.ServiceCIDR, "service-cidr", "", "address range of the Services (default: likewise)")
	f.StringVar(&p.ExternalCIDR, "external-cidr", render.DefaultExternalCIDR, "address range that stands for hosts outside of the pod network")
	f.BoolVar(&dryRun, "dry-run", false, "print the objects as YAML instead of applying them")
	f.DurationVar(&timeout, "timeout", timeout, "how long to wait until everything runs")
	return cmd
}

func install(ctx context.Context, io streams, c clusterFlags, p render.InstallParams, dryRun bool, timeout time.Duration) error {
	cluster, err := c.open()
	if err != nil {
		return err
	}
	defer cluster.Close()
	if err := complete(ctx, cluster, &p); err != nil {
		return err
	}
	objects, err := render.Install(p)
	if err != nil {
		return usageError{err}
	}
	if dryRun {
		text, err := render.YAML(objects...)
		if err != nil {
			return err
		}
		_, err = io.out.Write(text)
		return err
	}
	start := time.Now()
	progress := func(line string) {
		fmt.Fprintf(io.err, "%6.1fs  %-12s %s\n", time.Since(start).Seconds(), p.ClusterID, line)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if _, err := cluster.Install(ctx, objects, progress); err != nil {
		return err
	}
	_, err = fmt.Fprintf(io.out, "%s can be connected now: operator and fabric run in namespace %s.\nnext: liqo-tui network connect\n", p.ClusterID, p.Namespace)
	return err
}

// complete fills in what the admin did not say and the cluster does.
func complete(ctx context.Context, cluster *kube.Cluster, p *render.InstallParams) error {
	facts, err := cluster.Observe(ctx)
	if err != nil {
		return err
	}
	if facts.Problem != nil {
		return facts.Problem
	}
	switch {
	case p.ClusterID == "" && facts.ID != "":
		p.ClusterID = facts.ID
	case p.ClusterID == "":
		p.ClusterID = idFrom(facts.Context.Name)
	case facts.ID != "" && facts.ID != p.ClusterID:
		return usageError{fmt.Errorf("--cluster-id %s: the cluster already has the ID %s, by which its peers know it", p.ClusterID, facts.ID)}
	}
	if p.PodCIDR != "" && p.ServiceCIDR != "" {
		return nil
	}
	ranges, err := cluster.DiscoverRanges(ctx)
	if err != nil {
		return err
	}
	if p.PodCIDR == "" {
		p.PodCIDR = ranges.Pod
	}
	if p.ServiceCIDR == "" {
		p.ServiceCIDR = ranges.Service
	}
	switch {
	case p.PodCIDR == "":
		return usageError{errors.New("the cluster does not say its pods' address range: give --pod-cidr")}
	case p.ServiceCIDR == "":
		return usageError{errors.New("the cluster does not say its Services' address range: give --service-cidr")}
	}
	return nil
}

var notInID = regexp.MustCompile(`[^a-z0-9]+`)

// idFrom makes a cluster ID of a context's name.
func idFrom(context string) render.ClusterID {
	return render.ClusterID(strings.Trim(notInID.ReplaceAllString(strings.ToLower(context), "-"), "-"))
}
