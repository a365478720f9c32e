package simulated

import (
	"cmp"
	"math"
	"time"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Link is the path between the gateways of two clusters, with the pods' traffic on it. It
// simulates what does not depend on our programs.
type Link struct {
	RoundTrip time.Duration // 0: the round trip of a LAN
	Jitter    time.Duration // the largest addition to RoundTrip
	Loss      float64       // share of the packets that don't arrive, 0 to 1
	Closed    bool          // true if no UDP packets pass, in either direction
	// Firewalled is the cluster that lets only answers in: its gateway can dial, and can't be
	// dialled. "" is neither of the two.
	Firewalled wire.ClusterID
	// Traffic is the pods' traffic in bytes per second: first from the cluster whose name
	// comes first, then to it.
	Traffic [2]float64
}

// lan is the round trip of a link with RoundTrip 0.
const lan = 1200 * time.Microsecond

// Join changes the link between two clusters. change must not call methods of the world or its
// clusters.
func (w *World) Join(a, b wire.ClusterID, change func(*Link)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l := w.link(a, b)
	change(&l)
	w.links[ends(a, b)] = l
}

func (w *World) link(a, b wire.ClusterID) Link { return w.links[ends(a, b)] }

func ends(a, b wire.ClusterID) [2]wire.ClusterID {
	return [2]wire.ClusterID{min(a, b), max(a, b)}
}

func (l Link) roundTrip(chance func() float64) time.Duration {
	d := cmp.Or(l.RoundTrip, lan)
	if l.Jitter > 0 {
		d += time.Duration(math.Pow(chance(), 3) * float64(l.Jitter)) // large values are rare
	}
	return d
}

// rates returns the bytes per second that pods send and receive. They vary within minutes, and
// are lower with lost packets.
func (l Link) rates(first bool, now time.Time) (sends, gets float64) {
	minutes := float64(now.UnixNano()) / float64(time.Minute)
	load := func(mean float64) float64 {
		return mean * (1 + 0.45*math.Sin(minutes/1.7+mean) + 0.25*math.Sin(minutes*2.3+mean)) * math.Pow(1-l.Loss, 8)
	}
	sends, gets = load(l.Traffic[0]), load(l.Traffic[1])
	if !first {
		sends, gets = gets, sends
	}
	return sends, gets
}
