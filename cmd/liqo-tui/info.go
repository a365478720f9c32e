package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"github.com/spf13/cobra"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/render"
)

// clusterInfo is what `info -o json` writes, and `info peer` in part. Fields
// are only added while "v" is 1.
type clusterInfo struct {
	V       int                            `json:"v"`
	At      time.Time                      `json:"at"`
	Local   localInfo                      `json:"local"`
	Network ownNetwork                     `json:"network"`
	Peers   map[render.ClusterID]*peerInfo `json:"peers"`
}

type localInfo struct {
	ClusterID  render.ClusterID `json:"clusterID"`
	Context    string           `json:"context"`
	APIServer  string           `json:"apiServer"`
	Kubernetes string           `json:"kubernetes"`
	// Software is "none", "Liqo" or "liqo-tui operator".
	Software  string `json:"software"`
	Namespace string `json:"namespace"`
}

type ownNetwork struct {
	PodCIDRs      []networkingv1beta1.CIDR `json:"podCIDRs"`
	ExternalCIDRs []networkingv1beta1.CIDR `json:"externalCIDRs"`
}

// peerInfo is one peering as the cluster sees it.
type peerInfo struct {
	ClusterID render.ClusterID `json:"clusterID"`
	Namespace string           `json:"namespace"`
	// State is a [flows.State], Why a sentence.
	State flows.State `json:"state"`
	Why   string      `json:"why"`
	Since *time.Time  `json:"since,omitempty"`
	// ReportedAt is when the gateway said it; after StaleAt it isn't believed.
	ReportedAt *time.Time  `json:"reportedAt,omitempty"`
	StaleAt    *time.Time  `json:"staleAt,omitempty"`
	Network    peerNetwork `json:"network"`
	// verdict is State, and whether pods reach each other as far as that is known.
	verdict view.Verdict
}

type peerNetwork struct {
	CIDR       peerCIDRs       `json:"cidr"`
	Gateway    *gatewayInfo    `json:"gateway,omitempty"`
	Connection *connectionInfo `json:"connection,omitempty"`
}

// peerCIDRs are the peer's ranges, and those by which this cluster's pods
// reach them; "remapped" is missing until the operator has decided.
type peerCIDRs struct {
	Remote   *networkingv1beta1.ClusterConfigCIDR `json:"remote,omitempty"`
	Remapped *networkingv1beta1.ClusterConfigCIDR `json:"remapped,omitempty"`
}

type gatewayInfo struct {
	Name string     `json:"name"`
	Role flows.Role `json:"role"`
	// Address and Port are where the server is dialled.
	Address     []string `json:"address"`
	Port        int32    `json:"port"`
	ServiceType string   `json:"serviceType,omitempty"` // of a server
	MTU         int      `json:"mtu"`
	PublicKey   string   `json:"publicKey,omitempty"`
	Pod         string   `json:"pod,omitempty"`
	PodWaiting  string   `json:"podWaiting,omitempty"`
}

type connectionInfo struct {
	Name          string        `json:"name"`
	Value         string        `json:"value"`
	Reason        render.Reason `json:"reason,omitempty"`
	LatencyMicros int64         `json:"latencyMicros,omitempty"` // round trip from gateway to gateway
	// Null where the gateway does not report it, as Liqo's don't, or has nothing to
	// report.
	Loss          *float64 `json:"loss"` // of pings, 0 to 1
	ReceivedBytes *uint64  `json:"receivedBytes"`
	SentBytes     *uint64  `json:"sentBytes"`
	// PodTraffic is when packets of pods were last seen to pass both ways.
	PodTraffic     *time.Time `json:"podTraffic,omitempty"`
	Handshake      *time.Time `json:"handshake,omitempty"`
	Implementation string     `json:"implementation,omitempty"`
	MTU            int        `json:"mtu,omitempty"`
	PeerAddress    string     `json:"peerAddress,omitempty"`
}

// infoFlags say what of it is printed, and how.
type infoFlags struct{ output, get string }

