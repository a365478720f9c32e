package operator

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/render"
)

// gate lets the operator work while Liqo's controller-manager is not on the
// cluster: two operators would fight over the same objects.
type gate struct {
	mgr     ctrl.Manager
	watcher client.WithWatch
	status  *reporter
	begin   func() error // starts the controllers

	working atomic.Bool
}

// errBesideLiqo ends an operator that was working when Liqo came. Controllers
// can't be stopped one by one, so the process ends; the next one waits at the gate.
var errBesideLiqo = errors.New("ends, because Liqo's controller-manager has come")

// Start runs while this replica leads.
func (g *gate) Start(ctx context.Context) error {
	for ctx.Err() == nil {
		version, liqo, err := g.look(ctx)
		if err != nil {
			return err
		}
		switch {
		case liqo != "" && g.working.Load():
			return fmt.Errorf("%w: Deployment %s", errBesideLiqo, liqo)
		case liqo != "":
			message := "refusing to work: Liqo's controller-manager is Deployment " + liqo +
				", and two operators would fight over the same objects; this one begins when that is gone"
			if err := g.status.say(ctx, render.OperatorRefusing, message); err != nil {
				return err
			}
		case !g.working.Load():
			if err := g.begin(); err != nil {
				return err
			}
			g.working.Store(true)
		}
		if err := g.untilChange(ctx, version); err != nil {
			return err
		}
	}
	return nil
}

var ofLiqo = client.MatchingLabels{render.LabelAppName: "controller-manager", render.LabelPartOf: "liqo"}

func liqoDeployments() *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("DeploymentList"))
	return list
}

// look says where Liqo's controller-manager is, "" for nowhere, and as of which
// version of the cluster's state.
func (g *gate) look(ctx context.Context) (version, liqo string, err error) {
	list := liqoDeployments()
	if err := g.watcher.List(ctx, list, ofLiqo); err != nil {
		return "", "", fmt.Errorf("look for Liqo's controller-manager: %w", err)
	}
	if len(list.Items) > 0 {
		liqo = list.Items[0].Namespace + "/" + list.Items[0].Name
	}
	return list.ResourceVersion, liqo, nil
}

// untilChange returns when Liqo may have come or gone since version, and now
// and then without a reason: a watch ends when the API server says so.
func (g *gate) untilChange(ctx context.Context, version string) error {
	w, err := g.watcher.Watch(ctx, liqoDeployments(), ofLiqo,
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: version, AllowWatchBookmarks: true}})
	if err != nil {
		return fmt.Errorf("watch for Liqo's controller-manager: %w", err)
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, open := <-w.ResultChan():
			if !open || event.Type == watch.Added || event.Type == watch.Deleted || event.Type == watch.Error {
				return nil
			}
		}
	}
}

// ready is what "ready" means: a change is seen from now on, by this replica or
// by the one that leads.
func (g *gate) ready(r *http.Request) error {
	select {
	case <-g.mgr.Elected():
	default:
		return nil
	}
	if !g.working.Load() {
		return errors.New("leads, but does not work: see the log")
	}
	if !g.mgr.GetCache().WaitForCacheSync(r.Context()) {
		return errors.New("the caches have not synced")
	}
	return nil
}
