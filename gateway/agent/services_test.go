package agent

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/exports"
	"github.com/liqo-tui/liqo-tui/gateway/ping"
	"github.com/liqo-tui/liqo-tui/gateway/tunnel"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// cached lists slices as a cache does.
type cached struct {
	client.Reader
	all []discoveryv1.EndpointSlice
}

func (c *cached) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	into, ok := list.(*discoveryv1.EndpointSliceList)
	if !ok {
		return errors.New("not a list of slices")
	}
	into.Items = c.all
	return nil
}

func romesExport(name string, addresses ...string) discoveryv1.EndpointSlice {
	s := discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "payments", Name: name, Annotations: map[string]string{wire.AnnotationServiceHead: "{}"},
			Labels: map[string]string{mcsv1beta1.LabelSourceCluster: "rome", mcsv1beta1.LabelServiceName: "db", discoveryv1.LabelManagedBy: wire.ManagedBy},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for _, a := range addresses {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
	}
	return s
}

func TestAGatewayServesWhatItsClusterExports(t *testing.T) {
	c := &cached{all: []discoveryv1.EndpointSlice{romesExport("a", "10.1.0.5"), romesExport("b", "10.1.0.6", "192.168.1.1")}}
	c.all[0].Annotations[wire.AnnotationExportTo] = "turin"
	g := &gatewayAgent{options: TunnelOptions{
		Gateway: render.Gateway{Tenant: render.Tenant{Remote: "milan"}}, Services: "rome", Log: slog.New(slog.DiscardHandler),
	}}
	x := &exchange{g: g, cache: c, store: exports.NewStore(time.Now()), exports: map[client.ObjectKey]servedSlice{}}
	ranges := func(text string) []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix(text)} }
	want := func(when string, served, outside int) {
		t.Helper()
		if r := x.report(); r.Served != served || r.Outside != outside {
			t.Errorf("%s: %d served, %d outside, want %d and %d", when, r.Served, r.Outside, served, outside)
		}
	}
	x.changed(&c.all[1])
	want("before all is read", 0, 0)
	if x.present() != 0 || x.report().ServeProblem == "" {
		t.Error("the exchange begins before anything is known")
	}
	x.set(t.Context(), ranges("10.1.0.0/16"), ranges("10.2.0.0/16"))
	x.synced = true
	x.fill(t.Context())
	want("all is read", 1, 1)
	began := x.present()
	if began == 0 {
		t.Error("the exchange does not begin")
	}
	c.all[0].Annotations[wire.AnnotationExportTo] = "milan"
	x.changed(&c.all[0])
	want("exported to this peer too", 2, 1)
	both := []gateway.Endpoint{
		{Addr: netip.MustParseAddr("10.1.0.5"), Protocol: gateway.UDP, Port: 53}, {Addr: netip.MustParseAddr("10.1.0.6"), Protocol: gateway.TCP, Port: 80},
	}
	c.all[0].Ports = []discoveryv1.EndpointPort{{Port: new(int32(53)), Protocol: new(corev1.ProtocolUDP)}, {Port: nil}}
	c.all[1].Ports = []discoveryv1.EndpointPort{{Port: new(int32(80))}}
	requests := 0
	x.request = func() { requests++ }
	x.changed(&c.all[0])
	x.changed(&c.all[1])
	if got := x.open(); !slices.Equal(got, both) || requests != 2 {
		t.Errorf("got %v open and %d requests, want %v: no address outside of the pods' ranges, and the tunnel's controller asked", got, requests, both)
	}
	c.all[1].Annotations[wire.AnnotationExportTo] = "turin"
	x.changed(&c.all[1])
	want("no more exported to it", 1, 0)
	if got := x.open(); !slices.Equal(got, both[:1]) {
		t.Errorf("got %v open, want %v", got, both[:1])
	}
	x.set(t.Context(), ranges("10.9.0.0/16"), ranges("10.2.0.0/16"))
	want("renumbered", 1, 1)
	if x.present() == began {
		t.Error("other ranges do not begin another exchange")
	}
	x.gone(client.ObjectKeyFromObject(&c.all[0]))
	want("deleted", 0, 0)
	if got := x.open(); len(got) > 0 {
		t.Errorf("open after the export is deleted: %v", got)
	}
	g.standby.Store(true)
	if x.present() != 0 {
		t.Error("a pod that stands by exchanges Services")
	}
}

func TestAReportAboutServicesIsNews(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		now, last *wire.ServicesReport
		news      bool
	}{
		"none":            {nil, nil, false},
		"the first":       {&wire.ServicesReport{}, nil, true},
		"other numbers":   {&wire.ServicesReport{Served: 7, Received: 8, Heard: &now}, &wire.ServicesReport{}, false},
		"a problem":       {&wire.ServicesReport{Problem: "x"}, &wire.ServicesReport{}, true},
		"all was read":    {&wire.ServicesReport{Complete: &now}, &wire.ServicesReport{}, true},
		"nothing is read": {&wire.ServicesReport{ServeProblem: "x"}, &wire.ServicesReport{}, true},
	} {
		if got := servicesNews(c.now, c.last); got != c.news {
			t.Errorf("%s: news is %v", name, got)
		}
	}
}

func TestAPeerThatIsNotHeardIsQuiet(t *testing.T) {
	now := time.Unix(1000, 0)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	for name, c := range map[string]struct {
		reply, heard time.Time
		latency      time.Duration
		quiet        bool
	}{
		"never answered":             {heard: ago(time.Minute)},
		"answers":                    {reply: ago(2 * time.Second), heard: ago(2 * time.Second)},
		"no answer, but packets":     {reply: ago(time.Minute), heard: ago(time.Second)},
		"nothing comes":              {reply: ago(2500 * time.Millisecond), heard: ago(2500 * time.Millisecond), quiet: true},
		"nothing comes, a long path": {reply: ago(2500 * time.Millisecond), heard: ago(2500 * time.Millisecond), latency: 300 * time.Millisecond},
		"no packet after the answer": {reply: ago(2500 * time.Millisecond), heard: ago(time.Minute), quiet: true},
	} {
		at, heard := quietAt(tunnel.Status{Pings: ping.Status{LastReply: c.reply, Latency: c.latency}, Heard: c.heard})
		if got := heard && !now.Before(at); got != c.quiet {
			t.Errorf("%s: got quiet %t, want %t", name, got, c.quiet)
		}
	}
}
