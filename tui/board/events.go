package board

import (
	"fmt"
	"slices"
	"time"

	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/tui/draw"
)

// EventsKept is how many events the log remembers.
const EventsKept = 2000

type eventKind uint8

const (
	eventState   eventKind = iota // a peering's state changed
	eventGone                     // nothing is left of a peering
	eventWarning                  // of Kubernetes' about an object
)

// event is one line of the log.
type event struct {
	at   time.Time
	id   pairID // of the peering
	kind eventKind
	was  view.PairState
	is   view.PairState // of eventState
	text string

	// Of a warning: whose it is, about what, and how often it was given.
	cluster        wire.ClusterID
	object, reason string
	count          int
}

// repeats reports whether e is the same warning as f, given again.
func (e event) repeats(f event) bool {
	return e.kind == eventWarning && f.kind == eventWarning && e.cluster == f.cluster &&
		e.object == f.object && e.reason == f.reason && e.text == f.text
}

// line is the event as text, without its time.
func (e event) line(t draw.Theme, names string) string {
	switch e.kind {
	case eventGone:
		return fmt.Sprintf("%s %s: nothing is left of it (was %s)", t.Glyphs[draw.Pending], names, e.was)
	case eventWarning:
		text := fmt.Sprintf("%s %s: %s: %s: %s", t.Glyphs[draw.Warn], e.cluster, e.object, e.reason, e.text)
		if e.count > 1 {
			text += fmt.Sprintf(" (%d times)", e.count)
		}
		return text
	case eventState:
	}
	return fmt.Sprintf("%s %s: %s (was %s): %s", t.Glyphs[draw.PairMarks[e.is]], names, e.is, e.was, e.text)
}

// eventLog is the latest events, the oldest first.
type eventLog struct {
	Events []event
	next   int // where the ring goes on, once it is full
	Total  int // that there ever were
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

// put adds a warning, or counts it where it is already.
func (l *eventLog) put(e event) {
	for i := range l.Events {
		if l.Events[i].repeats(e) {
			l.Events[i].at, l.Events[i].count = e.at, e.count
			return
		}
	}
	l.add(e)
}

// all are the events that keep wants, the oldest first.
func (l *eventLog) all(keep func(event) bool) []event {
	var all []event
	for i := range l.Events {
		e := l.Events[(l.next+i)%len(l.Events)]
		if keep(e) {
			all = append(all, e)
		}
	}
	slices.SortStableFunc(all, func(a, b event) int { return a.at.Compare(b.at) }) // warnings come late
	return all
}

// latest is the last event; ok is false without any.
func (l *eventLog) latest() (e event, ok bool) {
	if len(l.Events) == 0 {
		return event{}, false
	}
	return l.Events[(l.next+len(l.Events)-1)%len(l.Events)], true
}
