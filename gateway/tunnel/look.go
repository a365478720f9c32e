//go:build linux

package tunnel

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/gateway/ping"
)

// watch is the memory between two looks at the tunnel.
type watch struct {
	dog     ping.Watchdog
	carried ping.Traffic
	redials int // the redials after the last handshake
	looks   int
}

// look watches the tunnel's traffic, dials again if the peer is silent, and follows a new key.
func (t *Tunnel) look(ctx context.Context) error {
	var w watch
	timer := time.NewTimer(lookInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-t.rushed:
		}
		timer.Reset(t.lookOnce(&w))
	}
}

// lookOnce looks at the tunnel once, and returns the time until the next look.
func (t *Tunnel) lookOnce(w *watch) time.Duration {
	peer, err := t.config.Kernel.Peer(t.device)
	switch {
	case err != nil && w.looks > 0:
		return stillInterval // another pod has the tunnel
	case err != nil:
		return lookInterval // no device or no peer yet
	}
	if w.looks++; peer.Handshake.IsZero() && w.looks%strangersEvery == 0 {
		t.countStrangers(time.Now())
	}
	before, now := w.carried, time.Now()
	if t.takeNews() {
		w.dog.Hurry(now)
		w.redials = 0
	}
	w.carried = ping.Traffic{Sent: peer.Sent, Received: peer.Received}
	pings := t.notePeer(now, peer)
	if t.awaitsKey(now, peer.Handshake, pings.Latency) {
		t.redial(1)
		return rotateInterval
	}
	advice := w.dog.Advise(now, w.carried, pings, peer.Handshake)
	switch advice {
	case ping.Fine:
		// A packet alone is no answer: the server may dial, too, without hearing this end.
		if w.redials > 0 && !peer.Handshake.IsZero() {
			t.pingNow() // the peer is back: confirm it at once
			w.redials = 0
		}
	case ping.Doubt:
		t.pingNow()
	case ping.Redial:
		if t.dials() {
			w.redials++
			t.redial(w.redials)
		} else {
			t.forget(now)
		}
	case ping.Wait:
	}
	switch {
	case t.awaitsNextKey():
		return rotateInterval
	case w.carried.Since(before) <= pingBytes && w.dog.Calm(now, pings):
		return UntilBeat(ping.CalmInterval)
	case w.carried == before && pings.Latency > 0: // without a latency, the first answer is still to come
		return stillInterval
	}
	return lookInterval
}

const (
	// rekeyRetry is the first delay until a client dials again after its own key or its server's key has
	// changed. Both ends learn of the new key at about the same time. If one end is earlier, its first
	// packets are lost; if both dial at once, each drops the other's answer. WireGuard itself tries again
	// after 5 s. Later delays are half of the time from the change to the last try. So an answer that
	// takes a second comes before the next try in the end: WireGuard forgets a handshake when it begins a
	// new handshake.
	rekeyRetry = 200 * time.Millisecond
	// rekeyFor is the time for which the client dials like that. Then it treats the peer like any silent
	// peer.
	rekeyFor = 5 * time.Second
)

// dials reports whether this end begins handshakes.
func (t *Tunnel) dials() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.config.Role == gateway.Client || t.wanted.Dials
}

// awaitsKey reports whether to dial again: a key was replaced, and no handshake has followed.
func (t *Tunnel) awaitsKey(now, handshake time.Time, latency time.Duration) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.rekeyed.IsZero() {
		return false
	}
	if handshake.After(t.rekeyed) || now.Sub(t.rekeyed) > rekeyFor {
		t.rekeyed = time.Time{}
		return false
	}
	last := t.rekeyed
	if t.redialled.After(last) {
		last = t.redialled
	}
	return t.config.Role == gateway.Client && now.Sub(last) >= max(rekeyRetry, 2*latency, last.Sub(t.rekeyed)/2)
}

// countStrangers counts the packets that came to the tunnel's port.
func (t *Tunnel) countStrangers(now time.Time) {
	counters, err := t.config.Kernel.Counters()
	if err != nil {
		return // the count is only a remark; the next look tries again
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.strangers.note(now, counters[gateway.Arrived].Packets)
}

// awaitsNextKey reports whether a key is being replaced.
func (t *Tunnel) awaitsNextKey() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := t.wanted.next()
	return next != wgtypes.Key{} && next != t.promoted || !t.rekeyed.IsZero()
}

