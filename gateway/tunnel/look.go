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

// watch is what is remembered from one look at the tunnel to the next.
type watch struct {
	dog     ping.Watchdog
	carried ping.Traffic
	redials int // since the last handshake
	looks   int
}

// look watches what the tunnel carries, dials again, and follows a new key.
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

// lookOnce returns when to look again.
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
	advice := w.dog.Judge(now, w.carried, pings, peer.Handshake)
	switch advice {
	case ping.Fine:
		// A packet alone is no answer: the server may dial too, and hear nothing.
		if w.redials > 0 && !peer.Handshake.IsZero() {
			t.pingNow() // it is back: find out at once
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
	case w.carried == before && pings.Latency > 0: // else a first answer is awaited
		return stillInterval
	}
	return lookInterval
}

const (
	// rekeyRetry is until a client dials again that has got another key, or whose
	// server has. The two are told at the same time: one of them is first, and
	// what it sends is lost; or both are, and each drops the other's answer.
	// WireGuard itself tries again after 5 s. Later waits are half of the time so far, so that an answer
	// that takes a second comes before the next try: WireGuard forgets a handshake when it begins another.
	rekeyRetry = 200 * time.Millisecond
	// rekeyFor is how long to do so. Then it is a peer like any that is silent.
	rekeyFor = 5 * time.Second
)

// dials reports whether this end begins handshakes.
func (t *Tunnel) dials() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.config.Role == gateway.Client || t.wanted.Dials
}

// awaitsKey reports whether to dial again because a key was replaced and no
// handshake made since then.
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
		return // it is a remark, and will be made the next time
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

// notePeer remembers what is known of the peer, and that it dialled with its
// next key: from now on that is its key. It returns what is known of pings.
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
	// forgetAfter is how long a client has to be silent until its server makes it anew, and
	// forgetEvery is between two times. A client of Liqo's goes on with the keys that it has after
	// a short break, so they are kept for that.
	forgetAfter, forgetEvery = 1500 * time.Millisecond, 3 * time.Second
)

// forget makes the peer of a silent client anew. Only a server needs it. WireGuard refuses
// a handshake whose time is not later than that of the last one. The client may be another
// process by now, on a machine whose clock is behind: it would be refused for as long as that is.
// An attacker can then replay an old handshake that it has recorded, and learns no key by it.
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

// renew makes the peer anew, which begins a handshake where it was heard last, or at to.
func (t *Tunnel) renew(to netip.AddrPort) error {
	err := t.config.Kernel.Redial(t.device, to)
	if err == nil {
		t.mu.Lock()
		t.totals.restart()
		t.mu.Unlock()
	}
	return err
}

// hasNews makes redials of a silent peer frequent again: its endpoint or its key has
// changed, or the network here.
func (t *Tunnel) hasNews() {
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
	// perEndpoint is how many handshakes are tried with one endpoint: of several
	// that the server may have, or the one where it was heard last, after which it
	// is dialled where it was said to be. It is one handshake if redials are rare: rarely or
	// more apart.
	perEndpoint = 4
	rarely      = 5 * time.Second
	// perPort is the same from one port. Whatever tracks flows on the way may be
	// wrong about one for as long as its packets come: a node that is dialled before
	// its kube-proxy knows the Service takes them for its own. Of a new one it
	// knows nothing.
	perPort = 2
	// quickPorts is how many redials change the port that soon; from then on it is kept for
	// portFor at least. Linux forgets a flow without an answer after 30 s
	// (nf_conntrack_udp_timeout), and a client goes round 10 ports: none is dialled from again
	// before its flow is forgotten.
	quickPorts = 8
	portFor    = 5 * time.Second
)

// portIsDue reports whether the n-th redial without an answer is from another port, the one
// in use since then.
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
	t.hasNews()
	t.pingNow()
}

func (t *Tunnel) pingNow() {
	select {
	case t.hurry <- struct{}{}:
	default:
	}
}

// ping measures the tunnel from the moment it exists.
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

// Status is what is known now.
func (t *Tunnel) Status(now time.Time) Status {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := Status{
		Problem: t.problem, Pings: t.pings, Peer: t.peer, LinkMTU: t.linkMTU, PathMTU: t.pathMTU,
		Fights: t.fights.frequent(now), Strangers: t.strangers.count(), Redials: t.redials, Repairs: t.repairs, Errors: t.errors,
		Heard: t.heard, Redialled: t.redialled, Standby: t.standby,
	}
	s.Moved, s.MovedOver = t.silence.Moved(now, ping.Traffic{Sent: t.peer.Sent, Received: t.peer.Received})
	// Only what the kernel has: who is told of it switches at once, and what it
	// sends before is lost.
	if next := t.wanted.next(); next == t.admitted.PublicKey || next == t.admitted.NextKey {
		s.NextKey = next
	}
	return s
}
