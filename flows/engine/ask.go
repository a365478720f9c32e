package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
)

// ErrNoWay is the error of a [Cluster] for a question that it can't answer.
var ErrNoWay = errors.New("this program has no way to find out")

// Answers keeps the clusters' answers for later observations.
type Answers struct {
	// Limit bounds the time for questions that allow a bound; 0 means no further bound.
	Limit time.Duration
	// Now is the clock; nil means time.Now.
	Now func() time.Time

	kept []answer
}

type answer struct {
	question flows.Question
	reply    flows.Reply
	at       time.Time
}

// AddTo adds the answers to the facts. If two questions have the same place in the facts, the last answer is
// used.
func (a *Answers) AddTo(f *flows.Facts) {
	for _, k := range a.kept {
		k.reply.Store(f, k.at)
	}
}

// Ask asks the clusters, at the same time, the questions that the facts do not answer, and adds the answers.
// A cluster that can't answer gives a reply without a value, and no error. The error is that of ctx.
func (a *Answers) Ask(ctx context.Context, f *flows.Facts, clusters [2]Cluster, questions ...flows.Question) error {
	questions = flows.Open(*f, questions)
	replies, errs := make([]flows.Reply, len(questions)), make([]error, len(questions))
	var asking sync.WaitGroup
	for i, q := range questions {
		asking.Go(func() { replies[i], errs[i] = a.ask(ctx, clusters[q.On()], q) })
	}
	asking.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for i, q := range questions {
		problem, lost := errors.AsType[*flows.Problem](errs[i])
		switch {
		case lost && !q.Terms().RunsPods: // a question that runs pods gets an answer, because otherwise it would be asked again and again
			f.Sides[q.On()].Problem = problem
			continue
		case errs[i] != nil:
			replies[i] = flows.Unknown(q, errs[i].Error())
		}
		replies[i].Store(f, a.now())
		a.Keep(q, replies[i])
	}
	return nil
}

// AskAll asks until nothing is open: an answer may lead to more questions.
func (a *Answers) AskAll(ctx context.Context, f *flows.Facts, clusters [2]Cluster, asks func(flows.Facts) []flows.Question) error {
	for all := asks(*f); len(flows.Open(*f, all)) > 0; all = asks(*f) {
		if err := a.Ask(ctx, f, clusters, all...); err != nil {
			return err
		}
	}
	return nil
}

func (a *Answers) ask(ctx context.Context, c Cluster, q flows.Question) (flows.Reply, error) {
	if within := q.Terms().Within; within > 0 {
		limited, cancel := context.WithTimeout(ctx, min(within, cmp.Or(a.Limit, within)))
		defer cancel()
		ctx = limited
	}
	return c.Ask(ctx, q)
}

func (a *Answers) now() time.Time {
	if a.Now == nil {
		return time.Now()
	}
	return a.Now()
}

// lookAgain drops the answers about namespaces that are deleted now. The deletion may need several attempts
// for minutes, so they get out of date.
func (a *Answers) lookAgain() {
	a.kept = slices.DeleteFunc(a.kept, func(k answer) bool {
		q, contents := k.question.(flows.AskContents)
		return contents && q.Last
	})
}

// Keep keeps the answer to a question if its terms allow that.
func (a *Answers) Keep(q flows.Question, reply flows.Reply) {
	if q.Terms().Lasts {
		a.kept = append(slices.DeleteFunc(a.kept, func(k answer) bool { return k.question == q }), answer{q, reply, a.now()})
	}
}
