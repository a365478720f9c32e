package virtualnode

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/gateway/virtualnode/decide"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// A missing object on this cluster proves no deletion: after the restore of a backup, objects come back one
// after the other. Therefore this program deletes an object on the provider only if it has seen the deletion
// of the object on this cluster, or if an admin has withdrawn the object. Other unowned objects stay, and a
// condition of the Node names them.

// deletion identifies the deletion of an object on this cluster. A pod is identified by its UID alone, because a
// new pod may get the same name.
type deletion struct {
	kind            schema.GroupVersionKind
	namespace, name string
	uid             types.UID
}

func ofPod(uid types.UID) deletion { return deletion{uid: uid} }

// mostSeen is the number of deletions that are remembered. They take a few MB. Older deletions are not needed: if
// the provider could be reached, its objects were deleted long ago.
const mostSeen = 20000

// seen holds the deletions that this process has seen. order lists them from the oldest to the newest.
type seen struct {
	mu    sync.Mutex
	all   map[deletion]bool
	order []deletion
}

func (s *seen) has(d deletion) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all[d]
}

func (s *seen) set(d deletion, gone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !gone:
		delete(s.all, d)
		return
	case s.all == nil:
		s.all = map[deletion]bool{}
	}
	s.all[d] = true
	if s.order = append(s.order, d); len(s.order) > mostSeen {
		delete(s.all, s.order[0])
		s.order = s.order[1:]
	}
}

// note remembers a deletion, or forgets it when the object exists again. If the watch did not see the deletion
// itself, but only that the object is missing in a new list, the deletion counts only if the object was being
// deleted before.
func (s *seen) note(kind client.Object, event any, gone bool) {
	if unknown, missed := event.(toolscache.DeletedFinalStateUnknown); missed {
		event = unknown.Obj
		o, is := event.(metav1.Object)
		gone = is && o.GetDeletionTimestamp() != nil
	}
	o, is := event.(metav1.Object)
	if !is {
		return
	}
	switch kind := kind.(type) {
	case *corev1.Pod:
		if gone {
			s.set(ofPod(o.GetUID()), true)
		}
	case *corev1.Service:
		s.set(deletion{kind: services, namespace: o.GetNamespace(), name: o.GetName()}, gone)
	case *discoveryv1.EndpointSlice:
		s.set(deletion{kind: shadows, namespace: o.GetNamespace(), name: o.GetName()}, gone)
	case *metav1.PartialObjectMetadata:
		s.set(deletion{kind: kind.GroupVersionKind(), namespace: o.GetNamespace(), name: o.GetName()}, gone)
	}
}

// fate is the decision about a copy on the provider that no pod of this cluster needs.
type fate uint8

const (
	stays fate = iota // a pod on the provider may still need the copy
	goes              // the copy is deleted
	left              // the copy is an unowned object: the deletion of the object on this cluster was not seen
)

// fateOf decides about a copy on the provider that no pod of this cluster needs. needed means that the provider
// runs pods for which this cluster has no pod. Such pods may need the copy.
func (m *mirror) fateOf(ctx context.Context, s *space, kind schema.GroupVersionKind, o *metav1.PartialObjectMetadata, needed bool) (fate, error) {
	if m.withdrawn(o.UID) || m.seen.has(deletion{kind: kind, namespace: s.name, name: o.Name}) {
		return goes, nil
	}
	here, err := s.here.has(ctx, s.name, kind, o.Name)
	switch {
	case err != nil:
		return stays, err
	case kind != shadows && !here:
		return left, nil
	case kind != shadows:
		if needed && kind != services && !s.here.stays(ctx, s.name, kind, o.Name) {
			return stays, nil
		}
		return goes, nil
	}
	// An EndpointSlice can be replaced by another one at any time, so its Service decides. An old copy must not
	// stay: the address of an ended pod in it may soon belong to another pod.
	service := o.Labels[discoveryv1.LabelServiceName]
	if m.seen.has(deletion{kind: services, namespace: s.name, name: service}) {
		return goes, nil
	}
	switch of, err := s.here.has(ctx, s.name, services, service); {
	case err != nil:
		return stays, err
	case of:
		return goes, nil
	case here:
		return stays, nil
	}
	return left, nil
}

func (s *side) has(ctx context.Context, namespace string, kind schema.GroupVersionKind, name string) (bool, error) {
	_, err := s.get(ctx, namespace, kind, name)
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read %s %s/%s: %w", kind.Kind, namespace, name, err)
	}
	return err == nil, nil
}

func (s *side) stays(ctx context.Context, namespace string, kind schema.GroupVersionKind, name string) bool {
	o, err := s.get(ctx, namespace, kind, name)
	return err == nil && decide.Stays(o, "")
}

// get returns an object from the cache. The EndpointSlice of the same name stands for a ShadowEndpointSlice.
func (s *side) get(ctx context.Context, namespace string, kind schema.GroupVersionKind, name string) (client.Object, error) {
	var o client.Object
	switch kind {
	case services:
		o = &corev1.Service{}
	case shadows:
		o = &discoveryv1.EndpointSlice{}
	default:
		o = metadata(kind)
	}
	return o, s.cache.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o)
}

