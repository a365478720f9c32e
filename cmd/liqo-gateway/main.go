//go:build linux

// Command liqo-gateway runs inside a cluster: as operator (one per cluster), as tunnel (one
// pod per peer), as fabric (one per node), as node (one pod per virtual node) and as echo
// (the pod of a measurement). Its subcommand inspect prints a gateway's kernel state, and
// ready waits until the operator and the node agents run. If neither of two gateways can be
// dialled, it also runs as relay, on any machine that both clusters reach. clusters reach,
// for two gateways of which neither can be dialled.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/agent"
	"github.com/liqo-tui/liqo-tui/gateway/operator"
	"github.com/liqo-tui/liqo-tui/internal/discovery"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

func main() { os.Exit(run(os.Args[1:], os.Stderr)) }

func run(args []string, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	log := slog.New(slog.NewJSONHandler(stderr, &slog.HandlerOptions{Level: level(os.Getenv("LOG_LEVEL"))}))
	ctrl.SetLogger(logr.FromSlogHandler(log.Handler()))
	if err := watchConnections(); err != nil {
		log.Error("ends", "error", err)
		return 1
	}
	root := rootCommand(log)
	root.SetArgs(args)
	root.SetErr(stderr)
	if err := root.ExecuteContext(ctx); err != nil && !errors.Is(err, context.Canceled) {
		log.Error("ends", "error", err)
		return 1
	}
	return 0
}

func rootCommand(log *slog.Logger) *cobra.Command {
	root := &cobra.Command{
		Use: "liqo-gateway", Short: "In-cluster programs of liqo-tui",
		SilenceErrors: true, SilenceUsage: true,
	}
	root.AddCommand(operatorCommand(), tunnelCommand(log), fabricCommand(log), nodeCommand(log), echoCommand(), inspectCommand(), readyCommand(), relayCommand(log))
	return root
}

// level returns the lowest severity that is logged. An unknown word means info, so that a
// wrong word does not prevent the start of a gateway.
func level(word string) (l slog.Level) {
	if l.UnmarshalText([]byte(word)) != nil {
		return slog.LevelInfo
	}
	return l
}

// watchConnections makes client-go notice a dead connection to the API server within 8 s
// instead of 45 s. A connection dies without an error if a node translates the addresses and
// forgets its flows: the server's packets then end at the node, and a watch without packets
// looks like one without changes. In such a case, nodes used a gateway for 28 s after it had
// moved.
func watchConnections() error {
	for name, seconds := range map[string]string{"HTTP2_READ_IDLE_TIMEOUT_SECONDS": "5", "HTTP2_PING_TIMEOUT_SECONDS": "3"} {
		if os.Getenv(name) != "" {
			continue
		}
		if err := os.Setenv(name, seconds); err != nil {
			return err
		}
	}
	return nil
}

func operatorCommand() *cobra.Command {
	var o operator.Options
	var pools, pods, services, lend []string
	cmd := &cobra.Command{
		Use: "operator", Short: "Assign address ranges, and make and watch gateways", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var of [3][]netip.Prefix
			for i, texts := range [][]string{pools, pods, services} {
				for _, text := range texts {
					p, err := netip.ParsePrefix(text)
					if err != nil {
						return fmt.Errorf("%s: %w", [...]string{"--pools", "--pod-cidr", "--service-cidr"}[i], err)
					}
					of[i] = append(of[i], p)
				}
			}
			o.Pools, o.Stated = of[0], map[string][]netip.Prefix{wire.NetworkPodCIDR: of[1], wire.NetworkServiceCIDR: of[2]}
			if r := o.Lending.Role; !o.Lending.On() && r != render.PeeringNone {
				return fmt.Errorf("--peering %q: want none, consumer, provider or both", r)
			}
			if o.Services != "" {
				if err := o.Services.Validate(); err != nil {
					return fmt.Errorf("--services: %w", err)
				}
			}
			amounts, err := peering.Amounts(lend)
			if err != nil {
				return fmt.Errorf("--lend: %w", err)
			}
			o.Lending.Home, o.Lending.Lend, o.Lending.ProxyAddress = o.Namespace, amounts, ":"+wire.ProxyPort
			config, token, err := inCluster()
			if err != nil {
				return err
			}
			o.Token = token.problem
			if o.Identity, err = os.Hostname(); err != nil { // the pod's name
				return fmt.Errorf("find out who leads: %w", err)
			}
			if os.Getenv("POD_IP") != "" { // Deployments of an earlier release lack this variable
				if o.PodIP, err = addressFrom("POD_IP"); err != nil {
					return err
				}
			}
			if os.Getenv("GOGC") == "" {
				// The operator keeps the objects of a large cluster and has little to do. With this value and a
				// smaller cache, 1,000 exported Services take 29 MiB; they took 40 with Go's default of 100.
				debug.SetGCPercent(50)
			}
			return operator.Run(cmd.Context(), config, o)
		},
	}
	cmd.Flags().StringVar(&o.Namespace, "liqo-namespace", wire.DefaultNamespace, "namespace with the cluster's ID and Networks")
	cmd.Flags().StringSliceVar(&pools, "pools", nil, "address ranges for peers whose own are taken (default: 240.0.0.0/4)")
	cmd.Flags().StringSliceVar(&pods, "pod-cidr", nil, "address ranges of the pods (default: what the cluster states)")
	cmd.Flags().StringSliceVar(&services, "service-cidr", nil, "address range of the Services (default: what the cluster states)")
	cmd.Flags().StringVar((*string)(&o.Lending.Role), "peering", string(render.PeeringNone), "part in whole peerings: none, consumer, provider or both")
	cmd.Flags().StringVar(&o.Lending.APIServer, "api-server", "", "URL at which consumers reach the API server (default: the address that it states)")
	cmd.Flags().StringSliceVar(&lend, "lend", nil, "most that all consumers get together, such as cpu=8 (default: what the nodes have)")
	cmd.Flags().StringVar((*string)(&o.Services), "services", "", "this cluster's ID: it exports Services to its peers, and imports theirs")
	cmd.Flags().StringVar(&o.HealthAddress, "health-address", ":8081", "address of /healthz and /readyz")
	return cmd
}

