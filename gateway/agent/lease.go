package agent

import (
	"context"
	"log/slog"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/internal/sleep"
)

// If a gateway has several pods, the pod with the Lease holds the tunnel.
//
// This program does not use the leader election of client-go, for two reasons. First, client-go reads the
// Lease at intervals, and counts the Lease's duration from its own read. With a duration of 2 s, more than 3
// s pass before another pod has the Lease. Second, a leader of client-go ends its work if it can't renew the
// Lease. An API server that does not answer for some seconds would then interrupt all tunnels. In this
// program, the pod that holds the tunnel goes on as long as the tunnel works. A pod that stands by takes the
// Lease only if it could read the unrenewed Lease during the whole duration.
const (
	// leaseDuration is the time without a renewal after which another pod may take the
	// Lease.
	leaseDuration = 2 * time.Second
	// newLease is used instead of leaseDuration, until the holder of the Lease has held it for the time
	// settled. Otherwise, on machines that are too busy to renew the Lease in time, the pods would take the
	// Lease from each other again and again, and no WireGuard session would last.
	newLease = 8 * time.Second
	settled  = 20 * time.Second
	// renewEvery is the pause between two renewals. The Lease stays valid even if two renewals in a row are
	// late.
	renewEvery = 600 * time.Millisecond
	// leaseRetry is the pause after an error of the API server.
	leaseRetry = 250 * time.Millisecond
	// leaseTimeout is the time limit of one request. Perhaps the API server that got the
	// request has ended, and another one answers the next request.
	leaseTimeout = time.Second
	// releaseTimeout is the time limit to release the Lease when the pod ends. The gateway
	// template gives the pod 5 s to end.
	releaseTimeout = 4 * time.Second
)

// patience is the memory of a pod that stands by: since when nobody has renewed the Lease.
type patience struct {
	version string    // the resource version of the Lease that was read last
	since   time.Time // when this version was read first; zero if that is not known
}

// look decides about a Lease that was read, or about the error of the read. It returns whether
// this pod takes the Lease now, and otherwise the time until the next read.
func (p *patience) look(now time.Time, lease *coordinationv1.Lease, err error, identity string) (take bool, again time.Duration) {
	if err != nil {
		// Perhaps the pod that holds the Lease could not reach the API server either, so the
		// time begins again.
		p.since = time.Time{}
		return false, leaseRetry
	}
	if holder := holderOf(lease); holder == "" || holder == identity {
		return true, 0
	}
	if p.since.IsZero() || p.version != lease.ResourceVersion {
		p.version, p.since = lease.ResourceVersion, now
	}
	left := respected(lease) - now.Sub(p.since)
	return left <= 0, left
}

// respected returns the time without a renewal after which another pod may take the Lease. It
// compares two times of the Lease, which are both by the holder's clock.
func respected(l *coordinationv1.Lease) time.Duration {
	acquired, renewed := l.Spec.AcquireTime, l.Spec.RenewTime
	if acquired == nil || renewed == nil || renewed.Sub(acquired.Time) >= settled {
		return leaseDuration
	}
	return newLease
}

// holderOf returns the name of the pod that has the Lease; "" if the Lease is free.
func holderOf(l *coordinationv1.Lease) string {
	if l.Spec.HolderIdentity == nil {
		return ""
	}
	return *l.Spec.HolderIdentity
}

// competition is a pod's part in the competition for one Lease.
type competition struct {
	key      client.ObjectKey
	identity string
	client   client.Client
	reader   client.Reader // without a cache
	log      *slog.Logger
	// news contains the newest Lease from the watch, if nobody has read it yet.
	news chan *coordinationv1.Lease
	// begin makes this pod hold the tunnel, end makes it stand by. failing reports whether
	// the tunnel has stopped working after the time since.
	begin   func()
	end     func()
	failing func(since time.Time) bool
}

// run tries to get the Lease, and keeps it as long as possible, until ctx ends. Then it releases
// the Lease.
func (c *competition) run(ctx context.Context) {
	for {
		lease := c.await(ctx)
		if ctx.Err() != nil { // this pod may have the Lease, if the answer to its last write was lost
			ctx := context.WithoutCancel(ctx)
			if now, err := c.read(ctx); err == nil {
				c.release(ctx, now)
			}
			return
		}
		c.log.Info("this pod holds the tunnel", "lease", c.key.Name)
		c.begin()
		lease, why := c.hold(ctx, lease)
		if ctx.Err() != nil {
			// Packets still pass through this pod until another pod has the Lease.
			c.release(context.WithoutCancel(ctx), lease)
		}
		c.end()
		c.log.Info("this pod stands by", "lease", c.key.Name, "reason", why)
		if ctx.Err() != nil {
			return
		}
	}
}

