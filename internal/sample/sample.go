// Package sample says how much of an exhaustive test runs, and which part of it.
// `make test` runs a part that its seed picks. The seed is another one for each
// commit, so that everything runs over time. `make test-all` runs everything.
package sample

import (
	"cmp"
	"os"
	"strconv"
	"testing"
)

// All reports whether a test runs everything: TEST_ALL is set.
func All() bool { return os.Getenv("TEST_ALL") != "" }

// Of is how many of all cases, or rounds, a test runs: some, or all.
func Of(some, all int) int {
	if All() {
		return all
	}
	return some
}

// Emulated reports whether the machine is emulated, ten times slower than others.
func Emulated() bool { return os.Getenv("EMULATED") != "" }

// Seed is what picks the part: SEED, and 1 where nothing is said. The test's log
// says how the same part runs again.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("SEED"), "1"), 10, 64)
	if err != nil {
		t.Fatalf("SEED: %v", err)
	}
	t.Logf("the same again: SEED=%d", seed)
	return seed
}
