package flows

import (
	"slices"
	"time"
)

// Question is about a fact that a plan needs and that an observation does not have. A plan
// lists its questions. The engine asks the open ones, and plans again. Questions are
// comparable. Each is in a file of its own, with its answer.
type Question interface {
	// On is the side whose cluster is asked.
	On() Side
	// Terms are the conditions under which it may be asked.
	Terms() Terms
	// slot is the place of the answer in the facts.
	slot(*Facts) slot
}

// Terms are the conditions under which a question may be asked.
type Terms struct {
	// Lasts is set if a run asks only once. Other answers hold for one observation, because
	// the run's own changes change them.
	Lasts bool
	// RunsPods is set if a cluster runs pods to find the answer. Then a run asks only once
	// it may change something.
	RunsPods bool
	// Within limits the time for the answer; 0: no limit.
	Within time.Duration
}

// Answer is the answer to a question. The zero value means that nobody has asked. Otherwise
// it has a value, or the reason that nobody knows it.
type Answer[T any] struct {
	to      Question
	at      time.Time
	value   *T
	unknown string
}

// Value is the answer; nil if there is none.
func (a Answer[T]) Value() *T { return a.value }

// Unknown is the reason that there is no answer, as the end of a sentence; "" if there is
// one, or if nobody has asked.
func (a Answer[T]) Unknown() string { return a.unknown }

// Asked reports whether anybody has asked.
func (a Answer[T]) Asked() bool { return a.to != nil }

// At is the time of the answer.
func (a Answer[T]) At() time.Time { return a.at }

// Answers reports whether this is an answer to q. The same slot can have the answer to
// another question, for example about another image.
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

// Reply is a cluster's answer to one question.
type Reply interface {
	// Store puts the answer into the facts. at is the time of the answer.
	Store(f *Facts, at time.Time)
}

// Read is the reply to q with a value.
func Read[T any](q QuestionFor[T], value T) Reply { return reading[T]{q, &value} }

type reading[T any] struct {
	question QuestionFor[T]
	value    *T
}

func (r reading[T]) Store(f *Facts, at time.Time) {
	*r.question.in(f) = Answer[T]{to: r.question, at: at, value: r.value}
}

// Unknown is the reply to q without a value, with the reason.
func Unknown(q Question, why string) Reply { return unknown{q, why} }

type unknown struct {
	question Question
	why      string
}

func (r unknown) Store(f *Facts, at time.Time) {
	r.question.slot(f).leave(r.question, r.why, at)
}

// Open returns the plan's questions that the facts don't answer, except those that run
// pods.
func (p Plan) Open(f Facts) []Question { return p.open(f, false) }

// Trials returns the plan's questions that the facts don't answer and that run pods.
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

// Open returns the questions that the facts don't answer. A cluster that can't be used is
// not asked.
func Open(f Facts, questions []Question) (open []Question) {
	for _, q := range questions {
		if f.Sides[q.On()].Problem == nil && !q.slot(&f).Answers(q) {
			open = append(open, q)
		}
	}
	return open
}
