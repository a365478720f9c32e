package report

import (
	"fmt"
	"io"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/verify"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Verification is the output of `network verify -o json`. While "v" is 1, fields are only added.
type Verification struct {
	V       int            `json:"v"`
	At      time.Time      `json:"at"`
	A       wire.ClusterID `json:"a"`
	B       wire.ClusterID `json:"b"`
	Between verify.Ends    `json:"between"` // the ends of the measurement: "pods" or "gateways"
	Reason  string         `json:"reason,omitempty"`
	Hint    string         `json:"hint,omitempty"` // the advice if pods could not measure
	// Commands are the commands in Hint.
	Commands []command.Command `json:"commands,omitempty"`
	Verdict  verify.Verdict    `json:"verdict"`
	// Verified is set if packets of pods have passed in both directions.
	Verified bool `json:"verified"`
	AToB     Way  `json:"aToB"`
	BToA     Way  `json:"bToA"`
	// Nodes counts the nodes of both clusters on which a pod could measure; missing if it is
	// unknown.
	Nodes int `json:"nodes,omitempty"`
	// Paths has the paths that pods have measured. aToB and bToA have the worst results.
	Paths []Path `json:"paths,omitempty"`
	// Unmeasured has the reason for each path that could not be measured.
	Unmeasured []string `json:"unmeasured,omitempty"`
}

// Path is the path between a pod of each cluster.
type Path struct {
	AToB Way `json:"aToB"`
	BToA Way `json:"bToA"`
}

// Way is the measurement from one cluster to the other.
type Way struct {
	From     string `json:"from"`
	To       string `json:"to"`
	Node     string `json:"node,omitempty"` // the node of the measuring pod
	Sent     int    `json:"sent"`
	Received int    `json:"received"`
	// Loss is a share, 0 to 1. It is null if it was not measured, for example because Liqo's
	// gateways have measured: they do not report it.
	Loss             *float64 `json:"loss"`
	MinMicros        int64    `json:"minMicros,omitempty"`
	AvgMicros        int64    `json:"avgMicros,omitempty"`
	MaxMicros        int64    `json:"maxMicros,omitempty"`
	LargestPacket    int      `json:"largestPacket,omitempty"` // bytes
	ThroughputBitsPS float64  `json:"throughputBitsPerSecond,omitempty"`
	Problem          string   `json:"problem,omitempty"`
}

// VerificationOf returns the document for v.
func VerificationOf(v verify.Result) Verification {
	way := func(w verify.Direction) Way {
		return Way{
			From: w.From, To: w.To, Node: w.Node, Sent: w.Sent, Received: w.Received, Loss: Known(w.Loss, w.Counted),
			MinMicros: w.Min.Microseconds(), AvgMicros: w.Avg.Microseconds(), MaxMicros: w.Max.Microseconds(),
			LargestPacket: w.Largest, ThroughputBitsPS: w.Throughput, Problem: w.Problem,
		}
	}
	d := Verification{
		V: SchemaVersion, At: v.At.UTC(), A: v.A, B: v.B, Between: v.Between, Reason: v.Reason, Hint: v.Fix.String(), Commands: v.Fix.Commands(), Verdict: v.Verdict(),
		Verified: v.Verified(), AToB: way(v.Directions[flows.A]), BToA: way(v.Directions[flows.B]), Unmeasured: v.Unmeasured,
	}
	if v.Nodes[flows.A] > 0 && v.Nodes[flows.B] > 0 {
		d.Nodes = v.Nodes[flows.A] + v.Nodes[flows.B]
	}
	for _, p := range v.Paths {
		d.Paths = append(d.Paths, Path{AToB: way(p[flows.A]), BToA: way(p[flows.B])})
	}
	return d
}

// WriteVerification writes v after the results of checks.
func WriteVerification(out io.Writer, v verify.Result) {
	fmt.Fprintln(out)
	for _, line := range v.Lines() {
		fmt.Fprintln(out, line)
	}
}

// Known returns a pointer to v; nil if ok is false, because the value was not measured.
func Known[T any](v T, ok bool) *T {
	if !ok {
		return nil
	}
	return &v
}
