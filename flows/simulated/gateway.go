package simulated

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/gateway/ping"
	"github.com/liqo-tui/liqo-tui/internal/history"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// gateway is the state of the operator's work for a GatewayServer or GatewayClient, and the
// tunnel of its pod.
type gateway struct {
	key       wgtypes.Key // the published key
	next      wgtypes.Key // announced, but not used yet; zero: none
	published bool
	age       int // ticks since the first tick with the gateway
	pod       *flows.PodFacts
	pods      int            // the number of pods so far
	starting  time.Time      // the time at which the pod has started
	ending    bool           // the GatewayServer or GatewayClient is deleted
	recorded  history.Record // without what the tunnel's recorder has

	tunnel
}

// tunnel is the state of a tunnel in its gateway pod.
type tunnel struct {
	pings      *ping.Tracker // nil until the first ping
	recorder   *ping.Recorder
	pinged     time.Time // the time of the last ping
	looked     time.Time
	handshake  time.Time // zero: none since the tunnel began or, on a client, since it last dialled
	traffic    ping.Traffic
	silence    ping.Silence
	podTraffic *time.Time
	generation int64
	inForce    time.Time // when the gateway began to use generation
	log        []string  // the pod's log
}

func (t *tunnel) tell(now time.Time, message, name string, value any) {
	text, err := json.Marshal(map[string]any{"time": now, "level": "INFO", "msg": message, name: value})
	if err == nil {
		t.log = append(t.log, string(text))
	}
}

func (g *gateway) start(o metav1.Object) {
	suffix := "7c9d"
	if g.pods > 0 {
		suffix = fmt.Sprintf("7c9d-%d", g.pods+1)
	}
	g.pods++
	g.keepHistory()
	g.tunnel = tunnel{recorder: new(ping.Recorder)}
	g.pod = &flows.PodFacts{Namespace: o.GetNamespace(), Name: wire.GatewayObjectName(o.GetName()) + "-" + suffix, Gateway: o.GetName(), Waiting: "ContainerCreating"}
}

// KillGateway ends the pod of the gateway for a peer. Kubernetes creates another pod, which
// is ready after the given time. KillGateway returns false if there is no such gateway.
func (c *Cluster) KillGateway(peer wire.ClusterID, after time.Duration) bool {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	for _, r := range c.store.sorted() {
		g := c.gateways[r.object.GetUID()]
		if g == nil || g.pod == nil || remoteOf(r.object) != peer {
			continue
		}
		g.start(r.object)
		g.starting = c.clock().Add(after)
		c.notify()
		return true
	}
	return false
}

func (c *Cluster) runPod(g *gateway) bool {
	ready, waiting := c.behaviour.PodWaiting == "", c.behaviour.PodWaiting
	if ready && c.clock().Before(g.starting) {
		ready, waiting = false, "ContainerCreating"
	}
	if g.pod.Ready == ready && g.pod.Waiting == waiting {
		return false
	}
	g.pod.Ready, g.pod.Waiting = ready, waiting
	return true
}

// reportInterval is the time after which a gateway, ours or Liqo's, writes an unchanged
// report again.
const reportInterval = 10 * time.Second

// report writes the gateway pod's report about its tunnel. It returns true if something has
// changed, or if an answer is overdue, because then a change will follow. Writing an
// unchanged report again is no change.
func (c *Cluster) report(o wire.Object, g *gateway) bool {
	conn := c.store.records[key{networkingv1beta1.ConnectionKind, o.GetNamespace(), wire.GatewayObjectName(o.GetName())}].
		object.(*networkingv1beta1.Connection)
	if c.behaviour.NoReports || !g.pod.Ready || conn.DeletionTimestamp != nil {
		return false
	}
	now, w := c.clock(), c.way(o, g)
	if w.hasKey {
		g.ping(now, o.GetGeneration(), w, c.world.chance.Float64)
	}
	value, r := c.reportOf(now, o, g, w)
	r.Refused = new(uint64)
	if allow, err := wire.AllowOf(o); err == nil {
		r.Allow = allow.String()
	}
	r.Services = c.servicesReport(remoteOf(o), value == networkingv1beta1.Connected)
	last, known, _ := wire.ParseReport(conn.Annotations) // our own report can be parsed
	r.Since = last.Since
	if r.Since == nil || value != conn.Status.Value {
		r.Since = new(now)
	}
	if r.Generation == 0 {
		r.Generation = last.Generation
	}
	same := conn.Status.Value == value && (c.identity.Software != flows.Operator || known && last.Reason == r.Reason && last.Message == r.Message &&
		last.Generation == r.Generation && last.NextKey == r.NextKey && last.Endpoint == r.Endpoint && last.Allow == r.Allow && last.PathMTU == r.PathMTU)
	written := last.At
	if !known {
		written = conn.Status.Latency.Timestamp.Time
	}
	if r.PathMTU > 0 && len(g.log) == 0 {
		g.tell(now, "longest packet to the peer", "bytes", r.PathMTU)
	}
	overdue := value == networkingv1beta1.Connected && !w.open
	if same && now.Sub(written) < reportInterval {
		return overdue
	}
	c.notify() // a watch reports this, too
	conn.Status.Value = value
	latency := time.Duration(0)
	if value == networkingv1beta1.Connected {
		latency = time.Duration(r.LatencyMicros) * time.Microsecond
	}
	if latency > 0 || c.identity.Software == flows.Operator {
		conn.Status.Latency = networkingv1beta1.ConnectionLatency{Value: wire.FormatLatency(latency), Timestamp: metav1.NewTime(now)}
	}
	if c.identity.Software == flows.Operator {
		text, err := json.Marshal(r)
		if err != nil {
			panic("simulated: " + err.Error())
		}
		setAnnotation(conn, wire.AnnotationStatus, string(text))
	}
	return !same || overdue
}

