package session_test

import (
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
