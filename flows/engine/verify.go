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
	// StartProbe creates a pod that answers another probe, and returns when the pod runs.
	// progress gets the present reason for waiting. The probe works until ctx ends. If
	// StartProbe returns an error, it has left nothing behind.
	StartProbe(ctx context.Context, r ProbeRequest, progress func(string)) (Probe, error)
}

// ErrNoImage means that no image for probes is known, because other software connects the
// cluster.
var ErrNoImage = errors.New("the liqo-tui operator, whose image the probe needs, is not on this cluster")

// ProbeRequest describes a probe and where it runs.
type ProbeRequest struct {
	Tenant render.Tenant
	Token  string      // shared by the two probes
	Owner  wire.Object // Kubernetes deletes the probe with this object
	Image  string      // "" means the image of our operator
	Node   string      // "" leaves the choice to the scheduler, which avoids the gateway's node
}

// Probe is a pod that answers packets, and measures on request.
type Probe interface {
	Pod() ProbePod
	// Measure sends the target to the pod, and returns the result.
	Measure(context.Context, render.ProbeTarget) (render.ProbeResult, error)
	// Remove deletes the pod. It also works with a context that has ended.
	Remove(context.Context) error
}

// ProbePod says where a probe runs.
type ProbePod struct {
	Namespace, Name, Node string
	Address               netip.Addr // in its own cluster
}

// VerifyRequest has the options of [VerifyPair].
type VerifyRequest struct {
	// Throughput adds a measurement of the throughput, a few seconds in each direction.
	Throughput bool
	// AllNodes adds a path for each node that can run a pod.
	AllNodes bool
	// Timeout bounds the measurement of one path; 0 means 30 seconds.
	Timeout time.Duration
	// Image is the probes' image; "" means the image of our operator, if it runs.
	Image string
	// Seen, unless nil, gets the facts of both clusters before the measurement.
	Seen func(flows.Facts)
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

const (
	verifyTimeout = 30 * time.Second
	removeTimeout = 10 * time.Second
	// policiesTimeout limits reads that only add details to a result.
	policiesTimeout = 5 * time.Second
	// pathsAtOnce limits the number of paths that are measured at the same time.
	pathsAtOnce = 4
)

// VerifyPair measures the path from pod to pod, in both directions, with a short-lived pod in
// each cluster, or on each node. The pods avoid the gateways' nodes, because packets from
// another node pass more filters: those of that node and those of the gateway's node. If pods
// can't be created, the result has the gateways' own pings instead. The error means that the clusters
// can't be observed or are not connected. A broken path is a result.
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
		v.Fix = command.Hintf("to measure between pods, name an image of liqo-gateway that the nodes of both clusters can pull: %s",
			f.Ours("network", "verify").Flag("--image", "IMAGE"))
	}
	// The attempt to start pods took a while.
	if f, err = Observe(ctx, a, b, r.Now); err != nil {
		return v, err
	}
	v.At = f.At
	for _, side := range []flows.Side{flows.A, flows.B} {
		v.Directions[side] = verify.GatewayPings(f, side)
	}
	return v, nil
}

// ends returns the nodes of the two pods of each path; "" is any node. With allNodes, each
// node is the end of a path.
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
			return nil, &flows.Problem{Kind: flows.Forbidden, Message: fmt.Sprintf("%s: you have no right to list its nodes, or no node is ready", c.Name())}
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

// probePairs measures the paths between these nodes. If no path could be measured, the error
// is that of one path.
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

// blamePolicies adds the NetworkPolicies that block packets to a probe, if they may be read.
func blamePolicies(ctx context.Context, f flows.Facts, clusters [2]Cluster, v *verify.Result) {
	if v.Verdict() != verify.Broken {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, policiesTimeout)
	defer cancel()
	var answers Answers
	if answers.Ask(ctx, &f, clusters, flows.AskPolicies{Side: flows.A}, flows.AskPolicies{Side: flows.B}) != nil {
		return // the result is valid without policies
	}
	for _, from := range []flows.Side{flows.A, flows.B} {
		there := f.Sides[from.Other()]
		end := there.End(f.Sides[from].ID)
		if way := &v.Directions[from]; way.Problem != "" && way.Received == 0 && there.Policies.Value() != nil {
			way.Problem += verify.ClosedBy(*there.Policies.Value(), end.Configuration, render.ProbeLabels(end.Tenant.Remote), end.Tenant.Namespace)
		}
	}
}

// probePair runs a probe on each of the two nodes. The probes measure each other.
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
	// One probe measures the throughput of both directions, because two probes would share
	// the path.
	ways[flows.A].Throughput, ways[flows.B].Throughput = float64(results[flows.A].ToBits), float64(results[flows.A].FromBits)
	return ways, nil
}

func startProbe(ctx context.Context, f flows.Facts, side flows.Side, cluster Cluster, r ProbeRequest, progress func(flows.Side, string)) (Probe, error) {
	here, there := f.Sides[side], f.Sides[side.Other()]
	id, end := here.Name(), here.End(there.ID)
	prober, ok := cluster.(Prober)
	if !ok {
		return nil, fmt.Errorf("%s: can't run probes", id)
	}
	owner := end.Configuration.DeepCopy()
	owner.SetGroupVersionKind(networkingv1beta1.GroupVersion.WithKind(networkingv1beta1.ConfigurationKind))
	r.Tenant, r.Owner = end.Tenant, owner
	p, err := prober.StartProbe(ctx, r, func(text string) { progress(side, text) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", id, err)
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

func measure(ctx context.Context, f flows.Facts, side flows.Side, probes [2]Probe, throughput bool, progress func(flows.Side, string)) (verify.Direction, render.ProbeResult, error) {
	from, to := probes[side].Pod(), probes[side.Other()].Pod()
	here, there := f.Sides[side].Name(), f.Sides[side.Other()].Name()
	seen, err := address.SeenAs(f.End(side).Configuration, to.Address)
	if err != nil {
		return verify.Direction{}, render.ProbeResult{}, fmt.Errorf("%s: %w", here, err)
	}
	progress(side, fmt.Sprintf("pod %s measures the way to %s", from.Address, seen))
	result, err := probes[side].Measure(ctx, render.ProbeTarget{Address: seen.String(), Throughput: throughput})
	if err != nil {
		return verify.Direction{}, result, fmt.Errorf("%s: %w", here, err)
	}
	way := verify.DirectionOf(result)
	way.Node = from.Node
	way.From = fmt.Sprintf("pod %s on node %s of %s", from.Address, from.Node, here)
	way.To = fmt.Sprintf("%s, pod %s on node %s of %s", seen, to.Address, to.Node, there)
	return way, result, nil
}
