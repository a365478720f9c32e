package tui

import (
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
)

// inForm is a program that asks how two clusters are to be connected.
func inForm(t *testing.T, test func(*testing.T, *driver)) {
	inWorld(t, fresh(nil), func(t *testing.T, d *driver) {
		d.keys("enter", "down", "enter", "enter")
		d.at(screenSettings)
		test(t, d)
	})
}

// to moves to a field.
func (d *driver) to(id settingID) {
	d.t.Helper()
	for range int(settingCount) {
		if d.model.focused().id == id {
			return
		}
		d.keys("down")
	}
	d.t.Errorf("there is no field %d:\n%s", id, d.screen())
}

func TestOnlyFieldsThatApplyAreShown(t *testing.T) {
	inForm(t, func(_ *testing.T, d *driver) {
		d.has("(•) NodePort", "Node port")
		d.hasNot("Load balancer IP")
		d.to(settingService)
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
		d.to(settingService)
		d.keys("left", "left")
		for range 3 {
			for _, f := range d.model.shownSettings() {
				d.to(f.id)
				body := strings.Join(d.model.settingsBody(d.model.bodyHeight()), "\n")
				if strings.Contains(body, d.model.theme.ellipsis) {
					t.Errorf("%s: something is cut off:\n%s", f.Label, body)
				}
			}
			d.to(settingService)
			d.keys("right")
		}
	})
}

