package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/gateway/operator/ranges"
	"github.com/liqo-tui/liqo-tui/gateway/operator/signing"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// tenants grants access to consumers that have proved possession of their key. It revokes the access when
// the Tenant is deleted, drained or changed.
type tenants struct {
	signer

	recorder events.EventRecorder
	options  Options
	counting control.Counting
}

func (r *tenants) setup(mgr ctrl.Manager, secrets <-chan event.GenericEvent) error {
	inNamespace := handler.EnqueueRequestsFromMapFunc(r.inNamespace)
	ofTenant := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &authv1beta1.Tenant{}, handler.OnlyControllerOwner())
	return ctrl.NewControllerManagedBy(mgr).Named("tenant-access").
		WithOptions(control.Workers(4)).
		For(&authv1beta1.Tenant{}).
		WatchesRawSource(source.Channel(secrets, inNamespace)).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
			return r.list(ctx, client.InNamespace(o.GetName()))
		})).
		// A deleted Tenant may have blocked a Tenant in another namespace.
		Watches(&authv1beta1.Tenant{}, handler.Funcs{DeleteFunc: func(ctx context.Context, _ event.DeleteEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
			for _, one := range r.list(ctx) {
				q.Add(one)
			}
		}}).
		Watches(&rbacv1.RoleBinding{}, ofTenant).
		Watches(&corev1.ResourceQuota{}, ofTenant, builder.WithPredicates(control.UnlessUsed())).
		Watches(&certificatesv1.CertificateSigningRequest{}, ownerIn(peering.AnnotationTenant)).
		WatchesRawSource(r.authority.News(signing.Every, func(ctx context.Context) []reconcile.Request { return r.list(ctx) })).
		Complete(r)
}

func (r *tenants) inNamespace(ctx context.Context, o client.Object) []reconcile.Request {
	return r.list(ctx, client.InNamespace(o.GetNamespace()))
}

func (r *tenants) list(ctx context.Context, options ...client.ListOption) (out []reconcile.Request) {
	var list authv1beta1.TenantList
	if err := r.client.List(ctx, &list, append(options, client.UnsafeDisableDeepCopy)...); err != nil {
		return nil // only when the cache has stopped
	}
	for i := range list.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return out
}

// refusedAgain is the time until a refused Tenant is judged again. No watch covers some reasons, such as
// bindings of others.
const refusedAgain = 10 * time.Second

func (r *tenants) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	in, err := r.read(ctx, req.NamespacedName)
	if err != nil {
		return ctrl.Result{}, err
	}
	t := in.tenant
	if t == nil {
		return ctrl.Result{}, r.forget(ctx, req.NamespacedName)
	}
	if authv1beta1.GetAuthzPolicyValue(t.Spec.AuthzPolicy) == authv1beta1.TolerateNoHandshake {
		err := control.Complain(ctx, r.client, r.recorder, t, errors.New(wire.ProblemRefused+"it wants no handshake, and this operator gives no access without one"))
		return ctrl.Result{}, errors.Join(err, r.revoke(ctx, t))
	}
	nonce, why := in.refusal()
	if why != nil {
		err := control.Complain(ctx, r.client, r.recorder, t, fmt.Errorf("%s%w", wire.ProblemRefused, why))
		return ctrl.Result{RequeueAfter: refusedAgain}, errors.Join(err, r.revoke(ctx, t))
	}
	if t.Spec.TenantCondition == authv1beta1.TenantConditionDrained {
		return ctrl.Result{}, r.revoke(ctx, t)
	}
	if nonce != nil {
		if err := r.use(ctx, nonce, t); err != nil {
			return ctrl.Result{}, err
		}
	}
	if again, err := r.fence(ctx, t); err != nil || again > 0 {
		return ctrl.Result{RequeueAfter: again}, err
	}
	certificate, again, why := r.certificate(ctx, in.certified(), in.stored, time.Now())
	if why != nil {
		return ctrl.Result{RequeueAfter: again}, control.Complain(ctx, r.client, r.recorder, t, why)
	}
	if certificate == nil {
		return ctrl.Result{RequeueAfter: again}, nil
	}
	if _, err := control.Apply(ctx, r.client, peering.ConsumerAccess(t)); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.report(ctx, t, certificate); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: again}, control.Complain(ctx, r.client, r.recorder, t, nil)
}

