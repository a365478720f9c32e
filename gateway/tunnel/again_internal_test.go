//go:build linux

package tunnel

import (
	"testing"
	"time"
)

// A path that was narrow for a time is wide again a minute later.
func TestANarrowPathIsSearchedAgainSoon(t *testing.T) {
	for found, most := range map[int]time.Duration{0: time.Minute, 516: time.Minute, 1280: raiseInterval, 1420: raiseInterval} {
		if m := (meter{found: found, unanswered: 9}); m.again() != most {
			t.Errorf("%d bytes: again after %s, want %s", found, m.again(), most)
		}
	}
}
