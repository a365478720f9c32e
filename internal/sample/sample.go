// Package sample chooses the part of an exhaustive test that runs. `make test`
// runs a part that depends on a seed. Each commit has another seed, so that
// everything runs over time. `make test-all` runs everything.
package sample

import (
	"cmp"
	"os"
	"strconv"
	"testing"
)

// All reports whether a test runs everything: TEST_ALL is set.
func All() bool { return os.Getenv("TEST_ALL") != "" }

// Of returns the number of cases, or rounds, that a test runs: some, or all.
func Of(some, all int) int {
	if All() {
		return all
	}
	return some
}

// Emulated reports whether the machine is emulated, and so ten times slower than others.
func Emulated() bool { return os.Getenv("EMULATED") != "" }

// Seed returns the seed of the part: the value of SEED, or 1. It logs how to run the same part again.
func Seed(t testing.TB) uint64 {
	t.Helper()
	seed, err := strconv.ParseUint(cmp.Or(os.Getenv("SEED"), "1"), 10, 64)
	if err != nil {
		t.Fatalf("SEED: %v", err)
	}
	t.Logf("the same again: SEED=%d", seed)
	return seed
}
