// Package clock measures the difference between a cluster's clock and this machine's.
package clock

import (
	"net/http"
	"sync"
	"time"
)

// Clock measures the difference between the cluster's clock and this machine's clock, by the header Date of
// the API server's answers.
type Clock struct {
	// Notify is called when the difference has changed. It has to be set before the first answer.
	Notify func()

	mu    sync.Mutex
	ahead time.Duration
}

const (
	// clocksApart is the smallest difference that counts. A measurement has an error of up to a second and a
	// half, and the clocks of machines with NTP differ by less.
	clocksApart = 3 * time.Second
	// clockMoves is the smallest change of a difference that counts. After each change that counts,
	// observers observe again.
	clockMoves = 2 * time.Second
)

// Through returns a transport that measures with each answer of next.
func (c *Clock) Through(next http.RoundTripper) http.RoundTripper {
	return timed{clock: c, next: next}
}

type timed struct {
	clock *Clock
	next  http.RoundTripper
}

func (t timed) RoundTrip(request *http.Request) (*http.Response, error) {
	asked := time.Now()
	response, err := t.next.RoundTrip(request)
	if err == nil {
		if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
			t.clock.heard(asked, time.Now(), date)
		}
	}
	return response, err
}

// heard measures with one answer. The API server wrote date, in whole seconds, between asked and answered.
func (c *Clock) heard(asked, answered, date time.Time) {
	// The monotonic reading is removed, because it stops while a machine sleeps.
	asked, answered = asked.Round(0), answered.Round(0)
	took := answered.Sub(asked)
	if took < 0 {
		return
	}
	// The Date may be the time of any moment between request and answer.
	measured := date.Add(time.Second / 2).Sub(asked.Add(took / 2))
	if c.take(measured, took/2) {
		c.Notify()
	}
}

// take reports whether a measurement with this uncertainty changes the difference.
func (c *Clock) take(measured, uncertain time.Duration) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	enough := clockMoves
	if c.ahead == 0 {
		enough = clocksApart
	}
	if (measured - c.ahead).Abs() < enough+uncertain {
		return false
	}
	next := measured.Round(time.Second)
	if next.Abs() < clocksApart {
		next = 0
	}
	news := next != c.ahead
	c.ahead = next
	return news
}

// Difference returns how far the cluster's clock is ahead; 0 if it is close to ours.
func (c *Clock) Difference() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ahead
}
