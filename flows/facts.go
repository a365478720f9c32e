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
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// ContextRef names a kubeconfig context and its file: two files can use the same name for different
// clusters.
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

// Facts holds all that is known about a pair of clusters at one moment.
type Facts struct {
	Sides [2]ClusterFacts // by Side
	At    time.Time
	// Measured is the answer to [AskPackets].
	Measured Answer[Measurement]
	// Reach is what test pods found out about the ways between the clusters; nil until they ran.
	Reach *trial.Reach
	// Tried is the plan after the API servers tried its objects in a dry run; nil before that.
	Tried *Plan
	// Contents are the answers to [AskContents], by Side.
	Contents [2]Answer[Contents]
}

// ClusterFacts holds all that is known about one cluster. These are plain values, not specific to a
// peer: one observation serves every pair that the cluster is part of.
type ClusterFacts struct {
	Context ContextRef
	// Instead names the kubeconfig's cluster and user that the admin chose in place of the
	// context's own; "" means the context's.
	Instead struct{ Cluster, User string }
	Server  string // URL of the API server
	// Described is set if the cluster was not observed: its own admin has described it.
	Described bool
	// Problem is why the cluster can't be used now; nil if it answers.
	Problem *Problem

	UID string // of the kube-system namespace: the same for every way to reach the cluster
	// UIDStandsIn is set if kube-system may not be read: then UID is that of another object. It
	// distinguishes the clusters that this user sees, but nobody else knows the cluster by it.
	UIDStandsIn bool
	// AsPeer: observed with the account that this cluster's admin made for the peer's admin.
	AsPeer  bool
	Version string // of Kubernetes
	// ClockAhead is how far the cluster's clock is ahead of this machine's; negative if it is
	// behind, 0 if they differ by a few seconds at most. Times in objects follow the cluster's
	// clock; [End.Reading], Pods and Events follow this machine's.
	ClockAhead time.Duration

	// ContextNamespace is the namespace that the kubeconfig's context names; "" if
	// it names none.
	ContextNamespace string

	ID        wire.ClusterID
	Software  Software
	Namespace string // where Liqo or our operator lives
	// Elsewhere is an installation in another namespace; zero if none is known.
	Elsewhere ElsewhereFacts
	HasCRDs   bool
	// MissingKinds lists the kinds that connections need and that the API server does not serve in
	// our version, such as "gatewayservers.networking.liqo.io/v1beta1". HasCRDs is set if it is
	// empty.
	MissingKinds []string
	// Definitions lists Liqo's kinds that another program has installed. Liqo, for instance, leaves
	// them behind when it is uninstalled. They are read only if nothing manages connections yet;
	// the list is empty if they may not be read.
	Definitions []DefinitionFacts
	Networks    render.Networks
	// ExternalCIDR is the external range that was requested; "" if none was. Networks.External is
	// the range that the operator assigned.
	ExternalCIDR networkingv1beta1.CIDR
	// ServiceCIDRs are the ranges of the cluster's Services; empty if unknown.
	ServiceCIDRs []networkingv1beta1.CIDR
	// Taken lists all ranges that the cluster has assigned, including the remapped ranges of its
	// peers: the status of every Network. Nodes' addresses are in Nodes.
	Taken []networkingv1beta1.CIDR
	// Pools are the ranges from which our operator assigns ranges to peers; empty means the default
	// pools.
	Pools    []networkingv1beta1.CIDR
	Operator OperatorFacts
	Nodes    []NodeFacts // none if they may not be read
	// Unreached lists, for each node, the gateways that its agent can't reach; sorted by node.
	Unreached []UnreachedFacts
	// Agents lists the nodes whose agent has reported something, sorted.
	Agents []string
	// AgentStatus is each agent's report on its work, by node; zero if it reports nothing.
	AgentStatus map[string]wire.NodeStatus
	// AgentsUnknown is set if the agents' reports may not be read.
	AgentsUnknown bool
	// Unattended lists the nodes of Agents that have no ready agent now, sorted. Their agent's
	// report is out of date, and they keep the rules and routes that they had.
	Unattended []string
	// AttendanceUnknown is set if agents' pods may not be read: then Unattended is empty.
	AttendanceUnknown bool
	// PodsHidden is set if gateways' pods may not be read, or only those in namespace PodsSeen. In
	// other namespaces, "no pod seen" does not mean "no pod".
	PodsHidden bool
	PodsSeen   string
	// ManagersHidden is set if Deployments may not be read, or those of one namespace alone: then
	// NoSoftware proves nothing.
	ManagersHidden bool
	// PeersHidden is set if only one namespace may be read: others may hold connections.
	PeersHidden bool
	// NodePorts is the range for node ports; the zero value if unknown.
	NodePorts PortRange
	// LoadBalancers counts the cluster's Services of type LoadBalancer.
	LoadBalancers LoadBalancerFacts

	// Namespaces lists all that may be seen: a connection can be in any of them.
	Namespaces []corev1.Namespace
	// Objects of the connections of this cluster.
	Configurations []networkingv1beta1.Configuration
	Servers        []networkingv1beta1.GatewayServer
	Clients        []networkingv1beta1.GatewayClient
	PublicKeys     []networkingv1beta1.PublicKey
	Connections    []networkingv1beta1.Connection
	// Templates of gateways; empty if they may not be read.
	Templates []TemplateFacts
	// Pods of gateways, each with what it waits for.
	Pods []PodFacts
	// Keys are the gateways' own public keys, by namespace/name of the gateway.
	Keys map[string]wgtypes.Key
	// Events are the recent warnings about objects in the namespaces of EventsRead,
	// the newest first.
	Events []EventFacts
	// EventsRead has the namespaces whose warnings were requested. The value says why they are
	// unknown; "" if they are known. Nothing is known of other namespaces.
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
	// Polled lists the kinds that may be listed but not watched: facts from them are up to a few
	// seconds old.
	Polled []string
}

