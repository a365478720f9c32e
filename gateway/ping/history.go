package ping

import (
	"sync"
	"time"

	"github.com/liqo-tui/liqo-tui/internal/history"
)

// standstill is the longest time between two notes of the state by a program that runs, because it pings every 2 s. A
// longer time is not recorded: the program can't know what happened in it.
const standstill = 5 * time.Second

// Recorder adds up the state of a peer and its answers in the cells of a [history.Record]. It records from Begin
// until End. Its methods may be called concurrently.
type Recorder struct {
	mu    sync.Mutex
	cells history.Record
	began time.Time // of the recording without a standstill; zero: nothing is recorded
	noted time.Time // when value was noted last; zero: not since Begin
	value Value
}

// Begin begins to record, because this process holds the tunnel now.
func (r *Recorder) Begin(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.began, r.noted = now, time.Time{}
}

// End ends the recording.
func (r *Recorder) End() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.began = time.Time{}
}

// Take returns what was recorded since the last call.
func (r *Recorder) Take() []history.Cell {
	r.mu.Lock()
	defer r.mu.Unlock()
	cells := r.cells.Cells
	r.cells.Cells = nil
	return cells
}

// state notes the state of the peer, which lasts until the next call.
func (r *Recorder) state(now time.Time, value Value) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.began.IsZero() {
		return
	}
	spent := time.Duration(0)
	if !r.noted.IsZero() {
		spent = now.Sub(r.noted)
	}
	if spent > standstill {
		spent, r.began = 0, now
	}
	r.cells.Keep(now) // if the clock was set back, later cells are wrong
	for spent > 0 {   // in one cell or two
		from := now.Add(-spent)
		c := r.cells.At(from)
		part := min(spent, c.Start.Add(history.Step).Sub(from))
		if r.value == Connected {
			c.Add(history.Cell{Up: part})
		} else {
			c.Add(history.Cell{Down: part})
		}
		spent -= part
	}
	r.noted, r.value = now, value
}

// answered notes an answer to the ping that was sent at this time.
func (r *Recorder) answered(sent time.Time, roundTrip time.Duration) {
	r.note(sent, func(c *history.Cell) { c.Answer(roundTrip) })
}

// lost notes that the ping of this time was not answered.
func (r *Recorder) lost(sent time.Time) {
	r.note(sent, func(c *history.Cell) { c.Lost++ })
}

// note notes a ping. It ignores pings of a time when this process did not hold the tunnel, or stood still.
func (r *Recorder) note(sent time.Time, note func(*history.Cell)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.began.IsZero() && !sent.Before(r.began) {
		note(r.cells.At(sent))
	}
}
