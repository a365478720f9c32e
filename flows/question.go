package flows

import (
	"slices"
	"time"
)

// Question is something that a plan has to know and that an observation does not have. A
// plan lists its questions, the engine asks those that are open, and plans again.
// Questions are comparable. Each is in a file of its own, with its answer.
type Question interface {
	// On is the side whose cluster is asked.
	On() Side
	// Terms say how it may be asked.
	Terms() Terms
	// slot is where the facts have the answer.
	slot(*Facts) slot
}

// Terms say how a question may be asked.
type Terms struct {
	// Lasts is set where a run asks once. Other answers hold for one observation: what a
	// run changes, changes them.
	Lasts bool
	// RunsPods is set where a cluster runs pods to find out: that is for the first moment
	// at which a run may change something.
	RunsPods bool
	// Within bounds the time that it takes; 0 for no bound.
	Within time.Duration
}

// Answer is what is known of a question. The zero value is unread: nobody has asked. Then
// there is either a value, or a reason why nobody knows it.
type Answer[T any] struct {
	to      Question
	at      time.Time
	value   *T
	unknown string
}

// Value is nil unless a cluster has said it.
func (a Answer[T]) Value() *T { return a.value }

// Unknown is why nobody knows, as the end of a sentence; "" if there is a value, or nobody
// has asked.
func (a Answer[T]) Unknown() string { return a.unknown }

// Asked reports whether anybody has asked.
func (a Answer[T]) Asked() bool { return a.to != nil }

// At is when that was found out.
func (a Answer[T]) At() time.Time { return a.at }

// Answers reports whether q was asked. The same place may have the answer to another one.
func (a Answer[T]) Answers(q Question) bool { return a.to != nil && a.to == q }

func (a *Answer[T]) leave(q Question, why string, at time.Time) {
	*a = Answer[T]{to: q, at: at, unknown: why}
}

// slot is the place of one answer, whatever its type.
type slot interface {
	Answers(Question) bool
	leave(q Question, why string, at time.Time)
}

// QuestionFor is a question whose answer is a T.
type QuestionFor[T any] interface {
	Question
	in(*Facts) *Answer[T]
}

// Reply is what a cluster says to one question.
type Reply interface {
	// Store puts the answer where plans look for it. at is when the cluster said it.
	Store(f *Facts, at time.Time)
}

// Read is the reply to q of a cluster that knows.
func Read[T any](q QuestionFor[T], value T) Reply { return reading[T]{q, &value} }

type reading[T any] struct {
	question QuestionFor[T]
	value    *T
}

func (r reading[T]) Store(f *Facts, at time.Time) {
	*r.question.in(f) = Answer[T]{to: r.question, at: at, value: r.value}
}

// Unknown is the reply to q where nobody knows, with the reason.
func Unknown(q Question, why string) Reply { return unknown{q, why} }

type unknown struct {
	question Question
	why      string
}

func (r unknown) Store(f *Facts, at time.Time) {
	r.question.slot(f).leave(r.question, r.why, at)
}

// Open are the questions of the plan that the facts have no answer to, those left out that
// take pods.
func (p Plan) Open(f Facts) []Question { return p.open(f, false) }

// Trials are those that take pods.
func (p Plan) Trials(f Facts) []Question { return p.open(f, true) }

func (p Plan) open(f Facts, pods bool) []Question {
	all := slices.Clone(p.Asks)
	for _, s := range p.Steps {
		if s.Asks != nil {
			all = append(all, s.Asks)
		}
	}
	return slices.DeleteFunc(Open(f, all), func(q Question) bool { return q.Terms().RunsPods != pods })
}

// Open are those of the questions that the facts have no answer to. A cluster that can't be
// used is not asked.
func Open(f Facts, questions []Question) (open []Question) {
	for _, q := range questions {
		if f.Sides[q.On()].Problem == nil && !q.slot(&f).Answers(q) {
			open = append(open, q)
		}
	}
	return open
}
