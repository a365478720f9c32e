// Package verify has the results of measurements between the pods of two clusters.
package verify

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/policy"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// Result is the result of a measurement between two clusters.
type Result struct {
	At   time.Time
	A, B wire.ClusterID
	// Between is Pods if pods have measured, or Gateways if only the gateways have.
	Between Ends
	// Reason is the reason that pods could not measure; "" if they did. Fix is the advice, if there is any.
	Reason string
	Fix    command.Hint
	// Directions has the direction from A to B first. If there are several paths, it has the worst result of
	// each direction.
	Directions [2]Direction
	// Paths has the paths that pods have measured: one, or one for each node.
	Paths []Path
	// Unmeasured has the reason for each path that could not be measured.
	Unmeasured []string
	// Nodes counts the nodes of each side on which a pod could measure; 0 if they are unknown.
	Nodes [2]int
	// Closed describes, by side, which pods the peer's pods reach through the gateway, if these are not all;
	// else "". The gateway always lets test pods reach each other.
	Closed [2]string
}

// Path is the path between a pod of A and a pod of B, in both directions.
type Path [2]Direction

// Ends are the two ends of a measurement.
type Ends string

// The kinds of ends.
const (
	Pods     Ends = "pods"
	Gateways Ends = "gateways" // their pings prove the tunnel, but not the path from a gateway to pods
)

// Direction is one of the two directions, measured by the sending side.
type Direction struct {
	From, To string // pods with their nodes and addresses, or clusters
	Node     string // From's node; "" if no pod has measured
	// Sent and Received count packets; both 0 if the gateways measured.
	Sent, Received int
	Loss           float64       // 0 to 1
	Counted        bool          // true if Loss is known; Liqo's gateways do not report it
	Min, Avg, Max  time.Duration // round trips; 0 if none was measured
	// Largest is the size of the largest packet that arrived unfragmented, in bytes; 0 if not measured.
	Largest int
	// Throughput is in bits per second; 0 if not measured.
	Throughput float64
	// Problem is the reason that the direction does not work or was not measured.
	Problem string
}

// Verdict sums up a verification.
type Verdict string

// The verdicts.
const (
	Unknown  Verdict = ""         // nothing was measured
	Works    Verdict = "works"    // packets pass both ways
	Degraded Verdict = "degraded" // packets pass, but some are lost, or a part of the measurement failed
	Broken   Verdict = "broken"   // no packets pass in at least one direction
	Closed   Verdict = "closed"   // test pods reach each other, but --allow excludes other pods
)

// Verdict sums up both directions.
func (v Result) Verdict() Verdict {
	if v.Between == "" {
		return Unknown
	}
	verdict := worse(v.Directions[flows.A].verdict(), v.Directions[flows.B].verdict())
	if len(v.Unmeasured) > 0 {
		verdict = worse(verdict, Degraded)
	}
	if v.Between == Pods && verdict != Broken && v.Closed != [2]string{} {
		return Closed
	}
	return verdict
}

func (w Direction) verdict() Verdict {
	switch {
	case w.Loss >= 1, w.Problem != "" && w.Received == 0:
		return Broken
	case w.Loss > 0, w.Problem != "":
		return Degraded
	}
	return Works
}

func worse(a, b Verdict) Verdict {
	order := []Verdict{Works, Degraded, Broken}
	return order[max(slices.Index(order, a), slices.Index(order, b))]
}

// SetPaths sets the results of v to those of the paths. There must be at least one path.
func (v *Result) SetPaths(paths []Path) {
	v.Between, v.Paths, v.Directions = Pods, paths, paths[0]
	for _, p := range paths[1:] {
		for side, w := range p {
			if has := v.Directions[side].verdict(); worse(has, w.verdict()) != has {
				v.Directions[side] = w
			}
		}
	}
}

// Tested reports whether the test pods have reached each other in both directions. Other pods may be closed
// to the peer.
func (v Result) Tested() bool { return v.Verified() || v.Verdict() == Closed }

