//go:build linux

package main

import (
	"fmt"
	"log/slog"
	"net/netip"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/liqo-tui/liqo-tui/gateway/relay"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

func relayCommand(log *slog.Logger) *cobra.Command {
	var ports []uint
	var address string
	var allow []string
	cmd := &cobra.Command{
		Use: "relay", Short: "Forward packets between two gateways that both dial this machine", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c := relay.Config{Log: log}
			ip, err := netip.ParseAddr(address)
			if err != nil {
				return fmt.Errorf("--address: %w", err)
			}
			for _, text := range allow {
				p, err := netip.ParsePrefix(text)
				if err != nil {
					return fmt.Errorf("--allow: %w", err)
				}
				c.Allow = append(c.Allow, p)
			}
			g, ctx := errgroup.WithContext(cmd.Context())
			for _, port := range ports {
				if port > 1<<16-1 {
					return fmt.Errorf("--port %d: want a UDP port", port)
				}
				of := c
				of.Listen = netip.AddrPortFrom(ip, uint16(port))
				g.Go(func() error { return relay.Run(ctx, of) })
			}
			return g.Wait()
		},
	}
	f := cmd.Flags()
	f.UintSliceVar(&ports, "port", []uint{wire.DefaultPort}, "UDP port for the client of a connection, and the next one for its server; one for each connection")
	f.StringVar(&address, "address", "::", "address to listen at")
	f.StringSliceVar(&allow, "allow", nil, "networks that gateways may dial from (default: any)")
	return cmd
}
