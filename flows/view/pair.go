// Package view is what the ends of peerings say, put together: by both ends of one,
// and by one observation after the other.
package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/verify"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// End is one side of a peering, as far as it is known.
type End struct {
	ID wire.ClusterID
	// Chosen is true if the cluster is one of the chosen contexts and has
	// ever answered. Of any other only its peer speaks.
	Chosen bool
	// Problem is why its API server does not answer now, Silent since when.
	Problem string
	Silent  time.Time
	// Reading is what it says; without a Peer it says nothing of this peering.
	Reading flows.Reading
}

// Says reports whether the end's own word on the peering is there to be read.
func (e End) Says() bool { return e.Chosen && e.Silent.IsZero() && e.Reading.Peer != "" }

// Fresh reports whether the end's figures are of now.
func (e End) Fresh(now time.Time) bool {
	return e.Says() && e.Reading.Exists && !e.Reading.Stale(now)
}

// State is the state of a peering, seen from both sides.
type State uint8

// The states, from bad to good: the order in which an admin wants to see them.
const (
	Down State = iota
	OneSided
	Unreachable
	Stale
	Degraded
	Unknown
	Connecting
	Starting
	Untested // the gateways reach each other; of pods nobody knows
	NotConnected
	Connected
	States // how many there are
)

var words = [States]string{
	Down: "down", OneSided: "one-sided", Unreachable: "unreachable", Stale: "stale",
	Degraded: "degraded", Unknown: "unknown", Connecting: "connecting", Starting: "starting",
	NotConnected: "no gateways", Connected: "connected", Untested: "untested",
}

func (s State) String() string { return words[s] }

// Works reports whether traffic between the gateways was last seen to work.
func (s State) Works() bool { return s == Connected || s == Degraded || s == Untested }

// Broken reports whether it is known not to: what can't be seen now is neither.
func (s State) Broken() bool {
	switch s {
	case Down, OneSided, Connecting, Starting, NotConnected:
		return true
	case Unreachable, Stale, Degraded, Unknown, Untested, Connected, States:
	}
	return false
}

// Verdict is what both ends together mean.
type Verdict struct {
	State State
	Why   string    // a sentence
	Since time.Time // zero: not known
}

// Title is the state where there is room for more than a word.
func (v Verdict) Title() string {
	if v.State == Untested {
		return "connected, no pod traffic seen yet"
	}
	return v.State.String()
}

// Judge puts what both ends say together. The worse word counts; what one end
// measures now counts more than that the other can't be asked. tested is the last test
// from pod to pod, nil if none is known.
func Judge(ends [2]End, tested *verify.Result, now time.Time) Verdict {
	worst := Verdict{State: Connected}
	said := 0
	for i, e := range ends {
		var v Verdict
		switch other := ends[1-i]; {
		case !e.Chosen:
			continue
		case !e.Silent.IsZero():
			v = Verdict{Unreachable, fmt.Sprintf("%s: %s", e.ID, e.Problem), e.Silent}
			if other.Fresh(now) {
				state, _ := other.Reading.State(now)
				v.Why += fmt.Sprintf("; %s says %s", other.ID, state)
			}
		case other.Reading.Role != "" && other.Says() && e.Reading.Role == "":
			v = Verdict{State: OneSided, Why: fmt.Sprintf("%s has a gateway for it, %s has none", other.ID, e.ID)}
		case e.Reading.Peer == "":
			continue
		default:
			v = e.verdict(now)
		}
		said++
		lossier := v.State == Degraded && worst.State == Degraded && e.Reading.Loss > ends[1-i].Reading.Loss
		if said == 1 || v.State < worst.State || lossier { // of two losses, the larger is told
			worst = v
		} else if v.State == worst.State && v.Since.After(worst.Since) {
			worst.Since = v.Since
		}
	}
	if worst.State == Connected {
		worst.Why = connectedBecause(ends, now)
		worst.prove(ends, tested, now)
	}
	return worst
}

// Alone is what an end means of whose other one nothing is known.
func (e End) Alone(now time.Time) Verdict {
	v := e.verdict(now)
	v.Why = strings.TrimPrefix(v.Why, string(e.ID)+": ")
	if v.State == Connected {
		v.prove([2]End{e}, nil, now)
	}
	return v
}

// prove lets a connection count as one only where pods reach each other, too.
func (v *Verdict) prove(ends [2]End, tested *verify.Result, now time.Time) {
	state, how := FromPodToPod(ends, tested, now)
	if v.State, v.Why = state, v.Why+"; "+how; state == Degraded {
		v.Since = time.Time{} // that is since when it is connected
	}
}

// FromPodToPod decides whether pods are known to reach each other: pings of gateways
// say nothing of the way between a gateway and pods. What passed before the present
// connection began proves nothing of it: a gateway may be on another node since. The
// state is Connected, Untested or Degraded, and how the end of a sentence. tested is the
// last test, nil if none is known.
func FromPodToPod(ends [2]End, tested *verify.Result, now time.Time) (state State, how string) {
	var passed, began time.Time
	for _, e := range ends {
		if !e.Says() {
			continue
		}
		passed, began = later(passed, e.Reading.PodTraffic), later(began, e.Reading.Since)
	}
	ago := func(at time.Time) string { return max(0, now.Sub(at)).Round(time.Second).String() + " ago" }
	switch byPods := tested != nil && tested.Between == verify.Pods && !tested.At.Before(began); {
	case byPods && !tested.Verified():
		return Degraded, "the last test from pod to pod, " + ago(tested.At) + ", failed"
	case byPods && tested.At.After(passed):
		return Connected, "tested from pod to pod " + ago(tested.At)
	case passed.IsZero():
		return Untested, "no pod traffic seen yet"
	case passed.Before(began):
		return Untested, "no pod traffic seen since it connected " + ago(began)
	}
	return Connected, "pod traffic seen " + ago(passed)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// connectedBecause says what is known of both gateways: that they answer each other,
// where a gateway has measured that.
func connectedBecause(ends [2]End, now time.Time) string {
	var answered, said, unknown []string
	for _, e := range ends {
		switch id := string(e.ID); {
		case !e.Says():
			unknown = append(unknown, "nothing is known from "+id+" itself")
		case e.Reading.Answered(now):
			answered = append(answered, id+" gets answers to its pings")
		default:
			said = append(said, id+"'s gateway says connected, and measures nothing")
		}
	}
	if len(answered) == len(ends) {
		return "each gateway gets answers to its pings"
	}
	return strings.Join(slices.Concat(answered, said, unknown), "; ")
}

// verdict is what the end alone says.
func (e End) verdict(now time.Time) Verdict {
	state, why := e.Reading.State(now)
	v := Verdict{Since: e.Reading.Since, Why: fmt.Sprintf("%s: %s", e.ID, why)}
	switch state {
	case flows.StateDown:
		v.State = Down
	case flows.StateStale:
		v.State, v.Since = Stale, e.Reading.At
	case flows.StateDegraded:
		v.State, v.Since = Degraded, time.Time{} // Since is that of being connected
	case flows.StateConnecting:
		v.State = Connecting
	case flows.StateStarting:
		v.State = Starting
	case flows.StateNotConnected:
		v.State = NotConnected
	case flows.StateConnected:
		v.State = Connected
	default:
		v.State = Unknown
	}
	return v
}

// Expires is when the verdict changes only because time passes; zero: never.
func Expires(ends [2]End, now time.Time) time.Time {
	var first time.Time
	for _, e := range ends {
		at := e.Reading.StaleAt()
		if e.Says() && at.After(now) && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first
}
