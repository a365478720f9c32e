package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/service"
	"github.com/liqo-tui/liqo-tui/internal/services"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

func serviceCommand(io streams) *cobra.Command {
	return group("service", "Give Services one name in connected clusters",
		exportServiceCommand(io), unexportServiceCommand(io), allowServicesCommand(io), listServicesCommand(io), resolveCommand(io))
}

// newServiceFlags adds the flags for one cluster, and for a second one that may be left out.
func newServiceFlags(cmd *cobra.Command) *pairFlags {
	return withRemote(cmd, "kubeconfig context of the remote cluster (B); without it, only the local one is read",
		"kubeconfig file of the remote cluster; may be repeated (default: as kubectl finds it; if that has no such context, the files of --kubeconfig)")
}

// newOneClusterFlags adds the flags for one cluster. It also adds those for the remote one, because hints and
// people change only the word after `service`. The remote cluster is not read.
func newOneClusterFlags(cmd *cobra.Command) *pairFlags {
	return withRemote(cmd, "taken as service export takes it, and not used: only the local cluster is read and changed",
		"kubeconfig file of the remote cluster: taken as service export takes it, and not used")
}

// withRemote adds the flags for two clusters, with other texts about the remote one.
func withRemote(cmd *cobra.Command, context, kubeconfig string) *pairFlags {
	pair := newPairFlags(cmd, false)
	cmd.Flags().Lookup("remote-context").Usage = context
	cmd.Flags().Lookup("remote-kubeconfig").Usage = kubeconfig
	return pair
}

// servicesOf reads one name, or all names, of the cluster, and of the remote one if it is named.
func servicesOf(ctx context.Context, s *report.Session, pair *pairFlags, name types.NamespacedName) (flows.Facts, error) {
	a, b, closeBoth, err := pair.openFor(!pair.remote.named())
	if err != nil {
		return flows.Facts{}, err
	}
	defer closeBoth()
	f, err := engine.Observe(ctx, a, b, time.Now)
	if err == nil {
		s.Observed(f)
		var answers engine.Answers
		err = answers.Ask(ctx, &f, [2]engine.Cluster{a, b}, service.Asks(name, flows.A, flows.B)...)
		// Whether pods find names also depends on the cluster's DNS.
		if err == nil && f.Sides[flows.A].Problem == nil {
			err = answers.AskAll(ctx, &f, [2]engine.Cluster{a, b}, func(f flows.Facts) []flows.Question {
				asks := service.AsksNames(f, flows.A)
				if name.Name == "" && pair.remote.named() { // B's list follows
					asks = append(asks, service.AsksNames(f, flows.B)...)
				}
				return asks
			})
		}
	}
	if err != nil {
		return f, stopped(ctx, err)
	}
	return f, nil
}

func listServicesCommand(io streams) *cobra.Command {
	var output string
	var pair *pairFlags
	cmd := &cobra.Command{
		Use: "list", Short: "List the Services that have a name in several clusters", Args: noArguments,
		Long: `List the Services that the cluster or one of its peers exports, and those that
the cluster imports: which clusters export them, from which ones the cluster
imports them, their clusterset IPs, what pods call, and how many endpoints are
ready in each cluster. "15s ago" is the age of such a count: a peer's endpoints
are those of the last message of the peer's gateway.

With --remote-context, the remote cluster's list follows. A part that could not
be read is listed as unread. It only reads.
Exit code 8: an export or import has a problem, or a part was not read. A peer
that exchanges no Services is listed, and is none.`,
		Example: `  liqo-tui service list --context rome
  liqo-tui service list -o json --context rome --remote-context milan`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return inSession(io, output, "list", pair, func(s *report.Session) error { return tellServices(cmd.Context(), io, s, pair) })
		},
	}
	pair = newServiceFlags(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", report.Text, report.FormatHelp)
	return cmd
}

