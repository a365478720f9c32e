package provider

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/internal/offload"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// shadowPods makes a remote pod from each ShadowPod, and writes the phase of the pod into the ShadowPod.
type shadowPods struct {
	base

	books *ledger
}

func (r *shadowPods) setup(mgr ctrl.Manager) error {
	itself := &handler.EnqueueRequestForObject{} // a remote pod has the name of its ShadowPod
	waiting := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) (out []reconcile.Request) {
		for _, key := range r.books.waitingIn(o.GetNamespace()) {
			out = append(out, reconcile.Request{NamespacedName: key})
		}
		return out
	})
	return ctrl.NewControllerManagedBy(mgr).Named("shadow-pod").
		WithOptions(r.fairly(10)).
		WatchesRawSource(source.Kind[client.Object](r.cache, &offloadingv1beta1.ShadowPod{}, itself)).
		WatchesRawSource(source.Kind[client.Object](r.cache, &corev1.Pod{}, itself)).
		WatchesRawSource(source.Channel(r.books.told, itself)).
		Watches(&authv1beta1.ResourceSlice{}, waiting, builder.WithPredicates(grantNews())).
		Watches(&authv1beta1.Tenant{}, waiting).
		Complete(r)
}

// grantNews selects slices whose grant has changed. A change of the request alone has no effect yet.
func grantNews() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		was, is := e.ObjectOld.(*authv1beta1.ResourceSlice), e.ObjectNew.(*authv1beta1.ResourceSlice)
		return (was.Status.AuthParams == nil) != (is.Status.AuthParams == nil) || (was.DeletionTimestamp == nil) != (is.DeletionTimestamp == nil) ||
			!equality.Semantic.DeepEqual(was.Status.Resources, is.Status.Resources)
	}}
}

// asked are the facts for the decision about one ShadowPod.
type asked struct {
	key    client.ObjectKey
	shadow *offloadingv1beta1.ShadowPod // nil if it is gone
	pod    *corev1.Pod                  // nil if there is none
	mapped *corev1.Namespace
	id     wire.ClusterID
	tenant *tenant
	books  *account
}

func (r *shadowPods) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	in, err := r.read(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	if in == nil {
		return ctrl.Result{}, r.books.pass(ctx, req.NamespacedName, nil)
	}
	if err := r.books.pass(ctx, req.NamespacedName, in.books); err != nil {
		return ctrl.Result{}, err
	}
	if in.pod != nil {
		if offload.Ended(in.pod.Status.Phase) {
			r.books.release(ctx, in.books, in.key, in.tenant.granted)
		} else {
			in.books.see(in.key, in.pod)
		}
	} else if known, err := r.settle(ctx, in); err != nil || !known {
		return ctrl.Result{RequeueAfter: cacheAgain}, err
	}
	switch {
	case in.shadow == nil:
		in.books.leave(in.key)
		if in.pod == nil {
			r.books.hold(in.key, nil)
		}
		return ctrl.Result{}, r.end(ctx, in)
	case in.pod != nil && in.tenant.gone(): // the pod was created while the Tenant was being removed
		return ctrl.Result{}, r.end(ctx, in)
	case in.pod != nil && in.pod.Annotations[peering.AnnotationShadow] != string(in.shadow.UID):
		return ctrl.Result{}, r.end(ctx, in) // the pod of an earlier ShadowPod of this name
	case in.pod != nil:
		return ctrl.Result{}, r.follow(ctx, in)
	case in.mapped.DeletionTimestamp != nil || offload.Ended(in.shadow.Status.Phase):
		in.books.leave(in.key)
		return ctrl.Result{}, nil
	}
	return r.make(ctx, in)
}

// read reads the facts for a decision; nil if the namespace is no mapped namespace of ours.
func (r *shadowPods) read(ctx context.Context, key client.ObjectKey) (*asked, error) {
	in := &asked{key: key, mapped: &corev1.Namespace{}}
	if err := r.client.Get(ctx, client.ObjectKey{Name: key.Namespace}, in.mapped); apierrors.IsNotFound(err) || err == nil && !peering.IsMapped(in.mapped) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("read namespace %s: %w", key.Namespace, err)
	}
	shadow := &offloadingv1beta1.ShadowPod{}
	switch err := r.client.Get(ctx, key, shadow); {
	case err == nil && shadow.DeletionTimestamp == nil:
		in.shadow = shadow
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("read ShadowPod %s: %w", key, err)
	}
	pod := &corev1.Pod{}
	switch err := r.client.Get(ctx, key, pod); {
	case err == nil && made(pod):
		in.pod = pod
	case client.IgnoreNotFound(err) != nil:
		return nil, fmt.Errorf("read pod %s: %w", key, err)
	}
	namespace := tenantOf(in.mapped)
	in.id = wire.ClusterID(in.mapped.Labels[wire.LabelRemoteCluster])
	var err error
	if in.tenant, err = r.tenant(ctx, namespace, in.id); err != nil {
		return nil, err
	}
	in.books, err = r.books.of(ctx, namespace, in.id)
	return in, err
}

