package flows

import (
	"cmp"
	"fmt"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// EndState is the state of one cluster's end of a connection. Screens, text output and JSON use the
// same words.
type EndState string

// The states of an end.
const (
	StateNotConnected EndState = "not connected" // there is no gateway
	StateStarting     EndState = "starting"      // a gateway exists, but has reported nothing yet
	StateConnecting   EndState = "connecting"    // the peer's gateway has never answered
	StateConnected    EndState = "connected"     // the peer's gateway answers pings; this says nothing about pods
	StateDegraded     EndState = "degraded"      // the peer's gateway answers, but pings are lost or nodes have a problem
	StateRecovering   EndState = "recovering"    // the peer's gateway answers again; pings lost before still count
	StateDown         EndState = "down"          // the peer's gateway answered before, but does not now
	StateStale        EndState = "stale"         // the last report is too old to say how it is now
	StateUnknown      EndState = "unknown"       // the Connection has a value that this program doesn't know
)

// Word is the state in texts. There, "connected" is said of both ends together.
func (s EndState) Word() string {
	if s == StateConnected {
		return "tunnel up"
	}
	return string(s)
}

// Works reports whether packets pass between the gateways.
func (s EndState) Works() bool {
	return s == StateConnected || s == StateDegraded || s == StateRecovering
}

// degradedLoss is the share of lost pings above which a connection is degraded. Of the thirty pings of a
// minute, one may be lost, but not two.
const degradedLoss = 0.05

// FabricPort is the UDP port between nodes and gateways of our operator.
const FabricPort = 6092

// liqoReportInterval is the longest time after which Liqo's gateways write the latency of a Connection again
// while the peer answers. It is the default of a setting of Liqo.
const liqoReportInterval = 10 * time.Second

// Role says which end of the tunnel a cluster has.
type Role string

// The two roles.
const (
	RoleServer Role = "server" // is dialled
	RoleClient Role = "client" // dials
)

// Reading is the report of one cluster about its connection with one peer. It has only small plain
// values, so that == compares two readings.
type Reading struct {
	Peer      wire.ClusterID
	Namespace string    // the tenant namespace
	Role      Role      // "" if there is no gateway
	Created   time.Time // when the gateway was created; zero if there is none
	// Endpoint is the address at which the server is dialled ("UDP 192.0.2.7:31840"), from the
	// server's status or from the client's settings.
	Endpoint string
	Relayed  bool // Endpoint is the address of a relay, and the server dials the relay
	// CIDRs is set if the operator has assigned local ranges to the peer.
	CIDRs bool
	// Waiting is the reason that the gateway's pod does not run, with the pod's name; "" if there is
	// none.
	Waiting string
	// Unreached names the nodes that can't reach the gateway, as text; "" if all nodes reach it, or if
	// this is unknown.
	Unreached string
	// Own has the cluster's own ranges, and Told the ranges of the peer that the cluster was told, both
	// in the form of [Ranges]; "" if there are none.
	Own, Told string
	// Identity identifies the cluster, and PeerIdentity the peer that it is connected with; "" if
	// unknown.
	Identity, PeerIdentity string
	// Unmanaged is a clause: no operator works on the cluster, or the operator has not finished the
	// connection. It is "" if neither is so.
	Unmanaged string
	// NodeProblem is the first problem of a node on the way to the peer, as text; "" if there is
	// none, or if this is unknown.
	NodeProblem string

	// Exists is set if there is a Connection. The fields below come from the Connection.
	Exists bool
	Value  networkingv1beta1.ConnectionStatusValue
	// Since is the time at which Value last changed; zero if unknown.
	Since time.Time
	// At is the time of the measurement of the values below. Interval is the longest time until the
	// next measurement; 0 if unknown.
	At       time.Time
	Interval time.Duration
	Latency  time.Duration // round trip; 0 if not measured
	// Reported is set if the gateway reports more than value and latency.
	Reported       bool
	Reason         wire.Reason
	Message        string
	Handshake      time.Time
	Loss           float64       // share of lost pings, 0 to 1; see Lost
	AnsweredSince  time.Time     // the end of the only interruption among the last pings; zero if there was none
	Received, Sent uint64        // bytes since the tunnel was made
	Lately         wire.Movement // the traffic since the last answered ping
	// PodTraffic is the last time at which packets of pods were seen in both directions; zero if they
	// were never seen, or if the gateway does not look for them.
	PodTraffic time.Time
	// Refused counts refused packets from the peer to nodes or to the gateway itself. It is valid only
	// if CountsRefused is set, because older gateways and Liqo's gateways don't count such packets.
	Refused       uint64
	CountsRefused bool
	// Allow is the [wire.Allow] that the gateway enforces; "" if that is not known.
	Allow string
	// Closed counts the peer's packets that were dropped because of Allow. ClosedTo has the latest
	// destinations of such packets, as text.
	Closed         uint64
	ClosedTo       string
	PeerAddress    string // address:port from which the peer's last packet came
	Implementation string
	MTU            int // bytes
	PathMTU        int // bytes, the longest packet that was seen to pass; 0 if unknown
	// Generation is the generation of the gateway's object that the gateway used when the peer last
	// answered; 0 if unknown.
	Generation int64
	// NextKey is the peer's next public key, in base64, if the gateway is prepared for it.
	NextKey string
}

// Longest returns the length of the longest packet that the gateway sends to the peer, in bytes; 0 if unknown.
func (r Reading) Longest() int {
	if r.PathMTU > 0 {
		return min(r.MTU, r.PathMTU)
	}
	return r.MTU
}

// Enforces reports whether the gateway lets the peer's pods open the connections that want allows, and no
// others. A gateway that does not report it lets them reach all pods.
func (r Reading) Enforces(want wire.Allow) bool {
	return cmp.Or(r.Allow, wire.AllowAll.String()) == want.String()
}

// Closes reports whether the gateway keeps the peer's pods from pods of its cluster.
func (r Reading) Closes() bool { return !r.Enforces(wire.AllowAll) }

// StaleAt returns the time at which the reading becomes stale if no new reading comes; zero if it never becomes
// stale.
func (r Reading) StaleAt() time.Time {
	if !r.Exists {
		return time.Time{}
	}
	return wire.StaleAt(r.At, r.Interval)
}

// Stale reports whether the reading is too old to say how the connection is now.
func (r Reading) Stale(now time.Time) bool {
	at := r.StaleAt()
	return !at.IsZero() && now.After(at)
}

// Lost returns the share of lost pings, 0 to 1. It is unknown before the first answer to a ping, and for
// gateways that do not count pings, such as Liqo's.
func (r Reading) Lost() (share float64, known bool) {
	if !r.Reported || r.Value != networkingv1beta1.Connected && r.Value != networkingv1beta1.ConnectionError {
		return 0, false
	}
	return r.Loss, true
}

// Lossy reports whether too many pings are lost for a connection that works.
func (r Reading) Lossy() bool {
	share, known := r.Lost()
	return known && share > degradedLoss
}

// Answered reports whether the peer's gateway answers pings now. If pings are switched off, Liqo's gateways
// report Connected as well, but then At is zero.
func (r Reading) Answered(now time.Time) bool {
	state, _ := r.State(now)
	return state.Works() && !r.At.IsZero()
}

// Cause returns the gateway's reason for its state; "" if there is none, or if the reading is stale.
func (r Reading) Cause(now time.Time) wire.Reason {
	if r.Stale(now) {
		return ""
	}
	return r.Reason
}

// State returns the state of this end. why is a sentence with the root cause, if the cluster knows it.
func (r Reading) State(now time.Time) (state EndState, why string) {
	state, why = r.claim(now)
	if r.Waiting != "" && !state.Works() && state != StateNotConnected {
		why = r.Waiting
	}
	return state, why
}

// claim returns the state that follows from the Connection and the reports of nodes, without the state of the
// gateway's pod.
func (r Reading) claim(now time.Time) (state EndState, why string) {
	switch {
	case !r.Exists && r.Role == "":
		return StateNotConnected, "there is no gateway"
	case !r.Exists, r.Value == "":
		return StateStarting, "the gateway has reported nothing yet"
	case r.Stale(now):
		return StateStale, fmt.Sprintf("it said %s %s ago, and nothing since", r.Value, now.Sub(r.At).Round(time.Second))
	}
	why = cmp.Or(r.Message, r.meaning())
	switch r.Value {
	case networkingv1beta1.Connected:
		if r.Unreached != "" {
			return StateDegraded, fmt.Sprintf("connected, but pods on %s can't reach the gateway: open UDP port %d between the cluster's nodes", r.Unreached, FabricPort)
		}
		if r.NodeProblem != "" {
			return StateDegraded, "connected, but not all nodes are as they should be: " + r.NodeProblem
		}
		if back := r.back(); r.Lossy() && !back.IsZero() {
			return StateRecovering, "back for " + max(0, now.Sub(back)).Round(time.Second).String()
		}
		if r.Lossy() {
			return StateDegraded, fmt.Sprintf("connected, but %.3g%% of the pings are lost", r.Loss*100)
		}
		return StateConnected, why
	case networkingv1beta1.Connecting:
		if r.Reason == wire.ReasonPinged {
			return StateConnecting, "pings are answered, waiting for the state" // the gateway writes the reason before the state
		}
		return StateConnecting, why
	case networkingv1beta1.ConnectionError:
		// At their start, Liqo's gateways report Error if no peer has answered within 10 s. Every new
		// connection begins in this way.
		if !r.Reported && r.At.IsZero() {
			return StateConnecting, "the peer's gateway has not answered yet"
		}
		return StateDown, why
	}
	return StateUnknown, fmt.Sprintf("the Connection says %q, which this program does not know", r.Value)
}

// back returns the end of the interruption in which pings were lost; zero if they were lost in another way.
func (r Reading) back() time.Time {
	if r.Since.After(r.AnsweredSince) && r.At.Sub(r.Since) < lossWindow {
		return r.Since
	}
	return r.AnsweredSince // pings can be lost again after a change of the state
}

// lossWindow is the time before a report in which a gateway counts lost pings.
const lossWindow = time.Minute

// meaning explains the value of a Connection if its gateway reports nothing else, as Liqo's gateways do.
func (r Reading) meaning() string {
	switch r.Value {
	case networkingv1beta1.Connected:
		if r.At.IsZero() {
			return "Liqo's gateway says so, and measures nothing"
		}
		return "the peer's gateway answers"
	case networkingv1beta1.ConnectionError:
		return "the peer's gateway does not answer; Liqo's gateway reports no reason"
	case networkingv1beta1.Connecting:
	}
	return "the peer's gateway has not answered yet; Liqo's gateway reports no reason"
}

// ServerSide returns the side whose gateway is dialled; ok is false if neither side has a gateway.
func ServerSide(readings [2]Reading) (side Side, ok bool) {
	for i, r := range readings {
		switch r.Role {
		case RoleServer:
			return Side(i), true
		case RoleClient:
			return Side(i).Other(), true
		}
	}
	return A, false
}

// Reading returns the report in the objects of one end. Its times are times of this machine's clock.
func (p End) Reading() Reading {
	r := Reading{Peer: p.Tenant.Remote, Namespace: p.Tenant.Namespace}
	r.Own, r.Identity, r.PeerIdentity, r.Unmanaged = p.Self.Ranges, p.Self.Identity, p.UID(), p.Self.Problem
	if conf := p.Configuration; conf != nil {
		r.CIDRs, r.Told = CIDRsConfigured(conf), Ranges(conf.Spec.Remote.CIDR.Pod, conf.Spec.Remote.CIDR.External)
	}
	if r.Unmanaged == "" && !r.CIDRs {
		r.Unmanaged = fmt.Sprintf("it has assigned no addresses to %s", r.Peer)
	}
	var e *networkingv1beta1.EndpointStatus
	switch {
	case p.Server != nil:
		r.Role, r.Created, e = RoleServer, p.ours(p.Server.CreationTimestamp.Time), p.Server.Status.Endpoint
		if relay, err := wire.ParseRelay(wire.RelayOf(p.Server)); err == nil {
			_, end := relay.Ends()
			e, r.Relayed = &end, true
		}
	case p.Client != nil:
		r.Role, r.Created, e = RoleClient, p.ours(p.Client.CreationTimestamp.Time), &p.Client.Spec.Endpoint
	}
	if e != nil && len(e.Addresses) > 0 {
		r.Endpoint = fmt.Sprintf("UDP %s:%d", e.Addresses[0], e.Port)
	}
	r.Waiting, r.Unreached, r.NodeProblem = p.waiting(), p.unreached(), p.nodeProblem()
	if p.Connection != nil {
		p.readConnection(&r)
	}
	return r
}

func (p End) waiting() string {
	if p.NotMade != "" {
		return "no pod is made: " + p.NotMade
	}
	if p.Pod == nil || p.Pod.Waiting == "" {
		return ""
	}
	return "pod " + p.Pod.Name + ": " + p.Pod.Waiting
}

func (p End) unreached() string {
	return Some(p.Unreached)
}

// nodeProblem returns the first of NodeProblems, and the number of the others; "" if there is none.
func (p End) nodeProblem() string {
	switch n := len(p.NodeProblems); n {
	case 0:
		return ""
	case 1:
		return "node " + p.NodeProblems[0]
	default:
		return fmt.Sprintf("node %s (and %d more)", p.NodeProblems[0], n-1)
	}
}

func (p End) readConnection(r *Reading) {
	c := p.Connection
	r.Exists, r.Value = true, c.Status.Value
	report, ok, err := p.report()
	if err != nil {
		r.Message = err.Error()
	}
	if err != nil || !ok {
		r.At = p.ours(c.Status.Latency.Timestamp.Time)
		if d, err := time.ParseDuration(c.Status.Latency.Value); err == nil && r.Value == networkingv1beta1.Connected {
			// Liqo's gateways write the latency only while the peer answers.
			r.Latency, r.Interval = max(0, d), liqoReportInterval
		}
		if r.Value == networkingv1beta1.ConnectionError {
			r.Since = r.At // the time of the last answer
		}
		return
	}
	r.Reported, r.Reason, r.Message = true, report.Reason, report.Message
	r.At, r.Interval = report.At, time.Duration(report.Interval)*time.Second
	if r.Value == networkingv1beta1.Connected {
		r.Latency = time.Duration(report.LatencyMicros) * time.Microsecond
	}
	if report.Since != nil {
		r.Since = *report.Since
	}
	if report.Handshake != nil {
		r.Handshake = *report.Handshake
	}
	if report.AnsweredSince != nil {
		r.AnsweredSince = *report.AnsweredSince
	}
	if report.PodTraffic != nil {
		r.PodTraffic = *report.PodTraffic
	}
	r.Loss, r.Received, r.Sent, r.Lately = report.Loss, report.ReceivedBytes, report.SentBytes, report.Lately
	r.Generation, r.NextKey = report.Generation, report.NextKey
	if report.Refused != nil {
		r.Refused, r.CountsRefused = *report.Refused, true
	}
	r.Allow, r.Closed, r.ClosedTo = report.Allow, report.Closed, Some(report.ClosedTo)
	r.PeerAddress, r.Implementation, r.MTU, r.PathMTU = report.Endpoint, report.Implementation, report.MTU, report.PathMTU
}

// Peers returns the [End] of every connection of the cluster, by the peer's ID. It is faster than one call of
// [ClusterFacts.End] for each peer, because it goes through all objects only once.
func (c ClusterFacts) Peers() map[wire.ClusterID]*End {
	x := newPeerIndex(c)
	assign(x, c.Configurations, func(p *End) **networkingv1beta1.Configuration { return &p.Configuration })
	assign(x, c.Servers, func(p *End) **networkingv1beta1.GatewayServer { return &p.Server })
	assign(x, c.Clients, func(p *End) **networkingv1beta1.GatewayClient { return &p.Client })
	assign(x, c.PublicKeys, func(p *End) **networkingv1beta1.PublicKey { return &p.PublicKey })
	assign(x, c.Connections, func(p *End) **networkingv1beta1.Connection { return &p.Connection })
	gateways := map[string]*End{} // by namespace/name
	unreached, problems, self := c.unreached(), c.nodeProblems(), c.self()
	for remote, p := range x.peers {
		p.ClockAhead, p.Self = c.ClockAhead, self
		if p.Configuration == nil {
			p.Configuration = c.farConfiguration(remote)
		}
		name := p.GatewayName()
		if name == "" {
			continue
		}
		name = p.Tenant.Namespace + "/" + name
		gateways[name] = p
		p.Unreached, p.NodeProblems = unreached[name], problems(name)
		if key, ok := c.Keys[name]; ok {
			p.Key = &key
		}
	}
	for i := range c.Pods {
		if p, ok := gateways[c.Pods[i].Namespace+"/"+c.Pods[i].Gateway]; ok {
			p.Pod = activePod(p.Pod, &c.Pods[i])
		}
	}
	for _, p := range gateways {
		if p.Pod == nil {
			p.NotMade = c.notMade(p.Tenant.Namespace, p.GatewayName())
		}
	}
	return x.peers
}

// activePod chooses between two pods of a gateway. It returns b, the later pod in the list, unless only a has
// the tunnel. The argument a may be nil.
func activePod(a, b *PodFacts) *PodFacts {
	if a != nil && a.Active && !b.Active {
		return a
	}
	return b
}

// GatewayName returns the name of the cluster's GatewayServer or, if there is none, of its GatewayClient; ""
// if there is neither.
func (p End) GatewayName() string {
	switch {
	case p.Server != nil:
		return p.Server.Name
	case p.Client != nil:
		return p.Client.Name
	}
	return ""
}

// Objects returns the existing objects of the connection, in the order in which a plan creates them.
func (p End) Objects() []wire.Object {
	var all []wire.Object
	add := func(exists bool, o wire.Object) {
		if exists {
			all = append(all, o)
		}
	}
	add(p.Namespace != nil, p.Namespace)
	add(p.Configuration != nil, p.Configuration)
	add(p.Server != nil, p.Server)
	add(p.Client != nil, p.Client)
	add(p.PublicKey != nil, p.PublicKey)
	add(p.Connection != nil, p.Connection)
	return all
}

// peerIndex finds the [End] to which an object belongs.
type peerIndex struct {
	homes map[wire.ClusterID]home
	named map[string]*corev1.Namespace
	peers map[wire.ClusterID]*End
}

func newPeerIndex(c ClusterFacts) peerIndex {
	x := peerIndex{c.homes(""), make(map[string]*corev1.Namespace, len(c.Namespaces)), map[wire.ClusterID]*End{}}
	for i := range c.Namespaces {
		x.named[c.Namespaces[i].Name] = &c.Namespaces[i]
	}
	return x
}

// view returns the [End] to which the object belongs; nil if the object is not part of a connection.
func (x peerIndex) view(o metav1.Object) *End {
	remote := wire.ClusterID(o.GetLabels()[wire.LabelRemoteCluster])
	if remote == "" {
		return nil
	}
	p, known := x.peers[remote]
	if !known {
		namespace := x.homes[remote].namespace(wire.TenantNamespaceName(remote))
		p = &End{Tenant: render.Tenant{Namespace: namespace, Remote: remote}, Namespace: x.named[namespace]}
	}
	if o.GetNamespace() != p.Tenant.Namespace {
		return nil
	}
	x.peers[remote] = p
	return p
}

// assign gives each [End] its first object of a kind.
func assign[T any, O interface {
	*T
	metav1.Object
}](x peerIndex, all []T, field func(*End) **T) {
	for i := range all {
		if p := x.view(O(&all[i])); p != nil && *field(p) == nil {
			*field(p) = &all[i]
		}
	}
}
