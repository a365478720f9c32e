package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/gateway/ping"
	"github.com/liqo-tui/liqo-tui/gateway/tunnel"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

const (
	// reportInterval is the longest time between two reports. Liqo's gateways report at
	// the same interval.
	reportInterval = 10 * time.Second
	// lookInterval is the interval at which report looks for changes of the tunnel's
	// state.
	lookInterval = 2 * time.Second
)

// report writes the Connection's status and annotation, until ctx ends. It writes them at
// once after a change of state, and else every reportInterval.
func (g *gatewayAgent) report(ctx context.Context) error {
	timer := time.NewTimer(tunnel.UntilBeat(lookInterval))
	defer timer.Stop()
	var h reporting
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-g.woken:
		}
		timer.Reset(g.untilLook(time.Now()))
		if g.standby.Load() {
			continue // only the pod that holds the tunnel writes reports
		}
		h.follow(g.earlier())
		now := time.Now()
		value, r := h.complete(g.observe(now))
		due := h.told.due(now, value, r.Reason)
		if !due && !h.news(now, value, r) && now.Sub(h.written) < reportInterval {
			continue
		}
		if counters, err := g.counters(); err == nil {
			h.pods = h.pods.next(now, counters[gateway.PodsSent].Packets, counters[gateway.PodsReceived].Packets)
			r.Refused = refusedOf(counters)
			if r.Closed = counters[gateway.DroppedClosed].Packets; r.Closed > 0 {
				r.ClosedTo = closedTo(g.closedLately())
			}
		}
		r.PodTraffic = cmp.Or(h.pods.passed, h.last.PodTraffic)
		conn, err := g.write(ctx, value, r)
		if err != nil {
			if ctx.Err() == nil {
				g.options.Log.Error("report on the Connection", "error", err)
			}
			continue
		}
		if due {
			record(g.events, conn, value, r)
			h.told.reason = r.Reason
		}
		h.value, h.last, h.written = value, r, now
	}
}

// refusedOf returns the number of the peer's packets that the gateway has refused because they
// were for nodes or for the gateway itself. It returns nil if the counters do not exist, for
// example before the gateway's rules are set.
func refusedOf(counters map[string]linux.Counter) *uint64 {
	nodes, ok := counters[gateway.DroppedNodes]
	if !ok {
		return nil
	}
	return new(nodes.Packets + counters[gateway.DroppedInput].Packets)
}

