package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/liqo-tui/liqo-tui/gateway/ping"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// claims is a queue of requests to claim the tunnel, see [gatewayAgent.claim]. It holds one request at
// most.
type claims chan struct{}

func (c claims) make() {
	select {
	case c <- struct{}{}:
	default:
	}
}

// begin makes this pod hold the tunnel.
func (g *gatewayAgent) begin(all claims) {
	g.holds.Store(true)
	all.make()
	g.lead(true)
}

// compete makes this pod share the tunnel with the gateway's other pods: the pod with the Lease holds
// the tunnel.
func (g *gatewayAgent) compete(mgr ctrl.Manager) error {
	all := make(claims, 1)
	c := &competition{
		key:      client.ObjectKey{Namespace: g.options.Gateway.Tenant.Namespace, Name: wire.GatewayObjectName(g.options.Gateway.Name)},
		identity: g.options.Pod, client: g.client, reader: g.reader, log: g.options.Log,
		news: make(chan *coordinationv1.Lease, 1), failing: g.failing, end: g.standBy,
		begin: func() { g.begin(all) },
	}
	compete := func(ctx context.Context) error {
		if g.unfit == nil { // if this machine can't be a gateway, other pods may run on machines that can
			c.run(ctx)
		}
		<-ctx.Done()
		return nil
	}
	told := reconcile.Func(func(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
		var lease coordinationv1.Lease
		if err := g.client.Get(ctx, c.key, &lease); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
		if g.unfit != nil {
			g.standby.Store(holderOf(&lease) != "") // this pod reports as long as no pod has the Lease
			g.wake()
		}
		c.tell(&lease)
		return ctrl.Result{}, nil
	})
	changed := reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) {
		all.make()
		return ctrl.Result{}, nil
	})
	return errors.Join(
		oneRequest(mgr, "lease", told, []client.Object{&coordinationv1.Lease{}}),
		oneRequest(mgr, "fabric-of-gateway", changed, []client.Object{&networkingv1beta1.InternalFabric{}}),
		mgr.Add(runnable(func(ctx context.Context) error { return g.claim(ctx, all) })),
		mgr.Add(runnable(compete)),
	)
}

// standBy makes this pod leave the tunnel to another pod.
func (g *gatewayAgent) standBy() {
	g.mu.Lock()
	g.holds.Store(false)
	g.standby.Store(true)
	g.mu.Unlock()
	g.lead(false)
}

// lead makes the tunnel work (true), or leaves it to another pod (false).
func (g *gatewayAgent) lead(lead bool) {
	if err := g.tunnel.Lead(lead); err != nil {
		g.options.Log.Error("hold or leave the tunnel", "error", err)
	}
	g.wake()
}

// failing reports whether the tunnel has stopped working: the gateway had to dial the peer again after
// the time since, or the peer does not answer pings any more.
func (g *gatewayAgent) failing(since time.Time) bool {
	s := g.tunnel.Status(time.Now())
	return s.Redialled.After(since) || time.Since(s.Pings.LastReply) > ping.DefaultInterval+leaseDuration
}

// claimRetry is the pause after a failed claim.
const claimRetry = 300 * time.Millisecond

// claimRights is how long a pod without the rights for a claim tries again, after it has taken over the
// tunnel from the pod before it. If a gateway has only one pod, the operator removes these rights, and
// itself publishes that this pod holds the tunnel.
const claimRights = 10 * time.Second

// claim publishes that this pod holds the tunnel, once for each request in all. It also takes over the
// reports. Another goroutine renews the Lease at the same time.
func (g *gatewayAgent) claim(ctx context.Context, all claims) error {
	var retry <-chan time.Time
	var began time.Time // when the request for this claim came
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-all:
			began = time.Now()
		case <-retry:
		}
		retry = nil
		if !g.holds.Load() {
			continue
		}
		var w errgroup.Group // without a common context, so that a failure of one claim does not cancel the others
		w.Go(func() error { return g.claimService(ctx) })
		w.Go(func() error { return g.claimNodes(ctx) })
		w.Go(func() error { return g.takeReports(ctx) })
		err := w.Wait()
		if apierrors.IsForbidden(err) && !g.options.Shared && time.Since(began) > claimRights {
			g.options.Log.Info("the operator says that this pod holds the tunnel", "error", err)
			continue
		}
		if err != nil && ctx.Err() == nil {
			g.options.Log.Error("publish that this pod holds the tunnel", "error", err)
			retry = time.After(claimRetry)
		}
	}
}

// takeReports makes this pod continue the reports of the pod that held the tunnel before. The last
// report contains the peer's address. Without this address, a server would have to wait until the peer
// dials.
func (g *gatewayAgent) takeReports(ctx context.Context) error {
	if !g.standby.Load() {
		return nil
	}
	if err := g.remember(ctx); err != nil {
		return err
	}
	g.mu.Lock()
	g.standby.Store(!g.holds.Load()) // this pod may have lost the tunnel meanwhile
	g.mu.Unlock()
	_, _ = g.Reconcile(ctx, ctrl.Request{}) // the report contains an error
	return nil
}

// claimService makes the gateway's Service lead to this pod: it gives the label "active" to this pod
// alone.
func (g *gatewayAgent) claimService(ctx context.Context) error {
	var pods corev1.PodList
	if err := g.reader.List(ctx, &pods, g.pods()...); err != nil {
		return fmt.Errorf("list the gateway's pods: %w", err)
	}
	var errs []error
	for i := range pods.Items {
		p := &pods.Items[i]
		var value any // nil removes the label
		if p.Name == g.options.Pod {
			value = "true"
		}
		if has, ok := p.Labels[wire.LabelActive]; ok == (value != nil) && (!ok || has == value) {
			continue
		}
		label := map[string]any{"metadata": map[string]any{"labels": map[string]any{wire.LabelActive: value}}}
		if err := patch(ctx, g.client, p, label); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("label pod %s: %w", p.Name, err))
		}
	}
	return errors.Join(errs...)
}

// claimNodes makes the nodes send the peer's traffic to this pod.
func (g *gatewayAgent) claimNodes(ctx context.Context) error {
	var f networkingv1beta1.InternalFabric
	err := g.reader.Get(ctx, client.ObjectKey{Namespace: g.options.Gateway.Tenant.Namespace, Name: g.options.Gateway.Name}, &f)
	if err != nil {
		return client.IgnoreNotFound(err) // the creation of the InternalFabric causes another claim
	}
	ip := networkingv1beta1.IP(g.options.PodIP.String())
	if f.Spec.GatewayIP == ip && f.Spec.Interface.Gateway.IP == ip {
		return nil
	}
	spec := map[string]any{"spec": map[string]any{"gatewayIP": ip, "interface": map[string]any{"gateway": map[string]any{"ip": ip}}}}
	if err := patch(ctx, g.client, &f, spec); err != nil {
		return fmt.Errorf("write this pod into InternalFabric %s: %w", f.Name, err)
	}
	return nil
}
