package gateway

import (
	"fmt"
	"net/netip"
	"runtime"
	"syscall"
	"testing"
)

// manyNodes returns the inputs of a gateway in a cluster with 5,000 nodes.
func manyNodes() Inputs {
	in := serverInputs()
	in.Local.Pod = []netip.Prefix{netip.MustParsePrefix("10.128.0.0/9")}
	in.Nodes = nil
	for i := range 5000 {
		n := Node{Name: fmt.Sprintf("node-%d", i), IP: netip.AddrFrom4([4]byte{172, 16, byte(i >> 8), byte(i)}), MTU: 1500, Revision: uint64(i)}
		n.Addresses = []netip.Addr{n.IP}
		n.Pods = []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 128 + byte(i>>8), byte(i)}), 24)}
		in.Nodes = append(in.Nodes, n)
	}
	return in
}

// One of 5,000 nodes has written its report. The benchmark measures the gateway's computation in CPU time,
// without the kernel's work.
func BenchmarkNodeOfMany(b *testing.B) {
	in := manyNodes()
	before := cpu()
	for b.Loop() {
		fit, _ := in.Fitting()
		if _, err := Compute(fit); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric((cpu()-before)/float64(b.N), "cpu-ms/op")
}

// The garbage of a computation costs as much CPU time as the computation itself.
func TestANodeOfManyMakesLittleGarbage(t *testing.T) {
	in := manyNodes()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	fit, _ := in.Fitting()
	if _, err := Compute(fit); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 6<<20 {
		t.Errorf("got %d bytes, want at most 6 MiB", got)
	}
}

// cpu is the CPU time of this process, in milliseconds.
func cpu() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // it never fails for the process itself
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e6
}

// Gateways that fit are not tested again.
func TestFittingOfFittingIsTheSame(t *testing.T) {
	in := serverInputs()
	in.Nodes = append(in.Nodes, Node{Name: "no address"})
	fit, unfit := in.Fitting()
	again, more := fit.Fitting()
	if len(unfit) == 0 || len(more) > 0 || len(again.Nodes) != len(fit.Nodes) {
		t.Errorf("got %v and %d nodes, then %v and %d", unfit, len(fit.Nodes), more, len(again.Nodes))
	}
	a, err := Compute(in)
	b, errFit := Compute(fit)
	if err != nil || errFit != nil || !a.Equal(b) {
		t.Errorf("the states differ: %v, %v", err, errFit)
	}
}
