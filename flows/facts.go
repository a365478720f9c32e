// Package flows decides how two clusters become connected. A plan is a value,
// computed from what the admin wants ([Params]) and what is there ([Facts]);
// engine.Run observes, plans and applies until the plan is done. Nothing here talks
// to a cluster, reads a clock or starts a goroutine: that is for package engine.
package flows

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/liqo-tui/liqo-tui/flows/lending"
	"github.com/liqo-tui/liqo-tui/flows/policy"
	"github.com/liqo-tui/liqo-tui/flows/trial"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// ContextRef names a kubeconfig context by its file too: two files may use the
// same name for different clusters.
type ContextRef struct {
	File string // "" for kubectl's own rules
	Name string // "" for the file's current context
}

func (r ContextRef) String() string {
	if r.File == "" {
		return cmp.Or(r.Name, "current context")
	}
	return cmp.Or(r.Name, "current context") + " of " + r.File
}

// Facts are what is known of a pair of clusters at one moment.
type Facts struct {
	Sides [2]ClusterFacts // by Side
	At    time.Time
	// Measured is the answer to [AskPackets].
	Measured Answer[Measurement]
	// Reach is what pods have tried of the ways between the clusters, nil before that.
	Reach *trial.Reach
	// Judged is the plan with what the API servers say of its objects, nil before they
	// were asked.
	Judged *Plan
	// Contents are the answers to [AskContents], by Side.
	Contents [2]Answer[Contents]
}

