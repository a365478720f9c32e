package consumer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/gateway/remote"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// A provider that does not answer holds its worker for 5 s of every 20 s, so 100 such providers don't delay
// the others.
const copierWorkers = 32

// copier copies this cluster's ResourceSlices and NamespaceMaps to providers, and copies the answers of the
// providers back. It uses no finalizers. If copier has seen the deletion of an object here, it deletes the
// copy at the next comparison. Otherwise the provider deletes the copy together with the Tenant.
type copier struct {
	client   client.Client
	reader   client.Reader // not cached
	recorder events.EventRecorder
	keys     *keys
	home     string
	seen     *control.Deletions
	answers  answers
}

func (r *copier) setup(mgr ctrl.Manager) error {
	r.answers.told = make(chan event.GenericEvent)
	if err := mgr.Add(manager.RunnableFunc(r.answers.run)); err != nil {
		return err
	}
	namespace := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: o.GetNamespace()}}}
	})
	return ctrl.NewControllerManagedBy(mgr).Named("slice-abroad").
		WithOptions(control.Workers(copierWorkers)).
		For(&corev1.Namespace{}).
		Watches(&authv1beta1.Identity{}, namespace).
		Watches(&authv1beta1.ResourceSlice{}, r.seen.Seen(namespace)).
		Watches(&offloadingv1beta1.NamespaceMap{}, namespace).
		WatchesRawSource(source.Channel(r.answers.told, namespace)).
		Complete(r)
}

