package agent

import (
	"context"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"

	"github.com/liqo-tui/liqo-tui/gateway/tunnel"
)

// Userspace WireGuard keeps a buffer of 64 KiB for each packet in flight, for
// the next one: measured, 300 MiB after 2 GiB of traffic, and Go's runtime gives
// them back over minutes. A gateway that is quiet again needs 16 MiB.
const (
	trimInterval = 5 * time.Second
	// quiet is below what would only take the buffers again, in bytes per interval.
	quiet = 5 << 20
	// worthwhile is how much has to be held, in bytes.
	worthwhile = 32 << 20
)

// trimMemory gives the memory of a burst back to the machine when it is over.
// traffic is how many bytes have passed so far.
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

// trim collects twice: what lies in a sync.Pool survives the first time.
func trim() {
	runtime.GC()
	debug.FreeOSMemory()
}

// heldByHeap is the memory of the heap that the machine can't use otherwise,
// used or not, in bytes.
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