// ElsewhereFacts is an installation of Liqo or of our operator in a namespace other than the one
// that was searched.
type ElsewhereFacts struct {
	Software  Software
	Namespace string
}

// OperatorFacts tells whether Liqo's or our operator runs.
type OperatorFacts struct {
	// Version of its image, "" if unknown.
	Version string
	// Problem is why the operator does nothing, as a sentence: its pod does not start, or it
	// refuses to work. "" if it works.
	Problem string
	// Refuses is set if the operator runs but refuses to work here, for instance beside Liqo.
	Refuses bool
	// Unstated tells which ranges install has to state, because the cluster does not say them.
	Unstated struct{ Pods, Services bool }
	// KeepsRange is set if install has stated a range in place of one that peers know.
	KeepsRange bool
	// Peering is our operator's role in lending.
	Peering render.PeeringRole
	// APIServer is the URL that an admin has set for consumers; "" if none is set.
	APIServer string
}

// NodeFacts is what one node reports about itself.
type NodeFacts struct {
	Name     string
	Internal []netip.Addr
	External []netip.Addr
	Ready    bool
	// Excluded is why our programs can't run on the node, such as "runs windows"; "" if they can.
	// Ready does not matter for it.
	Excluded string
	// Provider is the scheme of the node's provider ID, such as "aws" or "kind";
	// "" if it has none.
	Provider string
	Kernel   string // its release, such as "6.1.0-18-amd64"; "" if unknown
	Arch     string // such as "arm64"; "" if unknown
	// CPUs, in thousandths, and bytes of memory that the node has; 0 if unknown.
	CPUs, Memory int64
}

// UnreachedFacts is the report of one node's agent, which keeps asking gateways over the fabric.
type UnreachedFacts struct {
	Node     string
	Gateways []string // as namespace/name
}

// PortRange is an inclusive range of ports.
type PortRange struct{ From, To uint16 }

// Contains reports whether port is in the range. An unknown range contains every port.
func (r PortRange) Contains(port uint16) bool {
	return r == PortRange{} || r.From <= port && port <= r.To
}

// LoadBalancerFacts tells whether something assigns addresses to Services of type LoadBalancer:
// Answered counts those that have one, Pending those that wait.
type LoadBalancerFacts struct{ Answered, Pending int }

// EventFacts is a Kubernetes warning about one object.
type EventFacts struct {
	Object          string // as [apply.Name] writes it
	Reason, Message string
	Count           int
	At              time.Time // the last time
}

