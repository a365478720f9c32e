//go:build linux

// Package tunnel keeps one end of one tunnel working. It sets up the kernel, and repairs changes by other
// programs. It pings the peer, and dials the peer again if there is no answer. It finds the path MTU, and
// follows the peer's next key. The package does not use Kubernetes: Set takes the wanted state, and Status
// returns the actual state.
package tunnel

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/gateway/ping"
)

// Config configures a Tunnel.
type Config struct {
	Role   gateway.Role
	PeerID string // the peer's cluster ID
	Log    *slog.Logger
	Kernel *linux.Kernel
	// Changed is called when Status may have changed. It must not block.
	Changed func()
	// Standby is set if another process has the tunnel. Lead changes this later.
	Standby bool
	// Pinged is called with the round-trip time of each answered ping. It must not block. It may
	// be nil.
	Pinged func(time.Duration)
	// Recorder records pings and states while this process has the tunnel. It may be nil.
	Recorder *ping.Recorder
}

// Wanted is the wanted state of a Tunnel.
type Wanted struct {
	Inputs gateway.Inputs // with one peer, whose index is 0
	// Endpoints are the possible addresses of a client's server. The client dials them in
	// turn, and stays with the first address that answers. If the list is empty, the client
	// dials the peer's endpoint in Inputs.
	Endpoints []netip.AddrPort
	// Dials is set if a server dials Endpoints. Then they are the addresses of a relay, which
	// the client dials, too.
	Dials bool
}

// next returns the peer's next key; zero if the peer has announced none.
func (w Wanted) next() wgtypes.Key {
	if len(w.Inputs.Peers) == 0 {
		return wgtypes.Key{}
	}
	return w.Inputs.Peers[0].NextKey
}

// Status is a tunnel's status at one moment.
type Status struct {
	// Problem is the reason that the kernel does not have the wanted state; nil if it has it.
	Problem error
	Pings   ping.Status // of the peer's gateway
	// Peer is WireGuard's entry of the peer; zero if there is none. Its bytes count all packets since the
	// tunnel was made, also under former keys.
	Peer    linux.PeerStats
	LinkMTU int // of the device, in bytes; 0 if there is no device
	PathMTU int // the longest packet that passes, in bytes; 0: unknown
	// NextKey is the peer's next key, if the kernel accepts it already; zero otherwise.
	NextKey wgtypes.Key
	// Strangers counts packets from unknown senders at the tunnel's port in the last two minutes. The count
	// begins again with each packet from the peer and each change of keys.
	Strangers uint64
	Heard     time.Time // when this process last received a packet from the peer; zero: never
	// Moved is the traffic in the last MovedOver, while no ping was answered. MovedOver is 0 if pings are
	// answered, or if no ping was ever answered.
	Moved     ping.Traffic
	MovedOver time.Duration
	Standby   bool      // another process has the tunnel
	Fights    []string  // objects in the kernel that another program changes and we repair again and again
	Redials   uint64    // handshakes that this end began because the peer was silent
	Redialled time.Time // the time of the last redial; zero: never
	Repairs   uint64    // repaired changes by other programs
	Errors    uint64    // failed attempts to bring the kernel to the wanted state
}

