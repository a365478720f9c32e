// Command lab runs real Kubernetes clusters on one Linux machine, side by side
// and without virtual machines, containers or an image registry: two of them
// are up in about five seconds.
//
// # What it takes
//
// Root, and Debian's containerd, runc, containernetworking-plugins, iptables,
// nftables, ipset, iproute2, procps and util-linux. The programs kubelab, built from
// ./kubelab of this module, and kubectl lie beside this program; image archives
// (docker or OCI, *.tar) lie in the folder images beside it and must include
// lab.local/pod:v1, built from ./pod.
//
// # What is real
//
// etcd, kube-apiserver, kube-controller-manager, kube-scheduler, containerd, runc, kubelet and
// kube-proxy (nftables or iptables). The network plugin is the CNI's bridge or ptp plugin, which
// masquerades all packets that leave the node's own pods; or flannel (the program flanneld beside this
// one, built from ../flannel); or Calico (the folder calico beside this program, built from
// ../calico); or Cilium (the folder cilium, built from ../cilium, and Debian's clang-19), with
// kube-proxy or instead of it; or ptp with addresses and source checks as in a cloud (vpc). With
// --liqo, Liqo's own controllers run, with one source file of ours (testdata/liqo): VXLAN between its
// pods instead of Geneve. A node is a process with its own network, mount, pid, uts and ipc
// namespaces. All processes of the node end with it. No process can reach the internet. There is no DNS
// server, until `lab dns` makes the one of kubeadm (the program kubeadm and the image coredns.tar, built
// from ../coredns, beside this program).
//
// # Addresses
//
// The clusters meet in a routed network 172.30.0.0/24 that stands for the
// internet. Cluster C (1, 2, … in the order of --clusters), node N:
//
//	172.30.0.1                      this machine, device labwan
//	172.30.0.254                    the router between the clusters (network namespace lab-wan)
//	172.30.0.(10*N+C)               node: rome-1 .11, milan-1 .12, rome-2 .21; API server on port 6443 of node 1
//	172.30.0.(96+16*C)/28           services of type LoadBalancer: rome .112 to .127, milan .128 to .143. The last one
//	                                is a name of the API server's
//	192.168.(100+C).0/24            the nodes (.(10*N+C)) and load balancers of a cluster behind NAT (--nat);
//	                                its router is .1 and has 172.30.0.(10+C) outside. Only this machine gets in.
//	                                With another --wan it is another block of 192.168.
//	10.244.(N-1).0/24, 10.96.0.0/16 pods of a node and services: the same in every cluster
//	                                that --pods does not name
//	fd1b:1e00:C::N                  the same node in a cluster that --ipv6 names; the router is fd1b:1e00:C::fe.
//	                                With another --wan it is another network of fd1b::/16
//	fd00:10:244:(N-1)::/64, fd00:10:96::/112 its pods and services
//
// # Fresh again
//
// `lab fresh` makes a lab with a given shape in its first state. It resets an existing lab if the
// shape, programs and images are the same. `lab mark` stores a listing of a lab: objects of all kinds
// with the fields that an admin sets; the links, routes, rules and nftables of each node and router;
// and the processes, mounts, images, and files in /etc and /opt of each node. Objects that change by
// themselves are left out. `lab reset` deletes new objects, restores other objects, starts dead nodes,
// and restores paths. Then the nodes have to match the listing within a minute. Otherwise it lists new
// and missing objects, makes these nodes again, and fails. `lab diff` only compares.
//
// # What it leaves
//
// Nothing, after `lab down`, even if processes were killed before. Only the folder /run/netns stays,
// which ip(8) makes. The settings of the kernel never change, and a node has its own /etc, /opt, /run
// and /var on top of the machine's. Several labs can run at the same time with different --dir, --name
// and --wan.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
)

const (
	// Variables that give a second lab on the same machine other defaults than the first.
	dirVariable  = "LIQO_TUI_LAB_DIR"
	nameVariable = "LIQO_TUI_LAB_NAME"
	wanVariable  = "LIQO_TUI_LAB_WAN"

	defaultDir  = "/run/liqo-tui-lab"
	defaultName = "lab"
	defaultWAN  = "172.30.0.0/24"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) == 3 && os.Args[1] == nodeInitCommand {
		// A node's PID 1 gets no signals but SIGKILL.
		fmt.Fprintln(os.Stderr, "lab:", nodeInit(os.Args[2]))
		os.Exit(1)
	}
	if err := command().ExecuteContext(ctx); err != nil {
		printError(err)
		stop()
		os.Exit(1)
	}
}

