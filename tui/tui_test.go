package tui

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/connect"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/tui/session"
	"github.com/liqo-tui/liqo-tui/tui/wizard"
)

func TestNothingIsAppliedWithoutAYes(t *testing.T) {
	for name, keys := range map[string][]string{
		"the plan is only looked at":     {"down", "enter", "esc", "pgdown", "?", "esc"},
		"the answer is no":               {"a", "n"},
		"the answer is esc":              {"a", "esc"},
		"enter twice is no answer":       {"enter", "enter"},
		"a key that is held down":        slices.Repeat([]string{"enter"}, 50),
		"the choice goes there and back": {"a", "tab", "tab", "tab", "pause", "enter"},
		"y without a question":           {"y"},
		"help hides the question":        {"a", "?", "y"},
		"the program is left":            {"a", "ctrl+c", "y"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, session.Options{}, nil, func(t *testing.T, d *driver) {
				d.keys(keys...)
				d.wait(5 * time.Second)
				if log := d.pair.Log(); len(log) > 0 {
					t.Errorf("got writes %v, want none", log)
				}
			})
		})
	}
}

func TestAScreenThatIsTooSmallAnswersNothing(t *testing.T) {
	inBubble(t, session.Options{}, nil, func(t *testing.T, d *driver) {
		d.view(38, 8)
		d.keys("a", "y")
		d.wait(3 * time.Second)
		if log := d.pair.Log(); len(log) > 0 {
			t.Errorf("got writes %v, want none", log)
		}
		d.has("plan ready")
		d.keys("q")
		if !d.quit {
			t.Error("q does not quit")
		}
	})
}

func TestConnecting(t *testing.T) {
	for name, yes := range map[string][]string{
		"with y":            {"a", "y"},
		"with enter":        {"a", "pause", "enter"},
		"after a hasty one": {"a", "enter", "pause", "enter"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, session.Options{}, nil, func(t *testing.T, d *driver) {
				d.has("Plan", "8 to create", "Namespace liqo-tenant-milan")
				d.keys("a")
				d.has("Apply these changes?", "GatewayServer rome")
				d.keys(yes[1:]...)
				d.has("Apply", "of 13 done", "ctrl+c stop")
				d.wait(30 * time.Second)
				d.has("Live", "untested: each gateway gets answers", "253.18.0.0/16")
				d.hasNot("to see them")
				d.keys("q")
				if !d.quit || d.model.Err() != nil || !d.model.Changed() {
					t.Errorf("got quit %v, error %v, changed %v", d.quit, d.model.Err(), d.model.Changed())
				}
				if got := d.model.Summary(); !strings.Contains(got, "rome says: tunnel up; milan says: tunnel up") {
					t.Errorf("got summary %q", got)
				}
			})
		})
	}
}

func TestAConnectionThatExistsIsShownAtOnceAndKept(t *testing.T) {
	prepare := func(p *flowtest.Pair) { connectPair(t, p, flows.A, corev1.ServiceTypeLoadBalancer) }
	inBubble(t, session.Options{}, prepare, func(t *testing.T, d *driver) {
		d.has("Live", "untested: each gateway gets answers")
		d.hasNot("to see them")
		d.keys("p")
		d.has("Nothing is left to do", "server on rome, LoadBalancer")
		d.keys("a", "y")
		d.keys("esc")
		d.has("Live")
		if log := d.pair.Log(); len(log) > 0 {
			t.Errorf("got writes %v, want none", log)
		}
	})
}

func TestWhatKeepsAPlanFromBeingMadeIsACheckThatFailed(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(*flowtest.Pair)
		want    []string
	}{
		"a cluster does not answer": {
			func(p *flowtest.Pair) {
				p.A.Behave(func(b *flowtest.Behaviour) { b.Unreachable = []flowtest.Window{{From: 1}} })
			},
			[]string{"1 failed", "FAIL", "LT-P001", "does not answer", "firewall or VPN"},
		},
		"both are the same cluster": {
			func(p *flowtest.Pair) { p.B.Be(func(f *flows.ClusterFacts) { f.UID = "uid-of-rome" }) },
			[]string{"LT-P002", "the same cluster", "--remote-context"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, session.Options{}, test.prepare, func(t *testing.T, d *driver) {
				d.has(test.want...)
				d.keys("a", "y")
				if log := d.pair.Log(); len(log) > 0 {
					t.Errorf("got writes %v, want none", log)
				}
			})
		})
	}
}