// await returns the Lease as soon as this pod has it; nil if ctx ends first.
func (c *competition) await(ctx context.Context) *coordinationv1.Lease {
	var p patience
	lease, err := c.read(ctx)
	for {
		take, again := p.look(time.Now(), lease, err, c.identity)
		if take && ctx.Err() == nil {
			if err = c.write(ctx, lease, c.identity); err == nil {
				return lease
			}
			again = leaseRetry // another pod was faster, or the API server does not answer
		}
		select {
		case <-ctx.Done():
			return nil
		case lease = <-c.news:
			err = nil
		case <-time.After(again):
			lease, err = c.read(ctx)
		}
	}
}

// hold renews the Lease until another pod has it, or until this pod has to stand by for another
// reason. It returns the last known Lease, and the reason.
func (c *competition) hold(ctx context.Context, lease *coordinationv1.Lease) (last *coordinationv1.Lease, why string) {
	ticker := time.NewTicker(renewEvery)
	defer ticker.Stop()
	renewed := time.Now()
	for {
		select {
		case <-ctx.Done():
			return lease, "it ends"
		case newest := <-c.news:
			if holderOf(newest) == c.identity {
				continue
			}
			// The watch can be late, so the Lease is read from the API server below.
		case <-ticker.C:
			if c.write(ctx, lease, c.identity) == nil {
				renewed = time.Now()
				continue
			}
		}
		now, err := c.read(ctx)
		switch {
		case err == nil && holderOf(now) != c.identity && holderOf(now) != "":
			return now, "pod " + holderOf(now) + " has the Lease"
		case err == nil:
			lease = now // another program has changed the Lease, but not its holder
		case time.Since(renewed) > leaseDuration && c.failing(renewed):
			// Another pod may have the Lease. Packets of this pod would then disturb its tunnel.
			return lease, "the Lease can't be renewed, and the tunnel has ceased to work: " + err.Error()
		}
	}
}

func (c *competition) read(ctx context.Context) (*coordinationv1.Lease, error) {
	ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	lease := &coordinationv1.Lease{}
	err := c.reader.Get(ctx, c.key, lease)
	return lease, err
}

// write writes holder into the Lease, and renews it. It fails if another program has written the
// Lease after it was read. If it succeeds, lease is the new Lease. The request goes on after the
// end of ctx, because a pod that ends has to know whether it has to release the Lease.
func (c *competition) write(ctx context.Context, lease *coordinationv1.Lease, holder string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaseTimeout)
	defer cancel()
	next := lease.DeepCopy()
	now := metav1.NowMicro()
	if before := holderOf(lease); before != holder {
		next.Spec.HolderIdentity, next.Spec.AcquireTime = &holder, &now
		transitions := int32(1)
		if lease.Spec.LeaseTransitions != nil {
			transitions += *lease.Spec.LeaseTransitions
		}
		next.Spec.LeaseTransitions = &transitions
	}
	next.Spec.LeaseDurationSeconds, next.Spec.RenewTime = new(int32(leaseDuration/time.Second)), &now
	if err := c.client.Update(ctx, next); err != nil {
		return err
	}
	*lease = *next
	return nil
}

// release releases the Lease, so that another pod gets it at once. It tries again until this pod
// certainly does not have the Lease, or until releaseTimeout. If a pod that has ended still had the
// Lease, packets would be lost for up to the time newLease.
func (c *competition) release(ctx context.Context, lease *coordinationv1.Lease) {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	for holderOf(lease) == c.identity {
		err := c.write(ctx, lease, "")
		switch {
		case err == nil, apierrors.IsNotFound(err):
			return
		case apierrors.IsUnauthorized(err), apierrors.IsForbidden(err): // when a gateway is deleted, its ServiceAccount is deleted before the pod ends
			c.log.Info("the Lease was not given back", "lease", c.key.Name, "reason", err.Error())
			return
		case apierrors.IsConflict(err): // another program has written the Lease; or this program has, and the answer was lost
		case !sleep.For(ctx, leaseRetry):
			c.log.Warn("the Lease could not be given back; another pod takes it when it expires", "lease", c.key.Name, "error", err)
			return
		}
		if now, err := c.read(ctx); err == nil {
			lease = now
		}
	}
}

// tell puts a Lease into news. If an older Lease is still there, the new one replaces it.
func (c *competition) tell(lease *coordinationv1.Lease) {
	for {
		select {
		case c.news <- lease:
			return
		default:
		}
		select {
		case <-c.news:
		default:
		}
	}
}
