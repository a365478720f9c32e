package flows

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"golang.org/x/sync/errgroup"

	"github.com/liqo-tui/liqo-tui/gateway/ipam"
	"github.com/liqo-tui/liqo-tui/render"
)

// Prober is a cluster that can run probes. It is an optional ability of a
// [Cluster].
type Prober interface {
	// StartProbe makes a pod that answers another probe, and returns when it
	// runs. progress is told what it waits for. The probe is of use until ctx
	// ends. If StartProbe returns an error, it has left nothing behind.
	StartProbe(ctx context.Context, r ProbeRequest, progress func(string)) (Probe, error)
}

// ProbeRequest says where a probe shall run, and for whom.
type ProbeRequest struct {
	Tenant render.Tenant
	Token  string        // shared by the two probes
	Owner  render.Object // the probe goes with it
	Image  string        // "" means that of our operator
}

// Probe is a pod that answers, and measures when it is told to.
type Probe interface {
	Pod() ProbePod
	// Measure tells the pod its target, and returns what it found.
	Measure(context.Context, render.ProbeTarget) (render.ProbeResult, error)
	// Remove deletes the pod. It works in a context that has ended, too.
	Remove(context.Context) error
}

// ProbePod is where a probe runs.
type ProbePod struct {
	Namespace, Name, Node string
	Address               netip.Addr // in its own cluster
}

// VerifyRequest is what [VerifyPair] shall measure.
type VerifyRequest struct {
	// Throughput fills the path for a few seconds in each direction.
	Throughput bool
	// Timeout of everything; 0 means 30 seconds.
	Timeout time.Duration
	// Image to run the probes from; "" means that of our operator, where it runs.
	Image string
	// Seen is told what both clusters are, before anything is measured; may be nil.
	Seen func(Facts)
	// Now is the clock; nil means time.Now.
	Now func() time.Time
}

// Verification is what is known of the path between the pods of two clusters.
type Verification struct {
	At   time.Time
	A, B render.ClusterID
	// Between says whether pods have measured, or only the gateways.
	Between Ends
	// Reason is why pods could not, "" if they did; Hint is how they could, if
	// that is known.
	Reason, Hint string
	// Ways are the two directions: the first from A to B.
	Ways [2]Way
}

// Ends are what a measurement was made between.
type Ends string

// The kinds of ends.
const (
	Pods     Ends = "pods"
	Gateways Ends = "gateways" // their pings prove the tunnel, not the way from it to the pods
)

// Way is one direction, measured by the side that sends.
type Way struct {
	From, To string // pods with their nodes and addresses, or clusters
	// Sent and Received count packets; both 0 if the gateways measured.
	Sent, Received int
	Loss           float64       // 0 to 1
	Min, Avg, Max  time.Duration // round trips; 0 if none was measured
	// Largest packet that arrived unfragmented, in bytes; 0 if not measured.
	Largest int
	// Throughput in bits per second; 0 if not measured.
	Throughput float64
	// Problem is why the direction does not work or was not measured.
	Problem string
}

// Verdict sums up a verification.
type Verdict string

// The verdicts.
const (
	Works    Verdict = "works"    // packets pass both ways
	Degraded Verdict = "degraded" // they do, but not all of them, or not all that was measured worked
	Broken   Verdict = "broken"   // nothing passes, at least one way
)

// Verdict sums up both directions.
func (v Verification) Verdict() Verdict {
	verdict := Works
	for _, w := range v.Ways {
		switch {
		case w.Loss >= 1, w.Problem != "" && w.Received == 0:
			return Broken
		case w.Loss > 0, w.Problem != "":
			verdict = Degraded
		}
	}
	return verdict
}

// Verified reports whether packets of pods have passed in both directions. That
// the gateways reach each other is less.
func (v Verification) Verified() bool { return v.Between == Pods && v.Verdict() != Broken }

