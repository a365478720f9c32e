package tui

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/sleep"
	"github.com/liqo-tui/liqo-tui/tui/session"
	"github.com/liqo-tui/liqo-tui/tui/wizard"
)

// fresh is a program that was started without naming a cluster.
func fresh(prepare func(*flowtest.Pair, *world)) func(*flowtest.Pair, *world) session.Options {
	return func(p *flowtest.Pair, w *world) session.Options {
		if prepare != nil {
			prepare(p, w)
		}
		return session.Options{}
	}
}

// inChoice is a program whose admin chooses the two clusters, also if there are only two.
func inChoice(t *testing.T, prepare func(*flowtest.Pair, *world), test func(*testing.T, *driver)) {
	inWorld(t, fresh(prepare), func(t *testing.T, d *driver) {
		d.toChoice()
		test(t, d)
	})
}

// oslo is a third cluster.
func oslo() *flowtest.Cluster {
	c := flowtest.NewPair().A
	c.Be(func(f *flows.ClusterFacts) { f.ID, f.UID = "oslo", "uid-of-oslo" })
	return c
}

// toChoice shows the list of clusters also if the program has chosen the only pair.
func (d *driver) toChoice() {
	if d.model.wizard.Step != wizard.Clusters {
		d.keys("esc")
	}
	d.at(wizard.Clusters)
}

func TestArrowsAndEnterConnectTwoClusters(t *testing.T) {
	inChoice(t, nil, func(t *testing.T, d *driver) {
		d.has("Choose the first of the two clusters", "┃ ", "kind-rome", "kind-milan", "ready")
		d.keys("enter")
		d.has("kind-rome is chosen. Choose the other cluster")
		d.keys("down", "enter")
		d.at(wizard.Plan)
		d.has("Apply these changes?", "┃ Yes, apply", "8 to create", "passed")
		d.keys("n")
		d.has("Apply: 8 changes", "As a command: liqo-tui network connect --context kind-rome", "--remote-context kind-milan")
		d.keys("i")
		d.has("passed", "LT-P001")
		d.keys("enter", "enter")
		d.has("Apply these changes?", "┃ Yes, apply")
		d.keys("pause", "enter")
		d.wait(30 * time.Second)
		d.at(wizard.Live)
		d.has("untested: each gateway gets answers")
	})
}

// The first key never changes anything.
func TestTwoKeysConnectTheOnlyTwoClusters(t *testing.T) {
	inWorld(t, fresh(nil), func(t *testing.T, d *driver) {
		d.at(wizard.Plan)
		d.has("kind-rome  https://172.18.0.10:6443", "kind-milan  https://172.18.0.20:6443", "liqo-tui chose these two", "passed")
		d.keys("enter")
		d.has("Apply these changes?")
		d.keys("pause", "enter")
		d.wait(30 * time.Second)
		d.at(wizard.Live)
	})
	// More than one pair is the admin's choice, also as long as there may be another.
	for name, prepare := range map[string]func(*flowtest.Pair, *world){
		"three clusters": func(_ *flowtest.Pair, w *world) {
			w.add(session.Context{Ref: refOf("kind-oslo"), Server: "https://172.18.0.30:6443"}, oslo())
		},
		"one has not answered": func(p *flowtest.Pair, w *world) {
			w.add(session.Context{Ref: refOf("edge"), Server: "https://192.0.2.1:6443"}, hanging{p.B})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, fresh(prepare), func(_ *testing.T, d *driver) {
				d.at(wizard.Clusters)
				d.has("Choose the first of the two clusters")
			})
		})
	}
}

