package wire_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

var reportTime = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func TestParseReport(t *testing.T) {
	handshake := reportTime.Add(-30 * time.Second)
	full := wire.Report{
		At: reportTime, Interval: 10, Reason: wire.ReasonPinged, Message: "the peer answers", Handshake: &handshake,
		LatencyMicros: 1200, Loss: 0.25, ReceivedBytes: 1 << 40, SentBytes: 7, Endpoint: "172.18.0.2:30020", Implementation: "kernel", MTU: 1340,
	}
	text, err := json.Marshal(full)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name        string
		annotations map[string]string
		want        wire.Report
		ok          bool
		err         string
	}{
		{"none", nil, wire.Report{}, false, ""},
		{"somebody else's", map[string]string{"a": "b"}, wire.Report{}, false, ""},
		{"all fields", map[string]string{wire.AnnotationStatus: string(text)}, full, true, ""},
		{
			"a field that is newer than this program",
			map[string]string{wire.AnnotationStatus: `{"reason":"NoPing","jitter":3}`},
			wire.Report{Reason: wire.ReasonNoPing},
			true, "",
		},
		{"empty", map[string]string{wire.AnnotationStatus: ""}, wire.Report{}, false, "parse annotation liqo-tui.dev/status: "},
		{"not JSON", map[string]string{wire.AnnotationStatus: "{"}, wire.Report{}, false, "parse annotation liqo-tui.dev/status: "},
		{"a wrong type", map[string]string{wire.AnnotationStatus: `{"reason":"NoPing","at":3}`}, wire.Report{}, false, "parse annotation liqo-tui.dev/status: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, ok, err := wire.ParseReport(tc.annotations)
			if d := cmp.Diff(tc.want, got); d != "" || ok != tc.ok {
				t.Errorf("ok %v, want %v; report (-want +got):\n%s", ok, tc.ok, d)
			}
			if (err != nil) != (tc.err != "") || err != nil && !strings.HasPrefix(err.Error(), tc.err) {
				t.Errorf("got error %v, want %q", err, tc.err)
			}
		})
	}
}

// Scripts and older programs read these names.
func TestReportFieldNames(t *testing.T) {
	text, err := json.Marshal(wire.Report{At: reportTime, Interval: 10, Reason: wire.ReasonNoKey, Message: "m"})
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"at":"2026-05-04T12:00:00Z","intervalSeconds":10,"reason":"WaitingForPublicKey","message":"m","loss":0,"receivedBytes":0,"sentBytes":0}`
	if string(text) != want {
		t.Errorf("\n got %s\nwant %s", text, want)
	}
}

func TestReportStale(t *testing.T) {
	for _, tc := range []struct {
		name     string
		interval wire.Seconds
		age      time.Duration
		want     bool
	}{
		{"fresh", 10, 0, false},
		{"just believed: three intervals", 10, 30 * time.Second, false},
		{"just not believed", 10, 30*time.Second + 1, true},
		{"from a clock that is ahead", 10, -time.Hour, false},
		{"without an interval it can't be judged", 0, 24 * time.Hour, false},
	} {
		r := wire.Report{At: reportTime, Interval: tc.interval}
		if got := r.Stale(reportTime.Add(tc.age)); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

func TestFormatLatency(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-1: "N/A", 0: "N/A", 1: "0μs", time.Microsecond: "1μs", 999_999: "999μs",
		time.Millisecond: "1ms", 1_999_999: "1ms", 1500 * time.Millisecond: "1500ms",
	} {
		got := wire.FormatLatency(d)
		if got != want {
			t.Errorf("%d ns: got %s, want %s", d, got, want)
		}
		if got == "N/A" {
			continue
		}
		if _, err := time.ParseDuration(got); err != nil { // Liqo's metrics parse it
			t.Errorf("%d ns: %v", d, err)
		}
	}
}
