package flows_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

func TestStateOfOneEnd(t *testing.T) {
	now := flowtest.Epoch()
	server := &networkingv1beta1.GatewayServer{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
	pod := func(waiting string) *flows.PodFacts { return &flows.PodFacts{Gateway: "milan", Waiting: waiting} }
	reported := func(value networkingv1beta1.ConnectionStatusValue, age time.Duration, loss float64) *networkingv1beta1.Connection {
		text, err := json.Marshal(wire.Report{At: now.Add(-age), Interval: 10, Message: "as the gateway says", Loss: loss})
		if err != nil {
			t.Fatal(err)
		}
		return &networkingv1beta1.Connection{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{wire.AnnotationStatus: string(text)}},
			Status:     networkingv1beta1.ConnectionStatus{Value: value},
		}
	}
	liqo := func(value networkingv1beta1.ConnectionStatusValue, latency string, at time.Time) *networkingv1beta1.Connection {
		return &networkingv1beta1.Connection{Status: networkingv1beta1.ConnectionStatus{
			Value: value, Latency: networkingv1beta1.ConnectionLatency{Value: latency, Timestamp: metav1.NewTime(at)},
		}}
	}
	unreadable := liqo(networkingv1beta1.Connected, "", time.Time{})
	unreadable.Annotations = map[string]string{wire.AnnotationStatus: "{"}
	const connected, connecting, failed = networkingv1beta1.Connected, networkingv1beta1.Connecting, networkingv1beta1.ConnectionError
	for name, test := range map[string]struct {
		peer flows.End
		want flows.EndState
		why  string
	}{
		"nothing":                              {flows.End{}, flows.StateNotConnected, "no gateway"},
		"a gateway":                            {flows.End{Server: server}, flows.StateStarting, "reported nothing"},
		"a gateway whose pod waits":            {flows.End{Server: server, Pod: pod("ImagePullBackOff")}, flows.StateStarting, "ImagePullBackOff"},
		"a Connection without a value":         {flows.End{Server: server, Connection: liqo("", "", time.Time{})}, flows.StateStarting, "reported nothing"},
		"a Connection whose gateway is gone":   {flows.End{Connection: reported(failed, 0, 1)}, flows.StateDown, "as the gateway says"},
		"connecting":                           {flows.End{Server: server, Connection: reported(connecting, 0, 0)}, flows.StateConnecting, "as the gateway says"},
		"connected":                            {flows.End{Server: server, Connection: reported(connected, 0, 0)}, flows.StateConnected, "as the gateway says"},
		"one ping of sixty lost":               {flows.End{Server: server, Connection: reported(connected, 0, 1.0/60)}, flows.StateConnected, ""},
		"a tenth of the pings lost":            {flows.End{Server: server, Connection: reported(connected, 0, 0.1)}, flows.StateDegraded, "10% of the pings"},
		"a node that does not lead to it":      {flows.End{Server: server, Connection: reported(connected, 0, 0), NodeProblems: []string{"worker-2 does not lead to the peer: no route", "worker-3 is not set up as it has to be: busy"}}, flows.StateDegraded, "node worker-2 does not lead to the peer: no route (and 1 more)"},
		"a node that can't reach the gateway":  {flows.End{Server: server, Connection: reported(connected, 0, 0), Unreached: []string{"worker-2"}}, flows.StateDegraded, "pods on worker-2 can't reach the gateway: open UDP port 6092"},
		"down":                                 {flows.End{Server: server, Connection: reported(failed, 0, 1)}, flows.StateDown, "as the gateway says"},
		"three intervals old":                  {flows.End{Server: server, Connection: reported(connected, 30*time.Second, 0)}, flows.StateConnected, ""},
		"older than three intervals":           {flows.End{Server: server, Connection: reported(connected, 31*time.Second, 0)}, flows.StateStale, "it said Connected 31s ago"},
		"down, and then silence":               {flows.End{Server: server, Connection: reported(failed, time.Hour, 1)}, flows.StateStale, "it said Error 1h0m0s ago"},
		"a value of a later release":           {flows.End{Server: server, Connection: reported("Paused", 0, 0)}, flows.StateUnknown, `"Paused"`},
		"a report that can't be read":          {flows.End{Server: server, Connection: unreadable}, flows.StateConnected, "parse annotation"},
		"silent since its pod waits":           {flows.End{Server: server, Pod: pod("CrashLoopBackOff"), Connection: reported(connected, time.Hour, 0)}, flows.StateStale, "CrashLoopBackOff"},
		"connected while a new pod waits":      {flows.End{Server: server, Pod: pod("ContainerCreating"), Connection: reported(connected, 0, 0)}, flows.StateConnected, "as the gateway says"},
		"Liqo's gateway, connected":            {flows.End{Server: server, Connection: liqo(connected, "1ms", now)}, flows.StateConnected, "the peer's gateway answers"},
		"Liqo's gateway, connected and silent": {flows.End{Server: server, Connection: liqo(connected, "1ms", now.Add(-time.Minute))}, flows.StateStale, "nothing since"},
		"Liqo's gateway, pings switched off":   {flows.End{Server: server, Connection: liqo(connected, "", time.Time{})}, flows.StateConnected, "measures nothing"},
		"Liqo's gateway before the first ping": {flows.End{Server: server, Connection: liqo(failed, "", time.Time{})}, flows.StateConnecting, "not answered yet"},
		"Liqo's gateway, down":                 {flows.End{Server: server, Connection: liqo(failed, "", now.Add(-time.Hour))}, flows.StateDown, "Liqo's gateway reports no reason"},
	} {
		t.Run(name, func(t *testing.T) {
			got, why := test.peer.Reading().State(now)
			if got != test.want || !strings.Contains(why, test.why) {
				t.Errorf("got %s: %q; want %s, with %q", got, why, test.want, test.why)
			}
		})
	}
}

