package tui

import (
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/tui/session"
	"github.com/liqo-tui/liqo-tui/tui/wizard"
)

// inForm is a program that asks how two clusters are to be connected.
func inForm(t *testing.T, test func(*testing.T, *driver)) {
	inChoice(t, nil, func(t *testing.T, d *driver) {
		d.keys("enter", "down", "enter", "n", "C")
		d.at(wizard.Settings)
		test(t, d)
	})
}

// The labels of fields.
const (
	labelIDB           = "ID of kind-milan"
	labelService       = "Reached through"
	labelPort          = "UDP port"
	labelNodePort      = "Node port"
	labelClientAddress = "Client dials"
	labelMTU           = "MTU at most"
)

// to moves to a field.
func (d *driver) to(label string) {
	d.t.Helper()
	for range 11 {
		if strings.HasPrefix(d.selected(), label) {
			return
		}
		d.keys("down")
	}
	d.t.Errorf("there is no field %s:\n%s", label, d.screen())
}

func TestOnlyFieldsThatApplyAreShown(t *testing.T) {
	inForm(t, func(_ *testing.T, d *driver) {
		d.has("(•) NodePort", "Node port")
		d.hasNot("Load balancer IP")
		d.to(labelService)
		d.keys("left")
		d.has("(•) LoadBalancer", "Load balancer IP")
		d.hasNot("Node port ")
		d.keys("right", "right")
		d.has("(•) ClusterIP")
		d.hasNot("Load balancer IP", "Node port ")
	})
}

func TestNoFieldIsCutOnTheSmallestScreen(t *testing.T) {
	inForm(t, func(t *testing.T, d *driver) {
		d.send(tea.WindowSizeMsg{Width: minWidth, Height: minHeight})
		d.to(labelService)
		d.keys("left", "left")
		for range 3 {
			for range 11 {
				d.keys("down")
				body := strings.Join(d.model.wizard.View(d.model.env()), "\n")
				if strings.Contains(body, d.model.theme.Ellipsis) {
					t.Errorf("something is cut off:\n%s", body)
				}
			}
			d.to(labelService)
			d.keys("right")
		}
	})
}

func TestWhatIsChosenIsInThePlan(t *testing.T) {
	inForm(t, func(t *testing.T, d *driver) {
		d.keys("left") // server on A
		d.to(labelNodePort)
		d.keys("3", "1", "0", "0", "0")
		d.to(labelMTU)
		d.keys("ctrl+u", "1", "2", "8", "0", "enter")
		d.at(wizard.Plan)
		got := d.model.wizard.Current.Params
		if got.Server != flows.A || got.NodePort != 31000 || got.MTU != 1280 {
			t.Errorf("got %+v", got)
		}
		want := flows.FieldServer | flows.FieldNodePort | flows.FieldMTU
		if got.Given != want {
			t.Errorf("got %b as given, want %b", got.Given, want)
		}
	})
}

func TestAProblemStandsUnderItsFieldAndNothingTypedIsLost(t *testing.T) {
	for name, test := range map[string]struct {
		field string
		text  string
		want  string
	}{
		"no port":            {labelPort, "0", "want a port, 1 to 65535"},
		"a port beyond":      {labelPort, "65536", "want a port, 1 to 65535"},
		"a word as a port":   {labelNodePort, "http", "want a port, 1 to 65535"},
		"a small MTU":        {labelMTU, "575", "want a number of bytes, 576 to 9000"},
		"a large MTU":        {labelMTU, "9001", "want a number of bytes, 576 to 9000"},
		"a URL as a host":    {labelClientAddress, "https://gw.example.org", "want an IP address or a DNS name"},
		"a host with a port": {labelClientAddress, "gw.example.org:51840", "want an IP address or a DNS name"},
	} {
		t.Run(name, func(t *testing.T) {
			inForm(t, func(_ *testing.T, d *driver) {
				d.to(test.field)
				d.keys("ctrl+u")
				d.send(tea.PasteMsg{Content: test.text})
				d.keys("down") // to leave the field is to be told
				d.has("✗ "+test.want, test.text)
				d.keys("enter")
				d.at(wizard.Settings)
				if got := d.selected(); !strings.HasPrefix(got, test.field) {
					t.Errorf("the focus is on field %q, want %q", got, test.field)
				}
				d.has(test.text)
				d.keys("ctrl+u", "1", "2", "8", "0")
				d.hasNot("✗")
				d.keys("enter")
				d.at(wizard.Plan)
			})
		})
	}
}