func TestAClusterThatCantBeChosenSaysWhy(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(*flowtest.Pair, *world)
		want    string
	}{
		"itself": {func(_ *flowtest.Pair, w *world) { w.contexts = w.contexts[:1] }, "kind-rome can't be chosen: it is chosen already"},
		"the same cluster through another context": {func(p *flowtest.Pair, w *world) {
			w.contexts = w.contexts[:1]
			w.add(session.Context{Ref: refOf("rome-as-root")}, p.A)
		}, "rome-as-root can't be chosen: it is the same cluster as rome, seen through another context"},
		"it calls itself the same": {func(p *flowtest.Pair, _ *world) {
			p.B.Be(func(f *flows.ClusterFacts) { f.ID = "rome" })
		}, `it calls itself "rome", as kind-rome does`},
		"no answer": {func(p *flowtest.Pair, _ *world) {
			p.B.Behave(func(b *flowtest.Behaviour) { b.Unreachable = []flowtest.Window{{From: 1}} })
		}, "kind-milan can't be chosen: https://172.18.0.20:6443"},
		"no answer yet": {func(p *flowtest.Pair, w *world) { w.replace("kind-milan", hanging{p.B}) }, "it has not answered yet"},
		"its user is missing": {func(_ *flowtest.Pair, w *world) {
			w.contexts[1].Problem = `context "kind-milan" names user "ada", which is not there`
		}, `kind-milan can't be chosen: context "kind-milan" names user "ada"`},
		"installed in another namespace": {func(p *flowtest.Pair, _ *world) {
			p.B.Bare()
			p.B.Be(func(f *flows.ClusterFacts) {
				f.Elsewhere = flows.ElsewhereFacts{Software: flows.Operator, Namespace: "network"}
			})
		}, "kind-milan can't be chosen: liqo-tui is installed in namespace network, not in liqo. To do:"},
		"it went away": {func(_ *flowtest.Pair, w *world) { delete(w.clusters, refOf("kind-milan")) }, "no context kind-milan"},
	} {
		t.Run(name, func(t *testing.T) {
			inChoice(t, test.prepare, func(t *testing.T, d *driver) {
				d.keys("enter", "down", "enter")
				d.has(test.want)
				d.at(wizard.Clusters)
			})
		})
	}
}

// waiting is a cluster whose credentials plug-in waits for a person.
type waiting struct{ engine.Cluster }

func (w waiting) Observe(ctx context.Context) (flows.ClusterFacts, error) {
	<-ctx.Done()
	return flows.ClusterFacts{Problem: &flows.Problem{Kind: flows.Unauthorized, Word: "plug-in waits", Message: "credentials plug-in aws: it is still running"}}, ctx.Err()
}

// Nobody has refused who has no credentials: the state says what is wrong with the plug-in.
func TestAMissingPluginIsNoRefusal(t *testing.T) {
	fails := func(problem flows.Problem) func(*flowtest.Pair, *world) {
		return func(p *flowtest.Pair, _ *world) {
			p.B.Behave(func(b *flowtest.Behaviour) { b.Unreachable, b.Problem = []flowtest.Window{{From: 1}}, &problem })
		}
	}
	for name, test := range map[string]struct {
		prepare func(*flowtest.Pair, *world)
		word    string
		why     string
	}{
		"it is not there": {
			fails(flows.Problem{Kind: flows.Unauthorized, Word: "plug-in missing", Message: "credentials plug-in aws: it is not installed"}),
			"plug-in missing", "it is not installed",
		},
		"it waits": {func(p *flowtest.Pair, w *world) { w.replace("kind-milan", waiting{p.B}) }, "plug-in waits", "it is still running"},
		"the server has refused": {
			fails(flows.Problem{Kind: flows.Unauthorized, Message: "https://172.18.0.20:6443 does not accept the credentials"}),
			"login refused", "does not accept",
		},
	} {
		t.Run(name, func(t *testing.T) {
			inChoice(t, test.prepare, func(t *testing.T, d *driver) {
				d.keys("down")
				d.wait(session.AskTimeout + time.Second)
				d.has("✗ "+test.word, test.why)
				if test.word != "login refused" {
					d.hasNot("refused", "login")
				}
				if n := strings.Count(d.screen(), "172.18.0.20"); n != 1 {
					t.Errorf("the server is named %d times:\n%s", n, d.screen())
				}
			})
		})
	}
}

// crowd adds contexts of clusters that do not answer.
func crowd(p *flowtest.Pair, w *world) {
	for i := range 45 {
		w.add(session.Context{Ref: refOf(fmt.Sprintf("edge-%02d", i)), Server: fmt.Sprintf("https://192.0.2.%d:6443", i)}, hanging{p.B})
	}
}

