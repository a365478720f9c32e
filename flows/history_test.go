package flows

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/internal/history"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// The cluster's clock is an hour ahead of this machine's.
func TestTheHistoryHasTimesOfThisMachine(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	const ahead = time.Hour
	var r history.Record
	for _, at := range []time.Duration{-history.Span - time.Hour, -time.Hour, 0, time.Hour} { // before now, by the cluster's clock
		r.At(now.Add(ahead + at)).Up = time.Minute
	}
	text, err := r.Text(now.Add(2 * ahead))
	if err != nil {
		t.Fatal(err)
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "gw-milan-history"}, Data: map[string]string{wire.HistoryKey: text}}
	got, err := ReadHistory(object, now, ahead)
	if err != nil || len(got.Cells) != 2 || !got.Cells[0].Start.Equal(now.Add(-time.Hour)) || !got.Cells[1].Start.Equal(now) {
		t.Errorf("got %+v, %v; want cells of an hour ago and of now", got.Cells, err)
	}
	object.Data[wire.HistoryKey] = `{"version":2}`
	const want = "ConfigMap ns/gw-milan-history: parse the recorded history: it has version 2, and this program knows version 1"
	if r, err := ReadHistory(object, now, ahead); err == nil || !strings.Contains(err.Error(), want) || r.Cells != nil {
		t.Errorf("got %+v, %v", r, err)
	}
}