func infoCommand(io streams) *cobra.Command {
	var c clusterFlags
	var o infoFlags
	cmd := &cobra.Command{
		Use: "info", Short: "Show a cluster and its peers", Args: noArguments,
		Long: `Show a cluster and its peers.

The state of a peering is what this cluster's gateway reports. "untested": the
gateways answer each other's pings, and no packet of a pod was seen to pass both
ways yet; liqo-tui network verify sends some. "connected": one was. In the JSON,
"connected" means the pings alone, and network.connection.podTraffic is when
pods' packets passed last. It only reads, and waits for nothing.`,
		Example: `  liqo-tui info --context rome
  liqo-tui info --get clusterid
  liqo-tui info -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.show(cmd.Context(), io, c, nil, false)
		},
	}
	peer := &cobra.Command{
		Use: "peer [CLUSTER_ID...]", Short: "Show all details of a cluster's peers, or of some of them",
		Example: `  liqo-tui info peer milan
  liqo-tui info peer milan --get network.gateway.address
  liqo-tui info peer -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.show(cmd.Context(), io, c, args, true)
		},
	}
	f := cmd.PersistentFlags()
	c.add(f, "", "the cluster")
	f.StringVarP(&o.output, "output", "o", report.Text, "text, json or yaml")
	f.StringVarP(&o.get, "get", "g", "", "print only what is at this path of the JSON, such as clusterid or network.podCIDRs")
	cmd.AddCommand(peer)
	return cmd
}

func (o infoFlags) show(ctx context.Context, io streams, c clusterFlags, peers []string, detail bool) error {
	switch o.output {
	case report.Text, report.JSON, report.YAML:
	default:
		return exit.UsageError{Err: fmt.Errorf("--output %q: want text, json or yaml", o.output)}
	}
	f, err := look(ctx, c)
	if err != nil {
		return err
	}
	info := describe(f, time.Now())
	if err := info.keep(peers); err != nil {
		return err
	}
	switch {
	case o.get != "":
		return report.WritePath(io.out, info.queryRoot(peers), o.get)
	case o.output != report.Text:
		return report.WriteDocument(io.out, o.output, info)
	case detail:
		return writePeers(io.out, info)
	}
	return writeCluster(io.out, info)
}

// look observes one cluster once.
func look(ctx context.Context, c clusterFlags) (flows.ClusterFacts, error) {
	cluster, err := c.open()
	if err != nil {
		return flows.ClusterFacts{}, err
	}
	defer cluster.Close()
	return lookAt(ctx, cluster)
}

// lookAt observes a cluster that has to be usable.
func lookAt(ctx context.Context, cluster engine.Cluster) (flows.ClusterFacts, error) {
	f, err := cluster.Observe(ctx)
	switch {
	case err != nil:
		return f, stopped(ctx, err)
	case f.Problem != nil:
		return f, f.Problem
	}
	return f, nil
}

// describe is pure: the same facts at the same moment give the same shape.
func describe(f flows.ClusterFacts, now time.Time) clusterInfo {
	info := clusterInfo{
		V: report.SchemaVersion, At: now.UTC().Truncate(time.Second),
		Local: localInfo{
			ClusterID: f.ID, Context: f.Context.String(), APIServer: f.Server, Kubernetes: f.Version,
			Software: f.Software.String(), Namespace: f.Namespace,
		},
		Network: ownNetwork{PodCIDRs: f.Networks.Pod, ExternalCIDRs: f.Networks.External},
		Peers:   map[render.ClusterID]*peerInfo{},
	}
	for id, p := range f.Peers() {
		info.Peers[id] = describePeer(p, now)
	}
	return info
}

func describePeer(p *flows.Peer, now time.Time) *peerInfo {
	r := p.Reading()
	out := &peerInfo{ClusterID: r.Peer, Namespace: r.Namespace, Since: moment(r.Since), ReportedAt: moment(r.At), StaleAt: moment(r.StaleAt())}
	out.State, out.Why = r.State(now)
	out.verdict = view.End{Chosen: true, Reading: r}.Alone(now)
	if conf := p.Configuration; conf != nil {
		out.Network.CIDR.Remote = &conf.Spec.Remote.CIDR
		if r.CIDRs {
			out.Network.CIDR.Remapped = &conf.Status.Remote.CIDR
		}
	}
	out.Network.Gateway = describeGateway(p, r)
	if c := p.Connection; c != nil {
		out.Network.Connection = &connectionInfo{
			Name: c.Name, Value: string(r.Value), Reason: r.Cause(now), LatencyMicros: r.Latency.Microseconds(),
			Loss: known(r.Lost()), ReceivedBytes: known(r.Received, r.Reported), SentBytes: known(r.Sent, r.Reported),
			PodTraffic: moment(r.PodTraffic), Handshake: moment(r.Handshake), Implementation: r.Implementation, MTU: r.MTU, PeerAddress: r.PeerAddress,
		}
	}
	return out
}

