package draw

import (
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/view"
)

// StepMark returns the mark of a step's status.
func StepMark(s flows.Status) Mark {
	switch s {
	case flows.Done:
		return OK
	case flows.Failed:
		return Fail
	case flows.Waiting:
		return Running
	case flows.Ready, flows.Blocked:
	}
	return Pending
}

// StepWord returns a step's status as a word for people. A step that needs the
// result of another one is no problem, so its word is harmless.
func StepWord(s flows.Status) string {
	if s == flows.Blocked {
		return "later"
	}
	return s.String()
}

// StateWidth returns the width of a step's glyph and the longest word.
func (t Theme) StateWidth() int { return len("waiting") + 2 + Cells(t.Glyphs[OK]) }

// CheckMarks has the marks of a check's states.
var CheckMarks = map[check.Outcome]Mark{
	check.Pass: OK, check.Warn: Warn, check.Fail: Fail, check.Inconclusive: Unknown, check.Skipped: Pending,
	check.Measuring: Running, check.Planned: Pending,
}

// PlacesCells returns the width of a column with the clusters of checks, at most a limit.
func (t Theme) PlacesCells(results []check.Result, limit int) (width int) {
	for _, r := range results {
		width = max(width, Cells(t.Plain(r.Where())))
	}
	return min(width, limit)
}

// StateMarks has the marks of an end's states.
var StateMarks = map[flows.EndState]Mark{
	flows.StateNotConnected: Pending, flows.StateStarting: Running, flows.StateConnecting: Running,
	flows.StateConnected: OK, flows.StateDegraded: Warn, flows.StateRecovering: Running, flows.StateDown: Fail,
	flows.StateStale: Unknown, flows.StateUnknown: Unknown,
}

// PairMarks has the marks of a connection's states, as seen from both sides.
var PairMarks = [view.States]Mark{
	view.Down: Fail, view.OneSided: Fail, view.Unreachable: Unknown, view.Stale: Unknown,
	view.Degraded: Warn, view.Recovering: Running, view.Unknown: Unknown, view.Connecting: Running, view.Starting: Running,
	view.NotConnected: Pending, view.Untested: Pending, view.Connected: OK,
}

// EndMark returns the mark of an end's state. If the state of the connection is
// known, connected ends don't look better than the connection: answered pings
// prove nothing about pods.
func EndMark(s flows.EndState, both view.PairState) Mark {
	if s == flows.StateConnected && both == view.Untested {
		return PairMarks[both]
	}
	return StateMarks[s]
}
