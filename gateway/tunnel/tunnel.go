//go:build linux

// Package tunnel keeps one end of one tunnel working. It sets up the kernel and
// repairs what others change, pings the peer and dials it again when it does not
// answer, finds the path MTU, and follows the peer's next key. It knows no
// Kubernetes: Set takes the wanted state, Status returns the actual one.
package tunnel

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/gateway/ping"
)

// Config of a Tunnel.
type Config struct {
	Role   gateway.Role
	PeerID string // the peer's cluster ID
	Log    *slog.Logger
	Kernel *linux.Kernel
	// Changed is called when Status may say something new. It must not block.
	Changed func()
	// Standby: another process holds the tunnel, until Lead says otherwise.
	Standby bool
	// Pinged is called with the round trip of each ping that was answered; may
	// be nil. It must not block.
	Pinged func(time.Duration)
}

// Wanted is what a Tunnel is kept at.
type Wanted struct {
	Inputs gateway.Inputs // of one peer, with index 0
	// Endpoints are where a client may find its server. It dials the first
	// that answers, and stays with it. Empty: Inputs say it.
	Endpoints []netip.AddrPort
	// Dials says that a server dials Endpoints, too: a relay, which its client dials.
	Dials bool
}

// next is what the peer's key is about to become; zero if nothing is said of it.
func (w Wanted) next() wgtypes.Key {
	if len(w.Inputs.Peers) == 0 {
		return wgtypes.Key{}
	}
	return w.Inputs.Peers[0].NextKey
}

// Status is what is known of a tunnel at one moment.
type Status struct {
	Problem   error           // why the kernel is not as wanted; nil when it is
	Pings     ping.Status     // of the peer's gateway
	Peer      linux.PeerStats // zero without peer; its bytes are since the tunnel was made, whatever became of its peers
	LinkMTU   int             // of the device, in bytes; 0 without one
	PathMTU   int             // the longest packet that passes, in bytes; 0: unknown
	NextKey   wgtypes.Key     // of the peer, with which it may dial; zero: none
	Strangers uint64          // packets of the last two minutes at the tunnel's port, since the peer was heard or its keys changed
	Heard     time.Time       // when something of the peer last came in, as far as this process knows
	Moved     ping.Traffic    // what was carried in the last MovedOver, in which no ping was answered
	MovedOver time.Duration   // 0: pings are answered, or never were
	Standby   bool            // another process holds the tunnel
	Fights    []string        // what others keep changing, and we keep repairing
	Redials   uint64          // handshakes begun because the peer had gone silent
	Redialled time.Time       // the last of them; zero: never
	Repairs   uint64          // differences found that nobody had asked for
	Errors    uint64          // attempts to bring the kernel there that failed
}

// Tunnel is one end of a tunnel. Its methods may be called concurrently.
type Tunnel struct {
	config    Config
	device    string
	hurry     chan struct{} // ping now
	rushed    chan struct{} // to look at the tunnel now
	up        chan struct{} // closed when there was somebody to ping
	connected chan struct{} // the peer answers, for the first time or again
	upOnce    sync.Once

	syncing sync.Mutex // one sync at a time

	mu        sync.Mutex
	wanted    Wanted
	ready     bool // wanted was set
	standby   bool
	chosen    netip.AddrPort
	promoted  wgtypes.Key // the peer's next key, since it dialled with it
	pathMTU   int
	wayMTU    int            // of this machine's route to where the peer is; 0: not known
	applied   *gateway.State // that was last brought about; nil: none was, or it failed
	admitted  gateway.Peer   // as the kernel has it since
	linkMTU   int
	problem   error
	pings     ping.Status
	peer      linux.PeerStats // with totals
	totals    totals
	fights    fights
	redials   uint64
	redialled time.Time
	ported    time.Time // the port was changed
	forgotten time.Time // the peer was made anew although this end does not dial
	news      bool      // of where or what the peer is, since the last look
	rekeyed   time.Time // a key was replaced, and no handshake made since; zero: none was
	repairs   uint64
	strangers strangers
	heard     time.Time // when something of the peer last came in; zero: not by this process
	silence   ping.Silence
	errors    uint64
}

// New returns a Tunnel that does nothing yet.
func New(c Config) *Tunnel {
	return &Tunnel{
		config: c, device: gateway.TunnelName(0), hurry: make(chan struct{}, 1), rushed: make(chan struct{}, 1), up: make(chan struct{}),
		connected: make(chan struct{}, 1), standby: c.Standby,
		fights: fights{},
	}
}

