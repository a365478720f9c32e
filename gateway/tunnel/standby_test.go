//go:build linux

package tunnel_test

import (
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
)

// A standby carries no packets, and reports no problem. When it takes over, it carries packets soon.
func TestStandbyPassesNothingAndTakesOver(t *testing.T) {
	t.Parallel()
	p := newPair(t, linuxtest.TunnelMTU)
	for _, g := range []*linuxtest.Process{p.ofServer, p.ofClient} {
		g.Lead(false)
		linuxtest.WaitFor(t, "standing by", func() bool { return g.Status().Standby })
		stopped := time.Now()
		linuxtest.WaitFor(t, "half a second to be over", func() bool { return time.Since(stopped) > 500*time.Millisecond })
		if n := p.stream.Count(stopped.Add(100 * time.Millisecond)); n > 0 {
			t.Errorf("a standby passed %d packets", n)
		}
		if s := g.Status(); s.Problem != "" {
			t.Errorf("a standby has the problem %q", s.Problem)
		}
		took := time.Now()
		g.Lead(true)
		linuxtest.Bound(t, "a standby took over", p.stream.Gap(took), time.Second)
	}
}