func TestAFailedCheckPassesWhenTheClusterAnswers(t *testing.T) {
	prepare := func(p *flowtest.Pair) {
		p.A.Behave(func(b *flowtest.Behaviour) { b.Unreachable = []flowtest.Window{{From: 1, For: 2}} })
	}
	inBubble(t, session.Options{}, prepare, func(_ *testing.T, d *driver) {
		d.has("does not answer")
		d.keys("r")
		d.has("does not answer")
		d.wait(3 * time.Second)
		d.hasNot("does not answer", "FAIL")
		d.keys("enter", "enter")
		d.has("8 to create")
	})
}

// connecting is a program whose run waits for the operators.
func connecting(p *flowtest.Pair) {
	p.A.Behave(func(b *flowtest.Behaviour) { b.Silent = true })
	p.B.Behave(func(b *flowtest.Behaviour) { b.Silent = true })
}

func TestCtrlCStopsAndContinues(t *testing.T) {
	inBubble(t, session.Options{}, connecting, func(t *testing.T, d *driver) {
		d.keys("a", "y")
		d.wait(5 * time.Second)
		d.has("waiting", "now:")
		d.keys("q")
		d.has("ctrl+c stops safely")
		d.keys("ctrl+c")
		d.wait(time.Second)
		d.has("stopped", "What was applied is kept", "┃ r  continue", "x  remove", "q  leave it as it is")
		writes := len(d.pair.Log())
		d.wait(5 * time.Second)
		if got := len(d.pair.Log()); got != writes {
			t.Errorf("got %d writes after the stop, want none", got-writes)
		}
		connectedAgain := func(b *flowtest.Behaviour) { b.Silent = false }
		d.pair.A.Behave(connectedAgain)
		d.pair.B.Behave(connectedAgain)
		d.keys("enter") // on the first choice
		d.wait(30 * time.Second)
		d.has("Live", "untested: each gateway gets answers")
	})
}

func TestStoppedIsLeftWithAnError(t *testing.T) {
	for _, key := range []string{"q", "ctrl+c"} {
		t.Run(key, func(t *testing.T) {
			inBubble(t, session.Options{}, connecting, func(t *testing.T, d *driver) {
				d.keys("a", "y")
				d.wait(2 * time.Second)
				d.keys("ctrl+c")
				d.wait(time.Second)
				d.has("stopped")
				d.keys(key)
				if !d.quit || !errors.Is(d.model.Err(), ErrInterrupted) {
					t.Errorf("got quit %v, error %v", d.quit, d.model.Err())
				}
				if got := d.model.Summary(); !strings.Contains(got, "What was applied stays") || !strings.Contains(got, "network connect") {
					t.Errorf("got summary %q", got)
				}
			})
		})
	}
}

// stuck is a cluster that holds every write until it is told to go on.
type stuck struct {
	*flowtest.Cluster
	writing chan struct{} // closed by the first write
	goOn    chan struct{}
}

func (s *stuck) Apply(ctx context.Context, objects []wire.Object) ([]flows.Change, error) {
	select {
	case <-s.writing:
	default:
		close(s.writing)
	}
	<-s.goOn
	return s.Cluster.Apply(ctx, objects)
}

// withStuckA is a program of which cluster A holds its writes.
func withStuckA(t *testing.T, test func(*testing.T, *driver, *stuck)) {
	var s *stuck
	inWorld(t, func(p *flowtest.Pair, w *world) session.Options {
		s = &stuck{Cluster: p.A, writing: make(chan struct{}), goOn: make(chan struct{})}
		w.replace("kind-rome", s)
		return session.Options{A: refOf("kind-rome"), B: refOf("kind-milan")}
	}, func(t *testing.T, d *driver) {
		d.keys("a", "y")
		<-s.writing
		test(t, d, s)
	})
}

