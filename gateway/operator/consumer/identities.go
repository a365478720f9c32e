package consumer

import (
	"context"
	"fmt"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// identities writes a kubeconfig for each Identity, which is this cluster's access to a provider.
type identities struct {
	client   client.Client
	recorder events.EventRecorder
	keys     *keys
}

func (r *identities) setup(mgr ctrl.Manager, secrets <-chan event.GenericEvent) error {
	return ctrl.NewControllerManagedBy(mgr).Named("identity").
		WithOptions(control.Workers(2)).
		For(&authv1beta1.Identity{}).
		WatchesRawSource(source.Channel(secrets, handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &authv1beta1.Identity{}, handler.OnlyControllerOwner()))).
		Complete(r)
}

func (r *identities) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	i := &authv1beta1.Identity{}
	err := r.client.Get(ctx, req.NamespacedName, i)
	if apierrors.IsNotFound(err) || err == nil && i.DeletionTimestamp != nil {
		r.keys.providers.Forget(req.NamespacedName)
		return ctrl.Result{}, r.forget(ctx, req.NamespacedName)
	}
	if err != nil {
		return ctrl.Result{}, fmt.Errorf("read Identity %s: %w", req, err)
	}
	if err := r.client.Get(ctx, client.ObjectKey{Name: req.Namespace}, &corev1.Namespace{}); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err) // no admin has labelled the namespace for a peer
	}
	private, err := r.keys.private(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	secret, err := peering.Kubeconfig(i, private)
	if err != nil {
		return ctrl.Result{}, control.Complain(ctx, r.client, r.recorder, i, err)
	}
	if _, err := control.Apply(ctx, r.client, secret); err != nil {
		return ctrl.Result{}, err
	}
	if i.Status.KubeconfigSecretRef == nil || i.Status.KubeconfigSecretRef.Name != secret.Name {
		before := i.DeepCopy()
		i.Status.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: secret.Name}
		if err := r.client.Status().Patch(ctx, i, client.MergeFrom(before), client.FieldOwner(control.Manager)); err != nil {
			return ctrl.Result{}, fmt.Errorf("report on Identity %s: %w", req, err)
		}
	}
	return ctrl.Result{}, control.Complain(ctx, r.client, r.recorder, i, nil)
}

// forget removes the kubeconfig of a deleted Identity, because the kubeconfig contains the private key.
func (r *identities) forget(ctx context.Context, key client.ObjectKey) error {
	if err := r.client.Get(ctx, client.ObjectKey{Name: key.Namespace}, &corev1.Namespace{}); err != nil {
		return client.IgnoreNotFound(err)
	}
	s := &corev1.Secret{}
	if err := r.client.Get(ctx, client.ObjectKey{Namespace: key.Namespace, Name: peering.KubeconfigName(key.Name)}, s); err != nil {
		return client.IgnoreNotFound(err)
	}
	if owner := metav1.GetControllerOf(s); owner == nil || owner.Kind != authv1beta1.IdentityKind || owner.Name != key.Name {
		return nil
	}
	return control.Delete(ctx, r.client, s)
}
