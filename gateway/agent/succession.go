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

// While the pod of a gateway with one replica is replaced, the gateway has two pods. The new pod
// starts before the old one ends, and then takes over the tunnel. So packets wait only for a
// handshake, not for the start of a container. Such a gateway has no Lease, because it nearly
// always has only one pod, which would renew the Lease for nothing.

const (
	// lookAgain is the time after which the pods are read again, if the watch reports no change.
	lookAgain = time.Second
	// firstLook is how long a pod tries to find other pods after its start.
	firstLook = 3 * time.Second
)

// succession lets a pod wait for the end of the pod before it.
type succession struct {
	api    client.WithWatch
	of     []client.ListOption // selects the gateway's pods
	me     string              // the name of this pod
	before string              // the name of the pod for which it waits
}

// preceded returns a succession if another pod of the gateway holds the tunnel. It returns nil if
// there is no such pod, or if this pod may not read pods.
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
			g.options.Log.Warn("hold the tunnel, although another pod may hold it", "error", err)
		}
		return nil, nil
	}
	g.options.Log.Info("this pod stands by", "for", before)
	return s, nil
}

// succeed makes this pod take over the tunnel when the pod before it ends.
func (g *gatewayAgent) succeed(mgr ctrl.Manager, s *succession) error {
	all := make(claims, 1)
	return errors.Join(
		mgr.Add(runnable(func(ctx context.Context) error { return g.claim(ctx, all) })),
		mgr.Add(runnable(func(ctx context.Context) error {
			switch s.wait(ctx); {
			case ctx.Err() != nil:
			case g.unfit != nil: // this pod reports the reason, because there is no other pod
				g.standby.Store(false)
				g.wake()
			default:
				g.options.Log.Info("this pod holds the tunnel")
				g.begin(all)
			}
			<-ctx.Done()
			return nil //nolint:nilerr // the report contains the reason if this pod can't take over the tunnel
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

// waitsFor returns the name of the pod that holds the tunnel; "" if this pod may hold it. If another
// pod took over the tunnel while the containers of this pod restarted, the other pod keeps it.
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

// wait returns when the pod before this one has ended, or when ctx has ended. As long as the API
// server does not answer, it waits, because the other pod may still exist.
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

// watch closes the channel told after the next change of the gateway's pods. If it can't watch the
// pods, told is nil.
func (s *succession) watch(ctx context.Context) (told <-chan struct{}, stop func()) {
	changed := make(chan struct{})
	w, err := s.api.Watch(ctx, &corev1.PodList{}, s.of...)
	if err != nil {
		return nil, func() {}
	}
	go func() {
		defer close(changed)
		for e := range w.ResultChan() {
			// A watch begins with an event of type Added for each existing pod.
			if e.Type != watch.Added {
				return
			}
		}
	}()
	return changed, w.Stop
}
