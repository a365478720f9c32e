package report

import (
	"cmp"
	"fmt"

	"github.com/liqo-tui/liqo-tui/flows"
)

// milestone is a point in the course of a connection that is no step of the plan,
// because another program reaches it. Facts show it.
type milestone struct {
	side     flows.Side
	id, text string
}

// milestones returns the milestones that were reached, according to the facts:
// those of the clusters, their operators and gateways. They have the order in
// which a connection reaches them.
func milestones(f flows.Facts) []milestone {
	var out []milestone
	for _, side := range []flows.Side{flows.A, flows.B} {
		c := f.Sides[side]
		if c.Problem != nil || c.ID == "" {
			continue
		}
		add := func(id, format string, args ...any) {
			out = append(out, milestone{side, id, fmt.Sprintf(format, args...)})
		}
		add("identity", "cluster identity: %s, Kubernetes %s, %s", c.ID, c.Version, softwareText(c))
		if len(c.Networks.Pod) > 0 {
			add("networks", "network configuration: pods %s, external %s", flows.Joined(c.Networks.Pod), cmp.Or(flows.Joined(c.Networks.External), "unknown"))
		}
		other := f.Sides[side.Other()].ID
		if other == "" || other == c.ID {
			continue
		}
		p := c.End(other)
		if p.Pod != nil && p.Pod.Ready {
			add("pod", "gateway pod %s is ready", p.Pod.Name)
		}
		if p.Key != nil {
			add("key", "gateway has a key pair, its public key is %s", p.Key)
		}
		if p.Connection != nil {
			add("connection", "Connection %s created", p.Connection.Name)
		}
	}
	return out
}

func softwareText(c flows.ClusterFacts) string {
	if why := c.Unseen(); why != "" {
		return "unknown operator: " + why
	}
	if !c.Can().Connect {
		return "no operator is installed"
	}
	return "connected by " + c.Software.String()
}

// passed has the milestones that were already reported.
type passed map[milestone]bool

// news returns the milestones in f that were not reported yet.
func (p *passed) news(f flows.Facts) []milestone {
	if *p == nil {
		*p = passed{}
	}
	var out []milestone
	for _, m := range milestones(f) {
		if !(*p)[m] {
			(*p)[m] = true
			out = append(out, m)
		}
	}
	return out
}
