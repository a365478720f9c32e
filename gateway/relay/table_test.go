//go:build linux

package relay

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// network is a relay, and the packets that the addresses around it get. The gateways' packets are invented,
// because only WireGuard reads their content, and no relay.
type network struct {
	*table
	t   *testing.T
	now time.Time
	got map[string][]message
	log bytes.Buffer
}

const (
	client, server = "198.51.100.7:40000", "203.0.113.8:51840"
	mapped         = "192.0.2.9" // the relay's address, as others see it; none of its machine's
)

func newNetwork(t *testing.T, allow ...string) *network {
	n := &network{t: t, now: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC), got: map[string][]message{}}
	var nets []netip.Prefix
	for _, a := range allow {
		nets = append(nets, netip.MustParsePrefix(a))
	}
	own := func() []netip.Addr { return []netip.Addr{netip.MustParseAddr("10.0.0.9")} }
	n.table = newTable([2]uint16{51840, 51841}, nets, own, slog.New(slog.NewTextHandler(&n.log, nil)))
	return n
}

// send sends to a port, and returns the addresses to which the relay sends the packet.
func (n *network) send(port int, from string, packet []byte) (to []string) {
	for _, a := range n.pass(n.now, port, netip.MustParseAddrPort(from), packet) {
		to = append(to, a.String())
		n.got[a.String()] = append(n.got[a.String()], read(packet))
	}
	return to
}

func (n *network) wait(d time.Duration) { n.now = n.now.Add(d) }

// handshake simulates a handshake that a gateway at port begins and its peer answers.
func (n *network) handshake(port int, from, peer string, sender, answer uint32) (made bool) {
	if !slices.Contains(n.send(port, from, initiationOf(sender)), peer) {
		return false
	}
	return slices.Equal(n.send(1-port, peer, responseOf(answer, sender)), []string{from})
}

// connected returns a network whose gateways have met, with indices 100 and 200.
func connected(t *testing.T, allow ...string) *network {
	t.Helper()
	n := newNetwork(t, allow...)
	n.send(1, server, initiationOf(1))
	if !n.handshake(0, client, server, 100, 200) {
		t.Fatal("the gateways did not meet")
	}
	n.expect(true)
	clear(n.got)
	return n
}

// expect tests whether the gateways hear each other, by the session of their first handshake.
func (n *network) expect(want bool) {
	n.t.Helper()
	counter := uint64(n.now.UnixNano())
	if got := slices.Equal(n.send(0, client, dataFor(200, counter, 9)), []string{server}); got != want {
		n.t.Errorf("the server hears the client: got %t, want %t", got, want)
	}
	if got := slices.Equal(n.send(1, server, dataFor(100, counter, 9)), []string{client}); got != want {
		n.t.Errorf("the client hears the server: got %t, want %t", got, want)
	}
}

// An attacker can invent a source, and all content that does not depend on a received packet.
func TestWhoIsNotAnsweredGetsNothingAndTakesNothing(t *testing.T) {
	n := connected(t)
	for _, stranger := range []string{"198.51.100.66:1", "198.51.100.7:40001", "203.0.113.8:40000"} { // two are behind a gateway's address
		for port := range 2 {
			n.send(port, stranger, initiationOf(uint32(port)+5000))
			for _, index := range []uint32{1, 100, 200, 5000, 5001} {
				for _, packet := range [][]byte{responseOf(7, index), cookieFor(index), dataFor(index, 1, 1300)} {
					if to := n.send(port, stranger, packet); to != nil {
						t.Errorf("port %d, %s, index %d: %d bytes were passed on to %s", port, stranger, index, len(packet), to)
					}
				}
			}
			n.wait(time.Second)
			n.expect(true)
		}
		for _, m := range n.got[stranger] {
			if m.kind != initiation {
				t.Errorf("%s got %+v", stranger, m)
			}
		}
	}
	n.wait(silentFor - time.Second)
	n.expect(true)
}

func TestWhatIsNotWireGuardsIsNotPassedOn(t *testing.T) {
	n := connected(t)
	for port, from := range []string{client, server} {
		for _, packet := range [][]byte{nil, []byte("hello"), make([]byte, 1400), wire(transport|1<<24, 64, 200), initiationOf(3)[:140]} {
			if to := n.send(port, from, packet); to != nil {
				t.Errorf("%d bytes of %s went to %s", len(packet), from, to)
			}
		}
	}
}