// ClusterFacts are what is known of one cluster: plain values, not specific to
// a peer, so that one observation serves every pair the cluster is part of.
type ClusterFacts struct {
	Context ContextRef
	// Instead are the kubeconfig's cluster and user that were chosen in place of the
	// context's own, "" for those.
	Instead struct{ Cluster, User string }
	Server  string // URL of the API server
	// Described is a cluster that was not observed: its own admin has told of it.
	Described bool
	// Problem is why the cluster can't be used now; nil when it answers.
	Problem *Problem

	UID string // of the kube-system namespace: the same for every way to reach the cluster
	// UIDStandsIn: kube-system may not be read, and UID is that of another object. It
	// tells clusters apart that this user sees, and nobody else knows a cluster by it.
	UIDStandsIn bool
	// AsPeer: seen with an account that the cluster's admin made for the other one's.
	AsPeer  bool
	Version string // of Kubernetes
	// ClockAhead is how far the cluster's clock is ahead of this machine's,
	// negative if it is behind; 0 while they are a few seconds apart at most. The
	// times in objects are by the cluster's clock; [Peer.Reading], Pods and
	// Events are by this machine's.
	ClockAhead time.Duration

	// ContextNamespace is the namespace that the kubeconfig's context names; "" if
	// it names none.
	ContextNamespace string

	ID        wire.ClusterID
	Software  Software
	Namespace string // where Liqo or our operator lives
	// Elsewhere is what is installed in another namespace; none if unknown.
	Elsewhere ElsewhereFacts
	HasCRDs   bool
	// MissingKinds are those of the kinds that peerings are made of which the API
	// server does not serve in the version that we speak, as
	// "gatewayservers.networking.liqo.io/v1beta1". HasCRDs is set when none is.
	MissingKinds []string
	// Definitions are those of Liqo's kinds that another program has put there,
	// such as Liqo, which leaves them behind when it is uninstalled. They are looked
	// for only where nothing manages connections; none if they may not be read.
	Definitions []DefinitionFacts
	Networks    render.Networks
	// ExternalCIDR is what was asked for as external range, "" if nothing was yet:
	// Networks.External is what the operator made of it.
	ExternalCIDR networkingv1beta1.CIDR
	// ServiceCIDRs are the ranges of the cluster's Services; none if unknown.
	ServiceCIDRs []networkingv1beta1.CIDR
	// Taken are all ranges that the cluster has decided on, the remapped ones of
	// its peers too: the status of every Network. Nodes' addresses are in Nodes.
	Taken []networkingv1beta1.CIDR
	// Pools are those from which our operator gives peers ranges, if it was told
	// others than the default.
	Pools    []networkingv1beta1.CIDR
	Operator OperatorFacts
	Nodes    []NodeFacts // none if they may not be read
	// Unreached are the gateways that a node's agent can't reach, sorted by node.
	Unreached []UnreachedFacts
	// Agents are the nodes of which an agent has said something, sorted.
	Agents []string
	// AgentStatus is what each of them says of its work, by node; zero if it says nothing.
	AgentStatus map[string]wire.NodeStatus
	// AgentsUnknown: what agents say may not be read.
	AgentsUnknown bool
	// Unattended are those of Agents that no agent is ready on now, sorted: what the agent
	// said is out of date, and the node keeps the rules and routes that it had.
	Unattended []string
	// AttendanceUnknown: pods of agents may not be read, so Unattended lacks all of them.
	AttendanceUnknown bool
	// PodsHidden: pods of gateways may not be read, or only those in namespace PodsSeen:
	// that there is none elsewhere proves nothing.
	PodsHidden bool
	PodsSeen   string
	// ManagersHidden: Deployments may not be read, so NoSoftware proves nothing.
	ManagersHidden bool
	// PeersHidden: peerings may be in other namespaces than the one that may be read.
	PeersHidden bool
	// NodePorts is the range for node ports; the zero value if unknown.
	NodePorts PortRange
	// LoadBalancers counts the cluster's Services of that type.
	LoadBalancers LoadBalancerFacts

	// Namespaces are all that may be seen: a peering may be in any of them.
	Namespaces []corev1.Namespace
	// Objects of the peerings of this cluster.
	Configurations []networkingv1beta1.Configuration
	Servers        []networkingv1beta1.GatewayServer
	Clients        []networkingv1beta1.GatewayClient
	PublicKeys     []networkingv1beta1.PublicKey
	Connections    []networkingv1beta1.Connection
	// Templates of gateways; none if they may not be read.
	Templates []TemplateFacts
	// Pods of gateways, by what they are waiting for.
	Pods []PodFacts
	// Keys are the gateways' own public keys, by namespace/name of the gateway.
	Keys map[string]wgtypes.Key
	// Events are the recent warnings about objects in the namespaces of EventsRead,
	// the newest first.
	Events []EventFacts
	// EventsRead are the namespaces whose warnings were asked for, with why they are
	// not known; "" if they are. Of other namespaces nothing is known.
	EventsRead map[string]string
	// Installation is the answer to [AskInstallation].
	Installation Answer[InstallationFacts]
	// ImageTrial is the answer to [AskImage].
	ImageTrial Answer[trial.Image]
	// APITrial is the answer to [AskAPI].
	APITrial Answer[trial.API]
	// Policies are the answer to [AskPolicies].
	Policies Answer[policy.Facts]
	// Delegation and Lending are nil unless they were asked for.
	Delegation *DelegationFacts
	Lending    *lending.Facts
	// Polled are the kinds that may be listed but not watched: what they tell is
	// up to a few seconds old.
	Polled []string
}

// ElsewhereFacts are an installation of Liqo or of our operator in another namespace than the
// one that was looked into.
type ElsewhereFacts struct {
	Software  Software
	Namespace string
}

// OperatorFacts say whether Liqo, or our operator, runs.
type OperatorFacts struct {
	// Version of its image, "" if unknown.
	Version string
	// Problem is why it does nothing, as a sentence: its pod does not start, or
	// it refuses to. "" when it works.
	Problem string
	// Refuses is set when it runs and will not work here, for instance beside Liqo.
	Refuses bool
	// Peering is the part that ours takes in whole peerings.
	Peering render.PeeringRole
	// APIServer is the URL that an admin has consumers of ours told; "" if none has.
	APIServer string
}

