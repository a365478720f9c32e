package consumer

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/gateway/remote"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// keys is the key pair by which providers know this cluster. It is made once.
type keys struct {
	client    client.Client
	home      string
	providers *remote.Clients // by their Identities
}

// Start makes the key pair. Liqo's and our tools read the public key before they set up lending.
func (k *keys) Start(ctx context.Context) error {
	for {
		_, err := k.private(ctx)
		if err == nil {
			return nil
		}
		ctrl.LoggerFrom(ctx).Error(err, "make the cluster's key")
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// private returns the private key as PEM. It makes the key pair if there is none.
func (k *keys) private(ctx context.Context) ([]byte, error) {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: k.home, Name: peering.KeysName}}
	err := k.client.Get(ctx, client.ObjectKeyFromObject(s), s)
	if apierrors.IsNotFound(err) {
		private, public, kerr := peering.NewKey(rand.Reader)
		if kerr != nil {
			return nil, fmt.Errorf("make the cluster's key: %w", kerr)
		}
		s.Labels = map[string]string{wire.LabelManagedBy: control.Manager}
		s.Data = map[string][]byte{wire.SecretPrivateKey: private, wire.SecretPublicKey: public}
		err = k.client.Create(ctx, s, client.FieldOwner(control.Manager))
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("keep the cluster's key in Secret %s/%s: %w", k.home, peering.KeysName, err)
	case len(s.Data[wire.SecretPrivateKey]) == 0:
		return nil, fmt.Errorf("secret %s/%s has no %s", k.home, peering.KeysName, wire.SecretPrivateKey)
	}
	return s.Data[wire.SecretPrivateKey], nil
}

// signatures signs the nonces of providers with this cluster's key.
type signatures struct {
	client   client.Client
	recorder events.EventRecorder
	keys     *keys
}

func (r *signatures) setup(mgr ctrl.Manager, secrets <-chan event.GenericEvent) error {
	return ctrl.NewControllerManagedBy(mgr).Named("signed-nonce").
		WithOptions(control.Workers(2)).
		WatchesRawSource(source.Channel(secrets, &handler.EnqueueRequestForObject{}, source.WithPredicates[client.Object, reconcile.Request](control.Labelled(peering.LabelSignedNonce)))).
		Complete(r)
}

func (r *signatures) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	s := &corev1.Secret{}
	if err := r.client.Get(ctx, req.NamespacedName, s); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	nonce := s.Data[peering.KeyNonce]
	if s.Labels[peering.LabelSignedNonce] == "" || s.DeletionTimestamp != nil || len(nonce) == 0 {
		return ctrl.Result{}, nil
	}
	private, err := r.keys.private(ctx)
	if err != nil {
		return ctrl.Result{}, err
	}
	if done, err := peering.HasSigned(private, nonce, s.Data[peering.KeySignedNonce]); done || err != nil {
		return ctrl.Result{}, err
	}
	signature, err := peering.Sign(private, nonce, rand.Reader)
	if err != nil {
		return ctrl.Result{}, control.Complain(ctx, r.client, r.recorder, s, errors.New(wire.ProblemRefused+err.Error()))
	}
	before := s.DeepCopy()
	s.Data[peering.KeySignedNonce] = signature
	if err := r.client.Patch(ctx, s, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(control.Manager)); err != nil {
		return ctrl.Result{}, fmt.Errorf("write the signature of Secret %s: %w", req, err)
	}
	return ctrl.Result{}, control.Complain(ctx, r.client, r.recorder, s, nil)
}
