package agent

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/liqo-tui/liqo-tui/internal/history"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// archive is a gateway's history in an API server, and the pods that write it.
type archive struct {
	t      *testing.T
	api    client.WithWatch
	writes int
	log    bytes.Buffer
	// fail answers a write; nil means that it succeeds. done does the write.
	fail func(done func() error) error
}

func newArchive(t *testing.T) *archive {
	a := &archive{t: t}
	a.api = interceptor.NewClient(fake.NewClientBuilder().WithObjects(&corev1.ConfigMap{ObjectMeta: tenantMeta(wire.HistoryConfigMapName("rome"))}).Build(), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			a.writes++
			if a.fail != nil {
				return a.fail(func() error { return c.Patch(ctx, o, p, opts...) })
			}
			return c.Patch(ctx, o, p, opts...)
		},
	})
	return a
}

// pod returns a pod of the gateway, and the cells that it records.
func (a *archive) pod() (*historian, *history.Record) {
	var recorded history.Record
	return &historian{
		key: client.ObjectKey{Namespace: "liqo-tenant-rome", Name: wire.HistoryConfigMapName("rome")}, client: a.api, reader: a.api,
		log: slog.New(slog.NewTextHandler(&a.log, nil)), standby: func() bool { return false },
		take: func() []history.Cell {
			cells := recorded.Cells
			recorded.Cells = nil
			return cells
		},
	}, &recorded
}

func (a *archive) stored() *corev1.ConfigMap {
	a.t.Helper()
	stored := &corev1.ConfigMap{}
	if err := a.api.Get(a.t.Context(), client.ObjectKey{Namespace: "liqo-tenant-rome", Name: wire.HistoryConfigMapName("rome")}, stored); err != nil {
		a.t.Fatal(err)
	}
	return stored
}

func (a *archive) store(text string) {
	a.t.Helper()
	stored := a.stored()
	stored.Data = map[string]string{wire.HistoryKey: text}
	if err := a.api.Update(a.t.Context(), stored); err != nil {
		a.t.Fatal(err)
	}
}

func (a *archive) want(what string, want ...history.Cell) {
	a.t.Helper()
	got, err := history.Parse(a.stored().Data[wire.HistoryKey])
	if diff := cmp.Diff(want, got.Cells); diff != "" || err != nil {
		a.t.Errorf("%s: %v (-want +got):\n%s", what, err, diff)
	}
}

func (a *archive) write(h *historian, at time.Time, want time.Duration) {
	a.t.Helper()
	if wait, err := h.write(a.t.Context(), at); err != nil || wait != want {
		a.t.Errorf("at %s: next write in %s, %v; want %s", at.Format(time.TimeOnly), wait, err, want)
	}
}

var midday = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func up(after, lasts time.Duration) history.Cell {
	return history.Cell{Start: midday.Add(after), Up: lasts}
}

// The first pod is lost 3 minutes after its last write. What it has recorded in them is unknown.
func TestTheNextPodContinuesTheHistory(t *testing.T) {
	a := newArchive(t)
	first, cells := a.pod()
	cells.Add([]history.Cell{up(0, 5*time.Minute), up(5*time.Minute, 4*time.Minute)})
	a.write(first, midday.Add(9*time.Minute), history.Interval)
	cells.Add([]history.Cell{up(5*time.Minute, time.Minute), up(10*time.Minute, 2*time.Minute)})

	second, cells := a.pod()
	cells.Add([]history.Cell{up(10*time.Minute, 2*time.Minute)})
	a.write(second, midday.Add(15*time.Minute), 4*time.Minute)
	if a.writes != 1 {
		t.Errorf("%d writes in 10 minutes, want 1", a.writes)
	}
	cells.Add([]history.Cell{up(15*time.Minute, 4*time.Minute)})
	a.write(second, midday.Add(19*time.Minute), history.Interval)
	a.want("after both", up(0, 5*time.Minute), up(5*time.Minute, 4*time.Minute), up(10*time.Minute, 2*time.Minute), up(15*time.Minute, 4*time.Minute))
	if a.log.Len() > 0 {
		t.Errorf("logged %s", a.log.String())
	}
}

