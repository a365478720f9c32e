// Package flows decides how two clusters become connected. A plan is a value. It is computed from the
// admin's choices ([Params]) and from facts about the clusters ([Facts]). engine.Run observes, plans
// and applies until the plan is done. This package does not talk to a cluster, read a clock or start a
// goroutine, but package engine does.
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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/liqo-tui/liqo-tui/flows/lending"
	"github.com/liqo-tui/liqo-tui/flows/policy"
	"github.com/liqo-tui/liqo-tui/flows/trial"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/history"
	"github.com/liqo-tui/liqo-tui/internal/services"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// ContextRef names a kubeconfig context and its file. The name alone is not enough, because two files
// can use it for different clusters.
type ContextRef struct {
	File string // "" means the files that kubectl would read
	Name string // "" means the current context of the file
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
	// Tried is the plan with the results of a dry run on the API servers; nil before the dry run.
	Tried *Plan
	// Contents are the answers to [AskContents], by Side.
	Contents [2]Answer[Contents]
}

// ClusterFacts holds all that is known about one cluster. The facts are not specific to a peer, so one
// observation of the cluster serves all of its connections.
type ClusterFacts struct {
	Context ContextRef
	// Instead is the cluster, user or impersonated user that the admin chose instead of those in the
	// context.
	Instead command.Instead
	Server  string // URL of the API server
	// Described is set if the facts come from a file or flags, and not from the cluster itself.
	Described bool
	// Problem is why the cluster can't be used now; nil if it answers.
	Problem *Problem

	// UID is the UID of the Namespace kube-system. It is the same for all contexts of the cluster.
	UID string
	// UIDStandsIn is set if kube-system may not be read. Then UID is the UID of another object. It
	// distinguishes the clusters that this user sees, but other users see another UID.
	UIDStandsIn bool
	// AsPeer is set if the cluster was observed with the account that its admin made for the admin of
	// a peer.
	AsPeer  bool
	Version string // of Kubernetes
	// ClockAhead is how far the cluster's clock is ahead of this machine's; negative if it is
	// behind, 0 if they differ by a few seconds at most. Times in objects are times of the cluster's
	// clock. Times in [End.Reading], Pods and Events are times of this machine's clock.
	ClockAhead time.Duration

	// ContextNamespace is the namespace in the kubeconfig's context; "" if the context has none.
	ContextNamespace string

	ID        wire.ClusterID
	Software  Software
	Namespace string // of the installation: Liqo's or ours
	// Elsewhere is an installation in another namespace; zero if none is known.
	Elsewhere ElsewhereFacts
	HasCRDs   bool
	// MissingKinds lists the kinds that connections need and that the API server does not serve in
	// our version, such as "gatewayservers.networking.liqo.io/v1beta1". If the list is empty, HasCRDs
	// is set.
	MissingKinds []string
	// Definitions lists the definitions of Liqo's kinds that another program has installed. For
	// instance, Liqo leaves them behind when it is uninstalled. They are read only if no operator is
	// installed yet. The list is also empty if they may not be read.
	Definitions []DefinitionFacts
	Networks    render.Networks
	// ExternalCIDR is the external range that the installation requests; "" if it requests none.
	// Networks.External is the range that the operator assigned.
	ExternalCIDR networkingv1beta1.CIDR
	// ServiceCIDRs are the ranges of the cluster's Services; empty if unknown.
	ServiceCIDRs []networkingv1beta1.CIDR
	// Taken lists the ranges in the status of all Networks. The remapped ranges of peers are in it, the
	// addresses of nodes are not.
	Taken []networkingv1beta1.CIDR
	// Pools are the ranges from which our operator takes the ranges of peers. Empty means its default
	// pools.
	Pools    []networkingv1beta1.CIDR
	Operator OperatorFacts
	Nodes    []NodeFacts // empty if they may not be read
	// Unreached lists, for each node, the gateways that its agent can't reach; sorted by node.
	Unreached []UnreachedFacts
	// Agents lists the nodes with a report of their agent, sorted.
	Agents []string
	// AgentStatus has, by node, the agent's report about its work. It is zero if an older agent does
	// not report this.
	AgentStatus map[string]wire.NodeStatus
	// AgentsUnknown is set if the agents' reports may not be read.
	AgentsUnknown bool
	// Unattended lists the nodes of Agents that have no ready agent now, sorted. The agent's report is
	// out of date on such a node, and the node keeps the rules and routes that it had.
	Unattended []string
	// AttendanceUnknown is set if the agents' pods may not be read. Then Unattended is empty.
	AttendanceUnknown bool
	// PodsHidden is set if this user may not read gateways' pods in all namespaces. PodsSeen is the
	// only namespace whose pods this user reads; "" if there is no such namespace. Pods lacks the
	// pods of all other namespaces.
	PodsHidden bool
	PodsSeen   string
	// ManagersHidden is set if this user may not read the Deployments of all namespaces. If it is set,
	// an operator may be installed, although Software is NoSoftware.
	ManagersHidden bool
	// PeersHidden is set if this user may read Namespaces, or a kind of a connection's objects, only
	// for one namespace. Then other namespaces may have connections that are not in these facts.
	PeersHidden bool
	// NodePorts is the range of node ports; zero if it is unknown.
	NodePorts PortRange
	// LoadBalancers counts the cluster's Services of type LoadBalancer.
	LoadBalancers LoadBalancerFacts
	// UsedPorts are the node ports of all Services, also of those that other programs have made.
	UsedPorts []UsedPort
	// ServicesHidden is set if this user may not read the Services of every namespace.
	ServicesHidden bool

	// Namespaces lists all namespaces that this user may read. A connection can be in any namespace.
	Namespaces []corev1.Namespace
	// Configurations and the next fields are the objects of this cluster's connections.
	Configurations []networkingv1beta1.Configuration
	Servers        []networkingv1beta1.GatewayServer
	Clients        []networkingv1beta1.GatewayClient
	PublicKeys     []networkingv1beta1.PublicKey
	Connections    []networkingv1beta1.Connection
	// Templates are the templates of gateways; empty if they may not be read.
	Templates []TemplateFacts
	// Pods are the pods of gateways.
	Pods []PodFacts
	// Keys are the public keys of this cluster's gateways, by the gateway's namespace/name.
	Keys map[string]wgtypes.Key
	// Events are the recent warnings about objects in the namespaces of EventsRead,
	// the newest first.
	Events []EventFacts
	// EventsRead has the namespaces whose warnings were requested. The value is "" if the warnings
	// were read, otherwise the reason that they are unknown.
	EventsRead map[string]string
	// Installation is the answer to [AskInstallation].
	Installation Answer[InstallationFacts]
	// DNS is the answer to [AskDNS].
	DNS Answer[[]*unstructured.Unstructured]
	// ImageTrial is the answer to [AskImage].
	ImageTrial Answer[trial.Image]
	// APITrial is the answer to [AskAPI].
	APITrial Answer[trial.API]
	// Older are the answer to [AskDefinitions].
	Older Answer[[]DefinitionFacts]
	// Policies are the answer to [AskPolicies].
	Policies Answer[policy.Facts]
	// Services is the answer to [AskServices].
	Services Answer[services.Found]
	// History is the answer to [AskHistory].
	History Answer[history.Record]
	// Offers are the answer to [AskOffers].
	Offers Answer[[]corev1.Service]
	// Delegation and Lending are nil if the plan or the screen does not need them.
	Delegation *DelegationFacts
	Lending    *lending.Facts
	// Polled lists the kinds that this user may list but not watch. Facts from these kinds are up to a
	// few seconds old.
	Polled []string
}

