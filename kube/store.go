package kube

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows/kinds"
	"github.com/liqo-tui/liqo-tui/internal/sleep"
)

// store mirrors the objects of one kind by a watch. If this user may not watch the kind, the store lists
// the objects again every pollInterval.
type store struct {
	kind    string
	newList func() client.ObjectList
	options []client.ListOption
	notify  func()

	// watch is an entry of [kinds.All]. It is zero if no facts are made from the objects.
	watch kinds.Watch
	// narrow returns the list option for users who may not list all objects, see Cluster.narrow; nil if
	// there is no such option.
	narrow func() (client.ListOption, bool)

	mu       sync.Mutex
	objects  map[types.NamespacedName]client.Object
	sorted   []client.Object // the objects, sorted by namespace and name; nil after a change of objects
	seen     string          // the API server has sent all changes up to this resource version
	err      error           // the error of the last attempt; nil while the mirror is up to date
	polled   bool            // this user may not watch the kind, or the API server does not serve the watch
	hidden   bool            // this user may not list the kind, and the kind is optional
	narrowed bool            // the last list used the option of narrow
	tried    chan struct{}   // closed after the first attempt
	once     sync.Once
}

const (
	pollInterval = 500 * time.Millisecond
	minBackoff   = 200 * time.Millisecond
	maxBackoff   = 2 * time.Second
	// pageSize is the largest number of objects in an answer, as with kubectl. All objects of a large
	// cluster in one answer would take seconds and hundreds of MB.
	pageSize = 500
	// askAgain is the pause before the store tries a forbidden list again, because an admin may have
	// granted the right meanwhile.
	askAgain = 30 * time.Second
)

func newStore(kind string, newList func() client.ObjectList, notify func(), options ...client.ListOption) *store {
	return &store{
		kind: kind, newList: newList, options: options, notify: notify,
		objects: map[types.NamespacedName]client.Object{}, tried: make(chan struct{}),
	}
}

func (s *store) run(ctx context.Context, c client.WithWatch) {
	backoff := minBackoff
	for ctx.Err() == nil {
		err := s.mirror(ctx, c)
		pause := backoff
		if err == nil {
			pause, backoff = minBackoff, minBackoff // each watch ends after some minutes
		} else {
			if !errors.Is(err, errWatch) { // the objects count as up to date until the next list
				s.fail(err)
			}
			backoff = min(backoff*2, maxBackoff)
		}
		// If an API server ends, all watches of all programs end at the same moment. A random pause keeps
		// them from coming back at the same moment.
		if !sleep.For(ctx, pause/2+rand.N(pause)) {
			return
		}
	}
}

// errWatch means that the API server has ended the watch by an error. The next watch may end as soon.
var errWatch = errors.New("the watch failed")

// mirror lists the objects, and then watches them until the watch ends. The error is nil if the watch ended
// as usual, or if this user may not list or watch the kind.
func (s *store) mirror(ctx context.Context, c client.WithWatch) error {
	list, options, err := s.list(ctx, c)
	// An older API server answers with a bad request if it can't select by the watch's field.
	if s.watch.Optional && (apierrors.IsForbidden(err) || apierrors.IsBadRequest(err)) {
		s.hide()
		sleep.For(ctx, askAgain)
		return nil
	}
	if err != nil {
		return err
	}
	w, err := c.Watch(ctx, s.newList(), append([]client.ListOption{&client.ListOptions{Raw: watchFrom(list.GetResourceVersion())}}, options...)...)
	if apierrors.IsForbidden(err) || apierrors.IsMethodNotSupported(err) {
		// Users that Liqo makes for the admin of a peer may list but not watch.
		s.poll()
		sleep.For(ctx, pollInterval)
		return nil
	}
	if err != nil {
		return err
	}
	defer w.Stop()
	for event := range w.ResultChan() {
		if event.Type == watch.Error {
			if err := apierrors.FromObject(event.Object); !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
				return errWatch
			}
			return nil // "too old resource version": the next list contains all objects again
		}
		s.take(event)
	}
	return nil
}

// list lists all objects and stores them. It returns the last page and the options for the watch.
func (s *store) list(ctx context.Context, c client.WithWatch) (client.ObjectList, []client.ListOption, error) {
	list, options, narrowed := s.newList(), s.options, false
	found := map[types.NamespacedName]client.Object{}
	for more := ""; ; {
		page := append(slices.Clone(options), client.Limit(pageSize), client.Continue(more))
		err := c.List(ctx, list, page...)
		if apierrors.IsForbidden(err) && more == "" && s.narrow != nil {
			if only, ok := s.narrow(); ok {
				options = append(slices.Clone(options), only)
				err = s.listOnly(ctx, c, only, list, options)
				narrowed = true
			}
		}
		if err != nil {
			return nil, nil, err
		}
		err = meta.EachListItem(list, func(o runtime.Object) error {
			if obj := s.kept(o.(client.Object)); obj != nil {
				found[client.ObjectKeyFromObject(obj)] = obj
			}
			return nil
		})
		if err != nil {
			return nil, nil, err
		}
		if more = list.GetContinue(); more == "" {
			break
		}
		list = s.newList() // stored objects may share memory with the last page
	}
	s.mu.Lock()
	news := s.err != nil || s.hidden || !sameVersions(s.objects, found)
	s.objects, s.sorted, s.err, s.hidden, s.narrowed = found, nil, nil, false, narrowed
	s.seen = list.GetResourceVersion()
	s.mu.Unlock()
	s.attempted()
	if news {
		s.notify()
	}
	return list, options, nil
}

