package wizard

import (
	"cmp"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/connect"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// task is the present work of the wizard: two clusters, and the goal for them.
type task struct {
	options session.Options
	pair    [2]flows.ContextRef // zero: not chosen
	offered [2]flows.ContextRef // the pair that the program chose, until the admin chooses or a run begins
	goal    session.Goal
	wanted  connect.Goal // as the admin wants them
	params  flows.Params // wanted, completed by facts and by existing gateways
	fixed   bool         // there are gateways
	Current flows.Plan   // the plan from the latest facts
	tried   tries
}

// scene has everything that a screen of the wizard needs to draw and to decide, except for
// the screen's own state.
type scene struct {
	session.Env
	task
	localOnly bool           // the plan does not change cluster B
	made      []flows.Change // the only objects that the plan removes; nil: it removes all
	checks    []check.Result // the checks before the plan
}

// half returns the scene for one of two blocks beside each other; ok is false if there is
// no room for two.
func (c scene) half() (_ scene, ok bool) {
	if ok = c.Width >= draw.BesideFrom; ok {
		c.Width = draw.Half(c.Width)
	}
	return c, ok
}

// framed returns the scene for the text in panels.
func (c scene) framed() scene {
	c.Theme = c.Theme.Framed(c.Width, c.Height)
	c.Width = c.Theme.Inside(c.Width)
	return c
}

// chosen reports whether a cluster was chosen for a side.
func (c scene) chosen(s flows.Side) bool { return c.pair[s] != flows.ContextRef{} }

// suggested reports whether the program chose the pair, because nothing else can be connected.
func (c task) suggested() bool { return c.offered != [2]flows.ContextRef{} && c.offered == c.pair }

// paired reports whether a cluster is one of the two clusters of the task.
func (c task) paired(ref flows.ContextRef) bool {
	return ref != flows.ContextRef{} && (c.pair[flows.A] == ref || c.pair[flows.B] == ref)
}

// choosing returns the side of the next choice. The other side may already have its
// cluster.
func (c scene) choosing() flows.Side {
	if c.chosen(flows.A) {
		return flows.B
	}
	return flows.A
}

func (c scene) on(s flows.Side) session.Member { return c.Fleet.Member(c.pair[s]) }

// planned reports whether both clusters have answered.
func (c scene) planned() bool { return c.on(flows.A).Asked && c.on(flows.B).Asked }

// watches identifies the watches of both clusters. A cluster that is opened again has another.
func (c scene) watches() [2]int { return [2]int{c.on(flows.A).Watch.ID, c.on(flows.B).Watch.ID} }

func (c scene) facts() flows.Facts {
	return c.tried.addTo(flows.Facts{Sides: [2]flows.ClusterFacts{c.on(flows.A).Latest, c.on(flows.B).Latest}, At: c.Now}, c.pair)
}

// id returns the side's cluster ID, if it was ever known, or the ID that the cluster will
// get.
func (c scene) id(s flows.Side) wire.ClusterID {
	if id := c.on(s).Good.ID; id != "" || c.wanted.Install[s] == nil {
		return id
	}
	return c.wanted.Install[s].ClusterID()
}

// name returns the admin's name for a cluster: its ID, or its context if the ID is unknown.
func (c scene) name(s flows.Side) string {
	return cmp.Or(string(c.id(s)), c.Fleet.Call(c.on(s)))
}

// side returns the name of a cluster, for a column.
func (c scene) side(s flows.Side) string {
	longest := max(draw.Cells(c.name(flows.A)), draw.Cells(c.name(flows.B)))
	return c.Theme.Side(s, c.name(s), min(longest, max(8, c.Width/4)))
}

// peer returns the side's end of the connection, from its last answer.
func (c scene) peer(s flows.Side) flows.End { return c.on(s).Good.End(c.id(s.Other())) }

// status is one side's state of the connection, in a word.
type status struct {
	mark draw.Mark
	word string
	why  string
}

// status returns the side's present state of the connection.
func (c scene) status(s flows.Side) status {
	side := c.on(s)
	if p := side.Latest.Problem; p != nil {
		return status{draw.Unknown, "not answering", "for " + draw.Age(c.Now.Sub(side.Since)) + ": " + p.Message}
	}
	state, why := c.peer(s).Reading().State(c.Now)
	return status{draw.StateMarks[state], state.Word(), why}
}

// wants returns the goal of a run, with the settings that the plan shows.
func (c scene) wants() flows.Goal {
	if c.goal == session.Connect {
		g := c.wanted
		g.Params, g.Seen = c.params, true
		return g
	}
	return flows.Removal{RemoveOptions: c.removal(), Disconnect: c.goal == session.Disconnect}
}

// planFor returns the plan to show. The form has already shown which settings of a connection stay.
func (c scene) planFor(f flows.Facts) flows.Plan {
	if c.goal == session.Connect {
		return flows.PlanConnect(c.params, f)
	}
	return c.wants().Plan(f)
}

func (c scene) removal() flows.RemoveOptions {
	o := flows.RemoveOptions{Made: c.made}
	if c.localOnly {
		o.LocalOnly, o.Peer = true, c.on(flows.B).Good.ID
	}
	return o
}

// command is the command line that reaches the goal; "" if there is none.
func (c scene) command() string {
	if c.made != nil {
		return ""
	}
	return c.commandFor(c.goal)
}

// goalName says in a few words what the goal is.
func (c scene) goalName() string {
	if c.made != nil {
		return "remove what was created"
	}
	return c.goal.String()
}

func (c scene) commandFor(g session.Goal) string {
	if c.options.Command == nil {
		return command.Ours("network", g.String()).String()
	}
	return c.options.Command(session.Request{Goal: g, A: c.pair[flows.A], B: c.pair[flows.B], Params: c.params, Removal: c.removal()}).String()
}

func (c scene) isProtected(ref flows.ContextRef) bool {
	return c.options.Protected != nil && c.options.Protected(ref)
}

// asking returns the lines of a screen before both clusters have answered.
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
		lines = append(lines, c.Theme.Side(s, c.name(s), 0)+"  "+c.Theme.State(mark, word, 0))
	}
	return lines
}
