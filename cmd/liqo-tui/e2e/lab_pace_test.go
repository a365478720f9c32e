package e2e

import (
	"os/exec"
	"slices"
	"testing"
	"time"
)

// usualStart is the duration of `liqo-tui version` on the machines that the tests'
// bounds were measured on.
const usualStart = 30 * time.Millisecond

// slowness is how many times longer this machine takes now to start a program; at
// least 1.
func slowness(t *testing.T) float64 {
	t.Helper()
	var took []time.Duration
	for range 7 {
		began := time.Now()
		if err := exec.CommandContext(t.Context(), "../../../bin/liqo-tui", "version").Run(); err != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return max(1, float64(took[len(took)/2])/float64(usualStart))
}

// atMost fails if something took longer than its bound. On a slow machine, the bound
// is longer by [slowness].
func atMost(t *testing.T, what string, took, bound time.Duration) {
	t.Helper()
	if took <= bound {
		return
	}
	slow := slowness(t)
	if took > time.Duration(slow*float64(bound)) {
		t.Errorf("%s: %s, want %s at most, or, as slow as this machine is, %.1f times that", what, took, bound, slow)
		return
	}
	t.Logf("%s: %s, more than %s; but this machine is %.1f times slower than usual", what, took, bound, slow)
}
