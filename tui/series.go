package tui

import (
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
)

const (
	// bucket is the resolution of a series: gateways report every 10 s.
	bucket = 10 * time.Second
	// seriesLength is an hour.
	seriesLength = int(time.Hour / bucket)
)

// point is what one end measured in one bucket. 16 bytes, so that the hour of
// a thousand peerings, seen from both sides, is 11 MiB.
type point struct {
	micros         uint32  // round trip; 0: none was measured
	received, sent float32 // bytes per second; negative: not known
	loss           uint16  // of ten thousand pings
	flags          pointFlags
}

type pointFlags uint8

const (
	sampled  pointFlags = 1 << iota // there was a report in the bucket
	answered                        // the peer answered pings
)

// series is the last hour of one end, in buckets of the admin's clock. A bucket
// without a report stays empty, and is shown as the gap that it is.
type series struct {
	last   int64 // number of the latest bucket since 1970
	points []point
	next   int // where the ring goes on, once it is full
}

func bucketOf(t time.Time) int64 { return t.UnixNano() / int64(bucket) }

// add puts a reading into the bucket of now. Of several in one bucket the
// worst counts: an outage of seconds must be seen.
func (s *series) add(now time.Time, r flows.Reading, traffic rate) {
	n := bucketOf(now)
	if len(s.points) > 0 && n < s.last {
		if s.last-n <= int64(clockStep/bucket) {
			return // the axis goes on when the clock is there again
		}
		*s = series{} // the clock was set back: what is kept was measured at times that were not
	}
	next := pointOf(r, traffic)
	if len(s.points) > 0 && n == s.last {
		at := s.position(0)
		s.points[at] = worse(s.points[at], next)
		return
	}
	gap := n - s.last - 1
	if len(s.points) == 0 {
		gap = 0
	}
	for range min(gap, int64(seriesLength)) {
		s.push(point{})
	}
	s.push(next)
	s.last = n
}

func (s *series) push(v point) {
	if len(s.points) < seriesLength {
		s.points = append(s.points, v)
		return
	}
	s.points[s.next] = v
	s.next = (s.next + 1) % seriesLength
}

// position of the sample that is back buckets before the latest.
func (s *series) position(back int) int {
	return (s.next + len(s.points) - 1 - back + 2*len(s.points)) % len(s.points)
}

// at is the sample of a bucket by its number; empty for what isn't kept.
func (s *series) at(n int64) point {
	back := s.last - n
	if back < 0 || back >= int64(len(s.points)) {
		return point{}
	}
	return s.points[s.position(int(back))]
}

// until are the latest length points before now, the oldest first.
func (s *series) until(now time.Time, length int) []point {
	all := make([]point, length)
	n := bucketOf(now)
	for i := range all {
		all[i] = s.at(n - int64(length-1-i))
	}
	return all
}

// newer reports whether a reading has a measurement that the one before has not.
func newer(before, after flows.Reading) bool {
	return after.Exists && (after.At.After(before.At) || after.Value != before.Value)
}

func pointOf(r flows.Reading, traffic rate) point {
	v := point{flags: sampled, received: -1, sent: -1, micros: uint32(min(r.Latency.Microseconds(), 1<<32-1))}
	if state, _ := r.State(r.At); state == flows.StateConnected || state == flows.StateDegraded {
		v.flags |= answered
	}
	if r.Reported {
		v.loss = uint16(min(max(r.Loss, 0), 1) * 10_000)
	}
	if traffic.known {
		v.received, v.sent = float32(traffic.received), float32(traffic.sent)
	}
	return v
}

// worse merges two points of one bucket.
func worse(a, b point) point {
	if b.flags&answered == 0 {
		a.flags &^= answered
	}
	a.micros = max(a.micros, b.micros)
	a.loss = max(a.loss, b.loss)
	a.received, a.sent = max(a.received, b.received), max(a.sent, b.sent)
	return a
}
