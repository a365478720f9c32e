//go:build linux

package tunnel

import (
	"context"
	"net/netip"
	"time"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/gateway/pathmtu"
	"github.com/liqo-tui/liqo-tui/gateway/ping"
)

const (
	// verifyInterval is how often a path that is in use is asked whether it
	// still carries the longest packets: for about so long a path that shrinks
	// without saying so stalls.
	verifyInterval = 2 * time.Second
	// raiseInterval is how often a path that carries less than the device is
	// asked for more (RFC 8899, PMTU_RAISE_TIMER).
	raiseInterval = 10 * time.Minute
	// retryInterval is the same for a peer that answers no questions, in the end: ours
	// does when it is there, if sometimes late, Liqo's does not.
	retryInterval = time.Minute
	// inUse is above what pings carry between two verifications, in bytes.
	inUse = 3000
)

// measure finds out how long a packet may be, and keeps an eye on it.
func (t *Tunnel) measure(ctx context.Context) error {
	select {
	case <-t.up:
	case <-ctx.Done():
		return nil
	}
	path, err := pathmtu.Listen(ctx, t.own(gateway.PathMTUPort), t.peers(gateway.PathMTUPort))
	if err != nil {
		return err
	}
	m := meter{tunnel: t, path: path}
	timer := time.NewTimer(UntilBeat(verifyInterval))
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			timer.Reset(UntilBeat(verifyInterval))
		case <-t.connected:
		}
		m.step(ctx, time.Now())
	}
}

// meter decides when to ask.
type meter struct {
	tunnel   *Tunnel
	path     *pathmtu.Path
	routed   netip.AddrPort // whose route was looked up last
	asked    time.Time      // when
	endpoint netip.AddrPort // for which the rest holds
	link     int            // MTU of the device that it was searched for
	found    int            // by the last search; 0: no question was answered
	searched time.Time
	// unanswered is how often it was searched since one was last answered.
	unanswered int
	carried    int64 // bytes of others, when the path was last verified; only differences of it mean something
}

func (m *meter) step(ctx context.Context, now time.Time) {
	t := m.tunnel
	m.route(now)
	t.mu.Lock()
	pings, peer, link := t.pings, t.peer, t.linkMTU
	t.mu.Unlock()
	if pings.Value != ping.Connected || link == 0 {
		return
	}
	// Questions that were sent while nobody was there are counted by us alone, so
	// this may begin below zero.
	carried := int64(peer.Sent+peer.Received) - int64(m.path.Bytes())
	wait := max(100*time.Millisecond, 2*pings.Latency+50*time.Millisecond)
	again := raiseInterval
	if m.found == 0 {
		again = min(retryInterval, verifyInterval<<min(m.unanswered, 5))
	}
	switch {
	case m.endpoint != peer.Endpoint || m.link != link || m.found < link && now.Sub(m.searched) >= again:
		m.search(ctx, link, wait)
		m.endpoint, m.link, m.searched = peer.Endpoint, link, now
	case m.found > 0 && carried-m.carried > inUse && m.path.Shrunk(ctx, m.found, wait):
		m.search(ctx, link, wait)
		m.searched = now
	}
	m.carried = carried
	best := m.found
	if cached, err := linux.CachedMTU(peer.Endpoint.Addr()); err == nil && cached > 0 {
		if inner := cached - gateway.Overhead; inner < link && (best == 0 || inner < best) {
			best = inner
		}
	}
	t.setPathMTU(best)
}

// route has the device be as wide as this machine's route to where the peer is.
func (m *meter) route(now time.Time) {
	t := m.tunnel
	t.mu.Lock()
	endpoint := t.peer.Endpoint
	t.mu.Unlock()
	if !endpoint.IsValid() || endpoint == m.routed && now.Sub(m.asked) < resync {
		return
	}
	mtu, err := linux.MTUTo(endpoint.Addr())
	if err != nil {
		return // there may be a route later; what was known counts until then
	}
	m.routed, m.asked = endpoint, now
	t.mu.Lock()
	changed := t.wayMTU != mtu
	t.wayMTU = mtu
	t.mu.Unlock()
	if changed {
		_ = t.sync() // reported by Status
	}
}

func (m *meter) search(ctx context.Context, link int, wait time.Duration) {
	if m.found = m.path.Largest(ctx, link, gateway.Overhead, wait); m.found > 0 {
		m.unanswered = 0
		return
	}
	m.unanswered++
}

// setPathMTU makes longer packets known to their senders, or lets them pass again.
func (t *Tunnel) setPathMTU(mtu int) {
	t.mu.Lock()
	changed := t.pathMTU != mtu
	t.pathMTU = mtu
	t.mu.Unlock()
	if !changed {
		return
	}
	t.config.Log.Info("longest packet to the peer", "bytes", mtu)
	_ = t.sync() // reported by Status
	t.config.Changed()
}
