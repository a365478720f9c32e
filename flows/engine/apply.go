package engine

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// applied records the last apply of a step.
type applied struct {
	want  string // the objects, as YAML
	times int    // how many times applying this has changed something
}

// maxRepeats is how often a run makes the same change. After that, it reports that another program
// undoes the change. A change that is needed twice does not prove this, because an operator may have
// started meanwhile.
const maxRepeats = 3

// apply applies all ready steps, on both sides at once. If there is trouble, the returned plan
// contains the steps that have failed, or that will be tried again. Time limits of waits don't include
// the time of apply, because requests to a slow API server may take minutes.
func (r *runner) apply(ctx context.Context, p flows.Plan, f flows.Facts) (_ []flows.Change, _ flows.Plan, trouble bool) {
	ctx, cancel := finishing(ctx)
	defer cancel()
	began := r.options.Now()
	defer func() { r.deadline = r.deadline.Add(r.options.Now().Sub(began)) }()
	p.Steps = slices.Clone(p.Steps)
	var both sync.WaitGroup
	var changes [2][]flows.Change
	for _, side := range []flows.Side{flows.A, flows.B} {
		both.Go(func() { changes[side] = r.applySide(ctx, p.Steps, side, f) })
	}
	both.Wait()
	all := append(changes[flows.A], changes[flows.B]...)
	r.changed = r.changed || flows.Changed(all)
	return all, p, slices.ContainsFunc(p.Steps, func(s flows.Step) bool { return s.Cause != nil || s.Status == flows.Failed })
}

// finishing returns a context that outlives ctx by [finishTimeout].
func finishing(ctx context.Context) (context.Context, func()) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-longer.Done():
		case <-time.After(finishTimeout):
			cancel()
		}
	})
	return longer, func() { stop(); cancel() }
}

// applySide applies the ready steps of one side until one of them fails.
func (r *runner) applySide(ctx context.Context, steps []flows.Step, side flows.Side, f flows.Facts) []flows.Change {
	var all []flows.Change
	for i := range steps {
		s := &steps[i]
		if s.Side != side || s.Status != flows.Ready || !s.Action.Changes() {
			continue
		}
		if r.undone(*s) {
			r.failUndone(ctx, s, f, "", command.Hintf("look for another program, or another run of this one, that changes it: %s", seeWriters(f, *s)))
			return all
		}
		changes, err := r.act(side, *s)(ctx, s.Objects)
		for i := range changes {
			changes[i].Side = side
		}
		all = append(all, changes...)
		if flows.Changed(changes) {
			r.count(*s)
		}
		if err != nil {
			s.Refused(err, f)
			return all
		}
	}
	return all
}

func (r *runner) act(side flows.Side, s flows.Step) func(context.Context, []wire.Object) ([]flows.Change, error) {
	c := r.clusters[side]
	forcer, can := c.(Forcer)
	editor, edits := c.(Editor)
	switch {
	case s.Action == flows.Delete || s.Action == flows.Replace:
		return c.Delete
	case s.Edits != "" && edits:
		return editor.Edit
	case (r.options.Force || s.Force) && can:
		return forcer.ForceApply
	}
	return c.Apply
}

// failUndone fails a step whose change does not last. Either the API server drops a field that the
// kind's definition lacks, or another program changes the object back. fix is the advice in the second case.
func (r *runner) failUndone(ctx context.Context, s *flows.Step, f flows.Facts, since string, fix command.Hint) {
	reason := since + "it was applied, and does not stay as applied"
	var answers Answers
	if answers.Ask(ctx, &f, r.clusters, flows.AskDefinitions{Side: s.Side}) == nil {
		if d, ok := f.Sides[s.Side].LostField(s.Objects); ok {
			s.Fail(flows.FailedConflict, flows.CodeUndone, reason+": "+d.Text(), f.Sides[s.Side].DefinitionFix(d)...)
			return
		}
	}
	s.Fail(flows.FailedConflict, flows.CodeUndone, reason+s.AlsoWrittenBy(), fix)
}

// seeWriters returns the command that shows which other programs have written the object of a step.
func seeWriters(f flows.Facts, s flows.Step) command.Command {
	return f.Sides[s.Side].SeeWriters(flows.RefTo(s.Objects[0]))
}

// undone reports whether the run has already made the same change maxRepeats times.
func (r *runner) undone(s flows.Step) bool {
	a := r.taken(s)
	return a.times >= maxRepeats && a.want == wantedText(s)
}

// count counts a change by a step.
func (r *runner) count(s flows.Step) {
	a, text := r.taken(s), wantedText(s)
	if a.want != text {
		a = applied{want: text}
	}
	a.times++
	r.mu.Lock()
	defer r.mu.Unlock()
	r.applied[s.ID] = a
}

func (r *runner) taken(s flows.Step) applied {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.applied[s.ID]
}

func wantedText(s flows.Step) string {
	text, err := apply.YAML(s.Objects...)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
