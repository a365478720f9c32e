//go:build linux

package linux_test

import (
	"context"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
)

func TestChangesOfTheNetworkAreToldApartFromOurs(t *testing.T) {
	a, b := linuxtest.NewPair(t)
	n := a.Gateway
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var signals <-chan struct{}
	var err error
	n.Do(func() { signals, err = linux.WatchWays(ctx) })
	if err != nil {
		t.Fatal(err)
	}
	for what, commands := range map[string][]string{
		"an address": {"ip addr add 192.0.2.77/32 dev eth0", "ip addr del 192.0.2.77/32 dev eth0"},
		"a route":    {"ip route add 192.0.2.128/25 dev eth0", "ip route del 192.0.2.128/25 dev eth0"},
	} {
		for _, c := range commands {
			n.Script(c)
			select {
			case <-signals:
			case <-time.After(5 * time.Second):
				t.Errorf("%s: no signal after %s", what, c)
			}
		}
	}
	for drained := false; !drained; { // one command may cause two signals
		select {
		case <-signals:
		case <-time.After(500 * time.Millisecond):
			drained = true
		}
	}
	// All of our objects, also devices, are removed and come back.
	n.Do(func() { err = a.GatewayKernel.Remove() })
	if err != nil {
		t.Fatal(err)
	}
	a.SyncTo(n, a.GatewayKernel, a.State(a.Inputs(b)))
	select {
	case <-signals:
		t.Error("a signal of our own changes")
	case <-time.After(500 * time.Millisecond):
	}
}
