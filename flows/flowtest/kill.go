package flowtest

import (
	"errors"
	"slices"
	"testing"

	"github.com/liqo-tui/liqo-tui/flows"
)

// ErrKilled is the error of each write after the program was killed.
var ErrKilled = errors.New("killed")

// KilledAfter lets only the first n writes succeed.
func KilledAfter(n int) func(*Behaviour) {
	return func(b *Behaviour) {
		b.WriteErrors = map[int]error{}
		for i := range 100 {
			b.WriteErrors[n+1+i] = ErrKilled
		}
	}
}

// Command is an admin's command, and the state of the clusters before it.
type Command struct {
	Past func(*testing.T) *Pair
	Goal flows.Goal
	// World returns the facts about a pair that tests compare.
	World func(*Pair) []string
	// Then tests something else that must work in the end; nil for no test.
	Then func(*testing.T, *Pair)
}

// KilledAnywhere kills the program after each of its writes, on either cluster, or on both
// if together is set. It demands that the same command then reaches the same end as
// without a kill, and that one more run changes nothing.
func (c Command) KilledAnywhere(t *testing.T, together bool) {
	t.Helper()
	prepared := func() *Pair {
		p := c.Past(t)
		p.Settle()
		p.Forget()
		return p
	}
	whole := prepared()
	before := [2]int{whole.A.Writes(), whole.B.Writes()}
	MustRun(t, whole, c.Goal)
	whole.Settle()
	want, writes := c.World(whole), [2]int{len(whole.A.Log()), len(whole.B.Log())}
	if writes == [2]int{} {
		t.Fatal("it writes nothing")
	}
	for a := range writes[flows.A] + 1 {
		for b := range writes[flows.B] + 1 {
			if !together && a < writes[flows.A] && b < writes[flows.B] {
				continue
			}
			p := prepared()
			p.A.Behave(KilledAfter(before[flows.A] + a))
			p.B.Behave(KilledAfter(before[flows.B] + b))
			if _, err := Run(t, p, c.Goal); err != nil && !errors.Is(err, ErrKilled) {
				t.Fatalf("killed after %d and %d writes: got %v", a, b, err)
			}
			for _, cluster := range []*Cluster{p.A, p.B} {
				cluster.Behave(func(b *Behaviour) { b.WriteErrors = nil })
			}
			if _, err := Run(t, p, c.Goal); err != nil {
				t.Fatalf("killed after %d and %d writes, then run again: %v", a, b, err)
			}
			p.Settle()
			if got := c.World(p); !slices.Equal(got, want) {
				t.Fatalf("killed after %d and %d writes, then run again: got\n%q\nwant\n%q", a, b, got, want)
			}
			p.Forget()
			if _, err := Run(t, p, c.Goal); err != nil || len(p.Log()) > 0 {
				t.Fatalf("killed after %d and %d writes, run again, and once more: %v, wrote %v", a, b, err, p.Log())
			}
			if c.Then != nil {
				c.Then(t, p)
			}
		}
	}
}
