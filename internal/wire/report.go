package wire

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"time"
)

// Report is a gateway's report about its tunnel, stored as JSON in [AnnotationStatus]. A
// Connection's own status has only two fields. Fields of a Report are only ever added.
type Report struct {
	// At is the time of the report, by the clock of the gateway's node.
	At time.Time `json:"at"`
	// Interval is the longest time between two reports of a running gateway.
	Interval Seconds `json:"intervalSeconds"`
	// Reason is one word for programs, and Message is one sentence for people.
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
	// Since is the time of the last change of the Connection's value, by the node's clock; nil from a gateway
	// that doesn't keep this time.
	Since *time.Time `json:"since,omitempty"`
	// Handshake is the time of the last WireGuard handshake.
	Handshake *time.Time `json:"handshake,omitempty"`
	// LatencyMicros is the round trip from gateway to gateway.
	LatencyMicros int64 `json:"latencyMicros,omitempty"`
	// Loss is the share of lost pings, 0 to 1, over the last 30.
	Loss float64 `json:"loss"`
	// AnsweredSince is set if the lost pings followed each other, as in an interruption, and the later ones are
	// answered.
	AnsweredSince *time.Time `json:"answeredSince,omitempty"`
	// ReceivedBytes and SentBytes count the tunnel's traffic since it was made.
	ReceivedBytes uint64 `json:"receivedBytes"`
	SentBytes     uint64 `json:"sentBytes"`
	// Lately is the tunnel's traffic since the last answered ping. It is zero while pings are
	// answered, before the first answer, and from a gateway that does not measure it.
	Lately Movement `json:"lately,omitzero"`
	// PodTraffic is the time at which pods' packets were last seen in both directions, in answered flows; nil
	// if never. Pings of gateways don't count.
	PodTraffic *time.Time `json:"podTraffic,omitempty"`
	// Refused counts the peer's packets to nodes or to the gateway itself since the gateway's
	// pod started; nil from a gateway that does not count them.
	Refused *uint64 `json:"refused,omitempty"`
	// Allow is the [Allow] that the gateway enforces; "" from a gateway that enforces none, or that could not
	// set the requested value.
	Allow string `json:"allow,omitempty"`
	// Closed counts the peer's packets that were dropped because of Allow, since the gateway's pod
	// started. ClosedTo are the latest destinations of such packets, such as "tcp 10.1.3.7:5432".
	Closed   uint64   `json:"closed,omitempty"`
	ClosedTo []string `json:"closedTo,omitempty"`
	// Endpoint is the peer's address: the source of its last packet, or the address that the gateway dials.
	Endpoint string `json:"endpoint,omitempty"`
	// Implementation is "kernel" or "userspace".
	Implementation string `json:"implementation,omitempty"`
	// MTU is the MTU of the tunnel's interface, in bytes.
	MTU int `json:"mtu,omitempty"`
	// PathMTU is the longest packet that was seen to pass through the tunnel, in bytes; 0 if this is not
	// known, for example because the peer does not answer such tests.
	PathMTU int `json:"pathMTU,omitempty"`
	// NextKey is the peer's next public key in base64. The gateway already accepts a
	// peer that dials with this key.
	NextKey string `json:"nextKey,omitempty"`
	// During a renumbering, Also lists the peer's former and next ranges to which the gateway has
	// routes.
	Also []netip.Prefix `json:"also,omitempty"`
	// Generation is the generation of the GatewayServer or GatewayClient that was in force when the peer last
	// answered a ping; 0 if the peer never answered, or if this is not known.
	Generation int64 `json:"generation,omitempty"`
	// Quiet is set if no packet of the peer has come for a little longer than one ping interval. The state
	// may still be Connected. In this case, imported Services use the peer's endpoints only if no other
	// cluster has endpoints. Only gateways that exchange Services set it.
	Quiet bool `json:"quiet,omitempty"`
	// Services describes the exchange of Services; nil if the gateway does not exchange them.
	Services *ServicesReport `json:"services,omitempty"`
}

