package engine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"golang.org/x/sync/errgroup"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/address"
	"github.com/liqo-tui/liqo-tui/flows/verify"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// Prober is a cluster that can run probes. It is an optional ability of a [Cluster].
type Prober interface {
	// StartProbe makes a pod that answers another probe, and returns when it runs.
	// progress gets the present reason for waiting. The probe works until ctx ends. If
	// StartProbe returns an error, it has left nothing behind.
	StartProbe(ctx context.Context, r ProbeRequest, progress func(string)) (Probe, error)
}

// ErrNoImage says that other software connects the cluster, so that no image for a probe is
// known.
var ErrNoImage = errors.New("the liqo-tui operator, whose image the probe needs, is not on this cluster")

// ProbeRequest says where a probe shall run, and for whom.
type ProbeRequest struct {
	Tenant render.Tenant
	Token  string      // shared by the two probes
	Owner  wire.Object // the probe is deleted with it
	Image  string      // "" means that of our operator
	Node   string      // "" leaves the choice to the scheduler, which avoids the gateway's node
}

// Probe is a pod that answers, and measures on request.
type Probe interface {
	Pod() ProbePod
	// Measure sends the pod its target, and returns the result.
	Measure(context.Context, render.ProbeTarget) (render.ProbeResult, error)
	// Remove deletes the pod. It works in a context that has ended, too.
	Remove(context.Context) error
}

// ProbePod is where a probe runs.
type ProbePod struct {
	Namespace, Name, Node string
	Address               netip.Addr // in its own cluster
}