// read reads the facts for the decision about a Tenant. The tenant is nil if it is gone.
func (r *tenants) read(ctx context.Context, key client.ObjectKey) (*inputs, error) {
	in := &inputs{}
	t := &authv1beta1.Tenant{}
	if err := r.reader.Get(ctx, key, t); apierrors.IsNotFound(err) || err == nil && t.DeletionTimestamp != nil {
		return in, nil
	} else if err != nil {
		return nil, fmt.Errorf("read Tenant %s: %w", key, err)
	}
	in.tenant = t
	ns := &corev1.Namespace{}
	switch err := r.client.Get(ctx, client.ObjectKey{Name: key.Namespace}, ns); {
	case apierrors.IsNotFound(err):
		return in, nil // the namespace has no label of a peer, and the operator may read nothing in it
	case err != nil:
		return nil, fmt.Errorf("read namespace %s: %w", key.Namespace, err)
	}
	in.namespace = ns
	var err error
	if in.home, err = control.ClusterID(ctx, r.reader, r.options.Home); err != nil {
		return nil, err
	}
	if in.stored, err = r.stored(ctx, key.Namespace, peering.CertificateName); err != nil {
		return nil, err
	}
	if in.nonces, err = noncesIn(ctx, r.client, key.Namespace); err != nil {
		return nil, err
	}
	// All other consumers' objects are read from the API server only for a Tenant that is about to be
	// accepted. A refused Tenant is judged again every 10 s, and these lists would cost too much.
	gets := !in.accepted() && in.signed() != nil
	if in.all, err = r.allTenants(ctx, !gets); err != nil || !gets {
		return in, err
	}
	var slices authv1beta1.ResourceSliceList
	if err := r.reader.List(ctx, &slices); err != nil {
		return nil, fmt.Errorf("list ResourceSlices: %w", err)
	}
	in.users = sliceUsers(in.all, slices.Items, in.id())
	in.strangers, err = r.strangers(ctx, in.id())
	return in, err
}

// allTenants returns the Tenants of all consumers, which callers must not change. If a consumer has no name
// yet, they are read from the API server. Otherwise they are read from the cache: after a restart, each of a
// thousand consumers is judged, and a list of all Tenants is 4 MB.
func (r *signer) allTenants(ctx context.Context, cached bool) ([]authv1beta1.Tenant, error) {
	from, how := r.reader, []client.ListOption(nil)
	if cached {
		from, how = r.client, []client.ListOption{client.UnsafeDisableDeepCopy}
	}
	var all authv1beta1.TenantList
	if err := from.List(ctx, &all, how...); err != nil {
		return nil, fmt.Errorf("list Tenants: %w", err)
	}
	return all.Items, nil
}

// strangers reads all bindings of this cluster, and maps users and groups to the binding that gives them
// rights. The function of the same name selects the bindings.
func (r *signer) strangers(ctx context.Context, of wire.ClusterID) (map[string]string, error) {
	var cluster rbacv1.ClusterRoleBindingList
	var namespaced rbacv1.RoleBindingList
	if err := errors.Join(r.reader.List(ctx, &cluster), r.reader.List(ctx, &namespaced)); err != nil {
		return nil, fmt.Errorf("list the bindings of this cluster: %w", err)
	}
	return strangers(cluster.Items, namespaced.Items, of), nil
}

// use marks a nonce as used by the Tenant that has signed it, before the Tenant gets anything.
func (r *tenants) use(ctx context.Context, nonce *corev1.Secret, t *authv1beta1.Tenant) error {
	if nonce.Annotations[peering.AnnotationUsed] == string(t.UID) {
		return nil
	}
	before := nonce.DeepCopy()
	metav1.SetMetaDataAnnotation(&nonce.ObjectMeta, peering.AnnotationUsed, string(t.UID))
	if err := r.client.Patch(ctx, nonce, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(control.Manager)); err != nil {
		return fmt.Errorf("mark the nonce of Tenant %s/%s as used: %w", t.Namespace, t.Name, err)
	}
	return nil
}

// params returns the parameters by which a consumer reaches this cluster's API server with a certificate.
func (r *tenants) params(ctx context.Context, t *authv1beta1.Tenant, certificate []byte) (*authv1beta1.AuthParams, error) {
	server, err := r.server(ctx)
	if err != nil {
		return nil, err
	}
	ca, err := r.authority.PEM()
	if err != nil {
		return nil, err
	}
	return &authv1beta1.AuthParams{CA: ca, SignedCRT: certificate, APIServer: server, ProxyURL: t.Spec.ProxyURL}, nil
}