// Name is the cluster's name in plans: its ID, or the context if the ID is unknown.
func (c ClusterFacts) Name() wire.ClusterID {
	return cmp.Or(c.ID, wire.ClusterID(c.Context.String()))
}

// PodFacts is a gateway's pod, for the texts of waiting steps.
type PodFacts struct {
	Namespace, Name, Gateway string
	Ready                    bool
	// Active is set if the pod holds the tunnel; the gateway's other pods stand by.
	Active bool
	// Waiting is what keeps the pod from running; "" if nothing does.
	Waiting string
	// Node on which the pod runs; "" until it is scheduled.
	Node     string
	Restarts int
	// Restarted is when a container last restarted; zero if none did, or if it is unknown.
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

// Problem is why a cluster can't be used, in words and as a class for the exit code.
type Problem struct {
	Kind    ProblemKind
	Word    string // for a list; "" means the word of Kind
	Message string
	Fix     command.Hint
}

func (p *Problem) Error() string { return p.Message }

// InShort is the problem in a few words, for a list.
func (p *Problem) InShort() string {
	word := map[ProblemKind]string{Unauthorized: "login refused", Forbidden: "not allowed"}[p.Kind]
	return cmp.Or(p.Word, word, "no answer")
}

// Hint is what the admin can do.
func (p *Problem) Hint() command.Hint { return p.Fix }

// ProblemKind is the class of a [Problem].
type ProblemKind uint8

// Classes of problems.
const (
	Unreachable  ProblemKind = iota + 1 // no answer from the API server
	Unauthorized                        // it rejects the credentials, or there are none
	Forbidden                           // it refuses to show what is needed
)

// End is one cluster's end of its connection with another.
type End struct {
	Tenant        render.Tenant
	Namespace     *corev1.Namespace // nil when it doesn't exist
	Configuration *networkingv1beta1.Configuration
	Server        *networkingv1beta1.GatewayServer
	Client        *networkingv1beta1.GatewayClient
	PublicKey     *networkingv1beta1.PublicKey
	Connection    *networkingv1beta1.Connection
	Pod           *PodFacts
	// NotMade is why Kubernetes makes no pod of the gateway, if there is none and warnings say so.
	NotMade string
	// Key is the public key of this cluster's own gateway; nil until it is known.
	Key *wgtypes.Key
	// ClockAhead is the cluster's [ClusterFacts.ClockAhead].
	ClockAhead time.Duration
	// Self is the cluster itself.
	Self Self
	// Unreached lists nodes that can't reach the gateway: their pods can't reach the peer.
	Unreached []string
	// NodeProblems lists problems of nodes that don't lead to the peer as they should. Each begins
	// with the node's name; sorted.
	NodeProblems []string
}

// Self is what a cluster knows of itself, for the judgement of each of its connections.
type Self struct {
	Ranges   string // as [Ranges] writes them; "" if they are not published
	Identity string // its [ClusterFacts.Identity]
	Problem  string // why nothing manages its connections now; "" if something does, or if it is unknown
}

func (c ClusterFacts) self() Self {
	s := Self{Ranges: Ranges(c.Networks.Pod, c.Networks.External), Identity: c.Identity()}
	switch {
	case c.Software == NoSoftware && c.Unseen() == "":
		s.Problem = "neither Liqo nor the liqo-tui operator is there"
	case c.Software != NoSoftware:
		s.Problem = c.Operator.Problem
	}
	return s
}

// Ranges writes a cluster's ranges in an order of their own, so that equal ranges have equal texts;
// "" if there are none.
func Ranges(pod, external []networkingv1beta1.CIDR) string {
	if len(pod) == 0 {
		return ""
	}
	text := "pods " + Joined(slices.Sorted(slices.Values(pod)))
	if len(external) > 0 {
		text += ", external " + Joined(slices.Sorted(slices.Values(external)))
	}
	return text
}

// End returns what the cluster of a side has of its connection with the other side.
func (f Facts) End(side Side) End { return f.Sides[side].End(f.Sides[side.Other()].ID) }

// End finds the objects of the connection with remote by their labels. Names are not fixed, and
// other tools choose their own.
func (c ClusterFacts) End(remote wire.ClusterID) End { return c.endIn("", remote) }

// endIn is End for a connection that may not exist yet: then it will be in namespace; "" means
// Liqo's default.
func (c ClusterFacts) endIn(namespace string, remote wire.ClusterID) End {
	namespace = c.homes(remote)[remote].namespace(cmp.Or(namespace, wire.TenantNamespaceName(remote)))
	p := End{Tenant: render.Tenant{Namespace: namespace, Remote: remote}, ClockAhead: c.ClockAhead, Self: c.self(), Namespace: c.FindNamespace(namespace)}
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
	if p.Pod == nil && name != "" {
		p.NotMade = c.notMade(namespace, name)
	}
	if key, ok := c.Keys[p.Tenant.Namespace+"/"+name]; ok && name != "" {
		p.Key = &key
	}
	p.Unreached = c.unreached()[p.Tenant.Namespace+"/"+name]
	p.NodeProblems = c.nodeProblems()(p.Tenant.Namespace + "/" + name)
	return p
}

// nodeProblems returns a function that lists the problems for one gateway, by its namespace/name. A
// node that is not set up may be a problem for every gateway, so each list has it.
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

// unreached maps a gateway's namespace/name to the nodes that can't reach it.
func (c ClusterFacts) unreached() map[string][]string {
	nodes := map[string][]string{}
	for _, u := range c.Unreached {
		for _, gateway := range u.Gateways {
			nodes[gateway] = append(nodes[gateway], u.Node)
		}
	}
	return nodes
}

// FindNamespace returns nil if the namespace does not exist, or may not be seen.
func (c ClusterFacts) FindNamespace(name string) *corev1.Namespace {
	for i := range c.Namespaces {
		if c.Namespaces[i].Name == name {
			return &c.Namespaces[i]
		}
	}
	return nil
}

// home collects the namespaces in which a connection may be.
type home struct {
	labelled string // the first namespace with the peer's label
	works    string // the first with a Connection that is Connected
	gateway  string // one with a gateway to the peer: that of works, else labelled, else the first
	other    string // the same with a Configuration for it
}

// namespace chooses the connection's namespace. Objects count more than a label: Liqo labels the
// namespace of its authentication, even if the connection was made by hand in another namespace. Of
// several namespaces with a gateway, the one with a working gateway wins, then the labelled one.
func (h home) namespace(standard string) string {
	return cmp.Or(h.gateway, h.other, h.labelled, standard)
}

// homes finds the namespaces of all connections; if only is not "", of the one with that peer.
func (c ClusterFacts) homes(only wire.ClusterID) map[wire.ClusterID]home {
	all := map[wire.ClusterID]home{}
	for i := range c.Namespaces {
		ns := &c.Namespaces[i]
		remote := wire.ClusterID(ns.Labels[wire.LabelRemoteCluster])
		if remote != "" && (only == "" || only == remote) && all[remote].labelled == "" && !peering.Stands(ns) {
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

// farConfiguration returns the Configuration of a peering whose gateway's namespace has none.
func (c ClusterFacts) farConfiguration(remote wire.ClusterID) *networkingv1beta1.Configuration {
	for i := range c.Configurations {
		if o := &c.Configurations[i]; c.Can().FarConfiguration && o.Labels[wire.LabelRemoteCluster] == string(remote) {
			return o
		}
	}
	return nil
}

// connections yields the objects that make up connections, without those that operators derive from
// them. A label names the peer.
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

// peeringIn returns a peer other than remote that has objects in the namespace; "" if there is
// none.
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

// Text is the event as the end of a sentence.
func (e EventFacts) Text(now time.Time) string {
	text := fmt.Sprintf("warning about %s: %s: %s", e.Object, e.Reason, strings.TrimSpace(e.Message))
	if !e.At.IsZero() {
		text += fmt.Sprintf(" (%s ago)", now.Sub(e.At).Round(time.Second))
	}
	return text
}

// DelegationFacts holds the objects that give a peer's operator or admin access. Some are tokens,
// so they are observed only for plans about this access.
type DelegationFacts struct {
	CA       []byte // of the API server, PEM, from the admin's kubeconfig; nil if the kubeconfig has none
	Accounts []corev1.ServiceAccount
	Roles    []rbacv1.Role
	Bindings []rbacv1.RoleBinding
	Secrets  []corev1.Secret
	Bounds   []string // names of the installation's admission policies that have a binding
}