func TestAGatewayMovesAndItsPeersAnswerMakesTheWay(t *testing.T) {
	for name, test := range map[string]struct {
		port int
		to   string
	}{
		"client, router gives another port": {0, "198.51.100.7:41111"},
		"client, another address":           {0, "198.51.100.99:40000"},
		"server, router gives another port": {1, "203.0.113.8:1024"},
		"server, another address":           {1, "203.0.113.99:51840"},
	} {
		t.Run(name, func(t *testing.T) {
			n := connected(t)
			peer := []string{server, client}[test.port]
			if !n.handshake(test.port, test.to, peer, 300, 400) {
				t.Fatal("its peer could not answer")
			}
			if to := n.send(test.port, test.to, dataFor(400, 0, 0)); !slices.Equal(to, []string{peer}) {
				t.Errorf("what it sends goes to %s", to)
			}
			if to := n.send(1-test.port, peer, dataFor(300, 0, 0)); !slices.Equal(to, []string{test.to}) {
				t.Errorf("what its peer sends goes to %s", to)
			}
			if to := n.send(1-test.port, peer, initiationOf(500)); !slices.Contains(to, test.to) {
				t.Errorf("the next handshake goes to %s", to)
			}
		})
	}
}

// Both gateways get other addresses at once, as when all routers of both sites restart. Or the relay has
// restarted, and knows nobody.
func TestGatewaysThatNobodyKnowsFindEachOther(t *testing.T) {
	for name, n := range map[string]*network{"moved": connected(t), "relay restarted": newNetwork(t)} {
		if to := n.send(1, "203.0.113.50:51840", initiationOf(301)); slices.Contains(to, "198.51.100.50:1") {
			t.Fatal(name, to)
		}
		if !n.handshake(0, "198.51.100.50:1", "203.0.113.50:51840", 300, 400) {
			t.Error(name, ": no handshake")
		}
	}
}

// A flood of invented sources continues while both gateways return with other addresses. They dial as
// gateways do: the server from one port, the client twice from each port.
func TestAFloodKeepsNobodyOut(t *testing.T) {
	for name, moved := range map[string][2]string{
		"client": {"198.51.100.50", server}, "server": {"198.51.100.7", "203.0.113.50:51840"}, "both": {"198.51.100.50", "203.0.113.50:51840"},
	} {
		t.Run(name, func(t *testing.T) {
			n := connected(t)
			index := uint32(10_000)
			flood := func(d time.Duration) { // 1,000 per second at each port
				for end := n.now.Add(d); n.now.Before(end); n.wait(time.Millisecond) {
					for port := range 2 {
						index++
						n.send(port, fmt.Sprintf("%d.%d.%d.1:%d", 20+index>>16, index>>8&255, index&255, 1024+index%50_000), initiationOf(index))
					}
				}
			}
			flood(5 * time.Second)
			n.expect(true) // the flood does not affect an existing session
			started := n.now
			for dials := uint32(0); n.now.Sub(started) < 3*time.Second; dials++ {
				from := fmt.Sprintf("%s:%d", moved[0], 40_000+dials/2)
				made := n.handshake(0, from, moved[1], 2*dials+1000, 2*dials+5000)
				made = made || n.handshake(1, moved[1], from, 2*dials+1001, 2*dials+5001)
				if made {
					t.Logf("back after %s", n.now.Sub(started))
					return
				}
				flood(200 * time.Millisecond)
			}
			t.Error("not back after 3 s")
		})
	}
}

// An address that was invented as a sender gets no packet.
func TestARelayIsOfNoUseToFloodOthers(t *testing.T) {
	// The number of packets that an address gets for its own packets is limited, whatever comes at the other
	// port: two for each, and at most eight.
	for dialled, want := range map[int]int{1: 2, 2: 4, 4: 8, 5: 8, 100: 8} {
		const victim = "192.0.2.53:53"
		n := newNetwork(t)
		for i := range dialled {
			n.send(0, victim, initiationOf(uint32(1+i)))
		}
		for i := range uint32(1000) {
			n.send(1, fmt.Sprintf("192.0.2.%d:%d", i%200, 1000+i%7), initiationOf(10_000+i))
			n.wait(time.Millisecond)
		}
		if got := len(n.got[victim]); got != want {
			t.Errorf("%d packets came from it, and it was sent %d, want %d", dialled, got, want)
		}
	}
	for name, n := range map[string]*network{"relay of two gateways": connected(t), "nobody is there": newNetwork(t)} {
		const victim = "192.0.2.53:53"
		sent := map[string]int{}
		for i := range uint32(5_000) {
			from := victim
			if i%4 > 0 {
				from = fmt.Sprintf("192.0.2.%d:%d", i%200, 1000+i%7)
			}
			n.send(int(i%2), from, initiationOf(10_000+i))
			sent[from]++
			n.send(int(i%2), from, responseOf(i, 10_000+i-1)) // answers the initiations that the address may have got, with the right indices
			n.send(int(i%2), from, dataFor(10_000+i, uint64(i), 1400))
			n.wait(500 * time.Microsecond)
		}
		if got := len(n.got[victim]); got > 2*sent[victim] {
			t.Errorf("%s: %d packets came from it, and it was sent %d", name, sent[victim], got)
		}
		for _, m := range n.got[victim] {
			if m.kind != initiation && m.kind != response && m.kind != transport {
				t.Errorf("%s: it was sent %+v", name, m)
			}
		}
		if name != "nobody is there" {
			n.wait(time.Second)
			n.expect(true)
		}
	}
}

