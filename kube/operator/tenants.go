package operator

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/liqo-tui/liqo-tui/render"
)

// tenants gives the operator its rights where an admin has made a Configuration, or a
// server for a peer who is invited and has no Configuration yet, and nowhere else. So it can't read the Secrets of other namespaces, nor make pods
// there. A request is about a namespace.
type tenants struct {
	client  client.Client
	home    string // namespace of the operator
	secrets *secrets
}

func (r *tenants) setup(mgr ctrl.Manager) error {
	byNamespace := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: o.GetNamespace()}}}
	})
	if err := mgr.Add(r.secrets); err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).Named("tenant").
		WithOptions(workers(1)).
		Watches(&networkingv1beta1.Configuration{}, byNamespace, existence()).
		Watches(&networkingv1beta1.GatewayServer{}, byNamespace, existence()).
		Watches(&rbacv1.RoleBinding{}, byNamespace, builder.WithPredicates(tenantAccess())).
		Complete(r)
}

// accessNames are those of the bindings, of which one is enough.
var accessNames = []string{render.OperatorName, render.InvitedAccessName}

// tenantAccess tells of the bindings that this keeps.
func tenantAccess() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(o client.Object) bool { return slices.Contains(accessNames, o.GetName()) })
}

// Reconcile keeps the bindings of one namespace. What they are for owns them.
func (r *tenants) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var list networkingv1beta1.ConfigurationList
	if err := r.client.List(ctx, &list, client.InNamespace(req.Name)); err != nil {
		return ctrl.Result{}, fmt.Errorf("list Configurations of %s: %w", req.Name, err)
	}
	owners := living(list.Items)
	if len(owners) == 0 {
		var servers networkingv1beta1.GatewayServerList
		if err := r.client.List(ctx, &servers, client.InNamespace(req.Name), client.HasLabels{render.LabelRemoteCluster}); err != nil {
			return ctrl.Result{}, fmt.Errorf("list GatewayServers of %s: %w", req.Name, err)
		}
		owners = living(servers.Items)
	}
	if len(owners) == 0 {
		r.secrets.leave(req.Name)
		return ctrl.Result{}, nil
	}
	_, err := apply(ctx, r.client, render.TenantAccess(req.Name, r.home, owners))
	switch {
	case apierrors.IsForbidden(err) && young(owners[0]):
		return ctrl.Result{RequeueAfter: rightsAgain}, nil
	case apierrors.IsForbidden(err):
		ctrl.LoggerFrom(ctx).Info("waits for its rights", "reason", err.Error())
		return ctrl.Result{RequeueAfter: kindsAgain}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	r.secrets.enter(req.Name)
	return ctrl.Result{}, nil
}

// living are the objects that are not being deleted, by name.
func living[T any, O interface {
	*T
	render.Object
}](items []T) (out []render.Object) {
	for i := range items {
		if o := O(&items[i]); o.GetDeletionTimestamp() == nil {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b render.Object) int { return strings.Compare(a.GetName(), b.GetName()) })
	return out
}

const (
	// rightsLag is how long an API server may take to act on what it was told:
	// on a Configuration by which it admits the binding, on the binding itself.
	rightsLag   = 5 * time.Second
	rightsAgain = 50 * time.Millisecond
	// kindsAgain is for an API server whose policies don't know Configurations yet:
	// where another policy has parameters, they learn of new kinds every 30 s.
	kindsAgain = time.Second
)

// rightsIn is the binding that gives the operator its rights in a namespace; nil
// before [tenants] has made one.
func rightsIn(ctx context.Context, c client.Reader, namespace string) (*rbacv1.RoleBinding, error) {
	for _, name := range accessNames {
		b := &rbacv1.RoleBinding{}
		err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, b)
		if err == nil || !apierrors.IsNotFound(err) {
			return b, err
		}
	}
	return nil, nil
}

// notYet reports whether err is that the API server does not know of the rights yet.
func notYet(err error, rights *rbacv1.RoleBinding) bool {
	return apierrors.IsForbidden(err) && young(rights)
}

func young(o client.Object) bool { return time.Since(o.GetCreationTimestamp().Time) < rightsLag }

// secrets tells controllers of the gateways' Secrets, in each tenant's namespace: a
// watch of all namespaces would take the right to read every Secret of the cluster.
// It keeps no more than their metadata. What is in a Secret is read when it is needed.
type secrets struct {
	client metadata.Interface
	told   []chan event.GenericEvent

	mu       sync.Mutex
	ctx      context.Context // of the term; nil before it begins
	watching map[string]context.CancelFunc
}

// tell returns what tells one more controller. All of it is called before the start.
func (s *secrets) tell() <-chan event.GenericEvent {
	c := make(chan event.GenericEvent)
	s.told = append(s.told, c)
	return c
}

// Start has the watches end with ctx.
func (s *secrets) Start(ctx context.Context) error {
	s.mu.Lock()
	s.ctx = ctx
	for namespace := range s.watching {
		s.watch(ctx, namespace)
	}
	s.mu.Unlock()
	<-ctx.Done()
	return nil
}

func (s *secrets) enter(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.watching == nil {
		s.watching = map[string]context.CancelFunc{}
	}
	if _, there := s.watching[namespace]; there {
		return
	}
	s.watching[namespace] = func() {}
	if s.ctx != nil {
		s.watch(s.ctx, namespace)
	}
}

func (s *secrets) leave(namespace string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if end, there := s.watching[namespace]; there {
		end()
		delete(s.watching, namespace)
	}
}

// watch is called with the lock.
func (s *secrets) watch(term context.Context, namespace string) {
	ctx, end := context.WithCancel(term)
	s.watching[namespace] = end
	informer := metadatainformer.NewFilteredMetadataInformer(s.client, corev1.SchemeGroupVersion.WithResource("secrets"), namespace, 0,
		toolscache.Indexers{}, func(o *metav1.ListOptions) { o.LabelSelector = render.LabelGatewayName }).Informer()
	say := func(o any) {
		if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
			o = gone.Obj
		}
		secret, ok := o.(*metav1.PartialObjectMetadata)
		if !ok {
			return
		}
		for _, c := range s.told {
			select {
			case c <- event.GenericEvent{Object: secret}:
			case <-ctx.Done():
			}
		}
	}
	_, _ = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{ // fails for one that has ended only
		AddFunc: say, DeleteFunc: say,
		UpdateFunc: func(_, o any) { say(o) },
	})
	go informer.RunWithContext(ctx)
}
