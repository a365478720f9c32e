package draw

import (
	"testing"
	"time"
)

func TestDurationsAreReadable(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "0.0s", 0: "0.0s", 1249 * time.Millisecond: "1.2s", 59*time.Second + 900*time.Millisecond: "59s",
		61 * time.Second: "1m01s", 3*time.Hour + 5*time.Minute: "3h05m", 72 * time.Hour: "3d",
	} {
		if got := Seconds(d); got != want {
			t.Errorf("%v: got %s, want %s", d, got, want)
		}
	}
}

func TestBytesAreReadable(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0 B", 1023: "1023 B", 1024: "1 KiB", 1536: "1.5 KiB", 1 << 20: "1 MiB", 1023 * 1024: "0.999 MiB", 1<<64 - 1: "16 EiB",
	} {
		if got := byteCount(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

func TestRoundTripsAreReadable(t *testing.T) {
	for d, want := range map[time.Duration]string{
		340 * time.Microsecond: "340us", 1250 * time.Microsecond: "1.2ms", 148 * time.Millisecond: "148ms", 2 * time.Second: "2000ms",
	} {
		if got := RoundTrip(d); got != want {
			t.Errorf("%s: got %s, want %s", d, got, want)
		}
	}
}
