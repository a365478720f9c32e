// Package history has the record of a day that a gateway keeps of its end of a connection. From it, an admin sees what
// happened before the admin's program was opened. The package is pure.
package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	// Span is the time that a Record covers.
	Span = 24 * time.Hour
	// Step is the length of a cell.
	Step = 5 * time.Minute
	// Interval is the shortest time between two writes of a Record. If a gateway's pod is lost, what it has recorded
	// since its last write is unknown.
	Interval = 10 * time.Minute

	version = 1
	// maxText is the largest length of the text of a Record in bytes.
	maxText = 16 << 10
	// maxCells includes the cells in which the span begins and ends.
	maxCells = int(Span/Step) + 1
	// slack is the time by which a cell may be too long because a clock is adjusted a little, and times are rounded.
	slack = 10 * time.Second
)

// Record is what the pods of a gateway have recorded, one after the other.
type Record struct {
	Written time.Time // by the clock of the writer's node; zero: never
	// Cells are sorted by time. If no pod recorded, there is no cell.
	Cells []Cell
}

// Cell is the part of a Record from Start until Step later. Up and Down together are the time in which a pod
// recorded. They may be shorter than Step: the rest is unknown.
type Cell struct {
	Start    time.Time
	Up, Down time.Duration // with the state Connected, and with another state
	// Answered and Lost count pings. Shortest, Mean and Longest are the round trips of the answered pings.
	Answered, Lost          int
	Shortest, Mean, Longest time.Duration
}

// Recorded returns the time in which a pod recorded.
func (c Cell) Recorded() time.Duration { return c.Up + c.Down }

// Whole reports whether a pod recorded all of the cell.
func (c Cell) Whole() bool { return c.Recorded() >= Step-slack }

// Answer adds an answered ping.
func (c *Cell) Answer(roundTrip time.Duration) {
	c.Add(Cell{Answered: 1, Shortest: roundTrip, Mean: roundTrip, Longest: roundTrip})
}

// Add adds later times and pings of the same cell. If both are longer than a cell, the clock was set back, so both
// can't be true: only the later ones stay.
func (c *Cell) Add(o Cell) {
	if c.Recorded()+o.Recorded() > Step+slack {
		*c = Cell{Start: c.Start}
	}
	c.merge(o)
}

func (c *Cell) merge(o Cell) {
	c.Up, c.Down, c.Lost = c.Up+o.Up, c.Down+o.Down, c.Lost+o.Lost
	if o.Answered == 0 {
		return
	}
	if c.Answered == 0 || o.Shortest < c.Shortest {
		c.Shortest = o.Shortest
	}
	c.Longest = max(c.Longest, o.Longest)
	c.Answered += o.Answered
	c.Mean += (o.Mean - c.Mean) * time.Duration(o.Answered) / time.Duration(c.Answered)
}

// At returns the cell of a time. If there is none, At adds an empty cell.
func (r *Record) At(at time.Time) *Cell {
	start := at.UTC().Truncate(Step)
	i, found := slices.BinarySearchFunc(r.Cells, start, func(c Cell, t time.Time) int { return c.Start.Compare(t) })
	if !found {
		r.Cells = slices.Insert(r.Cells, i, Cell{Start: start})
	}
	return &r.Cells[i]
}

// Add adds cells that were recorded later.
func (r *Record) Add(cells []Cell) {
	for _, c := range cells {
		r.At(c.Start).Add(c)
	}
}

// Keep drops cells that ended before the span, and cells in the future: a clock was wrong then.
func (r *Record) Keep(now time.Time) {
	r.Cells = slices.DeleteFunc(r.Cells, func(c Cell) bool {
		return c.Start.After(now) || !c.Start.Add(Step).After(now.Add(-Span))
	})
}

// Sum returns all cells as one, without a start.
func (r Record) Sum() (sum Cell) {
	for _, c := range r.Cells {
		sum.merge(c)
	}
	return sum
}

// Words returns the record as the end of a sentence.
func (r Record) Words() string {
	sum := r.Sum()
	if sum.Recorded() == 0 {
		return "nothing was recorded"
	}
	text := fmt.Sprintf("up %s, down %s, unknown %s", sum.Up.Round(time.Second), sum.Down.Round(time.Second), max(0, Span-sum.Recorded()).Round(time.Second))
	if sum.Answered > 0 {
		text += fmt.Sprintf("; round trip %s on average, %s at most", rounded(sum.Mean), rounded(sum.Longest))
	}
	if pings := sum.Answered + sum.Lost; pings > 0 {
		text += fmt.Sprintf("; %.2g%% of pings lost", 100*float64(sum.Lost)/float64(pings))
	}
	return text
}

