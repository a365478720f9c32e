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

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// gate keeps the operator from working while Liqo's controller-manager is on the cluster, because two
// operators would overwrite each other's objects.
type gate struct {
	client client.WithWatch
	status *reporter
}

// await returns when Liqo's controller-manager is not on the cluster, with the version of that state, or when
// ctx ends. While it waits, the operator's status contains the reason.
func (g *gate) await(ctx context.Context) (version string, err error) {
	for {
		version, liqo, err := g.look(ctx)
		if err != nil || liqo == "" {
			return version, err
		}
		message := "refusing to work: Liqo's controller-manager is Deployment " + liqo +
			", and two operators would write the same objects; this one starts when the other is gone"
		if err := g.status.say(ctx, wire.OperatorRefusing, message); err != nil {
			return "", err
		}
		if err := g.untilChange(ctx, version); err != nil {
			return "", err
		}
	}
}

// errBesideLiqo ends a term when Liqo has been installed beside the working operator.
var errBesideLiqo = errors.New("the controller-manager of Liqo has come")

// guard returns errBesideLiqo when Liqo's controller-manager appears after version, and nil when ctx ends. It
// goes on if the API server does not answer, because the operator loses its Lease if that lasts.
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

var ofLiqo = client.MatchingLabels{wire.LabelAppName: "controller-manager", wire.LabelPartOf: "liqo"}

func liqoDeployments() *metav1.PartialObjectMetadataList {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("DeploymentList"))
	return list
}

// look returns the Deployment of Liqo's controller-manager, "" if there is none, and the version of this state.
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

// untilChange returns when Liqo may have been installed or removed since version. It may return without such
// a change, because the API server ends watches from time to time.
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
