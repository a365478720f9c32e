package agent

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/gateway/ping"
	"github.com/liqo-tui/liqo-tui/gateway/tunnel"
)

// Metrics whose names begin with liqo_peer or liqo_wireguard have the names and labels of
// Liqo's gateways, so that graphs made for Liqo show our gateways, too. The other metrics
// are our own.
const driver = "liqo_wireguard"

// tunnelMetrics are a gateway's metrics. They are read when Prometheus requests them.
type tunnelMetrics struct {
	clusterID string
	now       func() time.Time
	status    func(time.Time) tunnel.Status
	counters  func() (map[string]linux.Counter, error)
	latencies prometheus.Histogram
}

func peerDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{"driver", "cluster_id"}, labels...), nil)
}

var (
	descReceived = peerDesc("liqo_peer_receive_bytes_total", "Bytes received from the peer through the tunnel.")
	descSent     = peerDesc("liqo_peer_transmit_bytes_total", "Bytes sent to the peer through the tunnel.")
	descLatency  = peerDesc("liqo_peer_latency_us", "Round trip to the peer's gateway through the tunnel, in microseconds.")
	descUp       = peerDesc("liqo_peer_is_connected", "1 while the peer's gateway answers pings through the tunnel.")
	descDriver   = prometheus.NewDesc("liqo_wireguard_implementation", "1 for the implementation of WireGuard in use.", []string{"implementation"}, nil)

	descHolds = peerDesc("liqo_tui_holds_tunnel", "1 for the gateway's pod that holds the tunnel, 0 for one that stands by; only the former exports the metrics of the tunnel.")

	descMisconfigured = peerDesc("liqo_tui_misconfigured", "1 while the gateway's pod is not set up as wanted; the Connection contains the reason of the pod that holds the tunnel.")

	descHandshake = peerDesc("liqo_tui_handshake_age_seconds", "Seconds since the last handshake; absent before the first.")
	descLoss      = peerDesc("liqo_tui_ping_loss_ratio", "Share of the last 30 pings that were not answered, 0 to 1.")
	descPathMTU   = peerDesc("liqo_tui_path_mtu_bytes", "Longest packet that passes through the tunnel; absent while unknown.")
	descLinkMTU   = peerDesc("liqo_tui_link_mtu_bytes", "MTU of the tunnel's interface.")
	descDropped   = peerDesc("liqo_tui_dropped_packets_total", "Packets that the gateway refused.", "reason")
	descRedials   = peerDesc("liqo_tui_redials_total", "Handshakes begun because the peer did not answer.")
	descRepairs   = peerDesc("liqo_tui_repairs_total", "Changes in the kernel by other programs that were repaired.")
	descErrors    = peerDesc("liqo_tui_reconcile_errors_total", "Failed attempts to bring the kernel to the wanted state.")
)

func newTunnelMetrics(clusterID string, status func(time.Time) tunnel.Status, counters func() (map[string]linux.Counter, error)) *tunnelMetrics {
	return &tunnelMetrics{
		clusterID: clusterID, now: time.Now, status: status, counters: counters,
		latencies: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "liqo_peer_latency_histogram_us", Help: "Round trips to the peer's gateway through the tunnel, in microseconds.",
			ConstLabels: prometheus.Labels{"driver": driver, "cluster_id": clusterID},
			Buckets:     prometheus.ExponentialBuckets(100, 2.5, 10), // 0.1 ms to 380 ms
		}),
	}
}

func (m *tunnelMetrics) pinged(latency time.Duration) {
	m.latencies.Observe(float64(latency.Microseconds()))
}

// Describe implements prometheus.Collector.
func (m *tunnelMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descHolds, descMisconfigured, descReceived, descSent, descLatency, descUp, descDriver, descHandshake, descLoss, descPathMTU, descLinkMTU,
		descDropped, descRedials, descRepairs, descErrors, m.latencies.Desc(),
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (m *tunnelMetrics) Collect(ch chan<- prometheus.Metric) {
	now := m.now()
	s := m.status(now)
	send := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, value, append([]string{driver, m.clusterID}, labels...)...)
	}
	misconfigured := 0.0
	if s.Problem != nil {
		misconfigured = 1
	}
	send(descMisconfigured, prometheus.GaugeValue, misconfigured) // also from a pod that stands by, because it could not take over the tunnel
	if s.Standby {
		send(descHolds, prometheus.GaugeValue, 0)
		return
	}
	send(descHolds, prometheus.GaugeValue, 1)
	up := 0.0
	if s.Pings.Value == ping.Connected {
		up = 1
	}
	send(descUp, prometheus.GaugeValue, up)
	send(descReceived, prometheus.CounterValue, float64(s.Peer.Received))
	send(descSent, prometheus.CounterValue, float64(s.Peer.Sent))
	send(descLoss, prometheus.GaugeValue, s.Pings.Loss)
	send(descLinkMTU, prometheus.GaugeValue, float64(s.LinkMTU))
	send(descRedials, prometheus.CounterValue, float64(s.Redials))
	send(descRepairs, prometheus.CounterValue, float64(s.Repairs))
	send(descErrors, prometheus.CounterValue, float64(s.Errors))
	if s.Pings.Latency > 0 {
		send(descLatency, prometheus.GaugeValue, float64(s.Pings.Latency.Microseconds()))
	}
	if !s.Peer.Handshake.IsZero() {
		send(descHandshake, prometheus.GaugeValue, now.Sub(s.Peer.Handshake).Seconds())
	}
	if s.PathMTU > 0 {
		send(descPathMTU, prometheus.GaugeValue, float64(s.PathMTU))
	}
	if s.Peer.Implementation != "" {
		ch <- prometheus.MustNewConstMetric(descDriver, prometheus.GaugeValue, 1, string(s.Peer.Implementation))
	}
	if counters, err := m.counters(); err == nil {
		for _, reason := range []string{gateway.DroppedClosed, gateway.DroppedSource, gateway.DroppedDestination, gateway.DroppedFabric, gateway.DroppedInput, gateway.DroppedNodes, gateway.DroppedOutput} {
			send(descDropped, prometheus.CounterValue, float64(counters[reason].Packets), reason)
		}
	}
	ch <- m.latencies
}
