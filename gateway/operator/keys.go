package operator

import (
	"cmp"
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

const keyLen = 32 // of Curve25519

func newKeys() (private, public [keyLen]byte, err error) {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return private, public, err
	}
	copy(private[:], key.Bytes())
	copy(public[:], key.PublicKey().Bytes())
	return private, public, nil
}

// keys returns the gateway's key pair, and makes one if there is none. It never replaces a pair.
func (r *gateways) keys(ctx context.Context, in *inputs) (*corev1.Secret, error) {
	name := cmp.Or(in.view.secretName, wire.GatewayObjectName(in.gateway.Name))
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: in.gateway.Tenant.Namespace, Name: name}
	err := r.client.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) && in.view.secretName == "" {
		return r.makeKeys(ctx, in)
	}
	if owner := metav1.GetControllerOf(secret); err == nil && in.view.secretName == "" && owner != nil && owner.UID != in.view.object.GetUID() {
		// An earlier gateway of this name has left this Secret. Its keys must not be used, and the garbage
		// collector would delete it later.
		if err := control.Delete(ctx, r.client, secret); err != nil {
			return nil, err
		}
		return r.makeKeys(ctx, in)
	}
	if err != nil {
		return nil, fmt.Errorf("read keys of %s %s: %w", r.kind.name, in.gateway.Name, err)
	}
	if len(secret.Data[wire.SecretPrivateKey]) != keyLen || len(secret.Data[wire.SecretPublicKey]) != keyLen {
		return nil, fmt.Errorf("secret %s/%s: want fields %s and %s of %d raw bytes each", key.Namespace, key.Name,
			wire.SecretPrivateKey, wire.SecretPublicKey, keyLen)
	}
	return secret, nil
}

func (r *gateways) makeKeys(ctx context.Context, in *inputs) (*corev1.Secret, error) {
	private, public, err := newKeys()
	if err != nil {
		return nil, fmt.Errorf("make keys of %s %s: %w", r.kind.name, in.gateway.Name, err)
	}
	secret := in.gateway.KeySecret(private, public)
	if err := r.client.Create(ctx, secret); err != nil {
		return nil, fmt.Errorf("create Secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	return secret, nil
}
