//go:build linux

package tunnel

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/gateway/ping"
)

// What a standby measures says nothing about the connection: its pings go nowhere.
func TestOnlyTheHolderOfTheTunnelRecords(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	recorder := new(ping.Recorder)
	tunnel := New(Config{Standby: true, Recorder: recorder})
	pinged := make(chan ping.Status, 1000)
	done := make(chan error, 1)
	go func() {
		done <- ping.Run(ctx, ping.Config{
			ListenAddr: netip.MustParseAddrPort("127.0.0.1:0"), PeerAddr: netip.MustParseAddrPort("127.0.0.1:9"), ClusterID: "milan",
			Timing: ping.Timing{Eager: 10 * time.Millisecond}, Recorder: tunnel.config.Recorder, OnChange: func(s ping.Status) { pinged <- s },
		})
	}()
	defer func() {
		cancel()
		if err := <-done; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	}()
	<-pinged
	recorded := func(within time.Duration) bool {
		for deadline := time.Now().Add(within); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			if len(recorder.Take()) > 0 {
				return true
			}
		}
		return false
	}
	const soon, late = 200 * time.Millisecond, 10 * time.Second
	if recorded(soon) {
		t.Error("a standby records")
	}
	for range 2 {
		if err := tunnel.Lead(true); err != nil {
			t.Fatal(err)
		}
		if !recorded(late) {
			t.Error("the holder does not record")
		}
		if err := tunnel.Lead(false); err != nil {
			t.Fatal(err)
		}
		recorder.Take()
		if recorded(soon) {
			t.Error("a process that has left the tunnel records")
		}
	}
	holder := New(Config{Recorder: recorder})
	if holder.config.Recorder != recorder || !recorded(late) {
		t.Error("a process that begins as the holder does not record")
	}
}