func printError(err error) {
	fmt.Fprintln(os.Stderr, "lab:", err)
	if errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "interrupted; `lab up` goes on, `lab down` removes what there is")
	}
	if component, ok := errors.AsType[*componentError](err); ok {
		fmt.Fprintf(os.Stderr, "--- end of %s\n%s\n---\n", component.log, component.tail)
		fmt.Fprintln(os.Stderr, "the lab is left as it is, for a look; `lab up` tries again, `lab down` removes it")
	}
}

func command() *cobra.Command {
	root := &cobra.Command{
		Use:           "lab",
		Short:         "real Kubernetes clusters on this machine",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	dir := cmp.Or(os.Getenv(dirVariable), defaultDir)
	root.PersistentFlags().StringVar(&dir, "dir", dir, "state of the lab (or set "+dirVariable+")")
	root.AddCommand(upCommand(&dir), downCommand(&dir), statusCommand(&dir), loadCommand(&dir), dnsCommand(&dir),
		kubeconfigCommand(&dir), kubectlCommand(&dir), execCommand(&dir), cutCommand(&dir), rebindCommand(&dir), forwardCommand(&dir), narrowCommand(&dir),
		restoreCommand(&dir), freshCommand(&dir), markCommand(&dir), diffCommand(&dir), resetCommand(&dir))
	return root
}

func newReporter() *reporter { return &reporter{out: os.Stderr, since: time.Now()} }

func upCommand(dir *string) *cobra.Command {
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "up",
		Short: "start the clusters, or what is missing of them",
		Args:  cobra.NoArgs,
	}
	shape := shapeFlags(cmd, dir)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		asked, err := shape()
		if err != nil {
			return err
		}
		return runUp(cmd, asked, timeout)
	}
	cmd.Flags().DurationVar(&timeout, "timeout", 6*time.Minute, "for all clusters to be ready")
	return cmd
}

// shapeFlags adds the flags that describe a lab. shape returns the lab that they describe.
func shapeFlags(cmd *cobra.Command, dir *string) (shape func() (Lab, error)) {
	var (
		asked Lab
		wan   string
		pods  map[string]string
	)
	flags := cmd.Flags()
	flags.StringSliceVar(&asked.Clusters, "clusters", []string{"rome", "milan"}, "their names")
	flags.IntVar(&asked.Nodes, "nodes", 1, "nodes per cluster")
	flags.StringSliceVar(&asked.NAT, "nat", nil, "clusters behind a masquerading router")
	flags.IntVar(&asked.MTU, "mtu", 0, "path MTU between clusters (links keep 1500)")
	flags.StringVar(&asked.LB, "lb", lbServed, "load balancers: "+lbServed+" or "+lbPending)
	flags.StringToStringVar(&asked.CNI, "cni", nil, "network plugins other than "+cniBridge+", as in milan="+cniPTP+",oslo="+cniFlannel+" ("+strings.Join(networkPlugins(), ", ")+", "+cniCilium+":"+strings.Join(ciliumModes(), "+")+")")
	flags.StringToStringVar(&asked.Proxy, "proxy", nil, "kube-proxy in another mode than "+proxyNFTables+", as in milan="+proxyIPTables)
	flags.StringToStringVar(&pods, "pods", nil, "pod networks other than "+podNetwork+", as in milan=10.244.0.0/17+10.200.0.0/16")
	flags.StringToStringVar(&asked.Liqo, "liqo", nil, "clusters where Liqo runs, and its release, as in rome=1.2 (folder liqo-1.2 beside this program)")
	flags.StringToStringVar(&asked.IPv6, "ipv6", nil, "clusters of both families, and the place of IPv6 in them: "+ipv6First+" or "+ipv6Second+", as in milan="+ipv6First)
	flags.StringVar(&asked.Images, "images", "", "folder of *.tar to import (default: images, beside this program)")
	flags.StringVar(&asked.Name, "name", cmp.Or(os.Getenv(nameVariable), defaultName), "prefix of namespaces, cgroups and devices (or set "+nameVariable+")")
	flags.StringVar(&wan, "wan", cmp.Or(os.Getenv(wanVariable), defaultWAN), "network between the clusters, a /24 (or set "+wanVariable+")")
	return func() (Lab, error) {
		var err error
		if asked.WAN, err = netip.ParsePrefix(wan); err != nil {
			return Lab{}, fmt.Errorf("--wan: %w", err)
		}
		if asked.Pods, err = parsePods(pods); err != nil {
			return Lab{}, err
		}
		if asked.Dir, err = filepath.Abs(*dir); err != nil {
			return Lab{}, err
		}
		if asked.Images, err = imagesFolder(asked.Images); err != nil {
			return Lab{}, err
		}
		return asked, errors.Join(asked.Validate(), checkDir(asked.Dir))
	}
}

