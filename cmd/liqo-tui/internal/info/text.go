package info

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// WriteCluster writes the cluster, and one line for each peer, as text.
func WriteCluster(out io.Writer, i Cluster) error {
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
		report.WriteNext(out, i.firstSteps())
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
		report.WriteNext(out, i.testSteps())
	}
	return nil
}

// firstSteps returns the next steps for a cluster without peers.
func (i Cluster) firstSteps() []report.NextStep {
	if i.Local.ClusterID == "" {
		return []report.NextStep{{Command: command.Ours("install").On(i.on), Why: "installs our operator; network connect --install installs it, too"}}
	}
	return []report.NextStep{{Command: command.Ours("network", "connect").On(i.on).Flag("--remote-context", "CONTEXT"), Why: "connects it with another cluster"}}
}

// testSteps returns the next steps for peers whose gateways reach each other, if
// it is unknown whether pods do.
func (i Cluster) testSteps() []report.NextStep {
	return []report.NextStep{{Command: command.Ours("network", "verify").On(i.on).Flag("--remote-context", "CONTEXT"), Why: "tests the path from pod to pod"}}
}

func latencyText(p *Peer) string {
	if c := p.Network.Connection; c != nil && c.LatencyMicros > 0 && p.State != flows.StateStale {
		return wire.FormatLatency(time.Duration(c.LatencyMicros) * time.Microsecond)
	}
	return "-"
}

// WritePeers writes all details of all peers, as text.
func WritePeers(out io.Writer, i Cluster) error {
	if len(i.Peers) == 0 {
		fmt.Fprintf(out, "%s has no peers.\n", i.Local.ClusterID)
		report.WriteNext(out, i.firstSteps())
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

func writePeer(out io.Writer, i Cluster, p *Peer) error {
	fmt.Fprintf(out, "%s, as %s sees it\n", p.ClusterID, i.Local.ClusterID)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(w, "  %s\t%s\n", name, value)
		}
	}
	row("State", p.word()+": "+p.verdict.Why)
	if p.Since != nil {
		row("Since", p.Since.Format(time.RFC3339))
	}
	row("UID", p.UID)
	row("Namespace", p.Namespace)
	if c := p.Network.CIDR; c.Remote != nil {
		row("Pods", flows.Joined(c.Remote.Pod)+", "+remapped(c.Remapped, func(r *networkingv1beta1.ClusterConfigCIDR) []networkingv1beta1.CIDR { return r.Pod }))
		row("External", flows.Joined(c.Remote.External)+", "+remapped(c.Remapped, func(r *networkingv1beta1.ClusterConfigCIDR) []networkingv1beta1.CIDR { return r.External }))
	}
	if g := p.Network.Gateway; g != nil {
		row("Gateway", strings.TrimSpace(fmt.Sprintf("%s, MTU %s %s", g.Role, p.mtuText(), g.ServiceType)))
		row("Endpoint", endpointText(g))
		row("Pod", strings.TrimSuffix(g.Pod+": "+g.PodWaiting, ": "))
		row("Public key", g.PublicKey)
	}
	if c := p.Network.Connection; c != nil {
		if p.State == flows.StateStale {
			row("Figures", "not known now: the last report is too old")
		} else {
			row("Latency", latencyText(p))
			row("Lost pings", LossText(c))
			row("Traffic", trafficText(c))
		}
		if c.Handshake != nil {
			row("Handshake", fmt.Sprintf("%s ago", i.At.Sub(*c.Handshake).Round(time.Second)))
		}
		row("WireGuard", c.Implementation)
		row("Allowed", allowText(c))
	}
	for _, l := range p.Lending {
		fmt.Fprintf(w, "  %s:\n", l.Title(i.Local.ClusterID, p.ClusterID))
		for _, r := range l.Rows() {
			row("  "+r.Name, r.Text)
		}
	}
	return w.Flush()
}

// mtuText returns the MTU that was chosen. If the gateways find it, the text has the present value.
func (p *Peer) mtuText() string {
	chosen, c := p.Network.Gateway.MTU, p.Network.Connection
	if chosen == wire.MaxMTU && c != nil && c.longest > 0 {
		return fmt.Sprintf("auto (%d now)", c.longest)
	}
	return fmt.Sprint(chosen)
}

// allowText returns a text that says where the peer's pods may open connections,
// and what was dropped.
func allowText(c *Connection) string {
	text := c.Allow
	if c.Closed > 0 {
		text += fmt.Sprintf("; packets dropped: %d", c.Closed)
	}
	if c.ClosedTo != "" {
		text += ", lately to " + c.ClosedTo
	}
	return text
}

// notReported stands for a value that only our gateways report.
const notReported = "not reported by Liqo's gateway"

// LossText returns the share of lost pings, or the reason that it is unknown.
func LossText(c *Connection) string {
	switch {
	case c.Loss != nil:
		return fmt.Sprintf("%.3g%%", *c.Loss*100)
	case c.ReceivedBytes != nil:
		return "not known: no ping was answered yet"
	}
	return notReported
}

func trafficText(c *Connection) string {
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

func endpointText(g *Gateway) string {
	if len(g.Address) == 0 {
		return "none yet"
	}
	return fmt.Sprintf("UDP %s port %d", strings.Join(g.Address, ", "), g.Port)
}
