package operator

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	relied "github.com/liqo-tui/liqo-tui/internal/frozen"
	"github.com/liqo-tui/liqo-tui/internal/ipam"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// The kubelet's probes continue over all terms, so liveness never depends on them.
func TestHealthIsAnsweredOverAllTerms(t *testing.T) {
	var refused error
	h := health{token: func() error { return refused }}
	server, err := h.server(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	for _, step := range []struct {
		name  string
		does  func()
		ready string // the reason that it is not ready; "" if it is
	}{
		{"stands by", func() {}, ""},
		{"waits at the gate", h.leads, "is the leader but cannot work"},
		{"failed", func() { h.ended(errors.New("no such kind")) }, "starts again after an error: no such kind"},
		{"another one leads", h.anotherLeads, ""},
		{"lost the lease", func() { h.leads(); h.ended(nil) }, ""},
		{"its token is refused", func() { refused = errors.New("the API server refuses the token") }, "refuses the token"},
		{"it has another token", func() { refused = nil }, ""},
	} {
		step.does()
		if code, text := get(t, "http://"+server.Listener.Addr().String()+"/healthz"); code != http.StatusOK {
			t.Errorf("%s: got liveness %d %q, want %d", step.name, code, text, http.StatusOK)
		}
		code, text := get(t, "http://"+server.Listener.Addr().String()+"/readyz")
		if (code == http.StatusOK) != (step.ready == "") || !strings.Contains(text, step.ready) {
			t.Errorf("%s: got readiness %d %q, want %q", step.name, code, text, step.ready)
		}
	}
	h.works(cached{reader: clusterWith(t, overlapping("milan", "240.1.0.0/16", "240.1.0.0/16", "240.2.0.0/16"), overlapping("turin"))})
	_, text := get(t, "http://"+server.Listener.Addr().String()+"/metrics")
	for line := range strings.Lines(text) {
		if name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(line, "# HELP "), "# TYPE "), " "); !strings.HasPrefix(name, "liqo_tui_operator_") &&
			!slices.ContainsFunc(ofController, func(known string) bool { return strings.HasPrefix(name, known) }) {
			t.Errorf("got metric %s", name)
		}
	}
	for _, want := range []string{"leads 1", `overlapping_ranges{cluster_id="milan"} 2`, `overlapping_ranges{cluster_id="turin"} 0`} {
		if !strings.Contains(text, "\nliqo_tui_operator_"+want+"\n") {
			t.Errorf("got metrics %q, want %s", text, want)
		}
	}
	for _, file := range []string{"grafana.json", "alerts.yaml"} {
		asked, err := os.ReadFile(filepath.Join("..", "..", "charts", "dashboards", file))
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(`liqo_tui_operator_[a-z_]+`).FindAllString(string(asked), -1)
		for _, name := range found {
			if !strings.Contains(text, "# TYPE "+name+" gauge\n") {
				t.Errorf("%s: %s does not exist", file, name)
			}
		}
		if len(found) == 0 {
			t.Errorf("%s asks for no metric of the operator", file)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Dashboards and alerts of other projects use these metrics. We don't fix the types and labels of
// controller-runtime's metrics.
func TestMetricsOfTheOperatorStay(t *testing.T) {
	var h health
	h.works(cached{reader: clusterWith(t, overlapping("milan", "240.1.0.0/16"))})
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(&h); err != nil {
		t.Fatal(err)
	}
	relied.Compare(t, "metrics-operator.txt",
		relied.Section{Title: "Metrics of the operator", Lines: relied.Metrics(t, registry)},
		relied.Section{Title: "Metrics of controller-runtime that it passes on", Lines: ofController})
}

// cached is a cache that supports only lists.
type cached struct {
	cache.Cache
	reader client.Reader
}

func (c cached) List(ctx context.Context, list client.ObjectList, o ...client.ListOption) error {
	return c.reader.List(ctx, list, o...)
}

// overlapping returns a peer with ranges that contain addresses of the cluster.
func overlapping(peer string, ranges ...string) *networkingv1beta1.Configuration {
	conf := &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{
		Namespace: "liqo-tenant-" + peer, Name: peer, Labels: map[string]string{wire.LabelRemoteCluster: peer},
	}}
	var all []wire.Overlap
	for i, text := range ranges {
		p := netip.MustParsePrefix(text)
		all = append(all, wire.Overlap{Range: p, With: ipam.Reservation{Prefix: netip.PrefixFrom(p.Addr(), 24+i), Reason: "a route of node control"}})
	}
	if len(all) > 0 {
		conf.Status.Conditions = []metav1.Condition{{Type: wire.ConditionOverlap, Status: metav1.ConditionTrue, Message: wire.JoinOverlaps(all)}}
	}
	return conf
}

func get(t *testing.T, url string) (code int, text string) {
	t.Helper()
	answer, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}