// Verified reports whether packets of pods have passed in both directions. Pings
// between gateways are not enough.
func (v Result) Verified() bool {
	return v.Between == Pods && (v.Verdict() == Works || v.Verdict() == Degraded)
}

// Turned returns the same measurement with A and B exchanged.
func (v Result) Turned() Result {
	v.A, v.B = v.B, v.A
	v.Directions[flows.A], v.Directions[flows.B] = v.Directions[flows.B], v.Directions[flows.A]
	v.Nodes[flows.A], v.Nodes[flows.B] = v.Nodes[flows.B], v.Nodes[flows.A]
	v.Closed[flows.A], v.Closed[flows.B] = v.Closed[flows.B], v.Closed[flows.A]
	v.Paths = slices.Clone(v.Paths)
	for i, p := range v.Paths {
		v.Paths[i] = Path{p[flows.B], p[flows.A]}
	}
	return v
}

// Measurement returns the result as the answer for the last step of a plan.
func (v Result) Measurement() flows.Measurement {
	m := flows.Measurement{At: v.At, OK: v.Tested(), Result: v.conclusion()}
	if !m.OK && v.Reason != "" {
		m.Result, m.Fix = "pods could not measure: "+v.Reason, command.Text("connect with --wait=connected where no pods can be run for it")
	}
	return m
}

// DirectionOf returns the direction that a probe has measured.
func DirectionOf(r render.ProbeResult) Direction {
	way := Direction{Sent: r.Sent, Received: r.Received, Largest: r.LargestPacket, Problem: r.Error}
	way.Min, way.Avg, way.Max = micros(r.MinMicros), micros(r.AvgMicros), micros(r.MaxMicros)
	if r.Sent > 0 {
		way.Loss, way.Counted = 1-float64(r.Received)/float64(r.Sent), true
	}
	switch {
	case way.Problem != "":
	case r.Received == 0:
		way.Problem = fmt.Sprintf("none of %d packets was answered", r.Sent)
		if r.Refused != "" {
			way.Problem += ": " + r.Refused
		}
	case r.LargestPacket == 0:
		way.Problem = "only small packets pass, of less than 576 bytes"
	}
	return way
}