// NodeFacts are what one node says of itself.
type NodeFacts struct {
	Name     string
	Internal []netip.Addr
	External []netip.Addr
	Ready    bool
	// Unfit is why our programs can't run on it, ready or not: "runs windows"; "" if
	// they can.
	Unfit string
	// Provider is the scheme of the node's provider ID, such as "aws" or "kind";
	// "" if it has none.
	Provider string
	Kernel   string // its release, such as "6.1.0-18-amd64"; "" if unknown
	Arch     string // such as "arm64"; "" if unknown
	// CPUs, in thousandths, and bytes of memory that the node has; 0 if unknown.
	CPUs, Memory int64
}

// UnreachedFacts are what one node's agent says: it asks gateways over the fabric all
// the time.
type UnreachedFacts struct {
	Node     string
	Gateways []string // as namespace/name
}

// PortRange is an inclusive range of ports.
type PortRange struct{ From, To uint16 }

// Contains reports whether port is in the range. An unknown range has them all.
func (r PortRange) Contains(port uint16) bool {
	return r == PortRange{} || r.From <= port && port <= r.To
}

// LoadBalancerFacts tell whether something gives addresses to Services of type
// LoadBalancer: those that have one, and those that wait.
type LoadBalancerFacts struct{ Answered, Pending int }

// EventFacts is a warning of Kubernetes' about one object.
type EventFacts struct {
	Object          string // as [render.Name] writes it
	Reason, Message string
	Count           int
	At              time.Time // the last time
}

// Name is how a plan calls the cluster: by its ID, or as long as that isn't
// known, as the admin did.
func (c ClusterFacts) Name() wire.ClusterID {
	return cmp.Or(c.ID, wire.ClusterID(c.Context.String()))
}

// PodFacts is a gateway's pod as a waiting step speaks of it.
type PodFacts struct {
	Namespace, Name, Gateway string
	Ready                    bool
	// Active holds the tunnel; others of the same gateway stand by.
	Active bool
	// Waiting says what keeps the pod from running, "" when nothing does.
	Waiting string
	// Node on which it runs, "" until it is scheduled.
	Node     string
	Restarts int
	// Restarted is when a container was started anew last; zero if none was, or
	// that is not known.
	Restarted time.Time
}

// Software is which operator connects a cluster: none, Liqo or ours.
type Software uint8

// What can be installed on a cluster.
const (
	NoSoftware Software = iota
	Operator            // ours
	Liqo                // outranks ours: beside it, ours refuses to work
)

func (s Software) String() string {
	switch s {
	case Liqo:
		return "Liqo"
	case Operator:
		return "liqo-tui operator"
	case NoSoftware:
	}
	return "none"
}

// Problem is why a cluster can't be used, for a person and for an exit code.
type Problem struct {
	Kind          ProblemKind
	Word          string // for a list; "" stands for the kind's
	Message, Hint string
}

func (p *Problem) Error() string { return p.Message }

// ProblemKind is the class of a [Problem].
type ProblemKind uint8

// Classes of problems.
const (
	Unreachable  ProblemKind = iota + 1 // no answer from the API server
	Unauthorized                        // it does not accept the credentials, or there are none
	Forbidden                           // it does not allow to read what is needed
)

// Peer is the view of one cluster on its peering with another.
type Peer struct {
	Tenant        render.Tenant
	Namespace     *corev1.Namespace // nil when it doesn't exist
	Configuration *networkingv1beta1.Configuration
	Server        *networkingv1beta1.GatewayServer
	Client        *networkingv1beta1.GatewayClient
	PublicKey     *networkingv1beta1.PublicKey
	Connection    *networkingv1beta1.Connection
	Pod           *PodFacts
	// Key is the public key of this cluster's own gateway; nil until it is known.
	Key *wgtypes.Key
	// ClockAhead is the cluster's.
	ClockAhead time.Duration
	// Unreached are the nodes that can't reach the gateway; their pods can't reach the peer.
	Unreached []string
	// NodeProblems are of nodes that don't lead to the peer as they should, each with the
	// node's name first; sorted.
	NodeProblems []string
}

