package tenancy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
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
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/liqo-tui/liqo-tui/kube/operator/own"
	"github.com/liqo-tui/liqo-tui/kube/operator/ranges"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// tenants gives consumers access that have shown that they have the key which is to get
// it, and takes it back from those whose Tenant is gone, drained, or not as it was.
type tenants struct {
	client   client.Client
	reader   client.Reader // not cached
	recorder events.EventRecorder
	options  Options
	config   *rest.Config
}

func (r *tenants) setup(mgr ctrl.Manager, secrets <-chan event.GenericEvent) error {
	inNamespace := handler.EnqueueRequestsFromMapFunc(r.inNamespace)
	return ctrl.NewControllerManagedBy(mgr).Named("tenant-access").
		WithOptions(workers(4)).
		For(&authv1beta1.Tenant{}).
		WatchesRawSource(source.Channel(secrets, inNamespace)).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
			return r.list(ctx, client.InNamespace(o.GetName()))
		})).
		// Of two in conflict, the other one may be in another namespace.
		Watches(&authv1beta1.Tenant{}, handler.Funcs{DeleteFunc: func(ctx context.Context, _ event.DeleteEvent, q queue) {
			for _, one := range r.list(ctx) {
				q.Add(one)
			}
		}}).
		Watches(&rbacv1.RoleBinding{}, handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &authv1beta1.Tenant{}, handler.OnlyControllerOwner())).
		Watches(&certificatesv1.CertificateSigningRequest{}, handler.EnqueueRequestsFromMapFunc(tenantOf)).
		Complete(r)
}

func (r *tenants) inNamespace(ctx context.Context, o client.Object) []reconcile.Request {
	return r.list(ctx, client.InNamespace(o.GetNamespace()))
}

func (r *tenants) list(ctx context.Context, options ...client.ListOption) (out []reconcile.Request) {
	var list authv1beta1.TenantList
	if err := r.client.List(ctx, &list, options...); err != nil {
		return nil // the cache fails when it ends
	}
	for i := range list.Items {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return out
}

// judgeAgain is for refusals by what is not watched, such as others' bindings.
const judgeAgain = 10 * time.Second

// Reconcile gives access, or takes it back.
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
		err := complain(ctx, r.client, r.recorder, t, errors.New(render.ProblemRefused+"it wants no handshake, and this operator gives no access without one"))
		return ctrl.Result{}, errors.Join(err, r.revoke(ctx, t))
	}
	nonce, why := in.refusal()
	if why != nil {
		err := complain(ctx, r.client, r.recorder, t, fmt.Errorf("%s%w", render.ProblemRefused, why))
		return ctrl.Result{RequeueAfter: judgeAgain}, errors.Join(err, r.revoke(ctx, t))
	}
	if t.Spec.TenantCondition == authv1beta1.TenantConditionDrained {
		return ctrl.Result{}, r.revoke(ctx, t)
	}
	if nonce != nil {
		if err := r.use(ctx, nonce, t); err != nil {
			return ctrl.Result{}, err
		}
	}
	certificate, again, why := r.certificate(ctx, in, time.Now())
	if why != nil {
		return ctrl.Result{RequeueAfter: again}, complain(ctx, r.client, r.recorder, t, why)
	}
	if certificate == nil {
		return ctrl.Result{RequeueAfter: again}, nil
	}
	if _, err := own.Apply(ctx, r.client, peering.ConsumerAccess(t)); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.report(ctx, t, certificate); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: again}, complain(ctx, r.client, r.recorder, t, nil)
}

// read finds what a Tenant is judged by; the tenant is nil if it is gone.
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
		return in, nil // it is not labelled, and nothing in it may be read
	case err != nil:
		return nil, fmt.Errorf("read namespace %s: %w", key.Namespace, err)
	}
	in.namespace = ns
	var id corev1.ConfigMap
	if err := r.reader.Get(ctx, client.ObjectKey{Namespace: r.options.Home, Name: render.ClusterIDConfigMap}, &id); err != nil {
		return nil, fmt.Errorf("read the cluster's ID: %w", err)
	}
	in.home = render.ClusterID(id.Data[render.ClusterIDKey])
	var all authv1beta1.TenantList
	if err := r.reader.List(ctx, &all); err != nil {
		return nil, fmt.Errorf("list Tenants: %w", err)
	}
	in.all = all.Items
	stored := &corev1.Secret{}
	switch err := r.client.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: peering.CertificateName}, stored); {
	case err == nil:
		in.stored = stored
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("read the certificate of Tenant %s: %w", key, err)
	}
	if in.accepted() {
		return in, nil
	}
	var err error
	if in.nonces, err = noncesIn(ctx, r.client, key.Namespace); err != nil {
		return nil, err
	}
	var cluster rbacv1.ClusterRoleBindingList
	var namespaced rbacv1.RoleBindingList
	if err := errors.Join(r.reader.List(ctx, &cluster), r.reader.List(ctx, &namespaced)); err != nil {
		return nil, fmt.Errorf("list who has rights already: %w", err)
	}
	in.strangers = strangers(cluster.Items, namespaced.Items)
	return in, nil
}

