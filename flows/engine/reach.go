package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/trial"
	"github.com/liqo-tui/liqo-tui/render"
)

// Reacher is a cluster that can run test pods to try the ways between it and another cluster.
// It is an optional ability of a [Cluster].
type Reacher interface {
	// StartReach creates a pod that answers behind a Service. It returns before the pod runs.
	// If it returns an error, it has left nothing behind.
	StartReach(ctx context.Context, r ReachRequest) (ReachPod, error)
	// API returns the URL of the cluster's API server as in this program's kubeconfig, and
	// the CAs to trust.
	API() (render.ProbeAPI, error)
}

// ReachRequest describes the pod and its Service.
type ReachRequest struct {
	Image   string // "" means the image of our operator
	Token   string // the pod answers packets with this token
	Service render.ServerParams
}

// ReachPod is a pod that answers behind a Service, and tries ways on request.
type ReachPod interface {
	// Exposed waits until the Service can be dialled. For a NodePort it returns no addresses,
	// because the addresses are those of the nodes.
	Exposed(context.Context) (addresses []string, port int32, err error)
	// Measure sends the targets to the pod, with the end of the trial by this machine's
	// clock, and returns the results.
	Measure(context.Context, render.ProbeTarget) (render.ProbeResult, error)
	// Remove deletes the pod and the Service. It also works with a context that has ended.
	Remove(context.Context) error
}

// Time limits of a trial of both ways. A trial takes 8 s at most.
const (
	reachTimeout = 7200 * time.Millisecond
	// reachRemoval is enough for two deletion requests. Nobody waits for the end of the
	// deletions.
	reachRemoval = 800 * time.Millisecond
	// reachExposed is the time in which a load balancer has to get an address.
	reachExposed = 2500 * time.Millisecond
	// reachReports is the time that a node needs to report the end and the result of a pod: a
	// kubelet checks once a second, and the pod's clock is known to half a second. Only a pod
	// without an answer works until the end of the trial. With less time, a closed way would
	// look like an untried one.
	reachReports = 2200 * time.Millisecond
	// reachAddresses is the largest number of nodes that are dialled. Their firewalls are
	// alike.
	reachAddresses = 3
)

// TryReach starts a pod in each cluster. Each pod dials the other one by UDP, at a Service
// like the gateway server's, and sends a request to the other cluster's API server. If a
// trial is impossible, this is a result. The error is that of ctx, or says that pods were
// left behind. image is the image for clusters without our operator.
func TryReach(ctx context.Context, p flows.Params, f flows.Facts, a, b Cluster, image string, now func() time.Time) (trial.Reach, error) {
	t := reachTrial{params: p, facts: f, clusters: [2]Cluster{a, b}, now: now, until: now().Add(reachTimeout - reachReports)}
	limited, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	t.both(func(side flows.Side) { t.problems[side] = t.start(limited, side, image) })
	if t.problems == [2]error{} {
		t.both(func(side flows.Side) { t.expose(limited, side) })
		t.both(func(side flows.Side) { t.results[side], t.problems[side] = t.measure(limited, side) })
	}
	reach := trial.Reach{At: now()}
	for _, side := range []flows.Side{flows.A, flows.B} {
		reach.Ways[side] = t.way(side)
	}
	removing, cancel := context.WithTimeout(context.WithoutCancel(ctx), reachRemoval)
	defer cancel()
	var left [2]error
	t.both(func(side flows.Side) {
		if t.pods[side] != nil {
			left[side] = t.pods[side].Remove(removing)
		}
	})
	return reach, errors.Join(ctx.Err(), left[flows.A], left[flows.B])
}

// reachTrial is one trial of both ways. The goroutines of the two sides write at the same
// time, each to the elements of its side.
type reachTrial struct {
	params   flows.Params
	facts    flows.Facts
	clusters [2]Cluster
	now      func() time.Time
	until    time.Time // by this machine's clock

	tokens    [2]string // each side answers packets with its token
	apis      [2]render.ProbeAPI
	pods      [2]ReachPod
	addresses [2][]string // the addresses of each side
	closed    [2]error    // the reason that a side has no addresses
	results   [2]render.ProbeWaysResult
	problems  [2]error
}

func (t *reachTrial) both(do func(flows.Side)) {
	var g sync.WaitGroup
	for _, side := range []flows.Side{flows.A, flows.B} {
		g.Go(func() { do(side) })
	}
	g.Wait()
}

