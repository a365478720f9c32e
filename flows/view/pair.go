// Package view combines reports about connections and lending: the reports of both clusters, and
// those of successive observations.
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

// End is one end of a connection, with everything known about it.
type End struct {
	ID wire.ClusterID
	// Chosen is true if the cluster belongs to one of the chosen contexts and has ever answered. Any
	// other cluster is known only from its peer's reports.
	Chosen bool
	// Problem is the reason that its API server does not answer now. Silent is the time since when.
	Problem string
	Silent  time.Time
	// Reading is the end's own report. A Reading without a Peer is no report about this connection.
	Reading flows.Reading
}

// Says reports whether the end's own report about the connection can be read.
func (e End) Says() bool { return e.Chosen && e.Silent.IsZero() && e.Reading.Peer != "" }

// Fresh reports whether the values in the end's report are still valid.
func (e End) Fresh(now time.Time) bool {
	return e.Says() && e.Reading.Exists && !e.Reading.Stale(now)
}

// PairState is the state of a connection, seen from both sides.
type PairState uint8

// The states, from bad to good: the order in which an admin wants to see them.
const (
	Down PairState = iota
	OneSided
	Unreachable
	Stale
	Degraded
	Recovering // it works again; pings lost in the outage still count
	Unknown
	Connecting
	Starting
	Untested // the gateways reach each other, but no packet of a pod was seen
	NotConnected
	Connected
	States // the number of states
)

var words = [States]string{
	Down: "down", OneSided: "one-sided", Unreachable: "unreachable", Stale: "stale",
	Degraded: "degraded", Recovering: "recovering", Unknown: "unknown", Connecting: "connecting", Starting: "starting",
	NotConnected: "no gateways", Connected: "connected", Untested: "untested",
}

func (s PairState) String() string { return words[s] }

// Works reports whether traffic between the gateways was last seen to work.
func (s PairState) Works() bool {
	return s == Connected || s == Untested || s == Degraded || s == Recovering
}

// Broken reports whether traffic is known to be interrupted. An unknown state is neither Broken nor
// does it Work.
func (s PairState) Broken() bool {
	switch s {
	case Down, OneSided, Connecting, Starting, NotConnected:
		return true
	case Unreachable, Stale, Degraded, Recovering, Unknown, Untested, Connected, States:
	}
	return false
}

// Health is the result about a connection that all commands and screens show. Exit codes follow from
// it.
type Health uint8

// The values of Health. The zero value claims nothing.
const (
	HealthUnknown  Health = iota
	Healthy               // no admin has to act
	HealthDegraded        // it works partly
	HealthDown            // it does not work
)

func (h Health) String() string {
	return [...]string{"unknown", "healthy", "degraded", "down"}[h]
}

// Verdict combines the reports of both ends.
type Verdict struct {
	State PairState
	Why   string    // a sentence
	Since time.Time // zero: unknown
}

// Health returns the health on which an admin acts.
func (v Verdict) Health() Health {
	switch {
	case v.State == Connected, v.State == Untested, v.State == Recovering:
		return Healthy
	case v.State == Degraded:
		return HealthDegraded
	case v.State.Broken():
		return HealthDown
	}
	return HealthUnknown
}

