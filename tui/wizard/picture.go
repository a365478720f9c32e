package wizard

import (
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/view"
	"github.com/liqo-tui/liqo-tui/tui/draw"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// headed returns the picture of the connection that a plan or a run is about, and the scene for the panels below it. If
// there is no room for frames, there is no picture, and the scene has no frames.
func (w Wizard) headed(c scene) (below scene, picture []string) {
	t := c.Theme.Framed(c.Width, c.Height)
	planning := w.Step == Plan && !w.plan.zoom && c.planned() && c.Current.Failure() == nil
	if running := w.Step == Apply && w.apply.active() && w.apply.page == pageSteps; !t.Frames() || w.confirm != nil || !planning && !running {
		return c, nil
	}
	picture = t.Connection(c.picture(t, w.live.together(c), w.Step == Apply), c.Width)
	c.Theme = t
	c.Body, c.Height = max(0, c.Body-len(picture)), c.Height-len(picture)
	return c, picture
}

// picture returns the connection as the plan makes it. running is set while that is done.
func (c scene) picture(t draw.Theme, is view.Verdict, running bool) draw.Connection {
	p := draw.Connection{Line: draw.PairMarks[is.State], Known: true, Listens: c.params.Server, Notes: []string{is.State.String()}}
	switch {
	case is.State == view.Untested: // the tunnel itself works
		p.Line = draw.OK
	case running && c.goal == session.Connect && p.Line == draw.Fail: // one side's objects are made before the other's
		p.Line, p.Notes = draw.Running, []string{"not connected yet"}
	}
	if c.goal != session.Connect {
		p.Listens, p.Known = flows.ServerSide([2]flows.Reading{c.peer(flows.A).Reading(), c.peer(flows.B).Reading()})
	}
	for i := range p.Names {
		side := flows.Side(i)
		role := draw.Fact{Label: "dials", Value: c.name(side.Other())}
		switch {
		case !p.Known:
			role = draw.Fact{Label: "gateway"}
		case side == p.Listens:
			role = draw.Fact{Label: "listens", Value: string(c.params.ServiceType)}
		}
		p.Names[i] = c.name(side)
		p.Lines[i] = t.Table(append([]draw.Fact{role}, c.addresses(side)...), t.EndWidth(c.Width))
	}
	return p
}

// addresses returns the facts about the addresses of a side's pods.
func (c scene) addresses(s flows.Side) []draw.Fact {
	pods, seen := draw.Fact{Label: "pods"}, draw.Fact{Label: "seen as"}
	if c.unforeseen(s) || c.unforeseen(s.Other()) {
		pods.Value = draw.CIDRs(c.on(s).Good.Networks.Pod)
		return []draw.Fact{pods, seen}
	}
	views, err := check.Views(flows.Expected(c.wanted.Params, c.facts()), s.Other())
	if err != nil { // the plan says so
		return []draw.Fact{pods, seen}
	}
	for _, v := range views {
		if v.Use != "pods" {
			continue
		}
		as := "Liqo chooses"
		if v.Remapped.IsValid() {
			as = v.Remapped.String()
		}
		pods.Value, seen.Value = listed(pods.Value, v.Real.String()), listed(seen.Value, as)
	}
	return []draw.Fact{pods, seen}
}

func listed(all, one string) string {
	if all == "" {
		return one
	}
	return all + ", " + one
}
