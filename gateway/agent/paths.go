package agent

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/internal/sleep"
)

const (
	// askInterval is the pause between two requests of a node to a gateway. A random time of up to
	// 3 s is added, so that not all nodes send at the same time. A request is a packet of 28 bytes,
	// which the gateway's kernel answers. 5,000 nodes send 670 requests per second.
	askInterval = 6 * time.Second
	// askAgain is the pause after a request without an answer. After three such requests in a row,
	// the gateway counts as lost. This is 15 s at most after the last answer.
	askAgain = time.Second
)

// paths checks at intervals whether each gateway answers this node over the fabric, on the path that
// the packets of pods take.
type paths struct {
	log   *slog.Logger
	own   netip.Addr
	ask   func(own netip.Addr, members []netip.Addr) (map[netip.Addr]bool, error)
	asked func() []gateway.Gateway // returns the gateways to ask
	told  func(lost []string)
	noted gateway.Paths
}

func newPaths(f *fabric, a *announcer) *paths {
	return &paths{log: f.options.Log, own: f.options.NodeIP, ask: linux.Ask, asked: f.present, told: a.lost}
}

func (p *paths) run(ctx context.Context) error {
	for sleep.For(ctx, p.pause()) {
		if err := p.round(); errors.Is(err, unix.EPERM) {
			p.log.Warn("the way to gateways can't be watched: the capability NET_RAW is missing", "error", err)
			return nil
		} else if err != nil {
			p.log.Warn("ask the gateways", "error", err)
		}
	}
	return nil
}

func (p *paths) pause() time.Duration {
	if p.noted.Doubtful() {
		return askAgain
	}
	return askInterval + rand.N(askInterval/2)
}

// round sends one request to each gateway, and notes which ones have answered.
func (p *paths) round() error {
	all := p.asked()
	var members []netip.Addr
	for _, g := range all {
		members = append(members, g.PodIP)
	}
	var answered map[netip.Addr]bool
	if len(members) > 0 {
		var err error
		if answered, err = p.ask(p.own, members); err != nil {
			return err
		}
	}
	p.told(p.noted.Note(all, answered))
	return nil
}

// present returns the gateways to which this node has routes now. It leaves out gateways whose pod does
// not exist any more.
func (f *fabric) present() []gateway.Gateway {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.applied {
		return nil
	}
	return slices.Clone(f.reached)
}

// lost notes the names of the gateways that do not answer this node.
func (a *announcer) lost(names []string) {
	a.mu.Lock()
	changed := !slices.Equal(a.unreached, names)
	a.unreached, a.asked = names, true
	a.mu.Unlock()
	if changed {
		a.options.Log.Warn("gateways that this node can't reach over the fabric", "names", names)
		a.wake()
	}
}