// Measurement is the verification as a plan's last step needs it.
func (v Verification) Measurement() Measurement {
	m := Measurement{At: v.At, OK: v.Verified(), Result: v.conclusion()}
	if !m.OK {
		m.Hint = "see what is measured: liqo-tui network verify"
		if v.Reason != "" {
			m.Result, m.Hint = "pods could not measure: "+v.Reason, "connect with --wait=connected where no pods can be run for it"
		}
	}
	return m
}

const (
	verifyTimeout = 30 * time.Second
	removeTimeout = 10 * time.Second
)

// VerifyPair measures the path from pod to pod, both ways, with a short-lived pod in
// each cluster. Where pods can't be made it says what the gateways' own pings
// say instead. The error is for clusters that can't be looked at, or are not
// connected at all; a path that does not work is a result.
func VerifyPair(ctx context.Context, a, b Cluster, r VerifyRequest, progress func(Side, string)) (Verification, error) {
	if r.Timeout == 0 {
		r.Timeout = verifyTimeout
	}
	if r.Now == nil {
		r.Now = time.Now
	}
	f, err := Observe(ctx, a, b, r.Now)
	if err != nil {
		return Verification{}, err
	}
	if r.Seen != nil {
		r.Seen(f)
	}
	c := newConnection(Params{}, f)
	if err := verifiable(c); err != nil {
		return Verification{}, err
	}
	v := Verification{A: f.Local.ID, B: f.Remote.ID, At: f.At}
	limited, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	v.Ways, err = probePair(limited, c, [2]Cluster{a, b}, r, progress)
	switch {
	case ctx.Err() != nil:
		return v, ctx.Err()
	case err == nil:
		v.Between = Pods
		return v, nil
	}
	v.Between, v.Reason, v.Hint = Gateways, err.Error(), hintOf(err)
	// The pods' attempt took a while.
	if f, err = Observe(ctx, a, b, r.Now); err != nil {
		return v, err
	}
	v.At = f.At
	for _, side := range []Side{A, B} {
		v.Ways[side] = gatewayPings(f, side)
	}
	return v, nil
}

// verifiable says why there is nothing to measure.
func verifiable(c connection) error {
	if steps := Unfit(c.facts); len(steps) > 0 {
		facts := c.facts.Side(steps[0].Side)
		e := &StepError{Cluster: facts.name(), Step: steps[0]}
		if facts.Problem != nil {
			e.Cause = facts.Problem
		}
		return e
	}
	for _, side := range []Side{A, B} {
		if peer := c.peers[side]; peer.Configuration == nil || peer.Server == nil && peer.Client == nil {
			return &StepError{Cluster: c.facts.Side(side).name(), Step: failure(side, CodeVerification, "a connection to verify", FailedPreflight,
				fmt.Sprintf("there is none with %s", c.facts.Side(side.Other()).name()), "connect them first: liqo-tui network connect")}
		}
	}
	return nil
}

// probePair runs a probe on each side and has them measure each other.
func probePair(ctx context.Context, c connection, clusters [2]Cluster, r VerifyRequest, progress func(Side, string)) (ways [2]Way, err error) {
	var token [16]byte
	if _, err := rand.Read(token[:]); err != nil {
		return ways, err
	}
	var probes [2]Probe
	defer func() { err = errors.Join(err, removeProbes(ctx, probes)) }()
	var starting errgroup.Group
	for side, cluster := range clusters {
		starting.Go(func() (err error) {
			probes[side], err = startProbe(ctx, c, Side(side), cluster, ProbeRequest{Token: hex.EncodeToString(token[:]), Image: r.Image}, progress)
			return err
		})
	}
	if err := starting.Wait(); err != nil {
		return ways, err
	}
	var measuring errgroup.Group
	var results [2]render.ProbeResult
	for _, side := range []Side{A, B} {
		measuring.Go(func() (err error) {
			ways[side], results[side], err = measure(ctx, c, side, probes, r.Throughput && side == A, progress)
			return err
		})
	}
	if err := measuring.Wait(); err != nil {
		return ways, err
	}
	// One probe measures both throughputs: two at a time would share the path.
	ways[A].Throughput, ways[B].Throughput = float64(results[A].ToBits), float64(results[A].FromBits)
	return ways, nil
}

