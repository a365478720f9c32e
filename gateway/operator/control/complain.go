package control

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// Complain writes a problem of o into an annotation of o; nil removes the annotation. A change is also
// recorded as an Event.
func Complain(ctx context.Context, c client.Client, recorder events.EventRecorder, o client.Object, why error) error {
	before := o.DeepCopyObject().(client.Object)
	annotations := maps.Clone(o.GetAnnotations())
	delete(annotations, wire.AnnotationProblem)
	delete(annotations, wire.AnnotationProblemOf)
	if why != nil {
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[wire.AnnotationProblem], annotations[wire.AnnotationProblemOf] = why.Error(), strconv.FormatInt(o.GetGeneration(), 10)
	}
	if maps.Equal(annotations, o.GetAnnotations()) {
		return nil
	}
	if why != nil {
		recorder.Eventf(o, nil, corev1.EventTypeWarning, "Refused", "Accept", "%s", why.Error())
	}
	o.SetAnnotations(annotations)
	if err := c.Patch(ctx, o, client.MergeFrom(before), client.FieldOwner(Manager)); err != nil {
		return fmt.Errorf("write the problem of %s: %w", apply.Name(o), err)
	}
	return nil
}
