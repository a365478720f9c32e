package session

import (
	"math"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
)

const (
	// Bucket is the resolution of a series: gateways report every 10 s.
	Bucket = 10 * time.Second
	// SeriesLength is the number of buckets in an hour.
	SeriesLength = int(time.Hour / Bucket)
)

// Point is the measurement of one end in one bucket. It has 16 bytes, so an hour of a
// thousand connections, seen from both sides, takes 11 MiB.
type Point struct {
	micros         uint32  // round trip; 0: not measured
	received, sent float32 // bytes per second; negative: unknown
	loss           uint16  // the share of lost pings, in ten thousandths
	flags          pointFlags
}

type pointFlags uint8

const (
	sampled    pointFlags = 1 << iota // the bucket has a report
	answered                          // the peer answered pings
	unanswered                        // the peer had answered before, but does not now
)

// Series has the last hour of one end, in buckets by the admin's clock. A bucket without
// a report stays empty, and is shown as a gap.
type Series struct {
	Last   int64 // number of the latest bucket, counted from 1970
	Points []Point
	next   int // the next position in the ring, when it is full
	latest told
}

// told identifies the report from which a point was made.
type told struct {
	at    time.Time
	value string
}

// BucketOf returns the number of the bucket of a time.
func BucketOf(t time.Time) int64 { return t.UnixNano() / int64(Bucket) }

// Add puts a reading into the bucket of now. Of several readings in one bucket, the worst
// counts, so that even an outage of seconds is visible. Add ignores a report that it has
// already added.
func (s *Series) Add(now time.Time, r flows.Reading, traffic Rate) {
	n, report := BucketOf(now), told{r.At, string(r.Value)}
	if !r.At.IsZero() && report == s.latest {
		return
	}
	if len(s.Points) > 0 && n < s.Last {
		if s.Last-n <= int64(ClockStep/Bucket) {
			return // the series continues when the clock reaches this time again
		}
		*s = Series{} // the clock was set back, so the times of earlier points were wrong
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
		between = next // no report is missing: two successive reports were on both sides of the bucket
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

// position returns the position of the bucket that is back buckets before the latest one.
func (s *Series) position(back int) int {
	return (s.next + len(s.Points) - 1 - back + 2*len(s.Points)) % len(s.Points)
}

// At returns the point in the bucket with number n; an empty point if the series does not
// have it.
func (s *Series) At(n int64) Point {
	back := s.Last - n
	if back < 0 || back >= int64(len(s.Points)) {
		return Point{}
	}
	return s.Points[s.position(int(back))]
}

// Until returns the latest length points before now, the oldest first.
func (s *Series) Until(now time.Time, length int) []Point {
	all := make([]Point, length)
	n := BucketOf(now)
	for i := range all {
		all[i] = s.At(n - int64(length-1-i))
	}
	return all
}

// Newer reports whether the reading after has a measurement that before does not have.
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

// worse merges two points of one bucket into one, with the worse values.
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

// RoundTrips returns milliseconds; NaN if no ping was answered.
func RoundTrips(points []Point) []float64 {
	return valuesOf(points, func(p Point) (float64, bool) {
		return float64(p.micros) / 1000, p.flags&answered != 0 && p.micros > 0
	})
}

// Lost reports for each point whether pings were lost. While a connection begins, no ping
// counts as lost, because nobody could have answered it.
func Lost(points []Point) []bool {
	lost := make([]bool, len(points))
	for i, p := range points {
		lost[i] = p.flags&unanswered != 0
	}
	return lost
}

// ReceivedRates returns bytes per second; NaN if unknown.
func ReceivedRates(points []Point) []float64 {
	return valuesOf(points, func(p Point) (float64, bool) { return float64(p.received), p.flags&sampled != 0 && p.received >= 0 })
}

// SentRates does the same for the other direction.
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

// Rate is the traffic between the last two reports of a gateway.
type Rate struct {
	Known          bool
	Received, Sent float64 // bytes per second
}

// RateOf returns the rate between two readings. It is unknown if the counters started
// again meanwhile, because the tunnel is new.
func RateOf(before, after flows.Reading) Rate {
	seconds := after.At.Sub(before.At).Seconds()
	if !before.Reported || !after.Reported || seconds <= 0 || after.Received < before.Received || after.Sent < before.Sent {
		return Rate{}
	}
	return Rate{true, float64(after.Received-before.Received) / seconds, float64(after.Sent-before.Sent) / seconds}
}