func tellServices(ctx context.Context, io streams, s *report.Session, pair *pairFlags) error {
	f, err := servicesOf(ctx, s, pair, types.NamespacedName{})
	if err != nil {
		return err
	}
	sides := []flows.Side{flows.A}
	if pair.remote.named() {
		sides = append(sides, flows.B)
	} else if f.Sides[flows.A].Problem != nil {
		return f.Sides[flows.A].Problem
	}
	doc, bad := report.ServicesDocument{V: report.SchemaVersion}, false
	for _, side := range sides {
		c := report.ClusterServicesOf(f.Sides[side], service.ViewOf(f, side))
		bad = bad || len(c.Unread) > 0
		for _, n := range c.Services {
			bad = bad || len(n.Problems) > 0
		}
		doc.Clusters = append(doc.Clusters, c)
	}
	var unwritten error
	s.Result("services", doc, func() {
		for i, c := range doc.Clusters {
			if i > 0 {
				fmt.Fprintln(io.out)
			}
			unwritten = errors.Join(unwritten, report.WriteServices(io.out, c, f.At))
			if c.Undefined {
				s.Next = append(s.Next, report.NextStep{Command: f.Sides[sides[i]].Ours("install", "--services"), Why: "switches Services by name on"})
			}
		}
		report.WriteNext(io.out, s.Next)
	})
	if unwritten == nil && bad {
		return exit.Verdict(exit.Unhealthy)
	}
	return unwritten
}

func resolveCommand(io streams) *cobra.Command {
	var namespace, output string
	var pair *pairFlags
	cmd := &cobra.Command{
		Use:   "resolve NAMESPACE/NAME",
		Short: "Follow a name to its endpoints, and say what is broken",
		Long: `Follow the name of a Service to the endpoints behind it, as pods of the local
cluster (A) call it: the exports, what the cluster allows its peers, the
ServiceImport, its address and EndpointSlices, the address of an endpoint of
each peer as this cluster sees it, the tunnel, and the cluster's DNS. Each part
is good, broken, or could not be looked at. A broken part comes with the next
step. The name is NAMESPACE/NAME or NAME.NAMESPACE.svc.clusterset.local. Pods
call the latter: NAME.NAMESPACE alone leads to no import, because their search
domains end with cluster.local.

With --remote-context, the remote cluster is asked, too: for its ServiceExport,
and for the endpoint itself. It only reads, and sends no packets.
Exit code 8: a part is broken.`,
		Example: `  liqo-tui service resolve shop/web --context rome
  liqo-tui service resolve web -n shop --context rome --remote-context milan`,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, err := serviceName(args, namespace)
			if err != nil {
				return exit.UsageError{Err: fmt.Errorf("%s: %w", cmd.CommandPath(), err)}
			}
			return inSession(io, output, "resolve", pair, func(s *report.Session) error { return tellWay(cmd.Context(), io, s, pair, name) })
		},
	}
	pair = newServiceFlags(cmd)
	addServiceNamespace(cmd.Flags(), &namespace)
	cmd.Flags().StringVarP(&output, "output", "o", report.Text, report.FormatHelp)
	return cmd
}

func tellWay(ctx context.Context, io streams, s *report.Session, pair *pairFlags, name types.NamespacedName) error {
	f, err := servicesOf(ctx, s, pair, name)
	if err != nil {
		return err
	}
	if p := f.Sides[flows.A].Problem; p != nil {
		return p
	}
	e := services.Explain(service.ViewOf(f, flows.A), name)
	s.Result("explanation", report.ExplanationOf(e), func() { report.WriteExplanation(io.out, e, f.At) })
	if e.Broken() != nil {
		return exit.Verdict(exit.Unhealthy)
	}
	return nil
}

func addServiceNamespace(f *pflag.FlagSet, to *string) {
	f.StringVarP(to, "namespace", "n", "", "namespace of the Service, for a name without one")
}

