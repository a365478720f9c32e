package session

import (
	"math"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
)

const (
	// Bucket is the resolution of a series: gateways report every 10 s.
	Bucket = 10 * time.Second
	// SeriesLength is an hour.
	SeriesLength = int(time.Hour / Bucket)
)

// Point is what one end measured in one bucket. 16 bytes, so that the hour of
// a thousand peerings, seen from both sides, is 11 MiB.
type Point struct {
	micros         uint32  // round trip; 0: none was measured
	received, sent float32 // bytes per second; negative: not known
	loss           uint16  // of ten thousand pings
	flags          pointFlags
}

type pointFlags uint8

const (
	sampled    pointFlags = 1 << iota // there was a report in the bucket
	answered                          // the peer answered pings
	unanswered                        // it had answered before, and does no longer
)

// Series is the last hour of one end, in buckets of the admin's clock. A bucket
// without a report stays empty, and is shown as the gap that it is.
type Series struct {
	Last   int64 // number of the latest bucket since 1970
	Points []Point
	next   int // where the ring goes on, once it is full
	latest told
}

// told is which report a point was made of.
type told struct {
	at    time.Time
	value string
}

// BucketOf is the number of the bucket of a time.
func BucketOf(t time.Time) int64 { return t.UnixNano() / int64(Bucket) }

// Add puts a reading into the bucket of now. Of several in one bucket the
// worst counts: an outage of seconds must be seen. A report counts once, at the time at
// which it was taken in first.
func (s *Series) Add(now time.Time, r flows.Reading, traffic Rate) {
	n, report := BucketOf(now), told{r.At, string(r.Value)}
	if !r.At.IsZero() && report == s.latest {
		return
	}
	if len(s.Points) > 0 && n < s.Last {
		if s.Last-n <= int64(ClockStep/Bucket) {
			return // the axis goes on when the clock is there again
		}
		*s = Series{} // the clock was set back: what is kept was measured at times that were not
	}
	before := s.latest.at
	s.latest = report
	next := pointOf(r, traffic)
	if len(s.Points) > 0 && n == s.Last {
		at := s.position(0)
		s.Points[at] = worse(s.Points[at], next)
		return
	}
	gap := n - s.Last - 1
	if len(s.Points) == 0 {
		gap = 0
	}
	var between Point
	if gap == 1 && !r.At.IsZero() && r.At.Sub(before) < 3*Bucket/2 {
		between = next // no report was left out: two that follow each other fell on both sides of a bucket
	}
	for range min(gap, int64(SeriesLength)) {
		s.push(between)
	}
	s.push(next)
	s.Last = n
}

func (s *Series) push(v Point) {
	if len(s.Points) < SeriesLength {
		s.Points = append(s.Points, v)
		return
	}
	s.Points[s.next] = v
	s.next = (s.next + 1) % SeriesLength
}

// position of the sample that is back buckets before the latest.
func (s *Series) position(back int) int {
	return (s.next + len(s.Points) - 1 - back + 2*len(s.Points)) % len(s.Points)
}

// At is the sample of a bucket by its number; empty for what isn't kept.
func (s *Series) At(n int64) Point {
	back := s.Last - n
	if back < 0 || back >= int64(len(s.Points)) {
		return Point{}
	}
	return s.Points[s.position(int(back))]
}

// Until are the latest length points before now, the oldest first.
func (s *Series) Until(now time.Time, length int) []Point {
	all := make([]Point, length)
	n := BucketOf(now)
	for i := range all {
		all[i] = s.At(n - int64(length-1-i))
	}
	return all
}

// Newer reports whether a reading has a measurement that the one before has not.
func Newer(before, after flows.Reading) bool {
	return after.Exists && (after.At.After(before.At) || after.Value != before.Value)
}

func pointOf(r flows.Reading, traffic Rate) Point {
	v := Point{flags: sampled, received: -1, sent: -1, micros: uint32(min(r.Latency.Microseconds(), 1<<32-1))}
	switch state, _ := r.State(r.At); {
	case state.Works():
		v.flags |= answered
	case state == flows.StateDown:
		v.flags |= unanswered
	}
	if share, known := r.Lost(); known {
		v.loss = uint16(min(max(share, 0), 1) * 10_000)
	}
	if traffic.Known {
		v.received, v.sent = float32(traffic.Received), float32(traffic.Sent)
	}
	return v
}

// worse merges two points of one bucket.
func worse(a, b Point) Point {
	if b.flags&answered == 0 {
		a.flags &^= answered
	}
	a.flags |= b.flags & unanswered
	a.micros = max(a.micros, b.micros)
	a.loss = max(a.loss, b.loss)
	a.received, a.sent = max(a.received, b.received), max(a.sent, b.sent)
	return a
}

// RoundTrips are milliseconds; NaN where no ping was answered.
func RoundTrips(points []Point) []float64 {
	return valuesOf(points, func(p Point) (float64, bool) {
		return float64(p.micros) / 1000, p.flags&answered != 0 && p.micros > 0
	})
}

// Lost says in which points pings were lost. Those of a connection that is only beginning
// are not: nobody could have answered them.
func Lost(points []Point) []bool {
	lost := make([]bool, len(points))
	for i, p := range points {
		lost[i] = p.flags&unanswered != 0
	}
	return lost
}

// ReceivedRates are bytes per second; NaN where nobody knows.
func ReceivedRates(points []Point) []float64 {
	return valuesOf(points, func(p Point) (float64, bool) { return float64(p.received), p.flags&sampled != 0 && p.received >= 0 })
}

// SentRates are the same, the other way.
func SentRates(points []Point) []float64 {
	return valuesOf(points, func(p Point) (float64, bool) { return float64(p.sent), p.flags&sampled != 0 && p.sent >= 0 })
}

func valuesOf(points []Point, value func(Point) (float64, bool)) []float64 {
	values := make([]float64, len(points))
	for i, p := range points {
		v, ok := value(p)
		if !ok {
			v = math.NaN()
		}
		values[i] = v
	}
	return values
}

// Rate is the traffic between the latest two reports of a gateway.
type Rate struct {
	Known          bool
	Received, Sent float64 // bytes per second
}

// RateOf is the rate between two readings; not known if the counters started
// again in between, as those of a new tunnel do.
func RateOf(before, after flows.Reading) Rate {
	seconds := after.At.Sub(before.At).Seconds()
	if !before.Reported || !after.Reported || seconds <= 0 || after.Received < before.Received || after.Sent < before.Sent {
		return Rate{}
	}
	return Rate{true, float64(after.Received-before.Received) / seconds, float64(after.Sent-before.Sent) / seconds}
}
