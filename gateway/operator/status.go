package operator

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// reporter publishes the state of the operator: in the log, on its own Deployment, and, if it can't work,
// in an Event.
type reporter struct {
	client    client.Client // not cached, because the cache contains only the Deployments of gateways
	recorder  events.EventRecorder
	log       logr.Logger
	namespace string

	mu   sync.Mutex
	last wire.OperatorStatus
}

func (r *reporter) say(ctx context.Context, state wire.OperatorState, message string, unstated ...string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.last.State == state && r.last.Message == message {
		return nil
	}
	now := wire.OperatorStatus{State: state, Message: message, Unstated: unstated, Since: time.Now().UTC().Truncate(time.Second)}
	r.log.Info(message, "state", state)
	if err := r.publish(ctx, now); err != nil {
		return err
	}
	r.last = now
	return nil
}

// publish writes the status into the operator's Deployment, where the admin's program reads it. An operator
// that was started by hand has no Deployment.
func (r *reporter) publish(ctx context.Context, s wire.OperatorStatus) error {
	d := &metav1.PartialObjectMetadata{}
	d.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("Deployment"))
	if err := r.client.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: wire.OperatorName}, d); err != nil {
		return client.IgnoreNotFound(err)
	}
	if s.State != wire.OperatorWorking {
		r.recorder.Eventf(d, nil, corev1.EventTypeWarning, string(s.State), "Start", "%s", s.Message)
	}
	if old, ok, err := wire.ParseOperatorStatus(d.Annotations); ok && err == nil && old.State == s.State && old.Message == s.Message {
		return nil // an earlier process has written it
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	_, err = note(ctx, r.client, d, wire.AnnotationOperatorStatus, string(text))
	return err
}
