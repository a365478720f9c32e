package operator

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/render"
)

// A key pair is replaced in two steps that the admin's program asks for by
// annotations of the gateway: the next pair is made and its public half made
// known; when the peer is ready for it, it takes the place of the other.

// rotation is what is to be done with a gateway's keys.
type rotation uint8

const (
	keepKeys rotation = iota
	makeNext
	useNext
	dropNext // nobody asks for it any more
)

// decideRotation compares what the annotations ask for with the keys there are.
// data is the Secret's.
func decideRotation(annotations map[string]string, data map[string][]byte) rotation {
	text := base64.StdEncoding.EncodeToString
	current, next := text(data[render.SecretPublicKey]), data[render.SecretNextPublic]
	complete := len(next) == keyLen && len(data[render.SecretNextPrivate]) == keyLen
	asked := annotations[render.AnnotationRotateKey] == current
	switch {
	case asked && !complete:
		return makeNext
	case asked && annotations[render.AnnotationUseKey] == text(next):
		return useNext
	case !asked && len(next) > 0:
		return dropNext
	}
	return keepKeys
}

// rotate does the next step, if one is asked for. Keys that an admin made are
// the admin's to replace.
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
		secret.Data[render.SecretNextPrivate], secret.Data[render.SecretNextPublic] = private[:], public[:]
	case useNext:
		secret.Data[render.SecretPrivateKey] = secret.Data[render.SecretNextPrivate]
		secret.Data[render.SecretPublicKey] = secret.Data[render.SecretNextPublic]
		fallthrough
	default:
		delete(secret.Data, render.SecretNextPrivate)
		delete(secret.Data, render.SecretNextPublic)
	}
	// With the version that the decision was made from: a late cache must not
	// replace the next pair, which the peer may have been told of, by another.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := r.client.Patch(ctx, secret, patch, client.FieldOwner(FieldManager)); err != nil {
		return nil, fmt.Errorf("rotate the keys of %s %s: %w", r.kind.name, in.gateway.Name, err)
	}
	return secret, nil
}