// The pod before has read the history when it loses the tunnel, and writes after the next pod has written.
func TestAPodDoesNotOverwriteWhatAnotherHasWritten(t *testing.T) {
	a := newArchive(t)
	before, cells := a.pod()
	cells.Add([]history.Cell{up(0, 5*time.Minute)})
	next, cells := a.pod()
	cells.Add([]history.Cell{up(5*time.Minute, 4*time.Minute)})
	a.fail = func(done func() error) error {
		a.fail = nil
		a.write(next, midday.Add(9*time.Minute+time.Second), history.Interval)
		return done()
	}
	if _, err := before.write(t.Context(), midday.Add(9*time.Minute)); !apierrors.IsConflict(err) {
		t.Errorf("got %v, want a conflict", err)
	}
	a.want("after the next pod", up(5*time.Minute, 4*time.Minute))
	a.write(before, midday.Add(20*time.Minute), history.Interval) // it has the tunnel again
	a.want("after both", up(0, 5*time.Minute), up(5*time.Minute, 4*time.Minute))
}

func TestWhatCouldNotBeWrittenIsWrittenLater(t *testing.T) {
	away := errors.New("connection refused")
	for name, fail := range map[string]func(done func() error) error{
		"the API server is away": func(func() error) error { return away },
		"the answer is lost":     func(done func() error) error { return errors.Join(done(), away) },
	} {
		t.Run(name, func(t *testing.T) {
			a := newArchive(t)
			h, cells := a.pod()
			cells.Add([]history.Cell{up(0, 2*time.Minute)})
			a.fail = fail
			if _, err := h.write(t.Context(), midday.Add(2*time.Minute)); !errors.Is(err, away) {
				t.Errorf("got %v", err)
			}
			a.fail = nil
			cells.Add([]history.Cell{up(0, time.Minute), up(10*time.Minute, 3*time.Minute)})
			a.write(h, midday.Add(13*time.Minute), history.Interval)
			a.want("then", up(0, 3*time.Minute), up(10*time.Minute, 3*time.Minute))
		})
	}
}

func TestADamagedHistoryBeginsAnew(t *testing.T) {
	for _, text := range []string{"x", "null", `{"version":2}`, strings.Repeat(" ", 1<<20)} {
		a := newArchive(t)
		a.store(text)
		h, cells := a.pod()
		cells.Add([]history.Cell{up(0, time.Minute)})
		a.write(h, midday.Add(time.Minute), history.Interval)
		a.want("then", up(0, time.Minute))
		if got := a.log.String(); !strings.Contains(got, "begin the history of the connection anew") || len(got) > 300 {
			t.Errorf("logged %.400q", got)
		}
	}
}

// The clock of the node of the pod before was a year ahead.
func TestAWrongClockDoesNotEndTheHistory(t *testing.T) {
	const year = 365 * 24 * time.Hour
	a := newArchive(t)
	wrong, cells := a.pod()
	cells.Add([]history.Cell{up(year, 5*time.Minute)})
	a.write(wrong, midday.Add(year+5*time.Minute), history.Interval)
	right, cells := a.pod()
	cells.Add([]history.Cell{up(0, 5*time.Minute)})
	a.write(right, midday.Add(5*time.Minute), history.Interval)
	a.want("then", up(0, 5*time.Minute))
}

// A pod that stands by writes nothing, and the pod that holds the tunnel writes 6 times in an hour.
func TestOnlyThePodThatHoldsTheTunnelWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newArchive(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		standby, _ := a.pod()
		standby.standby = func() bool { return true }
		holder, cells := a.pod()
		began := time.Now()
		for _, h := range []*historian{standby, holder} {
			go func() { _ = h.run(ctx) }()
		}
		cells.At(began).Up = time.Minute
		time.Sleep(time.Hour + 2*historyLook)
		synctest.Wait()
		if a.writes != 7 { // the first after a minute
			t.Errorf("%d writes in an hour, want 7", a.writes)
		}
		got, err := history.Parse(a.stored().Data[wire.HistoryKey])
		if err != nil || got.Sum().Up != time.Minute {
			t.Errorf("got %+v, %v", got, err)
		}
	})
}
