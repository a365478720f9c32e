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

// watch holds the values that one look at the tunnel leaves for the next look.
type watch struct {
	dog     ping.Watchdog
	carried ping.Traffic
	redials int // since the last handshake
	looks   int
}

// look watches the tunnel until ctx ends. It dials again if the peer is silent, and it makes the peer's next
// key the present one if the peer uses it.
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

func (t *Tunnel) lookOnce(w *watch) time.Duration {
	peer, err := t.config.Kernel.Peer(t.device)
	switch {
	case err != nil && w.looks > 0:
		return stillInterval // another pod has the tunnel
	case err != nil:
		return lookInterval // the device or WireGuard's peer does not exist yet
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
		// Only a handshake proves that the peer is back. A packet is no proof: it may be a handshake of a
		// server that dials but does not receive this end's packets.
		if w.redials > 0 && !peer.Handshake.IsZero() {
			t.pingNow() // so that the state is connected at once
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
	case w.carried == before && pings.Latency > 0: // 0: the peer has not answered a ping yet
		return stillInterval
	}
	return lookInterval
}

const (
	// rekeyRetry is the first delay until a client dials again after its own key or its server's key has
	// changed. Both ends learn of the new key at about the same time. The first packets of the end that
	// learns of it first are lost, and if both ends dial at once, each drops the other's answer. WireGuard
	// itself tries again only after 5 s. Each later delay is half of the time from the change to the last
	// try, but at least rekeyRetry and twice the latency. The delays grow, because WireGuard forgets a
	// handshake when it begins a new one: an answer that takes a second has to come before the next try.
	rekeyRetry = 200 * time.Millisecond
	// rekeyFor is the time after a change of a key in which the client dials with these delays. After that
	// time, the delays are the usual ones for a silent peer.
	rekeyFor = 5 * time.Second
)

// dials reports whether this end begins handshakes: a client does, and a server if it is configured so.
func (t *Tunnel) dials() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.config.Role == gateway.Client || t.wanted.Dials
}

// awaitsKey reports whether the client has to dial now, because a key was replaced, no handshake has followed,
// and the delay since the last try is over.
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

// countStrangers notes how many packets came to the tunnel's port. It is called while there is no handshake
// with the peer, so the senders are not known.
func (t *Tunnel) countStrangers(now time.Time) {
	counters, err := t.config.Kernel.Counters()
	if err != nil {
		return // the number is only shown, and a later look tries again
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.strangers.note(now, counters[gateway.Arrived].Packets)
}

// awaitsNextKey reports whether a key is being replaced: the peer has announced a next key and has not used it
// yet, or no handshake has followed the last change of a key.
func (t *Tunnel) awaitsNextKey() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	next := t.wanted.next()
	return next != wgtypes.Key{} && next != t.promoted || !t.rekeyed.IsZero()
}

// notePeer stores WireGuard's state of the peer. If the peer has dialled with its next key, this key becomes the
// present one. notePeer returns the state of pings.
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
		_ = t.sync() // Status contains the error
	}
	if moved || promote {
		t.config.Changed()
	}
	return pings
}

const (
	// forgetAfter is the time of silence after which a server creates WireGuard's entry of its client anew.
	// After a shorter silence, Liqo's client keeps its session keys, so the server keeps them, too.
	// forgetEvery is the shortest time between two such renewals.
	forgetAfter, forgetEvery = 1500 * time.Millisecond, 3 * time.Second
)

// forget creates WireGuard's entry of a silent client anew. Only a server needs this. The entry has the time
// stamp of the last handshake, and WireGuard refuses handshakes with an earlier time stamp. The client may be
// a new process on a machine whose clock is behind. Without forget, the server would refuse its handshakes
// until this clock has reached the time stamp. After forget, an attacker can send a recorded handshake once
// more, but learns no key.
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
	if err := t.renewed(t.config.Kernel.Forget(t.device)); err != nil {
		t.config.Log.Error("forget the time of the peer's last handshake", "error", err)
	}
}

// renewed takes and returns the error of Redial or Forget. After a success, WireGuard's counters begin again.
func (t *Tunnel) renewed(err error) error {
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
	// peer's last address comes first, then the configured endpoints, because a server may have several.
	// If at least 5 s (rarely) pass between two redials, each endpoint gets only one handshake.
	perEndpoint = 4
	rarely      = 5 * time.Second
	// perPort is the number of handshakes from one port before the client uses the next port. A machine
	// on the path that tracks flows can treat a flow wrongly as long as its packets come. For example, a
	// node keeps a flow that began before its kube-proxy knew the Service. A flow from a new port is new
	// to such a machine. Answers to the port before are lost, so the first change after an answered ping
	// comes later: the peer may only be busy.
	perPort = 2
	// For the first quickPorts redials, only perPort decides when the port changes. Later, the client
	// keeps a port for at least portFor. It uses 10 ports in turn, and Linux forgets an unanswered
	// flow after 30 s (nf_conntrack_udp_timeout). So the flow of a port is forgotten before the client
	// uses the port again.
	quickPorts = 8
	portFor    = 5 * time.Second
)

// portIsDue reports whether the n-th redial without an answer needs another port. The parameter since is when the
// client began to use the present port, and answered is whether the peer has answered a ping at its present endpoints.
func portIsDue(n int, now, since time.Time, answered bool) bool {
	if answered {
		n -= perPort
	}
	return n > 0 && n%perPort == 0 && (n <= quickPorts || now.Sub(since) >= portFor)
}

// answered reports whether the peer has answered a ping at its present endpoints.
func (t *Tunnel) answered() bool { return t.pings.LastReply.After(t.moved) }

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
	change := t.config.Role == gateway.Client && portIsDue(n, now, t.ported, t.answered()) // a server's port must be that of its Service
	if change {
		t.ported = now
	}
	t.mu.Unlock()
	t.config.Changed()
	if to.IsValid() && len(all) > 1 {
		t.config.Log.Info("no answer; trying the server's next address", "endpoint", to)
		_ = t.sync() // Status contains the error
	}
	var err error
	if change {
		err = t.config.Kernel.ChangePort(t.device)
	}
	if err := errors.Join(err, t.renewed(t.config.Kernel.Redial(t.device, to))); err != nil {
		t.config.Log.Error("dial the peer again", "error", err)
	}
}

// Ask pings the peer now. If the peer is silent, the redials become frequent again, see redialSooner.
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
		ClusterID: t.config.PeerID, Hurry: t.hurry, Recorder: t.config.Recorder,
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
	// The peer uses its next key as soon as it reads the key in our report. So the key is reported only if
	// the kernel already accepts it. Otherwise the peer's first packets would be lost.
	if next := t.wanted.next(); next == t.admitted.PublicKey || next == t.admitted.NextKey {
		s.NextKey = next
	}
	return s
}
