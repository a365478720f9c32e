package draw

import (
	"fmt"
	"time"
)

// Counted writes a number and a noun, in the plural if needed.
func Counted(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// byteCount writes a count of bytes in at most eight cells.
func byteCount(n uint64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, prefix := float64(n)/unit, 0
	for ; value >= 999.5 && prefix < 5; prefix++ {
		value /= unit
	}
	return fmt.Sprintf("%s %ciB", threeDigits(value), "KMGTPE"[prefix])
}

// threeDigits writes a number below 1000 with three digits, even if they are zero. So
// numbers below each other, or numbers that change, keep their width.
func threeDigits(v float64) string {
	switch {
	case v < 9.995:
		return fmt.Sprintf("%.2f", v)
	case v < 99.95:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.0f", v)
}

// Short writes a duration in at most three cells, in its largest unit.
func Short(d time.Duration) string {
	switch d = max(0, d); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	case d < 1000*24*time.Hour:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
	return fmt.Sprintf("%dy", int(d.Hours()/24/365))
}

// Percent writes a share with its significant digits.
func Percent(share float64) string { return fmt.Sprintf("%.3g%%", share*100) }

// RoundTrip writes a duration with its significant digits.
func RoundTrip(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return fmt.Sprintf("%dus", d.Microseconds())
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1fms", float64(d.Microseconds())/1000)
	}
	return fmt.Sprintf("%dms", d.Milliseconds())
}

// Latency writes a round trip; a dash if it was not measured.
func Latency(d time.Duration) string {
	if d <= 0 {
		return "-"
	}
	return RoundTrip(d)
}

// Seconds writes the duration of some work; if it is short, to a tenth of a second.
func Seconds(d time.Duration) string {
	if d < 10*time.Second {
		return fmt.Sprintf("%.1fs", max(0, d).Seconds())
	}
	return Age(d)
}

// Age writes how long ago something was, in whole units.
func Age(d time.Duration) string {
	switch d = max(0, d); {
	case d < time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", int(d.Minutes()), int(d.Seconds())%60)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// AskedText says how long ago a cluster was asked, if it has not answered yet.
func AskedText(d time.Duration) string {
	if d < time.Second {
		return "asked just now"
	}
	return fmt.Sprintf("asked %s ago", Age(d))
}

// Milliseconds writes a number of milliseconds with its significant digits.
func Milliseconds(v float64) string { return RoundTrip(time.Duration(v * float64(time.Millisecond))) }

// PerSecond writes a rate in at most five cells.
func PerSecond(v float64) string {
	const unit = 1024
	if v < unit {
		return fmt.Sprintf("%.0fB", v)
	}
	prefix := -1
	for ; v >= 999.5 && prefix < 4; prefix++ {
		v /= unit
	}
	return fmt.Sprintf("%s%c", threeDigits(v), "KMGTP"[max(0, prefix)])
}
