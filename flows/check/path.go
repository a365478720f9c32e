package check

import (
	"fmt"

	"github.com/liqo-tui/liqo-tui/flows"
)

// handshakeLife is how long a WireGuard session lasts without a new handshake
// (REJECT_AFTER_TIME of the protocol): an older handshake proves nothing.
const handshakeLife = 180

// path judges whether packets get from a side to the other, by what the gateways
// count. WireGuard counts as received only what it could decrypt, or a handshake
// that it could answer.
func (in diagnosis) path(from flows.Side) Result {
	to := from.Other()
	if in.connected(from) && in.connected(to) {
		return pass("packets arrive, and are answered")
	}
	sender, receiver := in.readings[from], in.readings[to]
	if !sender.Reported || !receiver.Reported {
		return result(Inconclusive, "not both gateways say what they have sent and received")
	}
	sent, received := sender.Sent, receiver.Received
	span := "since the tunnel was made"
	if in.earlier != nil {
		// What moved between two looks counts: totals hide that it has stopped.
		s, r := in.readingOf(*in.earlier, from), in.readingOf(*in.earlier, to)
		if s.Reported && r.Reported && sent >= s.Sent && received >= r.Received && sender.At.After(s.At) && receiver.At.After(r.At) {
			sent, received = sent-s.Sent, received-r.Received
			span = "in the last " + sender.At.Sub(s.At).Round(1e9).String()
		}
	}
	evidence := []string{
		fmt.Sprintf("%s sent %d bytes, %s received %d, %s", in.cluster(from).ID, sent, in.cluster(to).ID, received, span),
	}
	r := in.judgePath(from, sent, received)
	r.Evidence = append(evidence, in.handshakes()...)
	return r
}

func (in diagnosis) judgePath(from flows.Side, sent, received uint64) Result {
	to := from.Other()
	switch {
	case received > 0:
		return pass(fmt.Sprintf("packets of %s arrive at %s", in.cluster(from).ID, in.cluster(to).ID))
	case from == in.server() && (sent == 0 || in.path(to).State == Fail):
		return result(Inconclusive, fmt.Sprintf("%s only answers, and nothing comes that it could answer", in.cluster(from).ID))
	case sent == 0:
		return result(Inconclusive, fmt.Sprintf("%s has sent nothing", in.cluster(from).ID))
	case from == in.server():
		return result(Fail, fmt.Sprintf("answers from %s get lost on the way to %s", in.cluster(from).ID, in.cluster(to).ID), in.pathFixes()...)
	}
	address, port := in.dialled()
	return result(Fail, fmt.Sprintf("UDP %s:%d, dialled by %s, leads to nothing that answers", address, port, in.cluster(from).ID), in.pathFixes()...)
}

// pathFixes are the ways out of a path that is closed.
func (in diagnosis) pathFixes() []string {
	server, client := in.server(), in.server().Other()
	address, port := in.dialled()
	swap := "Local"
	if server == flows.A {
		swap = "Remote"
	}
	return []string{
		rule(in.cluster(client), address, fmt.Sprint(port)),
		fmt.Sprintf("or let %s dial: liqo-tui network connect --server-location %s", in.cluster(server).ID, swap),
		fmt.Sprintf("or dial another address of %s: liqo-tui network connect --client-address ADDRESS", in.cluster(server).ID),
	}
}

func (in diagnosis) handshakes() []string {
	var out []string
	for _, side := range []flows.Side{flows.A, flows.B} {
		r := in.readings[side]
		switch age := in.facts.At.Sub(r.Handshake); {
		case r.Handshake.IsZero():
			out = append(out, fmt.Sprintf("%s: no handshake since the tunnel was made", in.cluster(side).ID))
		case age.Seconds() > handshakeLife:
			out = append(out, fmt.Sprintf("%s: the last handshake was %s ago, too long for a live session", in.cluster(side).ID, age.Round(1e9)))
		default:
			out = append(out, fmt.Sprintf("%s: the last handshake was %s ago", in.cluster(side).ID, age.Round(1e9)))
		}
	}
	return out
}

func (in diagnosis) readingOf(f flows.Facts, side flows.Side) flows.Reading {
	return f.Side(side).Peer(f.Side(side.Other()).ID).Reading()
}
