package tui

import (
	"fmt"
	"time"
)

// eventsKept is how many events the log remembers.
const eventsKept = 2000

type eventKind uint8

const (
	eventState eventKind = iota // a peering's state changed
	eventGone                   // nothing is left of a peering
)

// event is one line of the log.
type event struct {
	at   time.Time
	id   pairID // of the peering
	kind eventKind
	was  peeringState
	is   peeringState // of eventState
	text string
}

// line is the event as text, without its time.
func (e event) line(t theme, names string) string {
	if e.kind == eventGone {
		return fmt.Sprintf("%s %s: nothing is left of it (was %s)", t.glyphs[markPending], names, e.was)
	}
	return fmt.Sprintf("%s %s: %s (was %s): %s", t.glyphs[e.is.mark()], names, e.is, e.was, e.text)
}

// eventLog is the latest events, the oldest first.
type eventLog struct {
	events []event
	next   int // where the ring goes on, once it is full
	total  int // that there ever were
}

func (l *eventLog) add(e event) {
	l.total++
	if len(l.events) < eventsKept {
		l.events = append(l.events, e)
		return
	}
	l.events[l.next] = e
	l.next = (l.next + 1) % eventsKept
}

// all are the events that keep wants, in the order in which they came.
func (l *eventLog) all(keep func(event) bool) []event {
	var all []event
	for i := range l.events {
		e := l.events[(l.next+i)%len(l.events)]
		if keep(e) {
			all = append(all, e)
		}
	}
	return all
}

// latest is the last event; ok is false without any.
func (l *eventLog) latest() (e event, ok bool) {
	if len(l.events) == 0 {
		return event{}, false
	}
	return l.events[(l.next+len(l.events)-1)%len(l.events)], true
}
