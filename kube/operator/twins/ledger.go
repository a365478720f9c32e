package twins

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"

	"github.com/liqo-tui/liqo-tui/offload"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// ledger says what the pods of each consumer count, over all its twins. A pod is entered
// before it is made, so that several made at once are never more than was granted.
type ledger struct {
	base

	told chan event.GenericEvent // of ShadowPods that may fit now

	mu       sync.Mutex
	accounts map[string]*account           // by tenant namespace
	holders  map[client.ObjectKey]*account // of what is entered or waits, so that nobody looks into the accounts of others
}

func newLedger(b base) *ledger {
	return &ledger{base: b, told: make(chan event.GenericEvent, 1024), accounts: map[string]*account{}, holders: map[client.ObjectKey]*account{}}
}

// leastWaiting and the double of the pods that were granted, whichever is more, is how many
// pods of one consumer may wait, over all its twins: so many are looked at when one ends.
// Whatever is more is tried again at crowdedAgain.
const (
	leastWaiting = 1000
	crowdedAgain = 5 * time.Minute
)

// account is that of one consumer. All that is done with it takes a moment, but for what
// looks at those that wait.
type account struct {
	mu      sync.Mutex
	read    bool // what was there before this process
	entries map[client.ObjectKey]entry
	used    corev1.ResourceList
	waiting map[client.ObjectKey]*list.Element // of order
	order   list.List                          // of waiting, as they came
}

func newAccount() *account {
	return &account{entries: map[client.ObjectKey]entry{}, used: corev1.ResourceList{}, waiting: map[client.ObjectKey]*list.Element{}}
}

type entry struct {
	amount corev1.ResourceList
	uid    types.UID // of the pod; "" while it is not known whether there is one
}

type waiting struct {
	key    client.ObjectKey
	amount corev1.ResourceList
}

// of is the account of a tenant namespace, with the pods in it that another process has
// made: of these, a cache may not know yet.
func (l *ledger) of(ctx context.Context, namespace string, id render.ClusterID) (*account, error) {
	l.mu.Lock()
	a := l.accounts[namespace]
	if a == nil {
		a = newAccount()
		l.accounts[namespace] = a
	}
	l.mu.Unlock()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.read {
		return a, nil
	}
	var all corev1.PodList
	if err := l.reader.List(ctx, &all, client.MatchingLabels{peering.LabelMadeBy: peering.MadeByShadowPod, peering.LabelPodOrigin: string(id)}); err != nil {
		return nil, fmt.Errorf("list pods of %s: %w", id, err)
	}
	for i := range all.Items {
		if p := &all.Items[i]; made(p) && !offload.Ended(p.Status.Phase) {
			key := client.ObjectKeyFromObject(p)
			a.enter(key, entry{offload.Sum(&p.Spec), p.UID})
			l.hold(key, a)
		}
	}
	a.read = true
	return a, nil
}

// made reports whether a pod was made of a ShadowPod.
func made(p *corev1.Pod) bool {
	return p.Labels[peering.LabelMadeBy] == peering.MadeByShadowPod && p.Annotations[peering.AnnotationShadow] != ""
}

func (a *account) enter(key client.ObjectKey, e entry) {
	if was, there := a.entries[key]; there {
		offload.Subtract(a.used, was.amount)
	}
	a.entries[key] = e
	offload.Add(a.used, e.amount)
}

// reserve enters a pod that is to be made, or says why there is no room.
func (a *account) reserve(key client.ObjectKey, amount, granted corev1.ResourceList) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	used := corev1.ResourceList{}
	offload.Add(used, a.used)
	if was, there := a.entries[key]; there { // of an attempt before: a consumer may ask for more by now
		offload.Subtract(used, was.amount)
	}
	if err := offload.Fits(amount, used, granted); err != nil {
		pods := granted[corev1.ResourcePods]
		switch most := max(leastWaiting, 2*pods.Value()); {
		case a.waiting[key] != nil:
		case int64(len(a.waiting)) >= most:
			return &crowdedError{err, most}
		default:
			a.waiting[key] = a.order.PushBack(waiting{key, amount})
		}
		return err
	}
	a.forget(key)
	a.enter(key, entry{amount: amount})
	return nil
}

// crowdedError is of a pod for which there is no room, nor a place among those that wait.
type crowdedError struct {
	why  error
	most int64
}

func (e *crowdedError) Error() string {
	return fmt.Sprintf("%s; %d of its cluster's pods wait already, so it is tried again every %s", e.why, e.most, crowdedAgain)
}

// againAfter is when a pod is tried again that has no room; 0 if it waits to be told.
func againAfter(why error) time.Duration {
	if _, crowded := errors.AsType[*crowdedError](why); crowded {
		return crowdedAgain
	}
	return 0
}

func (a *account) forget(key client.ObjectKey) {
	if e := a.waiting[key]; e != nil {
		a.order.Remove(e)
		delete(a.waiting, key)
	}
}

