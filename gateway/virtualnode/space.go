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

// space is one namespace whose pods may be bound to the node. Its fields are set before other goroutines see it.
type space struct {
	name, mapped string
	here         *side
	there        *side // on the provider; nil while the provider can't be asked
	direct       client.Client
	reach        *provider         // the connections that side there uses
	said         map[thing]refusal // used by [mirror.reflect], which never handles a namespace twice at a time
}

// side is a watch of a namespace in one API server.
type side struct {
	cache cache.Cache
	end   context.CancelFunc
}

// slimShadow drops most of a ShadowPod's spec: it is long, and the pod here has the same.
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
	}, nil, append(beside(), &corev1.Pod{})...)
}

// watchThere watches the node's objects in a mapped namespace of the provider.
func (m *mirror) watchThere(ctx context.Context, name, mapped string, p *provider) (*side, error) {
	ofNode := labels.SelectorFromSet(labels.Set{peering.LabelPodNode: m.Name})
	// The managers of a copy's fields show which nodes need it.
	ofCluster := cache.ByObject{Label: labels.SelectorFromSet(labels.Set{peering.LabelPodOrigin: m.Consumer}), Transform: func(o any) (any, error) { return o, nil }}
	by := map[client.Object]cache.ByObject{&corev1.Pod{}: {Label: ofNode}, &offloadingv1beta1.ShadowPod{}: {Label: ofNode, Transform: slimShadow}}
	kinds := []client.Object{&corev1.Pod{}, &offloadingv1beta1.ShadowPod{}}
	for _, kind := range asAbroad() {
		by[kind] = ofCluster
		kinds = append(kinds, kind)
	}
	return m.watch(ctx, name, cache.Options{DefaultNamespaces: map[string]cache.Config{mapped: {}}, ByObject: by}, p, kinds...)
}

// watch queues a pod at each change of an object with the pod's name. Once the first lists are complete, it
// queues all pods of the namespace.
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
	// Pods don't wait for the other kinds: an older provider gives no rights to these.
	for _, all := range [][]toolscache.InformerSynced{pods, others} {
		m.group.Go(func() {
			if toolscache.WaitForCacheSync(ctx.Done(), all...) {
				m.again(ctx, name)
			}
		})
	}
	return s, nil
}

// handler queues a pod when the pod, or an object with its name, changes. A pod that appears or disappears
// may change which ConfigMaps are copied, so this queues the whole namespace. Deletions here are remembered.
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

// pod returns the pod with a name; nil if there is none.
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

// gone asks the provider's API server whether ShadowPod and remote pod of a pod are gone: the cache may lack
// the last request.
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
	return copied.Labels[peering.LabelPodNode] != node, nil // a pod of this name for another node does not count
}

func (s *space) withdraw(ctx context.Context, name string, uid types.UID) error {
	o := &offloadingv1beta1.ShadowPod{ObjectMeta: metav1.ObjectMeta{Namespace: s.mapped, Name: name}}
	err := s.direct.Delete(ctx, o, preconditions(uid), client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete ShadowPod %s/%s: %w", s.mapped, name, err)
	}
	return nil
}

// relabel gives a ShadowPod the labels that its pod has now. refused says that the provider does not let it.
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