// way is the path of a gateway's packets to the other gateway.
type way struct {
	Link
	hasKey  bool   // true if the peer's public key is known
	open    bool   // true if the gateways' packets reach each other
	dialled string // the address that a client dials, in the form of reports
	heard   string // the peer's address, if the peer's packets arrive
	nextKey string // the next key that the peer has announced
	sends   float64
	gets    float64 // bytes of pods per second
	mtu     int
}

// wireguardPort is the source port of a client's packets.
const wireguardPort = 51840

func (c *Cluster) way(o wire.Object, g *gateway) way {
	id := remoteOf(o)
	peer := c.peek().End(id)
	w := way{hasKey: peer.PublicKey != nil}
	if w.hasKey {
		w.nextKey = peer.PublicKey.Annotations[wire.AnnotationNextPublicKey]
	}
	if o, ok := o.(*networkingv1beta1.GatewayClient); ok {
		w.mtu = o.Spec.MTU
		if len(o.Spec.Endpoint.Addresses) > 0 {
			w.dialled = fmt.Sprintf("UDP %s port %d", strings.Join(o.Spec.Endpoint.Addresses, ", "), o.Spec.Endpoint.Port)
			w.heard = fmt.Sprintf("%s:%d", o.Spec.Endpoint.Addresses[0], o.Spec.Endpoint.Port)
		}
	}
	other := c.world.peer(c, id)
	if other == nil {
		return w
	}
	if o, ok := o.(*networkingv1beta1.GatewayServer); ok {
		w.mtu, w.heard = o.Spec.MTU, fmt.Sprintf("172.18.0.%d:%d", other.host, wireguardPort)
	}
	w.Link = c.world.link(c.identity.ID, other.identity.ID)
	w.sends, w.gets = w.rates(c.identity.ID < other.identity.ID, c.world.now)
	theirs := other.peek().End(c.identity.ID)
	gone := theirs.Server == nil && theirs.Client == nil
	w.open = w.hasKey && !gone && !w.Closed && theirs.Pod != nil && theirs.Pod.Ready && theirs.PublicKey != nil && theirs.Key != nil &&
		knows(peer.PublicKey, theirs.Key) && knows(theirs.PublicKey, &g.key) &&
		!c.behaviour.WrongKey && !other.behaviour.WrongKey && w.Link.dialled(c, other, peer, theirs)
	return w
}

// knows reports whether k is the peer's present key, or the next key that the peer has
// announced.
func knows(p *networkingv1beta1.PublicKey, k *wgtypes.Key) bool {
	return slices.Equal(p.Spec.PublicKey, k[:]) || p.Annotations[wire.AnnotationNextPublicKey] == k.String()
}

// dialled reports whether the client dials an address of the server, over a link that lets it.
func (l Link) dialled(here, there *Cluster, peer, theirs flows.End) bool {
	server, client, hosts := peer.Server, theirs.Client, here
	if server == nil {
		server, client, hosts = theirs.Server, peer.Client, there
	}
	if server == nil || client == nil || hosts.behaviour.Firewalled || l.Firewalled != "" && l.Firewalled == hosts.identity.ID {
		return false
	}
	for _, address := range client.Spec.Endpoint.Addresses {
		dialled := fmt.Sprintf("%s:%d", address, client.Spec.Endpoint.Port)
		if slices.Contains(hosts.behaviour.AlsoAt, dialled) {
			return true
		}
		if e := server.Status.Endpoint; e != nil && slices.Contains(e.Addresses, address) && e.Port == client.Spec.Endpoint.Port {
			return true
		}
	}
	return false
}

const (
	// pingBytes is the size of a ping and its answer, as counted by WireGuard.
	pingBytes = 2 * 148
	// handshakeBytes is the size of the packet that WireGuard sends once a second to a peer
	// that does not answer.
	handshakeBytes = 148
	// rekey is the time after which WireGuard makes another handshake while there is
	// traffic.
	rekey = 2 * time.Minute
	// longestSleep is the longest time between two ticks in which a gateway is assumed to
	// ping all the time.
	longestSleep = time.Minute
)