// Tunnel is one end of a tunnel. Its methods may be called concurrently.
type Tunnel struct {
	config    Config
	device    string
	hurry     chan struct{} // ping now
	rushed    chan struct{} // look at the tunnel now
	up        chan struct{} // closed when there is a peer to ping
	connected chan struct{} // the peer answers, for the first time or again
	upOnce    sync.Once

	syncing sync.Mutex // one sync at a time
	latest  computed

	mu        sync.Mutex
	wanted    Wanted
	sets      uint64 // the number of accepted calls of Set
	ready     bool   // wanted was set
	standby   bool
	chosen    netip.AddrPort
	promoted  wgtypes.Key // the peer's next key, if the peer has dialled with it
	pathMTU   int
	wayMTU    int                  // MTU of this machine's route to the peer's endpoint; 0: not known
	applied   *gateway.KernelState // the last applied state; nil: no attempt yet, or the last one failed
	admitted  gateway.Peer         // the peer in the last state that was applied without an error
	linkMTU   int
	problem   error
	pings     ping.Status
	peer      linux.PeerStats // with totals
	totals    totals
	fights    fights
	redials   uint64
	redialled time.Time
	ported    time.Time // the port was changed
	moved     time.Time // the endpoints were changed
	forgotten time.Time // when forget last created WireGuard's entry of the peer anew
	news      bool      // the next look has to make redials frequent again, see redialSooner
	rekeyed   time.Time // when a key was replaced; zero if a handshake has followed
	repairs   uint64
	strangers strangers
	heard     time.Time // when this process last received a packet from the peer; zero: never
	silence   ping.Silence
	errors    uint64
}

// New returns a Tunnel that does nothing yet.
func New(c Config) *Tunnel {
	if c.Recorder == nil {
		c.Recorder = new(ping.Recorder)
	}
	if !c.Standby {
		c.Recorder.Begin(time.Now())
	}
	return &Tunnel{
		config: c, device: gateway.TunnelName(0), hurry: make(chan struct{}, 1), rushed: make(chan struct{}, 1), up: make(chan struct{}),
		connected: make(chan struct{}, 1), standby: c.Standby,
		fights: fights{},
	}
}

// Set sets the wanted state, and brings the kernel to it. If no state can satisfy w, Set
// returns an error, and keeps the former wanted state.
func (t *Tunnel) Set(w Wanted) error {
	err := w.Inputs.Check()
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
	t.dial(w.Endpoints, time.Now())
	t.news = t.news || !slices.Equal(hostAddresses(t.wanted.Inputs), hostAddresses(w.Inputs))
	t.wanted, t.ready = w, true
	t.sets++
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
		// The peer still has the former key, so it can't begin a handshake. A packet of this end
		// begins one.
		t.pingNow()
	}
	return err
}