// closedTo returns endpoints that were closed to the peer, as text, in order. It ignores an error, because
// the report already has the number of packets, and the endpoints are only a detail.
func closedTo(lately []gateway.Endpoint, _ error) []string {
	var texts []string
	for _, e := range lately {
		switch e.Protocol {
		case gateway.TCP, gateway.UDP, gateway.SCTP:
			texts = append(texts, fmt.Sprintf("%s %s", e.Protocol, netip.AddrPortFrom(e.Addr, e.Port)))
		default: // has no ports
			texts = append(texts, fmt.Sprintf("protocol %s %s", e.Protocol, e.Addr))
		}
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// reporting holds the last report and other values that the next report depends on.
type reporting struct {
	last    wire.Report
	value   networkingv1beta1.ConnectionStatusValue
	written time.Time // when this process last wrote a report; zero if it has written none
	term    int       // the value of past.term when this began
	pods    podTraffic
	told    told
}

// podTraffic holds the last values of the counters gateway.PodsSent and gateway.PodsReceived.
type podTraffic struct {
	counted        bool
	sent, received uint64     // the counters when this process last noted packets in both directions
	passed         *time.Time // the time of that note; nil if there was none
}

// next compares the counters with their last values. The first values don't count as new
// packets, because these packets may have passed at any time before this process began.
func (p podTraffic) next(now time.Time, sent, received uint64) podTraffic {
	switch {
	case !p.counted, sent < p.sent, received < p.received: // a new table of the firewall has new counters
		p.sent, p.received = sent, received
	case sent > p.sent && received > p.received:
		p.sent, p.received, p.passed = sent, received, &now
	}
	p.counted = true
	return p
}

// follow replaces the values by those of the last report of another process, if this process has read
// such a report since the last call.
func (h *reporting) follow(p past) {
	if p.term != h.term {
		*h = reporting{last: p.report, value: p.value, term: p.term}
		if p.value == networkingv1beta1.Connected {
			h.told.reason = p.report.Reason
		}
	}
}

// complete returns the report r with the fields that depend on earlier reports.
func (h *reporting) complete(value networkingv1beta1.ConnectionStatusValue, r wire.Report) (networkingv1beta1.ConnectionStatusValue, wire.Report) {
	if r.Generation == 0 {
		r.Generation = h.last.Generation // no ping has been answered yet with this gateway's settings of a newer generation
	}
	switch {
	case value == h.value && h.last.Since != nil:
		r.Since = h.last.Since
	default:
		r.Since = new(r.At)
	}
	return value, r
}

// news reports whether r contains a change that has to be written at once. A new address of the
// client waits for lookInterval: a client without an answer dials from another port several times
// per second.
func (h *reporting) news(now time.Time, value networkingv1beta1.ConnectionStatusValue, r wire.Report) bool {
	return h.written.IsZero() || value != h.value || r.Reason != h.last.Reason || r.Message != h.last.Message ||
		h.last.LatencyMicros == 0 && r.LatencyMicros > 0 ||
		r.Endpoint != h.last.Endpoint && now.Sub(h.written) >= lookInterval ||
		r.PathMTU != h.last.PathMTU || r.Generation != h.last.Generation || r.NextKey != h.last.NextKey || r.Allow != h.last.Allow || r.Quiet != h.last.Quiet ||
		!slices.Equal(r.Also, h.last.Also) || servicesNews(r.Services, h.last.Services)
}

// earlier returns the last report of another process.
func (g *gatewayAgent) earlier() past {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.past
}

// observe returns the tunnel's present state and report.
func (g *gatewayAgent) observe(now time.Time) (networkingv1beta1.ConnectionStatusValue, wire.Report) {
	g.mu.Lock()
	s := g.setup
	g.mu.Unlock()
	status := g.status(now)
	value, r := reportOf(now, g.options.Role, s, status)
	if g.services != nil {
		at, heard := quietAt(status)
		r.Services, r.Quiet = g.services.report(), heard && !now.Before(at)
	}
	return value, r
}

// quietAfter is longer than the time from one ping of the peer to its next. Both ends ping, so if the
// path is open, at least one packet of the peer comes in this time.
const quietAfter = ping.DefaultInterval + 400*time.Millisecond

// quietAt returns the time at which the peer counts as quiet if no packet comes until then; false before the
// first answer to a ping.
func quietAt(t tunnel.Status) (at time.Time, heard bool) {
	last := t.Pings.LastReply
	if last.IsZero() {
		return at, false
	}
	if t.Heard.After(last) {
		last = t.Heard
	}
	return last.Add(quietAfter + 2*t.Pings.Latency), true
}

// untilLook returns the time until the next look at the tunnel's state. If the gateway exchanges Services, it
// looks as soon as the peer counts as quiet.
func (g *gatewayAgent) untilLook(now time.Time) time.Duration {
	wait := tunnel.UntilBeat(lookInterval)
	if g.services != nil && !g.standby.Load() {
		if at, heard := quietAt(g.status(now)); heard && at.After(now) {
			wait = min(wait, at.Sub(now))
		}
	}
	return wait
}

// reportOf derives a tunnel's state, and the reason for it, from its setup and its status.
func reportOf(now time.Time, role gateway.Role, s setup, t tunnel.Status) (networkingv1beta1.ConnectionStatusValue, wire.Report) {
	r := wire.Report{
		At: now, Interval: wire.Seconds(reportInterval / time.Second), Loss: t.Pings.Loss, LatencyMicros: t.Pings.Latency.Microseconds(),
		ReceivedBytes: t.Peer.Received, SentBytes: t.Peer.Sent, Implementation: string(t.Peer.Implementation),
		MTU: t.LinkMTU, PathMTU: t.PathMTU,
	}
	if !t.Peer.Handshake.IsZero() {
		r.Handshake = new(t.Peer.Handshake)
	}
	if !t.Pings.AnsweredSince.IsZero() {
		r.AnsweredSince = new(t.Pings.AnsweredSince)
	}
	if t.Peer.Endpoint.IsValid() {
		r.Endpoint = t.Peer.Endpoint.String()
	}
	if t.NextKey != (wgtypes.Key{}) && t.Problem == nil {
		r.NextKey = t.NextKey.String()
	}
	if s.problem == nil && t.Problem == nil {
		r.Also, r.Allow = s.also, s.allow
	}
	if s.inForce() && t.Problem == nil && t.Pings.LastReply.After(s.since) {
		r.Generation = s.generation
	}
	value := networkingv1beta1.Connecting
	switch t.Pings.Value {
	case ping.Connected:
		value, r.Reason, r.Message = networkingv1beta1.Connected, wire.ReasonPinged, "the peer's gateway answers pings through the tunnel"
	case ping.Error:
		value = networkingv1beta1.ConnectionError
		r.Lately = wire.Movement{Over: wire.Seconds(t.MovedOver / time.Second), Sent: t.Moved.Sent, Received: t.Moved.Received}
	case ping.Connecting:
	}
	if value != networkingv1beta1.Connected {
		r.Reason, r.Message = explain(now, role, s, t)
	}
	r.Message += remarks(s, t)
	return value, r
}

// explain returns the reason that no ping is answered. If there are several reasons, it returns the
// one that has to be removed first.
func explain(now time.Time, role gateway.Role, s setup, t tunnel.Status) (wire.Reason, string) {
	problem := cmp.Or(s.problem, t.Problem)
	silent := t.Pings.Value == ping.Error
	switch {
	case errors.Is(problem, errNoConfiguration):
		return wire.ReasonMisconfigured, problem.Error()
	case problem != nil:
		return wire.ReasonMisconfigured, "the tunnel can't be set up: " + problem.Error()
	case s.resolve != nil && !t.Peer.Endpoint.IsValid():
		return wire.ReasonUnresolvable, s.resolve.Error()
	case role == gateway.Client && s.endpoint == "":
		return wire.ReasonNoEndpoint, "the GatewayClient names no address to dial"
	case !s.hasKey:
		return wire.ReasonNoKey, "the peer's public key is not known yet"
	case t.Strangers >= fewStrangers && t.Peer.Handshake.IsZero():
		return wire.ReasonKeyMismatch, fmt.Sprintf("%d packets came to UDP port %d, but none was encrypted with a known key: check that each cluster has the public key of the other's gateway", t.Strangers, s.port)
	case silent:
		return wire.ReasonPeerSilent, "the peer's gateway has stopped answering pings through the tunnel" + since(now, s, t)
	case !t.Peer.Handshake.IsZero():
		return wire.ReasonNoPing, "the keys match, but no ping through the tunnel has been answered yet"
	case role == gateway.Server && s.endpoint != "":
		return wire.ReasonNoHandshake, fmt.Sprintf("no answer by the relay at %s yet: perhaps it does not run, its port is closed on the way, or the other gateway does not dial it", s.endpoint)
	case role == gateway.Server:
		return wire.ReasonNoHandshake, fmt.Sprintf("no client with the right key has dialled UDP port %d yet", s.port)
	}
	return wire.ReasonNoHandshake, fmt.Sprintf("no answer from %s yet: perhaps the port is closed on the way, or the server does not have this gateway's key", s.endpoint)
}

// fewStrangers is the smallest number of packets with an unknown key that the report mentions, because fewer
// packets may come from a scan of the port.
const fewStrangers = 3

const (
	// unanswered distinguishes a cut path. When a path is cut, answers to pings and other packets of
	// the peer end within a shorter time of each other, because gateways send a ping every 2 s.
	unanswered = 5 * time.Second
	// lately is the age up to which the peer's last packet shows that its packets still come in. It
	// is longer than the time between two keepalives, which is usually 25 s.
	lately = 30 * time.Second
)

// since returns the end of the sentence about a silent peer. It distinguishes three cases: the path is cut;
// packets of the peer come in, but the peer gets none; WireGuard works, but the peer answers no pings.
func since(now time.Time, s setup, t tunnel.Status) string {
	switch {
	case t.Pings.Mute(now, t.Peer.Handshake):
		return ", although WireGuard works and packets pass; look at the log of the peer's gateway"
	case t.Heard.Sub(t.Pings.LastReply) > unanswered && now.Sub(t.Heard) < lately:
		return ", although packets of it come in"
	case s.endpoint != "":
		return ", and nothing comes back from " + s.endpoint
	}
	return ", and nothing comes in from it"
}

// remarks lists the problems that the report has to name in every state of the tunnel.
func remarks(s setup, t tunnel.Status) string {
	var text string
	if s.problem != nil && t.Pings.Value == ping.Connected {
		text += "; the last change is not in force: " + s.problem.Error()
	} else if t.Problem != nil && t.Pings.Value == ping.Connected {
		text += "; the tunnel is not completely set up: " + t.Problem.Error()
	}
	// If no endpoint is known, explain has already returned s.resolve.
	if s.resolve != nil && t.Peer.Endpoint.IsValid() {
		if s.outdated {
			text += "; the server's address is the last known one"
		}
		text += "; " + s.resolve.Error()
	}
	if t.PathMTU > 0 && t.PathMTU < t.LinkMTU {
		text += fmt.Sprintf("; the path carries packets of up to %d bytes", t.PathMTU)
	}
	if s.nodes != nil {
		text += "; " + s.nodes.Error()
	}
	text += unfitText(s.unfit)
	if len(t.Fights) > 0 {
		text += "; something on this node keeps changing what the gateway sets: " + t.Fights[0]
	}
	return text
}

// write patches the status and one annotation of the Connection. Other programs own the other fields. write
// returns the changed Connection.
func (g *gatewayAgent) write(ctx context.Context, value networkingv1beta1.ConnectionStatusValue, r wire.Report) (*networkingv1beta1.Connection, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	annotation := map[string]any{"metadata": map[string]any{"annotations": map[string]any{wire.AnnotationStatus: string(text)}}}
	status := map[string]any{"status": connectionStatus(value, r)}
	conn := &networkingv1beta1.Connection{ObjectMeta: metav1.ObjectMeta{
		Namespace: g.options.Gateway.Tenant.Namespace, Name: wire.GatewayObjectName(g.options.Gateway.Name),
	}}
	// The annotation is written first, so that a reader of the new status also finds the reason.
	if err := patch(ctx, g.client, conn, annotation); err != nil {
		return nil, err
	}
	return conn, patch(ctx, g.client.Status(), conn, status)
}

// connectionStatus returns the status that Liqo's programs read. The latency is that of the last
// answer, or 0 if the peer does not answer now.
func connectionStatus(value networkingv1beta1.ConnectionStatusValue, r wire.Report) networkingv1beta1.ConnectionStatus {
	var latency time.Duration
	if value == networkingv1beta1.Connected {
		latency = time.Duration(r.LatencyMicros) * time.Microsecond
	}
	return networkingv1beta1.ConnectionStatus{
		Value:   value,
		Latency: networkingv1beta1.ConnectionLatency{Value: wire.FormatLatency(latency), Timestamp: metav1.NewTime(r.At)},
	}
}

type patcher[O any] interface {
	Patch(context.Context, client.Object, client.Patch, ...O) error
}

// patch sends a patch, and sets o to the API server's answer.
func patch[O any](ctx context.Context, p patcher[O], o client.Object, content map[string]any) error {
	raw, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return p.Patch(ctx, o, client.RawPatch(types.MergePatchType, raw))
}
