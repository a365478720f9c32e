package check

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// handshakeLife is how long a WireGuard session lasts without a new handshake (the protocol's
// REJECT_AFTER_TIME). An older handshake proves nothing.
const handshakeLife = 180 * time.Second

// longestWindow is the longest time between two observations that are compared. In a longer time,
// all packets may have come soon after the first observation. Then they do not show whether packets
// arrive at present.
const longestWindow = time.Minute

// movement counts the bytes that one gateway sent and received between two observations.
type movement struct {
	sent, received uint64
	over           time.Duration
}

// leastSilence is the number of seconds without an answer after which the counters mean something.
// In this time a gateway sends at least one ping. If pings arrive, the peer has counted one.
const leastSilence = 3

// sinceSilent returns the movements that both gateways have counted since the last answered ping.
// ok is false if a gateway does not report its movement, for example because it has no pod.
func (in diagnosis) sinceSilent() (moved [2]movement, ok bool) {
	for _, side := range []flows.Side{flows.A, flows.B} {
		now := in.readings[side]
		if now.Value != networkingv1beta1.ConnectionError || now.Lately.Over < leastSilence {
			return moved, false
		}
		moved[side] = movement{now.Lately.Sent, now.Lately.Received, time.Duration(now.Lately.Over) * time.Second}
	}
	return moved, true
}

// movements returns the movements of both gateways since their last answered pings. If a gateway
// does not report them, movements compares this observation with the earlier one. ok is false if
// neither is possible. Totals since the start are not used, because they hide that a tunnel has
// stopped.
func (in diagnosis) movements() (moved [2]movement, ok bool) {
	if moved, ok = in.sinceSilent(); ok {
		return moved, true
	}
	if in.earlier == nil {
		return moved, false
	}
	for _, side := range []flows.Side{flows.A, flows.B} {
		before, now := in.readingOf(*in.earlier, side), in.readings[side]
		over := now.At.Sub(before.At)
		switch {
		case !before.Reported || over <= 0 || over > longestWindow:
			return moved, false // the two reports can't be compared
		case now.Sent < before.Sent || now.Received < before.Received:
			return moved, false // the counters began again at 0, in another gateway
		case before.At.Before(now.Since):
			return moved, false // some packets moved before the problem began
		}
		moved[side] = movement{now.Sent - before.Sent, now.Received - before.Received, over}
	}
	return moved, true
}

// path judges by the gateways' counters (see movements) whether packets from one side arrive at the
// other one. WireGuard counts a packet as received only if it could decrypt the packet, or answer
// it as a handshake.
func (in diagnosis) path(from flows.Side) Result {
	to := from.Other()
	if in.answered(from) && in.answered(to) {
		return pass("packets arrive, and are answered")
	}
	if !in.readings[from].Reported || !in.readings[to].Reported {
		return result(Inconclusive, "traffic is not reported by "+in.silent(func(r flows.Reading) bool { return r.Reported }))
	}
	moved, ok := in.movements()
	if !ok {
		r := result(Measuring, "this takes a few more seconds: it shows which packets move now")
		r.Evidence = in.handshakes()
		return r
	}
	r := in.compareCounters(from, moved)
	r.Evidence = append(append(r.Evidence, fmt.Sprintf("in the last %s %s sent %d bytes, %s received %d", moved[to].over.Round(time.Second),
		in.cluster(from).ID, moved[from].sent, in.cluster(to).ID, moved[to].received)), in.handshakes()...)
	if fact, fix := in.clientBehind(); r.State == Fail && fact != "" {
		r.Evidence, r.Fix = append(r.Evidence, fact), append(r.Fix, command.Text(fix))
	}
	return r
}

// clientBehind returns another possible reason that a server sends no answer: the client's clock is
// behind. A handshake contains the client's time. If this time is not later than the time in the
// client's last handshake, WireGuard refuses the handshake, and does not count the packet. The facts
// do not prove this reason, because they contain only the clocks of the API servers. They contain
// neither the clocks of the gateways' nodes nor the time of the last handshake. Both texts are "" if
// the client's clock is not behind, or if a cluster's clock is not known.
func (in diagnosis) clientBehind() (fact, fix string) {
	server, client := in.cluster(in.server()), in.cluster(in.server().Other())
	behind := server.ClockAhead - client.ClockAhead
	if behind <= clocksDiffer || server.Problem != nil || client.Problem != nil || server.Described || client.Described {
		return "", ""
	}
	return fmt.Sprintf("the clock of the client %s is %s behind the clock of the server %s: the server refuses the handshakes of a client whose clock was set back, or whose gateway has moved to a node with a slower clock", client.ID, behind.Round(time.Second), server.ID),
		fmt.Sprintf("or, if the clock is the cause: set the clocks of the nodes of %s by NTP", client.ID)
}

