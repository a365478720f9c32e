package agent

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/internal/history"
	"github.com/liqo-tui/liqo-tui/internal/sleep"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// historian adds what this pod records to the history that all pods of the gateway keep, one after the other.
type historian struct {
	key     client.ObjectKey // of the ConfigMap
	client  client.Client
	reader  client.Reader // without a cache
	log     *slog.Logger
	standby func() bool           // another pod holds the tunnel
	take    func() []history.Cell // takes what was recorded since the last call
	// unwritten has the cells that no write has certainly added, and the time of the last attempt.
	unwritten history.Record
}

// historyLook is the time after which a pod looks whether it holds the tunnel, and whether a write is due.
const historyLook = time.Minute

func (h *historian) run(ctx context.Context) error {
	for wait := historyLook; sleep.For(ctx, wait); {
		if wait = historyLook; h.standby() {
			continue
		}
		var err error
		if wait, err = h.write(ctx, time.Now()); err != nil && ctx.Err() == nil {
			h.log.Warn("the history of the connection was not written", "error", err)
		}
	}
	return nil
}

// write adds to the history what no pod has written yet, and returns the time until the next write. All pods of the
// gateway together write once in [history.Interval].
func (h *historian) write(ctx context.Context, now time.Time) (wait time.Duration, err error) {
	var stored corev1.ConfigMap
	if err := h.reader.Get(ctx, h.key, &stored); err != nil {
		return history.Interval, fmt.Errorf("read ConfigMap %s: %w", h.key.Name, err)
	}
	record, err := history.Parse(stored.Data[wire.HistoryKey])
	if err != nil {
		h.log.Warn("begin the history of the connection anew", "error", err)
	}
	// A longer wait is that of a wrong clock.
	if wait := record.Written.Add(history.Interval).Sub(now); wait > 0 && wait <= history.Interval {
		return wait, nil
	}
	if record.Written.Equal(h.unwritten.Written) { // the last write has succeeded, and its answer was lost
		h.unwritten.Cells = nil
	}
	h.unwritten.Add(h.take())
	h.unwritten.Keep(now)
	h.unwritten.Written = now
	record.Add(h.unwritten.Cells)
	text, err := record.Text(now)
	if err != nil {
		return history.Interval, err
	}
	// During a takeover, the pod before may still write. The version makes sure that none overwrites what it has not read.
	if err := patch(ctx, h.client, &stored, map[string]any{
		"metadata": map[string]any{"resourceVersion": stored.ResourceVersion}, "data": map[string]any{wire.HistoryKey: text},
	}); err != nil {
		return history.Interval, fmt.Errorf("write ConfigMap %s: %w", h.key.Name, err)
	}
	h.unwritten.Cells = nil
	return history.Interval, nil
}