func tunnelCommand(log *slog.Logger) *cobra.Command {
	var role, remote string
	o := agent.TunnelOptions{Log: log}
	cmd := &cobra.Command{
		Use: "tunnel", Short: "Keep one end of a tunnel", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			switch role {
			case "server":
				o.Role, o.Gateway.Type = gateway.Server, networkingv1beta1.ConnectionTypeServer
			case "client":
				o.Role, o.Gateway.Type = gateway.Client, networkingv1beta1.ConnectionTypeClient
			default:
				return fmt.Errorf("--role %q: want server or client", role)
			}
			if o.Services != "" {
				if err := o.Services.Validate(); err != nil {
					return fmt.Errorf("--services: %w", err)
				}
			}
			o.Gateway.Tenant.Remote = wire.ClusterID(remote)
			if o.PodIP, err = addressFrom("POD_IP"); err != nil {
				return err
			}
			if o.NodeIP, err = addressFrom("NODE_IP"); err != nil {
				return err
			}
			o.NodeName = os.Getenv("NODE_NAME")
			if o.Pod, err = os.Hostname(); err != nil { // the pod's name
				return fmt.Errorf("find out which pod this is: %w", err)
			}
			config, err := rest.InClusterConfig()
			if err != nil {
				return fmt.Errorf("reach the cluster's API: %w", err)
			}
			return agent.RunTunnel(cmd.Context(), config, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&role, "role", "", "server or client")
	f.StringVar(&o.Gateway.Name, "name", "", "name of the GatewayServer or GatewayClient")
	f.StringVar(&o.Gateway.Tenant.Namespace, "namespace", "", "its namespace")
	f.StringVar(&remote, "remote-cluster-id", "", "the peer's cluster ID")
	f.StringVar(&o.MetricsAddress, "metrics-address", ":8082", "where Prometheus asks for metrics; 0 for nowhere")
	f.BoolVar(&o.Shared, "leader-election", false, "several pods share the tunnel: only the one with the Lease holds it")
	f.StringVar((*string)(&o.Services), "services", "", "this cluster's ID: the gateways tell each other which Services their clusters export")
	f.StringVar(&o.KeysDir, "keys-dir", "/etc/wireguard/keys", "directory with the file privateKey")
	return cmd
}

func fabricCommand(log *slog.Logger) *cobra.Command {
	var announce string
	o := agent.FabricOptions{Log: log}
	cmd := &cobra.Command{
		Use: "fabric", Short: "Keep a node's way to the gateways", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.NodeIP, err = addressFrom("NODE_IP"); err != nil {
				return err
			}
			o.NodeName = os.Getenv("NODE_NAME")
			if server, id, _ := strings.Cut(announce, ","); server != "" && server != render.AnnounceNone {
				address, err := discovery.ParseServer(server)
				if err = errors.Join(err, wire.ClusterID(id).Validate()); err != nil {
					log.Error("the cluster is not announced", "--announce", announce, "error", err) // packets pass anyway
				} else {
					o.Announced = &discovery.Cluster{ID: wire.ClusterID(id), Server: address}
				}
			}
			config, token, err := inCluster()
			if err != nil {
				return err
			}
			o.Token = token.problem
			return agent.RunFabric(cmd.Context(), config, o)
		},
	}
	cmd.Flags().StringVar(&o.Namespace, "liqo-namespace", wire.DefaultNamespace, "namespace with the cluster's Networks")
	cmd.Flags().StringVar(&o.Health, "health-address", "", "where HTTP says whether the node is as wanted")
	cmd.Flags().StringVar(&announce, "announce", render.AnnounceNone, "what the node announces in its LAN, such as https://192.168.1.20:6443,milan: the API server's URL and the cluster's ID")
	return cmd
}

func inspectCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use: "inspect", Short: "Print the wanted and the actual kernel state of this pod's tunnel or fabric", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if output != "json" && output != "text" {
				return fmt.Errorf("--output %q: want json or text", output)
			}
			return agent.Inspect(cmd.Context(), cmd.OutOrStdout(), output == "text")
		},
	}
	cmd.Flags().StringVarP(&output, "output", "o", "json", "json, or text for a person")
	return cmd
}

// addressFrom returns the first IPv4 address in a variable with addresses separated by
// commas. If there is none, it returns the first address.
func addressFrom(variable string) (first netip.Addr, err error) {
	for text := range strings.SplitSeq(os.Getenv(variable), ",") {
		ip, err := netip.ParseAddr(text)
		switch {
		case err != nil:
			return netip.Addr{}, fmt.Errorf("environment variable %s: %w", variable, err)
		case ip.Is4():
			return ip, nil
		case !first.IsValid():
			first = ip
		}
	}
	return first, nil
}
