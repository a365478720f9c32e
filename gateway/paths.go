package gateway

import (
	"net/netip"
	"slices"
)

// missesUntilLost is the number of unanswered questions in a row after which a gateway counts as lost,
// because the network may lose one or two.
const missesUntilLost = 3

// Paths notes which gateways answer a node over the fabric.
type Paths struct {
	missed map[string]int // by name, the number of unanswered questions in a row
}

// Note records which of the asked gateways have answered, and returns the names of the lost
// gateways, sorted.
func (p *Paths) Note(asked []Gateway, answered map[netip.Addr]bool) (lost []string) {
	missed := map[string]int{}
	for _, g := range asked {
		if answered[g.PodIP] {
			continue
		}
		missed[g.Name] = min(p.missed[g.Name]+1, missesUntilLost)
		if missed[g.Name] == missesUntilLost {
			lost = append(lost, g.Name)
		}
	}
	p.missed = missed
	slices.Sort(lost)
	return lost
}

// Doubtful reports whether a gateway has not answered the last question, and is not lost yet.
func (p *Paths) Doubtful() bool {
	for _, n := range p.missed {
		if n < missesUntilLost {
			return true
		}
	}
	return false
}