// Set says what is wanted from now on, and brings the kernel there. What no
// state can satisfy is refused, and what was wanted before is kept up.
func (t *Tunnel) Set(w Wanted) error {
	_, err := gateway.Compute(w.Inputs)
	t.mu.Lock()
	if err != nil {
		t.errors++
		if !t.ready {
			t.problem = err
		}
		t.mu.Unlock()
		return err
	}
	own, peer := t.keys()
	if e := w.Inputs.Peers[0].Endpoint; len(w.Endpoints) == 0 && e.IsValid() {
		w.Endpoints = []netip.AddrPort{e}
	}
	t.news = t.news || !slices.Equal(t.wanted.Endpoints, w.Endpoints) || !slices.Equal(hostAddresses(t.wanted.Inputs), hostAddresses(w.Inputs))
	t.wanted, t.ready = w, true
	newOwn, newPeer := t.keys()
	rekeyed := peer != (wgtypes.Key{}) && (own != newOwn || peer != newPeer)
	if rekeyed {
		t.news = true
		t.rekeyed = time.Now()
		t.strangers.forget()
	}
	if len(w.Endpoints) > 0 && !slices.Contains(w.Endpoints, t.chosen) {
		t.chosen = w.Endpoints[0]
	}
	t.mu.Unlock()
	err = t.sync()
	select {
	case t.rushed <- struct{}{}: // a key may be about to be replaced
	default:
	}
	if rekeyed {
		// The peer can't reach us with the key that it has: only what we send
		// makes the handshake.
		t.pingNow()
	}
	return err
}

// hostAddresses are those of the node that the gateway is on, as that says itself.
func hostAddresses(in gateway.Inputs) []netip.Addr {
	for _, n := range in.Nodes {
		if n.IP == in.NodeIP {
			return n.Addresses
		}
	}
	return nil
}

// keys are those that the tunnel uses; zero as long as they are not known.
func (t *Tunnel) keys() (own gateway.PrivateKey, peer wgtypes.Key) {
	if !t.ready {
		return own, peer
	}
	p := t.wanted.Inputs.Peers[0]
	if p.NextKey != (wgtypes.Key{}) && p.NextKey == t.promoted {
		return p.PrivateKey, p.NextKey
	}
	return p.PrivateKey, p.PublicKey
}

// Lead takes the tunnel over from another process, or leaves it to another one.
// Who stands by has all in place but the peer: nothing passes, and what is left
// to do is one change of the device.
func (t *Tunnel) Lead(lead bool) error {
	t.mu.Lock()
	t.standby = !lead
	t.strangers.forget()
	t.mu.Unlock()
	err := t.sync()
	if lead {
		t.Ask()
	}
	return err
}

// inputs are what the state is computed from: what is wanted, and what was found out.
func (t *Tunnel) inputs() (gateway.Inputs, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ready {
		return gateway.Inputs{}, false
	}
	in := t.wanted.Inputs
	in.Peers = append([]gateway.Peer(nil), in.Peers...)
	p := &in.Peers[0]
	if t.chosen.IsValid() && len(t.wanted.Endpoints) > 0 {
		p.Endpoint = t.chosen
	}
	if p.NextKey == p.PublicKey {
		p.NextKey = wgtypes.Key{}
	}
	if p.NextKey != (wgtypes.Key{}) && p.NextKey == t.promoted {
		p.PublicKey, p.NextKey = p.NextKey, p.PublicKey
	}
	p.PathMTU, p.UnderlayMTU = t.pathMTU, t.wayMTU
	if t.standby {
		p.PublicKey, p.NextKey, p.Endpoint = wgtypes.Key{}, wgtypes.Key{}, netip.AddrPort{}
	}
	return in, true
}

// sync brings the kernel to what is wanted otherwise than before: in a large
// cluster, where pods are changes all the time, and costs little.
func (t *Tunnel) sync() error { return t.bring(t.config.Kernel.Update) }

