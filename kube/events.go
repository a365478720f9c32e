package kube

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/kube/clock"
	"github.com/liqo-tui/liqo-tui/kube/waiting"
)

// warnings are the warning Events in namespaces that have a problem. They are only read then, and not
// watched, because a large cluster has thousands of other Events.
type warnings struct {
	ctx    context.Context // its end stops the reading
	client client.Client
	notify func()
	clock  *clock.Clock

	mu      sync.Mutex
	known   map[string]warned // by namespace
	reading bool
}

// warned holds the warnings of one namespace.
type warned struct {
	at      time.Time // of the last reading
	events  []flows.EventFacts
	problem string // the reason that they could not be read
}

const (
	readEventsEvery = 2 * time.Second
	recentEvents    = 10 * time.Minute
	// maxTroubled is the largest number of namespaces that are read at a time.
	maxTroubled = 20
)

// add adds the namespaces' last known warnings to f. If they are old, they are read again in the
// background.
func (w *warnings) add(f *flows.ClusterFacts, namespaces []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	f.EventsRead = map[string]string{}
	var old []string
	for _, ns := range namespaces {
		known, ok := w.known[ns]
		if ok {
			f.Events, f.EventsRead[ns] = append(f.Events, known.events...), known.problem
		}
		if time.Since(known.at) > readEventsEvery {
			old = append(old, ns)
		}
	}
	if len(old) > 0 && !w.reading {
		w.reading = true
		go w.readAll(old[:min(len(old), maxTroubled)])
	}
	slices.SortFunc(f.Events, newestFirst)
}

func newestFirst(a, b flows.EventFacts) int {
	return cmp.Or(b.At.Compare(a.At), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Reason, b.Reason))
}

func (w *warnings) readAll(namespaces []string) {
	news := false
	for _, ns := range namespaces {
		now := warned{}
		var err error
		if now.events, err = w.list(w.ctx, ns); err != nil {
			now.problem = err.Error()
		}
		now.at = time.Now()
		w.mu.Lock()
		if w.known == nil {
			w.known = map[string]warned{}
		}
		before, ok := w.known[ns]
		news = news || !ok || before.problem != now.problem || !slices.Equal(before.events, now.events)
		w.known[ns] = now
		w.mu.Unlock()
	}
	w.mu.Lock()
	w.reading = false
	w.mu.Unlock()
	if news {
		w.notify()
	}
}

// list reads the recent warnings in one namespace.
func (w *warnings) list(ctx context.Context, namespace string) ([]flows.EventFacts, error) {
	var list corev1.EventList
	if err := w.client.List(ctx, &list, client.InNamespace(namespace), client.MatchingFields{"type": corev1.EventTypeWarning}); err != nil {
		return nil, err
	}
	var found []flows.EventFacts
	for i := range list.Items {
		if wire.IsOwnEvent(&list.Items[i]) {
			continue // the object's own status contains the reason
		}
		if f := eventFacts(&list.Items[i]); time.Since(f.At)+w.clock.Difference() < recentEvents {
			found = append(found, f)
		}
	}
	return found, nil
}

var _ engine.WarningReader = (*Cluster)(nil)

// Warnings implements [engine.WarningReader].
func (c *Cluster) Warnings(ctx context.Context, namespace string) ([]flows.EventFacts, error) {
	found, err := c.warnings.list(ctx, namespace)
	if err != nil {
		return nil, fmt.Errorf("list events in %s: %w", namespace, err)
	}
	slices.SortFunc(found, newestFirst)
	eventsOnOurClock(found, c.clock.Difference())
	return found, nil
}

func eventFacts(e *corev1.Event) flows.EventFacts {
	o := e.InvolvedObject
	name := o.Kind + " " + o.Name
	if o.Namespace != "" {
		name = o.Kind + " " + o.Namespace + "/" + o.Name
	}
	f := flows.EventFacts{Object: name, Reason: e.Reason, Message: e.Message, Count: int(max(e.Count, 1)), At: waiting.At(e)}
	if e.Series != nil {
		f.Count = int(e.Series.Count)
	}
	return f
}

// troubled returns the namespaces that have a problem: the namespaces of connections that don't work, and the
// operator's namespace if the operator does not run.
func troubled(f *flows.ClusterFacts) []string {
	set := map[string]bool{}
	if f.Operator.Problem != "" {
		set[f.Namespace] = true
	}
	for _, p := range f.Pods {
		if !p.Ready {
			set[p.Namespace] = true
		}
	}
	connected := map[string]bool{}
	for i := range f.Connections {
		c := &f.Connections[i]
		connected[c.Namespace] = c.Status.Value == networkingv1beta1.Connected
	}
	for i := range f.Servers {
		s := &f.Servers[i]
		if !connected[s.Namespace] || s.Status.Endpoint == nil {
			set[s.Namespace] = true
		}
	}
	for i := range f.Clients {
		if ns := f.Clients[i].Namespace; !connected[ns] {
			set[ns] = true
		}
	}
	if f.Lending != nil {
		f.Lending.Troubled(func(namespace string) { set[namespace] = true })
	}
	return slices.Sorted(maps.Keys(set))
}