func TestAHiddenFieldKeepsItsTextAndHasNoSay(t *testing.T) {
	inForm(t, func(t *testing.T, d *driver) {
		d.to(labelNodePort)
		d.keys("n", "o")
		d.to(labelService)
		d.keys("right", "enter")
		d.at(wizard.Plan)
		if got := d.model.wizard.Current.Params; got.NodePort != 0 || got.ServiceType != corev1.ServiceTypeClusterIP {
			t.Errorf("got %+v", got)
		}
	})
}

func TestAPastedNovelDoesNoHarm(t *testing.T) {
	inForm(t, func(t *testing.T, d *driver) {
		d.to(labelPort)
		d.send(tea.PasteMsg{Content: strings.Repeat("It was a dark and stormy night; \x1b[2J\x00", 10000)})
		d.keys("enter")
		d.at(wizard.Settings)
		d.has("want a port")
		for _, size := range everySize {
			d.view(size[0], size[1])
		}
	})
}

func TestTheWayBackToTheFormKeepsItsAnswers(t *testing.T) {
	inForm(t, func(_ *testing.T, d *driver) {
		d.to(labelPort)
		d.keys("ctrl+u", "4", "2", "4", "2", "enter")
		d.at(wizard.Plan)
		d.keys("C")
		d.has("4242")
		d.keys("esc", "esc", "enter", "n", "C") // the same second cluster again
		d.has("4242")
	})
}

func TestAFormThatWasLeftKeepsWhatWasTyped(t *testing.T) {
	inForm(t, func(_ *testing.T, d *driver) {
		d.to(labelService)
		d.keys("right")
		d.to(labelPort)
		d.keys("ctrl+u", "4", "2", "4", "2", "esc")
		d.at(wizard.Plan)
		d.keys("C")
		d.at(wizard.Settings)
		d.has("(•) ClusterIP", "4242")
	})
}

func TestEveryFieldExplainsItself(t *testing.T) {
	inForm(t, func(t *testing.T, d *driver) {
		d.view(60, 14)
		for _, f := range flows.Form(nil, "A", "B") {
			if f.Explain == "" {
				t.Errorf("%s does not explain itself", f.Label)
			}
		}
		d.hasNot("behind a firewall", "dial it")
		d.keys("ctrl+e")
		d.has("dial it")
	})
}

func TestTheHelpKeyWorksWhileTyping(t *testing.T) {
	inForm(t, func(_ *testing.T, d *driver) {
		d.to(labelClientAddress)
		d.keys("q", "?")
		d.has("On this screen")
		d.keys("esc")
		d.has("q")
		d.at(wizard.Settings)
	})
}

func TestALiveConnectionIsChangedThroughItsPlan(t *testing.T) {
	inBubble(t, session.Options{}, connectedPair(t), func(t *testing.T, d *driver) {
		d.at(wizard.Live)
		d.keys("C")
		d.to(labelMTU)
		d.keys("ctrl+u", "1", "2", "8", "0", "enter")
		d.at(wizard.Plan)
		d.has("2 to update", "What it means")
		d.keys("enter", "y")
		d.wait(time.Minute)
		d.at(wizard.Live)
		if got := d.pair.B.Facts().Servers[0].Spec.MTU; got != 1280 {
			t.Errorf("got MTU %d, want 1280", got)
		}
		if got := d.pair.B.Facts().Servers[0].Spec.Endpoint.ServiceType; got != corev1.ServiceTypeNodePort {
			t.Errorf("got service type %s, which nobody asked to change", got)
		}
	})
}