// ElsewhereFacts is an installation of Liqo or of our operator in another namespace than
// [ClusterFacts.Namespace].
type ElsewhereFacts struct {
	Software  Software
	Namespace string
}

// OperatorFacts is the state of the installed operator: Liqo's or ours.
type OperatorFacts struct {
	// Version is the version of its image; "" if unknown.
	Version string
	// Problem is a sentence that says why the operator does not work, for instance because its pod
	// does not start; "" if it works.
	Problem string
	// Refuses is set if the operator runs but refuses to work here, for instance beside Liqo.
	Refuses bool
	// Unstated says which ranges the operator can't find out. An admin has to state them by install.
	Unstated struct{ Pods, Services bool }
	// KeepsRange is set if the installation's range differs from the range that peers know. The
	// operator keeps the latter.
	KeepsRange bool
	// Peering is the cluster's role in lending, if our operator runs.
	Peering render.PeeringRole
	// Services is set if our operator exchanges Services with peers.
	Services bool
	// APIServer is the URL of the API server that an admin has set for consumers; "" if there is none.
	APIServer string
}

// NodeFacts are facts from the Node object of one node.
type NodeFacts struct {
	Name     string
	Internal []netip.Addr
	External []netip.Addr
	Ready    bool
	// Excluded is why our programs don't run on the node, such as "runs windows"; "" if they run on
	// it. It depends on the node's labels, and not on Ready.
	Excluded string
	// Provider is the scheme of the node's provider ID, such as "aws" or "kind";
	// "" if the node has no provider ID.
	Provider string
	Kernel   string // the kernel's release, such as "6.1.0-18-amd64"; "" if unknown
	Arch     string // such as "arm64"; "" if unknown
	Gateway  GatewayMode
	// CPUs is the number of the node's CPUs, in thousandths. Memory is in bytes. 0 means unknown.
	CPUs, Memory int64
}