// word is the state in a column.
func (p *peerInfo) word() string {
	if p.untested() != "" {
		return p.verdict.State.String()
	}
	return string(p.State)
}

// untested says that nobody knows of pods, "" where something is known.
func (p *peerInfo) untested() string {
	if p.verdict.State == view.Untested {
		return p.verdict.Title()
	}
	return ""
}

func describeGateway(p *flows.Peer, r flows.Reading) *gatewayInfo {
	g := &gatewayInfo{Role: r.Role, Address: []string{}}
	switch {
	case p.Server != nil:
		g.Name, g.MTU, g.ServiceType = p.Server.Name, p.Server.Spec.MTU, string(p.Server.Spec.Endpoint.ServiceType)
		if e := p.Server.Status.Endpoint; e != nil {
			g.Address, g.Port = append(g.Address, e.Addresses...), e.Port
		}
	case p.Client != nil:
		g.Name, g.MTU = p.Client.Name, p.Client.Spec.MTU
		g.Address, g.Port = append(g.Address, p.Client.Spec.Endpoint.Addresses...), p.Client.Spec.Endpoint.Port
	default:
		return nil
	}
	if p.Key != nil {
		g.PublicKey = p.Key.String()
	}
	if p.Pod != nil {
		g.Pod, g.PodWaiting = p.Pod.Name, p.Pod.Waiting
	}
	return g
}

// known is v, nil where it stands for nothing that was measured.
func known[T any](v T, ok bool) *T {
	if !ok {
		return nil
	}
	return &v
}

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}

// keep drops all peers but those that were asked for.
func (i *clusterInfo) keep(wanted []string) error {
	if len(wanted) == 0 {
		return nil
	}
	kept := map[render.ClusterID]*peerInfo{}
	for _, id := range wanted {
		p, ok := i.Peers[render.ClusterID(id)]
		if !ok {
			known := "it has none"
			if len(i.Peers) > 0 {
				known = "its peers: " + flows.Joined(slices.Sorted(maps.Keys(i.Peers)))
			}
			return exit.UsageError{Err: fmt.Errorf("%s has no peer %s; %s", i.Local.ClusterID, id, known)}
		}
		kept[p.ClusterID] = p
	}
	i.Peers = kept
	return nil
}

// queryRoot is where --get begins: at the peer, if one was asked for.
func (i *clusterInfo) queryRoot(peers []string) any {
	if len(peers) == 1 {
		return i.Peers[render.ClusterID(peers[0])]
	}
	return i
}