func TestClustersThatDoNotAnswerHoldNobodyUp(t *testing.T) {
	inChoice(t, crowd, func(t *testing.T, d *driver) {
		d.has("kind-rome", "ready", "edge-00", "asking") // before any time has passed
		d.keys("enter", "enter")                         // the selection has moved on to what can be B
		d.at(wizard.Plan)
		d.wait(20 * time.Second)
		d.has("Apply these changes?")
		d.keys("n", "esc")
		d.wait(16 * time.Second)
		d.has("no answer")
	})
}

func TestOnlyWhatIsShownIsWatched(t *testing.T) {
	inChoice(t, crowd, func(t *testing.T, d *driver) {
		d.keys("enter", "enter")
		var watched []string
		for _, c := range d.model.fleet.Members {
			if c.Watch.On() {
				watched = append(watched, c.Ref.Name)
			}
		}
		if want := []string{"kind-rome", "kind-milan"}; !slices.Equal(watched, want) {
			t.Errorf("got watches of %v, want %v", watched, want)
		}
	})
}

func TestTheFilterFindsClustersByAnyOfTheirNames(t *testing.T) {
	inChoice(t, crowd, func(t *testing.T, d *driver) {
		d.keys("/", "m", "i", "l", "a", "n")
		d.has("filter: milan", "┃ ", "kind-milan")
		d.hasNot("kind-rome", "edge-00")
		d.keys("enter", "enter")
		d.has("kind-milan is chosen", "edge-00") // the filter has done its work
		d.keys("/")
		d.send(tea.PasteMsg{Content: "192.0.2.7\nand a novel " + strings.Repeat("x", 100000)})
		d.has("filter: 192.0.2.7", "edge-07")
		d.keys("esc")
		d.has("edge-05")
	})
}

func TestAFileIsAdded(t *testing.T) {
	prepare := func(p *flowtest.Pair, w *world) {
		turin := session.Context{Ref: flows.ContextRef{File: "/mnt/usb/turin.yaml", Name: "kind-rome"}, File: "/mnt/usb/turin.yaml"}
		w.files[turin.Ref.File] = []session.Context{turin}
		w.clusters[turin.Ref] = p.B
	}
	inChoice(t, prepare, func(t *testing.T, d *driver) {
		d.keys("F")
		d.send(tea.PasteMsg{Content: "/mnt/usb/nothing.yaml"})
		d.keys("enter")
		d.has("Which kubeconfig file?", "> /mnt/usb/nothing.yaml", "/mnt/usb/nothing.yaml: file does not exist")
		d.keys("ctrl+u")
		d.hasNot("file does not exist")
		d.keys("enter")
		d.has("type the path of a file")
		d.send(tea.PasteMsg{Content: "/mnt/usb/turin.yaml"})
		d.hasNot("type the path of a file")
		d.keys("enter")
		// Two contexts of one name are told apart by their files.
		d.has("kind-rome (config)", "kind-rome (turin.yaml)")
		d.hasNot("nothing.yaml")
	})
}

// A path that is typed goes on as in a shell.
func TestThePathOfAFileIsCompleted(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"clusters/turin.yaml", "clusters/torino.yaml", "clusters/.tmp", "other"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", dir)
	inChoice(t, nil, func(_ *testing.T, d *driver) {
		d.keys("F")
		d.has("tab complete the path")
		d.send(tea.PasteMsg{Content: "~/cl"})
		d.keys("tab")
		d.has("> ~/clusters/")
		d.keys("tab")
		d.has("> ~/clusters/t", "torino.yaml  turin.yaml")
		d.hasNot(".tmp")
		d.keys("u")
		d.hasNot("torino.yaml")
		d.keys("tab")
		d.has("> ~/clusters/turin.yaml")
		d.keys("enter") // this test's world has no such file
		d.has("> ~/clusters/turin.yaml", "file does not exist")
		d.keys("x", "tab")
		d.has("> ~/clusters/turin.yamlx")
	})
}

