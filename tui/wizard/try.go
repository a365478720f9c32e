package wizard

import (
	"context"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/trial"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// tries has the results of short-lived test pods for a pair of clusters that is not
// connected yet.
type tries struct {
	id      int // of the latest trial
	pair    [2]flows.ContextRef
	began   time.Time
	stop    context.CancelFunc // stops the running trial; nil if there is none
	answers engine.Answers
	reach   *trial.Reach
}

// Messages about a trial.
type (
	tryMsg   struct{} // starts a trial
	triedMsg struct {
		id      int
		answers engine.Answers // the results
		reach   *trial.Reach
		err     error
	}
)

// addTo adds to the facts of a pair the results for this pair.
func (t tries) addTo(f flows.Facts, pair [2]flows.ContextRef) flows.Facts {
	if t.pair == pair {
		t.answers.AddTo(&f)
		f.Reach = t.reach
	}
	return f
}

// try starts a trial: nodes pull the image of the installation, and test pods try the
// ways between the clusters.
func (w Wizard) try(c scene) (Wizard, tea.Cmd) {
	a, b := c.on(flows.A).Cluster, c.on(flows.B).Cluster
	switch {
	case w.tried.stop != nil:
		return w, nil
	case a == nil || b == nil || !c.planned():
		c.Post(session.NoteMsg("A cluster does not answer, so nothing can be tried."))
		return w, nil
	}
	ctx, stop := context.WithCancel(c.Ctx)
	w.tried = tries{id: w.tried.id + 1, pair: w.pair, began: c.Now, stop: stop}
	f := w.scene(c.Env).facts() // without earlier results
	id, params, plan, now := w.tried.id, w.params, flows.PlanConnect(w.params, f), c.Clock
	return w, func() tea.Msg {
		defer stop()
		msg := triedMsg{id: id, answers: engine.Answers{Now: now}}
		if msg.err = msg.answers.Ask(ctx, &f, [2]engine.Cluster{a, b}, plan.Trials(f)...); msg.err == nil {
			var reach trial.Reach
			reach, msg.err = engine.TryReach(ctx, params, f, a, b, "", now)
			msg.reach = &reach
		}
		return msg
	}
}

// takeTrial stores the results. The form begins with the values that they suggest.
func (w Wizard) takeTrial(e session.Env, msg triedMsg) Wizard {
	if msg.id != w.tried.id {
		return w
	}
	w.tried.stop = nil
	if msg.err != nil {
		e.Post(session.NoteMsg("Trying has failed: " + msg.err.Error()))
	}
	w.tried.answers, w.tried.reach = msg.answers, msg.reach
	if w.tried.pair == w.pair && w.Planned(e) {
		w.wanted.Seen = false
		w = w.replan(e)
	}
	return w
}
