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
	// verifyInterval is the interval at which a path in use is tested for the longest packets. If a path
	// shrinks without an ICMP error, traffic stalls for about this time.
	verifyInterval = 2 * time.Second
	// raiseInterval is the interval at which a path that carries less than the device is tested for longer
	// packets (RFC 8899, PMTU_RAISE_TIMER).
	raiseInterval = 10 * time.Minute
	// retryInterval is the longest interval of two tests: of a peer that answers no questions, and of a path
	// that is narrow. Our gateways answer while they run, sometimes late. Liqo's gateways never answer.
	retryInterval = time.Minute
	// narrow is the MTU that a path should have at least, in bytes. IPv6 requires it of every link.
	narrow = 1280
	// inUse is more than the bytes of the pings between two verifications.
	inUse = 3000
)

// measure finds the longest packet that passes, and repeats the test at intervals.
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

// meter decides when to send questions.
type meter struct {
	tunnel   *Tunnel
	path     *pathmtu.Path
	routed   netip.AddrPort // the endpoint whose route was last looked up
	asked    time.Time      // the time of that look-up
	endpoint netip.AddrPort // the endpoint for which the following fields hold
	link     int            // the device's MTU at the time of the search
	found    int            // the result of the last search; 0: no question was answered
	searched time.Time
	// unanswered is the number of searches since a question was last answered.
	unanswered int
	carried    int64 // bytes besides our questions at the last verification; only differences are meaningful
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
	// The result can be negative, because we count questions that were sent while there was no peer, and
	// WireGuard does not.
	carried := int64(peer.Sent+peer.Received) - int64(m.path.Bytes())
	wait := max(100*time.Millisecond, 2*pings.Latency+50*time.Millisecond)
	switch {
	case m.endpoint != peer.Endpoint || m.link != link || m.found < link && now.Sub(m.searched) >= m.again():
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

// again returns the time between two searches on the same path. A path that has become narrow may be repaired
// at any time, and few are narrow, so it is tested as often as a silent peer.
func (m *meter) again() time.Duration {
	switch {
	case m.found == 0:
		return min(retryInterval, verifyInterval<<min(m.unanswered, 5))
	case m.found < narrow:
		return retryInterval
	}
	return raiseInterval
}

// route sets the device's MTU to fit this machine's route to the peer's endpoint.
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
		return // there may be a route later; the last known MTU is used until then
	}
	m.routed, m.asked = endpoint, now
	t.mu.Lock()
	changed := t.wayMTU != mtu
	t.wayMTU = mtu
	t.mu.Unlock()
	if changed {
		_ = t.sync() // Status contains the error
	}
}

func (m *meter) search(ctx context.Context, link int, wait time.Duration) {
	if m.found = m.path.Largest(ctx, link, gateway.Overhead, wait); m.found > 0 {
		m.unanswered = 0
		return
	}
	m.unanswered++
}

// setPathMTU sets the length of the longest packet to the peer. A sender of a longer packet gets an error.
func (t *Tunnel) setPathMTU(mtu int) {
	t.mu.Lock()
	changed := t.pathMTU != mtu
	t.pathMTU = mtu
	t.mu.Unlock()
	if !changed {
		return
	}
	t.config.Log.Info("longest packet to the peer", "bytes", mtu)
	_ = t.sync() // Status contains the error
	t.config.Changed()
}