func TestAKubeconfigThatChangesIsFollowed(t *testing.T) {
	inChoice(t, nil, func(t *testing.T, d *driver) {
		d.keys("down")
		d.world.mu.Lock()
		rest := d.world.contexts[:1]
		d.world.contexts = nil
		d.world.problems = []error{errors.New("kubeconfig: line 3: mapping values are not allowed")}
		d.world.mu.Unlock()
		d.wait(6 * time.Second)
		d.has("line 3: mapping values", "There are no contexts")
		d.world.mu.Lock()
		d.world.contexts, d.world.problems = rest, nil
		d.world.mu.Unlock()
		d.wait(6 * time.Second)
		d.has("┃ ", "kind-rome")
		d.hasNot("mapping values", "kind-milan")
	})
}

func TestAContextThatIsInUseStays(t *testing.T) {
	inChoice(t, nil, func(t *testing.T, d *driver) {
		d.keys("enter")
		d.world.mu.Lock()
		d.world.contexts = nil
		d.world.mu.Unlock()
		d.wait(6 * time.Second)
		d.has("kind-rome is chosen", "ready")
	})
}

func TestTheWayBackKeepsWhatWasChosen(t *testing.T) {
	inChoice(t, nil, func(t *testing.T, d *driver) {
		d.keys("enter", "down", "enter", "n")
		d.at(wizard.Plan)
		d.keys("C", "esc")
		d.at(wizard.Plan)
		d.keys("i", "esc")
		d.at(wizard.Plan)
		d.keys("esc")
		d.has("kind-rome is chosen. Choose the other cluster")
		d.keys("esc")
		d.has("Choose the first of the two clusters")
		d.keys("esc")
		if d.quit {
			t.Error("esc ended the program")
		}
	})
}

func TestTheProgramOpensTheDashboardWhereThereAreConnections(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(*flowtest.Pair, *world)
		keys    []string
		want    wizard.Step
	}{
		"connected": {func(p *flowtest.Pair, _ *world) { connectedPair(t)(p) }, nil, wizard.Away},
		"nothing":   {crowd, nil, wizard.Clusters},
		"one pair":  {nil, nil, wizard.Plan},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(p *flowtest.Pair, w *world) session.Options {
				o := fresh(test.prepare)(p, w)
				o.Start = session.StartAny
				return o
			}, func(t *testing.T, d *driver) {
				d.at(test.want)
			})
		})
	}
}

// slow is a cluster that answers after some time.
type slow struct {
	engine.Cluster
	after time.Duration
}

func (s slow) Observe(ctx context.Context) (flows.ClusterFacts, error) {
	sleep.For(ctx, s.after)
	return s.Cluster.Observe(ctx)
}

func TestWhoHasBegunIsNotTakenToTheDashboard(t *testing.T) {
	inWorld(t, func(p *flowtest.Pair, w *world) session.Options {
		connectedPair(t)(p)
		w.replace("kind-rome", slow{p.A, time.Second})
		w.replace("kind-milan", slow{p.B, time.Second})
		return session.Options{Start: session.StartAny}
	}, func(t *testing.T, d *driver) {
		d.keys("down")
		d.wait(3 * time.Second)
		d.at(wizard.Clusters)
		d.has("ready")
	})
}

func TestThePaletteRunsWhatItsNameSays(t *testing.T) {
	inChoice(t, nil, func(t *testing.T, d *driver) {
		d.keys(":")
		d.has("What to do?", "add a kubeconfig file", "filter", "quit")
		d.keys("k", "u", "b", "e")
		d.hasNot("filter")
		d.keys("enter")
		d.has("Which kubeconfig file?")
		d.keys("esc", ":", "esc")
		d.has("Choose the first")
	})
}

func TestTheDashboardIsOneKeyAway(t *testing.T) {
	inBubble(t, session.Options{}, connectedPair(t), func(_ *testing.T, d *driver) {
		d.at(wizard.Live)
		d.keys("d")
		d.wait(time.Second)
		d.at(wizard.Away)
		d.has("rome", "milan", "untested")
		d.keys("n")
		d.at(wizard.Clusters)
		d.keys("d")
		d.at(wizard.Away)
	})
}

func TestTheOnlyPairThatNothingConnectsIsChosen(t *testing.T) {
	inWorld(t, fresh(func(p *flowtest.Pair, w *world) {
		connectedPair(t)(p)
		other := oslo()
		other.Be(func(f *flows.ClusterFacts) { f.Servers = p.B.Facts().Servers }) // it has a gateway for rome, too
		w.add(session.Context{Ref: refOf("kind-oslo"), Server: "https://172.18.0.30:6443"}, other)
	}), func(_ *testing.T, d *driver) {
		d.at(wizard.Plan)
		d.has("kind-milan  https://172.18.0.20:6443", "kind-oslo  https://172.18.0.30:6443", "liqo-tui chose these two")
	})
}

