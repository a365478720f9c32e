//go:build linux

package linux_test

import (
	"cmp"
	"net"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/liqo-tui/liqo-tui/gateway/linux/linuxtest"
	"github.com/liqo-tui/liqo-tui/gateway/linux/netns"
)

// The figures of the data plane. A ratio compares two values that are measured alternately. A cost is CPU
// time if possible, because the speed of a shared machine changes from minute to minute. The figures are
// benchmarks, so that tests don't run them. Each runs once:
//
//	go test -run '^$' -bench Figure -benchtime 1x ./gateway/linux
//
// build/bench-gateway.sh makes one table of them.

func TestMain(m *testing.M) { linuxtest.Main(m) }

// rounds is the number of times that two values are measured alternately.
const rounds = 10

// row prints a row of the table: the median of the measured values, and their spread. wanted may be empty.
func row(b *testing.B, what, wanted string, measured []float64) {
	b.Helper()
	sorted := slices.Sorted(slices.Values(measured))
	b.ReportMetric(0, "ns/op") // hides the time of all rounds
	b.Logf("| %-69s | %-8s | %9s | %9s | %9s |", what, wanted, number(median(sorted)), number(sorted[0]), number(sorted[len(sorted)-1]))
}

// number formats a value with three significant digits.
func number(v float64) string {
	decimals := 2
	for limit := 10.0; decimals > 0 && v >= limit; limit *= 10 {
		decimals--
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

func median[T cmp.Ordered](sorted []T) T { return sorted[len(sorted)/2] }

// inTurn measures both alternately, after one measurement that does not count, because the first run takes
// longer. The order changes each time, because the second finds other caches.
func inTurn[T any](first, second func() T) (a, b []T) {
	first()
	second()
	a, b = make([]T, rounds), make([]T, rounds)
	for i := range rounds {
		if i%2 == 0 {
			a[i] = first()
			b[i] = second()
		} else {
			b[i] = second()
			a[i] = first()
		}
	}
	return a, b
}

func each[T any](of []T, f func(T) float64) []float64 {
	out := make([]float64, len(of))
	for i, v := range of {
		out[i] = f(v)
	}
	return out
}

func ratios(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] / b[i]
	}
	return out
}

// cost is the CPU time and the duration of a call.
type cost struct{ cpu, wall time.Duration }

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// costOf measures f in a namespace, in the thread that is in that namespace. The kernel's work for a packet
// counts as work of the sender. Earlier garbage is collected before the measurement.
func costOf(b *testing.B, n *netns.Namespace, f func() error) cost {
	b.Helper()
	var c cost
	var err error
	runtime.GC()
	n.Do(func() {
		before, start := clock(unix.CLOCK_THREAD_CPUTIME_ID), time.Now()
		err = f()
		c = cost{clock(unix.CLOCK_THREAD_CPUTIME_ID) - before, time.Since(start)}
	})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

// clock reads one of the clocks of clock_gettime(2).
func clock(id int32) time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(id, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// ofProcess is the clock of a process's CPU time: clock_getcpuclockid(3).
func ofProcess(pid int) int32 { return int32(^pid<<3 | 2) }

// transfer is the result of sending over a TCP connection.
type transfer struct {
	bytes float64
	took  time.Duration
	cpu   time.Duration // of all processes that took part, or only of the tunnel
}

func (t transfer) megabytesPerSecond() float64 { return t.bytes / 1e6 / t.took.Seconds() }
func (t transfer) nanosecondsPerByte() float64 { return float64(t.cpu.Nanoseconds()) / t.bytes }

// send sends for one second over one TCP connection. spent is the CPU time that counts.
func send(b *testing.B, from, to *netns.Namespace, source, address string, spent func() time.Duration) transfer {
	b.Helper()
	const duration = time.Second
	listener := to.Listen(":0")
	defer listener.Close()
	received := make(chan transfer, 1)
	go func() {
		c, err := listener.Accept()
		if err != nil {
			received <- transfer{}
			return
		}
		defer c.Close()
		start, n, chunk := time.Now(), 0, make([]byte, 1<<20)
		for {
			k, err := c.Read(chunk)
			if n += k; err != nil {
				received <- transfer{bytes: float64(n), took: time.Since(start)}
				return
			}
		}
	}()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	var c net.Conn
	var err error
	dialer := net.Dialer{Timeout: 10 * time.Second}
	if source != "" {
		dialer.LocalAddr = &net.TCPAddr{IP: net.ParseIP(source)}
	}
	before := spent()
	from.Do(func() { c, err = dialer.DialContext(b.Context(), "tcp4", net.JoinHostPort(address, port)) })
	if err != nil {
		b.Fatalf("%s to %s: %v", from.Name, address, err)
	}
	chunk := make([]byte, 256<<10)
	for end := time.Now().Add(duration); time.Now().Before(end); {
		if _, err := c.Write(chunk); err != nil {
			b.Fatal(err)
		}
	}
	_ = c.Close()
	t := <-received
	if t.bytes == 0 {
		b.Fatalf("%s to %s: nothing arrived", from.Name, address)
	}
	t.cpu = spent() - before
	return t
}

// ownTime is the CPU time of this process.
func ownTime() time.Duration { return clock(unix.CLOCK_PROCESS_CPUTIME_ID) }
