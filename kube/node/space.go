package node

import (
	"context"
	"fmt"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/offload/home"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// space is one namespace of which pods may be on the node. Its fields are set before it is
// shown to others.
type space struct {
	name, twin string
	here       *side
	there      *side // of the provider; nil while it can't be asked
	abroad     client.Client
	reach      *provider         // as there
	said       map[thing]refusal // of [mirror.reflect]: one at a time, as a namespace is one key
}

// side is what one API server has of a namespace.
type side struct {
	cache cache.Cache
	end   context.CancelFunc
}

// slimShadow keeps what is looked at: what it asks for is long, and known here.
func slimShadow(o any) (any, error) {
	if s, is := o.(*offloadingv1beta1.ShadowPod); is {
		s.ManagedFields, s.Spec = nil, offloadingv1beta1.ShadowPodSpec{}
	}
	return o, nil
}

// watchHere begins to watch the pods of a namespace that are bound to the node, and what
// goes along with them.
func (m *mirror) watchHere(ctx context.Context, name string) (*side, error) {
	return m.watch(ctx, name, cache.Options{
		ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {Field: fields.OneTermEqualSelector("spec.nodeName", m.Name)}},
	}, nil, append(beside(), &corev1.Pod{})...)
}

// watchThere begins to watch what the provider has for the node in a twin.
func (m *mirror) watchThere(ctx context.Context, name, twin string, p *provider) (*side, error) {
	ofNode := labels.SelectorFromSet(labels.Set{peering.LabelPodNode: m.Name})
	// Who wants what goes along, the managers of its fields tell.
	ofCluster := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{peering.LabelPodOrigin: m.Consumer}), Transform: func(o any) (any, error) { return o, nil }}
	by := map[client.Object]cache.ByObject{&corev1.Pod{}: {Label: ofNode}, &offloadingv1beta1.ShadowPod{}: {Label: ofNode, Transform: slimShadow}}
	kinds := []client.Object{&corev1.Pod{}, &offloadingv1beta1.ShadowPod{}}
	for _, kind := range asAbroad() {
		by[kind] = ofCluster
		kinds = append(kinds, kind)
	}
	return m.watch(ctx, name, cache.Options{DefaultNamespaces: map[string]cache.Config{twin: {}}, ByObject: by}, p, kinds...)
}

// watch has pods looked at again when one of these kinds changes under their name. When all
// is known that there was at first, all pods of the namespace are.
func (m *mirror) watch(ctx context.Context, name string, o cache.Options, p *provider, kinds ...client.Object) (*side, error) {
	config := m.config
	if o.Scheme, o.Mapper, o.DefaultTransform = m.client.Scheme(), m.client.RESTMapper(), cache.TransformStripManagedFields(); p != nil {
		config, o.HTTPClient = p.config, p.http
	} else {
		o.DefaultNamespaces = map[string]cache.Config{name: {}}
	}
	kept, err := cache.New(config, o)
	if err != nil {
		return nil, err
	}
	ctx, end := context.WithCancel(ctx)
	var pods, others []toolscache.InformerSynced
	for _, kind := range kinds {
		informer, err := kept.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err == nil {
			_, err = informer.AddEventHandler(m.handler(name, kind, p == nil))
			switch kind.(type) {
			case *corev1.Pod, *offloadingv1beta1.ShadowPod:
				pods = append(pods, informer.HasSynced)
			default:
				others = append(others, informer.HasSynced)
			}
		}
		if err != nil {
			end()
			return nil, err
		}
	}
	s := &side{kept, end}
	m.group.Go(func() { _ = kept.Start(ctx) }) // ends without an error
	// Pods don't wait for the rest: an older provider gives no rights to that.
	for _, all := range [][]toolscache.InformerSynced{pods, others} {
		m.group.Go(func() {
			if toolscache.WaitForCacheSync(ctx.Done(), all...) {
				m.again(ctx, name)
			}
		})
	}
	return s, nil
}

// handler has a pod looked at that changes, or has something of its name that does. A pod
// that comes or goes may have another ConfigMap go along. Of what is at home, deletions are kept.
func (m *mirror) handler(namespace string, kind client.Object, atHome bool) toolscache.ResourceEventHandlerFuncs {
	all := client.ObjectKey{Namespace: namespace}
	add := func(o any, comes bool) {
		if gone, is := o.(toolscache.DeletedFinalStateUnknown); is {
			o = gone.Obj
		}
		switch o := o.(type) {
		case *corev1.Pod, *offloadingv1beta1.ShadowPod:
			m.queue.Add(client.ObjectKey{Namespace: namespace, Name: o.(metav1.Object).GetName()})
			if comes {
				m.queue.Add(all)
			}
		case metav1.Object:
			m.queue.Add(all)
		}
	}
	note := func(o any, gone bool) {
		if atHome {
			m.seen.note(kind, o, gone)
		}
		add(o, true)
	}
	return toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { note(o, false) }, UpdateFunc: func(_, o any) { add(o, false) }, DeleteFunc: func(o any) { note(o, true) },
	}
}

// synced reports whether all is known of these kinds that there was at first.
func (s *side) synced(ctx context.Context, kinds ...client.Object) bool {
	for _, kind := range kinds {
		informer, err := s.cache.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil || !informer.HasSynced() {
			return false
		}
	}
	return true
}

// pod is who has a name, nil if nobody has.
func (s *side) pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := s.cache.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return pod, nil
}

func (s *side) shadow(ctx context.Context, namespace, name string) (*home.Shadow, error) {
	o := &offloadingv1beta1.ShadowPod{}
	if err := s.cache.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return home.ShadowOf(o), nil
}

// gone reports whether the provider has nothing of a pod, by its own word: what was asked
// for last may not have been told yet.
func (s *space) gone(ctx context.Context, pod *corev1.Pod, node string) (bool, error) {
	o, key := &offloadingv1beta1.ShadowPod{}, client.ObjectKey{Namespace: s.twin, Name: pod.Name}
	switch err := s.abroad.Get(ctx, key, o); {
	case err == nil && home.ShadowOf(o).Of == pod.UID:
		return false, s.withdraw(ctx, pod.Name, o.GetUID())
	case client.IgnoreNotFound(err) != nil:
		return false, fmt.Errorf("ask for ShadowPod %s: %w", key, err)
	}
	copied := &metav1.PartialObjectMetadata{}
	copied.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	if err := s.abroad.Get(ctx, key, copied); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("ask for pod %s: %w", key, err)
		}
		return true, nil
	}
	return copied.Labels[peering.LabelPodNode] != node, nil // not this node's
}

func (s *space) withdraw(ctx context.Context, name string, uid types.UID) error {
	o := &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: s.twin, Name: name}}
	err := s.abroad.Delete(ctx, o, preconditions(uid), client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete ShadowPod %s/%s: %w", s.twin, name, err)
	}
	return nil
}
