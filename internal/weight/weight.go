// Package weight makes a program that imports it measure its own memory, if the environment names a folder
// for the results. Memory that is measured from outside does not show the growth of a program, because it
// includes garbage that is not returned yet.
package weight

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"time"
)

// Env is the environment variable with the folder.
const Env = "LIQO_TUI_SOAK"

const (
	interval = 10 * time.Second
	// profileEvery is the number of intervals between two profiles of the heap.
	profileEvery = 30
	// profileRate is fine enough to find the origin of half a megabyte.
	profileRate = 16 << 10 // bytes
)

// Weight is the memory in use by a program. It is one line of JSON in the file "heap".
type Weight struct {
	At         time.Time
	Live       uint64 // bytes of the heap that are still reachable
	Goroutines int
}

func (w Weight) String() string {
	return fmt.Sprintf("%.2f MiB live, %d goroutines", float64(w.Live)/(1<<20), w.Goroutines)
}

var _ = weighed(os.Getenv(Env))

func weighed(folder string) bool {
	if folder == "" {
		return false
	}
	runtime.MemProfileRate = profileRate
	go func() {
		for n := 0; ; n++ {
			if err := weigh(folder, n); err != nil {
				panic(err)
			}
			time.Sleep(interval)
		}
	}()
	return true
}

func weigh(folder string, n int) error {
	// The first collection leaves objects in pools, and objects with finalizers. So there are two.
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	line, err := json.Marshal(Weight{time.Now(), m.HeapAlloc, runtime.NumGoroutine()})
	if err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(folder, "heap"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	if _, err := fmt.Fprintf(log, "%s\n", line); err != nil || n%profileEvery != 0 {
		return err
	}
	profile, err := os.Create(filepath.Join(folder, fmt.Sprintf("heap-%03d.pprof", n/profileEvery)))
	if err != nil {
		return err
	}
	defer profile.Close()
	return pprof.WriteHeapProfile(profile)
}