func TestWhatWasWantedAndNotAppliedIsForgotten(t *testing.T) {
	inBubble(t, session.Options{}, connectedPair(t), func(_ *testing.T, d *driver) {
		d.keys("C")
		d.to(labelMTU)
		d.keys("ctrl+u", "1", "2", "8", "0", "enter", "esc")
		d.at(wizard.Live)
		d.hasNot("to see them")
	})
}

func TestAConnectionIsTakenAwayByItsPlan(t *testing.T) {
	for goal, key := range map[session.Goal]string{session.Disconnect: "x", session.Reset: "X"} {
		t.Run(goal.String(), func(t *testing.T) {
			inBubble(t, session.Options{}, connectedPair(t), func(t *testing.T, d *driver) {
				d.keys(key)
				d.at(wizard.Plan)
				d.wait(3 * time.Second)
				d.at(wizard.Plan)
				if log := d.pair.Log(); len(log) > 0 {
					t.Fatalf("got writes %v by one key", log)
				}
				d.has("network "+goal.String(), "What it means")
				d.keys("enter", "pause", "enter") // the choice is no
				d.keys("enter")
				d.has("The connection ends.", "┃ No")
				d.keys("down", "pause", "enter")
				d.wait(30 * time.Second)
				d.at(wizard.Live)
				d.has("not connected", "No gateway connects rome and milan now. Press p", "plan to connect")
				d.hasNot("verify with packets", "changes: press")
				if got := d.pair.B.Facts(); len(got.Servers) > 0 || (len(got.Configurations) > 0) != (goal == session.Disconnect) {
					t.Errorf("got %v", d.pair.B.Names())
				}
				if got := d.model.Summary(); !strings.Contains(got, "no longer connected") {
					t.Errorf("got summary %q", got)
				}
			})
		})
	}
}

func TestTheOperatorIsInstalledWhereNothingIs(t *testing.T) {
	prepare := func(p *flowtest.Pair, _ *world) { p.B.Bare() }
	inChoice(t, prepare, func(t *testing.T, d *driver) {
		d.view(100, 40)
		d.has("nothing installed")
		d.keys("enter", "down")
		d.has("installing the operator becomes a part of the plan")
		d.keys("enter", "n", "i")
		d.has("the plan installs it")
		d.keys("esc", "C")
		d.at(wizard.Settings)
		d.has("ID of kind-milan", "milan", "tab next field")
		d.keys("enter")
		d.keys("G") // there is something to wait for, which has no contents
		d.hasNot("Its content is known only after that")
		d.keys("g")
		d.has("create liqo-tui operator", "create definitions of Liqo's API", "milan")
		d.keys("pgdown")
		d.has("The addresses that milan will use for rome's pods are known after the installation")
		for range 20 { // each step shows what it applies, also what a whole installation consists of
			if regexp.MustCompile(`(┃|> ).*definitions of Liqo`).MatchString(d.screen()) {
				break
			}
			d.keys("down")
		}
		d.keys("enter")
		d.has("12 objects", "+ Configuration  configurations.networking.liqo.io")
		d.keys("esc", "a", "pause", "y")
		d.wait(40 * time.Second)
		d.at(wizard.Live)
		d.has("untested: each gateway gets answers", "milan")
		if got := d.model.Summary(); !strings.HasSuffix(got, "\nRemove the operator, too: liqo-tui uninstall --kubeconfig /home/ada/.kube/config --context kind-milan") {
			t.Errorf("got summary %q, want it to end with what removes the operator of milan", got)
		}
	})
}

