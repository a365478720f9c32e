package pathmtu

import (
	"math/rand/v2"
	"testing"
)

// runSearch searches a path that carries inner packets of up to limit bytes.
func runSearch(limit, upper int, lost func(size int) bool) (found, rounds, questions int) {
	s := newSearch(upper, 60)
	for {
		sizes := s.sizes()
		if len(sizes) == 0 {
			return s.passed, rounds, questions
		}
		rounds, questions = rounds+1, questions+len(sizes)
		s.answered(sizes, func(size int) bool { return size <= limit && !lost(size) })
	}
}

func never(int) bool { return false }

func TestSearchFindsWhatAPathCarries(t *testing.T) {
	for _, c := range []struct {
		name                 string
		limit, upper         int
		atLeast, most, count int
	}{
		{"all that the device does", 1440, 1440, 1440, 1, 1},
		{"a common tunnel on the way", 1340, 1440, 1340, 3, 30},
		{"between two plateaus", 1333, 1440, 1330, 3, 40},
		{"jumbo frames that end", 1440, 8940, 1440, 3, 50},
		{"jumbo frames of a cloud between networks", 8440, 8941, 8440, 3, 50},
		{"hardly anything", 577, 1440, 576, 3, 45},
		{"nothing", 0, 1440, 0, 3, 30},
	} {
		found, rounds, questions := runSearch(c.limit, c.upper, never)
		if found < c.atLeast || found > c.limit {
			t.Errorf("%s: found %d, want %d to %d", c.name, found, c.atLeast, c.limit)
		}
		if rounds > c.most || questions > c.count {
			t.Errorf("%s: %d rounds and %d questions, want at most %d and %d", c.name, rounds, questions, c.most, c.count)
		}
	}
}

// A lost question makes the result smaller, and never too large: packets of the found size pass.
func TestSearchNeverFindsTooMuch(t *testing.T) {
	for range 2000 {
		limit, upper := 500+rand.IntN(9000), 600+rand.IntN(9000)
		found, _, _ := runSearch(limit, upper, func(int) bool { return rand.IntN(4) == 0 })
		if found > min(limit, upper) {
			t.Fatalf("path of %d, at most %d: found %d", limit, upper, found)
		}
		if found, _, _ := runSearch(limit, upper, never); limit >= 576 && found < min(limit, upper)*9/10 {
			t.Fatalf("path of %d, at most %d: found only %d", limit, upper, found)
		}
	}
}
