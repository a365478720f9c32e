package tui

import (
	"testing"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/tui/session"
	"github.com/liqo-tui/liqo-tui/tui/wizard"
)

func TestWhatWasChosenIsOfferedTheNextTime(t *testing.T) {
	var kept flows.Params
	inChoice(t, nil, func(t *testing.T, d *driver) {
		none := func(when string) {
			t.Helper()
			if a, b, p, ok := d.model.Answers(); ok {
				t.Errorf("%s: got %v %v %+v, want no answers", when, a, b, p)
			}
		}
		d.keys("enter", "down", "enter")
		none("before any was given")
		d.keys("n", "C", "left", "up", "up", "ctrl+u") // the server, and the MTU
		for _, digit := range "1280" {
			d.keys(string(digit))
		}
		none("what is only tried in the form")
		d.keys("enter")
		d.at(wizard.Plan)
		none("a plan that was only looked at")
		d.keys("a", "pause", "n")
		none("a plan that got a no")
		d.keys("a", "pause", "y")
		a, b, p, ok := d.model.Answers()
		if !ok || a != refOf("kind-rome") || b != refOf("kind-milan") || p.MTU != 1280 || p.Server != flows.A {
			t.Errorf("got %v %v %+v %v", a, b, p, ok)
		}
		if want := flows.FieldMTU | flows.FieldServer; p.Given != want {
			t.Errorf("got the fields %b, want %b", p.Given, want)
		}
		kept = p
	})
	again := func(prepare func(*flowtest.Pair)) func(*flowtest.Pair, *world) session.Options {
		return func(p *flowtest.Pair, _ *world) session.Options {
			if prepare != nil {
				prepare(p)
			}
			return session.Options{Answers: func(a, b flows.ContextRef, p flows.Params) (flows.Params, bool) {
				if a != refOf("kind-rome") || b != refOf("kind-milan") {
					return p, false
				}
				p.MTU, p.Server, p.Given = kept.MTU, kept.Server, kept.Given
				return p, true
			}}
		}
	}
	inWorld(t, again(nil), func(t *testing.T, d *driver) {
		d.at(wizard.Plan)
		d.has("what you chose for these clusters the last time", "server on rome")
		d.keys("C")
		d.has("(•) rome", "1280")
		d.keys("enter")
		d.has("server on rome")
	})
	// A connection that there is keeps its own settings.
	inWorld(t, again(connectedPair(t)), func(t *testing.T, d *driver) {
		d.keys("enter")
		d.keys("down", "enter")
		d.at(wizard.Live)
		d.hasNot("to see them")
	})
}
