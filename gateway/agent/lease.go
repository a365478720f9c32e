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

// Of several pods that share a tunnel all the time, the one with the Lease holds it.
//
// This is not client-go's leader election, for two reasons. That one asks every
// so often, and counts from when it asked: with a Lease of 2 s, more than 3 s
// pass until another pod has it. And it gives up what it can't renew: an API
// server that is away for some seconds would cut clusters off from each other.
// Here, whoever holds the tunnel keeps what works, and a pod that stands by
// must have been able to read all the while that nobody renewed the Lease.
const (
	// leaseDuration is how long a Lease that nobody renews is respected.
	leaseDuration = 2 * time.Second
	// newLease is the same for one that has not been held for as long as
	// settled: on machines that are too busy to renew it in time, pods would
	// take it from each other for ever, and no session would last.
	newLease = 8 * time.Second
	settled  = 20 * time.Second
	// renewEvery leaves room for two renewals that are late.
	renewEvery = 600 * time.Millisecond
	// leaseRetry is after an error of the API server.
	leaseRetry = 250 * time.Millisecond
	// leaseTimeout ends a request that got no answer: its API server may be the
	// one that died.
	leaseTimeout = time.Second
	// releaseTimeout is for a pod that ends, of the 5 s that its template gives it.
	releaseTimeout = 4 * time.Second
)

// patience is how long a pod that stands by has seen nobody renew the Lease.
type patience struct {
	version string    // of the Lease that was seen last
	since   time.Time // when it was new; zero: not known
}

// look judges a Lease, or that it could not be read. It says whether to take
// the Lease now, and if not, when to look again.
func (p *patience) look(now time.Time, lease *coordinationv1.Lease, err error, identity string) (take bool, again time.Duration) {
	if err != nil {
		// Nor may whoever holds it have been able to renew it.
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

// respected is how long a Lease is respected that nobody renews. Both times in
// it are by the holder's clock.
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

// competition is for one Lease.
type competition struct {
	key      client.ObjectKey
	identity string
	client   client.Client
	reader   client.Reader // not cached
	log      *slog.Logger
	// news are Leases as the watch tells of them: the newest one.
	news chan *coordinationv1.Lease
	// begin takes the tunnel over, end leaves it to others. failing reports
	// whether the tunnel has ceased to work since a time.
	begin   func()
	end     func()
	failing func(since time.Time) bool
}

// run competes until ctx ends, and then gives the Lease back.
func (c *competition) run(ctx context.Context) {
	for {
		lease := c.await(ctx)
		if ctx.Err() != nil { // an answer may have been lost that it has the Lease
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
			// Packets pass until the Lease is free: whoever takes it has to write it first.
			c.release(context.WithoutCancel(ctx), lease)
		}
		c.end()
		c.log.Info("this pod stands by", "lease", c.key.Name, "reason", why)
		if ctx.Err() != nil {
			return
		}
	}
}

// await returns the Lease when it is this pod's; nil if ctx ends before.
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

// hold renews the Lease until it is another pod's, or the tunnel must be left
// for another reason, which it returns with the Lease as it is known then.
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
			// The watch may be behind: only the API server knows.
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

// write makes the Lease be holder's, unless it was written since it was read.
// It is changed in any case but an error. It goes on when ctx ends: a pod that ends has to
// know what it gives back.
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

// release lets another pod have the Lease at once. It is tried until the Lease is known to be
// somebody else's: one that stays with a pod that is gone costs packets for up to newLease.
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
		case apierrors.IsConflict(err): // somebody else wrote to it, or we did and did not hear of it
		case !sleep.For(ctx, leaseRetry):
			c.log.Warn("the Lease could not be given back; another pod takes it when it is over", "lease", c.key.Name, "error", err)
			return
		}
		if now, err := c.read(ctx); err == nil {
			lease = now
		}
	}
}

// tell passes a Lease on, in the place of one that nobody has looked at yet.
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
