package agent

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// court is a Lease and the pods that compete for it. A test can make its API server unavailable.
type court struct {
	t    *testing.T
	api  client.WithWatch
	away atomic.Bool
	slow atomic.Int64 // the duration of an update
	pods []*contender
}

// contender is one pod.
type contender struct {
	court   *court
	name    string
	holds   atomic.Bool
	since   time.Time   // it holds the tunnel; written before holds is set
	left    time.Time   // it left the tunnel
	failing atomic.Bool // its tunnel does not work
	cut     atomic.Bool // it can't reach the API server
	end     context.CancelFunc
	ended   chan struct{}

	competition *competition
}

var errAway = errors.New("connection refused")

func newCourt(t *testing.T) *court {
	scheme, err := wire.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-rome", Name: "gw-rome"}}
	return &court{t: t, api: fake.NewClientBuilder().WithScheme(scheme).WithObjects(lease).Build()}
}

// join starts a pod that competes for the Lease.
func (c *court) join(name string) *contender {
	p := &contender{court: c, name: name, ended: make(chan struct{})}
	c.pods = append(c.pods, p)
	p.start()
	return p
}

func (p *contender) start() {
	check := func(ctx context.Context) error {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if p.court.away.Load() || p.cut.Load() {
			return errAway
		}
		return nil
	}
	api := interceptor.NewClient(p.court.api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if err := check(ctx); err != nil {
				return err
			}
			return c.Get(ctx, key, o, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			if err := check(ctx); err != nil {
				return err
			}
			if err := c.Update(ctx, o, opts...); err != nil {
				return err
			}
			for _, other := range p.court.pods {
				other.hear(o)
			}
			select { // if the request is given up meanwhile, its answer is lost
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Duration(p.court.slow.Load())):
				return nil
			}
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	p.end = cancel
	p.competition = &competition{
		key: client.ObjectKey{Namespace: "liqo-tenant-rome", Name: "gw-rome"}, identity: p.name,
		client: api, reader: api, log: slog.New(slog.DiscardHandler), news: make(chan *coordinationv1.Lease, 1),
		begin: func() {
			p.since = time.Now()
			p.holds.Store(true)
		},
		end: func() {
			p.left = time.Now()
			p.holds.Store(false)
		},
		failing: func(time.Time) bool { return p.failing.Load() },
	}
	go func() {
		defer close(p.ended)
		p.competition.run(ctx)
	}()
}

// hear delivers a Lease to the pod, as its watch does.
func (p *contender) hear(o client.Object) {
	if lease, ok := o.(*coordinationv1.Lease); ok && !p.cut.Load() {
		p.competition.tell(lease.DeepCopy())
	}
}

// crash ends the pod without giving back the Lease.
func (p *contender) crash() {
	p.cut.Store(true)
	p.holds.Store(false)
}

// stop ends the pod, which gives back the Lease.
func (p *contender) stop() {
	p.end()
	<-p.ended
}

func (c *court) stopAll() {
	for _, p := range c.pods {
		p.stop()
	}
}

// holders returns the pods that hold the tunnel.
func (c *court) holders() (names []string) {
	for _, p := range c.pods {
		if p.holds.Load() {
			names = append(names, p.name)
		}
	}
	return names
}

func (c *court) want(when string, names ...string) {
	c.t.Helper()
	synctest.Wait()
	got := c.holders()
	if len(got) != len(names) || len(got) == 1 && got[0] != names[0] {
		c.t.Errorf("%s: %v hold the tunnel, want %v", when, got, names)
	}
}

// started returns a court in which a holds the tunnel, and b is the standby.
func started(t *testing.T) (c *court, a, b *contender) {
	c = newCourt(t)
	a = c.join("a")
	synctest.Wait()
	b = c.join("b")
	time.Sleep(settled + time.Second)
	c.want("after a time in peace", "a")
	return c, a, b
}

func TestLostHolderIsFollowedAfterTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a, b := started(t)
		defer c.stopAll()
		a.crash()
		crashed := time.Now()
		time.Sleep(leaseDuration - renewEvery - time.Millisecond)
		c.want("before the Lease is over")
		time.Sleep(renewEvery + 2*time.Millisecond)
		c.want("after the Lease is over", "b")
		if gap := b.since.Sub(crashed); gap > leaseDuration {
			t.Errorf("b held the tunnel %s after a was lost, want no more than %s", gap, leaseDuration)
		}
	})
}

// On a very busy machine, pods would otherwise take the tunnel from each other again and again.
func TestLeaseThatChangedHandsIsRespectedForLonger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a, b := started(t)
		defer c.stopAll()
		a.cut.Store(true)
		time.Sleep(leaseDuration)
		a.cut.Store(false)
		time.Sleep(renewEvery)
		c.want("after a could not renew it", "b")
		b.cut.Store(true)
		time.Sleep(newLease - renewEvery - time.Millisecond)
		c.want("while b can't renew it, a moment later", "b")
		b.cut.Store(false)
		time.Sleep(settled)
		c.want("after that", "b")
		lost := time.Now()
		b.crash()
		time.Sleep(newLease)
		if gap := a.since.Sub(lost); gap <= 0 || gap > leaseDuration {
			t.Errorf("a held the tunnel %s after b was lost, want no more than %s once b had it for long", gap, leaseDuration)
		}
	})
}

func TestHolderThatEndsIsFollowedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a, b := started(t)
		defer b.stop()
		ended := time.Now()
		a.stop()
		c.want("after a gave the Lease back", "b")
		if gap := b.since.Sub(ended); gap > 10*time.Millisecond {
			t.Errorf("b held the tunnel %s after a ended, want at once", gap)
		}
	})
}

