//go:build linux

package tunnel_test

import (
	"strings"
	"testing"
	"time"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
)

// Each end replaces its key while the other end is ready for it.
func TestKeysAreReplacedWhileTrafficFlows(t *testing.T) {
	p := newPair(t, linuxtest.TunnelMTU)
	p.waitForMTU(linuxtest.TunnelMTU, linuxtest.TunnelMTU)
	for _, c := range []struct {
		name            string
		owner, peer     *linuxtest.Cluster
		ofOwner, ofPeer *linuxtest.Process
	}{
		{"server's key", p.server, p.client, p.ofServer, p.ofClient},
		{"client's key", p.client, p.server, p.ofClient, p.ofServer},
	} {
		next, err := wgtypes.GenerateKey()
		if err != nil {
			t.Fatal(err)
		}
		announced := p.wanted(c.peer, c.owner)
		announced.Inputs.Peers[0].NextKey = next.PublicKey()
		started := time.Now()
		c.ofPeer.Set(announced)
		linuxtest.WaitFor(t, "readiness for the next key", func() bool { return c.ofPeer.Status().NextKey == next.PublicKey() })
		switched := p.wanted(c.owner, c.peer)
		switched.Inputs.Peers[0].PrivateKey = gateway.PrivateKey(next)
		c.ofOwner.Set(switched)
		linuxtest.Bound(t, c.name+" replaced", p.stream.Gap(started), 100*time.Millisecond)

		// The peer learns that this is the key, and forgets the other key.
		c.owner.Key = next
		before := c.ofPeer.Status().Peer.Handshake
		c.ofPeer.Set(p.wanted(c.peer, c.owner))
		linuxtest.Bound(t, c.name+" forgotten", p.stream.Gap(time.Now()), 100*time.Millisecond)
		if s := c.ofPeer.Status(); s.Problem != "" || s.Peer.Handshake.Before(before) || s.NextKey != (wgtypes.Key{}) {
			t.Errorf("%s: %+v", c.name, s)
		}
	}
}

// No data is sent that would cause a handshake. The peer forgets the old key at once, before or after its
// owner has the new key.
func TestKeysAreReplacedWhileNothingIsSent(t *testing.T) {
	p := newPair(t, linuxtest.TunnelMTU)
	p.waitForMTU(linuxtest.TunnelMTU, linuxtest.TunnelMTU)
	p.stream.Stop()
	var longest time.Duration
	for round := range 10 {
		owner, peer, ofOwner, ofPeer := p.server, p.client, p.ofServer, p.ofClient
		if round%2 == 1 {
			owner, peer, ofOwner, ofPeer = p.client, p.server, p.ofClient, p.ofServer
		}
		next, err := wgtypes.GenerateKey()
		if err != nil {
			t.Fatal(err)
		}
		announced := p.wanted(peer, owner)
		announced.Inputs.Peers[0].NextKey = next.PublicKey()
		ofPeer.Set(announced)
		linuxtest.WaitFor(t, "readiness for the next key", func() bool { return ofPeer.Status().NextKey == next.PublicKey() })
		switched := p.wanted(owner, peer)
		switched.Inputs.Peers[0].PrivateKey = gateway.PrivateKey(next)
		owner.Key = next
		ofPeer.Set(p.wanted(peer, owner))
		ofOwner.Set(switched)
		started := time.Now()
		stream := linuxtest.NewStream(t, p.podB, "10.61.2.2")
		took := time.Since(started)
		longest = max(longest, took)
		t.Logf("%s's key: first answer after %s", owner.Name, took.Round(time.Millisecond))
		stream.Stop()
	}
	linuxtest.Bound(t, "first answer after a key was replaced, longest of ten", longest, 500*time.Millisecond)
}

// A key that was only announced gives no access.
func TestNextKeyAloneOpensNothing(t *testing.T) {
	t.Parallel()
	p := newPair(t, linuxtest.TunnelMTU)
	next, err := wgtypes.GeneratePrivateKey()
	if err != nil {
		t.Fatal(err)
	}
	w := p.wanted(p.server, p.client)
	w.Inputs.Peers[0].NextKey = next.PublicKey()
	p.ofServer.Set(w)
	linuxtest.WaitFor(t, "readiness", func() bool { return p.ofServer.Status().NextKey == next.PublicKey() })
	started := time.Now()
	linuxtest.Bound(t, "traffic with the old key", p.stream.Gap(started), 100*time.Millisecond)
	if s := p.ofServer.Status(); s.Problem != "" || strings.Contains(s.Problem, next.String()) {
		t.Errorf("got problem %q", s.Problem)
	}
}
