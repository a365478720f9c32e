package agent

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/liqo-tui/liqo-tui/gateway/tunnel"
)

// Userspace WireGuard has a buffer of 64 KiB for each packet in flight, and keeps it for the
// next packet: it held 300 MiB after 2 GiB of traffic in a measurement. Go's runtime needs
// minutes to return them. A gateway that is quiet again needs 16 MiB.
const (
	trimInterval = 5 * time.Second
	// quiet is the most traffic, in bytes per interval, at which memory is returned: with
	// more, WireGuard would only take the buffers again.
	quiet = 5 << 20
	// worthwhile is the least memory, in bytes, for which returning is worth it.
	worthwhile = 32 << 20
)

// trimMemory returns the memory of a burst of traffic to the machine when the burst is
// over. traffic returns the number of bytes that have passed so far.
func trimMemory(ctx context.Context, traffic func() uint64) error {
	timer := time.NewTimer(tunnel.UntilBeat(trimInterval))
	defer timer.Stop()
	last := traffic()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			timer.Reset(tunnel.UntilBeat(trimInterval))
		}
		now := traffic()
		if now-last < quiet && heldByHeap() > worthwhile {
			trim()
		}
		last = now
	}
}

// trim runs the garbage collector twice: objects in a sync.Pool survive the first run.
func trim() {
	runtime.GC()
	debug.FreeOSMemory()
}

// heldByHeap is the memory, in bytes, that the heap keeps from the machine, used or unused.
func heldByHeap() uint64 {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/unused:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
	}
	metrics.Read(samples)
	var held uint64
	for _, s := range samples {
		if s.Value.Kind() == metrics.KindUint64 {
			held += s.Value.Uint64()
		}
	}
	return held
}
