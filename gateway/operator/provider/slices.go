package provider

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/gateway/operator/signing"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// grants is the controller that answers the ResourceSlices of consumers. The answer has a certificate for the
// virtual kubelet, and the granted resources. There is only one worker, so that no resource is granted twice.
type grants struct {
	*tenants

	used used
	seen *control.Deletions // of Tenants
	lent lent
}

func (r *grants) setup(mgr ctrl.Manager, secrets <-chan event.GenericEvent) error {
	r.lent = lent{client: r.client, reader: r.reader}
	denied := handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, _ client.Object) []reconcile.Request {
		return r.requests(ctx, func(s *authv1beta1.ResourceSlice) bool {
			c := peering.Condition(s, authv1beta1.ResourceSliceConditionTypeResources)
			return c != nil && c.Status == authv1beta1.ResourceSliceConditionDenied
		})
	})
	return ctrl.NewControllerManagedBy(mgr).Named("slice-grant").
		WithOptions(control.Workers(1)).
		For(&authv1beta1.ResourceSlice{}).
		Watches(&authv1beta1.ResourceSlice{}, denied). // a slice may give back enough resources for a denied slice
		Watches(&corev1.Node{}, denied, builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
			was, is := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
			return lends(was) != lends(is) || !equality.Semantic.DeepEqual(was.Status.Allocatable, is.Status.Allocatable)
		}})).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.labelled), builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
			was, is := e.ObjectOld.(*corev1.Node), e.ObjectNew.(*corev1.Node)
			return lends(was) != lends(is) || !maps.Equal(peering.NodeLabels(was.Labels), peering.NodeLabels(is.Labels))
		}})).
		Watches(&authv1beta1.Tenant{}, r.seen.Seen(handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
			return r.requests(ctx, func(*authv1beta1.ResourceSlice) bool { return true }, client.InNamespace(o.GetNamespace()))
		}))).
		Watches(&certificatesv1.CertificateSigningRequest{}, ownerIn(peering.AnnotationSlice)).
		WatchesRawSource(r.authority.News(signing.Every, func(ctx context.Context) []reconcile.Request {
			return r.requests(ctx, func(*authv1beta1.ResourceSlice) bool { return true })
		})).
		WatchesRawSource(source.Channel(secrets, handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &authv1beta1.ResourceSlice{}, handler.OnlyControllerOwner()))).
		Complete(r)
}

// labelled returns the granted slices whose answers don't have the present labels of the nodes.
func (r *grants) labelled(ctx context.Context, _ client.Object) []reconcile.Request {
	var nodes corev1.NodeList
	if err := r.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil // only when the cache has stopped
	}
	now := shared(nodes.Items)
	return r.requests(ctx, func(s *authv1beta1.ResourceSlice) bool {
		c := peering.Condition(s, authv1beta1.ResourceSliceConditionTypeResources)
		return peering.FromConsumer(s) && c != nil && c.Status == authv1beta1.ResourceSliceConditionAccepted && !maps.Equal(s.Status.NodeLabels, now)
	})
}

func (r *grants) requests(ctx context.Context, which func(*authv1beta1.ResourceSlice) bool, options ...client.ListOption) (out []reconcile.Request) {
	var list authv1beta1.ResourceSliceList
	if err := r.client.List(ctx, &list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil // only when the cache has stopped
	}
	for i := range list.Items {
		if s := &list.Items[i]; which(s) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(s)})
		}
	}
	return out
}

func (r *grants) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	s := &authv1beta1.ResourceSlice{}
	err := r.reader.Get(ctx, req.NamespacedName, s)
	if apierrors.IsNotFound(err) || err == nil && s.DeletionTimestamp != nil {
		return ctrl.Result{}, r.signer.forget(ctx, peering.AnnotationSlice, authv1beta1.ResourceSliceKind, req.NamespacedName, peering.SliceCertificateName(req.Name))
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("read ResourceSlice %s: %w", req, err)
	}
	if !peering.FromConsumer(s) {
		return ctrl.Result{}, nil
	}
	in, err := r.readSlice(ctx, s)
	switch {
	case err != nil:
		return ctrl.Result{}, err
	case in.over: // the consumer's Tenant is drained or deleted
		return ctrl.Result{}, control.Delete(ctx, r.client, s)
	case in.tenant == nil: // the consumer has no accepted Tenant now
		return ctrl.Result{}, nil
	}
	a := answer{now: metav1.Now()}
	a.AuthParams, a.again, a.refused, err = r.authenticate(ctx, in)
	if err != nil || a.AuthParams == nil && a.refused == nil {
		return ctrl.Result{RequeueAfter: a.again}, err
	}
	if a.Resources, a.denied = in.resources(); a.refused != nil {
		a.Resources, a.denied = nil, a.refused
	}
	if a.denied == nil {
		a.NodeLabels = shared(in.nodes)
	}
	if a.denied != nil && in.outlived() && (a.again == 0 || a.again > usedAgain) {
		a.again = usedAgain
	}
	return ctrl.Result{RequeueAfter: a.again}, r.answer(ctx, s, a)
}

