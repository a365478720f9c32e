package draw

import (
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/view"
)

// StepMark is how a step's status looks.
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

// StepWord is a step's status as people read it: that a step needs another one's
// result is how a plan is, and no trouble.
func StepWord(s flows.Status) string {
	if s == flows.Blocked {
		return "later"
	}
	return s.String()
}

// StateWidth is the room for a step's glyph and the longest word.
func (t Theme) StateWidth() int { return len("waiting") + 2 + Cells(t.Glyphs[OK]) }

// CheckMarks are how a check's states look.
var CheckMarks = map[check.Outcome]Mark{
	check.Pass: OK, check.Warn: Warn, check.Fail: Fail, check.Inconclusive: Unknown, check.Skipped: Pending,
	check.Measuring: Running, check.Planned: Pending,
}

// StateMarks are how an end's states look.
var StateMarks = map[flows.EndState]Mark{
	flows.StateNotConnected: Pending, flows.StateStarting: Running, flows.StateConnecting: Running,
	flows.StateConnected: OK, flows.StateDegraded: Warn, flows.StateDown: Fail,
	flows.StateStale: Unknown, flows.StateUnknown: Unknown,
}

// PairMarks are how the states of a peering look, seen from both sides.
var PairMarks = [view.States]Mark{
	view.Down: Fail, view.OneSided: Fail, view.Unreachable: Unknown, view.Stale: Unknown,
	view.Degraded: Warn, view.Unknown: Unknown, view.Connecting: Running, view.Starting: Running,
	view.NotConnected: Pending, view.Untested: Pending, view.Connected: OK,
}

// EndMark is how an end's state looks where that of the peering is known: that
// gateways answer pings is no more than that.
func EndMark(s flows.EndState, both view.PairState) Mark {
	if s == flows.StateConnected && both == view.Untested {
		return PairMarks[both]
	}
	return StateMarks[s]
}
