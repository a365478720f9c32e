package pathmtu

import "slices"

// plateaus are outer packet sizes at which paths end, in bytes: Ethernet, less the overhead of PPPoE, tunnels
// and clouds, after the table of RFC 1191, section 7.1. Clouds have 9001 (AWS), 8896 (Google), and 8500
// between networks. Pod networks need 50 bytes of these sizes.
var plateaus = []int{9001, 9000, 8951, 8896, 8846, 8500, 8450, 8000, 4352, 2002, 1500, 1492, 1480, 1460, 1450, 1440, 1420, 1400, 1380, 1360, 1340, 1320, 1300, 1280, 1260, 1200, 1100, 1006, 800, 700, 636}

// refine is the number of sizes in the second burst of a search, between the largest size that passed and the
// smallest that did not. The first burst has one question for each plateau.
const refine = 16

// search finds the largest packet that passes a path, from the questions that are
// answered. All questions of a round leave at once. So a search takes two
// waits for answers, whatever the size. A search by halves would take ten.
type search struct {
	overhead int // of the tunnel
	passed   int // the largest size that passed; 0: none
	failed   int // the smallest larger size that did not pass
	round    int
}

// newSearch begins a search for a packet of at most upper bytes inside a tunnel that adds overhead.
func newSearch(upper, overhead int) *search {
	return &search{overhead: overhead, failed: upper + 1}
}

// sizes returns the questions of the next round, the largest first; none when the search is over.
func (s *search) sizes() []int {
	s.round++
	var sizes []int
	switch s.round {
	case 1:
		// Most paths carry the largest size.
		return []int{s.failed - 1}
	case 2:
		for _, p := range plateaus {
			if size := p - s.overhead; size > s.passed && size < s.failed {
				sizes = append(sizes, size)
			}
		}
	case 3:
		gap := s.failed - s.passed
		if s.passed == 0 || gap <= 1 {
			return nil
		}
		step := max(1, (gap+refine-1)/refine)
		for size := s.passed + step; size < s.failed; size += step {
			sizes = append(sizes, size)
		}
		slices.Reverse(sizes)
	}
	return sizes
}

// answered notes which sizes of a round were answered. A lost smaller question proves nothing if a larger one
// passed.
func (s *search) answered(sent []int, answered func(size int) bool) {
	for _, size := range sent {
		if answered(size) {
			s.passed = max(s.passed, size)
		}
	}
	for _, size := range sent {
		if size > s.passed {
			s.failed = min(s.failed, size)
		}
	}
	if s.passed == s.failed-1 {
		s.round = 3 // nothing is left to find
	}
}