// bring does so by either way of Kernel's. Differences from a state that was
// reached before are somebody else's work.
func (t *Tunnel) bring(way func(gateway.State) ([]string, error)) error {
	t.syncing.Lock()
	defer t.syncing.Unlock()
	in, ok := t.inputs()
	if !ok {
		return nil
	}
	state, err := gateway.Compute(in)
	var changes []string
	if err == nil {
		changes, err = way(state)
		if err != nil {
			// Somebody may have changed it after it was read: in a test that deletes
			// what is being written, one of a dozen repairs failed at once.
			var more []string
			more, err = t.config.Kernel.Sync(state)
			changes = append(changes, more...)
		}
	}
	t.note(time.Now(), in, state, changes, err)
	if err == nil && in.Peers[0].PublicKey != (wgtypes.Key{}) {
		t.upOnce.Do(func() { close(t.up) })
	}
	return err
}

// States returns the wanted state and the one found, for people to look at.
func (t *Tunnel) States() (wanted, found gateway.State, err error) {
	in, ok := t.inputs()
	if !ok {
		return gateway.State{}, gateway.State{}, errNothingWanted
	}
	if wanted, err = gateway.Compute(in); err != nil {
		return gateway.State{}, gateway.State{}, err
	}
	found, err = t.config.Kernel.Found(wanted)
	return wanted, found, err
}

var errNothingWanted = errors.New("the wanted state is not known yet")

func (t *Tunnel) note(now time.Time, in gateway.Inputs, state gateway.State, changes []string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	damage := t.applied != nil && t.applied.Equal(state)
	for i, c := range changes {
		switch {
		case damage:
			t.repairs++
			t.fights.repaired(now, c)
			t.config.Log.Warn("repaired what somebody changed", "change", c)
		case i < logged:
			t.config.Log.Info("set up", "change", c)
		case i == logged:
			t.config.Log.Info("set up", "more changes", len(changes)-i)
		}
	}
	switch {
	case err != nil:
		t.errors++
		t.applied = nil
		if errorText(err) != errorText(t.problem) {
			t.config.Log.Error("bring the kernel to what is wanted", "error", err)
		}
	default:
		t.applied, t.admitted, t.linkMTU = &state, in.Peers[0], in.LinkMTU(in.Peers[0])
	}
	if news := damage && len(changes) > 0 || errorText(err) != errorText(t.problem); news {
		defer t.config.Changed()
	}
	t.problem = err
}

// logged is how many changes at once are logged one by one: a large cluster has
// thousands of nodes to set up.
const logged = 50

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

const (
	// lookInterval is how often the tunnel's counters are looked at, unless nothing
	// is carried but pings: [ping.CalmInterval].
	lookInterval = 100 * time.Millisecond
	// stillInterval is the same while nothing is carried, and something awaited.
	stillInterval = 250 * time.Millisecond
	// pingBytes bounds what a ping and its answer each way amount to.
	pingBytes = 1000
	// rotateInterval is the same while a key is being replaced: what the peer
	// sends with its next one is dropped until that was seen.
	rotateInterval = 10 * time.Millisecond
	// resync is how often the kernel is compared with what is wanted although
	// it told of no change.
	resync = 30 * time.Second
	// repairPause is between two repairs, so that a fight costs little.
	repairPause = 200 * time.Millisecond
)

// UntilBeat is how long to wait with what is done every d, so that a process does
// all of it at the same moments: what it costs while idle is how often it wakes
// up (measured, 0.5 ms of CPU each time).
func UntilBeat(d time.Duration) time.Duration { return d - time.Since(began)%d }

// began makes the moments those of this process: not all gateways of a cluster
// should ask its API server at once.
var began = time.Now()

// Run keeps the tunnel until ctx ends.
func (t *Tunnel) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return t.repair(ctx) })
	g.Go(func() error { return t.look(ctx) })
	g.Go(func() error { return t.follow(ctx) })
	g.Go(func() error { return t.ping(ctx) })
	g.Go(func() error { return t.measure(ctx) })
	return g.Wait()
}

// follow makes redials of a silent peer frequent again when this machine's own addresses
// or routes change: the obstacle may be gone.
func (t *Tunnel) follow(ctx context.Context) error {
	signals, err := linux.WatchWays(ctx)
	if err != nil {
		return err
	}
	for range signals {
		t.hasNews()
	}
	return nil
}

// repair syncs when something of ours changed, and from time to time.
func (t *Tunnel) repair(ctx context.Context) error {
	signals, err := linux.Watch(ctx)
	if err != nil {
		return err
	}
	ticker := time.NewTicker(resync)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-signals:
		case <-ticker.C:
		}
		_ = t.bring(t.config.Kernel.Sync) // reported by Status
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(repairPause):
		}
	}
}