// listOnly lists the objects that the option of narrow selects. If the kind is Namespace, it reads the one
// namespace of the option instead.
func (s *store) listOnly(ctx context.Context, c client.WithWatch, only client.ListOption, list client.ObjectList, options []client.ListOption) error {
	namespaces, ofNamespaces := list.(*corev1.NamespaceList)
	namespace, ok := only.(client.InNamespace)
	if !ofNamespaces || !ok {
		return c.List(ctx, list, options...)
	}
	var ns corev1.Namespace
	err := c.Get(ctx, client.ObjectKey{Name: string(namespace)}, &ns)
	if err == nil {
		namespaces.Items = []corev1.Namespace{ns}
	}
	return client.IgnoreNotFound(err)
}

func (s *store) kept(o client.Object) client.Object {
	if s.watch.Keep == nil {
		return o
	}
	return s.watch.Keep(o)
}

// poll records that this user can't watch the kind.
func (s *store) poll() {
	s.mu.Lock()
	news := !s.polled
	s.polled = true
	s.mu.Unlock()
	if news {
		s.notify()
	}
}

// hide records that this user can't list the kind, and forgets its objects.
func (s *store) hide() {
	s.mu.Lock()
	s.objects, s.sorted, s.err, s.hidden = map[types.NamespacedName]client.Object{}, nil, nil, true
	s.mu.Unlock()
	s.attempted()
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
	s.saw(obj.GetResourceVersion())
	news := false
	switch event.Type {
	case watch.Added, watch.Modified:
		news = s.put(obj)
	case watch.Deleted:
		news = s.remove(obj)
	case watch.Bookmark, watch.Error:
	}
	if news {
		s.notify()
	}
}

func (s *store) saw(version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if compareVersions(s.seen, version) < 0 {
		s.seen = version
	}
}

// answer stores the object in the API server's answer to a write. It ignores the object if the watch has already
// delivered a later resource version: the object may have been deleted since, and no later event would
// remove it. answer reports whether anything that the store keeps has changed.
func (s *store) answer(obj client.Object) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return compareVersions(obj.GetResourceVersion(), s.seen) > 0 && s.keepNewer(obj)
}

// put stores an object from the watch. It reports whether anything that the store keeps has changed.
func (s *store) put(obj client.Object) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.keepNewer(obj)
}

// keepNewer stores obj, unless the stored object has the same or a later version. The caller holds the lock.
func (s *store) keepNewer(obj client.Object) bool {
	if obj = s.kept(obj); obj == nil {
		return false
	}
	key := client.ObjectKeyFromObject(obj)
	old, ok := s.objects[key]
	if ok && old.GetUID() == obj.GetUID() && compareVersions(old.GetResourceVersion(), obj.GetResourceVersion()) >= 0 {
		return false
	}
	s.objects[key], s.sorted = obj, nil
	return !ok || s.watch.Keep == nil || !sameKept(old, obj)
}

// sameKept reports whether two versions of an object are equal except for the resource version. Both have only
// the parts that Keep returned.
func sameKept(a, b client.Object) bool {
	b = b.DeepCopyObject().(client.Object)
	b.SetResourceVersion(a.GetResourceVersion())
	return equality.Semantic.DeepEqual(a, b)
}

func (s *store) remove(obj client.Object) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := client.ObjectKeyFromObject(obj)
	old, ok := s.objects[key]
	if !ok || old.GetUID() != obj.GetUID() {
		return false
	}
	delete(s.objects, key)
	s.sorted = nil
	return true
}

// compareVersions compares resource versions of one kind. Kubernetes defines them as decimal numbers that only
// grow (KEP-5504).
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

func (s *store) isPolled() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.polled
}

// isHidden reports whether the objects of the kind are unknown: this user may not list them, or the API server
// has only answered with errors.
func (s *store) isHidden() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hidden || s.seen == "" && s.err != nil && !apierrors.IsNotFound(s.err)
}

// isNarrowed reports whether the last list used the option of narrow, and so has only a part of the objects.
func (s *store) isNarrowed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.narrowed
}

func (s *store) attempted() { s.once.Do(func() { close(s.tried) }) }

// snapshot returns the objects, sorted by namespace and name. If the last attempt failed, it also
// returns the error, and the objects may be out of date. Callers must not change the slice, because it is shared.
func (s *store) snapshot() ([]client.Object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sorted == nil {
		s.sorted = slices.SortedFunc(maps.Values(s.objects), func(a, b client.Object) int {
			return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
		})
	}
	return s.sorted, s.err
}

// namespace returns the mirrored namespace; "" if the store mirrors all namespaces.
func (s *store) namespace() string {
	var o client.ListOptions
	return o.ApplyOptions(s.options).Namespace
}

// selects reports whether the store's list options select obj. It returns false if they have a field selector.
func (s *store) selects(obj client.Object) bool {
	var o client.ListOptions
	o.ApplyOptions(s.options)
	return o.FieldSelector == nil && (o.Namespace == "" || o.Namespace == obj.GetNamespace()) &&
		(o.LabelSelector == nil || o.LabelSelector.Matches(labels.Set(obj.GetLabels())))
}

func fromUnstructured(u *unstructured.Unstructured, into client.Object) error {
	return runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, into)
}
