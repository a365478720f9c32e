// Command flanneld runs flannel on a node of the lab: its VXLAN backend, its
// leases as annotations of Nodes, and its iptables rules, which decide what is
// masqueraded. All this is in flannel's own packages. Its main program can't be
// built here, because the module of another backend is not on the public module
// proxy.
//
//	flanneld NODE KUBECONFIG NETWORK.json DEVICE
//
// NETWORK.json is flannel's net-conf.json. The node must have a podCIDR.
package main

import (
	"context"
	"fmt"
	"os"
	"sync"

	"github.com/flannel-io/flannel/pkg/backend"
	_ "github.com/flannel-io/flannel/pkg/backend/vxlan"
	"github.com/flannel-io/flannel/pkg/ip"
	"github.com/flannel-io/flannel/pkg/ipmatch"
	"github.com/flannel-io/flannel/pkg/subnet/kube"
	"github.com/flannel-io/flannel/pkg/trafficmngr/iptables"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: flanneld NODE KUBECONFIG NETWORK.json DEVICE")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "flanneld:", err)
		os.Exit(1)
	}
}

const (
	annotations = "flannel.alpha.coreos.com"
	resync      = 5 // seconds, flannel's default for its rules
)

func run(node, kubeconfig, network, device string) error {
	// Outside of a pod, flannel learns the node's name only from this variable.
	if err := os.Setenv("NODE_NAME", node); err != nil {
		return err
	}
	ctx := context.Background()
	manager, err := kube.NewSubnetManager(ctx, "", kubeconfig, annotations, network, false)
	if err != nil {
		return fmt.Errorf("leases: %w", err)
	}
	config, err := manager.GetNetworkConfig(ctx)
	if err != nil {
		return fmt.Errorf("network configuration: %w", err)
	}
	family, err := ipmatch.GetIPFamily(config.EnableIPv4, config.EnableIPv6)
	if err != nil {
		return fmt.Errorf("network configuration: %w", err)
	}
	outside, err := ipmatch.LookupExtIface(device, "", "", family, ipmatch.PublicIPOpts{})
	if err != nil {
		return fmt.Errorf("device %s: %w", device, err)
	}
	vxlan, err := backend.NewManager(ctx, manager, outside).GetBackend(config.BackendType)
	if err != nil {
		return fmt.Errorf("backend: %w", err)
	}
	var tasks sync.WaitGroup
	overlay, err := vxlan.RegisterNetwork(ctx, &tasks, config)
	if err != nil {
		return fmt.Errorf("join the network: %w", err)
	}
	rules := &iptables.IPTablesManager{}
	if err := rules.Init(ctx); err != nil {
		return fmt.Errorf("iptables: %w", err)
	}
	err = rules.SetupAndEnsureMasqRules(ctx, config.Network, ip.IP4Net{}, ip.IP4Net{}, ip.IP6Net{}, ip.IP6Net{}, ip.IP6Net{},
		overlay.Lease(), resync, false)
	if err != nil {
		return fmt.Errorf("masquerading: %w", err)
	}
	rules.SetupAndEnsureForwardRules(ctx, config.Network, ip.IP6Net{}, resync)
	overlay.Run(ctx)
	return nil
}