// use ties a nonce to the Tenant that has signed it, before it gets anything.
func (r *tenants) use(ctx context.Context, nonce *corev1.Secret, t *authv1beta1.Tenant) error {
	if nonce.Annotations[peering.AnnotationUsed] == string(t.UID) {
		return nil
	}
	before := nonce.DeepCopy()
	metav1.SetMetaDataAnnotation(&nonce.ObjectMeta, peering.AnnotationUsed, string(t.UID))
	if err := r.client.Patch(ctx, nonce, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(own.Manager)); err != nil {
		return fmt.Errorf("mark the nonce of Tenant %s/%s as used: %w", t.Namespace, t.Name, err)
	}
	return nil
}

// report tells the consumer what it has.
func (r *tenants) report(ctx context.Context, t *authv1beta1.Tenant, certificate []byte) error {
	server, err := r.server(ctx)
	if err != nil {
		return err
	}
	ca, err := r.authority()
	if err != nil {
		return err
	}
	before := t.DeepCopy()
	t.Status.TenantNamespace = t.Namespace
	t.Status.AuthParams = &authv1beta1.AuthParams{CA: ca, SignedCRT: certificate, APIServer: server, ProxyURL: t.Spec.ProxyURL}
	if equality.Semantic.DeepEqual(before.Status, t.Status) {
		return nil
	}
	if err := r.client.Status().Patch(ctx, t, client.MergeFrom(before), client.FieldOwner(own.Manager)); err != nil {
		return fmt.Errorf("report on Tenant %s/%s: %w", t.Namespace, t.Name, err)
	}
	return nil
}

// server is where consumers reach the API server.
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
	return "", errors.New("the API server does not state its address: run liqo-tui install --api-server URL")
}

// authority is what consumers know the API server by.
func (r *tenants) authority() ([]byte, error) {
	if len(r.config.CAData) > 0 || r.config.CAFile == "" {
		return r.config.CAData, nil
	}
	ca, err := os.ReadFile(r.config.CAFile)
	if err != nil {
		return nil, fmt.Errorf("read the API server's certificate authority: %w", err)
	}
	return ca, nil
}

// revoke takes a Tenant's access back. Its certificate can't be called back: without a
// binding it allows nothing.
func (r *tenants) revoke(ctx context.Context, t *authv1beta1.Tenant) error {
	b := &rbacv1.RoleBinding{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: t.Namespace, Name: render.ConsumerAccessName}, b)
	if err != nil || !ownedByTenant(b, t) {
		return client.IgnoreNotFound(err)
	}
	return own.Delete(ctx, r.client, b)
}

// forget removes what a Tenant leaves behind: first its rights. Kubernetes' garbage
// collector would too, but learns of new kinds only every 30 s.
func (r *tenants) forget(ctx context.Context, key client.ObjectKey) error {
	isLeft := func(o client.Object) bool {
		owner := metav1.GetControllerOf(o)
		return owner != nil && owner.Kind == authv1beta1.TenantKind && owner.Name == key.Name
	}
	var errs []error
	b := &rbacv1.RoleBinding{}
	switch err := r.client.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: render.ConsumerAccessName}, b); {
	case err == nil && isLeft(b):
		errs = append(errs, own.Delete(ctx, r.client, b))
	case client.IgnoreNotFound(err) != nil:
		errs = append(errs, err)
	}
	var requests certificatesv1.CertificateSigningRequestList
	errs = append(errs, r.client.List(ctx, &requests))
	for i := range requests.Items {
		if o := &requests.Items[i]; o.Annotations[peering.AnnotationTenant] == key.String() {
			errs = append(errs, own.Delete(ctx, r.client, o))
		}
	}
	var all authv1beta1.TenantList
	var renews authv1beta1.RenewList
	errs = append(errs, r.reader.List(ctx, &all, client.InNamespace(key.Namespace)), r.client.List(ctx, &renews, client.InNamespace(key.Namespace)))
	if len(all.Items) == 0 {
		for i := range renews.Items {
			errs = append(errs, own.Delete(ctx, r.client, &renews.Items[i]))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("remove what Tenant %s had: %w", key, err)
	}
	if err := r.client.Get(ctx, client.ObjectKey{Name: key.Namespace}, &corev1.Namespace{}); err != nil {
		return client.IgnoreNotFound(err) // no admin has labelled it any more: its Secrets are nobody's to read
	}
	s := &corev1.Secret{}
	if err := r.client.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: peering.CertificateName}, s); err != nil || !isLeft(s) {
		return client.IgnoreNotFound(err)
	}
	return own.Delete(ctx, r.client, s)
}

func ownedByTenant(o client.Object, t *authv1beta1.Tenant) bool {
	owner := metav1.GetControllerOf(o)
	return owner != nil && owner.UID == t.UID
}

// serverURL is the first of the API servers, "" if the slice names none.
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
