package main

import (
	"cmp"
	"context"
	"fmt"
	"text/tabwriter"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"github.com/spf13/cobra"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/render"
)

func infoCommand(io streams) *cobra.Command {
	var c clusterFlags
	cmd := &cobra.Command{
		Use: "info", Short: "Say what a cluster is, and whom it is connected with", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return info(cmd.Context(), io, c) },
	}
	c.add(cmd.Flags(), "", "the cluster")
	return cmd
}

func info(ctx context.Context, io streams, c clusterFlags) error {
	cluster, err := c.open()
	if err != nil {
		return err
	}
	defer cluster.Close()
	f, err := cluster.Observe(ctx)
	if err != nil {
		return err
	}
	if f.Problem != nil {
		return f.Problem
	}
	w := tabwriter.NewWriter(io.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "Cluster ID\t%s\n", cmp.Or(string(f.ID), "none"))
	fmt.Fprintf(w, "API server\t%s\n", f.Server)
	fmt.Fprintf(w, "Kubernetes\t%s\n", f.Version)
	fmt.Fprintf(w, "Connections by\t%s\n", f.Software)
	fmt.Fprintf(w, "Pod CIDR\t%s\n", cmp.Or(joined(f.Networks.Pod), "not known"))
	fmt.Fprintf(w, "External CIDR\t%s\n", cmp.Or(joined(f.Networks.External), "not known"))
	if err := w.Flush(); err != nil {
		return err
	}
	if len(f.Configurations) == 0 {
		_, err = fmt.Fprintln(io.out, "\nNo peers. next: liqo-tui network connect")
		return err
	}
	fmt.Fprintln(w, "\nPEER\tROLE\tSTATE\tLATENCY\tPODS SEEN AS\tWHY")
	for _, conf := range f.Configurations {
		writePeer(w, f, render.ClusterID(conf.Labels[render.LabelRemoteCluster]), time.Now())
	}
	return w.Flush()
}

func writePeer(w *tabwriter.Writer, f flows.ClusterFacts, id render.ClusterID, now time.Time) {
	p := f.Peer(id)
	seenAs := "not assigned"
	if flows.CIDRsConfigured(p.Configuration) {
		seenAs = joined(p.Configuration.Status.Remote.CIDR.Pod)
	}
	role, state, latency, why := "-", "Not connected", "-", "no gateway"
	if p.Connection != nil {
		role, latency = string(p.Connection.Spec.Type), cmp.Or(p.Connection.Status.Latency.Value, "-")
		state, why = connectionState(p.Connection, now)
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", id, role, state, latency, seenAs, why)
}

// connectionState is what a Connection says, unless that is too old to believe.
func connectionState(c *networkingv1beta1.Connection, now time.Time) (state, why string) {
	state = cmp.Or(string(c.Status.Value), "Unknown")
	report, ok, err := render.ParseReport(c.Annotations)
	switch {
	case err != nil:
		return state, err.Error()
	case !ok:
		return state, "the gateway gives no reason"
	case report.Stale(now):
		return "Stale", fmt.Sprintf("it said %s %s ago, and nothing since", state, now.Sub(report.At).Round(time.Second))
	}
	return state, report.Message
}
