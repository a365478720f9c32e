package session_test

import (
	"math"
	"slices"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// Before the first answer nothing is lost, however long that takes.
func TestPingsAreLostOnceTheyWereAnswered(t *testing.T) {
	var s session.Series
	now := flowtest.Epoch()
	for _, value := range []networkingv1beta1.ConnectionStatusValue{networkingv1beta1.Connecting, networkingv1beta1.Connected, networkingv1beta1.ConnectionError, networkingv1beta1.Connected} {
		now = now.Add(session.Bucket)
		s.Add(now, flows.Reading{Exists: true, Reported: true, Value: value, At: now, Interval: 10 * time.Second, Latency: time.Millisecond}, session.Rate{})
	}
	// Two of one bucket: the worse one is seen.
	s.Add(now.Add(time.Second), flows.Reading{Exists: true, Reported: true, Value: networkingv1beta1.ConnectionError, At: now.Add(time.Second), Interval: 10 * time.Second}, session.Rate{})
	if got, want := session.Lost(s.Until(now, 5)), []bool{false, false, false, true, true}; !slices.Equal(got, want) {
		t.Errorf("lost: got %v, want %v: none before the first answer", got, want)
	}
}

// Gateways report every 10 s, a little early or late: no bucket is empty for that alone.
func TestAReportThatIsALittleLateLeavesNoGap(t *testing.T) {
	for _, c := range []struct {
		apart time.Duration
		want  []bool
	}{
		{session.Bucket + session.Bucket/5, []bool{true, true, true}},
		{2 * session.Bucket, []bool{true, false, true}}, // one was left out
	} {
		var s session.Series
		first := flowtest.Epoch().Truncate(session.Bucket).Add(session.Bucket - time.Second)
		for _, at := range []time.Time{first, first.Add(c.apart)} {
			s.Add(at, flows.Reading{Exists: true, Reported: true, Value: networkingv1beta1.Connected, At: at, Interval: session.Bucket, Latency: time.Millisecond}, session.Rate{})
		}
		var got []bool
		for _, rtt := range session.RoundTrips(s.Until(first.Add(c.apart), 3)) {
			got = append(got, !math.IsNaN(rtt))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("reports %s apart: measured in %v, want %v", c.apart, got, c.want)
		}
	}
}
