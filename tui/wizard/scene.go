package wizard

import (
	"cmp"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// task is what the wizard works on: two clusters, and what is to be done to them.
type task struct {
	options session.Options
	pair    [2]flows.ContextRef // zero: not chosen
	goal    session.Goal
	wanted  flows.Params // by the admin
	params  flows.Params // wanted, unless gateways exist
	fixed   bool         // gateways exist
	Current flows.Plan   // what is to do by the latest facts
	tried   tries
}

// scene is all that a screen of the wizard is drawn from and decides by, but
// for what is its own.
type scene struct {
	session.Env
	task
	localOnly bool // the plan leaves cluster B alone
}

// half is the scene for one of two blocks next to each other; ok is false where there is no
// room for two.
func (c scene) half() (_ scene, ok bool) {
	if ok = c.Width >= draw.BesideFrom; ok {
		c.Width = draw.Half(c.Width)
	}
	return c, ok
}

// chosen reports whether a side has its cluster.
func (c scene) chosen(s flows.Side) bool { return c.pair[s] != flows.ContextRef{} }

// paired reports whether a cluster is one of the two that are worked on.
func (c task) paired(ref flows.ContextRef) bool {
	return ref != flows.ContextRef{} && (c.pair[flows.A] == ref || c.pair[flows.B] == ref)
}

// choosing is the side that the next choice is for. The other one may have its
// cluster already.
func (c scene) choosing() flows.Side {
	if c.chosen(flows.A) {
		return flows.B
	}
	return flows.A
}

// on is the cluster of a side.
func (c scene) on(s flows.Side) session.Member { return c.Fleet.Member(c.pair[s]) }

// planned reports whether both clusters have been asked.
func (c scene) planned() bool { return c.on(flows.A).Asked && c.on(flows.B).Asked }

// facts are the latest of both sides.
func (c scene) facts() flows.Facts {
	return c.tried.addTo(flows.Facts{Sides: [2]flows.ClusterFacts{c.on(flows.A).Latest, c.on(flows.B).Latest}, At: c.Now}, c.pair)
}

// id is the side's cluster ID, if it was ever known, or the one that it will have.
func (c scene) id(s flows.Side) wire.ClusterID {
	if id := c.on(s).Good.ID; id != "" || c.wanted.Install[s] == nil {
		return id
	}
	return c.wanted.Install[s].ClusterID()
}

// name is what an admin calls a cluster: its ID, or its context while no ID is
// known.
func (c scene) name(s flows.Side) string {
	return cmp.Or(string(c.id(s)), c.Fleet.Call(c.on(s)))
}

// side names a cluster by its letter and ID, in a column.
func (c scene) side(s flows.Side) string {
	longest := max(draw.Cells(string(c.id(flows.A))), draw.Cells(string(c.id(flows.B))))
	return c.Theme.Side(s, string(c.id(s)), min(2+longest, max(8, c.Width/4)))
}

// peer is the side's view of the connection when it last answered.
func (c scene) peer(s flows.Side) flows.End { return c.on(s).Good.End(c.id(s.Other())) }

// status is one side's word on the connection, and how far to believe it.
type status struct {
	mark draw.Mark
	word string
	why  string
}

// status is what the side says of the connection now.
func (c scene) status(s flows.Side) status {
	side := c.on(s)
	if p := side.Latest.Problem; p != nil {
		return status{draw.Unknown, "not answering", "for " + draw.Age(c.Now.Sub(side.Since)) + ": " + p.Message}
	}
	state, why := c.peer(s).Reading().State(c.Now)
	return status{draw.StateMarks[state], string(state), why}
}

// planFor is what the goal takes, by the facts.
func (c scene) planFor(f flows.Facts) flows.Plan {
	switch c.goal {
	case session.Disconnect:
		return flows.PlanDisconnect(c.removal(), f)
	case session.Reset:
		return flows.PlanReset(c.removal(), f)
	case session.Connect:
	}
	return flows.PlanConnect(c.params, f)
}

// removal says how much is to be taken away.
func (c scene) removal() flows.RemoveOptions {
	if !c.localOnly {
		return flows.RemoveOptions{}
	}
	return flows.RemoveOptions{LocalOnly: true, Peer: c.on(flows.B).Good.ID}
}

// command is the command line that reaches the goal.
func (c scene) command() string { return c.commandFor(c.goal) }

func (c scene) commandFor(g session.Goal) string {
	if c.options.Command == nil {
		return command.Ours("network", g.String()).String()
	}
	return c.options.Command(session.Request{Goal: g, A: c.pair[flows.A], B: c.pair[flows.B], Params: c.params, Removal: c.removal()}).String()
}

func (c scene) isProtected(ref flows.ContextRef) bool {
	return c.options.Protected != nil && c.options.Protected(ref)
}

// asking is what a screen shows before both clusters have answered.
func (c scene) asking() []string {
	lines := []string{"Looking at both clusters" + c.Theme.Ellipsis, ""}
	for _, s := range []flows.Side{flows.A, flows.B} {
		state := c.on(s)
		mark, word := draw.Running, draw.AskedText(c.Now.Sub(state.Began))
		if state.Asked {
			mark, word = draw.OK, "answers"
			if state.Latest.Problem != nil {
				mark, word = draw.Fail, state.Latest.Problem.Message
			}
		}
		lines = append(lines, c.Theme.Side(s, string(c.id(s)), 0)+"  "+c.Theme.State(mark, word, 0))
	}
	return lines
}