// ClosedBy returns the end of a sentence about an unreached pod. It names the policies in the pod's namespace
// that exclude the peer's pods; "" if none is known.
func ClosedBy(f policy.Facts, c *networkingv1beta1.Configuration, pod map[string]string, namespace string) string {
	if c == nil || c.Status.Remote == nil {
		return ""
	}
	group := f.GroupOf(policy.Ingress, policy.Pod{Namespace: namespace, Labels: pod})
	for _, cidr := range c.Status.Remote.CIDR.Pod {
		from, err := netip.ParsePrefix(string(cidr))
		if err == nil && f.Admits(policy.Ingress, group, from) == policy.No {
			return fmt.Sprintf("; %s drops it: no address range there has %s", f.Names(group), from)
		}
	}
	return ""
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// GatewayPings returns the results of the pings from the side's gateway to the other one.
func GatewayPings(f flows.Facts, side flows.Side) Direction {
	here, there := f.Sides[side], f.Sides[side.Other()]
	way := Direction{From: "gateway of " + string(here.Name()), To: "gateway of " + string(there.Name())}
	if here.Problem != nil {
		way.Problem = here.Problem.Message
		return way
	}
	r := here.End(there.ID).Reading()
	if state, why := r.State(f.At); !state.Works() {
		way.Problem = why
		return way
	}
	way.Avg = r.Latency
	way.Loss, way.Counted = r.Lost()
	return way
}

// Lines returns the result as text, the most important lines first.
func (v Result) Lines() []string {
	if v.Between == "" {
		return []string{v.conclusion()}
	}
	var lines []string
	what := map[Ends]string{Pods: "pod to pod", Gateways: "ping between gateways, not pods"}[v.Between]
	ids := [2]wire.ClusterID{v.A, v.B}
	for _, side := range []flows.Side{flows.A, flows.B} {
		result := v.Directions[side].String()
		if len(v.Paths) > 1 {
			result = v.counted(side) + result
		}
		lines = append(lines, fmt.Sprintf("%s → %s: %s (%s)", ids[side], ids[side.Other()], result, what))
	}
	for _, p := range v.Paths {
		for _, w := range p {
			line := fmt.Sprintf("  from %s to %s", w.From, w.To)
			if len(v.Paths) > 1 {
				line += ": " + w.String()
			}
			lines = append(lines, line)
		}
	}
	for _, reason := range v.Unmeasured {
		lines = append(lines, "  not measured: "+reason)
	}
	if v.Reason != "" {
		lines = append(lines, "pods could not measure: "+v.Reason)
	}
	if !v.Fix.IsZero() {
		lines = append(lines, "  "+v.Fix.String())
	}
	return append(lines, v.conclusion())
}

func (v Result) conclusion() string {
	switch v.Verdict() {
	case Unknown:
		return "not verified: nothing was measured"
	case Broken:
		if v.Between == Pods && v.Directions[flows.A].Received+v.Directions[flows.B].Received == 0 {
			return "not verified: no packet passes, either way"
		}
		return "not verified: packets do not pass both ways"
	case Degraded:
		if v.Between == Pods {
			return "verified" + v.from() + ", but degraded: packets pass both ways, but not as they should"
		}
	case Closed:
		return "the tunnel is tested" + v.from() + ": " + v.ClosedPods()
	case Works:
		if v.Between == Pods {
			return "verified" + v.from() + ": packets pass both ways"
		}
	}
	return "not verified: the gateways reach each other, but no pod has tested the path"
}

// ClosedPods returns a sentence that says which pods the other cluster's pods can't reach.
func (v Result) ClosedPods() string {
	var sides []string
	for side, id := range [2]wire.ClusterID{v.A, v.B} {
		if v.Closed[side] != "" {
			sides = append(sides, fmt.Sprintf("pods of %s are closed by --allow %s", id, v.Closed[side]))
		}
	}
	return strings.Join(sides, ", ")
}

// counted returns the beginning of a line about several paths.
func (v Result) counted(side flows.Side) string {
	works := 0
	for _, p := range v.Paths {
		if p[side].verdict() == Works {
			works++
		}
	}
	if works == len(v.Paths) {
		return fmt.Sprintf("all %d paths work, such as: ", works)
	}
	return fmt.Sprintf("%d of %d paths work, the worst: ", works, len(v.Paths))
}

// from names the nodes on which pods have measured. A path that works from one node may be closed from
// another.
func (v Result) from() string {
	on := func(side flows.Side) []string {
		var nodes []string
		for _, p := range v.Paths {
			nodes = append(nodes, p[side].Node)
		}
		slices.Sort(nodes)
		return slices.Compact(nodes)
	}
	here, there := on(flows.A), on(flows.B)
	measured := append(slices.Clone(here), there...)
	if slices.ContainsFunc(here, func(node string) bool { return slices.Contains(there, node) }) {
		for i := range measured {
			if id := v.A; i < len(here) {
				measured[i] += " of " + string(id)
			} else {
				measured[i] += " of " + string(v.B)
			}
		}
	}
	of := v.Nodes[flows.A] + v.Nodes[flows.B]
	switch {
	case v.Nodes[flows.A] == 0 || v.Nodes[flows.B] == 0:
		return " from " + flows.Some(measured)
	case len(measured) >= of:
		return fmt.Sprintf(" from all %d nodes", of)
	}
	return fmt.Sprintf(" from %d of %d nodes (%s)", len(measured), of, flows.Some(measured))
}

// String returns the measured values in words.
func (w Direction) String() string {
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

// duration returns a text with three digits at most, so that two values are easy to compare.
func duration(d time.Duration) string {
	switch {
	case d >= 100*time.Millisecond:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d >= 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%.2f ms", float64(d)/float64(time.Millisecond))
}