// The last renewal is not finished, the API server is unavailable for a moment, or another program has
// written to the Lease. In each case, another pod must not have to wait until the Lease expires.
func TestLeaseIsGivenBackWhateverHappens(t *testing.T) {
	for name, meanwhile := range map[string]func(*court, *contender){
		"a renewal is under way": func(c *court, a *contender) {
			c.slow.Store(int64(500 * time.Millisecond))
			time.Sleep(renewEvery)
		},
		"the API server is away for a moment": func(c *court, _ *contender) {
			c.away.Store(true)
			time.AfterFunc(leaseTimeout, func() { c.away.Store(false) })
		},
		"somebody else wrote to it": func(c *court, _ *contender) {
			lease := &coordinationv1.Lease{}
			if err := c.api.Get(c.t.Context(), client.ObjectKey{Namespace: "liqo-tenant-rome", Name: "gw-rome"}, lease); err != nil {
				c.t.Fatal(err)
			}
			lease.Labels = map[string]string{"a": "b"}
			if err := c.api.Update(c.t.Context(), lease); err != nil {
				c.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c, a, b := started(t)
				defer b.stop()
				meanwhile(c, a)
				ended := time.Now()
				a.stop()
				time.Sleep(leaseTimeout)
				c.want("after a gave the Lease back", "b")
				if gap := b.since.Sub(ended); gap > leaseTimeout+2*leaseRetry {
					t.Errorf("b held the tunnel %s after a ended, want no more than %s", gap, leaseTimeout+2*leaseRetry)
				}
			})
		})
	}
}

// Each write takes some time, and the watch reports it before its answer comes. The pod holds the tunnel
// while it gives back the Lease. So the next pod has written the Lease when the first pod leaves the tunnel.
func TestTheTunnelIsHeldUntilTheLeaseIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a, b := started(t)
		defer b.stop()
		const write = 80 * time.Millisecond
		c.slow.Store(int64(write))
		a.stop()
		time.Sleep(leaseTimeout)
		c.want("after a gave the Lease back", "b")
		if gap := b.since.Sub(a.left); gap < 0 || gap >= write {
			t.Errorf("nobody held the tunnel for %s, want less than a write's %s, and never both", gap, write)
		}
	})
}

// The next process of the same pod has the same name, and no other pod uses the Lease.
func TestRestartedHolderGoesOnAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a, _ := started(t)
		a.crash()
		again := c.join("a")
		defer c.stopAll()
		c.want("after the process was started again", "a")
		time.Sleep(3 * leaseDuration)
		c.want("later", "a")
		if !again.holds.Load() {
			t.Error("the new process does not hold the tunnel")
		}
	})
}

// Nobody can renew the Lease, and no pod may conclude anything from that.
func TestAPIServerThatIsAwayChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a, _ := started(t)
		defer c.stopAll()
		c.away.Store(true)
		time.Sleep(time.Minute)
		c.want("while the API server is away", "a")
		c.away.Store(false)
		since := a.since
		time.Sleep(time.Minute)
		c.want("when it is back", "a")
		if a.since != since {
			t.Error("a let go of the tunnel meanwhile")
		}
	})
}

// The holder can't reach the API server, and perhaps not the peer. Another pod takes over, and both would
// compete for the peer if the holder dialled.
func TestHolderThatIsCutOffKeepsWhatWorksAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a, _ := started(t)
		defer c.stopAll()
		a.cut.Store(true)
		time.Sleep(2 * leaseDuration)
		c.want("while a's tunnel works", "a", "b")
		a.failing.Store(true)
		time.Sleep(2 * renewEvery)
		c.want("when it has ceased to work", "b")
		a.cut.Store(false)
		a.failing.Store(false)
		time.Sleep(time.Minute)
		c.want("when a reaches the API server again", "b")
	})
}

func TestHolderThatLostTheLeaseStandsBy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, a, _ := started(t)
		defer c.stopAll()
		a.cut.Store(true)
		time.Sleep(2 * leaseDuration)
		a.cut.Store(false)
		time.Sleep(2 * renewEvery)
		c.want("after a could read the Lease again", "b")
	})
}

func TestPatience(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	lease := func(holder, version string) *coordinationv1.Lease {
		return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{ResourceVersion: version}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder}}
	}
	type step struct {
		after time.Duration
		lease *coordinationv1.Lease
		err   error
		take  bool
		again time.Duration
	}
	for name, steps := range map[string][]step{
		"a free one is taken":         {{0, lease("", "1"), nil, true, 0}},
		"one without holder is taken": {{0, &coordinationv1.Lease{}, nil, true, 0}},
		"one's own is taken":          {{0, lease("me", "1"), nil, true, 0}},
		"another's is waited for":     {{0, lease("x", "1"), nil, false, leaseDuration}, {leaseDuration, lease("x", "1"), nil, true, 0}},
		"a renewal begins it anew": {
			{0, lease("x", "1"), nil, false, leaseDuration},
			{time.Second, lease("x", "2"), nil, false, leaseDuration},
			{leaseDuration, lease("x", "2"), nil, false, time.Second},
		},
		"an error begins it anew": {
			{0, lease("x", "1"), nil, false, leaseDuration},
			{time.Second, nil, errAway, false, leaseRetry},
			{leaseDuration, lease("x", "1"), nil, false, leaseDuration},
		},
	} {
		var p patience
		for i, s := range steps {
			take, again := p.look(start.Add(s.after), s.lease, s.err, "me")
			if take != s.take || again != s.again {
				t.Errorf("%s: step %d: got take %v, again after %s; want %v, %s", name, i, take, again, s.take, s.again)
			}
		}
	}
}
