package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/render"
)

// auto is the value of flags that facts can answer.
const auto = "auto"

// connectFlags are what an admin may want of a connection, as text: some are
// decided when both clusters have been looked at.
type connectFlags struct {
	params       flows.Params
	server       string // --server-location
	serviceType  string
	mtu          string
	wait         waitLevel
	install      bool
	image        string    // of the installation
	ids          [2]string // of clusters that get our operator
	localTenant  string
	remoteTenant string
}

func newConnectFlags() *connectFlags {
	d := flows.Defaults()
	return &connectFlags{params: d, server: "Remote", serviceType: string(d.ServiceType), mtu: strconv.Itoa(d.MTU)}
}

// addTenants adds what init needs too.
func (c *connectFlags) addTenants(f *pflag.FlagSet) {
	f.StringVarP(&c.localTenant, "namespace", "n", "", "tenant namespace on the local cluster (default: the peering's own, or liqo-tenant-CLUSTER_ID)")
	f.StringVar(&c.remoteTenant, "remote-namespace", "", "tenant namespace on the remote cluster (default: the same)")
	c.addWait(f)
}

func (c *connectFlags) addWait(f *pflag.FlagSet) {
	f.Var(&c.wait, "wait", "what to wait for: none, connected (the gateways answer each other's pings) or verified (packets pass from pod to pod)")
	f.Lookup("wait").NoOptDefVal = flows.WaitConnected.String()
}

func (c *connectFlags) add(f *pflag.FlagSet) {
	c.addTenants(f)
	f.StringVar(&c.server, "server-location", c.server, "cluster that hosts the gateway server: Remote, Local, or auto for one that can be reached")
	c.addServer(f)
	c.addClientTemplate(f)
}

// addServer adds what is said of the gateway server, wherever it is.
func (c *connectFlags) addServer(f *pflag.FlagSet) {
	p := &c.params
	f.StringVar(&c.serviceType, "server-service-type", c.serviceType, "how the gateway server is exposed: LoadBalancer, NodePort, ClusterIP, or auto: LoadBalancer if the cluster has one, else NodePort")
	f.Uint16Var(&p.Port, "server-port", p.Port, "UDP port of the gateway server's Service")
	f.Uint16Var(&p.NodePort, "node-port", 0, "node port of the gateway server (default: Kubernetes chooses); 0 takes back an earlier choice")
	f.StringVar(&p.LoadBalancerIP, "load-balancer-ip", "", "address to request from the load balancer (default: it chooses); \"\" takes back an earlier choice")
	f.StringVar(&p.ClientAddress, "client-address", "", "address or name that the client dials (default: the server's own)")
	f.Uint16Var(&p.ClientPort, "client-port", 0, "port that the client dials (default: the server's own)")
	f.StringVar(&c.mtu, "mtu", c.mtu, "largest packet in the tunnel, in bytes; auto: what the gateways find out (with Liqo's gateways: 1340)")
	f.StringVar(&p.ServerTemplate.Name, "server-template-name", p.ServerTemplate.Name, "template of the gateway server")
	f.StringVar(&p.ServerTemplate.Namespace, "server-template-namespace", "", "its namespace (default: Liqo's)")
}

func (c *connectFlags) addClientTemplate(f *pflag.FlagSet) {
	p := &c.params
	f.StringVar(&p.ClientTemplate.Name, "client-template-name", p.ClientTemplate.Name, "template of the gateway client")
	f.StringVar(&p.ClientTemplate.Namespace, "client-template-namespace", "", "its namespace (default: Liqo's)")
}

// fieldOf are the flags that a connection may already have an answer to.
var fieldOf = map[string]flows.Fields{
	"server-location": flows.FieldServer, "server-service-type": flows.FieldServiceType, "server-port": flows.FieldPort,
	"node-port": flows.FieldNodePort, "load-balancer-ip": flows.FieldLoadBalancerIP, "mtu": flows.FieldMTU,
	"client-address": flows.FieldClientAddress, "client-port": flows.FieldClientPort,
	"server-template-name": flows.FieldServerTemplate, "client-template-name": flows.FieldClientTemplate,
	"server-template-namespace": flows.FieldServerTemplate, "client-template-namespace": flows.FieldClientTemplate,
}

