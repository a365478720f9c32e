package session

import "time"

const (
	// Coalesce is the shortest time between two messages of one source, and of all
	// clusters together. Nobody could read faster changes.
	Coalesce = 100 * time.Millisecond
	// AskTimeout limits one observation. It is longer than the 5 s after which an
	// API server counts as unreachable.
	AskTimeout = 15 * time.Second
	// RelistInterval is how often the kubeconfig files are read again while their
	// contexts are shown.
	RelistInterval = 5 * time.Second
	// ClockStep is how far a time has to be in the past to show that the clock was
	// set back. Messages that overtake each other differ by much less.
	ClockStep = time.Minute
)
