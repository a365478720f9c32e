package consumer

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/gateway/virtualnode/decide"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// strays handles pods on a virtual node whose namespace is not offloaded to it, such as pods of DaemonSets
// that tolerate every taint. It writes the reason into the pod's status. When such a pod is being deleted,
// strays removes it at once. The virtual kubelet can't do this, because it has no rights in such a namespace.
type strays struct {
	client client.Client
	mgr    ctrl.Manager
	told   chan event.GenericEvent

	mu    sync.Mutex
	nodes map[string]bound // by name
}

// bound is the cache of the pods on one node, with the function that stops it.
type bound struct {
	cache cache.Cache
	end   context.CancelFunc
}

func (r *strays) setup(mgr ctrl.Manager) error {
	r.mgr, r.told, r.nodes = mgr, make(chan event.GenericEvent), map[string]bound{}
	if err := mgr.Add(manager.RunnableFunc(r.run)); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("stray-pod").
		WithOptions(control.Workers(2)).
		Watches(&offloadingv1beta1.VirtualNode{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(o)}}
		})).
		WatchesRawSource(source.Channel(r.told, &handler.EnqueueRequestForObject{})).
		Complete(r)
}

// run ends all watches when this replica stops leading.
func (r *strays) run(ctx context.Context) error {
	<-ctx.Done()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range r.nodes {
		b.end()
	}
	return nil
}

func (r *strays) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	v := &offloadingv1beta1.VirtualNode{}
	err := r.client.Get(ctx, req.NamespacedName, v)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("read VirtualNode %s: %w", req.NamespacedName, err)
	}
	if v.Labels[wire.LabelManagedBy] != wire.OperatorName { // this is also so if the VirtualNode does not exist, because v then has no label
		r.leave(req.Name)
		return ctrl.Result{}, nil
	}
	kept, err := r.enter(ctx, req.NamespacedName)
	if err != nil || kept == nil {
		return ctrl.Result{RequeueAfter: control.RightsAgain}, err
	}
	var pods corev1.PodList
	if err := kept.List(ctx, &pods); err != nil {
		return ctrl.Result{}, nil //nolint:nilerr // the cache was stopped meanwhile. If the node is still wanted, its next cache sends events for all pods
	}
	mine := offered{VirtualNode: v}.handles()
	for i := range pods.Items {
		if pod := &pods.Items[i]; !slices.Contains(mine, pod.Namespace) {
			if err := r.look(ctx, pod, v.Name); err != nil {
				return ctrl.Result{}, err
			}
		}
	}
	return ctrl.Result{}, nil
}

func (r *strays) look(ctx context.Context, pod *corev1.Pod, node string) error {
	a := decide.NotOffloaded(pod, fmt.Sprintf("namespace %s is not offloaded to %s", pod.Namespace, node), time.Now())
	switch {
	case a.Forget:
		err := r.client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("remove pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	case a.Status != nil && pod.Status.Phase == corev1.PodPending:
		before := pod.DeepCopy()
		pod.Status = *a.Status
		if err := r.client.Status().Patch(ctx, pod, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(control.Manager)); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("report on pod %s/%s: %w", pod.Namespace, pod.Name, err)
		}
	}
	return nil
}

func (r *strays) leave(node string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if b, there := r.nodes[node]; there {
		b.end()
		delete(r.nodes, node)
	}
}

// enter watches the pods on a node. It returns nil until they have been listed.
func (r *strays) enter(ctx context.Context, node client.ObjectKey) (cache.Cache, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	b, there := r.nodes[node.Name]
	if !there {
		kept, err := cache.New(r.mgr.GetConfig(), cache.Options{
			Scheme: r.mgr.GetScheme(), Mapper: r.mgr.GetRESTMapper(), HTTPClient: r.mgr.GetHTTPClient(), DefaultTransform: slimPod,
			ByObject: map[client.Object]cache.ByObject{&corev1.Pod{}: {Field: onNode(node.Name)}},
		})
		if err != nil {
			return nil, fmt.Errorf("watch the pods on node %s: %w", node.Name, err)
		}
		watching, end := context.WithCancel(context.WithoutCancel(ctx)) // the watch outlives the reconciliation that starts it
		say := func(any) {
			select {
			case r.told <- event.GenericEvent{Object: &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: node.Namespace, Name: node.Name}}}:
			case <-watching.Done():
			}
		}
		informer, err := kept.GetInformer(watching, &corev1.Pod{}, cache.BlockUntilSynced(false))
		if err == nil {
			_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{AddFunc: say, UpdateFunc: func(_, o any) { say(o) }})
		}
		if err != nil {
			end()
			return nil, fmt.Errorf("watch the pods on node %s: %w", node.Name, err)
		}
		b = bound{kept, end}
		r.nodes[node.Name] = b
		go func() { _ = kept.Start(watching) }() // Start returns no error
	}
	informer, err := b.cache.GetInformer(ctx, &corev1.Pod{}, cache.BlockUntilSynced(false))
	if err != nil || !informer.HasSynced() {
		return nil, err
	}
	return b.cache, nil
}

// slimPod keeps the fields that are read. The rest of a pod with many containers is long.
func slimPod(o any) (any, error) {
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return o, nil
	}
	slim := &corev1.Pod{TypeMeta: pod.TypeMeta, ObjectMeta: pod.ObjectMeta, Spec: corev1.PodSpec{NodeName: pod.Spec.NodeName}, Status: pod.Status}
	slim.ManagedFields = nil
	return slim, nil
}