// cacheAgain is the time until the operator looks again for a pod that the cache lacks. An event usually
// comes earlier.
const cacheAgain = time.Second

// settle looks for a counted pod that is not in the cache, because it is gone or too new. known is
// false if the operator has to look again.
func (r *shadowPods) settle(ctx context.Context, in *asked) (known bool, err error) {
	uid, there := in.books.entered(in.key)
	if !there || uid == "" && in.shadow != nil {
		return true, nil // make reserves the room again
	}
	live := &corev1.Pod{}
	err = r.reader.Get(ctx, in.key, live)
	switch {
	case err == nil && uid == "" && made(live): // an earlier attempt has made it, but got no answer
		in.books.see(in.key, live)
	case apierrors.IsNotFound(err) || err == nil && live.UID != uid:
		r.books.release(ctx, in.books, in.key, in.tenant.granted)
		return true, nil
	case err != nil:
		return false, fmt.Errorf("read pod %s: %w", in.key, err)
	}
	return false, nil
}

// end deletes a pod whose ShadowPod is gone or was replaced, or whose consumer's Tenant is missing, drained
// or deleted. In the first case, Kubernetes' garbage collector would do it, but later.
func (r *shadowPods) end(ctx context.Context, in *asked) error {
	switch {
	case in.pod == nil:
		return nil
	case in.tenant.gone():
		return r.endSoon(ctx, in.pod)
	case in.pod.DeletionTimestamp != nil:
		return nil
	}
	return control.Delete(ctx, r.client, in.pod)
}

// follow copies the pod's phase into the ShadowPod, and the ShadowPod's labels into the pod.
func (r *shadowPods) follow(ctx context.Context, in *asked) error {
	s := in.shadow
	var errs []error
	if phase := offload.Phase(s.Status.Phase, in.pod); phase != s.Status.Phase {
		before := s.DeepCopy()
		s.Status.Phase = phase
		if err := r.client.Status().Patch(ctx, s, client.MergeFrom(before), client.FieldOwner(control.Manager)); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("report on ShadowPod %s: %w", in.key, err))
		}
	}
	if in.pod.DeletionTimestamp == nil {
		before := in.pod.DeepCopy()
		maps.Copy(in.pod.Labels, offload.Labels(s.Labels, in.id)) // admission webhooks may have added labels: those stay
		if !maps.Equal(before.Labels, in.pod.Labels) {
			if err := r.client.Patch(ctx, in.pod, client.MergeFrom(before), client.FieldOwner(control.Manager)); client.IgnoreNotFound(err) != nil {
				errs = append(errs, fmt.Errorf("label pod %s: %w", in.key, err))
			}
		}
	}
	return errors.Join(append(errs, r.complain(ctx, s, nil))...)
}

func (r *shadowPods) complain(ctx context.Context, s *offloadingv1beta1.ShadowPod, why error) error {
	return client.IgnoreNotFound(control.Complain(ctx, r.client, r.recorder, s, why))
}

const (
	// shadowAgain is the time until a refused pod is tried again, because an admin may change a policy
	// meanwhile.
	shadowAgain = time.Minute
	accessAgain = 5 * time.Second
	// laggingAgain is used for states that Kubernetes itself corrects soon: a quota still counts pods that
	// have ended, or a new namespace has no default ServiceAccount yet.
	laggingAgain = 300 * time.Millisecond
	laggingTime  = 5 * time.Second
)