// parse gives the parameters, and the fields that facts are to decide. changed
// reports whether a flag was given; a connection keeps what was not.
func (c *connectFlags) parse(changed func(flag string) bool) (p flows.Params, open flows.Fields, err error) {
	p = c.params
	p.Wait, p.Namespaces = c.wait.level, [2]string{c.localTenant, c.remoteTenant}
	for name, field := range fieldOf {
		if changed(name) {
			p.Given |= field
		}
	}
	var errs []error
	p.ServiceType = parseServiceType(c.serviceType)
	if c.serviceType == auto {
		open, p.ServiceType = open|flows.FieldServiceType, flows.Defaults().ServiceType
	}
	if p.Server, err = parseLocation(c.server); c.server == auto {
		open |= flows.FieldServer
	} else if err != nil {
		errs = append(errs, err)
	}
	if p.MTU, err = strconv.Atoi(c.mtu); c.mtu == auto {
		open, p.MTU = open|flows.FieldMTU, flows.Defaults().MTU
	} else if err != nil {
		p.MTU = flows.Defaults().MTU
		errs = append(errs, fmt.Errorf("--mtu %q: want a number of bytes, or auto", c.mtu))
	}
	if err := errors.Join(append(errs, p.Validate())...); err != nil {
		return p, 0, usageError{err}
	}
	p.Given &^= open
	return p, open, nil
}

// plan decides what was left to facts once both clusters are in sight.
func (c *connectFlags) plan(changed func(flag string) bool) (func(flows.Facts) flows.Plan, error) {
	p, open, err := c.parse(changed)
	if err != nil {
		return nil, err
	}
	if open == 0 && !c.install {
		return flows.Connecting(p), nil
	}
	var decided func(flows.Facts) flows.Plan
	var reasons []string
	return func(f flows.Facts) flows.Plan {
		if decided == nil {
			settled := p
			if c.install {
				var failed *flows.Step
				if settled.Install, failed = c.installations(f); failed != nil {
					return flows.Plan{Steps: []flows.Step{*failed}, A: f.Local.ID, B: f.Remote.ID}
				}
			}
			if plan := flows.PlanConnect(settled, f); plan.Failure() != nil {
				return plan // not yet in sight, or not fit for it
			}
			settled, reasons = settle(settled, open, f)
			decided = flows.Connecting(settled)
		}
		plan := decided(f)
		plan.Kept = slices.Concat(reasons, plan.Kept)
		return plan
	}, nil
}

// installations are those that the sides without any software need.
func (c *connectFlags) installations(f flows.Facts) (all [2]*flows.Installation, failed *flows.Step) {
	for _, side := range []flows.Side{flows.A, flows.B} {
		facts := f.Side(side)
		if !facts.Installable() {
			continue
		}
		var err error
		all[side], err = flows.NewInstallation(render.InstallParams{
			ClusterID: cmp.Or(facts.ID, render.ClusterID(c.ids[side]), idFrom(facts.Context.Name)),
			Namespace: facts.Namespace, Image: c.image, ExternalCIDR: string(facts.ExternalCIDR),
		})
		if err != nil {
			return all, &flows.Step{
				ID: flows.StepID("install-" + sideName(side)), Side: side, Action: flows.Wait, Title: "the operator can be installed",
				Status: flows.Failed, Kind: flows.FailedPreflight, Code: flows.CodeUnfit, Reason: err.Error(),
				Hint: "give " + [...]string{"--cluster-id", "--remote-cluster-id"}[side] + " or --image; liqo-tui install has more to choose",
			}
		}
	}
	return all, nil
}

