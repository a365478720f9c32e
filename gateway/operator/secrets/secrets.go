// Package secrets sends events of Secrets in some namespaces to controllers. A watch
// of all namespaces would need the right to read every Secret of the cluster.
package secrets

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// Watch sends events of Secrets. It keeps only their metadata, because controllers read the contents when
// they need them.
type Watch struct {
	client   metadata.Interface
	selector string
	told     []chan event.GenericEvent

	mu       sync.Mutex
	ctx      context.Context // of the term; nil before it begins
	watching map[string]context.CancelFunc
}

// New returns a watch of Secrets with labels, in no namespace yet.
func New(config *rest.Config, selector string) (*Watch, error) {
	c, err := metadata.NewForConfig(config)
	return &Watch{client: c, selector: selector, watching: map[string]context.CancelFunc{}}, err
}

// Tell returns a channel with the events, for one more controller. It must be called before Start.
func (w *Watch) Tell() <-chan event.GenericEvent {
	c := make(chan event.GenericEvent)
	w.told = append(w.told, c)
	return c
}

// Start runs the watches until ctx ends.
func (w *Watch) Start(ctx context.Context) error {
	w.mu.Lock()
	w.ctx = ctx
	for namespace := range w.watching {
		w.begin(ctx, namespace)
	}
	w.mu.Unlock()
	<-ctx.Done()
	return nil
}

// Enter begins to watch a namespace in which the operator has the right to do so.
func (w *Watch) Enter(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, there := w.watching[namespace]; there {
		return
	}
	w.watching[namespace] = func() {}
	if w.ctx != nil {
		w.begin(w.ctx, namespace)
	}
}

// Leave ends the watch of a namespace.
func (w *Watch) Leave(namespace string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if end, there := w.watching[namespace]; there {
		end()
		delete(w.watching, namespace)
	}
}

// begin begins the watch of a namespace. The caller has the lock.
func (w *Watch) begin(term context.Context, namespace string) {
	ctx, end := context.WithCancel(term)
	w.watching[namespace] = end
	informer := metadatainformer.NewFilteredMetadataInformer(w.client, corev1.SchemeGroupVersion.WithResource("secrets"), namespace, 0,
		toolscache.Indexers{}, func(o *metav1.ListOptions) { o.LabelSelector = w.selector }).Informer()
	say := func(o any) {
		if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		secret, ok := o.(*metav1.PartialObjectMetadata)
		if !ok {
			return
		}
		for _, c := range w.told {
			select {
			case c <- event.GenericEvent{Object: secret}:
			case <-ctx.Done():
			}
		}
	}
	_, _ = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{ // fails only for an informer that has ended
		AddFunc: say, DeleteFunc: say,
		UpdateFunc: func(_, o any) { say(o) },
	})
	go informer.RunWithContext(ctx)
}