// parsePods reads the networks of each cluster. Plus signs separate networks, because commas separate
// clusters.
func parsePods(flag map[string]string) (map[string][]netip.Prefix, error) {
	pods := map[string][]netip.Prefix{}
	for cluster, text := range flag {
		for network := range strings.SplitSeq(text, "+") {
			p, err := netip.ParsePrefix(network)
			if err != nil {
				return nil, fmt.Errorf("--pods %s: %w", cluster, err)
			}
			pods[cluster] = append(pods[cluster], p)
		}
	}
	return pods, nil
}

func imagesFolder(flag string) (string, error) {
	if flag != "" {
		return filepath.Abs(flag)
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	return filepath.Join(filepath.Dir(self), "images"), nil
}

func runUp(cmd *cobra.Command, asked Lab, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
	defer cancel()
	if err := checkMachine(); err != nil {
		return err
	}
	r := newReporter()
	if err := lock(ctx, asked.Dir, r); err != nil {
		return err
	}
	l, err := readLab(asked.Dir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if lost, found := recoverLab(asked.Dir); found {
			return fmt.Errorf("the state of the running lab %s in %s is lost: `lab down` first", lost.Name, asked.Dir)
		}
		l = asked
	case err != nil:
		return err
	default:
		if differing := differing(cmd, l, asked); len(differing) > 0 {
			return fmt.Errorf("this lab was made with other values of %v: `lab down` first", differing)
		}
	}
	if err := up(ctx, l, r); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, `
  export KUBECONFIG=%s        # contexts:%s
  lab kubectl %s get pods -A      lab exec %[3]s -- ip addr      lab status      lab down
`, l.kubeconfig(), contextNames(l), l.Clusters[0])
	return nil
}

func contextNames(l Lab) string {
	var names strings.Builder
	for _, c := range l.Plan() {
		names.WriteString(" " + c.contextName())
	}
	return names.String()
}

// differing returns the flags whose value differs from that of the lab.
func differing(cmd *cobra.Command, l, asked Lab) []string {
	var names []string
	for name, values := range map[string][2]any{
		"clusters": {l.Clusters, asked.Clusters},
		"nodes":    {l.Nodes, asked.Nodes},
		"nat":      {l.NAT, asked.NAT},
		"mtu":      {l.MTU, asked.MTU},
		"lb":       {l.LB, asked.LB},
		"cni":      {l.CNI, asked.CNI},
		"proxy":    {l.Proxy, asked.Proxy},
		"pods":     {l.Pods, asked.Pods},
		"liqo":     {l.Liqo, asked.Liqo},
		"ipv6":     {l.IPv6, asked.IPv6},
		"images":   {l.Images, asked.Images},
		"name":     {l.Name, asked.Name},
		"wan":      {l.WAN, asked.WAN},
	} {
		if cmd.Flags().Changed(name) && !reflect.DeepEqual(values[0], values[1]) {
			names = append(names, "--"+name)
		}
	}
	slices.Sort(names)
	return names
}

func downCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "remove all traces of the lab",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path, err := filepath.Abs(*dir)
			if err != nil {
				return err
			}
			if err := errors.Join(checkMachine(), checkDir(path)); err != nil {
				return err
			}
			r := newReporter()
			if err := lock(cmd.Context(), path, r); err != nil {
				return err
			}
			l, err := readLab(path)
			if errors.Is(err, os.ErrNotExist) {
				lost, found := recoverLab(path)
				if !found {
					lost = Lab{Dir: path} // nothing is made before lab.json is written
					return lost.removeState()
				}
				l, err = lost, nil
			}
			if err != nil {
				return err
			}
			return down(l, r)
		},
	}
}

func withLab(dir *string, work func(cmd *cobra.Command, l Lab, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		path, err := filepath.Abs(*dir)
		if err != nil {
			return err
		}
		l, err := readLab(path)
		if errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("no lab in %s: `lab up` makes one", path)
		}
		if err != nil {
			return err
		}
		return work(cmd, l, args)
	}
}

func statusCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "show nodes and cut paths; exit status 1 unless all nodes are ready",
		Args:  cobra.NoArgs,
		RunE: withLab(dir, func(cmd *cobra.Command, l Lab, _ []string) error {
			ready, err := status(cmd.Context(), l, cmd.OutOrStdout())
			if err == nil && !ready {
				err = errors.New("not all nodes are ready; `lab up` starts dead ones again")
			}
			return err
		}),
	}
}

func loadCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "load IMAGE.tar...",
		Short: "import images into every node",
		Args:  cobra.MinimumNArgs(1),
		RunE: withLab(dir, func(_ *cobra.Command, l Lab, args []string) error {
			_, err := loadImages(l, args, newReporter())
			return err
		}),
	}
}

func kubeconfigCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "kubeconfig",
		Short: "print the path of the kubeconfig with the admins of all clusters",
		Args:  cobra.NoArgs,
		RunE: withLab(dir, func(cmd *cobra.Command, l Lab, _ []string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), l.kubeconfig())
			return err
		}),
	}
}

func kubectlCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl CLUSTER ARGS...",
		Short:              "run kubectl as admin of a cluster",
		Args:               cobra.MinimumNArgs(1),
		DisableFlagParsing: true, // the flags are kubectl's
		RunE: withLab(dir, func(_ *cobra.Command, l Lab, args []string) error {
			c, err := l.Cluster(args[0])
			if err != nil {
				return err
			}
			argv := []string{l.tool("kubectl"), "--kubeconfig=" + l.adminKubeconfig(c)}
			return become(append(argv, args[1:]...), os.Environ())
		}),
	}
}

func execCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "exec CLUSTER [NODE] -- COMMAND...",
		Short: "run a command on a node, by default the first",
		RunE: withLab(dir, func(cmd *cobra.Command, l Lab, args []string) error {
			dash := cmd.ArgsLenAtDash()
			if dash < 1 || dash > 2 || len(args) == dash {
				return errors.New("usage: lab " + cmd.Use)
			}
			c, err := l.Cluster(args[0])
			if err != nil {
				return err
			}
			name := ""
			if dash == 2 {
				name = args[1]
			}
			n, err := c.Node(name)
			if err != nil {
				return err
			}
			argv, err := l.enterArgs(n, args[dash:])
			if err != nil {
				return err
			}
			return become(argv, l.environment(c))
		}),
	}
}

func cutCommand(dir *string) *cobra.Command {
	var direction, port string
	cmd := &cobra.Command{
		Use:   "cut A B",
		Short: "drop packets between two clusters until `lab restore`",
		Args:  cobra.ExactArgs(2),
		RunE: withLab(dir, func(_ *cobra.Command, l Lab, args []string) error {
			c, err := parseCut(l, args[0], args[1], direction, port)
			if err != nil {
				return err
			}
			return c.apply(l)
		}),
	}
	cmd.Flags().StringVar(&direction, "direction", "", "only one way: a-to-b or b-to-a")
	cmd.Flags().StringVar(&port, "port", "", "only from or to a port, as in udp/51840")
	return cmd
}

func rebindCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "rebind CLUSTER",
		Short: "have the cluster's UDP come from another address and other ports, and from others again each time",
		Args:  cobra.ExactArgs(1),
		RunE:  withLab(dir, func(_ *cobra.Command, l Lab, args []string) error { return rebind(l, args[0]) }),
	}
}

func forwardCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "forward CLUSTER PORT NODE_PORT",
		Short: "have the router of a cluster behind NAT pass a UDP port on to the first node",
		Args:  cobra.ExactArgs(3),
		RunE: withLab(dir, func(_ *cobra.Command, l Lab, args []string) error {
			ports, err := parsePorts(args[1:])
			if err != nil {
				return err
			}
			return forward(l, args[0], ports[0], ports[1])
		}),
	}
}

func narrowCommand(dir *string) *cobra.Command {
	var hole bool
	cmd := &cobra.Command{
		Use:   "narrow BYTES",
		Short: "limit the path MTU between all clusters until `lab restore`",
		Args:  cobra.ExactArgs(1),
		RunE: withLab(dir, func(_ *cobra.Command, l Lab, args []string) error {
			mtu, err := strconv.Atoi(args[0])
			if err != nil {
				return fmt.Errorf("narrow %q: want a number of bytes", args[0])
			}
			return narrow(l, mtu, hole)
		}),
	}
	cmd.Flags().BoolVar(&hole, "hole", false, "drop what is longer without a word")
	return cmd
}

func restoreCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "restore",
		Short: "undo cut, rebind and narrow",
		Args:  cobra.NoArgs,
		RunE:  withLab(dir, func(_ *cobra.Command, l Lab, _ []string) error { return restorePaths(l) }),
	}
}

func freshCommand(dir *string) *cobra.Command {
	var timeout, patience time.Duration
	var archives []string
	cmd := &cobra.Command{
		Use:   "fresh",
		Short: "have a fresh lab: reset one that is as asked, or make one in the place of another, and mark it",
		Args:  cobra.NoArgs,
	}
	shape := shapeFlags(cmd, dir)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		asked, err := shape()
		if err != nil {
			return err
		}
		if err := checkMachine(); err != nil {
			return err
		}
		for i, archive := range archives {
			if archives[i], err = filepath.Abs(archive); err != nil {
				return err
			}
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), timeout)
		defer cancel()
		r := newReporter()
		if err := lock(ctx, asked.Dir, r); err != nil {
			return err
		}
		return makeFresh(ctx, asked, archives, patience, r)
	}
	cmd.Flags().StringSliceVar(&archives, "load", nil, "image archives to import into every node")
	cmd.Flags().DurationVar(&timeout, "timeout", 6*time.Minute, "for all clusters to be ready")
	patienceFlag(cmd, &patience)
	return cmd
}

func patienceFlag(cmd *cobra.Command, patience *time.Duration) {
	cmd.Flags().DurationVar(patience, "patience", time.Minute, "how long to wait for what goes by itself")
}

func markCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "mark",
		Short: "keep how the lab is now, for `lab reset`",
		Args:  cobra.NoArgs,
		RunE: withLab(dir, func(cmd *cobra.Command, l Lab, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), time.Minute)
			defer cancel()
			return l.markLab(ctx, "", newReporter())
		}),
	}
}

func diffCommand(dir *string) *cobra.Command {
	return &cobra.Command{
		Use:   "diff",
		Short: "show what is otherwise than when the lab was marked; exit status 1 if anything is",
		Args:  cobra.NoArgs,
		RunE: withLab(dir, func(cmd *cobra.Command, l Lab, _ []string) error {
			fresh, err := l.marked()
			if err != nil {
				return err
			}
			now, err := l.look(cmd.Context())
			if err != nil {
				return err
			}
			if left := diff(fresh.listing(fresh), now.listing(fresh)); len(left) > 0 {
				return &leftError{lines: left}
			}
			return nil
		}),
	}
}

func resetCommand(dir *string) *cobra.Command {
	var patience time.Duration
	cmd := &cobra.Command{
		Use:   "reset",
		Short: "lead the lab back to how it was marked; exit status 1 if it took more than an admin's commands",
		Args:  cobra.NoArgs,
		RunE: withLab(dir, func(cmd *cobra.Command, l Lab, _ []string) error {
			r := newReporter()
			if err := lock(cmd.Context(), l.Dir, r); err != nil {
				return err
			}
			return l.reset(cmd.Context(), patience, r)
		}),
	}
	patienceFlag(cmd, &patience)
	return cmd
}