// If the relay sent to one of its own ports, it would pass on the packet for ever. It does not know all of
// its addresses, because routers translate most public addresses.
func TestNothingGoesInACircle(t *testing.T) {
	at := func(ip string, port int) string { return fmt.Sprintf("%s:%d", ip, 51840+port) }
	for name, relays := range map[string][]string{
		"a machine's own address": {"10.0.0.9"}, "loopback": {"127.0.0.1"}, "an address that a router translates": {mapped},
		"two relays that name each other": {mapped, "192.0.2.10"},
	} {
		t.Run(name, func(t *testing.T) {
			all := make([]*network, len(relays))
			for i := range all {
				all[i] = newNetwork(t)
			}
			type packet struct {
				relay, port int
				from        string
				data        []byte
			}
			var passes, sessions int
			deliver := func(p packet) {
				for queue := []packet{p}; len(queue) > 0; queue = queue[1:] {
					if passes++; passes > 200_000 {
						t.Fatal("a packet went on for ever")
					}
					p := queue[0]
					for _, n := range all {
						n.wait(time.Millisecond) // budgets are filled up again
					}
					for _, to := range all[p.relay].send(p.port, p.from, p.data) {
						for i, ip := range relays {
							for port := range 2 {
								if to == at(ip, port) {
									queue = append(queue, packet{i, port, at(relays[p.relay], 1-p.port), p.data})
								}
							}
						}
					}
				}
			}
			// The sender of all of these packets knows all indices.
			forged := 0
			forge := func(data func() []byte) {
				for i := range all {
					for port := range 2 {
						for _, ip := range relays {
							for other := range 2 {
								deliver(packet{i, port, at(ip, other), data()})
								forged++
							}
						}
					}
				}
			}
			var index uint32
			for range 8 {
				forge(func() []byte { index++; return initiationOf(index) })
				for i := range index {
					forge(func() []byte { return responseOf(7, i+1) })
				}
			}
			for _, n := range all {
				sessions += len(n.sessions)
			}
			for i := range index + 8 {
				forge(func() []byte { return cookieFor(i) })
				forge(func() []byte { return dataFor(i, 5, 100) })
			}
			t.Logf("%d packets were made up, and passed on %d times", forged, passes-forged)
			if own := relays[0] != mapped; own && passes > forged {
				t.Error("something was passed on to an own address")
			} else if !own && sessions == 0 {
				t.Error("no session: this proves nothing")
			}
		})
	}
}

func TestAllowKeepsStrangersOut(t *testing.T) {
	n := connected(t, "198.51.100.0/24", "203.0.113.8/32")
	if to := n.send(0, "192.0.2.1:1", initiationOf(700)); to != nil {
		t.Errorf("passed on to %s", to)
	}
	if !n.handshake(0, "198.51.100.9:1", server, 701, 702) {
		t.Error("an address that may dial was refused")
	}
}

func TestSessionsEnd(t *testing.T) {
	n := connected(t)
	for range 6 {
		n.wait(silentFor - time.Second)
		n.expect(n.now.Sub(n.sessions[0].made) < sessionLife)
	}
	n = connected(t)
	n.wait(silentFor)
	n.expect(false)
	n = connected(t) // one end sends, and the other one is gone
	for counter := range uint64(4) {
		n.wait(silentFor / 3)
		n.send(0, client, dataFor(200, counter, 0))
	}
	n.expect(false)
}

