package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/discovery/mdns"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/kube/kubeconfig"
)

// discoverDocument is the output of `discover -o json`. While "v" is 1, fields are only added.
type discoverDocument struct {
	V int `json:"v"`
	// Asked lists the interfaces of this machine, or the domain, on which clusters were searched.
	Asked    []string            `json:"asked"`
	Clusters []discoveredCluster `json:"clusters"`
	Next     []discoverStep      `json:"next,omitempty"`
	steps    []report.NextStep   // Next, for text output
	// Unfit counts ignored announcements: no cluster can have sent them, or there were too many.
	Unfit int `json:"unfit,omitempty"`
	// Problem is the reason that the result is incomplete.
	Problem string `json:"problem,omitempty"`
}

type discoverStep struct {
	Command string `json:"command"`
	Why     string `json:"why"`
}

// discoveredCluster is a cluster that was found. Its statements about itself are not proven.
type discoveredCluster struct {
	ID     wire.ClusterID `json:"clusterID,omitempty"` // "": unknown
	Server string         `json:"server"`              // URL of its API server
	Source string         `json:"source"`
	// Answers is set if a TCP connection to the API server succeeds from here. If not, Problem is
	// the reason.
	Answers bool   `json:"answers"`
	Took    string `json:"took,omitempty"` // the time to connect
	Problem string `json:"problem,omitempty"`
	// Contexts are the contexts in the kubeconfig files with the address of this API server. Others
	// may lead there as well, through a load balancer or another machine.
	Contexts []discoveredContext `json:"contexts,omitempty"`
}

type discoveredContext struct {
	Name string `json:"name"`
	// File is "" if the name is enough.
	File    string `json:"file,omitempty"`
	current bool
}

func (c discoveredContext) String() string {
	return flows.ContextRef{File: c.File, Name: c.Name}.String()
}

type discoverFlags struct {
	files                                      []string
	domain, nameServer, networkInterface, form string
	listen                                     time.Duration
}