// unclaimed returns the ShadowPods of a namespace that were not made for a present pod, if the deletion of their
// pod was not seen and no admin has withdrawn them. here holds the UIDs of the namespace's pods on this cluster, by
// name. unclaimed runs after each change, so it avoids copies of objects.
func (m *mirror) unclaimed(ctx context.Context, s *space) (out []*offloadingv1beta1.ShadowPod, here map[string]types.UID, err error) {
	var asked offloadingv1beta1.ShadowPodList
	var pods corev1.PodList
	err = errors.Join(s.there.cache.List(ctx, &asked, client.InNamespace(s.mapped), client.UnsafeDisableDeepCopy), s.here.cache.List(ctx, &pods, client.UnsafeDisableDeepCopy))
	if err != nil {
		return nil, nil, fmt.Errorf("list the pods of %s, and their ShadowPods on %s: %w", s.name, m.Provider, err)
	}
	here = map[string]types.UID{}
	for i := range pods.Items {
		here[pods.Items[i].Name] = pods.Items[i].UID
	}
	for i := range asked.Items {
		o := &asked.Items[i]
		if shadow := decide.ShadowOf(o); here[o.Name] != shadow.Of && !shadow.Deleting && !m.gone(shadow) {
			out = append(out, o)
		}
	}
	return out, here, nil
}

// gone reports whether the deletion of a ShadowPod's pod was seen, or an admin has withdrawn the ShadowPod.
func (m *mirror) gone(s *decide.Shadow) bool { return m.seen.has(ofPod(s.Of)) || m.withdrawn(s.UID) }

func (m *mirror) withdrawn(uid types.UID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.known.withdrawn[uid]
}

// leftovers returns the unowned objects on the provider, sorted. If it returns an error, nothing is known about
// such objects.
func (m *mirror) leftovers(ctx context.Context) (out []peering.Leftover, err error) {
	m.mu.Lock()
	var all []*space
	for name, mapped := range m.known.mapped {
		if mapped == "" {
			continue
		}
		s := m.spaces[name]
		if s == nil {
			s = &space{name: name} // the namespace can't be watched, so the loop below returns an error
		}
		all = append(all, s)
	}
	m.mu.Unlock()
	for _, s := range all {
		if s.there == nil || !s.here.synced(ctx, append(kindsHere(), &corev1.Pod{})...) || !s.there.synced(ctx, append(kindsThere(), &offloadingv1beta1.ShadowPod{})...) {
			return nil, fmt.Errorf("not all of namespace %s can be read, here and on %s", s.name, m.Provider)
		}
		if out, err = m.leftIn(ctx, s, out); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(out, func(a, b peering.Leftover) int {
		return cmp.Or(strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	return out, nil
}

func (m *mirror) leftIn(ctx context.Context, s *space, out []peering.Leftover) ([]peering.Leftover, error) {
	unclaimed, here, err := m.unclaimed(ctx, s)
	if err != nil {
		return nil, err
	}
	for _, o := range unclaimed {
		if here[o.Name] == "" { // otherwise the pod with this name gets the ShadowPod, see [space.adopt]
			out = append(out, peering.Leftover{Kind: "ShadowPod", Namespace: s.mapped, Name: o.Name, UID: o.UID})
		}
	}
	for _, kind := range alongs {
		there, err := s.lists(ctx, kind)
		if err != nil {
			return nil, err
		}
		for i := range there {
			o := &there[i]
			if o.DeletionTimestamp != nil || !managed(o, m.manager()) {
				continue
			}
			what, err := m.fateOf(ctx, s, kind, o, true)
			if err != nil {
				return nil, err
			}
			if what == left {
				out = append(out, peering.Leftover{Kind: kind.Kind, Namespace: s.mapped, Name: o.Name, UID: o.UID})
			}
		}
	}
	return out, nil
}

// lists returns the provider's objects of a kind. The caller must not change them, because the cache uses the same
// memory.
func (s *space) lists(ctx context.Context, kind schema.GroupVersionKind) ([]metav1.PartialObjectMetadata, error) {
	there := &metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind + "List"}}
	if err := s.there.cache.List(ctx, there, client.InNamespace(s.mapped), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list the provider's objects of %s: %w", s.name, err)
	}
	return there.Items, nil
}

// adopt makes an existing ShadowPod the ShadowPod of the pod that has its name now. If the ShadowPod describes
// another pod, adopt withdraws it instead, because there can be only one remote pod with a name.
func (s *space) adopt(ctx context.Context, v decide.View, pod *corev1.Pod, uid types.UID) error {
	o := &offloadingv1beta1.ShadowPod{}
	key := client.ObjectKey{Namespace: s.mapped, Name: pod.Name}
	if err := s.direct.Get(ctx, key, o); err != nil {
		return client.IgnoreNotFound(err)
	}
	if o.UID != uid || decide.ShadowOf(o).Of == pod.UID {
		return nil // the ShadowPod has changed, and the event about it has not arrived yet
	}
	if !decide.Same(o, pod) {
		return s.withdraw(ctx, pod.Name, uid)
	}
	before, want := o.DeepCopy(), decide.ShadowPod(pod, v)
	for key, value := range want.Annotations {
		metav1.SetMetaDataAnnotation(&o.ObjectMeta, key, value)
	}
	for key, value := range want.Labels {
		metav1.SetMetaDataLabel(&o.ObjectMeta, key, value)
	}
	err := s.direct.Patch(ctx, o, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(writer))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("assign ShadowPod %s to the new pod of its name: %w", key, err)
	}
	return nil
}