// TestAnImageIsAskedFor has a program that knows of no published image.
func TestAnImageIsAskedFor(t *testing.T) {
	unpublished := func(p *flowtest.Pair, w *world) {
		p.B.Bare()
		w.image = ""
	}
	inChoice(t, unpublished, func(t *testing.T, d *driver) {
		d.view(100, 40)
		d.keys("enter", "down", "enter")
		d.at(wizard.Preflight)
		d.keys("enter")
		d.at(wizard.Settings)
		d.has("this build of liqo-tui has no published image:", "push one where the nodes can pull it, and name it here")
		d.send(tea.PasteMsg{Content: "example.org/own:v3"})
		d.keys("enter")
		d.at(wizard.Plan)
		d.keys("enter", "pause", "enter")
		d.wait(40 * time.Second)
		d.at(wizard.Live)
		installation, err := d.pair.B.Installation(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range installation.Objects {
			if deployment, ok := o.(*appsv1.Deployment); ok {
				if got := render.OperatorParams(deployment).Image; got != "example.org/own:v3" {
					t.Errorf("the operator has image %q", got)
				}
				return
			}
		}
		t.Error("there is no operator")
	})
}

// Where the image can't be pulled, the key that changes settings leads to the image.
func TestAnImageThatFailsLeadsToItsSetting(t *testing.T) {
	const missing = "manifest unknown"
	fails := func(p *flowtest.Pair, _ *world) {
		p.B.Bare()
		p.B.Behave(func(b *flowtest.Behaviour) { b.ImageFails = missing })
	}
	another := func(d *driver) {
		d.t.Helper()
		d.at(wizard.Settings)
		d.has("┃ Image")
		d.pair.B.Behave(func(b *flowtest.Behaviour) { b.ImageFails = "" })
		d.keys("ctrl+u")
		d.send(tea.PasteMsg{Content: "example.org/own:v3"})
		d.keys("enter")
		d.at(wizard.Plan)
		d.keys("enter", "pause", "enter")
		d.wait(40 * time.Second)
		d.at(wizard.Live)
	}
	inChoice(t, fails, func(_ *testing.T, d *driver) {
		d.keys("enter", "down", "enter", "y")
		d.wait(5 * time.Second)
		d.has("LT-P009", missing, "name another image")
		d.keys("C")
		another(d)
	})
	// So does the screen of checks, if a pod has tried the image there.
	inChoice(t, fails, func(_ *testing.T, d *driver) {
		d.keys("enter", "down", "enter", "n", "i", "v")
		d.wait(5 * time.Second)
		d.has("1 failed", "FAIL     milan ")
		d.keys("enter")
		another(d)
	})
}

func TestWhatIsNotRemovedAgainIsSaid(t *testing.T) {
	prepare := func(p *flowtest.Pair, _ *world) {
		p.B.Bare()
		p.B.Behave(func(b *flowtest.Behaviour) { b.WrongKey = true })
	}
	inChoice(t, prepare, func(_ *testing.T, d *driver) {
		d.keys("enter", "down", "enter", "y")
		d.wait(2 * time.Second)
		d.keys("ctrl+c")
		d.wait(2 * time.Second)
		d.has("stopped", "continue")
		d.hasNot("remove") // there is only the operator
		d.keys("r")
		d.wait(8 * time.Second)
		d.keys("ctrl+c")
		d.wait(2 * time.Second)
		d.has("stopped", "objects that the run has created, but not the operator")
	})
}

// A run that fails on clusters which were connected before takes back only what it has created.
func TestARunTakesBackOnlyWhatItHasCreated(t *testing.T) {
	prepare := func(p *flowtest.Pair) {
		connectedPair(t)(p)
		disconnect := func(f flows.Facts) flows.Plan { return flows.PlanDisconnect(flows.RemoveOptions{}, f) }
		earlier(t, p, disconnect)
		p.B.Behave(func(b *flowtest.Behaviour) { b.WrongKey = true })
	}
	inBubble(t, session.Options{Timeout: 20 * time.Second}, prepare, func(t *testing.T, d *driver) {
		before := [2][]string{d.pair.A.Names(), d.pair.B.Names()}
		d.keys("a", "y")
		d.wait(30 * time.Second)
		d.has("LT-E041", "x  remove the 4 objects that the run has created")
		d.keys("x")
		d.has("remove what was created", "4 to delete", "kept: it existed before the run", "What existed before the run stays")
		d.hasNot("network reset", "copy")
		d.keys("a")
		d.has("Yes, remove")
		d.hasNot("The connection ends")
		d.keys("n", "esc") // back to the end of the run
		d.has("x  remove the 4 objects that the run has created")
		d.keys("x", "a", "y")
		d.wait(30 * time.Second)
		d.at(wizard.Live)
		if got := [2][]string{d.pair.A.Names(), d.pair.B.Names()}; !reflect.DeepEqual(got, before) {
			t.Errorf("got %q, want what was there before the run: %q", got, before)
		}
		if got := d.model.Summary(); strings.Contains(got, "no longer connected") {
			t.Errorf("got summary %q", got)
		}
	})
}

// The end of the program names the command of the run, whatever was looked at since.
func TestADeclinedRemovalIsNotContinued(t *testing.T) {
	inBubble(t, session.Options{}, connecting, func(t *testing.T, d *driver) {
		d.keys("a", "y")
		d.wait(2 * time.Second)
		d.keys("ctrl+c")
		d.wait(time.Second)
		d.has("objects that the run has created")
		d.keys("x")
		d.has("network reset", "forget each other") // all of the connection: the command does the same
		d.keys("a", "n")
		lines := strings.Split(d.model.Summary(), "\n")
		if len(lines) != 3 || !strings.HasPrefix(lines[1], "Continue: liqo-tui network connect") || !strings.HasPrefix(lines[2], "Remove the whole connection: liqo-tui network reset") {
			t.Errorf("got %q", lines)
		}
	})
}

func TestTheIDOfAClusterIsTheAdminsToChoose(t *testing.T) {
	prepare := func(p *flowtest.Pair, _ *world) { p.B.Bare() }
	inChoice(t, prepare, func(t *testing.T, d *driver) {
		d.view(100, 40)
		d.keys("enter", "down", "enter", "n", "C")
		d.to(labelIDB)
		d.keys("ctrl+u")
		d.send(tea.PasteMsg{Content: "Milano Centrale"})
		d.keys("enter")
		d.at(wizard.Settings)
		d.has("only a-z, 0-9 and - are allowed")
		d.keys("ctrl+u")
		d.send(tea.PasteMsg{Content: "milano"})
		d.keys("enter")
		d.at(wizard.Plan)
		d.has("Namespace liqo-tenant-milano", "milano wait    operator works")
		d.keys("a", "y")
		d.wait(40 * time.Second)
		if got := d.pair.B.Facts().ID; got != "milano" {
			t.Errorf("got the ID %q", got)
		}
	})
}

func TestAConnectionIsTakenAwayThoughTheOtherSideIsGone(t *testing.T) {
	inBubble(t, session.Options{}, connectedPair(t), func(t *testing.T, d *driver) {
		d.pair.B.Behave(func(b *flowtest.Behaviour) { b.Unreachable = []flowtest.Window{{From: 1}} })
		d.wait(3 * time.Second)
		d.keys("X")
		d.has("does not answer", "--local-only", "remove on rome only")
		d.keys("a", "y")
		if log := d.pair.Log(); len(log) > 0 {
			t.Fatalf("got writes %v", log)
		}
		d.keys("O")
		d.has("Apply:", "to be run by the other cluster's admin")
		d.keys("enter", "down", "pause", "enter")
		d.wait(30 * time.Second)
		d.at(wizard.Live)
		d.has("rome says not connected, milan says not answering")
		if got := d.pair.A.Facts(); len(got.Clients)+len(got.Configurations) > 0 {
			t.Errorf("got %v left on A", d.pair.A.Names())
		}
		for _, change := range d.pair.B.Log() {
			t.Errorf("got %v on the side that is gone", change)
		}
	})
}
