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
		0: "0 B", 1023: "1023 B", 1024: "1.00 KiB", 1536: "1.50 KiB", 1 << 20: "1.00 MiB", 1023 * 1024: "1.00 MiB", 10_480_000: "9.99 MiB", 52 << 20: "52.0 MiB", 1<<64 - 1: "16.0 EiB",
	} {
		if got := byteCount(n); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
	}
}

func TestRatesAreReadable(t *testing.T) {
	for v, want := range map[float64]string{0: "0B", 1023: "1023B", 1024: "1.00K", 19149: "18.7K", 2.3 * (1 << 20): "2.30M", 624 << 10: "624K", 1 << 20: "1.00M"} {
		if got := PerSecond(v); got != want {
			t.Errorf("%v: got %s, want %s", v, got, want)
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
