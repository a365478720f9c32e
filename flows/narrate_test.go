package flows_test

import (
	"fmt"
	"testing"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
)

func TestX(t *testing.T) {
	p := flowtest.NewPair()
	var last flows.Event
	emit := func(e flows.Event) {
		for _, r := range flows.Narrate(last, e) {
			fmt.Printf("%6.1fs %s %s %s %s\n", r.Elapsed.Seconds(), r.Type, r.Step.Side, e.Plan.ID(r.Step.Side), r.Text)
		}
		last = e
	}
	err := flows.Run(t.Context(), func(f flows.Facts) flows.Plan { return flows.PlanConnect(flows.Defaults(), f) }, p.A, p.B, emit, flows.Options{Now: p.Now})
	fmt.Println(err)
	for _, c := range p.Log() {
		fmt.Println(c)
	}
	fmt.Println(p.A.Names())
	last = flows.Event{}
	p.Forget()
	err = flows.Run(t.Context(), flows.PlanReset, p.A, p.B, emit, flows.Options{Now: p.Now})
	fmt.Println(err)
	for _, c := range p.Log() {
		fmt.Println(c)
	}
	p.Settle()
	fmt.Println(p.A.Names())
}
