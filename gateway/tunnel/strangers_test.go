//go:build linux

package tunnel

import (
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux"
)

func TestStrangersAreThoseSinceThePeerWasHeard(t *testing.T) {
	tunnel := New(Config{Changed: func() {}})
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	expect := func(what string, want uint64) {
		t.Helper()
		if got := tunnel.Status(now).Strangers; got != want {
			t.Errorf("%s: got %d strangers, want %d", what, got, want)
		}
	}
	tunnel.strangers.note(now, 1000)
	expect("what an earlier process saw", 0)
	tunnel.strangers.note(now, 1007)
	expect("somebody dials", 7)
	tunnel.strangers.note(now, 3)
	expect("the counter is another one", 0)
	tunnel.strangers.note(now, 8)
	expect("somebody dials that", 5)
	tunnel.notePeer(now, linux.PeerStats{Implementation: gateway.InKernel, Handshake: now})
	expect("the peer is there", 0)
	tunnel.strangers.note(now, 1_000_000)
	expect("the peer's packets of a month, and its key was replaced", 0)
	tunnel.strangers.note(now, 1_000_009)
	expect("it dials with another key", 9)
	if err := tunnel.Lead(true); err != nil {
		t.Fatal(err)
	}
	expect("this process begins to hold the tunnel", 0)
}

// Three scans in a week are not a peer with other keys. A peer that has stopped dialling does not count any
// more.
func TestStrangersOfLongAgoDoNotCount(t *testing.T) {
	var s strangers
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	s.note(start, 0)
	for i, c := range []struct {
		after time.Duration
		scans uint64
		want  uint64
	}{{time.Second, 1, 1}, {24 * time.Hour, 1, 1}, {24 * time.Hour, 1, 1}, {30 * time.Second, 3, 4}, {40 * time.Second, 0, 4}, {2 * time.Minute, 0, 0}} {
		start = start.Add(c.after)
		s.note(start, s.arrived+c.scans)
		if got := s.count(); got != c.want {
			t.Errorf("step %d: got %d strangers, want %d", i, got, c.want)
		}
	}
}

func TestPeerIsHeardWhenItsBytesGrow(t *testing.T) {
	tunnel := New(Config{Changed: func() {}})
	start := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for i, c := range []struct {
		received uint64
		name     string
		want     int // the look that last noted a packet; -1: none
	}{
		{5000, "an earlier process heard it", -1},
		{5000, "nothing", -1},
		{5100, "a packet", 2},
		{5100, "nothing since", 2},
		{0, "dialled again", 2},
		{92, "answered", 5},
	} {
		at := start.Add(time.Duration(i) * time.Second)
		tunnel.notePeer(at, linux.PeerStats{Implementation: gateway.InKernel, Received: c.received})
		want := time.Time{}
		if c.want >= 0 {
			want = start.Add(time.Duration(c.want) * time.Second)
		}
		if got := tunnel.Status(at).Heard; !got.Equal(want) {
			t.Errorf("%s: heard at %s, want %s", c.name, got, want)
		}
	}
}
