package tui

import (
	"fmt"
	"slices"
	"testing"

	"charm.land/bubbles/v2/key"

	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/tui/keys"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// checkTogether is for every screen that any test sees: what can be done there
// stands together in a scope, or a conflict could go unseen.
func checkTogether(t testing.TB, m Model) {
	t.Helper()
	names := map[string]string{}
	k := m.keys
	for _, bindings := range []map[string]*key.Binding{k.Bindings(), k.Fixed()} {
		for name, b := range bindings {
			b.SetKeys("the key of " + name)
			names["the key of "+name] = name
		}
	}
	m.keys = k
	var shown []string
	for _, c := range m.commands() {
		if keys := c.Keys(); len(keys) > 0 && c.Enabled() {
			shown = append(shown, names[keys[0]])
		}
	}
	for _, s := range keys.Scopes {
		if !slices.ContainsFunc(shown, func(name string) bool { return !slices.Contains(s.Commands, name) }) {
			return
		}
	}
	t.Errorf("%v has commands that no scope has: %v", m.wizard.Step, shown)
}

func TestOwnKeysWorkAndHelpShowsThem(t *testing.T) {
	inChoice(t, nil, func(t *testing.T, d *driver) {
		d.keys("Q")
		if d.quit {
			t.Error("Q quits though nobody wants it to")
		}
	})
	own := keys.Own{"quit": {"Q", "f10"}, "add-file": {"+"}, "down": {"w"}}
	inWorld(t, func(*flowtest.Pair, *world) session.Options { return session.Options{Keys: own} }, func(t *testing.T, d *driver) {
		d.toChoice()
		d.has("Q/f10 quit", "+ add a kubeconfig file")
		before := d.selected()
		d.keys("w")
		if d.selected() == before {
			t.Error("w does not move down")
		}
		d.keys("up")
		if d.selected() != before {
			t.Error("the arrows do not move any more")
		}
		d.keys("q", "a")
		if d.quit || d.model.prompt != nil {
			t.Error("the usual keys still work")
		}
		d.keys("?")
		d.has("Q/f10", fmt.Sprintf("%-10s", "+"))
		d.keys("esc", "Q")
		if !d.quit {
			t.Error("Q does not quit")
		}
	})
}
