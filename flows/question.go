package flows

import (
	"slices"
	"time"
)

// Question asks for a fact that a plan needs and that an observation does not contain. A
// plan lists its questions. The engine asks the open questions, and plans again. Questions
// are comparable. Each question has its own file, with its answer.
type Question interface {
	// On returns the side whose cluster is asked.
	On() Side
	// Terms returns the conditions under which the question may be asked.
	Terms() Terms
	// slot returns the place of the answer in the facts.
	slot(*Facts) slot
}

// Terms are the conditions under which a question may be asked.
type Terms struct {
	// Lasts is set if a run asks only once. Otherwise the answer is valid for one
	// observation, because changes by the run change it.
	Lasts bool
	// RunsPods is set if a cluster runs pods to find the answer. Then the question is asked
	// only when the run may change something.
	RunsPods bool
	// Within limits the time for the answer; 0: no limit.
	Within time.Duration
}

// Answer is the answer to a question. Its zero value means that the question was not asked.
// Otherwise the answer has a value, or the reason that there is none.
type Answer[T any] struct {
	to      Question
	at      time.Time
	value   *T
	unknown string
}

// Value returns the answer; nil if there is none.
func (a Answer[T]) Value() *T { return a.value }

// Unknown returns the reason that there is no value, as the end of a sentence; "" if there
// is a value, or if the question was not asked.
func (a Answer[T]) Unknown() string { return a.unknown }

// Asked reports whether the question was asked.
func (a Answer[T]) Asked() bool { return a.to != nil }

// At returns the time of the answer.
func (a Answer[T]) At() time.Time { return a.at }

// Answers reports whether this is the answer to q. The same slot can have the answer to a
// similar question, for example about another image.
func (a Answer[T]) Answers(q Question) bool { return a.to != nil && a.to == q }

func (a *Answer[T]) leave(q Question, why string, at time.Time) {
	*a = Answer[T]{to: q, at: at, unknown: why}
}

// slot is the place of an answer in the facts, of any type.
type slot interface {
	Answers(Question) bool
	leave(q Question, why string, at time.Time)
}

// QuestionFor is a question with an answer of type T.
type QuestionFor[T any] interface {
	Question
	in(*Facts) *Answer[T]
}

// Reply is a cluster's answer to one question.
type Reply interface {
	// Store puts the answer into the facts. at is the time of the answer.
	Store(f *Facts, at time.Time)
}

// Read returns the reply to q with a value.
func Read[T any](q QuestionFor[T], value T) Reply { return reading[T]{q, &value} }

type reading[T any] struct {
	question QuestionFor[T]
	value    *T
}

func (r reading[T]) Store(f *Facts, at time.Time) {
	*r.question.in(f) = Answer[T]{to: r.question, at: at, value: r.value}
}

// Unknown returns the reply to q with the reason that there is no value.
func Unknown(q Question, why string) Reply { return unknown{q, why} }

type unknown struct {
	question Question
	why      string
}

func (r unknown) Store(f *Facts, at time.Time) {
	r.question.slot(f).leave(r.question, r.why, at)
}

// Open returns the plan's questions that the facts don't answer, without those that run
// pods.
func (p Plan) Open(f Facts) []Question { return p.open(f, false) }

// Trials returns the plan's questions that run pods and that the facts don't answer.
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

// Open returns the questions that the facts don't answer. It leaves out questions to a
// cluster that can't be used.
func Open(f Facts, questions []Question) (open []Question) {
	for _, q := range questions {
		if f.Sides[q.On()].Problem == nil && !q.slot(&f).Answers(q) {
			open = append(open, q)
		}
	}
	return open
}
