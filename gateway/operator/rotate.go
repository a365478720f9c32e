package operator

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// A key pair is replaced in two steps, which the admin's program requests by annotations of the gateway.
// First the operator makes the next pair, and publishes its public key. When the peer is ready for it, the
// next pair replaces the present one.

type rotation uint8

const (
	keepKeys rotation = iota
	makeNext
	useNext
	dropNext // the request was withdrawn
)

// decideRotation compares the request in the annotations with the present keys. data is the data of the Secret.
func decideRotation(annotations map[string]string, data map[string][]byte) rotation {
	text := base64.StdEncoding.EncodeToString
	current, next := text(data[wire.SecretPublicKey]), data[wire.SecretNextPublic]
	complete := len(next) == keyLen && len(data[wire.SecretNextPrivate]) == keyLen
	asked := annotations[wire.AnnotationRotateKey] == current
	switch {
	case asked && !complete:
		return makeNext
	case asked && annotations[wire.AnnotationUseKey] == text(next):
		return useNext
	case !asked && len(next) > 0:
		return dropNext
	}
	return keepKeys
}

// rotate takes the next step, if one is requested. Keys that an admin has made are not replaced.
func (r *gateways) rotate(ctx context.Context, in *inputs, secret *corev1.Secret) (*corev1.Secret, error) {
	if in.view.secretName != "" {
		return secret, nil
	}
	step := decideRotation(in.view.object.GetAnnotations(), secret.Data)
	if step == keepKeys {
		return secret, nil
	}
	before := secret
	secret = secret.DeepCopy()
	secret.Data = maps.Clone(secret.Data)
	switch step {
	case makeNext:
		private, public, err := newKeys()
		if err != nil {
			return nil, fmt.Errorf("make the next keys of %s %s: %w", r.kind.name, in.gateway.Name, err)
		}
		secret.Data[wire.SecretNextPrivate], secret.Data[wire.SecretNextPublic] = private[:], public[:]
	case useNext:
		secret.Data[wire.SecretPrivateKey] = secret.Data[wire.SecretNextPrivate]
		secret.Data[wire.SecretPublicKey] = secret.Data[wire.SecretNextPublic]
		fallthrough
	default:
		delete(secret.Data, wire.SecretNextPrivate)
		delete(secret.Data, wire.SecretNextPublic)
	}
	// The patch requires the version that was read. Otherwise, with an outdated cache, it could replace the
	// next pair, which the peer may already know.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.client.Patch(ctx, secret, patch, client.FieldOwner(FieldManager)); err != nil {
		return nil, fmt.Errorf("rotate the keys of %s %s: %w", r.kind.name, in.gateway.Name, err)
	}
	return secret, nil
}
