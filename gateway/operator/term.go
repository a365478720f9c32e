package operator

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Leader election. When a replica ends, it gives the lease back, and a waiting replica gets it within
// retryPeriod. After a crash of the node, this takes leaseDuration more. The leader writes the lease every
// retryPeriod. A replica that can't write it stops its work retryPeriod + renewDeadline after its last write,
// three seconds before another replica may begin. The end of a term drops all caches, and the next term lists
// everything again. That is the worst load for an etcd that is slow for a few seconds, so the times are not
// shorter.
const (
	leaseDuration = 15 * time.Second
	renewDeadline = 10 * time.Second
	retryPeriod   = 2 * time.Second
)

// serve runs one term after another. In a term, this replica waits until it leads, and works until it loses
// the lease, ctx ends, or an error occurs. An API server that does not answer ends only the term: after
// several ends of a process, the kubelet delays its restart for minutes.
func (r *replica) serve(ctx context.Context) error {
	if err := r.events.StartRecordingToSinkWithContext(ctx); err != nil {
		return fmt.Errorf("record events: %w", err)
	}
	defer r.events.Shutdown()
	for {
		err := r.term(ctx)
		if ctx.Err() != nil {
			return err
		}
		if err != nil {
			r.log.Error(err, "the term has ended; the next one begins")
		}
		r.health.ended(err)
		pause(ctx, retryPeriod)
	}
}

// term is one period as leader. The replica holds the lease until its work has ended, so ReleaseOnCancel of
// client-go is off.
func (r *replica) term(ctx context.Context) error {
	lock, err := resourcelock.NewFromKubeconfig(resourcelock.LeasesResourceLock, r.options.Namespace, wire.OperatorName,
		resourcelock.ResourceLockConfig{Identity: r.options.Identity}, rest.CopyConfig(r.config), renewDeadline)
	if err != nil {
		return err
	}
	electing, resign := context.WithCancel(ctx)
	defer resign()
	leading, lose := context.WithCancel(ctx)
	defer lose()
	leads, stopped := make(chan struct{}), make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, Name: wire.OperatorName,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { close(leads) },
			OnStoppedLeading: func() { lose(); close(stopped) },
			OnNewLeader: func(identity string) {
				if identity != "" && identity != r.options.Identity {
					r.health.anotherLeads()
				}
			},
		},
	})
	if err != nil {
		return err
	}
	go elector.Run(ctrl.LoggerInto(electing, r.log))
	select {
	case <-leads:
		err = r.work(leading)
		if ctx.Err() == nil && leading.Err() != nil {
			r.log.Info("lost the Lease: the API server did not renew it in time")
		}
		if leading.Err() != nil && errors.Is(err, context.Canceled) {
			err = nil
		}
	case <-stopped: // ctx has ended before this replica led
	}
	resign()
	<-stopped
	if elector.IsLeader() {
		if err := giveBack(context.WithoutCancel(ctx), lock); err != nil {
			r.log.Info("did not release the Lease: it expires by itself", "reason", err.Error())
		}
	}
	return err
}

// giveBack releases the lease if this replica still holds it, so that another one leads at once.
func giveBack(ctx context.Context, lock resourcelock.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, renewDeadline)
	defer cancel()
	held, _, err := lock.Get(ctx)
	if err != nil || held.HolderIdentity != lock.Identity() {
		return err
	}
	now := metav1.Now()
	return lock.Update(ctx, resourcelock.LeaderElectionRecord{
		LeaderTransitions: held.LeaderTransitions, LeaseDurationSeconds: 1, AcquireTime: now, RenewTime: now,
	})
}

// work reconciles until ctx ends, or Liqo is installed. Controllers can't be stopped and started again, so
// each term has a new manager. All controllers are added before the manager starts: if one is added while the
// manager stops, controller-runtime may wait for ever.
func (r *replica) work(ctx context.Context) error {
	r.health.leads()
	status := &reporter{client: r.client, recorder: r.recorder, log: r.log, namespace: r.options.Namespace}
	g := &gate{client: r.client, status: status}
	version, err := g.await(ctx)
	if err != nil {
		return err
	}
	mgr, err := newManager(r.config, r.options)
	if err != nil {
		return fmt.Errorf("set up the operator: %w", err)
	}
	if err := setUp(mgr, status, r.options); err != nil { //nolint:contextcheck // an index is made at once
		return fmt.Errorf("set up the operator: %w", err)
	}
	r.health.works(mgr.GetCache())
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return mgr.Start(ctx) })
	group.Go(func() error { return g.guard(ctx, version) })
	return group.Wait()
}
