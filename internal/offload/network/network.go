// Package network provides the facts about the tunnel to the other cluster that offloading needs: the
// addresses under which its pods are reachable, and whether packets pass. It is pure.
package network

import (
	"fmt"
	"net/netip"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/internal/ipam"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Range is one of the other cluster's pod ranges, with the range under which this cluster sees it.
type Range struct{ Own, Seen netip.Prefix }

// Ranges are all pod ranges of the other cluster.
type Ranges []Range

// RangesOf returns the other cluster's pod ranges; none if they are not known.
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

// Seen returns the address under which a pod of the other cluster is reachable from here. It returns false
// for an address outside of the cluster's ranges, because packets to it would reach another host.
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

// Contain reports whether an address, as seen from here, belongs to a pod of the other cluster.
func (all Ranges) Contain(text string) bool {
	a, err := netip.ParseAddr(text)
	for _, r := range all {
		if err == nil && r.Seen.Contains(a) {
			return true
		}
	}
	return false
}

// Tunnel is the state of the network between the clusters. The zero value means that there is no tunnel of
// ours. An admin may have connected the clusters in another way.
type Tunnel struct {
	There bool
	Down  string // the reason that no packets pass; "" if they pass
	// Until is the time of the next judgement if no report comes; zero: never.
	Until time.Time
}

// Follower judges a tunnel by the reports of its gateway. It measures their age by its own clock, from the
// last change of the report, because the clocks of nodes differ. The zero Follower has seen no report.
type Follower struct {
	text string
	at   time.Time
}

// Tunnel returns the state of the tunnel. configured means that a Configuration connects the clusters.
func (f *Follower) Tunnel(configured bool, all []networkingv1beta1.Connection, now time.Time) Tunnel {
	if len(all) == 0 {
		if configured {
			return Tunnel{There: true, Down: "there is no gateway for it"}
		}
		return Tunnel{}
	}
	c := wire.First(all)
	if text := c.Annotations[wire.AnnotationStatus]; text != f.text || f.at.IsZero() {
		f.text, f.at = text, now
	}
	report, ok, err := wire.ParseReport(c.Annotations)
	if err != nil {
		ok = false
	}
	var stale time.Time
	if ok {
		stale = wire.StaleAt(f.at, time.Duration(report.Interval)*time.Second)
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
