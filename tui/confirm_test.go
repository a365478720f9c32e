package tui

import (
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/tui/session"
	"github.com/liqo-tui/liqo-tui/tui/wizard"
)

func protecting(names string) session.Options {
	return session.Options{Protected: func(ref flows.ContextRef) bool { return strings.Contains(names, ref.Name) }}
}

func TestOnlyTheNameOfAProtectedClusterIsAYes(t *testing.T) {
	for _, typed := range []string{"", "y", "yes", "kind-mila", "KIND-MILAN", "kind-rome", "kind-milan x"} {
		inBubble(t, protecting("kind-milan"), nil, func(t *testing.T, d *driver) {
			d.keys("a")
			d.has("Apply these changes?", "This cluster is protected", "kind-milan > ")
			d.hasNot("Yes, apply")
			for _, r := range typed {
				d.keys(string(r))
			}
			d.keys("enter")
			d.has("this is not kind-milan")
			d.keys("esc")
			if d.at(wizard.Plan); len(d.pair.Log()) > 0 {
				t.Errorf("%q: got writes %v", typed, d.pair.Log())
			}
		})
	}
	inBubble(t, protecting("kind-milan"), nil, func(t *testing.T, d *driver) {
		d.keys("a", "k", "x", "backspace")
		d.send(tea.PasteMsg{Content: "ind-milan\nand more"})
		d.keys("enter")
		d.at(wizard.Apply)
	})
}

func TestBothNamesOfProtectedClusters(t *testing.T) {
	inBubble(t, protecting("kind-milan kind-rome"), nil, func(t *testing.T, d *driver) {
		d.keys("a")
		d.has("Both clusters are protected", "kind-rome kind-milan > ")
		for _, r := range "kind-rome kind-milan" {
			d.keys(string(r))
		}
		d.keys("enter")
		d.at(wizard.Apply)
	})
}

// What is taken away on one side alone asks for that side's name.
func TestAProtectedClusterThatIsLeftAloneIsNotAskedFor(t *testing.T) {
	gone := func(p *flowtest.Pair) {
		connectedPair(t)(p)
		p.B.Behave(func(b *flowtest.Behaviour) { b.Unreachable = []flowtest.Window{{From: 1}} })
	}
	inBubble(t, protecting("kind-milan"), gone, func(t *testing.T, d *driver) {
		d.send(session.VisitMsg{Pair: [2]flows.ContextRef{refOf("kind-rome"), refOf("kind-milan")}, Goal: session.Reset})
		d.keys("O", "a")
		d.has("Apply these changes?", "Yes, reset")
	})
}

func TestTheListSaysWhatIsProtected(t *testing.T) {
	inWorld(t, func(*flowtest.Pair, *world) session.Options { return protecting("kind-milan") }, func(t *testing.T, d *driver) {
		d.toChoice()
		d.has("ready, protected")
		d.keys("down")
		d.has("you type its name")
	})
}