// serviceName reads the only argument: NAMESPACE/NAME, NAME with --namespace, or the whole name that pods call.
func serviceName(args []string, namespace string) (types.NamespacedName, error) {
	if len(args) != 1 {
		return types.NamespacedName{}, errors.New("name one Service: NAMESPACE/NAME, or NAME with --namespace")
	}
	n := types.NamespacedName{Namespace: namespace, Name: args[0]}
	in, name, ok := strings.Cut(args[0], "/")
	if called, whole := strings.CutSuffix(strings.TrimSuffix(args[0], "."), services.DNSSuffix); whole {
		name, in, ok = strings.Cut(called, ".")
	}
	if ok {
		n = types.NamespacedName{Namespace: in, Name: name}
		if namespace != "" && namespace != in {
			return n, fmt.Errorf("%q is not in the namespace %q: give one of them", args[0], namespace)
		}
	}
	if len(validation.IsDNS1123Label(n.Namespace)) > 0 || len(validation.IsDNS1123Label(n.Name)) > 0 {
		if name, in, dotted := strings.Cut(args[0], "."); dotted && len(validation.IsDNS1123Label(in)) == 0 && len(validation.IsDNS1123Label(name)) == 0 {
			n := types.NamespacedName{Namespace: in, Name: name}
			return n, fmt.Errorf("%q: pods find no imported Service by that: their search domains end with cluster.local. Give %s or %s", args[0], n, services.DNSName(n))
		}
		return n, fmt.Errorf("%q: want NAMESPACE/NAME, or NAME with --namespace", args[0])
	}
	return n, nil
}

func exportServiceCommand(io streams) *cobra.Command {
	var r runFlags
	var namespace, prefer string
	var to []string
	var pair *pairFlags
	cmd := &cobra.Command{
		Use:   "export NAMESPACE/NAME",
		Short: "Export a Service to connected clusters",
		Long: `Export a Service of the local cluster (A): it gets a name that pods of connected
clusters can call. It creates a ServiceExport, and waits until the operator has
judged it. With --remote-context, it also waits until the remote cluster (B)
imports the Service, unless that cluster does not allow it; then it says so.

Settings without a flag stay as they are. A ServiceExport of somebody else is
changed only as the plan shows. If several clusters export one name, all their
endpoints serve it.`,
		Example: `  liqo-tui service export shop/web --context rome
  liqo-tui service export web -n shop --to milan,turin \
    --context rome --remote-context milan`,
	}
	pair = newServiceFlags(cmd)
	r.add(cmd)
	f := cmd.Flags()
	addServiceNamespace(f, &namespace)
	f.StringSliceVar(&to, "to", nil, "cluster IDs of the peers that get the Service, separated by commas; "+allPeers+" for all peers (default: unchanged, at first all)")
	f.StringVar(&prefer, "prefer", "", "local: this cluster's pods use endpoints of peers only while this cluster has none that are ready; any: they use all (default: unchanged, at first any)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		p := service.ExportParams{LocalOnly: !pair.remote.named()}
		op := operation{
			name: "export", undo: "service unexport", localOnly: p.LocalOnly,
			goal: func() (_ flows.Goal, err error) {
				if p.Name, err = serviceName(args, namespace); err == nil {
					err = setExport(&p, to, prefer)
				}
				if err != nil {
					return nil, exit.UsageError{Err: err}
				}
				return flows.Planner(func(f flows.Facts) flows.Plan { return service.Export(p, f) }), nil
			},
			done: func(e engine.Event) report.Achieved {
				text, fixes := service.Exported(p, e.Facts)
				a := report.Achieved{Text: text}
				for _, fix := range fixes {
					for _, c := range fix.Commands() {
						a.Next = append(a.Next, report.NextStep{Command: c, Why: "lets the other cluster import it"})
					}
				}
				a.Next = append(a.Next, report.NextStep{Command: e.Facts.Sides[flows.A].Ours("service", "list"), Why: "lists all exports and imports"})
				return a
			},
		}
		return op.run(cmd.Context(), io, pair, r)
	}
	return cmd
}

// allPeers is the value of --to for all peers, and any is the value of --prefer for no preference.
const (
	allPeers  = "all"
	preferAny = "any"
)

// setExport sets what the flags --to and --prefer say.
func setExport(p *service.ExportParams, to []string, prefer string) error {
	switch prefer {
	case "":
	case preferAny:
		p.Prefer = new("")
	case wire.PreferLocal:
		p.Prefer = new(wire.PreferLocal)
	default:
		return fmt.Errorf("--prefer %q: want %s or %s", prefer, wire.PreferLocal, preferAny)
	}
	for _, id := range to {
		if err := wire.ClusterID(id).Validate(); err != nil {
			return fmt.Errorf("--to: %w", err)
		}
		p.To = append(p.To, wire.ClusterID(id))
	}
	if p.All = slices.Contains(to, allPeers); p.All && len(to) > 1 {
		return fmt.Errorf("--to: give %s, or cluster IDs", allPeers)
	}
	if p.All {
		p.To = nil
	}
	return nil
}

