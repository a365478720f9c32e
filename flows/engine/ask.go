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

// ErrNoWay is the answer of a [Cluster] to a question that it does not know.
var ErrNoWay = errors.New("this program has no way to find out")

// Answers keeps the clusters' answers for later observations.
type Answers struct {
	// Limit bounds the time for a question whose terms allow that; 0 for no other bound.
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

// AddTo adds the answers to the facts. If two questions have the same place, the last one
// counts.
func (a *Answers) AddTo(f *flows.Facts) {
	for _, k := range a.kept {
		k.reply.Store(f, k.at)
	}
}

// Ask asks the clusters side by side the questions without an answer in the facts, and
// adds the answers. The error is that of ctx: a cluster that does not know also answers.
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
		case lost && !q.Terms().RunsPods: // a question that runs pods gets an answer instead, or it would be asked again and again
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

// lookAgain forgets what was found in namespaces just before their deletion. The deletion may have to be tried
// again for minutes.
func (a *Answers) lookAgain() {
	a.kept = slices.DeleteFunc(a.kept, func(k answer) bool {
		q, contents := k.question.(flows.AskContents)
		return contents && q.Last
	})
}

// Keep keeps the answer to a question, if it lasts.
func (a *Answers) Keep(q flows.Question, reply flows.Reply) {
	if q.Terms().Lasts {
		a.kept = append(slices.DeleteFunc(a.kept, func(k answer) bool { return k.question == q }), answer{q, reply, a.now()})
	}
}
