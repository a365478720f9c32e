package alerts

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

// A gateway that says nothing any more is known from what it said before. A
// series ends when its pod is gone, or can't be asked.
func TestAlertsFireForTheGatewayTheyAreAbout(t *testing.T) {
	const (
		rome    = `liqo_tui_holds_tunnel{namespace="liqo-tenant-rome", cluster_id="rome", pod="a"} `
		another = `liqo_tui_holds_tunnel{namespace="liqo-tenant-rome", cluster_id="rome", pod="b"} `
		milan   = `liqo_tui_holds_tunnel{namespace="liqo-tenant-milan", cluster_id="milan", pod="c"} `
	)
	for _, c := range []struct {
		name, alert string
		series      []string // values are a minute apart
		at          time.Duration
		fires       []string // for clusters
	}{
		{"a cluster without peerings", "LiqoGatewayMissing", nil, 10 * time.Minute, nil},
		{"all gateways are heard", "LiqoGatewayMissing", []string{rome + "1x20", milan + "1x20"}, 10 * time.Minute, nil},
		{"one of two is gone", "LiqoGatewayMissing", []string{rome + "1x5 stale", milan + "1x20"}, 10 * time.Minute, []string{"rome"}},
		{"the only one is gone", "LiqoGatewayMissing", []string{rome + "1x5 stale"}, 10 * time.Minute, []string{"rome"}},
		{"another pod took its place", "LiqoGatewayMissing", []string{rome + "1x5 stale", another + "_x6 1x10"}, 10 * time.Minute, nil},
		{"one that stands by is left", "LiqoGatewayMissing", []string{rome + "1x5 stale", another + "0x20"}, 10 * time.Minute, nil},
		{"one that stands by is left, so nobody holds", "LiqoTunnelUnheld", []string{rome + "1x5 stale", another + "0x20"}, 10 * time.Minute, []string{"rome"}},
		{"one can't be set up", "LiqoGatewayMisconfigured", []string{
			`liqo_tui_misconfigured{namespace="liqo-tenant-rome", cluster_id="rome", pod="a"} 1x20`,
			`liqo_tui_misconfigured{namespace="liqo-tenant-milan", cluster_id="milan", pod="c"} 0x20`,
		}, 10 * time.Minute, []string{"rome"}},
		{"the cluster needs addresses of one peer", "LiqoRangeOverlaps", []string{
			`liqo_tui_operator_overlapping_ranges{cluster_id="rome", pod="a"} 2x20`, `liqo_tui_operator_overlapping_ranges{cluster_id="milan", pod="a"} 0x20`,
		}, 10 * time.Minute, []string{"rome"}},
		{"the connection was ended long ago", "LiqoGatewayMissing", []string{rome + "1x5 stale"}, 70 * time.Minute, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := fires(t, c.alert, c.series, c.at); !slices.Equal(got, c.fires) {
				t.Errorf("%s: got it for %q, want %q", c.alert, got, c.fires)
			}
		})
	}
}

// fires returns the clusters for which an alert's expression holds.
func fires(t *testing.T, alert string, series []string, at time.Duration) []string {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 10_000, Timeout: time.Minute})
	query, err := engine.NewInstantQuery(t.Context(), history(t, series), nil, expression(t, alert), time.Unix(0, 0).Add(at))
	if err != nil {
		t.Fatal(err)
	}
	defer query.Close()
	vector, err := query.Exec(t.Context()).Vector()
	if err != nil {
		t.Fatal(err)
	}
	var clusters []string
	for _, sample := range vector {
		clusters = append(clusters, sample.Metric.Get("cluster_id"))
	}
	slices.Sort(clusters)
	return clusters
}

func expression(t *testing.T, alert string) string {
	t.Helper()
	for _, g := range rules(t).Groups {
		for _, r := range g.Rules {
			if r.Alert == alert {
				return r.Expr
			}
		}
	}
	t.Fatalf("no alert %s", alert)
	return ""
}

// history is a Prometheus that has seen series, in promtool's notation.
func history(t *testing.T, descriptions []string) storage.Queryable {
	t.Helper()
	var series []storage.Series
	for _, d := range descriptions {
		name, values, err := parser.NewParser(parser.Options{}).ParseSeriesDesc(d)
		if err != nil {
			t.Fatal(fmt.Errorf("%s: %w", strings.TrimSpace(d), err))
		}
		var samples []chunks.Sample
		for i, v := range values {
			if !v.Omitted {
				samples = append(samples, sample{(time.Duration(i) * time.Minute).Milliseconds(), v.Value})
			}
		}
		series = append(series, storage.NewListSeries(name, samples))
	}
	return &storage.MockQueryable{MockQuerier: &storage.MockQuerier{
		SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
			found := &seriesSet{SeriesSet: storage.EmptySeriesSet()}
			for _, s := range series {
				if matches(s.Labels(), matchers) {
					found.left = append(found.left, s)
				}
			}
			return found
		},
	}}
}

func matches(l labels.Labels, matchers []*labels.Matcher) bool {
	for _, m := range matchers {
		if !m.Matches(l.Get(m.Name)) {
			return false
		}
	}
	return true
}

type seriesSet struct {
	storage.SeriesSet // without errors and warnings
	at                storage.Series
	left              []storage.Series
}

func (s *seriesSet) Next() bool {
	if len(s.left) == 0 {
		return false
	}
	s.at, s.left = s.left[0], s.left[1:]
	return true
}

func (s *seriesSet) At() storage.Series { return s.at }

// sample is a value at a time in milliseconds.
type sample struct {
	at    int64
	value float64
}

func (s sample) T() int64                    { return s.at }
func (sample) ST() int64                     { return 0 }
func (s sample) F() float64                  { return s.value }
func (sample) H() *histogram.Histogram       { return nil }
func (sample) FH() *histogram.FloatHistogram { return nil }
func (sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample         { return s }
