// Package verify has the results of measurements between the pods of two clusters, as
// values.
package verify

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/policy"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// Result is the knowledge about the path between the pods of two clusters.
type Result struct {
	At   time.Time
	A, B wire.ClusterID
	// Between is Pods if pods have measured, or Gateways if only the gateways have.
	Between Ends
	// Reason is why pods could not, "" if they did; Fix is how they could, if
	// that is known.
	Reason string
	Fix    command.Hint
	// Directions: the first is from A to B.
	Directions [2]Direction
}

// Ends are the two ends of a measurement.
type Ends string

// The kinds of ends.
const (
	Pods     Ends = "pods"
	Gateways Ends = "gateways" // their pings prove the tunnel, not the way from it to the pods
)

// Direction is one of the two directions, measured by the sending side.
type Direction struct {
	From, To string // pods with their nodes and addresses, or clusters
	// Sent and Received count packets; both 0 if the gateways measured.
	Sent, Received int
	Loss           float64       // 0 to 1
	Counted        bool          // Loss is known: Liqo's gateways do not report it
	Min, Avg, Max  time.Duration // round trips; 0 if none was measured
	// Largest packet that arrived unfragmented, in bytes; 0 if not measured.
	Largest int
	// Throughput in bits per second; 0 if not measured.
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
	Degraded Verdict = "degraded" // they do, but some are lost, or a part of the measurement failed
	Broken   Verdict = "broken"   // nothing passes, at least one way
)

// Verdict sums up both directions.
func (v Result) Verdict() Verdict {
	if v.Between == "" {
		return Unknown
	}
	verdict := Works
	for _, w := range v.Directions {
		switch {
		case w.Loss >= 1, w.Problem != "" && w.Received == 0:
			return Broken
		case w.Loss > 0, w.Problem != "":
			verdict = Degraded
		}
	}
	return verdict
}

// Verified reports whether packets of pods have passed in both directions. Pings
// between gateways are not enough.
func (v Result) Verified() bool {
	return v.Between == Pods && (v.Verdict() == Works || v.Verdict() == Degraded)
}

// Turned is the same measurement with A and B exchanged.
func (v Result) Turned() Result {
	v.A, v.B = v.B, v.A
	v.Directions[flows.A], v.Directions[flows.B] = v.Directions[flows.B], v.Directions[flows.A]
	return v
}

// Measurement is the verification as the answer for a plan's last step.
func (v Result) Measurement() flows.Measurement {
	m := flows.Measurement{At: v.At, OK: v.Verified(), Result: v.conclusion()}
	if !m.OK && v.Reason != "" {
		m.Result, m.Fix = "pods could not measure: "+v.Reason, command.Text("connect with --wait=connected where no pods can be run for it")
	}
	return m
}

// DirectionOf is one direction as measured by a probe.
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

// ClosedBy ends the sentence about an unreached pod: it names the policies of its
// namespace that keep the peer's pods out; "" if no known one does.
func ClosedBy(f policy.Facts, c *networkingv1beta1.Configuration, pod map[string]string, namespace string) string {
	if c == nil || c.Status.Remote == nil {
		return ""
	}
	names := policy.Selecting(f.Policies, namespace, pod)
	for _, cidr := range c.Status.Remote.CIDR.Pod {
		from, err := netip.ParsePrefix(string(cidr))
		if err == nil && !f.Admits(namespace, names, from) {
			return fmt.Sprintf("; NetworkPolicy %s drops it: no ipBlock has %s", policy.Group{Namespace: namespace, Policies: names}.Names(), from)
		}
	}
	return ""
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// GatewayPings has the results of the side's gateway pings to the other gateway.
func GatewayPings(f flows.Facts, side flows.Side) Direction {
	here, there := f.Sides[side], f.Sides[side.Other()]
	way := Direction{From: "gateway of " + string(here.Name()), To: "gateway of " + string(there.Name())}
	if here.Problem != nil {
		way.Problem = here.Problem.Message
		return way
	}
	r := here.Peer(there.ID).Reading()
	if state, why := r.State(f.At); !state.Works() {
		way.Problem = why
		return way
	}
	way.Avg = r.Latency
	way.Loss, way.Counted = r.Lost()
	return way
}

// Lines is the result as text, the most important lines first.
func (v Result) Lines() []string {
	if v.Between == "" {
		return []string{v.conclusion()}
	}
	var lines []string
	what := map[Ends]string{Pods: "pod to pod", Gateways: "ping between gateways, not pods"}[v.Between]
	ids := [2]wire.ClusterID{v.A, v.B}
	for _, side := range []flows.Side{flows.A, flows.B} {
		lines = append(lines, fmt.Sprintf("%s %s → %s %s: %s (%s)", side, ids[side], side.Other(), ids[side.Other()], v.Directions[side], what))
	}
	for _, w := range v.Directions {
		if v.Between == Pods {
			lines = append(lines, fmt.Sprintf("  from %s to %s", w.From, w.To))
		}
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
			return "verified, but degraded: packets pass between pods both ways, but not as they should"
		}
	case Works:
		if v.Between == Pods {
			return "verified: packets pass between pods both ways"
		}
	}
	return "not verified: the gateways reach each other, but no pod has tested the path"
}

// String is the measured values in words.
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