func (t *reachTrial) start(ctx context.Context, side flows.Side, image string) error {
	reacher, ok := t.clusters[side].(Reacher)
	if !ok {
		return errors.New("this program can't run pods there")
	}
	var token [16]byte
	if _, err := rand.Read(token[:]); err != nil {
		return err
	}
	// Each side answers only its own token. In another network, the same address may belong
	// to a different host, or even to the pod itself. Answers from there must not count.
	t.tokens[side] = hex.EncodeToString(token[:])
	var err error
	if t.apis[side], err = reacher.API(); err != nil {
		return err
	}
	r := ReachRequest{Token: t.tokens[side], Service: render.ServerParams{
		ServiceType: t.params.ServiceType, Port: t.params.Port, NodePort: t.params.NodePort,
	}}
	if side == t.params.Server {
		r.Service.LoadBalancerIP = t.params.LoadBalancerIP
	}
	if c := t.facts.Sides[side]; !c.Can().HaveImage {
		if r.Image = image; image == "" {
			r.Image = c.TriedImage() // the image that will be installed
		}
	}
	t.pods[side], err = reacher.StartReach(ctx, r)
	return err
}

// expose finds the addresses at which a side can be dialled.
func (t *reachTrial) expose(ctx context.Context, side flows.Side) {
	ctx, cancel := context.WithTimeout(ctx, reachExposed)
	defer cancel()
	hosts, port, err := t.pods[side].Exposed(ctx)
	if err != nil {
		t.closed[side] = err
		return
	}
	if t.params.ServiceType == corev1.ServiceTypeNodePort {
		hosts = nodeAddresses(t.facts.Sides[side])
	}
	if p := t.params; side == p.Server && p.ClientAddress != "" {
		hosts = strings.Split(p.ClientAddress, ",")
	}
	if p := t.params; side == p.Server && p.ClientPort != 0 {
		port = int32(p.ClientPort)
	}
	for _, host := range hosts[:min(len(hosts), reachAddresses)] {
		t.addresses[side] = append(t.addresses[side], net.JoinHostPort(host, fmt.Sprint(port)))
	}
	if len(t.addresses[side]) == 0 {
		t.closed[side] = errors.New("its nodes' addresses are not known")
	}
}

// nodeAddresses returns one address of each ready node. It is the address that is reachable
// from farthest away; the operator chooses the same one for a NodePort.
func nodeAddresses(c flows.ClusterFacts) (hosts []string) {
	for _, n := range c.Nodes {
		for _, all := range [][]netip.Addr{n.External, n.Internal} {
			if i := slices.IndexFunc(all, netip.Addr.Is4); n.Ready && i >= 0 {
				hosts = append(hosts, all[i].String())
				break
			}
		}
	}
	return hosts
}

func (t *reachTrial) measure(ctx context.Context, side flows.Side) (render.ProbeWaysResult, error) {
	other := side.Other()
	r, err := t.pods[side].Measure(ctx, render.ProbeTarget{Ways: &render.ProbeWays{
		Token: t.tokens[other], Addresses: t.addresses[other], API: t.apis[other],
		Until: t.until,
	}})
	switch {
	case err != nil:
		return render.ProbeWaysResult{}, err
	case r.Ways == nil:
		return render.ProbeWaysResult{}, errors.New("the image is of an older release, which can't try this: --image NAME names another")
	}
	return *r.Ways, nil
}

// way returns the result of the trial from one side to the other.
func (t *reachTrial) way(from flows.Side) trial.Way {
	to := from.Other()
	name := func(s flows.Side) string { return string(t.facts.Sides[s].Name()) }
	w := trial.Way{API: trial.API{URL: t.apis[to].URL, Problem: t.results[from].APIError}}
	for _, side := range []flows.Side{from, to} {
		if err := t.problems[side]; err != nil {
			w.Unknown = fmt.Sprintf("on %s: %v", name(side), err)
			break
		}
	}
	if t.problems[from] != nil || t.pods[from] == nil {
		w.API.Unknown = w.Unknown
	} else if t.results[from].API == 0 && w.API.Problem == "" {
		w.API.Unknown = "it was not asked"
	}
	if w.Unknown == "" && t.closed[to] != nil {
		w.Unknown = fmt.Sprintf("on %s: %v", name(to), t.closed[to])
	}
	if w.Unknown != "" {
		return w
	}
	for _, d := range t.results[from].Dials {
		w.Dials = append(w.Dials, trial.Dial{
			Address: d.Address, Sent: d.Sent, Answered: d.Received, RoundTrip: time.Duration(d.AvgMicros) * time.Microsecond,
			Largest: d.LargestPacket, Problem: d.Error,
		})
	}
	w.Arrived, w.From = t.results[to].Arrived, t.results[to].From
	return w
}