// notePeer stores the peer's state. If the peer has dialled with its next key, that is its
// key from now on. notePeer returns the state of pings.
func (t *Tunnel) notePeer(now time.Time, peer linux.PeerStats) ping.Status {
	t.mu.Lock()
	moved := peer.Endpoint != t.peer.Endpoint || t.peer.Handshake.IsZero() && !peer.Handshake.IsZero()
	sum := t.totals.add(ping.Traffic{Sent: peer.Sent, Received: peer.Received})
	peer.Sent, peer.Received = sum.Sent, sum.Received
	t.hears(now, peer.Received, t.peer == linux.PeerStats{})
	if !peer.Handshake.IsZero() {
		t.strangers.forget()
	}
	t.peer = peer
	pings := t.pings
	t.silence.Note(now, pings.LastReply, sum)
	next := t.wanted.next()
	promote := next != (wgtypes.Key{}) && next != t.promoted && !peer.NextHandshake.IsZero()
	if promote {
		t.promoted = next
	}
	t.mu.Unlock()
	if promote {
		t.config.Log.Info("the peer uses its next key", "key", next.String())
		_ = t.sync() // reported by Status
	}
	if moved || promote {
		t.config.Changed()
	}
	return pings
}

const (
	// forgetAfter is the time of silence after which a server creates its client's peer anew. After a
	// shorter silence, Liqo's client goes on with its session keys, so the server keeps them, too.
	// forgetEvery is the least time between two renewals.
	forgetAfter, forgetEvery = 1500 * time.Millisecond, 3 * time.Second
)

// forget creates the peer of a silent client anew. Only a server needs it. WireGuard refuses a handshake
// whose time stamp is not later than that of the last handshake. The client may be a new process by now,
// on a machine whose clock is behind: its handshakes would be refused until the clock has caught up.
// After forget, an attacker can replay an old handshake that it has recorded, but learns no key.
func (t *Tunnel) forget(now time.Time) {
	t.mu.Lock()
	early := now.Sub(t.heard) < forgetAfter || now.Sub(t.forgotten) < forgetEvery
	if !early {
		t.forgotten = now
	}
	t.mu.Unlock()
	if early {
		return
	}
	if err := t.renew(netip.AddrPort{}); err != nil {
		t.config.Log.Error("forget the time of the peer's last handshake", "error", err)
	}
}

// renew creates the peer anew. That begins a handshake with the address in the parameter to, if it is
// valid, otherwise with the peer's last address.
func (t *Tunnel) renew(to netip.AddrPort) error {
	err := t.config.Kernel.Redial(t.device, to)
	if err == nil {
		t.mu.Lock()
		t.totals.restart()
		t.mu.Unlock()
	}
	return err
}

// redialSooner makes the redials of a silent peer frequent again, from the next look on.
func (t *Tunnel) redialSooner() {
	t.mu.Lock()
	t.news = true
	t.mu.Unlock()
}

func (t *Tunnel) takeNews() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	news := t.news
	t.news = false
	return news
}

const (
	// perEndpoint is the number of handshakes with one endpoint before the next endpoint is tried. The
	// peer's last address comes first, then the given endpoints: a server may have several. If redials
	// are 5 s or more apart (the constant rarely), each endpoint gets one handshake.
	perEndpoint = 4
	rarely      = 5 * time.Second
	// perPort is the number of handshakes from one port before the next port is tried. A machine on the
	// path that tracks flows can treat a flow wrongly as long as its packets come: a node takes the flow
	// for its own if it is dialled before its kube-proxy knows the Service. The machine knows nothing of
	// a flow from a new port.
	perPort = 2
	// quickPorts is the number of first redials in which perPort alone decides on a new port. After
	// them, a port is kept for at least portFor. Linux forgets an unanswered flow after 30 s
	// (nf_conntrack_udp_timeout), and a client uses 10 ports in turn: so a port's flow is forgotten
	// before the port is used again.
	quickPorts = 8
	portFor    = 5 * time.Second
)