// see enters a pod that is there.
func (a *account) see(key client.ObjectKey, p *corev1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget(key)
	if a.entries[key].uid != p.UID {
		a.enter(key, entry{offload.Sum(&p.Spec), p.UID})
	}
}

// entered is the pod of an entry; there is false without an entry.
func (a *account) entered(key client.ObjectKey) (uid types.UID, there bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e, there := a.entries[key]
	return e.uid, there
}

// release gives back what a pod counted, and names the waiting that fit now: those that
// came first, first.
func (a *account) release(key client.ObjectKey, granted corev1.ResourceList) []client.ObjectKey {
	a.mu.Lock()
	defer a.mu.Unlock()
	e, there := a.entries[key]
	if !there {
		return nil
	}
	delete(a.entries, key)
	offload.Subtract(a.used, e.amount)
	used, next := corev1.ResourceList{}, []client.ObjectKey(nil)
	offload.Add(used, a.used)
	for e := a.order.Front(); e != nil && !exhausted(used, granted); e = e.Next() {
		if w := e.Value.(waiting); offload.Fits(w.amount, used, granted) == nil {
			offload.Add(used, w.amount)
			next = append(next, w.key)
		}
	}
	return next
}

// exhausted reports whether nothing is left of what every pod takes some of.
func exhausted(used, granted corev1.ResourceList) bool {
	for _, name := range []corev1.ResourceName{corev1.ResourcePods, corev1.ResourceCPU} {
		if all, bounds := granted[name]; bounds && all.Cmp(used[name]) <= 0 {
			return true
		}
	}
	return false
}

// leave is of a ShadowPod that does not wait any more.
func (a *account) leave(key client.ObjectKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget(key)
}

// release gives back what a pod counted, and has those tried again that waited for it.
func (l *ledger) release(ctx context.Context, a *account, key client.ObjectKey, granted corev1.ResourceList) {
	for _, next := range a.release(key, granted) {
		l.tell(ctx, next)
	}
}

// hold says whose a pod is; nil for nobody's.
func (l *ledger) hold(key client.ObjectKey, by *account) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if by == nil {
		delete(l.holders, key)
	} else {
		l.holders[key] = by
	}
}

// pass gives back what a pod counted whose namespace is gone, or is now that of the
// consumer of another account, which holds it from now on; nil for none.
func (l *ledger) pass(ctx context.Context, key client.ObjectKey, to *account) error {
	l.mu.Lock()
	a := l.holders[key]
	l.mu.Unlock()
	if a == nil || a == to {
		l.hold(key, to)
		return nil
	}
	a.leave(key)
	if uid, there := a.entered(key); there {
		live := &corev1.Pod{}
		switch err := l.reader.Get(ctx, key, live); {
		case err == nil && live.UID == uid:
			return nil // its end tells
		case client.IgnoreNotFound(err) != nil:
			return fmt.Errorf("read pod %s: %w", key, err)
		}
		a.release(key, nil)
		for _, w := range a.all() {
			l.tell(ctx, w)
		}
	}
	l.hold(key, to)
	return nil
}

func (a *account) all() (keys []client.ObjectKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for e := a.order.Front(); e != nil; e = e.Next() {
		keys = append(keys, e.Value.(waiting).key)
	}
	return keys
}

// Used is what the pods of all consumers count, by the tenant namespace. A consumer that has
// given back what it was granted may still have some.
func (l *ledger) Used(ctx context.Context) (map[string]corev1.ResourceList, error) {
	var twins corev1.NamespaceList
	if err := l.client.List(ctx, &twins, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list namespaces of consumers: %w", err)
	}
	for i := range twins.Items {
		if ns := &twins.Items[i]; peering.IsTwin(ns) {
			if _, err := l.of(ctx, tenantOf(ns), render.ClusterID(ns.Labels[render.LabelRemoteCluster])); err != nil {
				return nil, err
			}
		}
	}
	l.mu.Lock()
	accounts := maps.Clone(l.accounts)
	l.mu.Unlock()
	out := map[string]corev1.ResourceList{}
	for namespace, a := range accounts {
		a.mu.Lock()
		out[namespace] = a.used.DeepCopy()
		a.mu.Unlock()
	}
	return out, nil
}

func (l *ledger) tell(ctx context.Context, key client.ObjectKey) {
	o := &offloadingv1beta1.ShadowPod{}
	o.Namespace, o.Name = key.Namespace, key.Name
	select {
	case l.told <- event.GenericEvent{Object: o}:
	case <-ctx.Done():
	}
}

// waitingIn are the ShadowPods that wait for more to be granted.
func (l *ledger) waitingIn(namespace string) []client.ObjectKey {
	l.mu.Lock()
	a := l.accounts[namespace]
	l.mu.Unlock()
	if a == nil {
		return nil
	}
	return a.all()
}
