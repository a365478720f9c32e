package flows

// Goal is what a run wants. It is a value, and its methods are pure.
type Goal interface {
	// Settle returns the goal that the run has once it has seen the facts f. It decides what was left
	// open, as soon as the clusters answer. If the facts show that the goal can't be reached in this
	// way, it decides otherwise.
	Settle(f Facts) Goal
	// Plan returns the plan that reaches the goal.
	Plan(f Facts) Plan
}

// Planner is a goal that leaves nothing open.
type Planner func(Facts) Plan

// Settle implements [Goal].
func (p Planner) Settle(Facts) Goal { return p }

// Plan implements [Goal].
func (p Planner) Plan(f Facts) Plan { return p(f) }
