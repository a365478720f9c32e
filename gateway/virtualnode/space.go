package virtualnode

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

	"github.com/liqo-tui/liqo-tui/gateway/virtualnode/decide"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// space is one namespace whose pods may be bound to the node. Its fields are set before other goroutines get it.
type space struct {
	name, mapped string
	here         *side             // the watch on this cluster
	there        *side             // the watch on the provider; nil while the provider does not answer
	direct       client.Client     // for the provider, without a cache
	reach        *provider         // the connections that there and direct use
	said         map[thing]refusal // only [mirror.reflect] uses it, and only one call at a time for a namespace
}

type side struct {
	cache cache.Cache
	end   context.CancelFunc
}

// slimShadow drops most of a ShadowPod's spec from the cache. The spec is long, and the pod on this cluster has the
// same content.
func slimShadow(o any) (any, error) {
	if s, is := o.(*offloadingv1beta1.ShadowPod); is {
		s.ManagedFields, s.Spec = nil, offloadingv1beta1.ShadowPodSpec{Pod: decide.Changeable(&s.Spec.Pod)}
	}
	return o, nil
}

// watchHere watches the pods of a namespace that are bound to the node, and the objects that may be copied
// for these pods.
func (m *mirror) watchHere(ctx context.Context, name string) (*side, error) {
	return m.watch(ctx, name, cache.Options{
		ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {Field: fields.OneTermEqualSelector("spec.nodeName", m.Name)}},
	}, nil, append(kindsHere(), &corev1.Pod{})...)
}

// watchThere watches the node's objects in a mapped namespace of the provider.
func (m *mirror) watchThere(ctx context.Context, name, mapped string, p *provider) (*side, error) {
	ofNode := labels.SelectorFromSet(labels.Set{peering.LabelPodNode: m.Name})
	// The cache keeps the managed fields of copies, because the field managers show which virtual nodes need a copy.
	ofCluster := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{peering.LabelPodOrigin: m.Consumer}), Transform: func(o any) (any, error) { return o, nil }}
	by := map[client.Object]cache.ByObject{&corev1.Pod{}: {Label: ofNode}, &offloadingv1beta1.ShadowPod{}: {Label: ofNode, Transform: slimShadow}}
	kinds := []client.Object{&corev1.Pod{}, &offloadingv1beta1.ShadowPod{}}
	for _, kind := range kindsThere() {
		by[kind] = ofCluster
		kinds = append(kinds, kind)
	}
	return m.watch(ctx, name, cache.Options{DefaultNamespaces: map[string]cache.Config{mapped: {}}, ByObject: by}, p, kinds...)
}

// watch starts a watch. After each change of an object, the watch queues the pod with the object's name. When the
// first lists are complete, it queues all pods of the namespace. p is nil for a watch on this cluster.
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
	m.group.Go(func() { _ = kept.Start(ctx) }) // Start returns no error
	// The pods don't wait for the first lists of other kinds, because an older provider gives no rights for these
	// kinds.
	for _, all := range [][]toolscache.InformerSynced{pods, others} {
		m.group.Go(func() {
			if toolscache.WaitForCacheSync(ctx.Done(), all...) {
				m.again(ctx, name)
			}
		})
	}
	return s, nil
}

// handler queues a pod after a change of the pod, or of its ShadowPod. If a pod comes or goes, other objects may have
// to be copied, so handler also queues the namespace. It does the same after changes of other kinds. atHome means
// that the objects are on this cluster: then their deletions are remembered.
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

// synced reports whether the first lists of these kinds are complete.
func (s *side) synced(ctx context.Context, kinds ...client.Object) bool {
	for _, kind := range kinds {
		informer, err := s.cache.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil || !informer.HasSynced() {
			return false
		}
	}
	return true
}

func (s *side) pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := s.cache.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return pod, nil
}

func (s *side) shadow(ctx context.Context, namespace, name string) (*decide.Shadow, error) {
	o := &offloadingv1beta1.ShadowPod{}
	if err := s.cache.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, o); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	return decide.ShadowOf(o), nil
}

// gone asks the provider's API server whether the ShadowPod and the remote pod of a pod do not exist any more. The
// cache is not enough, because it may not have the result of the last request yet.
func (s *space) gone(ctx context.Context, pod *corev1.Pod, node string) (bool, error) {
	o, key := &offloadingv1beta1.ShadowPod{}, client.ObjectKey{Namespace: s.mapped, Name: pod.Name}
	switch err := s.direct.Get(ctx, key, o); {
	case err == nil && decide.ShadowOf(o).Of == pod.UID:
		return false, s.withdraw(ctx, pod.Name, o.GetUID())
	case client.IgnoreNotFound(err) != nil:
		return false, fmt.Errorf("ask for ShadowPod %s: %w", key, err)
	}
	copied := &metav1.PartialObjectMetadata{}
	copied.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	if err := s.direct.Get(ctx, key, copied); err != nil {
		if client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("ask for pod %s: %w", key, err)
		}
		return true, nil
	}
	return copied.Labels[peering.LabelPodNode] != node, nil // a remote pod of another virtual node does not count
}

// withdraw deletes a ShadowPod. It is no error if the ShadowPod was deleted or replaced before.
func (s *space) withdraw(ctx context.Context, name string, uid types.UID) error {
	o := &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: s.mapped, Name: name}}
	err := s.direct.Delete(ctx, o, preconditions(uid), client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete ShadowPod %s/%s: %w", s.mapped, name, err)
	}
	return nil
}

// relabel writes the present labels of a pod into its ShadowPod. refused is the reason if the provider refuses the
// labels; else "".
func (s *space) relabel(ctx context.Context, name string, shadow *decide.Shadow, labels map[string]string) (refused string, err error) {
	was := &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: s.mapped, Name: name, Labels: shadow.Labels}}
	o := was.DeepCopy()
	o.Labels = labels
	err = client.IgnoreNotFound(s.direct.Patch(ctx, o, client.MergeFrom(was), client.FieldOwner(writer)))
	switch {
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err):
		return "the provider refuses the labels that the pod has now: " + err.Error(), nil
	case err != nil:
		return "", fmt.Errorf("label ShadowPod %s/%s: %w", s.mapped, name, err)
	}
	return "", nil
}