// Together combines the reports of both ends. The worse state counts. If one end can't be observed,
// the present reports of the other end still count. tested is the last test from pod to pod; nil if
// none is known.
func Together(ends [2]End, tested *verify.Result, now time.Time) Verdict {
	worst := Verdict{State: Connected}
	said := 0
	for i, e := range ends {
		var v Verdict
		switch other := ends[1-i]; {
		case !e.Chosen:
			continue
		case !e.Silent.IsZero():
			v = Verdict{State: Unreachable, Why: fmt.Sprintf("%s: %s", e.ID, e.Problem), Since: e.Silent}
			if other.Fresh(now) {
				state, _ := other.Reading.State(now)
				v.Why += fmt.Sprintf("; %s says %s", other.ID, state.Word())
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
		if said == 1 || v.State < worst.State || lossier { // of two losses, the larger one is shown
			worst = v
		} else if v.State == worst.State && v.Since.After(worst.Since) {
			worst.Since = v.Since
		}
	}
	if worst.State == Connected {
		worst.Why = connectedBecause(ends, now)
		worst.prove(ends, tested, now)
	}
	worst.impair(ends)
	return worst
}

// impair changes the verdict of a connection that works to Degraded if a cluster knows a reason why
// pods can't use it. This is the root cause: lost pings or missing traffic may follow from it.
func (v *Verdict) impair(ends [2]End) {
	if !v.State.Works() {
		return
	}
	for i, e := range ends {
		if why := e.impaired(ends[1-i]); e.Says() && why != "" {
			*v = Verdict{State: Degraded, Why: "connected, but " + why}
			return
		}
	}
}

// impaired returns the reason why pods can't use a connection although its gateways answer; "" if
// neither end knows such a reason.
func (e End) impaired(other End) string {
	me, them := e.Reading, other.Reading
	switch {
	case me.PeerIdentity != "" && other.Says() && them.Identity != "" && me.PeerIdentity != them.Identity:
		return fmt.Sprintf("%s knows %s as the cluster with UID %s, and this one has UID %s", e.ID, other.ID, me.PeerIdentity, them.Identity)
	case me.Unmanaged != "":
		return fmt.Sprintf("%s: %s", e.ID, me.Unmanaged)
	case me.Told != "" && other.Says() && them.Own != "" && me.Told != them.Own:
		return fmt.Sprintf("%s has other ranges than %s was told: told %s; has %s", other.ID, e.ID, me.Told, them.Own)
	}
	return ""
}

// Alone returns the verdict if only this end is known.
func (e End) Alone(now time.Time) Verdict {
	v := e.verdict(now)
	v.Why = strings.TrimPrefix(v.Why, string(e.ID)+": ")
	if v.State == Connected {
		v.prove([2]End{e}, nil, now)
	}
	v.impair([2]End{e})
	return v
}

// prove changes a connected verdict to Untested or Degraded, unless pods are known to reach each
// other.
func (v *Verdict) prove(ends [2]End, tested *verify.Result, now time.Time) {
	state, how := FromPodToPod(ends, tested, now)
	if v.State, v.Why = state, v.Why+"; "+how; state == Degraded {
		v.Since = time.Time{} // the old value was the time at which the gateways connected
	}
}

// FromPodToPod decides whether pods are known to reach each other. Pings of gateways prove nothing
// about the path between a gateway and pods. Packets that passed before the present connection began
// prove nothing either, because a gateway may have moved to another node since. state is Connected,
// Untested or Degraded. how is the end of a sentence. tested is the last test; nil if none is known.
func FromPodToPod(ends [2]End, tested *verify.Result, now time.Time) (state PairState, how string) {
	var passed, began time.Time
	for _, e := range ends {
		if !e.Says() {
			continue
		}
		passed, began = later(passed, e.Reading.PodTraffic), later(began, e.Reading.Since)
	}
	ago := func(at time.Time) string { return max(0, now.Sub(at)).Round(time.Second).String() + " ago" }
	switch byPods := tested != nil && tested.Between == verify.Pods && !tested.At.Before(began); {
	case byPods && !tested.Tested():
		return Degraded, "the last test from pod to pod, " + ago(tested.At) + ", failed"
	case byPods && tested.Verdict() == verify.Closed:
		return Connected, "tested with pods of its own " + ago(tested.At) + ": " + tested.ClosedPods()
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

// connectedBecause describes the reports of both gateways: each has measured answers, or only
// reports the state.
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

// verdict returns the verdict from this end's report only.
func (e End) verdict(now time.Time) Verdict {
	state, why := e.Reading.State(now)
	v := Verdict{Since: e.Reading.Since, Why: fmt.Sprintf("%s: %s", e.ID, why)}
	switch state {
	case flows.StateDown:
		v.State = Down
	case flows.StateStale:
		v.State, v.Since = Stale, e.Reading.At
	case flows.StateDegraded:
		v.State, v.Since = Degraded, time.Time{} // the old value was the time at which the gateways connected
	case flows.StateRecovering:
		v.State = Recovering
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

// Expires returns the time at which the verdict changes without a new report; zero if it never does.
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
