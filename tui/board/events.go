package board

import (
	"fmt"
	"slices"
	"time"

	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/tui/draw"
)

// EventsKept is the largest number of events in the log.
const EventsKept = 2000

type eventKind uint8

const (
	eventState   eventKind = iota // the state of a connection changed
	eventGone                     // all objects of a connection are gone
	eventWarning                  // a warning of Kubernetes about an object
)

type event struct {
	at   time.Time
	id   pairID // of the connection
	kind eventKind
	was  view.PairState
	is   view.PairState // for eventState
	text string

	// The fields of a warning: the cluster, the object, and how often the
	// warning was given.
	cluster        wire.ClusterID
	object, reason string
	count          int
}

// repeats reports whether e is the same warning as f.
func (e event) repeats(f event) bool {
	return e.kind == eventWarning && f.kind == eventWarning && e.cluster == f.cluster &&
		e.object == f.object && e.reason == f.reason && e.text == f.text
}

// line returns the event as text, without its time.
func (e event) line(t draw.Theme, names string) string {
	switch e.kind {
	case eventGone:
		return fmt.Sprintf("%s %s: nothing is left of it (was %s)", t.Glyphs[draw.Pending], names, e.was)
	case eventWarning:
		_, _, why := e.row()
		return t.Glyphs[draw.Warn] + " " + why
	case eventState:
	}
	text := fmt.Sprintf("%s %s: %s (was %s)", t.Glyphs[draw.PairMarks[e.is]], names, e.is, e.was)
	if e.text != "" {
		text += ": " + e.text
	}
	return text
}

// row returns the state in which the event left its subject, and what the event says of it.
func (e event) row() (mark draw.Mark, word, why string) {
	switch e.kind {
	case eventGone:
		return draw.Pending, "removed", "nothing is left of it"
	case eventWarning:
		why = fmt.Sprintf("%s: %s: %s: %s", e.cluster, e.object, e.reason, e.text)
		if e.count > 1 {
			why += fmt.Sprintf(" (%d times)", e.count)
		}
		return draw.Warn, "warning", why
	case eventState:
	}
	return draw.PairMarks[e.is], e.is.String(), e.text
}

// eventLog has the latest events, the oldest first.
type eventLog struct {
	Events []event
	next   int // the next position in the ring, when it is full
	Total  int // counts all events, also those that were dropped
}

func (l *eventLog) add(e event) {
	l.Total++
	if len(l.Events) < EventsKept {
		l.Events = append(l.Events, e)
		return
	}
	l.Events[l.next] = e
	l.next = (l.next + 1) % EventsKept
}

// put adds a warning. If the log already has the warning, put counts it.
func (l *eventLog) put(e event) {
	for i := range l.Events {
		if l.Events[i].repeats(e) {
			l.Events[i].at, l.Events[i].count = e.at, e.count
			return
		}
	}
	l.add(e)
}

// recentEvents is the number of events among which [eventLog.recent] looks. Each frame does so.
const recentEvents = 64

// recent returns the events that were added last, the oldest first.
func (l *eventLog) recent() []event {
	return l.from(len(l.Events)-recentEvents, func(event) bool { return true })
}

func (l *eventLog) all(keep func(event) bool) []event { return l.from(0, keep) }

// from returns the events from a position on, the oldest first.
func (l *eventLog) from(first int, keep func(event) bool) []event {
	var all []event
	for i := max(0, first); i < len(l.Events); i++ {
		e := l.Events[(l.next+i)%len(l.Events)]
		if keep(e) {
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b event) int { return a.at.Compare(b.at) }) // warnings are reported late
	return all
}

// latest returns the last event; ok is false if there are none.
func (l *eventLog) latest() (e event, ok bool) {
	if len(l.Events) == 0 {
		return event{}, false
	}
	return l.Events[(l.next+len(l.Events)-1)%len(l.Events)], true
}
