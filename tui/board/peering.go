package board

import (
	"fmt"
	"strings"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// pairID is what a peering is known by, whatever happens to it and from
// whichever side it was seen first: the two cluster IDs, in order.
type pairID struct{ low, high render.ClusterID }

// PairOf is the ID of a peering, whichever cluster is named first.
func PairOf(x, y render.ClusterID) pairID {
	if y < x {
		x, y = y, x
	}
	return pairID{x, y}
}

// end is one side of a peering, as far as it is known.
type end struct {
	id render.ClusterID
	// chosen is true if the cluster is one of the dashboard's contexts and has
	// ever answered. Of any other only its peer speaks.
	chosen bool
	// problem is why its API server does not answer now, silent since when.
	problem string
	silent  time.Time
	// reading is what it says; without a Peer it says nothing of this peering.
	reading flows.Reading
	rate    session.Rate
}

// says reports whether the end's own word on the peering is there to be read.
func (e end) says() bool { return e.chosen && e.silent.IsZero() && e.reading.Peer != "" }

// fresh reports whether the end's figures are of now.
func (e end) fresh(now time.Time) bool {
	return e.says() && e.reading.Exists && !e.reading.Stale(now)
}

// peeringState is the state of a peering, seen from both sides.
type peeringState uint8

// The states, from bad to good: the order in which an admin wants to see them.
const (
	peeringDown peeringState = iota
	peeringOneSided
	peeringUnreachable
	peeringStale
	peeringDegraded
	peeringUnknown
	peeringConnecting
	peeringStarting
	peeringNotConnected
	peeringConnected
	peeringStates // how many there are
)

var peeringWords = [peeringStates]string{
	peeringDown: "down", peeringOneSided: "one-sided", peeringUnreachable: "unreachable", peeringStale: "stale",
	peeringDegraded: "degraded", peeringUnknown: "unknown", peeringConnecting: "connecting", peeringStarting: "starting",
	peeringNotConnected: "no gateways", peeringConnected: "connected",
}

func (s peeringState) String() string { return peeringWords[s] }

var peeringMarks = [peeringStates]draw.Mark{
	peeringDown: draw.Fail, peeringOneSided: draw.Fail, peeringUnreachable: draw.Unknown, peeringStale: draw.Unknown,
	peeringDegraded: draw.Warn, peeringUnknown: draw.Unknown, peeringConnecting: draw.Running, peeringStarting: draw.Running,
	peeringNotConnected: draw.Pending, peeringConnected: draw.OK,
}

func (s peeringState) mark() draw.Mark { return peeringMarks[s] }

// healthy reports whether traffic between the gateways was last seen to work.
func (s peeringState) healthy() bool { return s == peeringConnected || s == peeringDegraded }

// broken reports whether it is known not to: what can't be seen now is neither.
func (s peeringState) broken() bool {
	switch s {
	case peeringDown, peeringOneSided, peeringConnecting, peeringStarting, peeringNotConnected:
		return true
	case peeringUnreachable, peeringStale, peeringDegraded, peeringUnknown, peeringConnected, peeringStates:
	}
	return false
}

// verdict is what both ends together mean.
type verdict struct {
	state peeringState
	why   string    // a sentence
	since time.Time // zero: not known
}

// judge puts what both ends say together. The worse word counts; what one end
// measures now counts more than that the other can't be asked.
func judge(ends [2]end, now time.Time) verdict {
	worst := verdict{state: peeringConnected}
	said := 0
	for i, e := range ends {
		var v verdict
		switch other := ends[1-i]; {
		case !e.chosen:
			continue
		case !e.silent.IsZero():
			v = verdict{peeringUnreachable, fmt.Sprintf("%s: %s", e.id, e.problem), e.silent}
			if other.fresh(now) {
				state, _ := other.reading.State(now)
				v.why += fmt.Sprintf("; %s says %s", other.id, state)
			}
		case other.reading.Role != "" && other.says() && e.reading.Role == "":
			v = verdict{state: peeringOneSided, why: fmt.Sprintf("%s has a gateway for it, %s has none", other.id, e.id)}
		case e.reading.Peer == "":
			continue
		default:
			v = e.verdict(now)
		}
		said++
		if said == 1 || v.state < worst.state {
			worst = v
		} else if v.state == worst.state && v.since.After(worst.since) {
			worst.since = v.since
		}
	}
	if worst.state == peeringConnected {
		worst.why = connectedBecause(ends)
	}
	return worst
}

func connectedBecause(ends [2]end) string {
	for i, e := range ends {
		if !e.says() {
			return fmt.Sprintf("%s gets answers to its pings; %s is not among the contexts", ends[1-i].id, e.id)
		}
	}
	return "each gateway gets answers to its pings"
}

// verdict is what the end alone says.
func (e end) verdict(now time.Time) verdict {
	state, why := e.reading.State(now)
	v := verdict{since: e.reading.Since, why: fmt.Sprintf("%s: %s", e.id, why)}
	switch state {
	case flows.StateDown:
		v.state = peeringDown
	case flows.StateStale:
		v.state, v.since = peeringStale, e.reading.At
	case flows.StateDegraded:
		v.state, v.since = peeringDegraded, time.Time{} // Since is that of being connected
	case flows.StateConnecting:
		v.state = peeringConnecting
	case flows.StateStarting:
		v.state = peeringStarting
	case flows.StateNotConnected:
		v.state = peeringNotConnected
	case flows.StateConnected:
		v.state = peeringConnected
	default:
		v.state = peeringUnknown
	}
	return v
}

// expires is when the verdict changes only because time passes; zero: never.
func expires(ends [2]end, now time.Time) time.Time {
	var first time.Time
	for _, e := range ends {
		at := e.reading.StaleAt()
		if e.says() && at.After(now) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}

// peering is one row of the dashboard.
type peering struct {
	ID   pairID
	ends [2]end // A and B, by the order of the contexts
	verdict
	// seen is when the state was first seen to be what it is, if it was seen to
	// change.
	seen    time.Time
	expires time.Time // of the verdict; zero: never
	worked  bool      // when it was last seen to work or not
	flaps   []time.Time
	History [2]session.Series

	key  sortKey
	name string // for the filter, and to tell equal keys apart
	show bool   // the filter lets it through
}

// began is when the state did, as well as that is known.
func (p *peering) began() time.Time {
	if !p.since.IsZero() {
		return p.since
	}
	return p.seen
}

// server is the side that is dialled; ok is false if nobody says.
func (p *peering) server() (side flows.Side, ok bool) {
	return flows.ServerSide([2]flows.Reading{p.ends[flows.A].reading, p.ends[flows.B].reading})
}

// created is when the older of both gateways was made; zero: not known.
func (p *peering) created() time.Time {
	var first time.Time
	for _, e := range p.ends {
		if c := e.reading.Created; !c.IsZero() && (first.IsZero() || c.Before(first)) {
			first = c
		}
	}
	return first
}

// roundTrip is the latest measurement by one end; 0 if there is none of now.
func (p *peering) roundTrip(s flows.Side, now time.Time) time.Duration {
	if !p.ends[s].fresh(now) {
		return 0
	}
	return p.ends[s].reading.Latency
}

// loss is the larger share of lost pings; known is false if no end measures it.
func (p *peering) loss(now time.Time) (share float64, known bool) {
	for _, e := range p.ends {
		if lost, counted := e.reading.Lost(); counted && e.fresh(now) {
			share, known = max(share, lost), true
		}
	}
	return share, known
}

// traffic is the rate as A sees it: by its own gateway's counters, or else by
// those of B's, turned round.
func (p *peering) traffic(now time.Time) session.Rate {
	a, b := p.ends[flows.A], p.ends[flows.B]
	switch {
	case a.rate.Known && a.fresh(now):
		return a.rate
	case b.rate.Known && b.fresh(now):
		return session.Rate{Known: true, Received: b.rate.Sent, Sent: b.rate.Received}
	}
	return session.Rate{}
}

// handshake is the latest one that either end has told.
func (p *peering) handshake() time.Time {
	a, b := p.ends[flows.A].reading.Handshake, p.ends[flows.B].reading.Handshake
	if b.After(a) {
		return b
	}
	return a
}

// mtu is the smaller one of both ends' tunnels; 0: nobody says.
func (p *peering) mtu() int {
	a, b := p.ends[flows.A].reading.MTU, p.ends[flows.B].reading.MTU
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// endpoint is where the server is dialled: as the client's side says it, which
// may be another way to it, or else as the server's does.
func (p *peering) endpoint() string {
	text := "-"
	for _, e := range p.ends {
		if e.reading.Endpoint != "" && (e.reading.Role == flows.RoleClient || text == "-") {
			text = strings.TrimPrefix(e.reading.Endpoint, "UDP ")
		}
	}
	return text
}