// An old report gives no cause, and no share of lost pings where none is counted.
func TestWhatAReadingDoesNotKnow(t *testing.T) {
	now := flowtest.Epoch()
	r := flows.Reading{Exists: true, Reported: true, Value: networkingv1beta1.Connecting, Reason: wire.ReasonKeyMismatch, At: now, Interval: time.Second}
	if got := r.Cause(now); got != wire.ReasonKeyMismatch {
		t.Errorf("a fresh report: got cause %q", got)
	}
	if got := r.Cause(now.Add(time.Minute)); got != "" {
		t.Errorf("an old report: got cause %q", got)
	}
	if share, known := r.Lost(); known {
		t.Errorf("no ping was ever answered: got loss %v", share)
	}
	if share, known := (flows.Reading{Exists: true, Value: networkingv1beta1.Connected}).Lost(); known {
		t.Errorf("Liqo's gateway: got loss %v", share)
	}
}

func TestAReadingSaysWhatItsObjectsSay(t *testing.T) {
	p := flowtest.NewPair()
	flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
	a := p.A.Facts().End("milan").Reading()
	b := p.B.Facts().End("rome").Reading()
	if a.Role != flows.RoleClient || b.Role != flows.RoleServer || a.Endpoint == "" || a.Endpoint != b.Endpoint {
		t.Errorf("got %s of %q and %s of %q; want a client of what the server offers", a.Role, a.Endpoint, b.Role, b.Endpoint)
	}
	if !a.CIDRs || !b.CIDRs || !a.Exists || !a.Reported || a.At.IsZero() || a.Created.IsZero() {
		t.Errorf("got %+v and %+v", a, b)
	}
}

// Both ways to find the objects of a peering find the same ones, whatever is
// there: namespaces by label or by name, leftovers in wrong namespaces,
// gateways of both roles.
func TestPeersAreWhatPeerFinds(t *testing.T) {
	var f flows.ClusterFacts
	for i := range 400 {
		remote := wire.ClusterID(fmt.Sprintf("c%d", i%40))
		meta := metav1.ObjectMeta{
			Name: fmt.Sprintf("o%d", i), Namespace: wire.TenantNamespaceName(remote),
			Labels: map[string]string{wire.LabelRemoteCluster: string(remote)},
		}
		switch i % 7 {
		case 1:
			meta.Namespace = "elsewhere"
		case 2:
			meta.Labels = nil
		}
		switch i % 11 {
		case 0, 6, 7:
			f.Connections = append(f.Connections, networkingv1beta1.Connection{ObjectMeta: meta})
		case 1:
			f.Configurations = append(f.Configurations, networkingv1beta1.Configuration{ObjectMeta: meta})
		case 2, 8:
			f.Servers = append(f.Servers, networkingv1beta1.GatewayServer{ObjectMeta: meta})
			f.Pods = append(f.Pods, flows.PodFacts{Namespace: meta.Namespace, Name: "pod", Gateway: meta.Name})
		case 3:
			f.Clients = append(f.Clients, networkingv1beta1.GatewayClient{ObjectMeta: meta})
		case 4:
			f.PublicKeys = append(f.PublicKeys, networkingv1beta1.PublicKey{ObjectMeta: meta})
		case 5:
			f.Namespaces = append(f.Namespaces, corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: meta.Namespace}})
		case 9:
			f.Namespaces = append(f.Namespaces, corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere", Labels: meta.Labels}})
		}
	}
	all := f.Peers()
	found := 0
	for i := range 40 {
		remote := wire.ClusterID(fmt.Sprintf("c%d", i))
		want := f.End(remote)
		got, ok := all[remote]
		if !ok {
			if want.Configuration != nil || want.Server != nil || want.Client != nil || want.Connection != nil || want.PublicKey != nil {
				t.Errorf("%s: not found, want %+v", remote, want)
			}
			continue
		}
		found++
		if diff := cmp.Diff(want, *got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", remote, diff)
		}
	}
	if found < 30 {
		t.Errorf("got %d peerings, want most of 40: the test has nothing to compare", found)
	}
}

func TestThePodOfAGatewayIsTheOneThatHoldsTheTunnel(t *testing.T) {
	facts := flows.ClusterFacts{
		Servers: []networkingv1beta1.GatewayServer{{ObjectMeta: metav1.ObjectMeta{
			Namespace: "liqo-tenant-milan", Name: "milan", Labels: map[string]string{wire.LabelRemoteCluster: "milan"},
		}}},
		Pods: []flows.PodFacts{
			{Namespace: "liqo-tenant-milan", Gateway: "milan", Name: "holds", Active: true},
			{Namespace: "liqo-tenant-milan", Gateway: "milan", Name: "stands-by"},
		},
	}
	if p := facts.End("milan").Pod; p == nil || p.Name != "holds" {
		t.Errorf("got %+v, want the one that is active", p)
	}
	facts.Pods[0].Active = false
	if p := facts.End("milan").Pod; p == nil || p.Name != "stands-by" {
		t.Errorf("got %+v, want the last one as long as none is active", p)
	}
}