func TestTheFirstCtrlCWaitsForTheRequestUnderWay(t *testing.T) {
	withStuckA(t, func(_ *testing.T, d *driver, s *stuck) {
		d.keys("ctrl+c")
		d.has("stopping", "ctrl+c again to leave at once")
		d.wait(2 * time.Second)
		d.has("stopping")
		close(s.goOn)
		d.wait(time.Second)
		d.has("stopped", "What was applied is kept")
	})
}

func TestTheSecondCtrlCLeavesAtOnce(t *testing.T) {
	withStuckA(t, func(t *testing.T, d *driver, s *stuck) {
		d.keys("ctrl+c", "ctrl+c")
		if !d.quit || !errors.Is(d.model.Err(), ErrInterrupted) {
			t.Errorf("got quit %v, error %v", d.quit, d.model.Err())
		}
		close(s.goOn)
	})
}

func TestASignalEndsTheProgramAfterTheRequestUnderWay(t *testing.T) {
	withStuckA(t, func(t *testing.T, d *driver, s *stuck) {
		d.send(StopMsg{})
		d.wait(time.Second)
		if d.quit {
			t.Fatal("it ended with a request under way")
		}
		close(s.goOn)
		d.wait(time.Second)
		if !d.quit || !errors.Is(d.model.Err(), ErrInterrupted) || !d.model.Changed() {
			t.Errorf("got quit %v, error %v, changed %v", d.quit, d.model.Err(), d.model.Changed())
		}
	})
}

func TestASignalOnAnyOtherScreenEndsTheProgram(t *testing.T) {
	inBubble(t, session.Options{}, nil, func(t *testing.T, d *driver) {
		d.send(StopMsg{})
		if !d.quit || !errors.Is(d.model.Err(), ErrInterrupted) || d.model.Changed() {
			t.Errorf("got quit %v, error %v, changed %v", d.quit, d.model.Err(), d.model.Changed())
		}
	})
}

func TestAFailureIsACardAndCanBeRunAgain(t *testing.T) {
	prepare := func(p *flowtest.Pair) {
		p.B.Behave(func(b *flowtest.Behaviour) {
			b.WriteErrors = map[int]error{3: flowtest.Forbidden("ada", "gatewayservers", "liqo-tenant-rome")}
		})
	}
	inBubble(t, session.Options{}, prepare, func(_ *testing.T, d *driver) {
		d.keys("a", "y")
		d.wait(3 * time.Second)
		d.has("failed", "GatewayServer rome", "milan", "Why", `user "ada" cannot create`, "What was applied is kept", "┃ r  run again")
		d.keys("r") // the fourth write is allowed
		d.wait(30 * time.Second)
		d.has("Live", "untested: each gateway gets answers")
	})
}

func TestAFailureIsTheErrorOfWhoLeaves(t *testing.T) {
	prepare := func(p *flowtest.Pair) {
		p.B.Behave(func(b *flowtest.Behaviour) { b.LoadBalancerPending = true })
	}
	inBubble(t, session.Options{Timeout: 20 * time.Second}, prepare, func(t *testing.T, d *driver) {
		d.keys("C", "down", "left", "enter") // LoadBalancer
		d.has("server on milan, LoadBalancer")
		d.keys("a", "y")
		d.wait(10 * time.Second)
		d.has("now: the load balancer has given no address")
		d.wait(15 * time.Second)
		d.has("gave up after 20s", "Fix")
		d.keys("q")
		var step *flows.StepError
		if !d.quit || !errors.As(d.model.Err(), &step) || step.Step.Kind != flows.FailedTimeout {
			t.Errorf("got quit %v, error %v", d.quit, d.model.Err())
		}
	})
}

