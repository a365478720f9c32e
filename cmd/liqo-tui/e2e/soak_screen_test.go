//go:build soak

package e2e

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/info"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// screenRow is the dashboard's row of rome and milan.
type screenRow struct {
	state     string
	roundTrip string // the longer one of both gateways' measurements
	loss      string
	text      string // the whole line
}

func (r screenRow) String() string { return cmp.Or(r.text, "no row") }

var rowPattern = regexp.MustCompile(`(down|one-sided|unreachable|stale|degraded|recovering|unknown|connecting|starting|untested|no gateways|connected)( \S+)? +` +
	`(?:rome|milan) → (?:rome|milan) +(\S+) .* (\S+) +\S+ +\S+$`)

// row is the present row on the screen.
func (s *soak) row() screenRow {
	for line := range strings.Lines(s.screen.Screen()) {
		line = strings.Trim(line, "│ \n")
		if m := rowPattern.FindStringSubmatch(line); m != nil {
			return screenRow{state: m[1], roundTrip: m[3], loss: m[4], text: line}
		}
	}
	return screenRow{}
}

// infoOfBoth is the output of `info peer -o json`, by cluster. A cluster that
// does not answer is missing.
type infoOfBoth map[wire.ClusterID]*info.Cluster

// fromBad are the words of the dashboard from the worst to the best. The worse
// side counts.
var fromBad = []string{"down", "one-sided", "unreachable", "stale", "degraded", "recovering", "unknown", "connecting", "starting", "untested", "no gateways", "connected"}

// state is the word that the dashboard must show for i.
func (i infoOfBoth) state() string {
	var words []string
	gateways := 0
	for _, cluster := range []wire.ClusterID{"rome", "milan"} {
		p := i.peer(cluster)
		switch {
		case i[cluster] == nil:
			words = append(words, "unreachable")
		case p == nil:
		case p.State == flows.StateNotConnected:
			words = append(words, "no gateways")
		default:
			words = append(words, string(p.State))
		}
		if p != nil && p.Network.Gateway != nil {
			gateways++
		}
	}
	if gateways == 1 && len(i) == 2 {
		return "one-sided"
	}
	slices.SortFunc(words, func(a, b string) int { return cmp.Compare(slices.Index(fromBad, a), slices.Index(fromBad, b)) })
	if len(words) == 0 {
		return "none"
	}
	return words[0]
}

// peer is a cluster's report about its only peer.
func (i infoOfBoth) peer(cluster wire.ClusterID) *info.Peer {
	if i[cluster] == nil {
		return nil
	}
	for _, p := range i[cluster].Peers {
		return p
	}
	return nil
}

// fresh is the same, if its figures are from now.
func (i infoOfBoth) fresh(cluster wire.ClusterID) *info.Peer {
	if p := i.peer(cluster); p != nil && p.State != flows.StateStale && p.Network.Connection != nil {
		return p
	}
	return nil
}

func (i infoOfBoth) matches(row screenRow) bool {
	loss, roundTrip := "-", "-"
	share, longest := 0.0, int64(0)
	for _, cluster := range []wire.ClusterID{"rome", "milan"} {
		if p := i.fresh(cluster); p != nil {
			if c := p.Network.Connection; c.LatencyMicros > longest {
				longest = c.LatencyMicros
				roundTrip = roundTripText(time.Duration(c.LatencyMicros) * time.Microsecond)
			}
			if known := p.Network.Connection.Loss; known != nil {
				share = max(share, *known)
				loss = fmt.Sprintf("%.3g%%", share*100)
			}
		}
	}
	return row.roundTrip == roundTrip && row.state == i.state() && row.loss == loss
}

// roundTripText is a round trip as the dashboard writes it.
func roundTripText(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%dus", d.Microseconds())
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1fms", float64(d.Microseconds())/1000)
	}
	return fmt.Sprintf("%dms", d.Milliseconds())
}

func (i infoOfBoth) String() string {
	var parts []string
	for _, cluster := range []wire.ClusterID{"rome", "milan"} {
		switch p := i.peer(cluster); {
		case i[cluster] == nil:
			parts = append(parts, fmt.Sprintf("%s does not answer", cluster))
		case p == nil:
			parts = append(parts, fmt.Sprintf("%s has no peer", cluster))
		case p.Network.Connection == nil:
			parts = append(parts, fmt.Sprintf("%s: %s, no Connection", cluster, p.State))
		default:
			c := p.Network.Connection
			parts = append(parts, fmt.Sprintf("%s: %s, %d us, loss %s", cluster, p.State, c.LatencyMicros, info.LossText(c)))
		}
	}
	return strings.Join(parts, "; ")
}
