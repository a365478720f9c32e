package control

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// Guards are the admission policies of a role. Without them the operator does nothing more in this role.
type Guards struct {
	Reader client.Reader // not cached
	Role   render.PeeringRole

	mu   sync.Mutex
	held time.Time // the last time at which all policies were in force
}

// guardsHold is the time for which a positive result is used again, because each check costs a dozen
// requests, and each change of a consumer's map causes a check.
const guardsHold = 10 * time.Second

// Missing returns the name of a policy that is not in force; "" if all are. If it returns an error, this is
// unknown.
func (g *Guards) Missing(ctx context.Context) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if time.Since(g.held) < guardsHold {
		return "", nil
	}
	for _, name := range g.Role.Guards() {
		if why, err := g.missing(ctx, name); why != "" || err != nil {
			return why, err
		}
	}
	g.held = time.Now()
	return "", nil
}

// missing checks one policy. A policy has an effect only if a binding denies for all objects.
func (g *Guards) missing(ctx context.Context, name string) (string, error) {
	p, b := &admissionregistrationv1.ValidatingAdmissionPolicy{}, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	for _, o := range []client.Object{p, b} {
		err := g.Reader.Get(ctx, client.ObjectKey{Name: name}, o)
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			return fmt.Sprintf("there is no %s (Kubernetes 1.30 and later): an installation with role %s brings it", apply.Name(named(o, name)), g.Role), nil
		}
		if err != nil {
			return "", fmt.Errorf("read %s: %w", apply.Name(named(o, name)), err)
		}
	}
	if b.Spec.PolicyName != name || b.Spec.MatchResources != nil || !slices.Contains(b.Spec.ValidationActions, admissionregistrationv1.Deny) {
		return fmt.Sprintf("ValidatingAdmissionPolicyBinding %s does not deny everything that its policy refuses: an installation with role %s repairs it", name, g.Role), nil
	}
	return "", nil
}

// named sets the name of o, which messages need if o was not found.
func named(o client.Object, name string) client.Object {
	o.SetName(name)
	return o
}