func TestWhatIsChosenIsInThePlan(t *testing.T) {
	inForm(t, func(t *testing.T, d *driver) {
		d.keys("left") // server on A
		d.to(settingNodePort)
		d.keys("3", "1", "0", "0", "0")
		d.to(settingMTU)
		d.keys("ctrl+u", "1", "2", "8", "0", "enter")
		d.at(screenPlan)
		got := d.model.current.Params
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
		field settingID
		text  string
		want  string
	}{
		"no port":            {settingPort, "0", "want a port, 1 to 65535"},
		"a port beyond":      {settingPort, "65536", "want a port, 1 to 65535"},
		"a word as a port":   {settingNodePort, "http", "want a port, 1 to 65535"},
		"a small MTU":        {settingMTU, "575", "want a number of bytes, 576 to 9000"},
		"a large MTU":        {settingMTU, "9001", "want a number of bytes, 576 to 9000"},
		"a URL as a host":    {settingClientAddress, "https://gw.example.org", "want an IP address or a DNS name"},
		"a host with a port": {settingClientAddress, "gw.example.org:51840", "want an IP address or a DNS name"},
	} {
		t.Run(name, func(t *testing.T) {
			inForm(t, func(_ *testing.T, d *driver) {
				d.to(test.field)
				d.keys("ctrl+u")
				d.send(tea.PasteMsg{Content: test.text})
				d.keys("down") // to leave the field is to be told
				d.has("✗ "+test.want, test.text)
				d.keys("enter")
				d.at(screenSettings)
				if got := d.model.focused().id; got != test.field {
					t.Errorf("the focus is on field %d, want %d", got, test.field)
				}
				d.has(test.text)
				d.keys("ctrl+u", "1", "2", "8", "0")
				d.hasNot("✗")
				d.keys("enter")
				d.at(screenPlan)
			})
		})
	}
}

func TestAHiddenFieldKeepsItsTextAndHasNoSay(t *testing.T) {
	inForm(t, func(t *testing.T, d *driver) {
		d.to(settingNodePort)
		d.keys("n", "o")
		d.to(settingService)
		d.keys("right", "enter")
		d.at(screenPlan)
		if got := d.model.current.Params; got.NodePort != 0 || got.ServiceType != corev1.ServiceTypeClusterIP {
			t.Errorf("got %+v", got)
		}
	})
}

func TestAPastedNovelDoesNoHarm(t *testing.T) {
	inForm(t, func(t *testing.T, d *driver) {
		d.to(settingPort)
		d.send(tea.PasteMsg{Content: strings.Repeat("It was a dark and stormy night; \x1b[2J\x00", 10000)})
		d.keys("enter")
		d.at(screenSettings)
		d.has("want a port")
		for _, size := range everySize {
			d.view(size[0], size[1])
		}
		if got := len(d.model.form.texts[settingPort].String()); got > maxLine*4 {
			t.Errorf("got %d bytes kept", got)
		}
	})
}

func TestTheWayBackToTheFormKeepsItsAnswers(t *testing.T) {
	inForm(t, func(_ *testing.T, d *driver) {
		d.to(settingPort)
		d.keys("ctrl+u", "4", "2", "4", "2", "enter")
		d.at(screenPlan)
		d.keys("esc")
		d.has("4242")
		d.keys("esc", "esc", "enter", "enter") // the same second cluster again
		d.has("4242")
	})
}

func TestEveryFieldExplainsItself(t *testing.T) {
	inForm(t, func(t *testing.T, d *driver) {
		d.view(60, 14)
		for _, f := range d.model.settings() {
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
		d.to(settingClientAddress)
		d.keys("q", "?")
		d.has("Keys on this screen")
		d.keys("esc")
		d.has("q")
		d.at(screenSettings)
	})
}

func TestALiveConnectionIsChangedThroughItsPlan(t *testing.T) {
	inBubble(t, Options{}, connectedPair(t), func(t *testing.T, d *driver) {
		d.at(screenLive)
		d.keys("e")
		d.to(settingMTU)
		d.keys("ctrl+u", "1", "2", "8", "0", "enter")
		d.at(screenPlan)
		d.has("2 to update", "what it means")
		d.keys("enter", "y")
		d.wait(time.Minute)
		d.at(screenLive)
		if got := d.pair.B.Facts().Servers[0].Spec.MTU; got != 1280 {
			t.Errorf("got MTU %d, want 1280", got)
		}
		if got := d.pair.B.Facts().Servers[0].Spec.Endpoint.ServiceType; got != corev1.ServiceTypeNodePort {
			t.Errorf("got service type %s, which nobody asked to change", got)
		}
	})
}

func TestWhatWasWantedAndNotAppliedIsForgotten(t *testing.T) {
	inBubble(t, Options{}, connectedPair(t), func(_ *testing.T, d *driver) {
		d.keys("e")
		d.to(settingMTU)
		d.keys("ctrl+u", "1", "2", "8", "0", "enter", "esc")
		d.at(screenLive)
		d.hasNot("would change something")
	})
}

func TestAConnectionIsTakenAwayByItsPlan(t *testing.T) {
	for goal, key := range map[Goal]string{Disconnect: "x", Reset: "X"} {
		t.Run(goal.String(), func(t *testing.T) {
			inBubble(t, Options{}, connectedPair(t), func(t *testing.T, d *driver) {
				d.keys(key)
				d.at(screenPlan)
				d.wait(3 * time.Second)
				d.at(screenPlan)
				if log := d.pair.Log(); len(log) > 0 {
					t.Fatalf("got writes %v by one key", log)
				}
				d.has("network "+goal.String(), "what it means")
				d.keys("enter", "enter") // the choice is no
				d.keys("enter")
				d.has("The connection ends.", "> No")
				d.keys("down", "enter")
				d.wait(30 * time.Second)
				d.at(screenLive)
				d.has("not connected")
				if got := d.pair.B.Facts(); len(got.Servers) > 0 || (len(got.Configurations) > 0) != (goal == Disconnect) {
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
	inWorld(t, fresh(prepare), func(t *testing.T, d *driver) {
		d.view(100, 40)
		d.has("nothing installed")
		d.keys("enter", "down")
		d.has("installing the operator becomes a part of the plan")
		d.keys("enter")
		d.has("the plan installs it")
		d.keys("enter")
		d.at(screenSettings)
		d.has("Cluster ID of B", "milan")
		d.keys("enter")
		d.has("create liqo-tui operator and fabric", "create definitions of Liqo's API", "B milan")
		d.has("As which addresses milan will see rome's pods is known after the installation")
		d.keys("enter", "down", "enter")
		d.wait(40 * time.Second)
		d.at(screenLive)
		d.has("connected: each gateway answers", "B milan")
	})
}

func TestWhatIsNotRemovedAgainIsSaid(t *testing.T) {
	inWorld(t, fresh(func(p *flowtest.Pair, _ *world) { p.B.Bare() }), func(_ *testing.T, d *driver) {
		d.keys("enter", "down", "enter", "enter", "enter", "a", "y")
		d.wait(2 * time.Second)
		d.keys("ctrl+c")
		d.wait(2 * time.Second)
		d.has("stopped", "remove what was applied, but for the operator")
	})
}

func TestTheIDOfAClusterIsTheAdminsToChoose(t *testing.T) {
	prepare := func(p *flowtest.Pair, _ *world) { p.B.Bare() }
	inWorld(t, fresh(prepare), func(t *testing.T, d *driver) {
		d.keys("enter", "down", "enter", "enter")
		d.to(settingIDB)
		d.keys("ctrl+u")
		d.send(tea.PasteMsg{Content: "Milano Centrale"})
		d.keys("enter")
		d.at(screenSettings)
		d.has("only a-z, 0-9 and - are allowed")
		d.keys("ctrl+u")
		d.send(tea.PasteMsg{Content: "milano"})
		d.keys("enter")
		d.at(screenPlan)
		d.has("GatewayServer rome", "Configuration milano")
		d.keys("a", "y")
		d.wait(40 * time.Second)
		if got := d.pair.B.Facts().ID; got != "milano" {
			t.Errorf("got the ID %q", got)
		}
	})
}

func TestAConnectionIsTakenAwayThoughTheOtherSideIsGone(t *testing.T) {
	inBubble(t, Options{}, connectedPair(t), func(t *testing.T, d *driver) {
		d.pair.B.Behave(func(b *flowtest.Behaviour) { b.Unreachable = []flowtest.Window{{From: 1}} })
		d.wait(3 * time.Second)
		d.keys("X")
		d.has("does not answer", "--local-only", "take away on A only")
		d.keys("a", "y")
		if log := d.pair.Log(); len(log) > 0 {
			t.Fatalf("got writes %v", log)
		}
		d.keys("l")
		d.has("Apply:", "to be run by the other cluster's admin")
		d.keys("enter", "down", "enter")
		d.wait(30 * time.Second)
		d.at(screenLive)
		d.has("A says not connected, B says not answering")
		if got := d.pair.A.Facts(); len(got.Clients)+len(got.Configurations) > 0 {
			t.Errorf("got %v left on A", d.pair.A.Names())
		}
		for _, change := range d.pair.B.Log() {
			t.Errorf("got %v on the side that is gone", change)
		}
	})
}