// dial notes the peer's endpoints.
func (t *Tunnel) dial(endpoints []netip.AddrPort, now time.Time) {
	if !slices.Equal(t.wanted.Endpoints, endpoints) {
		t.news, t.moved = true, now
	}
	t.wanted.Endpoints = endpoints
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

// Lead takes the tunnel over from another process, or leaves it to another process. A standby has set up
// everything except WireGuard's entry of the peer. So no packet passes through it, and a takeover needs only one
// change of the device.
func (t *Tunnel) Lead(lead bool) error {
	t.mu.Lock()
	t.standby = !lead
	t.strangers.forget()
	t.mu.Unlock()
	if !lead {
		t.config.Recorder.End()
	}
	err := t.sync()
	if lead {
		t.config.Recorder.Begin(time.Now())
		t.Ask()
	}
	return err
}

// inputs returns the wanted inputs, completed with values that this process has chosen or measured. All these
// values are in Peers. set numbers the call of Set that everything else is from.
func (t *Tunnel) inputs() (in gateway.Inputs, set uint64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ready {
		return gateway.Inputs{}, 0, false
	}
	in = t.wanted.Inputs
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
	return in, t.sets, true
}

// computed is the last computed state. It is kept for the comparison that follows each write to the kernel,
// because with thousands of nodes a computation costs as much as the comparison.
type computed struct {
	set   uint64
	peers []gateway.Peer
	state gateway.KernelState
}

// compute returns the state for inputs. The caller holds t.syncing.
func (t *Tunnel) compute(in gateway.Inputs, set uint64) (gateway.KernelState, error) {
	if t.latest.set == set && reflect.DeepEqual(t.latest.peers, in.Peers) {
		return t.latest.state, nil
	}
	state, err := gateway.Compute(in)
	if err == nil {
		t.latest = computed{set, in.Peers, state}
	}
	return state, err
}

// sync applies only the changes of the wanted state. So it is cheap in a large cluster, where the addresses of
// pods change all the time.
func (t *Tunnel) sync() error { return t.bring(t.config.Kernel.Update) }

// bring applies the wanted state with Kernel.Sync or Kernel.Update. If the same state was applied before,
// another program has made the differences.
func (t *Tunnel) bring(way func(gateway.KernelState) ([]string, error)) error {
	t.syncing.Lock()
	defer t.syncing.Unlock()
	in, set, ok := t.inputs()
	if !ok {
		return nil
	}
	state, err := t.compute(in, set)
	var changes []string
	if err == nil {
		changes, err = way(state)
		if err != nil {
			// Another program may have changed the kernel after it was read. In a test that deletes objects
			// during the repair, one of a dozen repairs failed.
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

// States returns the wanted state and the state of the kernel, so that people can compare them.
func (t *Tunnel) States() (wanted, found gateway.KernelState, err error) {
	in, _, ok := t.inputs()
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
	LogChanges(t.config.Log, damage, changes)
	if damage {
		t.repairs += uint64(len(changes))
		for _, c := range changes {
			t.fights.repaired(now, c)
		}
	}
	switch {
	case err != nil:
		t.errors++
		t.applied = nil
		if errorText(err) != errorText(t.problem) {
			t.config.Log.Error("bring the kernel to the wanted state", "error", err)
		}
	default:
		t.applied, t.admitted, t.linkMTU = &state, in.Peers[0], in.LinkMTU(in.Peers[0])
	}
	if news := damage && len(changes) > 0 || errorText(err) != errorText(t.problem); news {
		defer t.config.Changed()
	}
	t.problem = err
}

// logged is the largest number of changes that are logged one by one. In a large cluster, the first state has
// thousands of nodes, and the loss of a device removes thousands of routes.
const logged = 50

// LogChanges logs changes of the kernel. damage means that they undo another program's changes.
func LogChanges(log *slog.Logger, damage bool, changes []string) {
	say, text := log.Info, "set up"
	if damage {
		say, text = log.Warn, "undid another program's change"
	}
	for i, c := range changes {
		if i == logged {
			say(text, "more changes", len(changes)-i)
			return
		}
		say(text, "change", c)
	}
}

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
	// stillInterval is the time between two looks while there is no traffic, but an answer is
	// still to come.
	stillInterval = 250 * time.Millisecond
	// pingBytes is more than the bytes of a ping and its answer in each direction.
	pingBytes = 1000
	// rotateInterval is the time between two looks while a key is being replaced. It is short,
	// because the peer's packets under its next key are lost until this end notices the key.
	rotateInterval = 10 * time.Millisecond
	// resync is the interval at which the kernel is compared with the wanted state without a
	// reported change.
	resync = 30 * time.Second
	// repairPause is the pause between two repairs. It limits the CPU time if another program
	// makes the same change again and again.
	repairPause = 200 * time.Millisecond
)

// UntilBeat returns the delay until the next run of a task that runs every d. With it, all tasks of a process
// run at the same moments. This saves CPU time, because each wake-up of an idle process costs some: 0.5 ms in
// a measurement.
func UntilBeat(d time.Duration) time.Duration { return d - time.Since(began)%d }

// began makes these moments different in each process, so that the gateways of a cluster don't all ask the API
// server at the same moment.
var began = time.Now()

// Run keeps the tunnel working until ctx ends.
func (t *Tunnel) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return t.repair(ctx) })
	g.Go(func() error { return t.look(ctx) })
	g.Go(func() error { return t.follow(ctx) })
	g.Go(func() error { return t.ping(ctx) })
	g.Go(func() error { return t.measure(ctx) })
	return g.Wait()
}

// follow makes the redials of a silent peer frequent again when this machine's addresses or routes change. The
// peer may be reachable again then.
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

// repair syncs after another program has changed our objects, and every resync.
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
		_ = t.bring(t.config.Kernel.Sync) // Status contains the error
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(repairPause):
		}
	}
}