// portIsDue reports whether the n-th redial without an answer needs another port. The parameter since is
// when the present port came into use.
func portIsDue(n int, now, since time.Time) bool {
	return n%perPort == 0 && (n <= quickPorts || now.Sub(since) >= portFor)
}

// redial begins a handshake, the n-th without an answer.
func (t *Tunnel) redial(n int) {
	now := time.Now()
	t.mu.Lock()
	t.redials++
	rare := n > 1 && now.Sub(t.redialled) >= rarely
	t.redialled = now
	all, to := t.wanted.Endpoints, netip.AddrPort{}
	if n%perEndpoint == 0 || rare {
		if len(all) > 1 {
			t.chosen = all[(slices.Index(all, t.chosen)+1)%len(all)]
		}
		to = t.chosen
	}
	change := t.config.Role == gateway.Client && portIsDue(n, now, t.ported) // a server's port is its Service's
	if change {
		t.ported = now
	}
	t.mu.Unlock()
	t.config.Changed()
	if to.IsValid() && len(all) > 1 {
		t.config.Log.Info("no answer; trying the server's next address", "endpoint", to)
		_ = t.sync() // reported by Status
	}
	var err error
	if change {
		err = t.config.Kernel.ChangePort(t.device)
	}
	if err := errors.Join(err, t.renew(to)); err != nil {
		t.config.Log.Error("dial the peer again", "error", err)
	}
}

// Ask pings the peer now, and dials it soon if it is silent.
func (t *Tunnel) Ask() {
	t.redialSooner()
	t.pingNow()
}

func (t *Tunnel) pingNow() {
	select {
	case t.hurry <- struct{}{}:
	default:
	}
}

// ping pings the peer as soon as the tunnel exists.
func (t *Tunnel) ping(ctx context.Context) error {
	select {
	case <-t.up:
	case <-ctx.Done():
		return nil
	}
	return ping.Run(ctx, ping.Config{
		ListenAddr: t.own(gateway.PingPort), PeerAddr: t.peers(gateway.PingPort),
		ClusterID: t.config.PeerID, Hurry: t.hurry,
		OnChange: func(s ping.Status) {
			t.mu.Lock()
			changed := t.pings.Value != s.Value || t.pings.Latency == 0 && s.Latency > 0
			answered := s.LastReply.After(t.pings.LastReply) && s.Latency > 0
			t.pings = s
			t.mu.Unlock()
			if answered && t.config.Pinged != nil {
				t.config.Pinged(s.Latency)
			}
			t.config.Changed()
			if changed && s.Value == ping.Connected {
				select {
				case t.connected <- struct{}{}:
				default:
				}
			}
		},
	})
}

func (t *Tunnel) own(port uint16) netip.AddrPort {
	return netip.AddrPortFrom(gateway.TunnelAddr(t.config.Role, 0).Addr(), port)
}

func (t *Tunnel) peers(port uint16) netip.AddrPort {
	return netip.AddrPortFrom(gateway.PeerTunnelAddr(t.config.Role, 0).Addr(), port)
}

// Status returns the tunnel's present status.
func (t *Tunnel) Status(now time.Time) Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := Status{
		Problem: t.problem, Pings: t.pings, Peer: t.peer, LinkMTU: t.linkMTU, PathMTU: t.pathMTU,
		Fights: t.fights.frequent(now), Strangers: t.strangers.count(), Redials: t.redials, Repairs: t.repairs, Errors: t.errors,
		Heard: t.heard, Redialled: t.redialled, Standby: t.standby,
	}
	s.Moved, s.MovedOver = t.silence.Moved(now, ping.Traffic{Sent: t.peer.Sent, Received: t.peer.Received})
	// Only a key that the kernel already accepts is reported: the peer uses its next key as soon as it
	// reads this. If the kernel did not accept the key yet, the peer's first packets would be lost.
	if next := t.wanted.next(); next == t.admitted.PublicKey || next == t.admitted.NextKey {
		s.NextKey = next
	}
	return s
}
