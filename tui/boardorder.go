package tui

import (
	"cmp"
	"strings"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
)

// column is what rows can be sorted by.
type column uint8

const (
	byName column = iota
	byStatus
	byLatency
	byThroughput
	byAge
)

func (c column) String() string { return [...]string{"name", "status", "latency", "traffic", "age"}[c] }

// order is how rows are sorted: by default the worst, the slowest, the busiest,
// the newest first.
type order struct {
	by      column
	reverse bool
}

// sortKey is what a row is sorted by, kept with it so that the row is found
// again where it was put.
type sortKey struct {
	unknown bool // goes last, in either direction
	value   float64
}

func (o order) key(p *peering, now time.Time) sortKey {
	switch o.by {
	case byStatus:
		return sortKey{value: float64(p.state)}
	case byLatency:
		d := max(p.roundTrip(flows.A, now), p.roundTrip(flows.B, now))
		return sortKey{d == 0, -d.Seconds()}
	case byThroughput:
		r := p.traffic(now)
		return sortKey{!r.known, -(r.received + r.sent)}
	case byAge:
		at := p.created()
		return sortKey{at.IsZero(), -float64(at.Unix())}
	case byName:
	}
	return sortKey{}
}

func (o order) compare(x, y *peering) int {
	if x.key.unknown != y.key.unknown {
		if x.key.unknown {
			return 1
		}
		return -1
	}
	c := cmp.Compare(x.key.value, y.key.value)
	if c == 0 {
		c = cmp.Or(strings.Compare(x.name, y.name), strings.Compare(string(x.id.low), string(y.id.low)))
		if o.by != byName {
			return c // names go from A to Z within the same value, either way
		}
	}
	if o.reverse {
		return -c
	}
	return c
}

// sortBy sorts by another column; by the same one, the other way round.
func (b *board) sortBy(c column) {
	if b.order.by == c {
		b.order.reverse = !b.order.reverse
	} else {
		b.order = order{by: c}
	}
	b.sort()
}

// filter lets rows through that all of its words match.
type filter struct {
	text  string
	words []filterWord
}

type filterWord struct {
	not    bool
	status bool // the word is of the status, not of the names
	text   string
}

// parseFilter reads words: text in a cluster's name, status:word, and either of
// them after an exclamation mark to turn it round.
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

// markWords are the kinds of states that status: takes beside the states.
var markWords = map[mark]string{markOK: "ok", markWarn: "warn", markFail: "fail"}

func (f filter) matches(p *peering) bool {
	for _, w := range f.words {
		in := strings.Contains(p.name, w.text) // cluster IDs have no capitals
		if w.status {
			in = strings.HasPrefix(p.state.String(), w.text) || markWords[p.state.mark()] == w.text
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
