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
	// Changed is called when Status may have changed. It must not block.
	Changed func()
	// Standby is set if another process holds the tunnel, until Lead is called.
	Standby bool
	// Pinged is called with the round-trip time of each answered ping. It can be nil, and must
	// not block.
	Pinged func(time.Duration)
}

// Wanted is the wanted state of a Tunnel.
type Wanted struct {
	Inputs gateway.Inputs // of one peer, with index 0
	// Endpoints are the possible addresses of a client's server. The client dials them in
	// turn, and stays with the first that answers. Empty: the peer's endpoint in Inputs.
	Endpoints []netip.AddrPort
	// Dials is set if a server dials Endpoints: they are a relay, which the client dials, too.
	Dials bool
}

// next is the peer's next key; zero if none was announced.
func (w Wanted) next() wgtypes.Key {
	if len(w.Inputs.Peers) == 0 {
		return wgtypes.Key{}
	}
	return w.Inputs.Peers[0].NextKey
}

// Status is a tunnel's status at one moment.
type Status struct {
	Problem   error           // why the kernel is not as wanted; nil when it is
	Pings     ping.Status     // of the peer's gateway
	Peer      linux.PeerStats // zero without peer; its bytes count since the tunnel was made, over all its peers
	LinkMTU   int             // of the device, in bytes; 0 without one
	PathMTU   int             // the longest packet that passes, in bytes; 0: unknown
	NextKey   wgtypes.Key     // the peer's next key, with which it can dial already; zero: none
	Strangers uint64          // packets of the last two minutes at the tunnel's port, since the peer was heard or its keys changed
	Heard     time.Time       // when a packet of the peer last came in, as far as this process knows
	Moved     ping.Traffic    // the traffic of the last MovedOver, in which no ping was answered
	MovedOver time.Duration   // 0: pings are answered, or never were
	Standby   bool            // another process holds the tunnel
	Fights    []string        // things that others change and we repair again and again
	Redials   uint64          // handshakes begun because the peer had gone silent
	Redialled time.Time       // the last of them; zero: never
	Repairs   uint64          // differences found that nobody had asked for
	Errors    uint64          // failed attempts to bring the kernel to the wanted state
}

// Tunnel is one end of a tunnel. Its methods may be called concurrently.
type Tunnel struct {
	config    Config
	device    string
	hurry     chan struct{} // ping now
	rushed    chan struct{} // look at the tunnel now
	up        chan struct{} // closed once there is a peer to ping
	connected chan struct{} // the peer answers, for the first time or again
	upOnce    sync.Once

	syncing sync.Mutex // one sync at a time

	mu        sync.Mutex
	wanted    Wanted
	ready     bool // wanted was set
	standby   bool
	chosen    netip.AddrPort
	promoted  wgtypes.Key // the peer's next key, once the peer has dialled with it
	pathMTU   int
	wayMTU    int                  // MTU of this machine's route to the peer's endpoint; 0: not known
	applied   *gateway.KernelState // the state that was last applied; nil: none was, or it failed
	admitted  gateway.Peer         // the peer as the kernel has it since then
	linkMTU   int
	problem   error
	pings     ping.Status
	peer      linux.PeerStats // with totals
	totals    totals
	fights    fights
	redials   uint64
	redialled time.Time
	ported    time.Time // the port was changed
	forgotten time.Time // when the peer was created anew although this end does not dial
	news      bool      // the peer's endpoint or key has changed since the last look
	rekeyed   time.Time // when a key was replaced without a handshake since; zero: not the case
	repairs   uint64
	strangers strangers
	heard     time.Time // when a packet of the peer last came in; zero: this process has seen none
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

// Set sets the wanted state, and brings the kernel to it. If no state can satisfy w, Set
// returns an error, and keeps the former wanted state.
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
		// The peer can't reach us with the key that it has: only a packet of ours begins the
		// handshake.
		t.pingNow()
	}
	return err
}

// hostAddresses returns the addresses of the gateway's node, as the node's agent reports them.
func hostAddresses(in gateway.Inputs) []netip.Addr {
	for _, n := range in.Nodes {
		if n.IP == in.NodeIP {
			return n.Addresses
		}
	}
	return nil
}

// keys returns the keys that the tunnel uses; zero while they are not known.
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

// Lead takes the tunnel over from another process, or leaves it to another one. A process
// that stands by has set up everything but the peer: no packet passes, and a takeover needs
// only one change of the device.
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

// inputs returns the inputs of the state: the wanted ones, with what this process has measured.
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

// sync applies only what has changed in the wanted state: so it is cheap in a large cluster,
// where the addresses of pods change all the time.
func (t *Tunnel) sync() error { return t.bring(t.config.Kernel.Update) }

// bring applies the wanted state with Kernel.Sync or Kernel.Update. If the same state was
// applied before, somebody else has made the differences.
func (t *Tunnel) bring(way func(gateway.KernelState) ([]string, error)) error {
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
			// Somebody may have changed the kernel after it was read: in a test that deletes
			// objects during the repair, one of a dozen repairs failed.
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
func (t *Tunnel) States() (wanted, found gateway.KernelState, err error) {
	in, ok := t.inputs()
	if !ok {
		return gateway.KernelState{}, gateway.KernelState{}, errNothingWanted
	}
	if wanted, err = gateway.Compute(in); err != nil {
		return gateway.KernelState{}, gateway.KernelState{}, err
	}
	found, err = t.config.Kernel.Found(wanted)
	return wanted, found, err
}

var errNothingWanted = errors.New("the wanted state is not known yet")

func (t *Tunnel) note(now time.Time, in gateway.Inputs, state gateway.KernelState, changes []string, err error) {
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

// logged is the largest number of changes that are logged one by one: in a large cluster,
// thousands of nodes are set up at once.
const logged = 50

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

const (
	// lookInterval is the time between two looks at the tunnel's counters. While the tunnel
	// carries only pings, it is [ping.CalmInterval].
	lookInterval = 100 * time.Millisecond
	// stillInterval is that time while there is no traffic, but an answer is awaited.
	stillInterval = 250 * time.Millisecond
	// pingBytes is more than a ping and its answer take in each direction.
	pingBytes = 1000
	// rotateInterval is that time while a key is being replaced: the peer's packets under its
	// next key are dropped until this end notices them.
	rotateInterval = 10 * time.Millisecond
	// resync is the interval at which the kernel is compared with the wanted state although it
	// has reported no change.
	resync = 30 * time.Second
	// repairPause is the pause between two repairs, so that a fight costs little.
	repairPause = 200 * time.Millisecond
)

// UntilBeat returns the delay of a task that runs every d, so that all tasks of a process run
// at the same moments. An idle process costs CPU time each time that it wakes up: 0.5 ms in a
// measurement.
func UntilBeat(d time.Duration) time.Duration { return d - time.Since(began)%d }

// began makes these moments different in each process: the gateways of a cluster should not
// all ask its API server at once.
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
		t.redialSooner()
	}
	return nil
}

// repair syncs when somebody has changed something of ours, and every resync.
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