// The dashboard's key for a new connection leads to the only pair, too, and back from there to the list.
func TestTheOnlyPairIsOfferedFromTheDashboard(t *testing.T) {
	inChoice(t, nil, func(_ *testing.T, d *driver) {
		d.keys("d", "n")
		d.at(wizard.Plan)
		d.has("liqo-tui chose these two")
		d.keys("C", "esc")
		d.has("liqo-tui chose these two") // still
		d.keys("esc")
		d.has("Choose the first of the two clusters")
		d.wait(10 * time.Second) // and it is not chosen again
		d.at(wizard.Clusters)
		d.keys("esc")
		d.at(wizard.Away)
	})
}

// A cluster that was chosen in place of another has not been asked what the user may do there.
func TestEachPairHasItsOwnChecks(t *testing.T) {
	prepare := func(_ *flowtest.Pair, w *world) {
		w.add(session.Context{Ref: refOf("kind-oslo"), Server: "https://172.18.0.30:6443"}, reviewer{Cluster: oslo(), missing: noServers})
	}
	inChoice(t, prepare, func(_ *testing.T, d *driver) {
		d.keys("enter", "enter")
		d.has("Apply these changes?")
		d.keys("n", "esc", "down", "enter")
		d.at(wizard.Preflight)
		d.hasNot("1 failed")
		d.wait(time.Second)
		d.has("rome", "oslo", "1 failed")
		d.hasNot("Apply these changes?")
	})
}

// A check that fails after the plan was shown stops the plan.
func TestAFailedCheckStopsThePlan(t *testing.T) {
	inBubble(t, session.Options{}, nil, func(_ *testing.T, d *driver) {
		d.world.replace("kind-milan", reviewer{Cluster: d.pair.B, missing: noServers})
		d.keys("r")
		d.wait(time.Second)
		d.has("✗ Fix what failed first", "1 failed")
		d.keys("enter")
		d.at(wizard.Preflight)
		d.has("LT-P006", "has failed: fix this first")
		d.keys("esc")
		d.at(wizard.Plan)
		d.world.replace("kind-milan", reviewer{Cluster: d.pair.B})
		d.keys("r")
		d.wait(time.Second)
		d.has("✓ Ready")
		d.keys("enter")
		d.has("Apply these changes?")
	})
}

// The first row is selected as soon as it is there: no news has to come for it.
func TestANewConnectionCanBeChosenAtOnce(t *testing.T) {
	inBubble(t, session.Options{}, connectedPair(t), func(_ *testing.T, d *driver) {
		d.keys("d")
		d.wait(time.Second)
		d.keys("n")
		d.has("── kind-rome ─")
		d.keys("enter")
		d.has("kind-rome is chosen. Choose the other cluster", "┃   kind-milan")
	})
}

func TestAnEnterThatComesTooSoonSaysSo(t *testing.T) {
	inBubble(t, session.Options{}, nil, func(_ *testing.T, d *driver) {
		d.keys("enter", "enter")
		d.has("┃ Yes, apply", "This enter came too soon to be an answer. Press it again.")
		d.keys("pause", "enter")
		d.at(wizard.Apply)
	})
}

// News tell the time, too, and the next tick can be a second away: they don't tell
// when a key is pressed.
func TestAnEnterIsAsLateAsItIs(t *testing.T) {
	inBubble(t, session.Options{}, nil, func(_ *testing.T, d *driver) {
		began := d.model.options.Now()
		started := time.Now()
		d.model.options.Now = func() time.Time { return began.Add(time.Since(started)) }
		d.wait(900 * time.Millisecond)
		d.send(tickMsg(d.model.options.Now())) // as news would
		d.keys("enter")
		d.has("┃ Yes, apply")
		time.Sleep(800 * time.Millisecond) // and no news comes
		d.keys("enter")
		d.at(wizard.Apply)
	})
}