// usedAgain is the time after which the operator judges a denied slice again, while pods of other consumers use
// more than their present grants. The end of such pods causes no event here.
const usedAgain = 10 * time.Second

// sliceRequest has the facts for the answer to a slice.
type sliceRequest struct {
	slice  *authv1beta1.ResourceSlice
	tenant *authv1beta1.Tenant // nil if no Tenant of the namespace has access
	over   bool                // the Tenant is drained, or was deleted
	home   wire.ClusterID
	all    []authv1beta1.Tenant
	others []authv1beta1.ResourceSlice // of all consumers, with their grants
	nodes  []corev1.Node
	lend   corev1.ResourceList            // the limit for all consumers together
	used   map[string]corev1.ResourceList // the resources of each consumer's pods, by tenant namespace
	// admitted is set if the Tenant has its certificate.
	admitted bool
	stored   *corev1.Secret // of the slice's certificate
}

func (r *grants) readSlice(ctx context.Context, s *authv1beta1.ResourceSlice) (*sliceRequest, error) {
	in := &sliceRequest{slice: s, lend: r.options.Lend, over: r.seen.Has(ofTenant(s.Namespace))}
	var here authv1beta1.TenantList
	if err := r.reader.List(ctx, &here, client.InNamespace(s.Namespace)); err != nil {
		return nil, fmt.Errorf("list Tenants of namespace %s: %w", s.Namespace, err)
	}
	for i := range here.Items {
		t := &here.Items[i]
		in.over = t.DeletionTimestamp != nil || t.Spec.TenantCondition == authv1beta1.TenantConditionDrained
		if t.DeletionTimestamp == nil && t.Status.AuthParams != nil && in.tenant == nil {
			in.tenant = t
		}
	}
	if in.over || in.tenant == nil {
		return in, nil
	}
	var err error
	if in.home, err = control.ClusterID(ctx, r.reader, r.options.Home); err != nil {
		return nil, err
	}
	if in.others, err = r.lent.others(ctx, s); err != nil {
		return nil, err
	}
	var nodes corev1.NodeList
	if err := r.client.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	in.nodes = nodes.Items
	if in.used, err = r.used(ctx); err != nil {
		return nil, err
	}
	certificate, err := r.stored(ctx, s.Namespace, peering.CertificateName)
	if err != nil {
		return nil, err
	}
	in.admitted = holds(certificate, peering.OfTenant(in.tenant))
	if in.stored, err = r.stored(ctx, s.Namespace, peering.SliceCertificateName(s.Name)); err != nil {
		return nil, err
	}
	in.all, err = r.allTenants(ctx, holds(in.stored, peering.OfSlice(s, in.tenant)))
	in.all = slices.DeleteFunc(in.all, func(t authv1beta1.Tenant) bool { return t.DeletionTimestamp != nil })
	return in, err
}

// authenticate requests the certificate of a slice. params is nil if the certificate is not signed yet, or if
// refused is the reason that the slice gets none.
func (r *grants) authenticate(ctx context.Context, in *sliceRequest) (params *authv1beta1.AuthParams, again time.Duration, refused, err error) {
	of := peering.OfSlice(in.slice, in.tenant)
	if refused := in.refusal(of); refused != nil {
		return nil, 0, refused, nil
	}
	if !holds(in.stored, of) {
		strangers, err := r.strangers(ctx, of.Consumer)
		if err != nil {
			return nil, 0, nil, err
		}
		for _, name := range []string{of.User, of.Group} {
			if binding := strangers[name]; binding != "" {
				return nil, refusedAgain, fmt.Errorf("%s gives rights to a user or group %s, and the certificate would have this name", binding, name), nil
			}
		}
	}
	certificate, again, why := r.certificate(ctx, of, in.stored, time.Now())
	switch {
	case why != nil && again == 0:
		return nil, 0, nil, why
	case certificate == nil:
		return nil, again, why, nil
	}
	params, err = r.params(ctx, in.tenant, certificate)
	return params, again, nil, err
}