func unexportServiceCommand(io streams) *cobra.Command {
	var r runFlags
	var namespace string
	var pair *pairFlags
	cmd := &cobra.Command{
		Use:   "unexport NAMESPACE/NAME",
		Short: "End the export of a Service",
		Long: `End the export of a Service: its ServiceExport is deleted, and with it what
other clusters have made of it. The Service itself stays, and so do the exports
of other clusters.`,
		Example: `  liqo-tui service unexport shop/web --context rome`,
	}
	pair = newOneClusterFlags(cmd)
	r.add(cmd)
	addServiceNamespace(cmd.Flags(), &namespace)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var name types.NamespacedName
		op := operation{
			name: "unexport", localOnly: true,
			goal: func() (_ flows.Goal, err error) {
				if name, err = serviceName(args, namespace); err != nil {
					return nil, exit.UsageError{Err: err}
				}
				return flows.Planner(func(f flows.Facts) flows.Plan { return service.Unexport(name, f) }), nil
			},
			done: func(e engine.Event) report.Achieved {
				return report.Achieved{Text: fmt.Sprintf("%s does not export %s.", e.Facts.Sides[flows.A].Name(), name)}
			},
		}
		return op.run(cmd.Context(), io, pair, r)
	}
	return cmd
}

func allowServicesCommand(io streams) *cobra.Command {
	var r runFlags
	var p service.AllowParams
	var all, none bool
	var pair *pairFlags
	cmd := &cobra.Command{
		Use:   "allow",
		Short: "Say into which namespaces Services of a peer are imported",
		Long: `Say into which namespaces of the cluster Services of a peer are imported. It
replaces what was allowed before. A peer that exports a Service into a namespace
serves the Service of that name there, together with this cluster if it exports
the name, too. So allow only namespaces in which the peer means the same.

network connect allows all namespaces in a new connection, since one admin has
both clusters. network join and accept allow none. Nothing is ever imported into
default, kube-… and the namespaces of liqo-tui.`,
		Example: `  liqo-tui service allow --from milan --namespace shop,payments --context rome
  liqo-tui service allow --from milan --none --context rome`,
		Args: noArguments,
	}
	pair = newOneClusterFlags(cmd)
	r.add(cmd)
	f := cmd.Flags()
	f.StringVar((*string)(&p.From), "from", "", "cluster ID of the peer")
	f.StringSliceVarP(&p.Namespaces.Names, "namespace", "n", nil, "the namespaces, separated by commas")
	f.BoolVar(&all, "all", false, "allow all namespaces")
	f.BoolVar(&none, "none", false, "allow no namespace")
	cmd.MarkFlagsMutuallyExclusive("namespace", "all", "none")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		op := operation{
			name: "allow", localOnly: true,
			goal: func() (flows.Goal, error) {
				switch p.Namespaces.All = all; {
				case p.From == "":
					return nil, exit.UsageError{Err: errors.New("name the peer: --from CLUSTER")}
				case !all && !none && len(p.Namespaces.Names) == 0:
					return nil, exit.UsageError{Err: errors.New("give one of --namespace, --all and --none")}
				}
				for _, n := range p.Namespaces.Names {
					if len(validation.IsDNS1123Label(n)) > 0 {
						return nil, exit.UsageError{Err: fmt.Errorf("--namespace %q: want the name of a namespace", n)}
					}
				}
				slices.Sort(p.Namespaces.Names)
				p.Namespaces.Names = slices.Compact(p.Namespaces.Names)
				return flows.Planner(func(f flows.Facts) flows.Plan { return service.Allow(p, f) }), nil
			},
			done: func(e engine.Event) report.Achieved {
				return report.Achieved{Text: service.Allowed(p, e.Facts), Next: []report.NextStep{{Command: e.Facts.Sides[flows.A].Ours("service", "list"), Why: "lists what is imported"}}}
			},
		}
		return op.run(cmd.Context(), io, pair, r)
	}
	return cmd
}