// rounded has the digits that matter of a round trip.
func rounded(d time.Duration) time.Duration {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond)
	case d < 10*time.Millisecond:
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}

// document is a Record as JSON. A cell is a row of numbers: its number since From, Up and Down in seconds, Answered,
// Lost, and the round trips in microseconds.
type document struct {
	Version int        `json:"version"`
	Written time.Time  `json:"written"`
	From    time.Time  `json:"from"`
	Cells   [][]uint32 `json:"cells"`
}

const columns = 8

// The largest numbers of a cell. A gateway sends at most 20 pings in a second. With these numbers, a text is never
// longer than maxText.
const (
	mostPings     = 9999
	mostRoundTrip = 9_999_999 * time.Microsecond
)

// Text returns the record at the time now as [Parse] reads it.
func (r *Record) Text(now time.Time) (string, error) {
	r.Keep(now)
	d := document{Version: version, Written: now.UTC(), Cells: [][]uint32{}}
	micros := func(t time.Duration) uint32 { return uint32(min(t, mostRoundTrip).Microseconds()) }
	for _, c := range r.Cells {
		if d.From.IsZero() {
			d.From = c.Start.UTC()
		}
		down := min(c.Down, Step).Round(time.Second)
		up := min(c.Up.Round(time.Second), Step-down)
		d.Cells = append(d.Cells, []uint32{
			uint32(c.Start.Sub(d.From) / Step), uint32(up / time.Second), uint32(down / time.Second),
			uint32(min(c.Answered, mostPings)), uint32(min(c.Lost, mostPings)),
			micros(c.Shortest), micros(c.Mean), micros(c.Longest),
		})
	}
	text, err := json.Marshal(d)
	return string(text), err
}

// errForm does not repeat the text: whoever may write the object can put anything into it.
var errForm = errors.New("it does not have the form that gateways write")

// Parse reads a record. The text "" is a record without cells, because no gateway has written yet. Another version, and
// numbers that no gateway writes, are errors.
func Parse(text string) (Record, error) {
	r, err := parse(text)
	if err != nil {
		return Record{}, fmt.Errorf("parse the recorded history: %w", err)
	}
	return r, nil
}

func parse(text string) (r Record, err error) {
	if text == "" {
		return r, nil
	}
	if len(text) > maxText {
		return r, fmt.Errorf("it has %d bytes, want %d at most", len(text), maxText)
	}
	var d document
	err = json.Unmarshal([]byte(text), &d)
	if d.Version > version { // even if its other fields have another form
		return r, fmt.Errorf("it has version %d, and this program knows version %d", d.Version, version)
	}
	if err != nil || d.Version != version {
		return r, errForm
	}
	if len(d.Cells) > maxCells {
		return r, fmt.Errorf("it has %d cells, want %d at most", len(d.Cells), maxCells)
	}
	r.Written = d.Written
	micros := func(n uint32) time.Duration { return time.Duration(n) * time.Microsecond }
	for i, row := range d.Cells {
		if len(row) != columns || row[0] >= uint32(maxCells) || i > 0 && row[0] <= d.Cells[i-1][0] {
			return r, fmt.Errorf("no gateway writes cell %d", i)
		}
		c := Cell{
			Start: d.From.UTC().Add(time.Duration(row[0]) * Step),
			Up:    time.Duration(row[1]) * time.Second, Down: time.Duration(row[2]) * time.Second,
			Answered: int(row[3]), Lost: int(row[4]),
			Shortest: micros(row[5]), Mean: micros(row[6]), Longest: micros(row[7]),
		}
		if !c.possible() {
			return r, fmt.Errorf("no gateway writes cell %d", i)
		}
		r.Cells = append(r.Cells, c)
	}
	return r, nil
}

func (c Cell) possible() bool {
	return c.Start.Equal(c.Start.Truncate(Step)) && c.Recorded() <= Step && c.Answered <= mostPings && c.Lost <= mostPings &&
		c.Shortest <= c.Mean && c.Mean <= c.Longest && c.Longest <= mostRoundTrip && (c.Answered > 0 || c.Longest == 0)
}
