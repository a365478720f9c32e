package simulated

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/render"
)

var _ engine.Reacher = (*Cluster)(nil)

// longest is the size of the largest packet that passes between pods of the two
// clusters.
const longest = 1500

// API implements [engine.Reacher].
func (c *Cluster) API() (render.ProbeAPI, error) {
	return render.ProbeAPI{URL: c.Facts().Server}, nil
}

// StartReach implements [engine.Reacher].
func (c *Cluster) StartReach(_ context.Context, r engine.ReachRequest) (engine.ReachPod, error) {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	if c.behaviour.NoPods != "" {
		return nil, errors.New(c.behaviour.NoPods)
	}
	c.probes, c.token = c.probes+1, r.Token
	return &reachPod{cluster: c, request: r}, nil
}

// Probes returns the number of test pods that exist.
func (c *Cluster) Probes() int {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	return c.probes
}

// reachPod is a pod behind a Service.
type reachPod struct {
	cluster *Cluster
	request engine.ReachRequest
}

// Exposed implements [engine.ReachPod].
func (p *reachPod) Exposed(context.Context) ([]string, int32, error) {
	p.cluster.world.mu.Lock()
	defer p.cluster.world.mu.Unlock()
	s, b := p.request.Service, p.cluster.behaviour
	switch why := b.Refuses[s.NodePort]; {
	case why != "":
		return nil, 0, errors.New(why)
	case s.ServiceType == corev1.ServiceTypeNodePort:
		return nil, int32(max(s.NodePort, 30999)), nil
	case s.ServiceType == corev1.ServiceTypeLoadBalancer && b.LoadBalancerPending:
		return nil, 0, errors.New("the load balancer has given no address yet")
	}
	return []string{fmt.Sprintf("198.51.100.%d", p.cluster.host)}, int32(s.Port), nil
}

// Measure implements [engine.ReachPod].
func (p *reachPod) Measure(_ context.Context, t render.ProbeTarget) (render.ProbeResult, error) {
	p.cluster.world.mu.Lock()
	defer p.cluster.world.mu.Unlock()
	const packets = 10
	here, there := p.cluster, p.cluster.world.other(p.cluster)
	for _, c := range here.world.clusters {
		if c != here && c.token == t.Ways.Token {
			there = c
		}
	}
	r := &render.ProbeWaysResult{API: 200}
	if there.behaviour.APIProblem != "" {
		r.API, r.APIError = 0, there.behaviour.APIProblem
	}
	for _, address := range t.Ways.Addresses {
		d := render.ProbeDial{Address: address, Sent: packets}
		if !there.behaviour.Firewalled && !there.behaviour.Mute && t.Ways.Token == there.token && there.token != here.token {
			d.Received, d.AvgMicros, d.LargestPacket = packets, 900, longest
		}
		r.Dials = append(r.Dials, d)
	}
	if !here.behaviour.Firewalled {
		r.Arrived, r.From = packets, []string{fmt.Sprintf("172.18.0.%d", there.host)}
	}
	return render.ProbeResult{Ways: r}, nil
}

// Remove implements [engine.ReachPod].
func (p *reachPod) Remove(ctx context.Context) error {
	p.cluster.world.mu.Lock()
	defer p.cluster.world.mu.Unlock()
	p.cluster.probes--
	return ctx.Err() // so that callers notice that the context has ended
}
