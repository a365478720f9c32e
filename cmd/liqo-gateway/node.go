//go:build linux

package main

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"

	"github.com/liqo-tui/liqo-tui/gateway/virtualnode"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

func nodeCommand(log *slog.Logger) *cobra.Command {
	o := virtualnode.Options{Log: log}
	cmd := &cobra.Command{
		Use: "node", Short: "Keep the Node of a virtual node", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Listen = fmt.Sprintf(":%d", peering.KubeletPort)
			config, err := rest.InClusterConfig()
			if err != nil {
				return fmt.Errorf("reach the cluster's API: %w", err)
			}
			return virtualnode.Run(cmd.Context(), config, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.Name, "name", "", "name of the VirtualNode, and of the Node")
	f.StringVar(&o.Namespace, "namespace", "", "its namespace")
	f.StringVar(&o.KubeconfigSecret, "kubeconfig-secret", "", "Secret by which the provider is reached")
	f.StringVar(&o.Provider, "provider", "", "cluster ID of who runs the node's pods")
	f.StringVar(&o.Consumer, "consumer", "", "cluster ID of this cluster")
	return cmd
}
