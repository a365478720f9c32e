package board

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/tui/draw"
)

// column is a value by which rows can be sorted.
type column uint8

// The columns.
const (
	byName column = iota
	ByStatus
	ByLatency
	byThroughput
	byAge
)

func (c column) String() string { return [...]string{"name", "status", "latency", "traffic", "age"}[c] }

// order is the order of the rows. Without Reverse, the worst, the slowest, the busiest,
// or the newest comes first.
type order struct {
	By      column
	Reverse bool
}

// mark returns the sign for the direction of the values. Names from A on, and ages from
// the newest on, go up.
func (o order) mark(t draw.Theme) string {
	up := o.By == byName || o.By == byAge
	return t.Sorted[map[bool]int{false: 0, true: 1}[up != o.Reverse]]
}

// sortKey is the value by which a row was sorted. The row keeps it, so that its place
// can be found again.
type sortKey struct {
	unknown bool // such rows come last, in either direction
	value   float64
}

func (o order) key(p *peering, now time.Time) sortKey {
	switch o.By {
	case ByStatus:
		return sortKey{value: float64(p.State)}
	case ByLatency:
		d := max(p.roundTrip(flows.A, now), p.roundTrip(flows.B, now))
		return sortKey{d == 0, -d.Seconds()}
	case byThroughput:
		r := p.traffic(now)
		return sortKey{!r.Known, -(r.Received + r.Sent)}
	case byAge:
		at := p.created()
		return sortKey{at.IsZero(), -float64(at.Unix())}
	case byName:
	}
	return sortKey{}
}

// compare compares two keys. turned reverses the order, except for unknown values.
func (k sortKey) compare(other sortKey, turned bool) int {
	switch {
	case k.unknown != other.unknown && k.unknown:
		return 1
	case k.unknown != other.unknown:
		return -1
	case turned:
		return cmp.Compare(other.value, k.value)
	}
	return cmp.Compare(k.value, other.value)
}

// compare compares two rows. Rows with equal keys are sorted by name, from A to Z in
// either direction, unless the order is by name.
func (o order) compare(x, y *peering) int {
	if c := x.key.compare(y.key, o.Reverse); c != 0 {
		return c
	}
	if o.By == byName && o.Reverse {
		return compareNames(y, x)
	}
	return compareNames(x, y)
}

func compareNames(x, y *peering) int {
	return cmp.Or(strings.Compare(x.name, y.name), strings.Compare(string(x.ID.low), string(y.ID.low)))
}

// find returns the position of p in the list, or the position at which it would be.
func (b *board) find(p *peering) (int, bool) {
	return slices.BinarySearchFunc(b.List, p, b.Order.compare)
}

// place is a row's key, and its number in the order of names. To sort ten thousand
// places takes a tenth of the time that it takes to sort the rows.
type place struct {
	sortKey
	number int
}

func (b *board) sort() {
	if b.named == nil {
		b.named = slices.SortedFunc(maps.Values(b.Rows), compareNames)
	}
	places := make([]place, 0, len(b.named))
	for i, p := range b.named {
		p.key = b.Order.key(p, b.now)
		if p.show = b.filter.matches(p); p.show {
			places = append(places, place{p.key, i})
		}
	}
	turned := b.Order.By == byName && b.Order.Reverse
	slices.SortFunc(places, func(x, y place) int {
		c := x.compare(y.sortKey, b.Order.Reverse)
		switch {
		case c != 0:
			return c
		case turned:
			return y.number - x.number
		}
		return x.number - y.number
	})
	b.List = b.List[:0]
	for _, at := range places {
		b.List = append(b.List, b.named[at.number])
	}
}

// sortBy sorts by a column. If the rows are already sorted by it, sortBy reverses the
// order.
func (b *board) sortBy(c column) {
	if b.Order.By == c {
		b.Order.Reverse = !b.Order.Reverse
	} else {
		b.Order = order{By: c}
	}
	b.sort()
}

// filter selects the rows that all of its words match.
type filter struct {
	text  string
	words []filterWord
}

type filterWord struct {
	not    bool
	status bool // the word stands for a state, and not for a name
	text   string
}

// parseFilter parses words: a part of a cluster's name, a state, or "status:" with the
// beginning of a state. An exclamation mark before a word excludes what the word
// matches.
func parseFilter(text string) filter {
	f := filter{text: text}
	for word := range strings.FieldsSeq(strings.ToLower(text)) {
		var w filterWord
		word, w.not = strings.CutPrefix(word, "!")
		w.text, w.status = strings.CutPrefix(word, "status:")
		if w.text != "" {
			f.words = append(f.words, w)
		}
	}
	return f
}

// markWords has the words of a filter for classes of states.
var markWords = map[draw.Mark]string{draw.OK: "ok", draw.Warn: "warn", draw.Fail: "fail"}

func (f filter) matches(p *peering) bool {
	for _, w := range f.words {
		state := p.State.String()
		in := markWords[draw.PairMarks[p.State]] == w.text
		if w.status {
			in = in || strings.HasPrefix(state, w.text)
		} else {
			in = in || state == w.text || strings.Contains(p.name, w.text) // cluster IDs have no capital letters
		}
		if in == w.not {
			return false
		}
	}
	return true
}

func (b *board) filterBy(text string) {
	b.filter = parseFilter(text)
	b.sort()
}
