// Package clock tells how far a cluster's clock is from this machine's.
package clock

import (
	"net/http"
	"sync"
	"time"
)

// Clock measures how far the cluster's clock is from this machine's, by what the
// API server writes into the Date of its answers.
type Clock struct {
	// Notify is told when the difference is another one. It is set before the first answer.
	Notify func()

	mu    sync.Mutex
	ahead time.Duration
}

const (
	// clocksApart is from where a difference counts. What is measured is up to a
	// second and a half wrong, and clocks that are kept by NTP are closer.
	clocksApart = 3 * time.Second
	// clockMoves is by how much a difference that counts has to change to become
	// another one: observers look again when it does.
	clockMoves = 2 * time.Second
	// slowAnswer is from when on an answer tells too little: anything between
	// question and answer may have been the moment of its Date.
	slowAnswer = 2 * time.Second
)

// Through has c hear all answers that come through next.
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

// heard takes in that the API server wrote date, in whole seconds, into what was
// asked and answered at these times.
func (c *Clock) heard(asked, answered, date time.Time) {
	// Without the monotonic clock, which stands still while a machine sleeps.
	asked, answered = asked.Round(0), answered.Round(0)
	took := answered.Sub(asked)
	if took < 0 || took > slowAnswer {
		return
	}
	measured := date.Add(time.Second / 2).Sub(asked.Add(took / 2))
	if c.take(measured, took/2) {
		c.Notify()
	}
}

// take reports whether what was measured, with that much uncertainty, is news.
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

// Difference is how far the cluster's clock is ahead; 0 if it is close to ours.
func (c *Clock) Difference() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ahead
}
