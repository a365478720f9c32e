package agent

import (
	"sync"
	"testing"
)

func TestMemoryOfABurstIsGivenBack(t *testing.T) {
	const burst = 128 << 20
	before := heldByHeap()
	pool := sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}
	var buffers []any
	for range burst / (64 << 10) {
		buffers = append(buffers, pool.Get())
	}
	for _, b := range buffers {
		pool.Put(b)
	}
	clear(buffers)
	if held := heldByHeap(); held < before+burst/2 {
		t.Fatalf("held after the burst: %d MiB, want the burst in it: the test sees nothing", held>>20)
	}
	trim()
	if held := heldByHeap(); held > before+burst/8 {
		t.Errorf("held after trim: %d MiB, want about the %d MiB of before", held>>20, before>>20)
	}
	pool.Put(pool.Get()) // keeps the pool alive until here
}
