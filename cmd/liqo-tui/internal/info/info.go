// Package info describes a cluster and its peers for `info`, as a document or as text.
package info

import (
	"fmt"
	"maps"
	"slices"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Cluster is the document of `info -o json`. The command `info peer` prints parts of it. While "v" is 1,
// fields are only added.
type Cluster struct {
	V       int                      `json:"v"`
	At      time.Time                `json:"at"`
	Local   Local                    `json:"local"`
	Network Network                  `json:"network"`
	Peers   map[wire.ClusterID]*Peer `json:"peers"`
	on      command.Cluster          // flags that choose the cluster in commands
}

// Local describes the cluster itself.
type Local struct {
	ClusterID  wire.ClusterID `json:"clusterID"`
	UID        string         `json:"uid,omitempty"` // of the namespace kube-system, if this user may read it
	Context    string         `json:"context"`
	APIServer  string         `json:"apiServer"`
	Kubernetes string         `json:"kubernetes"`
	// Software is "none", "Liqo" or "liqo-tui operator".
	Software  string `json:"software"`
	Namespace string `json:"namespace"`
}

// Network has the cluster's own address ranges.
type Network struct {
	PodCIDRs      []networkingv1beta1.CIDR `json:"podCIDRs"`
	ExternalCIDRs []networkingv1beta1.CIDR `json:"externalCIDRs"`
}

// Peer is one connection as this cluster sees it.
type Peer struct {
	ClusterID wire.ClusterID `json:"clusterID"`
	UID       string         `json:"uid,omitempty"` // distinguishes the peer from other clusters with the same ID
	Namespace string         `json:"namespace"`
	// State is a [flows.EndState], Why is a sentence.
	State flows.EndState `json:"state"`
	Why   string         `json:"why"`
	// Health is a [view.Health]. It follows from all known reports of both clusters.
	Health string     `json:"health"`
	Since  *time.Time `json:"since,omitempty"`
	// ReportedAt is the time of the gateway's report. After StaleAt, the report is too old.
	ReportedAt *time.Time  `json:"reportedAt,omitempty"`
	StaleAt    *time.Time  `json:"staleAt,omitempty"`
	Network    PeerNetwork `json:"network"`
	// Lending describes the lending between the two clusters.
	Lending []view.Lending `json:"lending,omitempty"`
	// verdict has the state, and whether pods reach each other if that is known.
	verdict view.Verdict
}

// PeerNetwork describes the connection of the two clusters.
type PeerNetwork struct {
	CIDR       PeerCIDRs   `json:"cidr"`
	Gateway    *Gateway    `json:"gateway,omitempty"`
	Connection *Connection `json:"connection,omitempty"`
}

// PeerCIDRs has the peer's ranges, and the ranges under which this cluster's pods reach them. "remapped"
// is missing until the operator has chosen these ranges.
type PeerCIDRs struct {
	Remote   *networkingv1beta1.ClusterConfigCIDR `json:"remote,omitempty"`
	Remapped *networkingv1beta1.ClusterConfigCIDR `json:"remapped,omitempty"`
}

// Gateway describes the cluster's end of the tunnel.
type Gateway struct {
	Name string     `json:"name"`
	Role flows.Role `json:"role"`
	// Address and Port are the endpoint at which the server is dialled.
	Address     []string `json:"address"`
	Port        int32    `json:"port"`
	ServiceType string   `json:"serviceType,omitempty"` // of a server only
	MTU         int      `json:"mtu"`
	PublicKey   string   `json:"publicKey,omitempty"`
	Pod         string   `json:"pod,omitempty"`
	PodWaiting  string   `json:"podWaiting,omitempty"`
}

// Connection is the gateway's report about the tunnel.
type Connection struct {
	Name          string      `json:"name"`
	Value         string      `json:"value"`
	Reason        wire.Reason `json:"reason,omitempty"`
	LatencyMicros int64       `json:"latencyMicros,omitempty"` // round trip from gateway to gateway
	// Loss is null if the gateway does not report it, as Liqo's gateways, or has no value.
	Loss          *float64 `json:"loss"` // share of lost pings, 0 to 1
	ReceivedBytes *uint64  `json:"receivedBytes"`
	SentBytes     *uint64  `json:"sentBytes"`
	// PodTraffic is the last time at which packets of pods were seen in both directions.
	PodTraffic     *time.Time `json:"podTraffic,omitempty"`
	Handshake      *time.Time `json:"handshake,omitempty"`
	Implementation string     `json:"implementation,omitempty"`
	MTU            int        `json:"mtu,omitempty"`
	longest        int        // see [flows.Reading.Longest]
	PeerAddress    string     `json:"peerAddress,omitempty"`
	// Allow says which pods the gateway opens to the peer's pods: "all", "exported" or "none". It is
	// missing if the gateway does not report it; then all pods are open.
	Allow string `json:"allow,omitempty"`
	// Closed counts the peer's packets that were dropped because of Allow. ClosedTo has their latest
	// destinations.
	Closed   uint64 `json:"closed,omitempty"`
	ClosedTo string `json:"closedTo,omitempty"`
}

// Describe returns the document of a cluster. It is pure: the same facts at the same moment give the same
// document. others are clusters whose reports count together with those of f.
func Describe(f flows.ClusterFacts, now time.Time, others ...flows.ClusterFacts) Cluster {
	info := Cluster{
		V: report.SchemaVersion, At: now.UTC().Truncate(time.Second),
		Local: Local{
			ClusterID: f.ID, UID: f.Identity(), Context: f.Context.String(), APIServer: f.Server, Kubernetes: f.Version,
			Software: f.Software.String(), Namespace: f.Namespace,
		},
		Network: Network{PodCIDRs: f.Networks.Pod, ExternalCIDRs: f.Networks.External},
		Peers:   map[wire.ClusterID]*Peer{},
		on:      f.Flags(),
	}
	for id, p := range f.Peers() {
		info.Peers[id] = describePeer(f.ID, p, others, now)
		info.Peers[id].Lending = view.Lendings(f, id)
	}
	return info
}

func describePeer(me wire.ClusterID, p *flows.End, others []flows.ClusterFacts, now time.Time) *Peer {
	r := p.Reading()
	out := &Peer{ClusterID: r.Peer, UID: p.UID(), Namespace: r.Namespace, Since: moment(r.Since), ReportedAt: moment(r.At), StaleAt: moment(r.StaleAt())}
	out.State, out.Why = r.State(now)
	out.verdict = view.End{ID: me, Chosen: true, Reading: r}.Alone(now)
	for _, o := range others {
		if o.ID == r.Peer {
			out.verdict = view.Together([2]view.End{{ID: me, Chosen: true, Reading: r}, {ID: o.ID, Chosen: true, Reading: o.End(me).Reading()}}, nil, now)
		}
	}
	out.Health = out.verdict.Health().String()
	if conf := p.Configuration; conf != nil {
		out.Network.CIDR.Remote = &conf.Spec.Remote.CIDR
		if r.CIDRs {
			out.Network.CIDR.Remapped = &conf.Status.Remote.CIDR
		}
	}
	out.Network.Gateway = describeGateway(p, r)
	if c := p.Connection; c != nil {
		out.Network.Connection = &Connection{
			Name: c.Name, Value: string(r.Value), Reason: r.Cause(now), LatencyMicros: r.Latency.Microseconds(),
			Loss: report.Known(r.Lost()), ReceivedBytes: report.Known(r.Received, r.Reported), SentBytes: report.Known(r.Sent, r.Reported),
			PodTraffic: moment(r.PodTraffic), Handshake: moment(r.Handshake), Implementation: r.Implementation, MTU: r.MTU, PeerAddress: r.PeerAddress,
			Allow: r.Allow, Closed: r.Closed, ClosedTo: r.ClosedTo, longest: r.Longest(),
		}
	}
	return out
}

// word returns the state for texts. If the gateways work, it says whether pods are known to reach each
// other.
func (p *Peer) word() string {
	if p.State.Works() {
		return p.verdict.State.String()
	}
	return string(p.State)
}

func describeGateway(p *flows.End, r flows.Reading) *Gateway {
	g := &Gateway{Role: r.Role, Address: []string{}}
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

func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.UTC())
}

// Keep removes all peers except the wanted ones.
func (i *Cluster) Keep(wanted []string) error {
	if len(wanted) == 0 {
		return nil
	}
	kept := map[wire.ClusterID]*Peer{}
	for _, id := range wanted {
		p, ok := i.Peers[wire.ClusterID(id)]
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

// QueryRoot returns the value at which a path of --get begins: the peer, if exactly one peer was
// requested.
func (i *Cluster) QueryRoot(peers []string) any {
	if len(peers) == 1 {
		return i.Peers[wire.ClusterID(peers[0])]
	}
	return i
}

// Healthy reports whether no connection needs an action by an admin.
func (i *Cluster) Healthy() bool {
	for _, p := range i.Peers {
		if p.verdict.Health() != view.Healthy {
			return false
		}
	}
	return true
}