// settle decides the open fields, with a sentence for each. What a connection
// has already is kept.
func settle(p flows.Params, open flows.Fields, f flows.Facts) (flows.Params, []string) {
	if _, exists := flows.Adopt(p, f); exists {
		return p, nil
	}
	var reasons []string
	because := func(flag, value, why string) {
		reasons = append(reasons, fmt.Sprintf("--%s is %s, because %s", flag, value, why))
	}
	if open.Has(flows.FieldServer) {
		var why string
		p.Server, why = check.SuggestServer(f)
		because("server-location", locationName(p.Server), why)
	}
	if open.Has(flows.FieldServiceType) {
		var why string
		p.ServiceType, why = check.SuggestServiceType(f.Side(p.Server))
		because("server-service-type", string(p.ServiceType), why)
	}
	if open.Has(flows.FieldMTU) {
		var why string
		p.MTU, why = suggestMTU(f)
		because("mtu", strconv.Itoa(p.MTU), why)
	}
	p.Given |= open
	return p, reasons
}

// largestMTU is a bound that no network reaches: our gateways lower it to what
// their own network carries, and then to what they find to pass.
const largestMTU = 9000

func suggestMTU(f flows.Facts) (int, string) {
	for _, side := range []flows.Side{flows.A, flows.B} {
		if c := f.Side(side); c.Software != flows.Operator {
			return flows.Defaults().MTU, fmt.Sprintf("%s's gateway does not look for what passes", c.ID)
		}
	}
	return largestMTU, "both gateways use what they find to pass, up to this"
}

func locationName(s flows.Side) string {
	if s == flows.A {
		return "Local"
	}
	return "Remote"
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
	return flows.B, fmt.Errorf("--server-location %q: want Remote, Local or auto", text)
}

// waitLevel is --wait: liqoctl's is a switch.
type waitLevel struct{ level flows.WaitLevel }

func (w *waitLevel) String() string { return w.level.String() }
func (*waitLevel) Type() string     { return "level" }

// Set implements [pflag.Value].
func (w *waitLevel) Set(text string) error {
	switch strings.ToLower(text) {
	case "none", "false":
		w.level = flows.WaitNone
	case "connected", "true":
		w.level = flows.WaitConnected
	case "verified":
		w.level = flows.WaitVerified
	default:
		return errors.New("want none, connected or verified")
	}
	return nil
}

func connectCommand(io streams, pair *pairFlags) *cobra.Command {
	var r runFlags
	var e exportFlags
	var file string
	c := newConnectFlags()
	cmd := &cobra.Command{
		Use:   "connect",
		Short: "Connect two clusters, and wait until the gateways are connected",
		Long: `Connect the pod networks of the local (A) and the remote (B) cluster.

It shows a plan and asks, unless --yes is given. Run it again to continue where
an earlier run stopped. If there is nothing to do, it says so.

Run it with other flags to change a connection. Settings without a flag stay as
they are. The plan says which changes interrupt traffic.`,
		Example: `  liqo-tui network connect --context rome --remote-context milan \
    --server-service-type NodePort

  # install the operator where it is needed, and connect
  liqo-tui network connect --install --image registry.example/liqo-gateway:v1 \
    --context rome --remote-context milan

  # what would it do? exit code 4 if anything
  liqo-tui network connect --context rome --remote-context milan --dry-run`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case file != "":
				return connectMany(cmd.Context(), io, file, cmd.Flags(), r)
			case e.folder != "":
				return e.run(cmd.Context(), io, pair, c, cmd.Flags().Changed)
			}
			op := operation{
				name: "connect",
				plan: func() (func(flows.Facts) flows.Plan, error) { return c.plan(cmd.Flags().Changed) },
				done: func(f flows.Facts) achieved { return connected(pair, c.wait.level, f) },
			}
			return op.run(cmd.Context(), io, pair, r)
		},
	}
	r.add(cmd)
	f := cmd.Flags()
	c.add(f)
	f.StringVarP(&file, "filename", "f", "", "connect all pairs of this YAML file: \"peerings\" is a list of maps of these flags, \"defaults\" is one such map. Flags of the command line are defaults, too")
	f.StringVar(&e.folder, "export", "", "write the manifests of both clusters into this folder instead of applying them")
	f.StringVar(&e.format, "format", exportYAML, "of --export: yaml, kustomize or argocd (with sync waves)")
	c.addInstall(f)
	cmd.MarkFlagsMutuallyExclusive("filename", "export")
	cmd.MarkFlagsMutuallyExclusive("install", "export") // what is exported follows from what is installed
	acceptLiqoctl(cmd)
	return cmd
}

