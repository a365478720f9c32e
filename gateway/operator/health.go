package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// health answers the kubelet's probes while this process runs, whether it leads or not.
type health struct {
	token func() error // see [Options]

	mu    sync.Mutex
	state state
	cache cache.Cache // of the manager, while working
	// failed is the error that ended the last term, until this or another replica leads.
	failed error
}

// state is what this replica does now.
type state int

const (
	standingBy state = iota
	leading          // the leader, which waits at the gate
	working
)

func (h *health) leads() { h.set(leading, nil, nil) }

func (h *health) works(c cache.Cache) { h.set(working, c, nil) }

func (h *health) ended(err error) { h.set(standingBy, nil, err) }

func (h *health) set(s state, c cache.Cache, failed error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.state, h.cache, h.failed = s, c, failed
}

// anotherLeads forgets the last error: it does not matter while another replica leads.
func (h *health) anotherLeads() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed = nil
}

// ready returns nil if a replica handles changes of the cluster: this replica or the leader.
func (h *health) ready(r *http.Request) error {
	h.mu.Lock()
	state, cache, failed := h.state, h.cache, h.failed
	h.mu.Unlock()
	if h.token != nil {
		if err := h.token(); err != nil { // without a valid token, this replica can neither lead nor see whether another one leads
			return err
		}
	}
	switch {
	case state == standingBy && failed != nil:
		return fmt.Errorf("starts again after an error: %w", failed)
	case state == leading:
		return errors.New("is the leader but cannot work: see the log")
	case state == working && !cache.WaitForCacheSync(r.Context()):
		return errors.New("the caches have not synced")
	}
	return nil
}

// ofController are the metrics of controller-runtime that are exported: failures, queues, and requests to the
// API server. controller-runtime has a hundred more metrics.
var ofController = []string{
	"controller_runtime_reconcile_total", "controller_runtime_reconcile_errors_total", "workqueue_depth", "rest_client_requests_total",
}

var (
	descLeads    = prometheus.NewDesc("liqo_tui_operator_leads", "1 for the replica of the operator that works, 0 for one that stands by or waits.", nil, nil)
	descOverlaps = prometheus.NewDesc("liqo_tui_operator_overlapping_ranges",
		"How many of the ranges under which a peer is seen have addresses that the cluster needs for something else; liqo-tui check names them.", []string{"cluster_id"}, nil)
)

// Describe implements prometheus.Collector.
func (h *health) Describe(ch chan<- *prometheus.Desc) { ch <- descLeads; ch <- descOverlaps }

// Collect implements prometheus.Collector.
func (h *health) Collect(ch chan<- prometheus.Metric) {
	h.mu.Lock()
	state, cache := h.state, h.cache
	h.mu.Unlock()
	leads := 0.0
	if state == working {
		leads = 1
		collectOverlaps(ch, cache)
	}
	ch <- prometheus.MustNewConstMetric(descLeads, prometheus.GaugeValue, leads)
}

// collectOverlaps counts the overlapping ranges that the operator has reported. It skips values that can't be
// read, such as during the start.
func collectOverlaps(ch chan<- prometheus.Metric, from client.Reader) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	var list networkingv1beta1.ConfigurationList
	if err := from.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	ranges := map[string]map[netip.Prefix]bool{} // by peer
	for i := range list.Items {
		peer := cmp.Or(list.Items[i].Labels[wire.LabelRemoteCluster], list.Items[i].Name)
		if ranges[peer] == nil {
			ranges[peer] = map[netip.Prefix]bool{}
		}
		for _, o := range wire.Overlaps(&list.Items[i]) {
			ranges[peer][o.Range] = true
		}
	}
	for peer, overlapping := range ranges {
		ch <- prometheus.MustNewConstMetric(descOverlaps, prometheus.GaugeValue, float64(len(overlapping)), peer)
	}
}

func (h *health) metrics() prometheus.Gatherer {
	own := prometheus.NewRegistry()
	own.MustRegister(h)
	return prometheus.Gatherers{own, prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		all, err := metrics.Registry.Gather()
		return slices.DeleteFunc(all, func(f *dto.MetricFamily) bool { return !slices.Contains(ofController, f.GetName()) }), err
	})}
}

// server answers probes at address. /healthz never fails: a restart would not help an operator that can't
// reach the API server.
func (h *health) server(ctx context.Context, address string) (*manager.Server, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("answer the kubelet: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("/healthz", healthz.CheckHandler{Checker: healthz.Ping})
	mux.Handle("/readyz", healthz.CheckHandler{Checker: h.ready})
	mux.Handle("/metrics", promhttp.HandlerFor(h.metrics(), promhttp.HandlerOpts{}))
	return &manager.Server{
		Name:            "health probe",
		Server:          &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second},
		Listener:        listener,
		ShutdownTimeout: new(time.Second),
	}, nil
}
