package provider

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

	"github.com/liqo-tui/liqo-tui/internal/offload"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// ledger counts the resources of each consumer's pods in all of its mapped namespaces. It counts a pod before
// the pod is created. Otherwise several pods that are created at once could exceed the grants.
type ledger struct {
	base

	told chan event.GenericEvent // has ShadowPods that may fit now

	mu       sync.Mutex
	accounts map[string]*account           // by tenant namespace
	holders  map[client.ObjectKey]*account // the account of each counted or waiting pod
}

func newLedger(b base) *ledger {
	return &ledger{base: b, told: make(chan event.GenericEvent, 1024), accounts: map[string]*account{}, holders: map[client.ObjectKey]*account{}}
}

// The number of waiting pods of one consumer has a limit, because each pod that ends causes a look at all
// waiting pods. The limit is leastWaiting, or twice the number of granted pods if that is more. The operator
// tries further pods again after crowdedAgain.
const (
	leastWaiting = 1000
	crowdedAgain = 5 * time.Minute
)

// account counts the resources of one consumer's pods. An operation that looks at all waiting pods can take long,
// all others are short.
type account struct {
	mu      sync.Mutex
	read    bool // the pods from before the start of this process are counted
	entries map[client.ObjectKey]entry
	used    corev1.ResourceList
	waiting map[client.ObjectKey]*list.Element // elements of order
	order   list.List                          // the waiting pods, the oldest first
}

func newAccount() *account {
	return &account{entries: map[client.ObjectKey]entry{}, used: corev1.ResourceList{}, waiting: map[client.ObjectKey]*list.Element{}}
}

type entry struct {
	amount corev1.ResourceList
	uid    types.UID // the UID of the pod; "" until the pod was seen
}

type waiting struct {
	key    client.ObjectKey
	amount corev1.ResourceList
}

// of returns the account of a tenant namespace. The first call counts the pods of earlier processes. It reads
// these pods from the API server, because the cache may not have them yet.
func (l *ledger) of(ctx context.Context, namespace string, id wire.ClusterID) (*account, error) {
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

// made reports whether a pod was made from a ShadowPod.
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

// reserve counts a pod before it is created. If the grants have no room for the pod, the pod waits, and reserve
// returns the reason.
func (a *account) reserve(key client.ObjectKey, amount, granted corev1.ResourceList) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	used := corev1.ResourceList{}
	offload.Add(used, a.used)
	if was, there := a.entries[key]; there { // an earlier attempt, perhaps with another amount
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

// crowdedError says that the grants have no room for a pod, and that too many pods wait already.
type crowdedError struct {
	why  error
	most int64
}

func (e *crowdedError) Error() string {
	return fmt.Sprintf("%s; %d of its cluster's pods wait already, so it is tried again every %s", e.why, e.most, crowdedAgain)
}

// againAfter returns the time after which the operator tries a pod without room again. 0 means that the pod waits
// for a signal of the ledger.
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

// see counts an existing pod.
func (a *account) see(key client.ObjectKey, p *corev1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget(key)
	if a.entries[key].uid != p.UID {
		a.enter(key, entry{offload.Sum(&p.Spec), p.UID})
	}
}

// entered returns the UID of an entry's pod; there is false if there is no entry.
func (a *account) entered(key client.ObjectKey) (uid types.UID, there bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	e, there := a.entries[key]
	return e.uid, there
}

// release removes the entry of a pod, and returns the waiting pods that fit now, the oldest first.
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

// exhausted reports whether no pod can fit, because CPU or the number of pods is used up. Every pod needs both.
func exhausted(used, granted corev1.ResourceList) bool {
	for _, name := range []corev1.ResourceName{corev1.ResourcePods, corev1.ResourceCPU} {
		if all, bounds := granted[name]; bounds && all.Cmp(used[name]) <= 0 {
			return true
		}
	}
	return false
}

// leave removes a pod from the waiting pods.
func (a *account) leave(key client.ObjectKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget(key)
}

// release removes the entry of a pod, and signals the waiting pods that fit now.
func (l *ledger) release(ctx context.Context, a *account, key client.ObjectKey, granted corev1.ResourceList) {
	for _, next := range a.release(key, granted) {
		l.tell(ctx, next)
	}
}

// hold records by as the account of a pod. If by is nil, the pod has no account any more.
func (l *ledger) hold(key client.ObjectKey, by *account) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if by == nil {
		delete(l.holders, key)
	} else {
		l.holders[key] = by
	}
}

// pass moves a pod to the account to, which is nil if the pod's namespace is gone. Another consumer may have had a
// mapped namespace of this name before, and its account may still count a pod of this name. If that pod is gone,
// pass removes its entry.
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
			return nil // the former pod still runs, and its end causes an event
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

// Used returns the resources of each consumer's pods, by tenant namespace. A consumer without grants may still
// have pods.
func (l *ledger) Used(ctx context.Context) (map[string]corev1.ResourceList, error) {
	var namespaces corev1.NamespaceList
	if err := l.client.List(ctx, &namespaces, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list namespaces of consumers: %w", err)
	}
	for i := range namespaces.Items {
		if ns := &namespaces.Items[i]; peering.IsMapped(ns) {
			if _, err := l.of(ctx, tenantOf(ns), wire.ClusterID(ns.Labels[wire.LabelRemoteCluster])); err != nil {
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

// waitingIn returns the ShadowPods of a tenant namespace that wait for room.
func (l *ledger) waitingIn(namespace string) []client.ObjectKey {
	l.mu.Lock()
	a := l.accounts[namespace]
	l.mu.Unlock()
	if a == nil {
		return nil
	}
	return a.all()
}
