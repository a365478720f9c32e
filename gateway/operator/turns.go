package operator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// turns replaces the pods of gateways one after the other. A new template, such as one with a newer image,
// concerns all gateways of the cluster. If all were replaced at once, no peer could be reached meanwhile. If
// the new image does not run, no peer could be reached afterwards either.
type turns struct {
	mu sync.Mutex
	// applied holds the last applied generations of the Deployments, because the cache may have older ones.
	applied map[types.UID]int64
}

// turnAgain is the time until a gateway that waits tries again.
const turnAgain = time.Second

// apply writes a gateway's Deployment. If it has to wait until another gateway is connected again, waitsFor
// is the name of that gateway.
func (t *turns) apply(ctx context.Context, c client.Client, want *appsv1.Deployment) (waitsFor string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	render.NoteImages(want, want.Spec.Template)
	var live appsv1.Deployment
	err = c.Get(ctx, client.ObjectKeyFromObject(want), &live)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("read %s: %w", apply.Name(want), err)
	}
	if err == nil && surges(want) && noRoom(&live) {
		want.Spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	}
	// A gateway that is new, or does not run, has no connection to lose.
	replaced := err == nil && !control.OfAnother(&live, want) && !apply.Contains(FieldManager, &live, want) && live.Status.AvailableReplicas > 0
	if replaced {
		if waitsFor, err = t.busy(ctx, c, &live); err != nil || waitsFor != "" {
			return waitsFor, err
		}
	}
	now, err := control.Apply(ctx, c, want)
	if err == nil && replaced {
		if t.applied == nil {
			t.applied = map[types.UID]int64{}
		}
		t.applied[now.UID] = now.Generation
	}
	return "", err
}

// surges reports whether a Deployment starts a new pod before it ends an old one.
func surges(d *appsv1.Deployment) bool {
	r := d.Spec.Strategy.RollingUpdate
	return r != nil && r.MaxSurge != nil && r.MaxSurge.String() != "0"
}

// noRoom reports whether a quota allows no further pod, so that the old pod has to end before a new one
// starts. Against other reasons for a refusal, this would not help.
func noRoom(d *appsv1.Deployment) bool {
	return slices.ContainsFunc(d.Status.Conditions, func(c appsv1.DeploymentCondition) bool {
		return c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue && strings.Contains(c.Message, "exceeded quota")
	})
}

// busy returns a gateway other than d that is not connected again yet; "" if there is none.
func (t *turns) busy(ctx context.Context, c client.Client, d *appsv1.Deployment) (string, error) {
	var all appsv1.DeploymentList
	if err := c.List(ctx, &all, client.HasLabels{wire.LabelGatewayName}); err != nil {
		return "", fmt.Errorf("list the gateways' Deployments: %w", err)
	}
	shown := map[types.UID]int64{}
	for i := range all.Items {
		shown[all.Items[i].UID] = all.Items[i].Generation
	}
	maps.DeleteFunc(t.applied, func(uid types.UID, applied int64) bool { // generations that the cache has by now, and generations of deleted Deployments
		now, there := shown[uid]
		return !there || now >= applied
	})
	for i := range all.Items {
		other := &all.Items[i]
		if other.UID == d.UID {
			continue
		}
		connection := &networkingv1beta1.Connection{}
		if err := c.Get(ctx, client.ObjectKeyFromObject(other), connection); apierrors.IsNotFound(err) {
			connection = nil
		} else if err != nil {
			return "", fmt.Errorf("read Connection %s/%s: %w", other.Namespace, other.Name, err)
		}
		if other.Generation < t.applied[other.UID] || render.Replacing(other, connection, time.Now()) != "" {
			return other.Namespace + "/" + other.Name, nil
		}
	}
	return "", nil
}