// UsedPort is a node port that a Service has.
type UsedPort struct {
	Port            uint16
	Namespace, Name string // of the Service
}

// UnreachedFacts lists the gateways that don't answer one node's agent over the fabric.
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

// LoadBalancerFacts counts the Services of type LoadBalancer. Answered Services have an address,
// Pending Services have no address yet.
type LoadBalancerFacts struct{ Answered, Pending int }

// EventFacts is a Kubernetes Event of type Warning about one object.
type EventFacts struct {
	Object          string // in the form of [apply.Name]
	Reason, Message string
	Count           int
	At              time.Time // the last time
}

// Name is the cluster's name in plans: its ID, or the context if the ID is unknown.
func (c ClusterFacts) Name() wire.ClusterID {
	return cmp.Or(c.ID, wire.ClusterID(c.Context.String()))
}

// PodFacts are facts about a gateway's pod.
type PodFacts struct {
	Namespace, Name, Gateway string
	Ready                    bool
	// Active is set if the pod has the tunnel. The gateway's other pods are standbys.
	Active bool
	// Waiting is the reason that the pod does not run; "" if there is none.
	Waiting string
	// Node is the node on which the pod runs; "" until the pod is scheduled.
	Node     string
	Restarts int
	// Restarted is the time of the last restart of a container; zero if there was no restart, or if
	// the time is unknown.
	Restarted time.Time
}

// Software says which operator is installed on a cluster.
type Software uint8

