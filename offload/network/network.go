// Package network is what offloading has to know of the tunnel to the other cluster: under
// which addresses its pods are reached, and whether packets pass. It is pure.
package network

import (
	"fmt"
	"net/netip"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/ipam"
	"github.com/liqo-tui/liqo-tui/render"
)

// Range is one of the other cluster's ranges of pods, and the range as which this cluster
// sees it.
type Range struct{ Own, Seen netip.Prefix }

// Ranges are all of them.
type Ranges []Range

// RangesOf are those of the other cluster's pods; none if they are not known.
func RangesOf(c *networkingv1beta1.Configuration) (out Ranges) {
	if c == nil || c.Status.Remote == nil {
		return nil
	}
	own, seen := c.Spec.Remote.CIDR.Pod, c.Status.Remote.CIDR.Pod
	for i := range min(len(own), len(seen)) {
		from, err := netip.ParsePrefix(string(own[i]))
		to, toerr := netip.ParsePrefix(string(seen[i]))
		if err == nil && toerr == nil {
			out = append(out, Range{Own: from, Seen: to})
		}
	}
	return out
}

// Seen is under which address a pod of the other cluster is reached from here; false if
// under none: an address outside of its ranges would lead to somebody else.
func (all Ranges) Seen(text string) (string, bool) {
	a, err := netip.ParseAddr(text)
	if err != nil {
		return "", false
	}
	for _, r := range all {
		if seen, err := ipam.Remap(a, r.Own, r.Seen); err == nil {
			return seen.String(), true
		}
	}
	return "", false
}

// Contain reports whether an address, as it is seen here, is that of a pod of the other
// cluster.
func (all Ranges) Contain(text string) bool {
	a, err := netip.ParseAddr(text)
	for _, r := range all {
		if err == nil && r.Seen.Contains(a) {
			return true
		}
	}
	return false
}

// Tunnel is the network between the clusters. Without one there is nothing to say of it:
// an admin connects them otherwise.
type Tunnel struct {
	There bool
	Down  string // why no packets pass, "" if they do
	// Until is when this has to be judged again if nothing new is said; zero: never.
	Until time.Time
}

// Follower judges a tunnel by what its gateway reports. Clocks of nodes differ: a report
// is too old when it has not changed for too long by this one. The zero Follower has heard
// of nothing.
type Follower struct {
	text string
	at   time.Time
}

// Tunnel is its state. configured says that the clusters are to be connected.
func (f *Follower) Tunnel(configured bool, all []networkingv1beta1.Connection, now time.Time) Tunnel {
	if len(all) == 0 {
		if configured {
			return Tunnel{There: true, Down: "there is no gateway for it"}
		}
		return Tunnel{}
	}
	c := render.First(all)
	if text := c.Annotations[render.AnnotationStatus]; text != f.text || f.at.IsZero() {
		f.text, f.at = text, now
	}
	report, ok, err := render.ParseReport(c.Annotations)
	if err != nil {
		ok = false
	}
	var stale time.Time
	if ok {
		stale = render.StaleAt(f.at, time.Duration(report.Interval)*time.Second)
	}
	switch {
	case !stale.IsZero() && now.After(stale):
		return Tunnel{There: true, Down: fmt.Sprintf("its gateway has not reported for %s", now.Sub(f.at).Round(time.Second))}
	case c.Status.Value == networkingv1beta1.Connected:
		return Tunnel{There: true, Until: stale}
	case ok && report.Message != "":
		return Tunnel{There: true, Down: report.Message, Until: stale}
	case c.Status.Value == "":
		return Tunnel{There: true, Down: "its gateway has not reported yet"}
	}
	return Tunnel{There: true, Down: "its gateway says " + string(c.Status.Value), Until: stale}
}
