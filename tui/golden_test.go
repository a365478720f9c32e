package tui

import (
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

func TestScreens(t *testing.T) {
	fail := func(p *flowtest.Pair) {
		p.B.Behave(func(b *flowtest.Behaviour) {
			b.WriteErrors = map[int]error{3: flowtest.Forbidden("ada", "gatewayservers", "liqo-tenant-rome")}
		})
	}
	for name, test := range map[string]struct {
		prepare func(*flowtest.Pair)
		reach   func(*driver)
	}{
		"plan":           {nil, func(d *driver) { d.keys("down", "down", "down", "down", "down") }},
		"plan-diff":      {nil, func(d *driver) { d.keys("down", "enter") }},
		"plan-confirm":   {nil, func(d *driver) { d.keys("a") }},
		"plan-preflight": {unfit, func(*driver) {}},
		"help":           {nil, func(d *driver) { d.keys("?") }},
		"apply":          {nil, func(d *driver) { d.keys("a", "y"); d.wait(4 * time.Second) }},
		"apply-stopped":  {connecting, func(d *driver) { d.keys("a", "y"); d.wait(4 * time.Second); d.keys("ctrl+c"); d.wait(time.Second) }},
		"apply-failed":   {fail, func(d *driver) { d.keys("a", "y"); d.wait(4 * time.Second) }},
	} {
		t.Run(name, func(t *testing.T) {
			for _, ascii := range []bool{false, true} {
				inBubble(t, session.Options{ASCII: ascii}, test.prepare, func(t *testing.T, d *driver) {
					test.reach(d)
					goldens(t, d, name, ascii)
				})
			}
		})
	}
}

// unfit is a pair of which neither can be connected.
func unfit(p *flowtest.Pair) {
	p.A.Behave(func(b *flowtest.Behaviour) { b.Unreachable = []flowtest.Window{{From: 1}} })
	p.B.Behave(func(b *flowtest.Behaviour) {
		b.Unreachable = []flowtest.Window{{From: 1}}
		b.Problem = &flows.Problem{Kind: flows.Unauthorized, Message: "https://172.18.0.20:6443 does not accept the credentials of context kind-milan", Fix: command.Text("log in to the cluster again")}
	})
}

func TestLiveScreens(t *testing.T) {
	for name, reach := range map[string]func(*driver){
		"live": func(*driver) {},
		"live-silent": func(d *driver) {
			d.pair.B.Behave(func(b *flowtest.Behaviour) { b.Unreachable = []flowtest.Window{{From: 1}} })
		},
		"live-stale": func(d *driver) {
			d.pair.B.Behave(func(b *flowtest.Behaviour) { b.NoReports = true })
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, ascii := range []bool{false, true} {
				inWorld(t, func(p *flowtest.Pair, w *world) session.Options {
					connectedPair(t)(p)
					w.replace("kind-rome", reporting{p.A, measured(172, "172.18.0.20:30020")})
					w.replace("kind-milan", reporting{p.B, measured(173, "172.18.0.10:40574")})
					return session.Options{A: refOf("kind-rome"), B: refOf("kind-milan"), ASCII: ascii}
				}, func(t *testing.T, d *driver) {
					d.wait(120 * time.Second)
					reach(d)
					d.wait(60 * time.Second)
					goldens(t, d, name, ascii)
				})
			}
		})
	}
}

// measured adds to a report what a real gateway measures; the figures follow
// from the time of the report, so that a screen is the same each time.
func measured(base int64, endpoint string) func(*wire.Report) {
	return func(r *wire.Report) {
		if r.Reason != wire.ReasonPinged {
			return
		}
		age := r.At.Sub(flowtest.Epoch())
		handshake := r.At.Truncate(2 * time.Minute)
		r.Handshake, r.Endpoint, r.Implementation, r.MTU = &handshake, endpoint, "kernel", 1340
		r.LatencyMicros = base*7 + int64(age/time.Second)*37%900
		r.Loss = 1.0 / 30
		r.ReceivedBytes, r.SentBytes = uint64(age/time.Millisecond)*1000, uint64(age/time.Millisecond)*250
	}
}