// Peer is what the cluster of a side has of the pair's connection.
func (f Facts) Peer(side Side) Peer { return f.Sides[side].Peer(f.Sides[side.Other()].ID) }

// Peer finds the objects of the peering with remote, by label: names are not
// fixed, and what another tool made is found too.
func (c ClusterFacts) Peer(remote wire.ClusterID) Peer { return c.peerIn("", remote) }

// peerIn is Peer, with the namespace to use where no peering exists; "" is
// Liqo's default.
func (c ClusterFacts) peerIn(namespace string, remote wire.ClusterID) Peer {
	namespace = c.homes(remote)[remote].namespace(cmp.Or(namespace, wire.TenantNamespaceName(remote)))
	p := Peer{Tenant: render.Tenant{Namespace: namespace, Remote: remote}, ClockAhead: c.ClockAhead, Namespace: c.FindNamespace(namespace)}
	if p.Configuration = find[networkingv1beta1.Configuration](c.Configurations, p.Tenant); p.Configuration == nil {
		p.Configuration = c.farConfiguration(remote)
	}
	p.Server = find[networkingv1beta1.GatewayServer](c.Servers, p.Tenant)
	p.Client = find[networkingv1beta1.GatewayClient](c.Clients, p.Tenant)
	p.PublicKey = find[networkingv1beta1.PublicKey](c.PublicKeys, p.Tenant)
	p.Connection = find[networkingv1beta1.Connection](c.Connections, p.Tenant)
	name := p.GatewayName()
	for i := range c.Pods {
		if pod := &c.Pods[i]; pod.Namespace == p.Tenant.Namespace && pod.Gateway == name {
			p.Pod = activePod(p.Pod, pod)
		}
	}
	if key, ok := c.Keys[p.Tenant.Namespace+"/"+name]; ok && name != "" {
		p.Key = &key
	}
	p.Unreached = c.unreached()[p.Tenant.Namespace+"/"+name]
	p.NodeProblems = c.nodeProblems()(p.Tenant.Namespace + "/" + name)
	return p
}

// nodeProblems returns those of a gateway, by its namespace/name. What keeps a node from
// being set up may be about any.
func (c ClusterFacts) nodeProblems() func(gateway string) []string {
	var all []string
	of := map[string][]string{}
	for _, node := range slices.Sorted(maps.Keys(c.AgentStatus)) {
		s := c.AgentStatus[node]
		if s.Problem != "" {
			all = append(all, node+" is not set up as it has to be: "+s.Problem)
		}
		for gateway, why := range s.Unfit {
			of[gateway] = append(of[gateway], node+" "+why)
		}
	}
	return func(gateway string) []string { return slices.Concat(of[gateway], all) }
}

// unreached are the nodes that can't reach a gateway, by its namespace/name.
func (c ClusterFacts) unreached() map[string][]string {
	nodes := map[string][]string{}
	for _, u := range c.Unreached {
		for _, gateway := range u.Gateways {
			nodes[gateway] = append(nodes[gateway], u.Node)
		}
	}
	return nodes
}

// FindNamespace is nil if there is no such namespace, or it may not be seen.
func (c ClusterFacts) FindNamespace(name string) *corev1.Namespace {
	for i := range c.Namespaces {
		if c.Namespaces[i].Name == name {
			return &c.Namespaces[i]
		}
	}
	return nil
}

// home is where a peering is.
type home struct {
	labelled string // the first namespace with the peer's label
	works    string // the first with a Connection that is Connected
	gateway  string // the first namespace with a gateway to the peer
	other    string // the first with a Configuration for it
}

// namespace is the peering's. A label counts less than objects: Liqo labels the
// namespace of its authentication, also where the connection was made by hand in
// another one. Of several namespaces with a gateway, the one whose gateway works
// counts, else the labelled one.
func (h home) namespace(standard string) string {
	return cmp.Or(h.gateway, h.other, h.labelled, standard)
}

