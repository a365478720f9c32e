package exports

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

const (
	// page is the number of copies in one answer of the API server.
	page = 250
	// writers is the number of writes at the same time during a list.
	writers   = 4
	writeTime = 20 * time.Second // of one request
	// writeRate is the largest number of writes a second, after a burst of writeBurst. A peer decides how often its
	// slices change, and each write makes the operator write, too. A test cluster wrote 216 objects a second.
	writeRate  = 50
	writeBurst = 100
)

// Writer is a Sink that stores a peer's slices as EndpointSlices of one namespace. Only the operator uses
// them there.
type Writer struct {
	Client    client.Client
	Reader    client.Reader // without a cache
	Namespace string
	Peer      wire.ClusterID
	// Owner is an object of the namespace. The copies are deleted when it is deleted.
	Owner metav1.OwnerReference

	batch *errgroup.Group // the writes of the present list; nil outside of a list
	seen  map[string]bool // the copies of the present list
	pace  *rate.Limiter   // of all writes

	mu      sync.Mutex
	sums    map[string]string // of the copies in the namespace, by name
	refused map[types.NamespacedName]error
}

// Begin reads the existing copies, so that a restarted gateway writes only the differences.
func (w *Writer) Begin(ctx context.Context) error {
	sums := map[string]string{}
	for token := ""; ; {
		all := &metav1.PartialObjectMetadataList{}
		all.SetGroupVersionKind(discoveryv1.SchemeGroupVersion.WithKind("EndpointSliceList"))
		if err := w.Reader.List(ctx, all, client.InNamespace(w.Namespace), client.MatchingLabels(w.labels()), client.Limit(page), client.Continue(token)); err != nil {
			return fmt.Errorf("read the copies of the peer's slices: %w", err)
		}
		for _, o := range all.Items {
			sums[o.Name] = o.Annotations[wire.AnnotationContent]
		}
		if token = all.Continue; token == "" {
			break
		}
	}
	w.sums, w.seen, w.refused = sums, map[string]bool{}, map[types.NamespacedName]error{}
	if w.pace == nil {
		w.pace = rate.NewLimiter(writeRate, writeBurst)
	}
	w.batch = &errgroup.Group{}
	w.batch.SetLimit(writers)
	return nil
}

// Put writes a slice if it differs from its copy. During a list, End returns the errors.
func (w *Writer) Put(ctx context.Context, from types.NamespacedName, s *discoveryv1.EndpointSlice) (refused, err error) {
	o, err := w.copyOf(from, s)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	same := w.sums[o.Name] == o.Annotations[wire.AnnotationContent]
	w.mu.Unlock()
	listing := w.batch != nil
	if listing {
		w.seen[o.Name] = true
	}
	switch {
	case same:
		return nil, nil
	case !listing:
		return split(w.write(ctx, o))
	}
	w.batch.Go(func() error {
		refused, err := split(w.write(ctx, o))
		if refused != nil {
			w.mu.Lock()
			w.refused[from] = refused
			w.mu.Unlock()
		}
		return err
	})
	return nil, nil
}

// split returns err as refused if the API server refuses the object, and otherwise as failure.
func split(err error) (refused, failure error) {
	if refusedHere(err) {
		return err, nil
	}
	return nil, err
}

// Drop deletes the copy of a slice. During a list, it does nothing: End deletes the copies.
func (w *Writer) Drop(ctx context.Context, from types.NamespacedName) error {
	if w.batch != nil {
		return nil
	}
	return w.remove(ctx, copyName(from))
}

// End ends a list, and returns the slices that the API server has refused. If the list is complete, it
// deletes the copies of all slices that are not in the list.
func (w *Writer) End(ctx context.Context, complete bool) (refused map[types.NamespacedName]error, err error) {
	err = w.batch.Wait()
	w.batch = nil
	if err != nil || !complete {
		return nil, err
	}
	for name := range w.sums {
		if !w.seen[name] {
			if err := w.remove(ctx, name); err != nil {
				return nil, err
			}
		}
	}
	w.seen = nil
	return w.refused, nil
}

func (w *Writer) write(ctx context.Context, o *discoveryv1.EndpointSlice) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	if err != nil {
		return fmt.Errorf("write the copy %s: %w", o.Name, err)
	}
	ctx, cancel, err := w.turn(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	u := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	// This program owns the copies, so it undoes changes by others.
	if err := w.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(wire.GatewayReporter), client.ForceOwnership); err != nil {
		return fmt.Errorf("write the copy %s: %w", o.Name, err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sums[o.Name] = o.Annotations[wire.AnnotationContent]
	return nil
}

func (w *Writer) remove(ctx context.Context, name string) error {
	if _, ok := w.sums[name]; !ok {
		return nil
	}
	ctx, cancel, err := w.turn(ctx)
	if err != nil {
		return err
	}
	defer cancel()
	o := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: name}}
	if err := w.Client.Delete(ctx, o); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the copy %s: %w", name, err)
	}
	delete(w.sums, name)
	return nil
}

// turn waits until a request is due, and returns the context of this request.
func (w *Writer) turn(ctx context.Context) (context.Context, context.CancelFunc, error) {
	if err := w.pace.Wait(ctx); err != nil {
		return nil, nil, fmt.Errorf("wait to write a copy: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	return ctx, cancel, nil
}

func (w *Writer) labels() map[string]string {
	return map[string]string{wire.LabelRemoteCluster: string(w.Peer), discoveryv1.LabelManagedBy: wire.ManagedBy}
}

// copyOf returns the copy of an admitted slice, with a sum of its content.
func (w *Writer) copyOf(from types.NamespacedName, s *discoveryv1.EndpointSlice) (*discoveryv1.EndpointSlice, error) {
	o := s.DeepCopy()
	o.TypeMeta, o.Namespace, o.Name, o.OwnerReferences = sliceType, w.Namespace, copyName(from), []metav1.OwnerReference{w.Owner}
	if o.Labels == nil {
		o.Labels = map[string]string{}
	}
	maps.Copy(o.Labels, w.labels())
	if o.Annotations == nil {
		o.Annotations = map[string]string{}
	}
	if o.Endpoints == nil {
		o.Endpoints = []discoveryv1.Endpoint{}
	}
	content, err := json.Marshal(o)
	if err != nil {
		return nil, fmt.Errorf("write the copy %s: %w", o.Name, err)
	}
	sum := sha256.Sum256(content)
	o.Annotations[wire.AnnotationContent] = hex.EncodeToString(sum[:16])
	return o, nil
}

// copyName returns the name that services.Admit gives to the copy of a slice. Names of namespaces contain no
// dot.
func copyName(from types.NamespacedName) string { return from.Namespace + "." + from.Name }