func TestTheYesIsForThePlanThatWasShown(t *testing.T) {
	inBubble(t, session.Options{}, nil, func(t *testing.T, d *driver) {
		d.keys("a")
		// Somebody else makes the namespace, with a Configuration to change.
		tenant := d.pair.A.Tenant()
		d.pair.A.Put(render.TenantNamespace(tenant), render.Configuration(tenant, render.Networks{}))
		d.pair.Forget()
		d.keys("y")
		d.wait(time.Second)
		if log := d.pair.Log(); len(log) == 0 {
			return // asked again
		}
		t.Errorf("got writes %v of a plan nobody saw", d.pair.Log())
	})
}

func TestAChangedPlanIsShownAgain(t *testing.T) {
	prepare := func(p *flowtest.Pair) {
		tenant := p.A.Tenant()
		p.A.Put(render.TenantNamespace(tenant), render.Configuration(tenant, p.B.Facts().Networks))
		p.Forget()
	}
	inBubble(t, session.Options{}, prepare, func(t *testing.T, d *driver) {
		d.keys("a")
		d.pair.A.Put(render.Configuration(d.pair.A.Tenant(), render.Networks{Pod: d.pair.A.Facts().Networks.Pod}))
		d.pair.Forget()
		d.keys("y")
		d.wait(time.Second)
		d.has("Plan", "have changed since you saw the plan", "update Configuration milan")
		if log := d.pair.Log(); len(log) > 0 {
			t.Errorf("got writes %v of a plan nobody saw", log)
		}
	})
}

func TestACopiedCommandIsWhatTheAdminSees(t *testing.T) {
	inBubble(t, session.Options{}, nil, func(t *testing.T, d *driver) {
		d.keys("c")
		if want := "--server-service-type NodePort"; !strings.Contains(d.clip, want) {
			t.Errorf("got %q copied, want it to say %s", d.clip, want)
		}
		d.keys("q")
		if got := d.model.Summary(); !strings.Contains(got, "Nothing was changed") || !strings.Contains(got, d.clip) {
			t.Errorf("got summary %q", got)
		}
	})
}

func TestTheSelectionStaysWithItsStep(t *testing.T) {
	inBubble(t, session.Options{}, nil, func(t *testing.T, d *driver) {
		d.keys("down", "down", "down", "down", "down")
		d.has("┃ · later    milan create  GatewayServer rome")
		d.view(60, 14)
		d.has("┃ · later    milan create  GatewayServer rome")
		d.pair.A.Put(render.TenantNamespace(d.pair.A.Tenant()))
		d.wait(time.Second)
		d.view(120, 40)
		d.has("┃ · later    milan create  GatewayServer rome", "✓ done     rome  -       Namespace")
	})
}

func TestTextOfAClusterCantDrawOnTheTerminal(t *testing.T) {
	hostile := "\x1b[2J\x1b]0;title\a\r\n\tnext \u202e line \x9b31m"
	prepare := func(p *flowtest.Pair) {
		p.A.Behave(func(b *flowtest.Behaviour) { b.PodWaiting = hostile })
		p.B.Behave(func(b *flowtest.Behaviour) { b.PodWaiting = hostile })
	}
	for _, ascii := range []bool{false, true} {
		inBubble(t, session.Options{ASCII: ascii}, prepare, func(t *testing.T, d *driver) {
			d.keys("a", "y")
			d.wait(10 * time.Second)
			d.has("[2J") // as text: the escape is gone
			if raw := d.model.View().Content; strings.Contains(raw, "\x1b[2J") || strings.Contains(raw, "\u202e") {
				t.Errorf("it reaches the terminal: %q", raw)
			}
		})
	}
}

func TestASCIIIsAllThatIsShown(t *testing.T) {
	inBubble(t, session.Options{ASCII: true}, connectedPair(t), func(t *testing.T, d *driver) {
		for _, keys := range [][]string{{}, {"p"}, {"?"}} {
			d.keys(keys...)
			for _, size := range [][2]int{{120, 40}, {80, 24}, {40, 12}, {30, 5}} {
				screen := d.view(size[0], size[1])
				if i := strings.IndexFunc(screen, func(r rune) bool { return r > 0x7e }); i >= 0 {
					t.Errorf("got %q at %dx%d", screen[i:min(len(screen), i+10)], size[0], size[1])
				}
			}
		}
	})
}