func discoverCommand(out io.Writer) *cobra.Command {
	var o discoverFlags
	cmd := &cobra.Command{
		Use: "discover", Short: "Find clusters: in this LAN, or those that a domain names",
		Long: `Find clusters: those that announce themselves in the LANs of this machine
(install --announce; mDNS), or, with --domain, those that DNS names. For each
cluster it shows whether its API server answers, and which contexts have its
address.

It changes nothing, and proves nothing: anybody in a LAN can announce anything.
Only the certificate in your kubeconfig proves which cluster answers.
Exit code 8: no cluster was found.`,
		Example: `  liqo-tui discover
  liqo-tui discover --domain clusters.example.com -o json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), out) },
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.files, "kubeconfig", nil, "kubeconfig file; may be repeated (default: as kubectl finds it)")
	f.StringVar(&o.domain, "domain", "", "ask DNS for the clusters of this domain, and not the LAN")
	f.StringVar(&o.nameServer, "name-server", "", "with --domain: name server to ask, HOST or HOST:PORT (default: this machine's)")
	f.StringVar(&o.networkInterface, "interface", "", "ask the LAN of this interface only (default: the LANs of all interfaces)")
	f.DurationVar(&o.listen, "listen", time.Second, "how long to wait for answers")
	f.StringVarP(&o.form, "output", "o", report.Text, "text, json or yaml")
	cmd.MarkFlagsMutuallyExclusive("domain", "interface")
	return cmd
}

func (o discoverFlags) validate() error {
	switch {
	case o.form != report.Text && o.form != report.JSON && o.form != report.YAML:
		return fmt.Errorf("--output %q: want text, json or yaml", o.form)
	case o.listen < minListen || o.listen > maxListen:
		return fmt.Errorf("--listen %s: want %s to %s", o.listen, minListen, maxListen)
	case o.nameServer != "" && o.domain == "":
		return errors.New("--name-server: applies to --domain only; give --domain, too")
	}
	return nil
}

// Limits of --listen.
const (
	minListen = 100 * time.Millisecond
	maxListen = time.Minute
)

func (o discoverFlags) run(ctx context.Context, out io.Writer) error {
	if err := o.validate(); err != nil {
		return exit.UsageError{Err: err}
	}
	d := discoverDocument{V: report.SchemaVersion}
	names := nameServer(o.nameServer)
	var err error
	if o.domain != "" {
		d.Asked = []string{"DNS of " + o.domain}
		d.Clusters, err = clustersIn(ctx, names, o.domain, o.listen)
	} else {
		var answers mdns.Answers
		answers, err = mdns.Browse(ctx, o.networkInterface, o.listen)
		d.Unfit = answers.Unfit
		for _, i := range answers.Asked {
			d.Asked = append(d.Asked, "mDNS on "+i)
		}
		for _, f := range answers.Found {
			d.Clusters = append(d.Clusters, discoveredCluster{ID: f.ID, Server: "https://" + f.Server.String(), Source: "mDNS on " + f.Interface})
		}
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil && len(d.Clusters) == 0:
		return err
	}
	if d.Clusters = sameServer(d.Clusters); d.Clusters == nil {
		d.Clusters = []discoveredCluster{} // so that JSON has an empty list, not null
	}
	if len(d.Clusters) > 0 { // contexts are needed only for clusters
		contexts, unread := kubeconfig.Contexts(o.files)
		for _, problem := range unread {
			err = errors.Join(err, problem)
		}
		if d.complete(ctx, names, contexts, o.files); ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if err != nil {
		d.Problem = err.Error()
	}
	if o.form != report.Text {
		err = report.WriteDocument(out, o.form, d)
	} else {
		err = d.print(out)
	}
	if err == nil && len(d.Clusters) == 0 {
		return exit.Verdict(exit.Unhealthy)
	}
	return err
}

// sameServer merges answers of one cluster from several interfaces.
func sameServer(all []discoveredCluster) []discoveredCluster {
	slices.SortFunc(all, func(a, b discoveredCluster) int {
		return cmp.Or(cmp.Compare(a.ID, b.ID), cmp.Compare(a.Server, b.Server), cmp.Compare(a.Source, b.Source))
	})
	return slices.CompactFunc(all, func(a, b discoveredCluster) bool { return a.ID == b.ID && a.Server == b.Server })
}

// complete adds to each cluster whether it answers this machine, and the contexts with its address.
func (d *discoverDocument) complete(ctx context.Context, names *net.Resolver, contexts []kubeconfig.Context, files []string) {
	var group sync.WaitGroup
	servers := make([][]netip.AddrPort, len(contexts))
	for i, c := range contexts {
		group.Go(func() { servers[i] = addressesOf(ctx, net.DefaultResolver, c.Server) })
	}
	at := make([][]netip.AddrPort, len(d.Clusters))
	for i := range d.Clusters {
		group.Go(func() {
			at[i] = addressesOf(ctx, names, d.Clusters[i].Server)
			d.Clusters[i].try(ctx, names)
		})
	}
	group.Wait()
	for i := range d.Clusters {
		c := &d.Clusters[i]
		for k, known := range contexts {
			if slices.ContainsFunc(at[i], func(a netip.AddrPort) bool { return slices.Contains(servers[k], a) }) {
				c.Contexts = append(c.Contexts, discoveredContext{Name: known.Ref.Name, File: known.Ref.File, current: known.Current})
			}
		}
	}
	d.steps = nextSteps(d.Clusters, files)
	for _, s := range d.steps {
		d.Next = append(d.Next, discoverStep{s.Command.String(), s.Why})
	}
}

// tryTimeout is the timeout for a connection to an API server, and for the lookup of its name.
const tryTimeout = 2 * time.Second

func hostPort(server string) string {
	u, err := url.Parse(server)
	if err != nil || u.Hostname() == "" || strings.Trim(u.Path, "/") != "" { // the path distinguishes several clusters behind one address
		return ""
	}
	return net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), "443"))
}

// addressesOf returns the addresses of an API server; none if its name is unknown.
func addressesOf(ctx context.Context, names *net.Resolver, server string) (all []netip.AddrPort) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	host, port, err := net.SplitHostPort(hostPort(server))
	if err != nil {
		return nil
	}
	number, err := strconv.ParseUint(port, 10, 16)
	ips, wrong := names.LookupNetIP(ctx, "ip", host)
	if err != nil || wrong != nil {
		return nil
	}
	for _, ip := range ips {
		all = append(all, netip.AddrPortFrom(ip.Unmap(), uint16(number)))
	}
	return all
}

// try connects to the API server, but sends no request.
func (c *discoveredCluster) try(ctx context.Context, names *net.Resolver) {
	began := time.Now()
	conn, err := (&net.Dialer{Timeout: tryTimeout, Resolver: names}).DialContext(ctx, "tcp", hostPort(c.Server))
	if err != nil {
		c.Problem = err.Error()
		if inner, ok := errors.AsType[*net.OpError](err); ok {
			c.Problem = inner.Err.Error() // without the address, which is already printed
		}
		return
	}
	conn.Close()
	c.Answers, c.Took = true, time.Since(began).Round(100*time.Microsecond).String()
}

// nextSteps returns the next command for each cluster. There is none for the cluster of the current
// context, and none for a cluster without a context and an ID.
func nextSteps(found []discoveredCluster, files []string) (steps []report.NextStep) {
	local := command.Cluster{Kubeconfigs: files}
	for _, c := range found {
		switch {
		case slices.ContainsFunc(c.Contexts, func(k discoveredContext) bool { return k.current }):
		case len(c.Contexts) > 0:
			remote := flows.ContextRef{File: c.Contexts[0].File, Name: c.Contexts[0].Name}
			steps = append(steps, report.NextStep{
				Command: command.Ours("network", "connect").On(local, remote.Flags()), Why: "connects the current context's cluster with it",
			})
		case c.ID != "":
			steps = append(steps, report.NextStep{
				Command: command.Ours("network", "invite").On(local).Flag("--for", string(c.ID)), Why: "connects the current context's cluster with it by files, if no context of yours leads there",
			})
		}
	}
	return steps
}

func (d *discoverDocument) print(out io.Writer) error {
	asked := strings.Join(d.Asked, ", ")
	if len(d.Clusters) == 0 {
		fmt.Fprintf(out, "No cluster was found. Asked: %s.\n", cmp.Or(asked, "nobody, because no interface of this machine leads to a LAN"))
		fmt.Fprintln(out, "A cluster announces itself in the LAN of its nodes after liqo-tui install --announce. A domain has the clusters that its DNS zone lists.")
	} else {
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "CLUSTER\tAPI SERVER\tANSWERS\tCONTEXT\tTOLD BY")
		for _, c := range d.Clusters {
			answers := "no: " + c.Problem
			if c.Answers {
				answers = "in " + c.Took
			}
			var contexts []string
			for _, k := range c.Contexts {
				contexts = append(contexts, k.String())
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", cmp.Or(string(c.ID), "not told"), c.Server, answers, cmp.Or(strings.Join(contexts, ", "), "none has this address"), c.Source)
		}
		if err := w.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(out, "\nNone of this is proven: only the certificate in your kubeconfig proves which cluster answers.")
	}
	if d.Problem != "" {
		fmt.Fprintf(out, "Not all is known: %s\n", d.Problem)
	}
	if d.Unfit > 0 {
		fmt.Fprintf(out, "%d announcements were left out: their ID or address is not valid, or there were more than %d clusters.\n", d.Unfit, mdns.MostClusters)
	}
	report.WriteNext(out, d.steps)
	return nil
}