// Reconcile compares the requests in a tenant namespace with their copies on the provider.
func (r *copier) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	ns := &corev1.Namespace{}
	if err := r.client.Get(ctx, req.NamespacedName, ns); apierrors.IsNotFound(err) || err == nil && ns.DeletionTimestamp != nil {
		r.answers.leave(req.Name)
		return ctrl.Result{}, nil // the cache has only namespaces that an admin has labelled for a peer
	} else if err != nil {
		return ctrl.Result{}, fmt.Errorf("read namespace %s: %w", req.Name, err)
	}
	var identities authv1beta1.IdentityList
	if err := r.reader.List(ctx, &identities, client.InNamespace(req.Name)); err != nil {
		return ctrl.Result{}, fmt.Errorf("list Identities of namespace %s: %w", req.Name, err)
	}
	all, err := r.slices(ctx, req.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	err = r.tidy(ctx, identities.Items, all)
	var plane *authv1beta1.Identity
	for i := range identities.Items {
		if o := &identities.Items[i]; o.Spec.Type == authv1beta1.ControlPlaneIdentityType && o.DeletionTimestamp == nil && string(o.Spec.ClusterID) == ns.Labels[wire.LabelRemoteCluster] {
			plane = o
		}
	}
	if plane == nil {
		r.answers.leave(req.Name)
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, errors.Join(err, r.compare(ctx, plane, all))
}

// slices lists this cluster's own ResourceSlices: from the API server for namespace, from the cache for
// other namespaces. The cache shares its objects with other readers, so callers must not change them. If
// the cache has a slice, it also has all older slices, because slices reach it in the order of their
// creation.
func (r *copier) slices(ctx context.Context, namespace string) ([]authv1beta1.ResourceSlice, error) {
	var here, everywhere authv1beta1.ResourceSliceList
	of := client.MatchingLabels{peering.LabelReplication: "true"}
	if err := errors.Join(r.reader.List(ctx, &here, client.InNamespace(namespace), of), r.client.List(ctx, &everywhere, of, client.UnsafeDisableDeepCopy)); err != nil {
		return nil, fmt.Errorf("list ResourceSlices: %w", err)
	}
	all := here.Items
	for i := range everywhere.Items {
		if everywhere.Items[i].Namespace != namespace {
			all = append(all, everywhere.Items[i])
		}
	}
	return all, nil
}

// tidy deletes the Identities whose ResourceSlice was deleted. Kubernetes' garbage collector would delete
// them, too, but it discovers new kinds only every 30 s.
func (r *copier) tidy(ctx context.Context, identities []authv1beta1.Identity, slices []authv1beta1.ResourceSlice) error {
	there := map[string]bool{}
	for i := range slices {
		there[string(slices[i].UID)] = slices[i].DeletionTimestamp == nil
	}
	var errs []error
	for i := range identities {
		o := &identities[i]
		if owner := metav1.GetControllerOf(o); owner != nil && owner.Kind == authv1beta1.ResourceSliceKind && !there[string(owner.UID)] {
			errs = append(errs, control.Delete(ctx, r.client, o))
		}
	}
	return errors.Join(errs...)
}

// compare sends the requests of a tenant namespace to the provider, and copies the answers back.
func (r *copier) compare(ctx context.Context, plane *authv1beta1.Identity, all []authv1beta1.ResourceSlice) error {
	private, err := r.keys.private(ctx)
	if err != nil {
		return err
	}
	id, err := control.ClusterID(ctx, r.reader, r.home)
	if err != nil {
		return err
	}
	provider, err := r.keys.reach(ctx, plane)
	if err != nil {
		return err
	}
	remote, namespace := provider.API, *plane.Spec.Namespace
	if err := r.answers.enter(ctx, plane.Namespace, namespace, provider); err != nil {
		return err
	}
	var shown authv1beta1.ResourceSliceList
	if err := remote.List(ctx, &shown, client.InNamespace(namespace), client.MatchingLabels{peering.LabelOrigin: string(id)}); err != nil {
		return fmt.Errorf("list the ResourceSlices on %s: %w", plane.Spec.ClusterID, err)
	}
	copies, gone := map[string]*authv1beta1.ResourceSlice{}, map[string]bool{}
	for i := range shown.Items {
		copies[shown.Items[i].Name] = &shown.Items[i]
	}
	var errs []error
	for i := range all {
		s := &all[i]
		if s.Namespace == plane.Namespace && s.DeletionTimestamp != nil {
			gone[s.Name] = true
		}
		if s.Namespace != plane.Namespace || s.Labels[peering.LabelDestination] != string(plane.Spec.ClusterID) || s.DeletionTimestamp != nil {
			continue
		}
		c := copies[s.Name]
		delete(copies, s.Name)
		if other := first(s, all); other != s {
			errs = append(errs, control.Complain(ctx, r.client, r.recorder, s, fmt.Errorf("%sResourceSlice %s/%s has its name, which would be that of two nodes", wire.ProblemRefused, other.Namespace, other.Name)))
			if c != nil {
				errs = append(errs, control.Delete(ctx, remote, c))
			}
			continue
		}
		err := r.show(ctx, remote, plane, s, c, private, id)
		if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsAlreadyExists(err) {
			err = errors.Join(err, control.Complain(ctx, r.client, r.recorder, s, fmt.Errorf("%s%s does not take it: %w", wire.ProblemRefused, plane.Spec.ClusterID, err)))
		} else if err == nil {
			err = control.Complain(ctx, r.client, r.recorder, s, nil)
		}
		errs = append(errs, err)
	}
	for _, c := range copies {
		if gone[c.Name] || r.seen.Has(ofSlice(client.ObjectKey{Namespace: plane.Namespace, Name: c.Name})) {
			errs = append(errs, control.Delete(ctx, remote, c))
		}
	}
	return errors.Join(append(errs, r.maps(ctx, remote, plane, all, id))...)
}

// first returns the oldest slice that has the name of s.
func first(s *authv1beta1.ResourceSlice, all []authv1beta1.ResourceSlice) *authv1beta1.ResourceSlice {
	for i := range all {
		if o := &all[i]; o.Name == s.Name && o.DeletionTimestamp == nil && o.Namespace != s.Namespace &&
			(o.CreationTimestamp.Before(&s.CreationTimestamp) || o.CreationTimestamp.Equal(&s.CreationTimestamp) && o.Namespace < s.Namespace) {
			s = o
		}
	}
	return s
}

// show creates or updates the provider's copy c of one slice, and copies the answer back.
func (r *copier) show(ctx context.Context, remote client.Client, plane *authv1beta1.Identity, s, c *authv1beta1.ResourceSlice, private []byte, id wire.ClusterID) error {
	subject := peering.SliceUser(s.Name, id)
	request, err := subject.Request(private, rand.Reader)
	if err != nil {
		return err
	}
	before := s.DeepCopy()
	s.Spec = peering.Asks(s.Spec, request, subject, id, wire.ClusterID(plane.Spec.ClusterID))
	if !equality.Semantic.DeepEqual(before.Spec, s.Spec) {
		if err := r.client.Patch(ctx, s, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(control.Manager)); err != nil {
			return fmt.Errorf("complete ResourceSlice %s/%s: %w", s.Namespace, s.Name, err)
		}
	}
	want := peering.SliceCopy(s, id, *plane.Spec.Namespace)
	switch {
	case c == nil:
		if err := remote.Create(ctx, want, client.FieldOwner(control.Manager)); err != nil {
			return fmt.Errorf("show ResourceSlice %s: %w", s.Name, err)
		}
		return nil // the answer arrives as an event
	case !equality.Semantic.DeepEqual(c.Spec, want.Spec) || !equality.Semantic.DeepEqual(c.Labels, want.Labels):
		c.Spec, c.Labels = want.Spec, want.Labels
		if err := remote.Update(ctx, c, client.FieldOwner(control.Manager)); err != nil {
			return fmt.Errorf("show ResourceSlice %s: %w", s.Name, err)
		}
		return nil
	case !peering.Answered(c):
		return nil
	}
	if !equality.Semantic.DeepEqual(s.Status, c.Status) {
		before = s.DeepCopy()
		s.Status = *c.Status.DeepCopy()
		if err := r.client.Status().Patch(ctx, s, client.MergeFrom(before), client.FieldOwner(control.Manager)); err != nil {
			return fmt.Errorf("report on ResourceSlice %s/%s: %w", s.Namespace, s.Name, err)
		}
	}
	if s.Status.AuthParams == nil || len(s.Status.AuthParams.SignedCRT) == 0 {
		return nil
	}
	_, err = control.Apply(ctx, r.client, peering.SliceIdentity(s, plane))
	return err
}

// answers watches this cluster's namespaces on providers, and sends an event for each change. The keys of
// watching are tenant namespaces of this cluster.
type answers struct {
	told chan event.GenericEvent

	mu       sync.Mutex
	watching map[string]watching
}

// watching is the watch of one namespace on a provider, over the connections of provider.
type watching struct {
	provider *remote.Cluster
	there    string
	end      context.CancelFunc
}

// run ends all watches when this replica stops leading.
func (a *answers) run(ctx context.Context) error {
	<-ctx.Done()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.watching {
		w.end()
	}
	return nil
}

func (a *answers) leave(here string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w, there := a.watching[here]; there {
		w.end()
		delete(a.watching, here)
	}
}

// enter watches namespace there on a provider for tenant namespace here. It ends an earlier watch over
// other connections.
func (a *answers) enter(ctx context.Context, here, there string, provider *remote.Cluster) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w, ok := a.watching[here]; ok {
		if w.provider == provider && w.there == there {
			return nil
		}
		w.end()
	}
	c, err := metadata.NewForConfigAndClient(provider.Config, provider.HTTP)
	if err != nil {
		return fmt.Errorf("watch the answers of a provider: %w", err)
	}
	ctx, end := context.WithCancel(context.WithoutCancel(ctx)) // the watch outlives this reconciliation
	if a.watching == nil {
		a.watching = map[string]watching{}
	}
	a.watching[here] = watching{provider, there, end}
	say := func(any) {
		o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: here, Name: there}}
		select {
		case a.told <- event.GenericEvent{Object: o}:
		case <-ctx.Done():
		}
	}
	var running sync.WaitGroup
	for _, kind := range []schema.GroupVersionResource{authv1beta1.ResourceSliceGroupVersionResource, offloadingv1beta1.SchemeGroupVersion.WithResource("namespacemaps")} {
		informer := metadatainformer.NewFilteredMetadataInformer(c, kind, there, 0, toolscache.Indexers{}, nil).Informer()
		_, _ = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{ // fails only for an informer that has ended
			AddFunc: say, UpdateFunc: func(_, o any) { say(o) }, DeleteFunc: say,
		})
		running.Go(func() { informer.RunWithContext(ctx) })
	}
	go func() {
		running.Wait()
		provider.Close()
	}()
	return nil
}