// refusal returns the reason that a slice gets no certificate; nil if it may get one.
func (in *sliceRequest) refusal(of peering.Certified) error {
	s, id := in.slice, in.tenant.Spec.ClusterID
	switch {
	case !in.admitted:
		return fmt.Errorf("tenant %s has no access here now", in.tenant.Name)
	case s.Spec.ConsumerClusterID == nil || *s.Spec.ConsumerClusterID != id:
		return fmt.Errorf("it is not of cluster %s, which this namespace is for", id)
	case s.Spec.ProviderClusterID != nil && string(*s.Spec.ProviderClusterID) != string(in.home):
		return fmt.Errorf("it asks cluster %s, and this is %s", *s.Spec.ProviderClusterID, in.home)
	case len(validation.IsDNS1123Subdomain(s.Name)) > 0 || len(s.Name) > validation.LabelValueMaxLength:
		return fmt.Errorf("its name is no valid name of a node with at most %d letters", validation.LabelValueMaxLength)
	}
	// Two users can get the same name, because a name ends in a hash of only 48 bits, and admins choose
	// cluster IDs freely. If the other Tenant is younger, it is refused instead of this slice.
	for i := range in.all {
		other := wire.ClusterID(in.all[i].Spec.ClusterID)
		if string(other) == of.User && in.before(&in.all[i]) || other != of.Consumer && peering.SliceUser(s.Name, other).User == of.User {
			return fmt.Errorf("its certificate would have the name of one of cluster %s: choose another name", other)
		}
	}
	return of.Acceptable(of.Subject)
}

// before reports whether a Tenant already has its cluster ID as user name. It also returns true for a Tenant
// that may still get the name, because it is not refused, and not younger than the slice.
func (in *sliceRequest) before(t *authv1beta1.Tenant) bool {
	older := !in.slice.CreationTimestamp.Before(&t.CreationTimestamp)
	return t.Status.AuthParams != nil || older && !strings.HasPrefix(t.Annotations[wire.AnnotationProblem], wire.ProblemRefused)
}

// resources returns the resources that the slice gets, or the reason that it gets none.
func (in *sliceRequest) resources() (corev1.ResourceList, error) {
	s := in.slice
	if class := s.Spec.Class; class != authv1beta1.ResourceSliceClassDefault && class != authv1beta1.ResourceSliceClassUnknown {
		return nil, fmt.Errorf("no controller here handles class %q: want %q", class, authv1beta1.ResourceSliceClassDefault)
	}
	budgets, err := in.budgets()
	if err != nil {
		return nil, err
	}
	c := peering.Condition(s, authv1beta1.ResourceSliceConditionTypeResources)
	if peering.Answered(s) && c != nil && c.Status == authv1beta1.ResourceSliceConditionAccepted && stays(s.Status.Resources, budgets) {
		return s.Status.Resources, nil
	}
	if in.tenant.Spec.TenantCondition == authv1beta1.TenantConditionCordoned {
		return nil, fmt.Errorf("an admin has cordoned tenant %s: it gets nothing more", in.tenant.Name)
	}
	return grant(s.Spec.Resources, budgets)
}

func (in *sliceRequest) budgets() ([]budget, error) {
	spent, all := in.spent(), corev1.ResourceList{}
	for _, of := range spent {
		add(all, of)
	}
	budgets := []budget{
		{whose: "the nodes of " + string(in.home), holds: capacity(in.nodes), spent: all, only: true},
		{whose: "all consumers together may", holds: in.lend, spent: all},
	}
	if text := in.tenant.Annotations[peering.AnnotationLend]; text != "" {
		most, err := peering.Amounts(strings.Split(text, ","))
		if err != nil {
			return nil, fmt.Errorf("annotation %s of its Tenant: %w", peering.AnnotationLend, err)
		}
		budgets = append(budgets, budget{whose: string(in.tenant.Spec.ClusterID) + " may", holds: most, spent: spent[in.slice.Namespace]})
	}
	return budgets, nil
}