func TestNoSizeAndStrangeSizes(t *testing.T) {
	inBubble(t, session.Options{}, connectedPair(t), func(t *testing.T, d *driver) {
		for _, size := range [][2]int{{0, 0}, {1, 1}, {40, 12}, {39, 12}, {300, 100}, {40, 500}, {-1, -1}} {
			d.send(tea.WindowSizeMsg{Width: size[0], Height: size[1]})
			if size[0] > 0 {
				d.screen()
			} else if got := d.model.View().Content; got != "" {
				t.Errorf("got %q at %v", got, size)
			}
		}
	})
}

func TestWhatWasStoppedCanBeRemovedAfterAQuestion(t *testing.T) {
	inBubble(t, session.Options{}, connecting, func(t *testing.T, d *driver) {
		d.keys("a", "y")
		d.wait(3 * time.Second)
		d.keys("ctrl+c")
		d.wait(time.Second)
		d.keys("down", "enter")
		d.at(wizard.Plan)
		d.has("network reset", "to delete")
		d.keys("enter")
		d.has("Apply these changes? The connection ends.")
		d.keys("down", "pause", "enter")
		d.wait(20 * time.Second)
		d.has("not connected")
		if names := append(d.pair.A.Names(), d.pair.B.Names()...); len(names) > 0 {
			t.Errorf("got %v left", names)
		}
	})
}

func TestATunnelThatDoesNotComeUpCanBeTriedTheOtherWayRound(t *testing.T) {
	prepare := func(p *flowtest.Pair) { p.B.Behave(func(b *flowtest.Behaviour) { b.WrongKey = true }) }
	inBubble(t, session.Options{Timeout: 20 * time.Second}, prepare, func(t *testing.T, d *driver) {
		d.keys("a", "y")
		d.wait(30 * time.Second)
		d.has("LT-E041", "swap server and client")
		d.keys("?")
		d.has("swap server and client") // help has room for all of it
		d.keys("esc")
		d.keys("R")
		d.at(wizard.Plan)
		d.has("server on rome", "replace GatewayServer")
		if got := d.model.wizard.Current.Params.Server; got != flows.A {
			t.Errorf("got server %s", got)
		}
	})
}

// The admin has left the server's side to facts, and no packet reaches it.
func TestTheWizardSwapsTheRolesWhereTheDialIsInVain(t *testing.T) {
	prepare := func(p *flowtest.Pair) { p.B.Behave(func(b *flowtest.Behaviour) { b.Firewalled = true }) }
	inBubble(t, session.Options{}, prepare, func(t *testing.T, d *driver) {
		d.keys("a", "y")
		d.wait(40 * time.Second)
		d.at(wizard.Plan)
		d.has("server on rome", "rome hosts the server now, because its gateway got no answer from milan for 20s", "replace GatewayServer")
		d.keys("a", "y")
		d.wait(30 * time.Second)
		d.at(wizard.Live)
		if f := flowtest.Facts(d.pair); !flows.Live(f.End(flows.A).Server) || flows.Live(f.End(flows.B).Server) {
			t.Error("the server is not on rome alone")
		}
	})
}

func TestAnotherAdminOnTheSamePairIsNoObstacle(t *testing.T) {
	inBubble(t, session.Options{}, nil, func(t *testing.T, d *driver) {
		d.keys("a", "y")
		d.wait(2 * time.Second)
		// The other one wants the same, at the same time, from another machine.
		params := flows.Defaults()
		params.ServiceType = corev1.ServiceTypeNodePort
		other := make(chan error, 1)
		go func() {
			other <- engine.Run(t.Context(), connect.Goal{Params: params}, d.pair.A, d.pair.B, func(engine.Event) {}, engine.Options{Now: d.pair.Now})
		}()
		d.wait(40 * time.Second)
		d.at(wizard.Live)
		d.has("untested: each gateway gets answers")
		if err := <-other; err != nil {
			t.Errorf("the other admin got %v", err)
		}
	})
}
