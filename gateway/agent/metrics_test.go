package agent

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/gateway/ping"
	"github.com/liqo-tui/liqo-tui/gateway/tunnel"
	"github.com/liqo-tui/liqo-tui/internal/frozen"
)

func fullMetrics() *tunnelMetrics {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	m := newTunnelMetrics("rome", func(time.Time) tunnel.Status {
		return tunnel.Status{
			Pings:   ping.Status{Value: ping.Connected, Latency: 1500 * time.Microsecond, Loss: 0.25},
			Peer:    linux.PeerStats{Handshake: now.Add(-90 * time.Second), Received: 10, Sent: 20, Implementation: gateway.Userspace},
			LinkMTU: 1440, PathMTU: 1328, Redials: 3, Repairs: 4, Errors: 5,
		}
	}, func() (map[string]linux.Counter, error) {
		return map[string]linux.Counter{gateway.DroppedSource: {Packets: 7}}, nil
	})
	m.now = func() time.Time { return now }
	m.latencies.Observe(1500)
	return m
}

func TestMetricsHaveLiqosNamesAndOurs(t *testing.T) {
	const want = `
# HELP liqo_peer_is_connected 1 while the peer's gateway answers pings through the tunnel.
# TYPE liqo_peer_is_connected gauge
liqo_peer_is_connected{cluster_id="rome",driver="liqo_wireguard"} 1
# HELP liqo_peer_latency_us Round trip to the peer's gateway through the tunnel, in microseconds.
# TYPE liqo_peer_latency_us gauge
liqo_peer_latency_us{cluster_id="rome",driver="liqo_wireguard"} 1500
# HELP liqo_peer_receive_bytes_total Bytes received from the peer through the tunnel.
# TYPE liqo_peer_receive_bytes_total counter
liqo_peer_receive_bytes_total{cluster_id="rome",driver="liqo_wireguard"} 10
# HELP liqo_tui_dropped_packets_total Packets that the gateway refused.
# TYPE liqo_tui_dropped_packets_total counter
liqo_tui_dropped_packets_total{cluster_id="rome",driver="liqo_wireguard",reason="dropped-closed"} 0
liqo_tui_dropped_packets_total{cluster_id="rome",driver="liqo_wireguard",reason="dropped-destination"} 0
liqo_tui_dropped_packets_total{cluster_id="rome",driver="liqo_wireguard",reason="dropped-fabric"} 0
liqo_tui_dropped_packets_total{cluster_id="rome",driver="liqo_wireguard",reason="dropped-input"} 0
liqo_tui_dropped_packets_total{cluster_id="rome",driver="liqo_wireguard",reason="dropped-nodes"} 0
liqo_tui_dropped_packets_total{cluster_id="rome",driver="liqo_wireguard",reason="dropped-output"} 0
liqo_tui_dropped_packets_total{cluster_id="rome",driver="liqo_wireguard",reason="dropped-source"} 7
# HELP liqo_tui_handshake_age_seconds Seconds since the last handshake; absent before the first.
# TYPE liqo_tui_handshake_age_seconds gauge
liqo_tui_handshake_age_seconds{cluster_id="rome",driver="liqo_wireguard"} 90
# HELP liqo_tui_path_mtu_bytes Longest packet that passes through the tunnel; absent while unknown.
# TYPE liqo_tui_path_mtu_bytes gauge
liqo_tui_path_mtu_bytes{cluster_id="rome",driver="liqo_wireguard"} 1328
`
	err := testutil.CollectAndCompare(fullMetrics(), strings.NewReader(want), "liqo_peer_is_connected", "liqo_peer_latency_us",
		"liqo_peer_receive_bytes_total", "liqo_tui_dropped_packets_total", "liqo_tui_handshake_age_seconds", "liqo_tui_path_mtu_bytes")
	if err != nil {
		t.Error(err)
	}
	problems, err := testutil.CollectAndLint(fullMetrics())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		// Liqo's metrics use microseconds, and their names too.
		if !strings.HasPrefix(p.Metric, "liqo_peer_latency") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// Dashboards and alerts of other projects use these metrics.
func TestMetricsOfGatewaysStay(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(fullMetrics()); err != nil {
		t.Fatal(err)
	}
	lines := frozen.Metrics(t, registry)
	described := make(chan *prometheus.Desc, 100)
	fullMetrics().Describe(described)
	if len(lines) != len(described) {
		t.Errorf("%d metrics of %d have a value: the golden file lacks some", len(lines), len(described))
	}
	frozen.Compare(t, "metrics-gateway.txt", frozen.Section{Title: "Metrics of gateways", Lines: lines})
}

// An unknown value is absent, and not zero.
func TestMetricsOfATunnelThatIsNotUpAreAbsent(t *testing.T) {
	m := newTunnelMetrics("rome", func(time.Time) tunnel.Status { return tunnel.Status{} }, func() (map[string]linux.Counter, error) { return nil, nil })
	for _, name := range []string{"liqo_peer_latency_us", "liqo_tui_handshake_age_seconds", "liqo_tui_path_mtu_bytes", "liqo_wireguard_implementation"} {
		if n := testutil.CollectAndCount(m, name); n != 0 {
			t.Errorf("%s: got %d samples, want none", name, n)
		}
	}
	if n := testutil.CollectAndCount(m, "liqo_peer_is_connected"); n != 1 {
		t.Errorf("liqo_peer_is_connected: got %d samples, want 1", n)
	}
}

// With a standby's metrics of the tunnel, each standby would cause an alert that its peer is down.
func TestMetricsOfAStandbyAreThatItIsOne(t *testing.T) {
	m := newTunnelMetrics("rome", func(time.Time) tunnel.Status { return tunnel.Status{Standby: true} }, func() (map[string]linux.Counter, error) { return nil, nil })
	want := `
# HELP liqo_tui_holds_tunnel 1 for the gateway's pod that holds the tunnel, 0 for one that stands by; only the former exports the metrics of the tunnel.
# TYPE liqo_tui_holds_tunnel gauge
liqo_tui_holds_tunnel{cluster_id="rome",driver="liqo_wireguard"} 0
# HELP liqo_tui_misconfigured 1 while the gateway's pod is not set up as wanted; the Connection contains the reason of the pod that holds the tunnel.
# TYPE liqo_tui_misconfigured gauge
liqo_tui_misconfigured{cluster_id="rome",driver="liqo_wireguard"} 0
`
	if err := testutil.CollectAndCompare(m, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// Some admins would see such a failure only in Prometheus.
func TestMetricsOfAnUnfitMachineAreThatNothingIsConnected(t *testing.T) {
	agent := &gatewayAgent{unfit: linux.ErrMachine}
	m := newTunnelMetrics("rome", agent.status, func() (map[string]linux.Counter, error) { return nil, linux.ErrMachine })
	want := `
# HELP liqo_peer_is_connected 1 while the peer's gateway answers pings through the tunnel.
# TYPE liqo_peer_is_connected gauge
liqo_peer_is_connected{cluster_id="rome",driver="liqo_wireguard"} 0
# HELP liqo_tui_holds_tunnel 1 for the gateway's pod that holds the tunnel, 0 for one that stands by; only the former exports the metrics of the tunnel.
# TYPE liqo_tui_holds_tunnel gauge
liqo_tui_holds_tunnel{cluster_id="rome",driver="liqo_wireguard"} 1
# HELP liqo_tui_misconfigured 1 while the gateway's pod is not set up as wanted; the Connection contains the reason of the pod that holds the tunnel.
# TYPE liqo_tui_misconfigured gauge
liqo_tui_misconfigured{cluster_id="rome",driver="liqo_wireguard"} 1
`
	if err := testutil.CollectAndCompare(m, strings.NewReader(want), "liqo_peer_is_connected", "liqo_tui_holds_tunnel", "liqo_tui_misconfigured"); err != nil {
		t.Error(err)
	}
	agent.standby.Store(true)
	if n := testutil.CollectAndCount(m, "liqo_peer_is_connected"); n != 0 {
		t.Errorf("another pod holds the tunnel: got %d samples, want none", n)
	}
}

// The agent may refuse the objects before the tunnel gets them.
func TestMetricsTellOfASetupThatIsRefused(t *testing.T) {
	agent := &gatewayAgent{tunnel: tunnel.New(tunnel.Config{})}
	m := newTunnelMetrics("rome", agent.statusWithSetup, func() (map[string]linux.Counter, error) { return nil, nil })
	for _, c := range []struct {
		name    string
		problem error
		want    string
	}{
		{"nothing is wrong", nil, "0"},
		{"no Configuration", errNoConfiguration, "1"},
		{"it is there", nil, "0"},
	} {
		agent.setup.problem = c.problem
		want := `
# HELP liqo_tui_misconfigured 1 while the gateway's pod is not set up as wanted; the Connection contains the reason of the pod that holds the tunnel.
# TYPE liqo_tui_misconfigured gauge
liqo_tui_misconfigured{cluster_id="rome",driver="liqo_wireguard"} ` + c.want + "\n"
		if err := testutil.CollectAndCompare(m, strings.NewReader(want), "liqo_tui_misconfigured"); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

var metricName = regexp.MustCompile(`liqo_[a-z_]+`)

// exported returns the names that Prometheus stores.
func exported(t *testing.T) []string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(fullMetrics()); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range families {
		names = append(names, f.GetName(), f.GetName()+"_bucket", f.GetName()+"_sum", f.GetName()+"_count")
	}
	return names
}

func TestDashboardAndAlertsAskForMetricsThatExist(t *testing.T) {
	names := exported(t)
	for _, file := range []string{"grafana.json", "alerts.yaml"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "charts", "dashboards", file))
		if err != nil {
			t.Fatal(err)
		}
		found := metricName.FindAllString(string(text), -1)
		if len(found) < 5 {
			t.Errorf("%s: only %d metrics found: the test sees nothing", file, len(found))
		}
		for _, name := range found {
			// The operator's package tests its own metrics.
			if name != "liqo_wireguard" && !strings.HasPrefix(name, "liqo_tui_operator_") && !slices.Contains(names, name) {
				t.Errorf("%s: %s does not exist", file, name)
			}
		}
	}
}

func TestAlertsSayWhatToDo(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "charts", "dashboards", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []struct {
				Alert       string            `json:"alert"`
				Expr        string            `json:"expr"`
				For         string            `json:"for"`
				Labels      map[string]string `json:"labels"`
				Annotations map[string]string `json:"annotations"`
			} `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.UnmarshalStrict(text, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Groups) == 0 || len(file.Groups[0].Rules) < 5 {
		t.Fatalf("got %+v", file)
	}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if r.Alert == "" || r.Expr == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" || r.Annotations["action"] == "" {
				t.Errorf("%q lacks an expression, severity, summary or action: %+v", r.Alert, r)
			}
			if _, err := time.ParseDuration(r.For); err != nil {
				t.Errorf("%s: for: %v", r.Alert, err)
			}
		}
	}
}