// granted returns the sums of the resources that the other slices were granted, by tenant namespace.
func (in *sliceRequest) granted() map[string]corev1.ResourceList {
	out := map[string]corev1.ResourceList{}
	for i := range in.others {
		o := &in.others[i]
		if out[o.Namespace] == nil {
			out[o.Namespace] = corev1.ResourceList{}
		}
		add(out[o.Namespace], o.Status.Resources)
	}
	return out
}

// spent returns the resources of each consumer without this slice. They are the grants of the consumer, or
// the resources of its pods if those are more, because pods keep running after their grant was given back.
// The pods of the slice's own consumer don't count, because the slice requests resources for them.
func (in *sliceRequest) spent() map[string]corev1.ResourceList {
	out := in.granted()
	for namespace, used := range in.used {
		if namespace != in.slice.Namespace {
			out[namespace] = most(out[namespace], used)
		}
	}
	return out
}

// outlived reports whether pods of other consumers use more than their present grants. Disk does not count,
// because all pods use some, but only some consumers request it.
func (in *sliceRequest) outlived() bool {
	granted := in.granted()
	for namespace, used := range in.used {
		for name, q := range used {
			if namespace != in.slice.Namespace && name != corev1.ResourceEphemeralStorage && q.Cmp(granted[namespace][name]) > 0 {
				return true
			}
		}
	}
	return false
}

type answer struct {
	AuthParams *authv1beta1.AuthParams
	Resources  corev1.ResourceList
	NodeLabels map[string]string
	refused    error // why the slice gets no certificate
	denied     error // why the slice gets no resources
	now        metav1.Time
	again      time.Duration
}

// conditions returns the two conditions of the answer. A condition with the same status as before keeps its
// transition time.
func (a answer) conditions(before *authv1beta1.ResourceSlice) []authv1beta1.ResourceSliceCondition {
	one := func(what authv1beta1.ResourceSliceConditionType, reason, good string, why error) authv1beta1.ResourceSliceCondition {
		c := authv1beta1.ResourceSliceCondition{Type: what, Status: authv1beta1.ResourceSliceConditionAccepted, Reason: reason + "Accepted", Message: good, LastTransitionTime: a.now}
		if why != nil {
			c.Status, c.Reason, c.Message = authv1beta1.ResourceSliceConditionDenied, reason+"Denied", why.Error()
		}
		if was := peering.Condition(before, what); was != nil && was.Status == c.Status {
			c.LastTransitionTime = was.LastTransitionTime
		}
		return c
	}
	return []authv1beta1.ResourceSliceCondition{
		one(authv1beta1.ResourceSliceConditionTypeAuthentication, "ResourceSliceAuthentication", "there is a certificate", a.refused),
		one(authv1beta1.ResourceSliceConditionTypeResources, "ResourceSliceResources", "the resources are granted", a.denied),
	}
}

// answer writes the status of the slice, and then the slice's generation for which the status is valid.
func (r *grants) answer(ctx context.Context, s *authv1beta1.ResourceSlice, a answer) error {
	before := s.DeepCopy()
	s.Status = authv1beta1.ResourceSliceStatus{Conditions: a.conditions(before), Resources: a.Resources, AuthParams: a.AuthParams, NodeLabels: a.NodeLabels}
	if !equality.Semantic.DeepEqual(before.Status, s.Status) {
		if err := r.client.Status().Patch(ctx, s, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(control.Manager)); err != nil {
			r.lent.failed(err)
			return fmt.Errorf("answer ResourceSlice %s/%s: %w", s.Namespace, s.Name, err)
		}
		r.lent.say(s)
		if was := peering.Condition(before, authv1beta1.ResourceSliceConditionTypeResources); a.denied != nil && (was == nil || was.Message != a.denied.Error()) {
			r.recorder.Eventf(s, nil, corev1.EventTypeWarning, "Denied", "Grant", "%s", a.denied.Error())
		}
	}
	generation := strconv.FormatInt(before.Generation, 10)
	if s.Annotations[peering.AnnotationJudged] == generation {
		return nil
	}
	before = s.DeepCopy()
	metav1.SetMetaDataAnnotation(&s.ObjectMeta, peering.AnnotationJudged, generation)
	if err := r.client.Patch(ctx, s, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(control.Manager)); err != nil {
		return fmt.Errorf("write the judged generation of ResourceSlice %s/%s: %w", s.Namespace, s.Name, err)
	}
	return nil
}
