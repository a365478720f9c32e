package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/render"
)

// gate lets the operator work while Liqo's controller-manager is not on the
// cluster: two operators would fight over the same objects.
type gate struct {
	client client.WithWatch
	status *reporter
}

// await returns when Liqo's controller-manager is not there, as of a version of
// the cluster's state, or when ctx ends. Until then it says why nothing is done.
func (g *gate) await(ctx context.Context) (version string, err error) {
	for {
		version, liqo, err := g.look(ctx)
		if err != nil || liqo == "" {
			return version, err
		}
		message := "refusing to work: Liqo's controller-manager is Deployment " + liqo +
			", and two operators would write the same objects; this one starts when the other is gone"
		if err := g.status.say(ctx, render.OperatorRefusing, message); err != nil {
			return "", err
		}
		if err := g.untilChange(ctx, version); err != nil {
			return "", err
		}
	}
}

// errBesideLiqo ends a term in which the operator worked when Liqo came.
var errBesideLiqo = errors.New("the controller-manager of Liqo has come")

// guard returns errBesideLiqo when Liqo's controller-manager comes after
// version, and nil when ctx ends. It is no reason to stop that the API server
// does not say: the lease ends, if that lasts.
func (g *gate) guard(ctx context.Context, version string) error {
	for ctx.Err() == nil {
		liqo := ""
		err := g.untilChange(ctx, version)
		if err == nil {
			version, liqo, err = g.look(ctx)
		}
		switch {
		case liqo != "":
			return fmt.Errorf("%w: Deployment %s", errBesideLiqo, liqo)
		case err != nil:
			pause(ctx, retryPeriod)
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
	if err := g.client.List(ctx, list, ofLiqo); err != nil {
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
	w, err := g.client.Watch(ctx, liqoDeployments(), ofLiqo,
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

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