// The values of Software.
const (
	NoSoftware Software = iota // no operator, or none was seen
	Operator                   // our operator
	Liqo                       // Liqo's operator; our operator refuses to work beside it
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

// Problem is the reason that a cluster can't be used.
type Problem struct {
	Kind    ProblemKind // the exit code follows from it
	Word    string      // for a list; "" means the word of Kind
	Message string
	Fix     command.Hint
}

func (p *Problem) Error() string { return p.Message }

// InShort returns the problem in a few words, for a list.
func (p *Problem) InShort() string {
	word := map[ProblemKind]string{Unauthorized: "login refused", Forbidden: "not allowed"}[p.Kind]
	return cmp.Or(p.Word, word, "no answer")
}

// Hint returns the advice to the admin.
func (p *Problem) Hint() command.Hint { return p.Fix }

// ProblemKind is the class of a [Problem].
type ProblemKind uint8

// Classes of problems.
const (
	Unreachable  ProblemKind = iota + 1 // no answer from the API server
	Unauthorized                        // it rejects the credentials, or there are none
	Forbidden                           // this user may not read objects that a run needs
)

// End is one end of a connection: the objects that one cluster has for the peer.
type End struct {
	Tenant        render.Tenant
	Namespace     *corev1.Namespace // nil when it doesn't exist
	Configuration *networkingv1beta1.Configuration
	Server        *networkingv1beta1.GatewayServer
	Client        *networkingv1beta1.GatewayClient
	PublicKey     *networkingv1beta1.PublicKey
	Connection    *networkingv1beta1.Connection
	Pod           *PodFacts
	// NotMade is the reason that Kubernetes makes no pod for the gateway, from a warning; "" if the
	// gateway has a pod, or if no warning gives a reason.
	NotMade string
	// Key is the public key of this cluster's gateway; nil until it is known.
	Key *wgtypes.Key
	// ClockAhead is the cluster's [ClusterFacts.ClockAhead].
	ClockAhead time.Duration
	// Self has facts about the cluster itself.
	Self Self
	// Unreached lists the nodes that can't reach the gateway. Pods on these nodes can't reach the
	// peer.
	Unreached []string
	// NodeProblems lists the problems of nodes on the way to the peer. Each text begins with the name
	// of the node. Problems with this gateway come first, then problems of a node that affect all
	// gateways. Each part is sorted by node.
	NodeProblems []string
}

// Self has the facts about a cluster that matter for all of its connections.
type Self struct {
	Ranges   string // in the form of [Ranges]; "" if the cluster has not published its ranges
	Identity string // the cluster's [ClusterFacts.Identity]
	Problem  string // why no operator works on the cluster; "" if one works, or if this is unknown
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

// Ranges writes a cluster's ranges as a text. It sorts them, so that equal ranges have equal texts. The
// text is "" if there is no range of pods.
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

// End returns the end of the connection on a side.
func (f Facts) End(side Side) End { return f.Sides[side].End(f.Sides[side.Other()].ID) }

// End returns this cluster's end of the connection with remote. It finds the objects by their labels,
// because other tools choose other names.
func (c ClusterFacts) End(remote wire.ClusterID) End { return c.endIn("", remote) }

// endIn is End for a connection that may not exist yet. If the connection does not exist, its
// namespace is the parameter namespace, or Liqo's default if the parameter is "".
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

// nodeProblems returns a function that lists the problems of nodes with a gateway, given the gateway's
// namespace/name. A node that is not set up may reach no gateway at all, so its problem is at the end
// of every list. [End.NodeProblems] describes the order.
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

// unreached returns the nodes that can't reach a gateway, by the gateway's namespace/name.
func (c ClusterFacts) unreached() map[string][]string {
	nodes := map[string][]string{}
	for _, u := range c.Unreached {
		for _, gateway := range u.Gateways {
			nodes[gateway] = append(nodes[gateway], u.Node)
		}
	}
	return nodes
}

// FindNamespace returns nil if the namespace does not exist, or if this user may not read it.
func (c ClusterFacts) FindNamespace(name string) *corev1.Namespace {
	for i := range c.Namespaces {
		if c.Namespaces[i].Name == name {
			return &c.Namespaces[i]
		}
	}
	return nil
}

// home has the namespaces in which a connection with one peer may be; "" means that there is no such
// namespace. The preferred namespace is in works, or in labelled if works is empty. The field
// gateway is the preferred namespace if a gateway is there, else the first namespace with a gateway.
// The field other follows the same rule for Configurations.
type home struct {
	labelled string // the first namespace with the peer's label
	works    string // the first namespace with a Connection that is Connected
	gateway  string // a namespace with a gateway to the peer
	other    string // a namespace with a Configuration of the peer
}

// namespace chooses the connection's namespace. Objects count more than a label, because Liqo labels
// the namespace of its authentication even if the connection was made by hand in another namespace.
// If there are no objects and no label, namespace returns the parameter standard.
func (h home) namespace(standard string) string {
	return cmp.Or(h.gateway, h.other, h.labelled, standard)
}

// homes finds the namespaces of all connections. If the parameter only names a peer, entries of
// other peers may be incomplete.
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

// farConfiguration returns the Configuration of a connection from any namespace. Liqo accepts a
// Configuration in another namespace than the gateway's.
func (c ClusterFacts) farConfiguration(remote wire.ClusterID) *networkingv1beta1.Configuration {
	for i := range c.Configurations {
		if o := &c.Configurations[i]; c.Can().FarConfiguration && o.Labels[wire.LabelRemoteCluster] == string(remote) {
			return o
		}
	}
	return nil
}

// connections yields the Configurations, GatewayServers and GatewayClients of all connections. A label
// of each object names the peer.
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

// peeringIn returns a peer other than remote whose connection has objects in the namespace; "" if
// there is no such peer.
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

// Text returns the warning as a text for the end of a sentence.
func (e EventFacts) Text(now time.Time) string {
	text := fmt.Sprintf("warning about %s: %s: %s", e.Object, e.Reason, strings.TrimSpace(e.Message))
	if !e.At.IsZero() {
		text += fmt.Sprintf(" (%s ago)", now.Sub(e.At).Round(time.Second))
	}
	return text
}

// DelegationFacts holds the objects that give a peer's operator or a peer's admin access to this
// cluster. Some Secrets contain tokens, so these objects are read only for plans about such access.
type DelegationFacts struct {
	CA       []byte // the API server's CA from the admin's kubeconfig, PEM; nil if the kubeconfig has no CA
	Accounts []corev1.ServiceAccount
	Roles    []rbacv1.Role
	Bindings []rbacv1.RoleBinding
	Secrets  []corev1.Secret
	Bounds   []string // names of the installation's admission policies that have a binding
}
