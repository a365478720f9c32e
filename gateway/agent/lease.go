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

// If several pods share a tunnel all the time, the pod with the Lease holds the tunnel.
//
// This is not client-go's leader election, for two reasons. client-go asks at intervals,
// and counts from the time of its request: with a Lease of 2 s, more than 3 s pass until
// another pod has it. And client-go's leader gives up if it can't renew the Lease: an API
// server that is away for some seconds would cut clusters off from each other. Here, the
// pod that holds the tunnel keeps it while it works. A pod that stands by takes the Lease
// only if it could read the Lease during all the time in which nobody renewed it.
const (
	// leaseDuration is how long a Lease that nobody renews is respected.
	leaseDuration = 2 * time.Second
	// newLease is used in place of leaseDuration until one pod has held the Lease for
	// settled. On machines that are too busy to renew it in time, pods would otherwise
	// take it from each other for ever, and no session would last.
	newLease = 8 * time.Second
	settled  = 20 * time.Second
	// renewEvery leaves room for two renewals that are late.
	renewEvery = 600 * time.Millisecond
	// leaseRetry is the pause after an error of the API server.
	leaseRetry = 250 * time.Millisecond
	// leaseTimeout ends a request that gets no answer: perhaps its API server has died.
	leaseTimeout = time.Second
	// releaseTimeout is the time to release the Lease when the pod ends. The template
	// gives the pod 5 s to end.
	releaseTimeout = 4 * time.Second
)

// patience is the memory of a pod that stands by: since when nobody has renewed the Lease.
type patience struct {
	version string    // of the Lease that was seen last
	since   time.Time // when it was new; zero: not known
}

// look judges a Lease, or the error of reading it. It returns whether to take the Lease
// now, and otherwise the time until the next look.
func (p *patience) look(now time.Time, lease *coordinationv1.Lease, err error, identity string) (take bool, again time.Duration) {
	if err != nil {
		// Perhaps the pod that holds the Lease could not reach the API server either.
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

// respected is how long other pods respect a Lease that nobody renews. Both times in the
// Lease are by the holder's clock.
func respected(l *coordinationv1.Lease) time.Duration {
	acquired, renewed := l.Spec.AcquireTime, l.Spec.RenewTime
	if acquired == nil || renewed == nil || renewed.Sub(acquired.Time) >= settled {
		return leaseDuration
	}
	return newLease
}

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
	reader   client.Reader // not cached
	log      *slog.Logger
	// news holds the newest Lease from the watch.
	news chan *coordinationv1.Lease
	// begin takes the tunnel over, end leaves it to other pods. failing reports whether
	// the tunnel has ceased to work since a given time.
	begin   func()
	end     func()
	failing func(since time.Time) bool
}

// run competes until ctx ends, and then gives the Lease back.
func (c *competition) run(ctx context.Context) {
	for {
		lease := c.await(ctx)
		if ctx.Err() != nil { // this pod may have got the Lease, if the answer to its write was lost
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
			// Packets pass until the Lease is free, and until another pod has written it.
			c.release(context.WithoutCancel(ctx), lease)
		}
		c.end()
		c.log.Info("this pod stands by", "lease", c.key.Name, "reason", why)
		if ctx.Err() != nil {
			return
		}
	}
}

// await returns the Lease once this pod has it; nil if ctx ends first.
func (c *competition) await(ctx context.Context) *coordinationv1.Lease {
	var p patience
	lease, err := c.read(ctx)
	for {
		take, again := p.look(time.Now(), lease, err, c.identity)
		if take && ctx.Err() == nil {
			if err = c.write(ctx, lease, c.identity); err == nil {
				return lease
			}
			again = leaseRetry // another pod was first, or the API server is away
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

// hold renews the Lease until another pod has it, or until this pod must leave the tunnel
// for another reason. It returns the reason and the last known Lease.
func (c *competition) hold(ctx context.Context, lease *coordinationv1.Lease) (last *coordinationv1.Lease, why string) {
	ticker := time.NewTicker(renewEvery)
	defer ticker.Stop()
	renewed := time.Now()
	for {
		select {
		case <-ctx.Done():
			return lease, "it ends"
		case told := <-c.news:
			if holderOf(told) == c.identity {
				continue
			}
			// The watch can be late: only the API server knows the present Lease.
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
			lease = now // somebody else wrote to it
		case time.Since(renewed) > leaseDuration && c.failing(renewed):
			// Another pod may have the Lease, and our dialling cut it off.
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

// write gives the Lease to holder, unless somebody has written it since it was read. If the
// write succeeds, lease is the new Lease. The request goes on when ctx ends: a pod that
// ends has to know whether it has a Lease to release.
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

// release frees the Lease, so that another pod gets it at once. It tries until this pod
// surely no longer has the Lease: if the Lease stays with a pod that is gone, packets are
// lost for up to newLease.
func (c *competition) release(ctx context.Context, lease *coordinationv1.Lease) {
	ctx, cancel := context.WithTimeout(ctx, releaseTimeout)
	defer cancel()
	for holderOf(lease) == c.identity {
		err := c.write(ctx, lease, "")
		switch {
		case err == nil, apierrors.IsNotFound(err):
			return
		case apierrors.IsUnauthorized(err), apierrors.IsForbidden(err): // the gateway's account is deleted before it
			c.log.Info("the Lease was not given back", "lease", c.key.Name, "reason", err.Error())
			return
		case apierrors.IsConflict(err): // somebody else wrote it, or we did and the answer was lost
		case !sleep.For(ctx, leaseRetry):
			c.log.Warn("the Lease could not be given back; another pod takes it when it is over", "lease", c.key.Name, "error", err)
			return
		}
		if now, err := c.read(ctx); err == nil {
			lease = now
		}
	}
}

// tell puts a Lease into news. It replaces one that nobody has read yet.
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