// ping sends the pings that are due since the last tick, and receives the answers.
func (t *tunnel) ping(now time.Time, generation int64, w way, chance func() float64) {
	if t.pings == nil {
		t.pings = ping.NewTracker(ping.Timing{})
		t.pings.Record(t.recorder)
		t.recorder.Begin(now.Add(-longestSleep))
	}
	if t.looked.IsZero() || now.Sub(t.looked) > longestSleep {
		t.looked, t.pinged = now, now.Add(-ping.DefaultInterval)
	}
	if generation != t.generation { // the gateway pings at once to test the new settings
		t.generation, t.inForce, t.pinged = generation, now.Add(-time.Millisecond), now.Add(-ping.DefaultInterval)
	}
	over := now.Sub(t.looked)
	for at := t.pinged.Add(t.pings.Interval()); !at.After(now); at = at.Add(t.pings.Interval()) {
		t.pings.Sent(at)
		t.pinged = at
		if w.open && (w.Loss == 0 || chance() >= w.Loss) {
			t.pings.Received(at.Add(w.roundTrip(chance)), at)
		}
	}
	t.looked = now
	defer func() { t.silence.Note(now, t.pings.Status(now).LastReply, t.traffic) }()
	if !w.open {
		switch {
		case w.dialled != "": // a new dial forgets earlier handshakes
			t.handshake = time.Time{}
		case t.handshake.IsZero(): // a server does not know its client's address yet
			return
		}
		t.traffic.Sent += uint64(handshakeBytes * over.Seconds())
		return
	}
	if now.Sub(t.handshake) > rekey {
		t.handshake = now
	}
	overhead := pingBytes * over.Seconds() / ping.DefaultInterval.Seconds()
	t.traffic.Sent += uint64(overhead + w.sends*over.Seconds())
	t.traffic.Received += uint64(overhead + w.gets*over.Seconds())
	if w.sends > 0 && w.gets > 0 {
		t.podTraffic = &now
	}
}

// reportOf computes a gateway's state. TestSimulatedGatewaysSayWhatOursSay, in package
// agent, compares the result with our gateways.
func (c *Cluster) reportOf(now time.Time, o wire.Object, g *gateway, w way) (networkingv1beta1.ConnectionStatusValue, wire.Report) {
	r := wire.Report{
		At: now, Interval: wire.Seconds(reportInterval / time.Second), NextKey: w.nextKey,
		ReceivedBytes: g.traffic.Received, SentBytes: g.traffic.Sent, PodTraffic: g.podTraffic,
		Implementation: "kernel", MTU: min(w.mtu, longest-60),
	}
	var s ping.Status
	if g.pings != nil {
		s = g.pings.Status(now)
	}
	r.LatencyMicros, r.Loss = s.Latency.Microseconds(), s.Loss
	if !g.handshake.IsZero() {
		r.Handshake = new(g.handshake)
	}
	if !s.AnsweredSince.IsZero() {
		r.AnsweredSince = new(s.AnsweredSince)
	}
	if _, client := o.(*networkingv1beta1.GatewayClient); client || !s.LastReply.IsZero() {
		r.Endpoint = w.heard
	}
	if s.LastReply.After(g.inForce) {
		r.Generation = g.generation
	}
	server, ok := o.(*networkingv1beta1.GatewayServer)
	switch {
	case s.Value == ping.Connected:
		r.Reason, r.Message, r.PathMTU = wire.ReasonPinged, "the peer's gateway answers pings through the tunnel", r.MTU
		return networkingv1beta1.Connected, r
	case !ok && w.dialled == "":
		r.Reason, r.Message = wire.ReasonNoEndpoint, "the GatewayClient names no address to dial"
	case !w.hasKey:
		r.Reason, r.Message = wire.ReasonNoKey, "the peer's public key is not known yet"
	case s.Value == ping.Error && ok:
		r.Reason, r.Message = wire.ReasonPeerSilent, "the peer's gateway has stopped answering pings through the tunnel, and nothing comes in from it"
	case s.Value == ping.Error:
		r.Reason, r.Message = wire.ReasonPeerSilent, "the peer's gateway has stopped answering pings through the tunnel, and nothing comes back from "+w.dialled
	case ok:
		r.Reason, r.Message = wire.ReasonNoHandshake, fmt.Sprintf("no client with the right key has dialled UDP port %d yet", server.Spec.Endpoint.Port)
	default:
		r.Reason, r.Message = wire.ReasonNoHandshake, fmt.Sprintf("no answer from %s yet: perhaps the port is closed on the way, or the server does not have this gateway's key", w.dialled)
	}
	if s.Value == ping.Error {
		moved, over := g.silence.Moved(now, g.traffic)
		r.Lately = wire.Movement{Over: wire.Seconds(over / time.Second), Sent: moved.Sent, Received: moved.Received}
		return networkingv1beta1.ConnectionError, r
	}
	return networkingv1beta1.Connecting, r
}