// VerifyRequest has the options of [VerifyPair].
type VerifyRequest struct {
	// Throughput also fills the path for a few seconds in each direction.
	Throughput bool
	// AllNodes measures from each node of each cluster that can run a pod.
	AllNodes bool
	// Timeout bounds the measurement of one path; 0 means 30 seconds.
	Timeout time.Duration
	// Image is the probes' image; "" means that of our operator, where it runs.
	Image string
	// Seen gets the facts of both clusters before the measurement; may be nil.
	Seen func(flows.Facts)
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

const (
	verifyTimeout = 30 * time.Second
	removeTimeout = 10 * time.Second
	// policiesTimeout is for reads that only add to a result.
	policiesTimeout = 5 * time.Second
	// pathsAtOnce bounds the pods of one measurement of all nodes.
	pathsAtOnce = 4
)

// VerifyPair measures the path from pod to pod, both ways, with a short-lived pod in
// each cluster, or on each node. The pods avoid the gateways' nodes: packets of all other
// nodes pass their filters as well as those of the gateway's node.
// If pods can't be made, the result has the gateways' own pings instead.
// The error is for clusters that can't be observed or are not connected. A path that
// does not work is a result.
func VerifyPair(ctx context.Context, a, b Cluster, r VerifyRequest, progress func(flows.Side, string)) (verify.Result, error) {
	if r.Timeout == 0 {
		r.Timeout = verifyTimeout
	}
	if r.Now == nil {
		r.Now = time.Now
	}
	f, err := Observe(ctx, a, b, r.Now)
	if err != nil {
		return verify.Result{}, err
	}
	if r.Seen != nil {
		r.Seen(f)
	}
	if err := flows.Verifiable(f); err != nil {
		return verify.Result{}, err
	}
	v := verify.Result{A: f.Sides[flows.A].ID, B: f.Sides[flows.B].ID, At: f.At}
	for _, side := range []flows.Side{flows.A, flows.B} {
		if r := f.End(side).Reading(); r.Closes() {
			v.Closed[side] = r.Allow
		}
	}
	ends, err := ends(f, r.AllNodes, &v)
	if err != nil {
		return verify.Result{}, err
	}
	if err = probePairs(ctx, f, [2]Cluster{a, b}, ends, r, progress, &v); ctx.Err() != nil {
		return v, ctx.Err()
	}
	if v.Between == verify.Pods {
		blamePolicies(ctx, f, [2]Cluster{a, b}, &v)
		return v, nil
	}
	v.Between, v.Reason, v.Fix = verify.Gateways, err.Error(), flows.HintOf(err)
	if errors.Is(err, ErrNoImage) {
		v.Fix = command.Hintf("%s has pods measure, with an image of liqo-gateway that the nodes of both clusters can pull",
			f.Ours("network", "verify").Flag("--image", "IMAGE"))
	}
	// The pods' attempt took a while.
	if f, err = Observe(ctx, a, b, r.Now); err != nil {
		return v, err
	}
	v.At = f.At
	for _, side := range []flows.Side{flows.A, flows.B} {
		v.Directions[side] = verify.GatewayPings(f, side)
	}
	return v, nil
}

// ends are the nodes of the two pods of each path; "" is any node. With allNodes each node is
// the end of a path.
func ends(f flows.Facts, allNodes bool, v *verify.Result) ([][2]string, error) {
	var nodes [2][]string
	for side, c := range f.Sides {
		for _, n := range c.Nodes {
			if n.Ready && n.Excluded == "" {
				nodes[side] = append(nodes[side], n.Name)
			}
		}
		v.Nodes[side] = len(nodes[side])
		if allNodes && len(nodes[side]) == 0 {
			return nil, &flows.Problem{Kind: flows.Forbidden, Message: fmt.Sprintf("%s %s: its nodes may not be listed, or none is ready", flows.Side(side), c.Name())}
		}
	}
	if !allNodes {
		return [][2]string{{}}, nil
	}
	var all [][2]string
	for i := range max(len(nodes[flows.A]), len(nodes[flows.B])) {
		all = append(all, [2]string{nodes[flows.A][i%len(nodes[flows.A])], nodes[flows.B][i%len(nodes[flows.B])]})
	}
	return all, nil
}

// probePairs measures the paths between these nodes. The error is of a path, if none could be
// measured.
func probePairs(ctx context.Context, f flows.Facts, clusters [2]Cluster, ends [][2]string, r VerifyRequest, progress func(flows.Side, string), v *verify.Result) error {
	paths, errs := make([]verify.Path, len(ends)), make([]error, len(ends))
	var g errgroup.Group
	g.SetLimit(pathsAtOnce)
	for i, nodes := range ends {
		g.Go(func() error {
			limited, cancel := context.WithTimeout(ctx, r.Timeout)
			defer cancel()
			paths[i], errs[i] = probePair(limited, f, clusters, nodes, r, progress)
			return errs[i]
		})
	}
	first := g.Wait()
	var measured []verify.Path
	for i, err := range errs {
		if err == nil {
			measured = append(measured, paths[i])
		} else if r.AllNodes {
			v.Unmeasured = append(v.Unmeasured, fmt.Sprintf("%s to %s: %v", ends[i][flows.A], ends[i][flows.B], err))
		}
	}
	if len(measured) == 0 {
		return first
	}
	v.SetPaths(measured)
	return nil
}

// blamePolicies names the NetworkPolicies that block packets to a probe, as far as
// they may be read.
func blamePolicies(ctx context.Context, f flows.Facts, clusters [2]Cluster, v *verify.Result) {
	if v.Verdict() != verify.Broken {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, policiesTimeout)
	defer cancel()
	var answers Answers
	if answers.Ask(ctx, &f, clusters, flows.AskPolicies{Side: flows.A}, flows.AskPolicies{Side: flows.B}) != nil {
		return // the result stands without
	}
	for _, from := range []flows.Side{flows.A, flows.B} {
		there := f.Sides[from.Other()]
		end := there.End(f.Sides[from].ID)
		if way := &v.Directions[from]; way.Problem != "" && way.Received == 0 && there.Policies.Value() != nil {
			way.Problem += verify.ClosedBy(*there.Policies.Value(), end.Configuration, render.ProbeLabels(end.Tenant.Remote), end.Tenant.Namespace)
		}
	}
}

// probePair runs a probe on each side, on these nodes. The two probes measure each other.
func probePair(ctx context.Context, f flows.Facts, clusters [2]Cluster, nodes [2]string, r VerifyRequest, progress func(flows.Side, string)) (ways verify.Path, err error) {
	var token [16]byte
	if _, err := rand.Read(token[:]); err != nil {
		return ways, err
	}
	var probes [2]Probe
	defer func() { err = errors.Join(err, removeProbes(ctx, probes)) }()
	var starting errgroup.Group
	for side, cluster := range clusters {
		starting.Go(func() (err error) {
			probes[side], err = startProbe(ctx, f, flows.Side(side), cluster, ProbeRequest{Token: hex.EncodeToString(token[:]), Image: r.Image, Node: nodes[side]}, progress)
			return err
		})
	}
	if err := starting.Wait(); err != nil {
		return ways, err
	}
	var measuring errgroup.Group
	var results [2]render.ProbeResult
	for _, side := range []flows.Side{flows.A, flows.B} {
		measuring.Go(func() (err error) {
			ways[side], results[side], err = measure(ctx, f, side, probes, r.Throughput && side == flows.A, progress)
			return err
		})
	}
	if err := measuring.Wait(); err != nil {
		return ways, err
	}
	// One probe measures both throughputs: two at a time would share the path.
	ways[flows.A].Throughput, ways[flows.B].Throughput = float64(results[flows.A].ToBits), float64(results[flows.A].FromBits)
	return ways, nil
}

func startProbe(ctx context.Context, f flows.Facts, side flows.Side, cluster Cluster, r ProbeRequest, progress func(flows.Side, string)) (Probe, error) {
	here, there := f.Sides[side], f.Sides[side.Other()]
	id, end := here.Name(), here.End(there.ID)
	prober, ok := cluster.(Prober)
	if !ok {
		return nil, fmt.Errorf("%s %s: can't run probes", side, id)
	}
	owner := end.Configuration.DeepCopy()
	owner.SetGroupVersionKind(networkingv1beta1.GroupVersion.WithKind(networkingv1beta1.ConfigurationKind))
	r.Tenant, r.Owner = end.Tenant, owner
	p, err := prober.StartProbe(ctx, r, func(text string) { progress(side, text) })
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", side, id, err)
	}
	return p, nil
}

