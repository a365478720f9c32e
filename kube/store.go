package kube

import (
	"cmp"
	"context"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// store mirrors the objects of one kind: by a watch where the API server allows
// it, else by listing again every pollInterval.
type store struct {
	kind    string
	newList func() client.ObjectList
	options []client.ListOption
	notify  func()

	mu      sync.Mutex
	objects map[types.NamespacedName]client.Object
	err     error         // of the last attempt; nil when the mirror is up to date
	tried   chan struct{} // closed after the first attempt
	once    sync.Once
}

const (
	pollInterval = 500 * time.Millisecond
	minBackoff   = 200 * time.Millisecond
	maxBackoff   = 2 * time.Second
	listTimeout  = 15 * time.Second
)

func newStore(kind string, newList func() client.ObjectList, notify func(), options ...client.ListOption) *store {
	return &store{
		kind: kind, newList: newList, options: options, notify: notify,
		objects: map[types.NamespacedName]client.Object{}, tried: make(chan struct{}),
	}
}

// run mirrors until ctx ends.
func (s *store) run(ctx context.Context, c client.WithWatch) {
	backoff := minBackoff
	for ctx.Err() == nil {
		err := s.mirror(ctx, c)
		if err == nil {
			backoff = minBackoff // the watch ended, as watches do: list again at once
			continue
		}
		s.fail(err)
		if !sleep(ctx, backoff) {
			return
		}
		backoff = min(backoff*2, maxBackoff)
	}
}

// mirror lists, then watches until the watch ends. A nil error means that it
// ended in the normal way.
func (s *store) mirror(ctx context.Context, c client.WithWatch) error {
	list, err := s.list(ctx, c)
	if err != nil {
		return err
	}
	options := append([]client.ListOption{&client.ListOptions{Raw: watchFrom(list.GetResourceVersion())}}, s.options...)
	w, err := c.Watch(ctx, s.newList(), options...)
	if apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err) {
		// Liqo's peering users may list but not watch.
		sleep(ctx, pollInterval)
		return nil
	}
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		if event.Type == watch.Error {
			// Most often "too old resource version": the next list mends it.
			sleep(ctx, minBackoff)
			return nil
		}
		s.take(event)
	}
	return nil
}

func (s *store) list(ctx context.Context, c client.WithWatch) (client.ObjectList, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	list := s.newList()
	if err := c.List(ctx, list, s.options...); err != nil {
		return nil, err
	}
	found := map[types.NamespacedName]client.Object{}
	err := meta.EachListItem(list, func(o runtime.Object) error {
		obj := o.(client.Object)
		found[client.ObjectKeyFromObject(obj)] = obj
		return nil
	})
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	news := s.err != nil || !sameVersions(s.objects, found)
	s.objects, s.err = found, nil
	s.mu.Unlock()
	s.attempted()
	if news {
		s.notify()
	}
	return list, nil
}

func sameVersions(a, b map[types.NamespacedName]client.Object) bool {
	return maps.EqualFunc(a, b, func(x, y client.Object) bool {
		return x.GetUID() == y.GetUID() && x.GetResourceVersion() == y.GetResourceVersion()
	})
}

func (s *store) take(event watch.Event) {
	obj, ok := event.Object.(client.Object)
	if !ok {
		return
	}
	switch event.Type {
	case watch.Added, watch.Modified:
		s.put(obj)
	case watch.Deleted:
		s.remove(obj)
	case watch.Bookmark, watch.Error:
		return
	}
	s.notify()
}

// put keeps the newer of obj and what is there: an answer to a write may
// overtake the watch.
func (s *store) put(obj client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := client.ObjectKeyFromObject(obj)
	if old, ok := s.objects[key]; ok && old.GetUID() == obj.GetUID() && compareVersions(old.GetResourceVersion(), obj.GetResourceVersion()) > 0 {
		return
	}
	s.objects[key] = obj
}

func (s *store) remove(obj client.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := client.ObjectKeyFromObject(obj)
	if old, ok := s.objects[key]; ok && old.GetUID() == obj.GetUID() {
		delete(s.objects, key)
	}
}

// compareVersions orders resource versions of one object: Kubernetes defines
// them as decimal numbers that only grow (KEP-5504).
func compareVersions(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

func (s *store) fail(err error) {
	s.mu.Lock()
	same := s.err != nil && s.err.Error() == err.Error()
	s.err = err
	s.mu.Unlock()
	s.attempted()
	if !same {
		s.notify()
	}
}

func (s *store) attempted() { s.once.Do(func() { close(s.tried) }) }

// snapshot is what is mirrored now, and why that may be out of date.
func (s *store) snapshot() ([]client.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	objects := make([]client.Object, 0, len(s.objects))
	for _, o := range s.objects {
		objects = append(objects, o)
	}
	return objects, s.err
}

func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// selects reports whether the mirror's list options choose obj.
func (s *store) selects(obj client.Object) bool {
	var o client.ListOptions
	o.ApplyOptions(s.options)
	return (o.Namespace == "" || o.Namespace == obj.GetNamespace()) &&
		(o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(obj.GetLabels())))
}

func fromUnstructured(u *unstructured.Unstructured, into client.Object) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into)
}
