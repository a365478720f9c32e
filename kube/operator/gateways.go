package operator

import (
	"context"
	"errors"
	"fmt"
	"strings"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/liqo-tui/liqo-tui/render"
)

// gateways makes what a GatewayServer or GatewayClient needs to run, and says
// in its status where it can be reached.
type gateways struct {
	kind   kind
	client client.Client
	reader client.Reader // for Secrets that an admin made, which the cache doesn't hold
}

func newGateways(mgr ctrl.Manager, k kind) *gateways {
	return &gateways{kind: k, client: mgr.GetClient(), reader: mgr.GetAPIReader()}
}

func (r *gateways) setup(mgr ctrl.Manager) error {
	b := ctrl.NewControllerManagedBy(mgr).Named(r.kind.name).For(r.kind.object())
	for _, child := range []client.Object{
		&appsv1.Deployment{}, &corev1.Service{}, &corev1.Secret{}, &corev1.ConfigMap{}, &corev1.ServiceAccount{},
		&rbacv1.Role{}, &rbacv1.RoleBinding{}, &networkingv1beta1.InternalFabric{},
	} {
		b = b.Owns(child)
	}
	return r.watches(b).Complete(r)
}

// Reconcile reads the inputs, makes the children, and reports.
func (r *gateways) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	in, err := r.read(ctx, req.NamespacedName)
	if apierrors.IsNotFound(err) {
		return ctrl.Result{}, r.cleanUp(ctx, req.NamespacedName)
	}
	if err != nil || in == nil {
		return ctrl.Result{}, err
	}
	secret, err := r.keys(ctx, in)
	if err != nil {
		return ctrl.Result{}, err
	}
	supports, err := in.supports()
	if err != nil {
		return ctrl.Result{}, err
	}
	// These come first: a pod needs its ServiceAccount, and the API server
	// checks the Role when it is bound.
	if err := r.applyAll(ctx, supports); err != nil {
		return ctrl.Result{}, err
	}
	programs, err := in.programs(secret.Name)
	if err != nil {
		return ctrl.Result{}, err
	}
	if err := r.applyAll(ctx, programs); err != nil {
		return ctrl.Result{}, err
	}
	if err := r.publish(ctx, in, secret); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{}, r.report(ctx, in, secret)
}

// applyAll applies objects side by side, those that differ from what is there.
func (r *gateways) applyAll(ctx context.Context, objects []render.Object) error {
	var g errgroup.Group // without its context: one failure must not cancel the others
	for _, o := range objects {
		g.Go(func() error { return r.apply(ctx, o) })
	}
	return g.Wait()
}

func (r *gateways) apply(ctx context.Context, want render.Object) error {
	gvk, err := apiutil.GVKForObject(want, r.client.Scheme())
	if err != nil {
		return err
	}
	live, err := r.client.Scheme().New(gvk)
	if err != nil {
		return err
	}
	obj := live.(client.Object)
	switch err := r.client.Get(ctx, client.ObjectKeyFromObject(want), obj); {
	case err == nil && render.Contains(obj, want):
		return nil
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("read %s: %w", render.Name(want), err)
	}
	u, err := render.Wanted(want)
	if err != nil {
		return err
	}
	// Children are ours alone: what somebody else changed in them is undone.
	err = r.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(FieldManager), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("apply %s: %w", render.Name(want), err)
	}
	return nil
}

// report writes the gateway's status if it says something new.
func (r *gateways) report(ctx context.Context, in *inputs, secret *corev1.Secret) error {
	o := in.view.object
	before := o.DeepCopyObject().(client.Object)
	*in.view.secretRef = &corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: secret.Namespace, Name: secret.Name}
	*in.view.childRef = &corev1.ObjectReference{
		APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment",
		Namespace: in.gateway.Tenant.Namespace, Name: render.GatewayObjectName(in.gateway.Name),
	}
	if in.pod != nil {
		*in.view.internal = &networkingv1beta1.InternalGatewayEndpoint{
			IP: new(networkingv1beta1.IP(in.pod.Status.PodIP)), Node: new(in.pod.Spec.NodeName),
		}
	}
	if in.view.endpoint != nil {
		endpoint, err := r.endpoint(ctx, in)
		if err != nil {
			return err
		}
		*in.view.endpoint = endpoint
	}
	if equality.Semantic.DeepEqual(before, o) {
		return nil
	}
	if err := r.client.Status().Patch(ctx, o, client.MergeFrom(before), client.FieldOwner(FieldManager)); err != nil {
		return fmt.Errorf("report on %s %s: %w", r.kind.name, in.gateway.Name, err)
	}
	return nil
}

// endpoint is where clients find the server, nil as long as that is open.
func (r *gateways) endpoint(ctx context.Context, in *inputs) (*networkingv1beta1.EndpointStatus, error) {
	var service corev1.Service
	key := client.ObjectKey{Namespace: in.gateway.Tenant.Namespace, Name: render.GatewayObjectName(in.gateway.Name)}
	if err := r.client.Get(ctx, key, &service); err != nil {
		return nil, client.IgnoreNotFound(err) // the watch brings it
	}
	return endpointOf(&service, in.nodes, in.pod, *in.view.endpoint), nil
}

// cleanUp deletes the children of a gateway that is gone. Kubernetes' garbage
// collector would too, but it learns of kinds only every 30 s: on a cluster that
// got the definitions a moment ago, a gateway's pod outlived it by that long.
func (r *gateways) cleanUp(ctx context.Context, key client.ObjectKey) error {
	g := render.Gateway{Tenant: render.Tenant{Namespace: key.Namespace}, Name: key.Name, Owner: r.kind.object()}
	var errs []error
	for _, o := range []render.Object{
		&appsv1.Deployment{ObjectMeta: g.Connection().ObjectMeta}, &corev1.Service{ObjectMeta: g.Connection().ObjectMeta},
		&corev1.Secret{ObjectMeta: g.Connection().ObjectMeta}, g.Connection(), g.InternalFabric("", nil, 0),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: render.NodesConfigMapName(key.Name)}},
		g.RoleBinding(), g.Role(), g.ServiceAccount(),
	} {
		errs = append(errs, r.deleteOrphan(ctx, o, key.Name))
	}
	return errors.Join(errs...)
}

// deleteOrphan deletes o if a gateway of this kind and name controls it: the
// other kind may have a gateway of the same name.
func (r *gateways) deleteOrphan(ctx context.Context, o render.Object, gateway string) error {
	err := r.client.Get(ctx, client.ObjectKeyFromObject(o), o)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	owner := metav1.GetControllerOf(o)
	if owner == nil || owner.Name != gateway || !strings.EqualFold(owner.Kind, r.kind.name) {
		return nil
	}
	return deleteExactly(ctx, r.client, o)
}

// deleteExactly deletes o as it was seen: what was made under its name since
// then stays.
func deleteExactly(ctx context.Context, c client.Client, o client.Object) error {
	err := c.Delete(ctx, o, client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: new(o.GetUID())})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %s, which nothing needs any more: %w", render.Name(o), err)
	}
	return nil
}