// homes are where the peerings are, or only the one with a peer.
func (c ClusterFacts) homes(only wire.ClusterID) map[wire.ClusterID]home {
	all := map[wire.ClusterID]home{}
	for i := range c.Namespaces {
		ns := &c.Namespaces[i]
		remote := wire.ClusterID(ns.Labels[wire.LabelRemoteCluster])
		if remote != "" && (only == "" || only == remote) && all[remote].labelled == "" {
			all[remote] = home{labelled: ns.Name}
		}
	}
	for i := range c.Connections {
		o := &c.Connections[i]
		remote := wire.ClusterID(o.Labels[wire.LabelRemoteCluster])
		if h := all[remote]; remote != "" && h.works == "" && o.Status.Value == networkingv1beta1.Connected {
			h.works = o.Namespace
			all[remote] = h
		}
	}
	for o := range c.connections() {
		remote := wire.ClusterID(o.GetLabels()[wire.LabelRemoteCluster])
		if remote == "" || only != "" && only != remote {
			continue
		}
		h := all[remote]
		found := &h.gateway
		if _, configuration := o.(*networkingv1beta1.Configuration); configuration {
			found = &h.other
		}
		if ns := o.GetNamespace(); *found == "" || ns == cmp.Or(h.works, h.labelled) {
			*found = ns
		}
		all[remote] = h
	}
	return all
}

// farConfiguration is the Configuration of a peering that has none beside its
// gateway. Liqo takes it from any namespace; our operator does not.
func (c ClusterFacts) farConfiguration(remote wire.ClusterID) *networkingv1beta1.Configuration {
	for i := range c.Configurations {
		if o := &c.Configurations[i]; c.Software == Liqo && o.Labels[wire.LabelRemoteCluster] == string(remote) {
			return o
		}
	}
	return nil
}

// connections are the objects that make up connections, those that follow from
// them left out. Their peer is in a label.
func (c ClusterFacts) connections() iter.Seq[wire.Object] {
	return func(yield func(wire.Object) bool) {
		for i := range c.Configurations {
			if !yield(&c.Configurations[i]) {
				return
			}
		}
		for i := range c.Servers {
			if !yield(&c.Servers[i]) {
				return
			}
		}
		for i := range c.Clients {
			if !yield(&c.Clients[i]) {
				return
			}
		}
	}
}

// peeringIn is another peer than remote whose peering a namespace has objects
// of; "" is none.
func (c ClusterFacts) peeringIn(namespace string, remote wire.ClusterID) wire.ClusterID {
	for o := range c.connections() {
		of := wire.ClusterID(o.GetLabels()[wire.LabelRemoteCluster])
		if o.GetNamespace() == namespace && of != "" && of != remote {
			return of
		}
	}
	return ""
}

func find[T any, O interface {
	*T
	wire.Object
}](all []T, t render.Tenant) *T {
	for i := range all {
		o := O(&all[i])
		if o.GetNamespace() == t.Namespace && o.GetLabels()[wire.LabelRemoteCluster] == string(t.Remote) {
			return &all[i]
		}
	}
	return nil
}

// Text is an event as the end of a sentence.
func (e EventFacts) Text(now time.Time) string {
	text := fmt.Sprintf("warning about %s: %s: %s", e.Object, e.Reason, strings.TrimSpace(e.Message))
	if !e.At.IsZero() {
		text += fmt.Sprintf(" (%s ago)", now.Sub(e.At).Round(time.Second))
	}
	return text
}

// DelegationFacts are what is there of the access of a peer's operator or admin. They
// hold tokens, so they are observed only for plans about it.
type DelegationFacts struct {
	CA       []byte // of the API server, PEM, from the admin's kubeconfig; nil if that has none
	Accounts []corev1.ServiceAccount
	Roles    []rbacv1.Role
	Bindings []rbacv1.RoleBinding
	Secrets  []corev1.Secret
	Bounds   []string // names of the admission policies of the installation that are bound
}
