package tui

import (
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// mesh is clusters of which each is peered with each other one.
type mesh struct {
	ids  []wire.ClusterID
	refs []flows.ContextRef
}

// newMesh has at least so many peerings.
func newMesh(peerings int) mesh {
	var m mesh
	n := int(math.Ceil((1 + math.Sqrt(1+8*float64(peerings))) / 2))
	for i := range n {
		id := wire.ClusterID(fmt.Sprintf("cluster-%03d", i))
		m.ids = append(m.ids, id)
		m.refs = append(m.refs, flows.ContextRef{File: "/home/ada/.kube/config", Name: string(id)})
	}
	return m
}

func (m mesh) peerings() int { return len(m.ids) * (len(m.ids) - 1) / 2 }

// reading is what cluster i says of its peering with j in the nth report.
func (m mesh) reading(i, j, n int, at time.Time) flows.Reading {
	role := flows.RoleClient
	if i < j {
		role = flows.RoleServer
	}
	r := reading(m.ids[j], role, isConnected, at)
	r.Latency = time.Duration(500+(i*7+j*13+n*37)%900) * time.Microsecond
	r.Received, r.Sent = uint64(n)*1e6, uint64(n)*3e5
	r.Endpoint, r.PeerAddress, r.Implementation, r.MTU = "UDP 203.0.113.7:31840", "203.0.113.7:31840", "kernel", 1340
	return r
}

// facts are the objects behind the same, in the nth version.
func (m mesh) facts(i, n int, at time.Time) flows.ClusterFacts {
	f := flows.ClusterFacts{
		Context: m.refs[i], Server: "https://192.0.2.1:6443", UID: "uid-" + string(m.ids[i]), Version: "v1.35.0",
		ID: m.ids[i], Software: flows.Operator, Namespace: wire.DefaultNamespace, HasCRDs: true,
	}
	for j := range m.ids {
		if j == i {
			continue
		}
		r := m.reading(i, j, n, at)
		text, err := json.Marshal(wire.Report{
			At: r.At, Interval: 10, Reason: wire.ReasonPinged, Message: r.Message, LatencyMicros: r.Latency.Microseconds(),
			ReceivedBytes: r.Received, SentBytes: r.Sent, Endpoint: r.PeerAddress, Implementation: r.Implementation, MTU: r.MTU,
		})
		if err != nil {
			panic(err)
		}
		meta := func(name string) metav1.ObjectMeta {
			return metav1.ObjectMeta{
				Name: name, Namespace: wire.TenantNamespaceName(m.ids[j]), UID: types.UID(fmt.Sprint(name, i, j)), ResourceVersion: fmt.Sprint(n + 1),
				Labels: map[string]string{wire.LabelRemoteCluster: string(m.ids[j])},
			}
		}
		conn := networkingv1beta1.Connection{ObjectMeta: meta("gw-" + string(m.ids[j])), Status: networkingv1beta1.ConnectionStatus{Value: isConnected}}
		conn.Annotations = map[string]string{wire.AnnotationStatus: string(text)}
		f.Connections = append(f.Connections, conn)
		f.Configurations = append(f.Configurations, networkingv1beta1.Configuration{ObjectMeta: meta(string(m.ids[j]))})
		f.PublicKeys = append(f.PublicKeys, networkingv1beta1.PublicKey{ObjectMeta: meta(string(m.ids[j]))})
		if i < j {
			f.Servers = append(f.Servers, networkingv1beta1.GatewayServer{ObjectMeta: meta(string(m.ids[j]))})
		} else {
			f.Clients = append(f.Clients, networkingv1beta1.GatewayClient{ObjectMeta: meta(string(m.ids[j]))})
		}
		f.Pods = append(f.Pods, flows.PodFacts{Namespace: wire.TenantNamespaceName(m.ids[j]), Name: "gw", Gateway: string(m.ids[j]), Ready: true})
	}
	return f
}

// report is the news of cluster i.
func (m mesh) report(i, n int, at time.Time, watch int) report {
	r := report{watch: watch, ref: m.refs[i], first: n == 0, facts: flows.ClusterFacts{Context: m.refs[i], ID: m.ids[i], UID: "uid-" + string(m.ids[i])}}
	for j := range m.ids {
		if j != i {
			r.changed = append(r.changed, m.reading(i, j, n, at))
		}
	}
	return r
}

// dashboardOf is a program that watches a mesh and has been told of it; its
// commands are not run.
func dashboardOf(tb testing.TB, m mesh, width, height int) Model {
	model := New(tb.Context(), session.Options{Start: session.StartDashboard, Contexts: m.refs, Backend: &world{}, Now: flowtest.Epoch})
	model = feedTo(model, startMsg{}, tea.WindowSizeMsg{Width: width, Height: height})
	for i := range m.ids {
		model = feedTo(model, newsMsg{reports: []report{m.report(i, 0, flowtest.Epoch(), model.fleet.Member(m.refs[i]).Watch.ID)}, at: flowtest.Epoch()})
	}
	if got := len(model.dashboard.Board.List); got != m.peerings() {
		tb.Fatalf("got %d rows, want %d", got, m.peerings())
	}
	return model
}

// anHour gives every row an hour of the same history.
func anHour(m Model) {
	var hour session.Series
	for n := range session.SeriesLength {
		at := m.clock.Add(time.Duration(n+1-session.SeriesLength) * session.Bucket)
		r := reading("peer", flows.RoleServer, isConnected, at)
		r.Latency = time.Duration(500+n*37%900) * time.Microsecond
		hour.Add(at, r, session.Rate{Known: true, Received: float64(n % 7 * 1000), Sent: float64(n % 5 * 1000)})
	}
	for _, p := range m.dashboard.Board.Rows {
		p.History = [2]session.Series{hour, hour} // shared: nothing is added to it
	}
}

var benchSizes = []int{1000, 10_000}

// BenchmarkKeyToFrame is the time from a key to the text of the next frame.
func BenchmarkKeyToFrame(b *testing.B) {
	keys := []string{"down", "down", "pgdown", "up", "G", "g", "L", "down", "S", "/", "0", "4", "esc", "enter", "esc", "down"}
	for _, n := range benchSizes {
		for _, size := range [][2]int{{80, 24}, {200, 60}} {
			b.Run(fmt.Sprintf("peerings=%d/%dx%d", n, size[0], size[1]), func(b *testing.B) {
				m := dashboardOf(b, newMesh(n), size[0], size[1])
				anHour(m)
				var took []time.Duration
				for i := 0; b.Loop(); i++ {
					began := time.Now()
					m = feedTo(m, press(keys[i%len(keys)]))
					_ = m.View()
					took = append(took, time.Since(began))
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
				b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "max-ms")
			})
		}
	}
}

// BenchmarkIdleDashboard is ten seconds of a dashboard that nobody touches: each cluster reports once, and each report
// makes a frame.
func BenchmarkIdleDashboard(b *testing.B) {
	mesh := newMesh(1000)
	m := dashboardOf(b, mesh, 200, 60)
	anHour(m)
	for n := 1; b.Loop(); n++ {
		at := flowtest.Epoch().Add(time.Duration(n) * session.Bucket)
		for i, ref := range mesh.refs {
			m = feedTo(m, newsMsg{reports: []report{mesh.report(i, n, at, m.fleet.Member(ref).Watch.ID)}, at: at})
			_ = m.View()
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()/float64(b.N)/session.Bucket.Seconds()*100, "%-of-a-core")
}

// BenchmarkOneChangedRow is the time from one new reading to the text of the
// next frame.
func BenchmarkOneChangedRow(b *testing.B) {
	for _, n := range append([]int{100}, benchSizes...) {
		b.Run(fmt.Sprintf("peerings=%d", n), func(b *testing.B) {
			mesh := newMesh(n)
			m := dashboardOf(b, mesh, 80, 24)
			watch := m.fleet.Member(mesh.refs[1]).Watch.ID
			facts := flows.ClusterFacts{Context: mesh.refs[1], ID: mesh.ids[1], UID: "uid-" + string(mesh.ids[1])}
			values := []networkingv1beta1.ConnectionStatusValue{isError, isConnected}
			for i := 0; b.Loop(); i++ {
				at := flowtest.Epoch().Add(time.Duration(i) * time.Millisecond)
				r := mesh.reading(1, 2, i, at)
				r.Value = values[i%2]
				m = feedTo(m, newsMsg{reports: []report{{watch: watch, ref: mesh.refs[1], facts: facts, changed: []flows.Reading{r}}}, at: at})
				_ = m.View()
			}
		})
	}
}

// BenchmarkLookingAgain is what an observer does with an observation in which
// one of a thousand peerings has changed, and in which none has.
func BenchmarkLookingAgain(b *testing.B) {
	mesh := newMesh(1)
	for i := range 1000 {
		id := wire.ClusterID(fmt.Sprintf("spoke-%03d", i))
		mesh.ids, mesh.refs = append(mesh.ids, id), append(mesh.refs, flows.ContextRef{Name: string(id)})
	}
	facts := [2]flows.ClusterFacts{mesh.facts(0, 0, flowtest.Epoch()), mesh.facts(0, 0, flowtest.Epoch())}
	facts[1].Connections[500] = mesh.facts(0, 1, flowtest.Epoch()).Connections[500]
	for name, step := range map[string]int{"nothing changed": 0, "one changed": 1} {
		b.Run(name, func(b *testing.B) {
			o := observer{feed: make(feed, 1), Watch: session.NewWatch(b.Context(), 1)}
			o.tell(report{facts: facts[0]})
			<-o.feed
			for i := 1; b.Loop(); i++ {
				o.tell(report{facts: facts[i%2*step]})
				if step == 1 {
					if r := <-o.feed; len(r.changed) != 1 {
						b.Fatalf("got %d changed, want 1", len(r.changed))
					}
				}
			}
		})
	}
}

// TestAnHourOfAThousandPeeringsFitsIntoMemory is the bound for a dashboard that
// is left running: 120 MiB, with the history of both sides.
func TestAnHourOfAThousandPeeringsFitsIntoMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a few seconds")
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	mesh := newMesh(1000)
	m := dashboardOf(t, mesh, 120, 40)
	watches := make([]int, len(mesh.refs))
	for i, ref := range mesh.refs {
		watches[i] = m.fleet.Member(ref).Watch.ID
	}
	for n := 1; n <= int(time.Hour/session.Bucket)+10; n++ {
		at := flowtest.Epoch().Add(time.Duration(n) * session.Bucket)
		var all []report
		for i := range mesh.ids {
			all = append(all, mesh.report(i, n, at, watches[i]))
		}
		m = feedTo(m, newsMsg{reports: all, at: at})
	}
	for i := range mesh.ids { // the objects themselves, as a real fleet holds them
		r := mesh.report(i, 1, m.clock, watches[i])
		r.facts, r.changed = mesh.facts(i, 1, m.clock), nil
		m = feedTo(m, newsMsg{reports: []report{r}, at: m.clock})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	got := float64(after.HeapAlloc-before.HeapAlloc) / (1 << 20)
	t.Logf("%d peerings, %d points each side: %.0f MiB", mesh.peerings(), len(m.dashboard.Board.List[0].History[0].Points), got)
	if got > 120 {
		t.Errorf("got %.0f MiB, want at most 120", got)
	}
	if points := len(m.dashboard.Board.List[0].History[1].Points); points != session.SeriesLength {
		t.Errorf("got %d points, want the hour's %d: the test measured less than it says", points, session.SeriesLength)
	}
	runtime.KeepAlive(m)
}