func (in diagnosis) compareCounters(from flows.Side, moved [2]movement) Result {
	to := from.Other()
	sender, receiver := in.cluster(from).ID, in.cluster(to).ID
	relay, relayed := in.relay()
	switch {
	case moved[to].received > 0:
		return pass(fmt.Sprintf("packets of %s arrive at %s", sender, receiver))
	case from == in.server() && !relayed && moved[from].received == 0:
		// The client may dial from a new port. The server learns the port only from a packet that
		// arrives. Until then, what the server sends does not reach the client.
		return result(Inconclusive, fmt.Sprintf("not tested: %s only answers, and has heard nothing to answer", sender))
	case moved[from].sent == 0:
		return result(Inconclusive, fmt.Sprintf("%s has sent nothing", sender))
	case from == in.server() && !relayed:
		return in.closed(fmt.Sprintf("answers from %s get lost on the way to %s", sender, receiver))
	}
	address, port := in.dialled()
	if from == in.server() {
		_, end := relay.Ends()
		address, port = first(end)
	}
	text := fmt.Sprintf("no packet of %s arrives at %s", sender, receiver)
	if moved[to].sent > 0 && moved[from].received == 0 {
		text = fmt.Sprintf("no packet gets through between %s and %s", sender, receiver)
	}
	return in.closed(fmt.Sprintf("%s on UDP %s:%d", text, address, port))
}

// closed is the result for a path that loses packets. The advice in others comes after the advice
// for the path.
func (in diagnosis) closed(text string, others ...command.Hint) Result {
	server, client := in.server(), in.server().Other()
	address, port := in.dialled()
	if relay, ok := in.relay(); ok {
		return result(Fail, text, append(relayFixes(relay), others...)...)
	}
	swap := "Local"
	if server == flows.A {
		swap = "Remote"
	}
	heard := heardFrom(in.cluster(server), in.readings[server].PeerAddress)
	open := command.Text(rule(in.cluster(client), address, fmt.Sprint(port), heard...))
	dial := command.Hintf("or dial another address of %s: %s", in.cluster(server).ID, in.connect().Flag("--client-address", "ADDRESS"))
	if in.peers[server].OtherWayFailed() {
		fixes := []command.Hint{open, dial, command.Hintf("or run a relay that both clusters reach: %s", in.connect().Flag("--relay", "HOST:PORT"))}
		r := result(Fail, text, append(fixes, others...)...)
		r.Evidence = []string{fmt.Sprintf("with the server on %s, the gateways did not reach each other either", in.cluster(client).ID)}
		return r
	}
	fixes := []command.Hint{
		open,
		command.Hintf("or let %s dial: %s", in.cluster(server).ID, in.connect().Flag("--server-location", swap)),
		dial,
	}
	return result(Fail, text, append(fixes, others...)...).plannedWith("server-location", swap, fmt.Sprintf("let %s dial", in.cluster(server).ID))
}

// heardFrom returns the address from which a server's gateway last got a packet of the client. An
// address of the server's own cluster does not count: a node that forwards a packet to a node port
// may replace the sender's address by its own.
func heardFrom(server flows.ClusterFacts, peerAddress string) []string {
	from, err := netip.ParseAddrPort(peerAddress)
	if err != nil {
		return nil
	}
	a := from.Addr()
	external, internal := nodeAddresses(server)
	own := func(p netip.Prefix) bool { return p.Contains(a) }
	if slices.Contains(external, a) || slices.Contains(internal, a) || slices.ContainsFunc(prefixes(server.Networks.Pod), own) {
		return nil
	}
	return []string{a.String()}
}

// relayFixes lists the conditions under which both gateways can dial the relay.
func relayFixes(relay wire.Relay) []command.Hint {
	client, server := relay.Ends()
	return command.Texts(
		fmt.Sprintf("liqo-gateway relay has to run at %s", relay),
		fmt.Sprintf("firewall: allow UDP from the nodes of both clusters to %s, ports %d and %d, and replies", relay.Host, client.Port, server.Port),
	)
}

// silent names the gateways whose report lacks a value.
func (in diagnosis) silent(reports func(flows.Reading) bool) string {
	var names []string
	for _, side := range []flows.Side{flows.A, flows.B} {
		r := in.readings[side]
		if reports(r) {
			continue
		}
		name := string(in.cluster(side).ID) + "'s gateway"
		if !r.Reported && r.Exists {
			name = "Liqo's gateway on " + string(in.cluster(side).ID)
		}
		names = append(names, name)
	}
	return strings.Join(names, " and ")
}

func (in diagnosis) handshakes() []string {
	var out []string
	for _, side := range []flows.Side{flows.A, flows.B} {
		r := in.readings[side]
		switch age := in.facts.At.Sub(r.Handshake); {
		case r.Handshake.IsZero() && r.Value == networkingv1beta1.ConnectionError: // it has forgotten the earlier ones
			out = append(out, fmt.Sprintf("%s: no handshake since it dialled again", in.cluster(side).ID))
		case r.Handshake.IsZero():
			out = append(out, fmt.Sprintf("%s: no handshake yet", in.cluster(side).ID))
		case age > handshakeLife:
			out = append(out, fmt.Sprintf("%s: the last handshake was %s ago, too long for a live session", in.cluster(side).ID, age.Round(1e9)))
		default:
			out = append(out, fmt.Sprintf("%s: the last handshake was %s ago", in.cluster(side).ID, age.Round(1e9)))
		}
	}
	return out
}

func (in diagnosis) readingOf(f flows.Facts, side flows.Side) flows.Reading {
	return f.End(side).Reading()
}
