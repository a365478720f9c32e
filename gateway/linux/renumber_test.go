//go:build linux

package linux_test

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
	"github.com/liqo-tui/liqo-tui/gateway/linux/netns"
	"github.com/liqo-tui/liqo-tui/internal/sample"
)

// The operator changes the range under which cluster a sees b: nodes and gateway learn the new range, then
// new flows use it, and then the old range is removed. While the old range exists, no flow is interrupted and
// no new connection fails.
func TestPacketsFlowWhileAPeerIsRenumbered(t *testing.T) {
	a, b := linuxtest.NewPair(t)
	podA, podB := a.Pod(1, "podA", "10.244.2.2"), b.Pod(1, "podB", "10.244.2.2")
	podA.Whoami(":8080")
	podB.Whoami(":8080")
	before, after := a.Remapped, a.Remapped
	after.Pod = linuxtest.Prefixes("240.5.0.0/16")
	linuxtest.Echo(podA)
	linuxtest.Echo(podB)
	there := newFlow(t, podA, podIn(before))
	back := newFlow(t, podB, seenAs(b))
	defer there.stop()
	defer back.stop()

	real := linuxtest.Local().Pod[0]
	in := a.Inputs(b)
	move := func(nodes []netip.Prefix, seen gateway.CIDRs, also ...gateway.Alias) {
		t.Helper()
		in.Peers[0].Remapped, in.Peers[0].Also = seen, also
		// The gateway and the node learn the range at different times, in any order.
		gatewayFirst := len(also) > 0
		if gatewayFirst {
			a.SyncTo(a.Gateway, a.GatewayKernel, a.State(in))
		}
		a.Remapped = gateway.CIDRs{Pod: nodes, External: seen.External}
		a.SyncNodes()
		if !gatewayFirst {
			a.SyncTo(a.Gateway, a.GatewayKernel, a.State(in))
		}
	}
	both := []gateway.Alias{{Seen: before.Pod[0], Real: real}, {Seen: after.Pod[0], Real: real}}
	ranges := []netip.Prefix{before.Pod[0], after.Pod[0]}

	move(ranges, before, both...)
	linuxtest.ExpectFrom(t, podA, podIn(before), "podB sees "+seenAs(b))
	linuxtest.ExpectFrom(t, podA, podIn(after), "podB sees "+seenAs(b))
	linuxtest.ExpectFrom(t, podB, seenAs(b), "podA sees "+podIn(before))

	move(ranges, after, both...)
	linuxtest.ExpectFrom(t, podA, podIn(before), "podB sees "+seenAs(b))
	linuxtest.ExpectFrom(t, podA, podIn(after), "podB sees "+seenAs(b))
	linuxtest.ExpectFrom(t, podB, seenAs(b), "podA sees "+podIn(after))
	there.uninterrupted("from a to b, under the old range")
	back.uninterrupted("from b to a, begun under the old range")
	late := newFlow(t, podA, podIn(after))
	defer late.stop()

	move(after.Pod, after)
	linuxtest.ExpectFrom(t, podA, podIn(after), "podB sees "+seenAs(b))
	late.uninterrupted("from a to b, under the new range")
	if n := there.answeredNow(); n > 0 {
		t.Errorf("%d packets were answered under a range that is gone", n)
	}
}

// seenAs returns the address at which a cluster sees the other cluster's pod 10.244.2.2.
func seenAs(c *linuxtest.Cluster) string { return podIn(c.Remapped) }

func podIn(seen gateway.CIDRs) string {
	p := seen.Pod[0].Addr().As4()
	return netip.AddrFrom4([4]byte{p[0], p[1], 2, 2}).String()
}

// flow sends numbered packets to an Echo all the time, from one port, and records the answers.
type flow struct {
	t      *testing.T
	socket *net.UDPConn
	sent   atomic.Uint32

	mu       sync.Mutex
	answered map[uint32]bool
}

const flowInterval = 2 * time.Millisecond

func newFlow(t *testing.T, from *netns.Namespace, to string) *flow {
	t.Helper()
	f := &flow{t: t, socket: from.ListenUDP("0.0.0.0:0"), answered: map[uint32]bool{}}
	peer := netip.AddrPortFrom(netip.MustParseAddr(to), 7777)
	go func() {
		for {
			n := f.sent.Add(1)
			if _, err := f.socket.WriteToUDPAddrPort(binary.BigEndian.AppendUint32(nil, n), peer); err != nil {
				return
			}
			time.Sleep(flowInterval)
		}
	}()
	go func() {
		buffer := make([]byte, 64)
		for {
			n, from, err := f.socket.ReadFromUDPAddrPort(buffer)
			if err != nil {
				return
			}
			if n == 4 && from == peer {
				f.mu.Lock()
				f.answered[binary.BigEndian.Uint32(buffer)] = true
				f.mu.Unlock()
			}
		}
	}()
	linuxtest.WaitFor(t, "answer from "+to, func() bool { return len(f.missing(1)) == 0 })
	return f
}

func (f *flow) stop() { _ = f.socket.Close() }

// missing returns the numbers of the first n packets that were not answered.
func (f *flow) missing(n uint32) []uint32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []uint32
	for i := uint32(1); i <= n; i++ {
		if !f.answered[i] {
			out = append(out, i)
		}
	}
	return out
}

// maxLost is the number of packets that a flow may miss, at one packet every 2 ms. Packets were missed only
// in an emulated machine with Linux 6.1: once 1 of 394, and, when the machine was busy, 7 in a row and 45 of
// 1,537. The cause is not known. An interrupted flow misses hundreds.
func maxLost() int {
	if sample.Emulated() {
		return 100
	}
	return 20
}

// uninterrupted fails if packets of the time before the call are never answered.
func (f *flow) uninterrupted(what string) {
	f.t.Helper()
	n := f.sent.Load()
	deadline := time.Now().Add(5 * time.Second)
	for len(f.missing(n)) > 0 && time.Now().Before(deadline) {
		time.Sleep(flowInterval)
	}
	if lost := f.missing(n); len(lost) > maxLost() {
		f.t.Errorf("%s: %d of %d packets were lost: %v", what, len(lost), n, lost[:min(len(lost), 20)])
	}
}

// answeredNow counts the answers to packets that are sent shortly after the call.
func (f *flow) answeredNow() int {
	first := f.sent.Load() + 2 // one may be on its way
	time.Sleep(100 * flowInterval)
	last := f.sent.Load()
	return int(last-first) + 1 - len(slices.DeleteFunc(f.missing(last), func(i uint32) bool { return i < first }))
}
