package wire

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"time"
)

// Report is what a gateway says of its tunnel beyond the two fields of a
// Connection's status. It is stored as JSON in [AnnotationStatus]. Fields are
// only ever added.
type Report struct {
	// At is when the report was written, by the clock of the gateway's node.
	At time.Time `json:"at"`
	// Interval is the longest time between two reports while the gateway lives.
	Interval Seconds `json:"intervalSeconds"`
	// Reason is one word for machines, Message one sentence for people.
	Reason  Reason `json:"reason"`
	Message string `json:"message"`
	// Since is when the Connection's value became what it is, by the same
	// clock; nil from a gateway that doesn't keep it.
	Since *time.Time `json:"since,omitempty"`
	// Handshake is the time of the last WireGuard handshake.
	Handshake *time.Time `json:"handshake,omitempty"`
	// LatencyMicros is the round trip from gateway to gateway.
	LatencyMicros int64 `json:"latencyMicros,omitempty"`
	// Loss is the share of lost pings, 0 to 1, over the last 30.
	Loss float64 `json:"loss"`
	// ReceivedBytes and SentBytes count the tunnel's traffic since it was made.
	ReceivedBytes uint64 `json:"receivedBytes"`
	SentBytes     uint64 `json:"sentBytes"`
	// Lately is what the tunnel has carried since pings are no longer answered; zero while
	// they are, before the first answer, and from a gateway that does not look.
	Lately Movement `json:"lately,omitzero"`
	// PodTraffic is when packets of pods were last seen to pass both ways, in flows
	// that were answered; nil: they never were. Pings of gateways don't count.
	PodTraffic *time.Time `json:"podTraffic,omitempty"`
	// Refused counts the packets from the peer that were for nodes or for the gateway itself,
	// since the gateway's pod is there; nil from a gateway that does not count them.
	Refused *uint64 `json:"refused,omitempty"`
	// Endpoint is where the peer was last heard or is being dialled.
	Endpoint string `json:"endpoint,omitempty"`
	// Implementation is "kernel" or "userspace".
	Implementation string `json:"implementation,omitempty"`
	// MTU of the tunnel's interface, in bytes.
	MTU int `json:"mtu,omitempty"`
	// PathMTU is the longest packet that was seen to pass through the tunnel,
	// in bytes; 0 if that is not known, as with a peer that answers no questions about it.
	PathMTU int `json:"pathMTU,omitempty"`
	// NextKey is the base64 form of the peer's next public key, which the
	// gateway is ready to be dialled with.
	NextKey string `json:"nextKey,omitempty"`
	// Also are the former and the next ranges of the peer, while it has both, under
	// which the gateway reaches it.
	Also []netip.Prefix `json:"also,omitempty"`
	// Generation of the GatewayServer or GatewayClient that was in force when the
	// peer last answered a ping; 0 if it never did, or if that is not known.
	Generation int64 `json:"generation,omitempty"`
}

// Movement is what went through a tunnel within some time, in bytes.
type Movement struct {
	Over     Seconds `json:"overSeconds"`
	Sent     uint64  `json:"sentBytes"`
	Received uint64  `json:"receivedBytes"`
}

// Seconds is a duration that JSON carries as a whole number of seconds.
type Seconds int

// Reason names the state of a tunnel.
type Reason string

// The reasons a gateway gives.
const (
	ReasonPinged        Reason = "Pinged"              // the peer's gateway answers pings through the tunnel
	ReasonNoKey         Reason = "WaitingForPublicKey" // the peer's public key is not known yet
	ReasonNoEndpoint    Reason = "WaitingForEndpoint"  // there is no address to dial
	ReasonUnresolvable  Reason = "EndpointUnresolvable"
	ReasonKeyMismatch   Reason = "KeyMismatch"   // packets come in, and none is encrypted with a known key
	ReasonNoHandshake   Reason = "NoHandshake"   // nothing has come back from the peer
	ReasonNoPing        Reason = "NoPing"        // a handshake, but no ping is answered
	ReasonPeerSilent    Reason = "PeerSilent"    // it worked before, and nothing comes back now
	ReasonMisconfigured Reason = "Misconfigured" // the gateway can't set up its tunnel; the message says why
)

// Stale reports whether r is too old to be believed.
func (r Report) Stale(now time.Time) bool {
	at := r.StaleAt()
	return !at.IsZero() && now.After(at)
}

// StaleAt is until when r may be believed; zero: for ever.
func (r Report) StaleAt() time.Time { return StaleAt(r.At, time.Duration(r.Interval)*time.Second) }

// StaleAt is until when something may be believed that was reported at a time by
// who reports again within interval: three intervals. It is zero, for ever, if one
// of the two is not known.
func StaleAt(at time.Time, interval time.Duration) time.Time {
	if at.IsZero() || interval <= 0 {
		return time.Time{}
	}
	return at.Add(3 * interval)
}

// ParseReport reads a report from a Connection's annotations. Without one, ok
// is false: Liqo's own gateways write none.
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

// FormatLatency writes a round trip the way Liqo does in a Connection's
// status: whole milliseconds, or microseconds below one; N/A for none.
func FormatLatency(d time.Duration) string {
	switch {
	case d <= 0:
		return "N/A"
	case d >= time.Millisecond:
		return fmt.Sprintf("%dms", d.Milliseconds())
	}
	return fmt.Sprintf("%dμs", d.Microseconds()) // Greek mu, U+03BC
}