func startProbe(ctx context.Context, c connection, side Side, cluster Cluster, r ProbeRequest, progress func(Side, string)) (Probe, error) {
	id, peer := c.facts.Side(side).name(), c.peers[side]
	prober, ok := cluster.(Prober)
	if !ok {
		return nil, fmt.Errorf("%s %s: can't run probes", side, id)
	}
	owner := peer.Configuration.DeepCopy()
	owner.SetGroupVersionKind(networkingv1beta1.GroupVersion.WithKind(networkingv1beta1.ConfigurationKind))
	r.Tenant, r.Owner = peer.Tenant, owner
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

// measure is one direction.
func measure(ctx context.Context, c connection, side Side, probes [2]Probe, throughput bool, progress func(Side, string)) (Way, render.ProbeResult, error) {
	from, to := probes[side].Pod(), probes[side.Other()].Pod()
	here, there := c.facts.Side(side).name(), c.facts.Side(side.Other()).name()
	address, err := SeenAs(c.peers[side].Configuration, to.Address)
	if err != nil {
		return Way{}, render.ProbeResult{}, fmt.Errorf("%s %s: %w", side, here, err)
	}
	progress(side, fmt.Sprintf("pod %s measures the way to %s", from.Address, address))
	result, err := probes[side].Measure(ctx, render.ProbeTarget{Address: address.String(), Throughput: throughput})
	if err != nil {
		return Way{}, result, fmt.Errorf("%s %s: %w", side, here, err)
	}
	way := wayOf(result)
	way.From = fmt.Sprintf("pod %s on node %s of %s", from.Address, from.Node, here)
	way.To = fmt.Sprintf("%s, pod %s on node %s of %s", address, to.Address, to.Node, there)
	return way, result, nil
}

func wayOf(r render.ProbeResult) Way {
	way := Way{Sent: r.Sent, Received: r.Received, Largest: r.LargestPacket, Problem: r.Error}
	way.Min, way.Avg, way.Max = micros(r.MinMicros), micros(r.AvgMicros), micros(r.MaxMicros)
	if r.Sent > 0 {
		way.Loss = 1 - float64(r.Received)/float64(r.Sent)
	}
	switch {
	case way.Problem != "":
	case r.Received == 0:
		way.Problem = fmt.Sprintf("none of %d packets was answered", r.Sent)
	case r.LargestPacket == 0:
		way.Problem = "only small packets pass, of less than 576 bytes"
	}
	return way
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// SeenAs is the address under which the cluster that has conf sees a pod of the
// peer that conf is about.
func SeenAs(conf *networkingv1beta1.Configuration, pod netip.Addr) (netip.Addr, error) {
	if !CIDRsConfigured(conf) {
		return netip.Addr{}, errors.New("how it sees the other cluster's addresses is not decided yet")
	}
	for i, cidr := range conf.Spec.Remote.CIDR.Pod {
		real, err := netip.ParsePrefix(string(cidr))
		if err != nil || !real.Contains(pod) {
			continue
		}
		seen, err := netip.ParsePrefix(string(conf.Status.Remote.CIDR.Pod[i]))
		if err != nil {
			return netip.Addr{}, fmt.Errorf("its view of %s: %w", cidr, err)
		}
		return ipam.Remap(pod, real, seen)
	}
	return netip.Addr{}, fmt.Errorf("the other cluster's pod %s is in none of its ranges, %s", pod, joinCIDRs(conf.Spec.Remote.CIDR.Pod))
}

// gatewayPings is what the side's gateway says of its pings to the other one.
func gatewayPings(f Facts, side Side) Way {
	here, there := f.Side(side), f.Side(side.Other())
	way := Way{From: "gateway of " + string(here.name()), To: "gateway of " + string(there.name())}
	peer := here.Peer(there.ID)
	conn := peer.Connection
	switch {
	case here.Problem != nil:
		way.Problem = here.Problem.Message
		return way
	case conn == nil:
		way.Problem = "the gateway has reported nothing yet"
		return way
	}
	report, known, err := peer.report()
	switch {
	case err != nil:
		way.Problem = err.Error()
	case known && report.Stale(f.At):
		way.Problem = fmt.Sprintf("the gateway's last report is %s old", f.At.Sub(report.At).Round(time.Second))
	case conn.Status.Value != networkingv1beta1.Connected:
		way.Problem = connectingReason(conn, nil)
	case known:
		way.Avg, way.Loss = micros(report.LatencyMicros), report.Loss
	default:
		// Liqo's gateways tell their latency, and nothing of loss.
		way.Avg, _ = time.ParseDuration(conn.Status.Latency.Value)
	}
	return way
}

// Lines tell a person, in the order of importance.
func (v Verification) Lines() []string {
	var lines []string
	what := map[Ends]string{Pods: "pod to pod", Gateways: "ping between gateways, not pods"}[v.Between]
	ids := [2]render.ClusterID{v.A, v.B}
	for _, side := range []Side{A, B} {
		lines = append(lines, fmt.Sprintf("%s %s → %s %s: %s (%s)", side, ids[side], side.Other(), ids[side.Other()], v.Ways[side], what))
	}
	for _, w := range v.Ways {
		if v.Between == Pods {
			lines = append(lines, fmt.Sprintf("  from %s to %s", w.From, w.To))
		}
	}
	if v.Reason != "" {
		lines = append(lines, "pods could not measure: "+v.Reason)
	}
	if v.Hint != "" {
		lines = append(lines, "  "+v.Hint)
	}
	return append(lines, v.conclusion())
}

func (v Verification) conclusion() string {
	switch v.Verdict() {
	case Broken:
		return "not verified: packets do not pass both ways"
	case Degraded:
		if v.Between == Pods {
			return "verified, but degraded: packets pass between pods both ways, but not as they should"
		}
	case Works:
		if v.Between == Pods {
			return "verified: packets pass between pods both ways"
		}
	}
	return "not verified: the gateways reach each other, which says nothing about pods"
}

// String is the measured values in words.
func (w Way) String() string {
	if w.Problem != "" && w.Received == 0 {
		return w.Problem
	}
	var parts []string
	if w.Avg > 0 {
		text := "latency " + duration(w.Avg)
		if w.Max > 0 {
			text += fmt.Sprintf(" (%s to %s)", duration(w.Min), duration(w.Max))
		}
		parts = append(parts, text)
	}
	switch {
	case w.Sent > 0 && w.Received == w.Sent:
		parts = append(parts, fmt.Sprintf("no loss in %d packets", w.Sent))
	case w.Sent > 0:
		parts = append(parts, fmt.Sprintf("%d of %d packets lost", w.Sent-w.Received, w.Sent))
	case w.Loss > 0:
		parts = append(parts, fmt.Sprintf("%.0f %% loss in the last minute", 100*w.Loss))
	}
	if w.Largest > 0 {
		parts = append(parts, fmt.Sprintf("largest packet %d bytes", w.Largest))
	}
	if w.Throughput > 0 {
		parts = append(parts, fmt.Sprintf("throughput %.0f Mbit/s", w.Throughput/1e6))
	}
	if w.Problem != "" {
		parts = append(parts, w.Problem)
	}
	if len(parts) == 0 {
		return "pings are answered"
	}
	return strings.Join(parts, ", ")
}

// duration is short enough to compare: three digits at most.
func duration(d time.Duration) string {
	switch {
	case d >= 100*time.Millisecond:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}