func removeProbes(ctx context.Context, probes [2]Probe) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), removeTimeout)
	defer cancel()
	var g errgroup.Group
	for _, p := range probes {
		if p != nil {
			g.Go(func() error { return p.Remove(ctx) })
		}
	}
	return g.Wait()
}

// measure measures one direction.
func measure(ctx context.Context, f flows.Facts, side flows.Side, probes [2]Probe, throughput bool, progress func(flows.Side, string)) (verify.Direction, render.ProbeResult, error) {
	from, to := probes[side].Pod(), probes[side.Other()].Pod()
	here, there := f.Sides[side].Name(), f.Sides[side.Other()].Name()
	seen, err := address.SeenAs(f.End(side).Configuration, to.Address)
	if err != nil {
		return verify.Direction{}, render.ProbeResult{}, fmt.Errorf("%s %s: %w", side, here, err)
	}
	progress(side, fmt.Sprintf("pod %s measures the way to %s", from.Address, seen))
	result, err := probes[side].Measure(ctx, render.ProbeTarget{Address: seen.String(), Throughput: throughput})
	if err != nil {
		return verify.Direction{}, result, fmt.Errorf("%s %s: %w", side, here, err)
	}
	way := verify.DirectionOf(result)
	way.Node = from.Node
	way.From = fmt.Sprintf("pod %s on node %s of %s", from.Address, from.Node, here)
	way.To = fmt.Sprintf("%s, pod %s on node %s of %s", seen, to.Address, to.Node, there)
	return way, result, nil
}
