package flows_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/connect"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/upkeep"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// A gateway's report is as old as it is, whatever this machine's clock says.
func TestAWrongClockMakesNoGatewayOlderOrYounger(t *testing.T) {
	now := flowtest.Epoch()
	meta := metav1.ObjectMeta{Name: "milan", Namespace: "liqo-tenant-milan", Labels: map[string]string{wire.LabelRemoteCluster: "milan"}}
	ours := func(at time.Time) networkingv1beta1.Connection {
		text, err := json.Marshal(wire.Report{At: at, Since: &at, Handshake: &at, Interval: 10})
		if err != nil {
			t.Fatal(err)
		}
		c := networkingv1beta1.Connection{ObjectMeta: meta, Status: networkingv1beta1.ConnectionStatus{Value: networkingv1beta1.Connected}}
		c.Annotations = map[string]string{wire.AnnotationStatus: string(text)}
		return c
	}
	liqos := func(at time.Time) networkingv1beta1.Connection {
		return networkingv1beta1.Connection{ObjectMeta: meta, Status: networkingv1beta1.ConnectionStatus{
			Value:   networkingv1beta1.Connected,
			Latency: networkingv1beta1.ConnectionLatency{Value: "1ms", Timestamp: metav1.NewTime(at)},
		}}
	}
	for _, ahead := range []time.Duration{-time.Hour, -35 * time.Second, 0, 35 * time.Second, time.Hour} {
		for software, connection := range map[string]func(time.Time) networkingv1beta1.Connection{"our operator's": ours, "Liqo's": liqos} {
			for age, want := range map[time.Duration]flows.EndState{
				0: flows.StateConnected, 29 * time.Second: flows.StateConnected, 40 * time.Second: flows.StateStale,
			} {
				t.Run(fmt.Sprintf("%s, %s ahead, %s old", software, ahead, age), func(t *testing.T) {
					f := flows.ClusterFacts{
						ClockAhead:  ahead,
						Connections: []networkingv1beta1.Connection{connection(now.Add(ahead - age))},
					}
					f.Servers = []networkingv1beta1.GatewayServer{{ObjectMeta: meta}}
					f.Servers[0].CreationTimestamp = metav1.NewTime(now.Add(ahead - time.Minute))
					for how, r := range map[string]flows.Reading{"one peer": f.End("milan").Reading(), "all peers": f.Peers()["milan"].Reading()} {
						if got, why := r.State(now); got != want {
							t.Errorf("%s: got %s: %s; want %s", how, got, why, want)
						}
						if !r.At.Equal(now.Add(-age)) || !r.Created.Equal(now.Add(-time.Minute)) {
							t.Errorf("%s: got a report of %s by a gateway of %s; want %s and %s", how, r.At, r.Created, now.Add(-age), now.Add(-time.Minute))
						}
						if r.Reported && (!r.Since.Equal(r.At) || !r.Handshake.Equal(r.At)) {
							t.Errorf("%s: got since %s, handshake %s; want %s", how, r.Since, r.Handshake, r.At)
						}
					}
				})
			}
		}
	}
}

// Each cluster stamps its objects by another clock, and none is this machine's.
func TestClocksThatDifferDoNotKeepClustersApart(t *testing.T) {
	for _, ahead := range [][2]time.Duration{{35 * time.Second, 35 * time.Second}, {-35 * time.Second, -35 * time.Second}, {time.Hour, -time.Hour}} {
		t.Run(fmt.Sprint(ahead), func(t *testing.T) {
			p := flowtest.NewPair()
			p.A.Be(func(f *flows.ClusterFacts) { f.ClockAhead = ahead[flows.A] })
			p.B.Be(func(f *flows.ClusterFacts) { f.ClockAhead = ahead[flows.B] })
			flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
			changed := flowtest.NodePort()
			changed.Server, changed.MTU = flows.A, 1300
			flowtest.MustRun(t, p, connect.Goal{Params: changed})
			rotation := upkeep.StartRotation(flowtest.Facts(p))
			flowtest.MustRun(t, p, flows.Planner(func(f flows.Facts) flows.Plan { return upkeep.Rotate(rotation, f) }))
			if plan := flows.PlanConnect(flows.Defaults(), flowtest.Facts(p)); !plan.Done() || plan.Params.Server != flows.A {
				t.Errorf("afterwards the server is %s's, and this waits: %v", plan.Params.Server, flowtest.Pending(plan))
			}

			p.A.Behave(func(b *flowtest.Behaviour) { b.NoReports = true })
			p.Advance(40 * time.Second)
			if plan := flows.PlanConnect(flows.Defaults(), flowtest.Facts(p)); plan.Done() {
				t.Error("a gateway that has fallen silent counts as connected")
			}
		})
	}
}