// addInstall adds the flags for clusters where nothing manages connections yet.
func (c *connectFlags) addInstall(f *pflag.FlagSet) {
	f.BoolVar(&c.install, "install", false, "first install the liqo-tui operator on clusters where nothing is installed")
	f.StringVar(&c.image, "image", defaultImage(), "with --install: image of operator, gateways and fabric")
	f.StringVar(&c.ids[flows.A], "cluster-id", "", "with --install: name by which peers know the local cluster (default: from the context's name)")
	f.StringVar(&c.ids[flows.B], "remote-cluster-id", "", "with --install: the same for the remote cluster")
}

func initCommand(io streams, pair *pairFlags) *cobra.Command {
	var r runFlags
	c := newConnectFlags()
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Exchange address ranges, without gateways",
		Long: `Tell the local (A) and the remote (B) cluster each other's address ranges. Wait
until each has assigned the addresses for the other's pods. network connect does
this, too.`,
		Example: `  liqo-tui network init --context rome --remote-context milan`,
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			op := operation{
				name: "init",
				plan: func() (func(flows.Facts) flows.Plan, error) {
					p, _, err := c.parse(func(string) bool { return false })
					if err == nil && p.Wait == flows.WaitVerified {
						err = usageError{errors.New("--wait=verified: packets can be sent only after network connect")}
					}
					return func(f flows.Facts) flows.Plan { return flows.PlanInit(p, f) }, err
				},
				done: func(f flows.Facts) achieved {
					return achieved{
						"The clusters know each other's address ranges.\n" + rangesText(f),
						[]nextStep{{pair.command("network", "connect"), "connects them"}},
					}
				},
			}
			return op.run(cmd.Context(), io, pair, r)
		},
	}
	r.add(cmd)
	c.addTenants(cmd.Flags())
	acceptLiqoctl(cmd)
	return cmd
}

// connected is what the admin needs to know of what was waited for.
func connected(pair *pairFlags, wait flows.WaitLevel, f flows.Facts) achieved {
	var b strings.Builder
	a, z := f.Local.ID, f.Remote.ID
	switch wait {
	case flows.WaitNone:
		fmt.Fprintf(&b, "All is applied on %s and %s; nobody waited for the connection.\n", a, z)
	case flows.WaitVerified:
		fmt.Fprintf(&b, "%s and %s are connected", a, z)
		if f.Measured != nil {
			fmt.Fprintf(&b, ": %s", f.Measured.Result)
		}
		fmt.Fprintln(&b)
	case flows.WaitConnected:
		fmt.Fprintf(&b, "%s and %s are connected: each gateway answers the other's pings.\n", a, z)
	}
	b.WriteString(rangesText(f))
	next := []nextStep{
		{pair.command("network", "verify"), "sends packets from pod to pod"},
		{pair.command("network", "reset"), "undoes this"},
	}
	if wait == flows.WaitVerified {
		next = next[1:]
	}
	return achieved{b.String(), next}
}

// rangesText says by which addresses pods reach each other.
func rangesText(f flows.Facts) string {
	var b strings.Builder
	for _, side := range []flows.Side{flows.A, flows.B} {
		id, other := f.Side(side).ID, f.Side(side.Other()).ID
		if conf := f.Side(side).Peer(other).Configuration; conf != nil && flows.CIDRsConfigured(conf) {
			fmt.Fprintf(&b, "  pods of %s reach %s's pods %s as %s\n", id, other,
				joined(conf.Spec.Remote.CIDR.Pod), joined(conf.Status.Remote.CIDR.Pod))
		}
	}
	return b.String()
}

func joined[S ~string](parts []S) string {
	text := make([]string, len(parts))
	for i, p := range parts {
		text[i] = string(p)
	}
	return strings.Join(text, ", ")
}
