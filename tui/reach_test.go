package tui

import (
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/simulated"
	"github.com/liqo-tui/liqo-tui/tui/session"
	"github.com/liqo-tui/liqo-tui/tui/wizard"
)

// onReach opens the last question of two connected clusters that can run pods.
func onReach(t *testing.T, ascii bool, prepare func(*flowtest.Pair), test func(*testing.T, *driver)) {
	t.Helper()
	inWorld(t, func(p *flowtest.Pair, w *world) session.Options {
		sharing(t)(p)
		offer(p.B, "cart", "10.244.0.8", true)
		prepare(p)
		p.Forget()
		w.replace("kind-rome", simulated.Equipped{Cluster: p.A})
		w.replace("kind-milan", simulated.Equipped{Cluster: p.B})
		return session.Options{A: refOf("kind-rome"), B: refOf("kind-milan"), ASCII: ascii}
	}, func(t *testing.T, d *driver) {
		d.wait(time.Second)
		test(t, d)
	})
}

func TestTheWizardReachesAService(t *testing.T) {
	for _, ascii := range []bool{false, true} {
		onReach(t, ascii, func(*flowtest.Pair) {}, func(t *testing.T, d *driver) {
			d.view(120, 40)
			d.has("Reach something? b chooses a Service")
			d.keys("b")
			d.wait(time.Second)
			d.has("rome shop/web exported already", "milan shop/cart", "Nothing changes before you have seen the plan", "enter call it")
			goldens(t, d, "reach-list", ascii)
			d.view(120, 40)
			d.keys("down", "down")
			d.has("enter show the plan")
			d.keys("enter")
			d.wait(time.Second)
			d.has("milan exports shop/cart", "pods of rome can call it", "Export it?", "kind: ServiceExport")
			goldens(t, d, "reach-plan", ascii)
			d.view(120, 40)
			d.keys("n")
			d.has("Reach something?")
			d.keys("enter")
			d.wait(time.Second)
			if log := d.pair.Log(); len(log) > 0 {
				t.Fatalf("got writes %v without a yes", log)
			}
			d.keys("y")
			d.wait(15 * time.Second)
			d.has("First answer from milan to a pod of rome: GET http://10.97.", "HTTP status 200", "milan exports shop/cart: 1 of 1 endpoints are ready", "curl http://10.97.", "liqo-tui service unexport shop/cart")
			goldens(t, d, "reach-answer", ascii)
			d.view(120, 40)
			d.keys("esc")
			d.at(wizard.Live)
			d.keys("esc")
			d.at(wizard.Clusters)
			if got, want := d.model.Summary(), "The exported Services stay exported. Nothing else was changed."; got != want {
				t.Errorf("got %q at the end, want %q", got, want)
			}
		})
	}
}

// A Service that does not answer is a result, and the way of its name says why.
func TestTheWizardSaysWhyAServiceIsNotReached(t *testing.T) {
	onReach(t, false, func(*flowtest.Pair) {}, func(t *testing.T, d *driver) {
		d.keys("b")
		d.wait(time.Second)
		d.keys("down", "enter") // the only pod of api is not ready, and it is exported already
		d.wait(15 * time.Second)
		d.view(120, 40)
		d.has("No answer to a pod of rome", "connection refused", "The way is broken at: EndpointSlices: no endpoint is ready", "liqo-tui service unexport shop/api")
		if log := d.pair.Log(); len(log) > 0 {
			t.Errorf("got writes %v", log)
		}
	})
}

// Where one cluster exchanges no Services, nothing is asked.
func TestTheWizardDoesNotAskWhereServicesAreOff(t *testing.T) {
	onReach(t, false, func(p *flowtest.Pair) {
		p.B.Behave(func(b *flowtest.Behaviour) { b.Services = false })
		p.Advance(20 * time.Second)
	}, func(t *testing.T, d *driver) {
		d.view(120, 40)
		d.hasNot("Reach something?")
		d.has("To reach a Service by name, milan has to exchange Services, too:", "liqo-tui install --services")
		d.keys("b")
		d.wait(time.Second)
		d.has("milan has no Services by name", "switch them on: liqo-tui install --services", "Nothing can be chosen")
		d.hasNot("shop/web")
		d.keys("enter")
		d.wait(time.Second)
		if log := d.pair.Log(); len(log) > 0 {
			t.Errorf("got writes %v", log)
		}
		d.keys("esc")
		d.at(wizard.Live)
	})
}

// Two clusters without Services are nothing to ask about.
func TestTheWizardIsSilentWhereNobodyWantsServices(t *testing.T) {
	inBubble(t, session.Options{}, connectedPair(t), func(_ *testing.T, d *driver) {
		d.hasNot("Reach something?", "exchange Services")
	})
}
