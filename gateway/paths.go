package gateway

import (
	"net/netip"
	"slices"
)

// missesUntilLost is how many questions in a row are not answered by a gateway that
// counts as lost: a pod of it that is replaced is away for shorter.
const missesUntilLost = 3

// Paths notes which gateways answer a node over the fabric.
type Paths struct {
	missed map[string]int // by name; questions in a row
}

// Note takes in who has answered of the gateways that were asked, and returns the
// names of those that are lost, sorted.
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
