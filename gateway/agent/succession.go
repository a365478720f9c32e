package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/internal/sleep"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// A gateway whose template has one replica has two pods while its pod is replaced. The new
// pod starts before the old one ends, and takes the tunnel over when the old one ends. So
// packets wait for a handshake, not for a container. There is no Lease: nearly always there
// is only one pod, and nothing has to be renewed.

const (
	// lookAgain is the time until the pods are read again if the watch reports nothing.
	lookAgain = time.Second
	// firstLook is how long a starting pod tries to find other pods.
	firstLook = 3 * time.Second
)

// succession is a pod's wait for the one before it.
type succession struct {
	api    client.WithWatch
	of     []client.ListOption // the gateway's pods
	me     string
	before string // the pod that it waits for
}

// preceded returns the wait for the gateway's other pod that holds the tunnel; nil if there
// is no such pod, or if this pod lacks the rights to find it.
func (g *gatewayAgent) preceded(ctx context.Context, config *rest.Config, mgr ctrl.Manager) (*succession, error) {
	api, err := client.NewWithWatch(config, client.Options{Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(), HTTPClient: mgr.GetHTTPClient()})
	if err != nil {
		return nil, err
	}
	s := &succession{api: api, me: g.options.Pod, of: g.pods()}
	before, err := s.waitsFor(ctx)
	for began := time.Now(); err != nil && !apierrors.IsForbidden(err) && time.Since(began) < firstLook && ctx.Err() == nil; {
		sleep.For(ctx, firstLook/10) //nolint:mnd // attempts
		before, err = s.waitsFor(ctx)
	}
	if before == "" {
		if err != nil {
			g.options.Log.Warn("hold the tunnel, whoever else does", "error", err)
		}
		return nil, nil
	}
	g.options.Log.Info("this pod stands by", "for", before)
	return s, nil
}

// succeed takes the tunnel over when the pod before this one ends.
func (g *gatewayAgent) succeed(mgr ctrl.Manager, s *succession) error {
	all := make(claims, 1)
	return errors.Join(
		mgr.Add(runnable(func(ctx context.Context) error { return g.claim(ctx, all) })),
		mgr.Add(runnable(func(ctx context.Context) error {
			switch s.wait(ctx); {
			case ctx.Err() != nil:
			case g.unfit != nil: // this pod reports that: no other pod does
				g.standby.Store(false)
				g.wake()
			default:
				g.options.Log.Info("this pod holds the tunnel")
				g.begin(all)
			}
			<-ctx.Done()
			return nil //nolint:nilerr // why it could not be taken over, the report says
		})),
	)
}

// pods selects all pods of the gateway.
func (g *gatewayAgent) pods() []client.ListOption {
	return []client.ListOption{
		client.InNamespace(g.options.Gateway.Tenant.Namespace),
		client.MatchingLabels{wire.LabelGatewayName: g.options.Gateway.Name, wire.LabelComponent: "gateway"},
	}
}

// waitsFor returns the name of the pod that holds the tunnel; "" if this pod may hold it. If
// another pod took the tunnel over while this pod's containers restarted, it keeps it.
func (s *succession) waitsFor(ctx context.Context) (string, error) {
	var pods corev1.PodList
	if err := s.api.List(ctx, &pods, s.of...); err != nil {
		return "", fmt.Errorf("list the gateway's pods: %w", err)
	}
	if slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.Name == s.before && render.Serves(&p) }) {
		return s.before, nil
	}
	s.before = ""
	first := render.FirstReady(pods.Items)
	if first == nil || first.Name == s.me || !slices.ContainsFunc(pods.Items, func(p corev1.Pod) bool { return p.Name == s.me }) {
		return "", nil
	}
	s.before = first.Name
	return s.before, nil
}

// wait returns when the pod before this one is gone, or when ctx has ended. While the API
// server does not answer, it waits: the pod before may still exist.
func (s *succession) wait(ctx context.Context) {
	for ctx.Err() == nil {
		// The watch begins before the pods are read, so that no change in between is missed.
		told, stop := s.watch(ctx)
		before, err := s.waitsFor(ctx)
		if err == nil && before == "" {
			stop()
			return
		}
		select {
		case <-ctx.Done():
		case <-told:
		case <-time.After(lookAgain):
		}
		stop()
	}
}

// watch reports the next change of the gateway's pods. If they can't be watched, it reports
// nothing.
func (s *succession) watch(ctx context.Context) (told <-chan struct{}, stop func()) {
	changed := make(chan struct{})
	w, err := s.api.Watch(ctx, &corev1.PodList{}, s.of...)
	if err != nil {
		return nil, func() {}
	}
	go func() {
		defer close(changed)
		for e := range w.ResultChan() {
			// The watch begins with all existing pods, as new ones.
			if e.Type != watch.Added {
				return
			}
		}
	}()
	return changed, w.Stop
}
