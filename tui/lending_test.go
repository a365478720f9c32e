package tui

import (
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/tui/session"
	"github.com/liqo-tui/liqo-tui/tui/wizard"
)

// withLiqo has Liqo run on both clusters.
func withLiqo(p *flowtest.Pair) {
	for _, c := range []*flowtest.Cluster{p.A, p.B} {
		c.Be(func(f *flows.ClusterFacts) { f.Software = flows.Liqo })
	}
}

// Where Liqo runs on both, the wizard asks whether to lend resources, too; the plan says
// what the other cluster may do then, and live and dashboard what became of it.
func TestTheWizardLendsResources(t *testing.T) {
	inBubble(t, session.Options{}, withLiqo, func(_ *testing.T, d *driver) {
		d.view(120, 60)
		d.at(wizard.Plan)
		d.keys("C")
		d.at(wizard.Settings)
		d.has("(•) connect pods only")
		d.hasNot("CPUs")
		d.to("Purpose")
		d.keys("right")
		d.has("(•) rome also runs pods on milan", "CPUs")
		d.to("CPUs")
		d.keys("x", "enter")
		d.has("want a quantity")
		d.keys("backspace", "3", "enter")
		d.at(wizard.Plan)
		d.has("milan will let rome ask it", "but nothing outside of them", "in all: cpu 3", "ResourceSlice milan")
		d.keys("enter", "y")
		d.wait(60 * time.Second)
		d.at(wizard.Live)
		d.has("rome uses resources of milan", "milan: Ready", "cpu", "0 of 3", "milan lends resources to rome", "accepted")
		d.keys("d")
		d.wait(time.Second)
		d.keys("enter")
		d.has("rome uses resources of milan", "0 of 3", "milan lends resources to rome")
	})
	inBubble(t, session.Options{}, nil, func(_ *testing.T, d *driver) {
		d.keys("C")
		d.at(wizard.Settings)
		d.hasNot("Purpose")
	})
}
