package session

import "time"

const (
	// Coalesce is the least time between two messages of a source, and of all
	// clusters together: what changes more often than that nobody can read.
	Coalesce = 100 * time.Millisecond
	// AskTimeout bounds one observation. It is longer than the 5 s that an
	// unreachable API server takes to be one.
	AskTimeout = 15 * time.Second
	// ClockStep is how far back the time has to be for the clock to have been set:
	// messages overtake each other by much less.
	ClockStep = time.Minute
)