// report writes the certificate and the API server's address into the Tenant's status, for the consumer.
func (r *tenants) report(ctx context.Context, t *authv1beta1.Tenant, certificate []byte) error {
	params, err := r.params(ctx, t, certificate)
	if err != nil {
		return err
	}
	before := t.DeepCopy()
	t.Status.TenantNamespace, t.Status.AuthParams = t.Namespace, params
	if equality.Semantic.DeepEqual(before.Status, t.Status) {
		return nil
	}
	if err := r.client.Status().Patch(ctx, t, client.MergeFrom(before), client.FieldOwner(control.Manager)); err != nil {
		return fmt.Errorf("report on Tenant %s/%s: %w", t.Namespace, t.Name, err)
	}
	return nil
}

// fence limits the number of objects that the consumer may create. The limit is in force if again is 0.
func (r *tenants) fence(ctx context.Context, t *authv1beta1.Tenant) (again time.Duration, err error) {
	q, err := control.Apply(ctx, r.client, peering.ConsumerQuota(t))
	if err != nil {
		return 0, err
	}
	switch late := r.counting.Late(q, time.Now()); {
	case control.Counted(q):
		return 0, nil
	case !late:
		return countedAgain, nil
	}
	return countedAgain, errors.Join(control.Complain(ctx, r.client, r.recorder, t, fmt.Errorf("this cluster does not count ResourceQuota %s/%s: check that its kube-controller-manager runs", q.Namespace, q.Name)),
		control.Delete(ctx, r.client, q))
}

// server returns the URL at which consumers reach the API server.
func (r *tenants) server(ctx context.Context) (string, error) {
	if r.options.APIServer != "" {
		return r.options.APIServer, nil
	}
	var slice discoveryv1.EndpointSlice
	if err := r.client.Get(ctx, ranges.APIServerSlice(), &slice); client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("read the API servers' addresses: %w", err)
	}
	if server := serverURL(&slice); server != "" {
		return server, nil
	}
	return "", errors.New("the API server does not state its address: the installation has to state one")
}

// revoke deletes the binding of a Tenant. The certificate can't be revoked, but it gives no rights without
// the binding.
func (r *tenants) revoke(ctx context.Context, t *authv1beta1.Tenant) error {
	b := &rbacv1.RoleBinding{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: t.Namespace, Name: wire.ConsumerAccessName}, b)
	if err != nil || !ownedByTenant(b, t) {
		return client.IgnoreNotFound(err)
	}
	return control.Delete(ctx, r.client, b)
}

// forget removes the objects of a deleted Tenant, its rights first.
func (r *tenants) forget(ctx context.Context, key client.ObjectKey) error {
	var errs []error
	b := &rbacv1.RoleBinding{}
	switch err := r.client.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: wire.ConsumerAccessName}, b); {
	case err == nil && isLeftBy(b, authv1beta1.TenantKind, key.Name):
		errs = append(errs, control.Delete(ctx, r.client, b))
	case client.IgnoreNotFound(err) != nil:
		errs = append(errs, err)
	}
	errs = append(errs, r.signer.forget(ctx, peering.AnnotationTenant, authv1beta1.TenantKind, key, peering.CertificateName))
	var all authv1beta1.TenantList
	var renews authv1beta1.RenewList
	errs = append(errs, r.reader.List(ctx, &all, client.InNamespace(key.Namespace)), r.client.List(ctx, &renews, client.InNamespace(key.Namespace)))
	if len(all.Items) == 0 {
		for i := range renews.Items {
			errs = append(errs, control.Delete(ctx, r.client, &renews.Items[i]))
		}
		errs = append(errs, r.unfence(ctx, key))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove the objects of Tenant %s: %w", key, err)
	}
	return nil
}

// unfence removes the quota of a deleted Tenant, if the operator still has the right to do so.
func (r *tenants) unfence(ctx context.Context, key client.ObjectKey) error {
	q := &corev1.ResourceQuota{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: wire.ConsumerAccessName}, q)
	switch {
	case apierrors.IsNotFound(err) || apierrors.IsForbidden(err): // the operator's rights have ended with the namespace's label
		return nil
	case err != nil:
		return err
	case isLeftBy(q, authv1beta1.TenantKind, key.Name):
		return control.Delete(ctx, r.client, q)
	}
	return nil
}

func ownedByTenant(o client.Object, t *authv1beta1.Tenant) bool {
	owner := metav1.GetControllerOf(o)
	return owner != nil && owner.UID == t.UID
}

// serverURL returns the URL of the first API server; "" if the slice has no address.
func serverURL(slice *discoveryv1.EndpointSlice) string {
	port := int32(443)
	for _, p := range slice.Ports {
		port = *cmp.Or(p.Port, &port)
	}
	for _, e := range slice.Endpoints {
		if len(e.Addresses) > 0 {
			return "https://" + net.JoinHostPort(e.Addresses[0], strconv.Itoa(int(port)))
		}
	}
	return ""
}