// make reserves room for a pod and creates it, or writes the reason for a refusal into the ShadowPod.
func (r *shadowPods) make(ctx context.Context, in *asked) (ctrl.Result, error) {
	if in.shadow.Status.Phase != "" { // the ShadowPod had a pod, which may have ended after the cache was updated
		live := &offloadingv1beta1.ShadowPod{}
		switch err := r.reader.Get(ctx, in.key, live); {
		case apierrors.IsNotFound(err) || err == nil && (live.UID != in.shadow.UID || live.DeletionTimestamp != nil || offload.Ended(live.Status.Phase)):
			return ctrl.Result{RequeueAfter: cacheAgain}, nil
		case err != nil:
			return ctrl.Result{}, fmt.Errorf("read ShadowPod %s: %w", in.key, err)
		}
	}
	pod, why := offload.Pod(in.shadow, in.id)
	if why != nil {
		r.books.release(ctx, in.books, in.key, in.tenant.granted)
		return ctrl.Result{}, r.complain(ctx, in.shadow, fmt.Errorf("%s%w", wire.ProblemRefused, why))
	}
	if in.tenant.gone() || !in.tenant.admitted {
		return ctrl.Result{RequeueAfter: accessAgain}, r.complain(ctx, in.shadow, fmt.Errorf("%s has no access here now", in.id))
	}
	if _, entered := in.books.entered(in.key); !entered && in.tenant.Spec.TenantCondition == authv1beta1.TenantConditionCordoned {
		if why := in.books.reserve(in.key, offload.Sum(&pod.Spec), nil); why != nil { // nil as the grants: a new pod never fits, and waits
			err := fmt.Errorf("an admin has cordoned tenant %s: it gets nothing more", in.tenant.Name)
			return ctrl.Result{RequeueAfter: againAfter(why)}, r.complain(ctx, in.shadow, err)
		}
	}
	if why := in.books.reserve(in.key, offload.Sum(&pod.Spec), in.tenant.granted); why != nil {
		return ctrl.Result{RequeueAfter: againAfter(why)}, r.complain(ctx, in.shadow, why)
	}
	err := r.client.Create(ctx, pod, client.FieldOwner(control.Manager))
	switch {
	case err == nil:
		in.books.see(in.key, pod)
		return ctrl.Result{}, r.complain(ctx, in.shadow, nil)
	case apierrors.IsAlreadyExists(err):
		return r.meet(ctx, in)
	case apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err):
		r.books.release(ctx, in.books, in.key, in.tenant.granted)
		return r.refused(ctx, in, err)
	}
	// It is unknown whether the pod exists, so the reservation stays.
	return ctrl.Result{}, fmt.Errorf("create pod %s: %w", in.key, err)
}

// meet handles a pod that already has the name.
func (r *shadowPods) meet(ctx context.Context, in *asked) (ctrl.Result, error) {
	live := &corev1.Pod{}
	err := r.reader.Get(ctx, in.key, live)
	switch {
	case apierrors.IsNotFound(err):
		return ctrl.Result{RequeueAfter: laggingAgain}, nil
	case err != nil:
		return ctrl.Result{}, fmt.Errorf("read pod %s: %w", in.key, err)
	case made(live):
		in.books.see(in.key, live)
		return ctrl.Result{RequeueAfter: cacheAgain}, nil
	}
	r.books.release(ctx, in.books, in.key, in.tenant.granted)
	return ctrl.Result{RequeueAfter: shadowAgain}, r.complain(ctx, in.shadow, errors.New("a pod of this name exists already, and was not made from a ShadowPod"))
}

// refused writes the API server's refusal into the ShadowPod. It compares only the beginning of the message,
// because the rest may contain text of the consumer.
func (r *shadowPods) refused(ctx context.Context, in *asked, why error) (ctrl.Result, error) {
	text := why.Error()
	var status apierrors.APIStatus
	if errors.As(why, &status) {
		text = status.Status().Message
	}
	text = strings.TrimPrefix(text, fmt.Sprintf("pods %q is forbidden: ", in.key.Name))
	says := func(begins string) bool { return apierrors.IsForbidden(why) && strings.HasPrefix(text, begins) }
	young := time.Since(in.mapped.CreationTimestamp.Time) < laggingTime
	switch {
	case says("unable to create new content in namespace "): // the namespace is being deleted
		return ctrl.Result{}, nil
	case says("exceeded quota"):
		// Kubernetes updates its count a moment later than we do.
		if time.Since(in.shadow.CreationTimestamp.Time) < laggingTime {
			return ctrl.Result{RequeueAfter: laggingAgain}, nil
		}
		return ctrl.Result{RequeueAfter: accessAgain}, r.complain(ctx, in.shadow, errors.New("the quota of its namespace still counts pods that have ended"))
	case young && says("pods is forbidden: User "): // an API server needs a moment until a new binding has an effect
		return ctrl.Result{RequeueAfter: laggingAgain}, nil
	case says("error looking up service account") || says("status unknown for quota"):
		again := laggingAgain
		if !young {
			again = accessAgain
		}
		return ctrl.Result{RequeueAfter: again}, r.complain(ctx, in.shadow, why)
	}
	return ctrl.Result{RequeueAfter: shadowAgain}, r.complain(ctx, in.shadow, errors.New(wire.ProblemRefused+text))
}