// WireGuard uses the previous, the present and the next keys.
func TestGatewaysGoOnWithTheKeysBefore(t *testing.T) {
	n := connected(t)
	for i := range uint32(50) {
		if !n.handshake(int(i%2), []string{client, server}[i%2], []string{server, client}[i%2], 1000+i, 2000+i) {
			t.Fatal("no handshake")
		}
		if i == 1 {
			n.wait(time.Second)
			n.expect(true)
		}
	}
	if got := len(n.sessions); got != maxPerPair || len(n.flows) != 2*maxPerPair {
		t.Errorf("got %d sessions and %d flows, want %d", got, len(n.flows), maxPerPair)
	}
}

// A gateway under load answers with a cookie, and also the gateway that gets its response.
func TestCookiesArePassedOnAndAdmitNobody(t *testing.T) {
	n := connected(t)
	const moved = "198.51.100.50:1"
	n.send(0, moved, initiationOf(300))
	if to := n.send(1, server, cookieFor(300)); !slices.Equal(to, []string{moved}) {
		t.Errorf("the cookie went to %s", to)
	}
	if n.knows(n.now, 0, netip.MustParseAddrPort(moved)) {
		t.Error("a cookie admits")
	}
	if to := n.send(0, client, cookieFor(200)); !slices.Equal(to, []string{server}) {
		t.Errorf("the cookie for a response went to %s", to)
	}
}

// A stranger with two addresses can make sessions of its own, and answer itself.
func TestStrangersThatMeetKeepNoGatewayOut(t *testing.T) {
	n := newNetwork(t)
	meet := func() {
		for i := range uint32(2 * maxSessions) {
			n.wait(10 * time.Millisecond)
			a, b := fmt.Sprintf("192.0.2.1:%d", 1000+i), fmt.Sprintf("192.0.2.2:%d", 1000+i)
			n.send(1, b, initiationOf(50_000+i))
			n.handshake(0, a, b, 60_000+i, 70_000+i)
		}
	}
	// The strangers come before the gateways, and some of the first strangers become silent.
	for i := range uint32(10) {
		n.wait(100 * time.Millisecond)
		a, b := fmt.Sprintf("192.0.2.1:%d", i+1), fmt.Sprintf("192.0.2.2:%d", i+1)
		n.send(1, b, initiationOf(10_000+i))
		if !n.handshake(0, a, b, 20_000+i, 30_000+i) {
			t.Fatal("the strangers did not meet")
		}
	}
	n.send(1, server, initiationOf(1))
	if !n.handshake(0, client, server, 100, 200) {
		t.Fatal("the gateways did not meet")
	}
	n.expect(true)
	meet()
	n.expect(true)
	for i := range uint32(10) { // and the gateways' next sessions
		n.wait(time.Second)
		n.send(1, server, initiationOf(1000+i))
		if !n.handshake(0, client, server, 2000+i, 3000+i) {
			t.Error("no further handshake")
		}
	}
	if got := len(n.sessions); got > maxSessions {
		t.Errorf("got %d sessions, want %d at most", got, maxSessions)
	}
}

// The packets of strangers do not make the relay's memory or log grow without limit.
func TestWhatIsRememberedAndLoggedIsBounded(t *testing.T) {
	n := connected(t)
	for i := range uint32(200_000) {
		from := fmt.Sprintf("%d.%d.%d.1:%d", 20+i>>16, i>>8&255, i&255, 1024+i%1000)
		n.send(int(i%2), from, initiationOf(i+1000))
		if i%40 == 0 {
			n.send(int(i%2), from, initiationOf(1<<30+i))
			n.send(1-int(i%2), from, initiationOf(1<<31+i))
			n.send(1-int(i%2), from, responseOf(i, 1<<30+i))
		}
		n.wait(100 * time.Microsecond)
	}
	for i := range n.ends {
		e := &n.ends[i]
		if len(e.attempts) > maxAttempts || len(e.byIndex) > maxAttempts || len(e.latest) > maxAttempts || len(e.waiting) > maxWaiting {
			t.Errorf("port %d: %d attempts, %d and %d of them by index and address, %d wait", i, len(e.attempts), len(e.byIndex), len(e.latest), len(e.waiting))
		}
	}
	if len(n.sessions) > maxSessions || len(n.flows) > 2*maxSessions {
		t.Errorf("got %d sessions and %d flows", len(n.sessions), len(n.flows))
	}
	if lines := strings.Count(n.log.String(), "\n"); lines > logBurst+4 {
		t.Errorf("got %d lines in 20 s:\n%.2000s", lines, n.log.String())
	}
}
