package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows"
)

var errNoRemote = errors.New("which cluster is the remote one? give --remote-context, --remote-kubeconfig or both")

func networkCommand(io streams) *cobra.Command {
	cmd := &cobra.Command{
		Use: "network", Short: "Connect two clusters, and undo it", Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	pair := newPairFlags(cmd, true)
	cmd.AddCommand(
		connectCommand(io, pair),
		removeCommand(io, pair, "disconnect", "Remove the gateways; the clusters keep what they know of each other",
			func(f flows.Facts) flows.Plan { return flows.PlanDisconnect(flows.RemoveOptions{}, f) }, "The gateways are gone. liqo-tui network connect brings them back, with the same addresses."),
		removeCommand(io, pair, "reset", "Remove the connection, and what the clusters know of each other",
			func(f flows.Facts) flows.Plan { return flows.PlanReset(flows.RemoveOptions{}, f) }, "The clusters are no longer connected."),
	)
	return cmd
}

func connectCommand(io streams, pair *pairFlags) *cobra.Command {
	var r runFlags
	p := flows.Defaults()
	serviceType, location := string(p.ServiceType), "Remote"
	cmd := &cobra.Command{
		Use:   "connect",
		Short: "Connect the two clusters, and wait until both say that they are",
		Long: `Connect the pod networks of the local (A) and the remote (B) cluster.

It shows what it will do and asks, unless --yes is given. Running it again
continues where an earlier run stopped; when nothing is left to do, it says so.`,
		Example: `  liqo-tui network connect --context rome --remote-context milan \
    --server-service-type NodePort`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			plan := func() (func(flows.Facts) flows.Plan, error) {
				p.ServiceType = parseServiceType(serviceType)
				var err error
				if p.Server, err = parseLocation(location); err != nil {
					return nil, err
				}
				if err := p.Validate(); err != nil {
					return nil, usageError{err}
				}
				p.Given = given(cmd)
				return flows.Connecting(p), nil
			}
			return operation{"connect", plan, connectedText}.run(cmd.Context(), io, pair, r)
		},
	}
	r.add(cmd)
	f := cmd.Flags()
	f.StringVar(&serviceType, "server-service-type", serviceType, "how the gateway server is exposed: LoadBalancer, NodePort or ClusterIP")
	f.StringVar(&location, "server-location", location, "the cluster that hosts the gateway server: Remote or Local")
	f.Uint16Var(&p.Port, "server-port", p.Port, "UDP port of the gateway server's Service")
	f.Uint16Var(&p.NodePort, "node-port", 0, "node port of the gateway server (default: Kubernetes chooses)")
	f.StringVar(&p.LoadBalancerIP, "load-balancer-ip", "", "address to ask the load balancer for (default: it chooses)")
	f.StringVar(&p.ClientAddress, "client-address", "", "address that the client dials (default: the server's own)")
	f.Uint16Var(&p.ClientPort, "client-port", 0, "port that the client dials (default: the server's own)")
	f.IntVar(&p.MTU, "mtu", p.MTU, "MTU of the tunnel in bytes")
	f.StringVar(&p.ServerTemplate.Name, "server-template-name", p.ServerTemplate.Name, "template of the gateway server")
	f.StringVar(&p.ServerTemplate.Namespace, "server-template-namespace", "", "its namespace (default: Liqo's)")
	f.StringVar(&p.ClientTemplate.Name, "client-template-name", p.ClientTemplate.Name, "template of the gateway client")
	f.StringVar(&p.ClientTemplate.Namespace, "client-template-namespace", "", "its namespace (default: Liqo's)")
	acceptLiqoctl(cmd)
	return cmd
}

// given are the parameters that the admin chose; a connection keeps the others.
func given(cmd *cobra.Command) (fields flows.Fields) {
	for name, field := range map[string]flows.Fields{
		"server-location": flows.FieldServer, "server-service-type": flows.FieldServiceType, "server-port": flows.FieldPort,
		"node-port": flows.FieldNodePort, "load-balancer-ip": flows.FieldLoadBalancerIP, "mtu": flows.FieldMTU,
		"client-address": flows.FieldClientAddress, "client-port": flows.FieldClientPort,
		"server-template-name": flows.FieldServerTemplate, "client-template-name": flows.FieldClientTemplate,
		"server-template-namespace": flows.FieldServerTemplate, "client-template-namespace": flows.FieldClientTemplate,
	} {
		if cmd.Flags().Changed(name) {
			fields |= field
		}
	}
	return fields
}

// removeCommand runs a plan that takes something away, and ends with done.
func removeCommand(io streams, pair *pairFlags, name, short string, plan func(flows.Facts) flows.Plan, done string) *cobra.Command {
	var r runFlags
	cmd := &cobra.Command{
		Use: name, Short: short, Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			op := operation{
				name: name,
				plan: func() (func(flows.Facts) flows.Plan, error) { return plan, nil },
				done: func(flows.Facts) string { return done },
			}
			return op.run(cmd.Context(), io, pair, r)
		},
	}
	r.add(cmd)
	acceptLiqoctl(cmd)
	return cmd
}

// parseServiceType ignores case: liqoctl does.
func parseServiceType(text string) corev1.ServiceType {
	for _, t := range []corev1.ServiceType{corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort, corev1.ServiceTypeClusterIP} {
		if strings.EqualFold(text, string(t)) {
			return t
		}
	}
	return corev1.ServiceType(text)
}

func parseLocation(text string) (flows.Side, error) {
	switch strings.ToLower(text) {
	case "remote", "provider":
		return flows.B, nil
	case "local", "consumer":
		return flows.A, nil
	}
	return 0, usageError{fmt.Errorf("--server-location %q: want Remote or Local", text)}
}

// connectedText is what the admin needs to know of a connection that works.
func connectedText(f flows.Facts) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s and %s are connected: each gateway answers the other's pings.\n", f.Local.ID, f.Remote.ID)
	for _, side := range []flows.Side{flows.A, flows.B} {
		other := f.Side(side.Other())
		if conf := f.Side(side).Peer(other.ID).Configuration; conf != nil && conf.Status.Remote != nil {
			fmt.Fprintf(&b, "  pods of %s reach %s's pods %s as %s\n", f.Side(side).ID, other.ID,
				joined(conf.Spec.Remote.CIDR.Pod), joined(conf.Status.Remote.CIDR.Pod))
		}
	}
	fmt.Fprintf(&b, "look: liqo-tui info   undo: liqo-tui network reset, with the same contexts")
	return b.String()
}

func joined[S ~string](parts []S) string {
	text := make([]string, len(parts))
	for i, p := range parts {
		text[i] = string(p)
	}
	return strings.Join(text, ", ")
}