// ServicesReport describes the exported Services that a gateway serves to its peer, and those that it has
// read from the peer. It counts EndpointSlices.
type ServicesReport struct {
	// Served is the number that the peer may read. Watched is set while the peer reads them.
	Served  int  `json:"served"`
	Watched bool `json:"watched,omitempty"`
	// Outside counts endpoints that are not served, because they are outside of the pod ranges.
	Outside int `json:"outside,omitempty"`
	// ServeProblem is the reason that nothing is served now.
	ServeProblem string `json:"serveProblem,omitempty"`
	// Received is the number that the gateway has accepted from the peer. Refused are the reasons for the
	// others, the most frequent first, four at most.
	Received int              `json:"received"`
	Refused  []RefusedExports `json:"refused,omitempty"`
	// Complete is the time of the last complete list; nil: never. Heard is the time of the last answer or
	// event of the peer. The received Services may lack the peer's changes after Heard.
	Complete *time.Time `json:"complete,omitempty"`
	Heard    *time.Time `json:"heard,omitempty"`
	// Problem is the reason that nothing is received now.
	Problem string `json:"problem,omitempty"`
}

// RefusedExports are slices of the peer that were refused, completely or in part, for the same reason.
type RefusedExports struct {
	Reason  string `json:"reason"`
	Slices  int    `json:"slices"`
	Example string `json:"example"` // namespace and name of one of these slices
}

// Movement is a tunnel's traffic in bytes within the time Over.
type Movement struct {
	Over     Seconds `json:"overSeconds"`
	Sent     uint64  `json:"sentBytes"`
	Received uint64  `json:"receivedBytes"`
}

// Seconds is a duration that JSON carries as a whole number of seconds.
type Seconds int

// Reason names the state of a tunnel.
type Reason string

// The reasons that gateways report.
const (
	ReasonPinged        Reason = "Pinged"              // the peer's gateway answers pings through the tunnel
	ReasonNoKey         Reason = "WaitingForPublicKey" // the peer's public key is not known yet
	ReasonNoEndpoint    Reason = "WaitingForEndpoint"  // there is no address to dial
	ReasonUnresolvable  Reason = "EndpointUnresolvable"
	ReasonKeyMismatch   Reason = "KeyMismatch"   // packets come in, but none is encrypted with a known key
	ReasonNoHandshake   Reason = "NoHandshake"   // nothing has come back from the peer
	ReasonNoPing        Reason = "NoPing"        // a handshake, but no ping is answered
	ReasonPeerSilent    Reason = "PeerSilent"    // the tunnel worked before, but nothing comes back now
	ReasonMisconfigured Reason = "Misconfigured" // the gateway can't set up its tunnel; the message says why
)

// Stale reports whether r is too old to describe the present state.
func (r Report) Stale(now time.Time) bool {
	at := r.StaleAt()
	return !at.IsZero() && now.After(at)
}

// StaleAt returns the time from which r is stale; zero if r never becomes stale.
func (r Report) StaleAt() time.Time { return StaleAt(r.At, time.Duration(r.Interval)*time.Second) }

// StaleAt returns the time from which a report is stale: three intervals after at. The reporter reports at
// least once in each interval. The result is zero if at or interval is not known, because then the report
// never becomes stale.
func StaleAt(at time.Time, interval time.Duration) time.Time {
	if at.IsZero() || interval <= 0 {
		return time.Time{}
	}
	return at.Add(3 * interval)
}

// ParseReport reads a report from a Connection's annotations. ok is false if there is no report, because
// Liqo's own gateways write none.
func ParseReport(annotations map[string]string) (r Report, ok bool, err error) {
	text, ok := annotations[AnnotationStatus]
	if !ok {
		return Report{}, false, nil
	}
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		return Report{}, false, fmt.Errorf("parse annotation %s: %w", AnnotationStatus, err)
	}
	return r, true, nil
}

// FormatLatency formats a round trip as Liqo does in a Connection's status: in whole milliseconds, or in
// microseconds below one millisecond; N/A for none.
func FormatLatency(d time.Duration) string {
	switch {
	case d <= 0:
		return "N/A"
	case d >= time.Millisecond:
		return fmt.Sprintf("%dms", d.Milliseconds())
	}
	return fmt.Sprintf("%dμs", d.Microseconds()) // Greek mu, U+03BC
}