func writeCluster(out io.Writer, i clusterInfo) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "Cluster ID\t%s\n", cmp.Or(string(i.Local.ClusterID), "none"))
	fmt.Fprintf(w, "Context\t%s\n", i.Local.Context)
	fmt.Fprintf(w, "API server\t%s\n", i.Local.APIServer)
	fmt.Fprintf(w, "Kubernetes\t%s\n", i.Local.Kubernetes)
	fmt.Fprintf(w, "Connected by\t%s\n", i.Local.Software)
	fmt.Fprintf(w, "Pod CIDR\t%s\n", cmp.Or(flows.Joined(i.Network.PodCIDRs), "not known"))
	fmt.Fprintf(w, "External CIDR\t%s\n", cmp.Or(flows.Joined(i.Network.ExternalCIDRs), "not known"))
	if err := w.Flush(); err != nil {
		return err
	}
	if len(i.Peers) == 0 {
		fmt.Fprintln(out, "\nNo peers.")
		report.WriteNext(out, firstSteps(i.Local.ClusterID))
		return nil
	}
	untested := false
	fmt.Fprintln(w, "\nPEER\tROLE\tSTATE\tLATENCY\tPODS SEEN AS\tWHY")
	for _, id := range slices.Sorted(maps.Keys(i.Peers)) {
		p := i.Peers[id]
		role, seenAs := "-", "not assigned"
		if p.Network.Gateway != nil {
			role = string(p.Network.Gateway.Role)
		}
		if r := p.Network.CIDR.Remapped; r != nil {
			seenAs = flows.Joined(r.Pod)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", id, role, p.word(), latencyText(p), seenAs, p.verdict.Why)
		untested = untested || p.verdict.State == view.Untested
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if untested {
		report.WriteNext(out, testSteps())
	}
	return nil
}

// firstSteps are for a cluster without peers.
func firstSteps(id render.ClusterID) []report.NextStep {
	if id == "" {
		return []report.NextStep{{Command: "liqo-tui install", Why: "brings our operator, which network connect --install does too"}}
	}
	return []report.NextStep{{Command: "liqo-tui network connect --remote-context CONTEXT", Why: "connects it with another cluster"}}
}

// testSteps are for peers whose gateways reach each other, and of whose pods nobody
// knows.
func testSteps() []report.NextStep {
	return []report.NextStep{{Command: "liqo-tui network verify --remote-context CONTEXT", Why: "tests the path from pod to pod"}}
}

func latencyText(p *peerInfo) string {
	if c := p.Network.Connection; c != nil && c.LatencyMicros > 0 {
		return render.FormatLatency(time.Duration(c.LatencyMicros) * time.Microsecond)
	}
	return "-"
}

func writePeers(out io.Writer, i clusterInfo) error {
	if len(i.Peers) == 0 {
		fmt.Fprintf(out, "%s has no peers.\n", i.Local.ClusterID)
		report.WriteNext(out, firstSteps(i.Local.ClusterID))
		return nil
	}
	for n, id := range slices.Sorted(maps.Keys(i.Peers)) {
		if n > 0 {
			fmt.Fprintln(out)
		}
		if err := writePeer(out, i, i.Peers[id]); err != nil {
			return err
		}
	}
	return nil
}

func writePeer(out io.Writer, i clusterInfo, p *peerInfo) error {
	fmt.Fprintf(out, "%s, as %s sees it\n", p.ClusterID, i.Local.ClusterID)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "  %s\t%s\n", name, value)
		}
	}
	row("State", cmp.Or(p.untested(), string(p.State))+": "+p.verdict.Why)
	if p.Since != nil {
		row("Since", p.Since.Format(time.RFC3339))
	}
	row("Namespace", p.Namespace)
	if c := p.Network.CIDR; c.Remote != nil {
		row("Pods", flows.Joined(c.Remote.Pod)+", "+remapped(c.Remapped, func(r *networkingv1beta1.ClusterConfigCIDR) []networkingv1beta1.CIDR { return r.Pod }))
		row("External", flows.Joined(c.Remote.External)+", "+remapped(c.Remapped, func(r *networkingv1beta1.ClusterConfigCIDR) []networkingv1beta1.CIDR { return r.External }))
	}
	if g := p.Network.Gateway; g != nil {
		row("Gateway", strings.TrimSpace(fmt.Sprintf("%s, MTU %d %s", g.Role, g.MTU, g.ServiceType)))
		row("Endpoint", endpointText(g))
		row("Pod", strings.TrimSuffix(g.Pod+": "+g.PodWaiting, ": "))
		row("Public key", g.PublicKey)
	}
	if c := p.Network.Connection; c != nil {
		row("Latency", latencyText(p))
		row("Lost pings", lossText(c))
		row("Traffic", trafficText(c))
		if c.Handshake != nil {
			row("Handshake", fmt.Sprintf("%s ago", i.At.Sub(*c.Handshake).Round(time.Second)))
		}
		row("WireGuard", c.Implementation)
	}
	return w.Flush()
}

// notReported stands for what only our gateways report.
const notReported = "not reported by Liqo's gateway"

func lossText(c *connectionInfo) string {
	switch {
	case c.Loss != nil:
		return fmt.Sprintf("%.3g%%", *c.Loss*100)
	case c.ReceivedBytes != nil:
		return "not known: no ping was answered yet"
	}
	return notReported
}

func trafficText(c *connectionInfo) string {
	if c.ReceivedBytes == nil || c.SentBytes == nil {
		return notReported
	}
	return fmt.Sprintf("%d bytes received, %d sent", *c.ReceivedBytes, *c.SentBytes)
}

func remapped(r *networkingv1beta1.ClusterConfigCIDR, kind func(*networkingv1beta1.ClusterConfigCIDR) []networkingv1beta1.CIDR) string {
	if r == nil {
		return "not assigned here yet"
	}
	return "reached as " + flows.Joined(kind(r))
}

func endpointText(g *gatewayInfo) string {
	if len(g.Address) == 0 {
		return "none yet"
	}
	return fmt.Sprintf("UDP %s port %d", strings.Join(g.Address, ", "), g.Port)
}
