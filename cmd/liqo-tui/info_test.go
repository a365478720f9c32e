package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/info"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/verify"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// connectionOf is a cluster with one peer, milan, and what its gateway says.
func connectionOf(value networkingv1beta1.ConnectionStatusValue, at time.Time, report *wire.Report) flows.ClusterFacts {
	meta := metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan", Labels: map[string]string{wire.LabelRemoteCluster: "milan"}}
	c := networkingv1beta1.Connection{ObjectMeta: meta}
	c.Status.Value = value
	c.Status.Latency = networkingv1beta1.ConnectionLatency{Value: "2ms", Timestamp: metav1.NewTime(at)}
	if report != nil {
		text, err := json.Marshal(report)
		if err != nil {
			panic(err)
		}
		c.Annotations = map[string]string{wire.AnnotationStatus: string(text)}
	}
	conf := networkingv1beta1.Configuration{ObjectMeta: meta}
	conf.Spec.Remote.CIDR = networkingv1beta1.ClusterConfigCIDR{Pod: []networkingv1beta1.CIDR{"10.244.0.0/16"}, External: []networkingv1beta1.CIDR{"10.70.0.0/16"}}
	conf.Status.Remote = &conf.Spec.Remote
	return flows.ClusterFacts{ID: "rome", Software: flows.Liqo, Configurations: []networkingv1beta1.Configuration{conf}, Connections: []networkingv1beta1.Connection{c}, Clients: []networkingv1beta1.GatewayClient{{ObjectMeta: meta}}}
}

// An MTU that the gateways find is shown with its present value: the same that check and the dashboard name.
func TestInfoSaysWhichMTUIsInForce(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for want, c := range map[string]struct {
		chosen int
		report *wire.Report
	}{
		"MTU auto (1428 now)": {wire.MaxMTU, &wire.Report{At: now, Interval: 10, MTU: 1440, PathMTU: 1428}},
		"MTU 1340":            {1340, &wire.Report{At: now, Interval: 10, MTU: 1340, PathMTU: 1420}},
		"MTU 9000":            {wire.MaxMTU, nil}, // Liqo's gateways take it as it is
	} {
		facts := connectionOf(networkingv1beta1.Connected, now, c.report)
		facts.Clients[0].Spec.MTU = c.chosen
		var text bytes.Buffer
		if err := info.WritePeers(&text, info.Describe(facts, now)); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text.String(), want+"\n") {
			t.Errorf("want %s in\n%s", want, text.String())
		}
	}
}

// The pings of Liqo's gateways have a latency, and no share of lost ones.
func TestVerifySaysWhatIsNotReported(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		report *wire.Report
		want   string
	}{
		"Liqo's gateway": {nil, `"loss":null`},
		"ours":           {&wire.Report{At: now, Interval: 10, Loss: 0.5}, `"loss":0.5`},
	} {
		f := flows.Facts{Sides: [2]flows.ClusterFacts{connectionOf(networkingv1beta1.Connected, now, c.report), {ID: "milan"}}, At: now}
		v := verify.Result{Between: verify.Gateways, Directions: [2]verify.Direction{verify.GatewayPings(f, flows.A)}}
		text, err := json.Marshal(report.VerificationOf(v))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), c.want) {
			t.Errorf("%s: got %s, want %s", name, text, c.want)
		}
	}
}

// What a gateway does not report is not zero.
func TestInfoSaysWhatIsNotReported(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		facts      flows.ClusterFacts
		has, hasNo []string // of the text
		json       []string
		get        string // of network.connection.loss
	}{
		"Liqo's gateway": {
			connectionOf(networkingv1beta1.Connected, now, nil),
			[]string{"State       untested: the peer's gateway answers", "Lost pings  not reported by Liqo's gateway", "Traffic     not reported by Liqo's gateway"},
			[]string{"%", "bytes", "no reason"},
			[]string{`"loss": null`, `"receivedBytes": null`, `"sentBytes": null`},
			"null",
		},
		"ours, and no ping was ever answered": {
			connectionOf(networkingv1beta1.Connecting, now, &wire.Report{At: now, Interval: 10, Message: "no handshake", SentBytes: 1480}),
			[]string{"Lost pings  not known: no ping was answered yet", "Traffic     0 bytes received, 1480 sent"},
			[]string{"%"},
			[]string{`"loss": null`, `"receivedBytes": 0`, `"sentBytes": 1480`},
			"null",
		},
		"ours, connected": {
			connectionOf(networkingv1beta1.Connected, now, &wire.Report{At: now, Interval: 10, Message: "the peer's gateway answers pings"}),
			[]string{"Lost pings  0%", "Traffic     0 bytes received, 0 sent", "State       untested: "},
			[]string{"not reported"},
			[]string{`"loss": 0,`, `"receivedBytes": 0`, `"sentBytes": 0`},
			"0",
		},
		"ours, and pods' packets have passed": {
			connectionOf(networkingv1beta1.Connected, now, &wire.Report{At: now, Interval: 10, Message: "the peer's gateway answers pings", PodTraffic: new(now.Add(-time.Minute))}),
			[]string{"State       connected: the peer's gateway answers pings; pod traffic seen 1m0s ago"},
			[]string{"no pod traffic"},
			[]string{`"podTraffic": "`},
			"0",
		},
	} {
		t.Run(name, func(t *testing.T) {
			shown := info.Describe(c.facts, now)
			var text, doc, value bytes.Buffer
			if err := info.WritePeers(&text, shown); err != nil {
				t.Fatal(err)
			}
			if err := report.WriteDocument(&doc, report.JSON, shown); err != nil {
				t.Fatal(err)
			}
			if err := report.WritePath(&value, shown.Peers["milan"], "network.connection.loss"); err != nil || strings.TrimSpace(value.String()) != c.get {
				t.Errorf("--get: got %q, %v; want %s", value.String(), err, c.get)
			}
			for _, want := range c.has {
				if !strings.Contains(text.String(), want) {
					t.Errorf("the text does not say %q:\n%s", want, text.String())
				}
			}
			for _, no := range c.hasNo {
				if strings.Contains(text.String(), no) {
					t.Errorf("the text says %q:\n%s", no, text.String())
				}
			}
			for _, want := range c.json {
				if !strings.Contains(doc.String(), want) {
					t.Errorf("the JSON has no %s:\n%s", want, doc.String())
				}
			}
		})
	}
}

// Figures of a report that is too old to be believed are not shown as those of now.
func TestInfoShowsNoFigureOfAnOldReport(t *testing.T) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for name, r := range map[string]*wire.Report{
		"Liqo's gateway": nil,
		"ours":           {At: now.Add(-time.Hour), Interval: 10, LatencyMicros: 2000, Loss: 0.25, ReceivedBytes: 4711, SentBytes: 4711},
	} {
		doc := info.Describe(connectionOf(networkingv1beta1.Connected, now.Add(-time.Hour), r), now)
		var text bytes.Buffer
		if err := info.WritePeers(&text, doc); err != nil {
			t.Fatal(err)
		}
		if err := info.WriteCluster(&text, doc); err != nil {
			t.Fatal(err)
		}
		for _, figure := range []string{"2ms", "25%", "4711"} {
			if strings.Contains(text.String(), figure) {
				t.Errorf("%s: got %s of an hour ago:\n%s", name, figure, text.String())
			}
		}
		if !strings.Contains(text.String(), "the last report is too old") || !strings.Contains(text.String(), "stale") {
			t.Errorf("%s: got\n%s", name, text.String())
		}
	}
}
