package tui

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"charm.land/bubbles/v2/key"

	"github.com/liqo-tui/liqo-tui/flows/flowtest"
)

func TestOwnKeys(t *testing.T) {
	for name, test := range map[string]struct {
		own  Keys
		want []string
	}{
		"none":                           {nil, nil},
		"a free one":                     {Keys{"verify": {"V", "ctrl+v"}, "explain": {"f1"}, "page-down": {"space"}}, nil},
		"two that change places":         {Keys{"disconnect": {"v"}, "verify": {"x"}}, nil},
		"the same on other screens":      {Keys{"add-file": {"v"}, "verify": {"v"}}, nil},
		"taken on the same screen":       {Keys{"verify": {"x"}}, []string{`verify: "x" is the key of disconnect too, on the live connection`}},
		"both chosen":                    {Keys{"verify": {"V"}, "pause": {"V"}}, []string{`verify: "V" is the key of pause too, on the dashboard`}},
		"enter is enter":                 {Keys{"plan": {"enter"}}, []string{`plan: "enter" is the key of enter too, on a run`}},
		"an answer":                      {Keys{"quit": {"y"}}, []string{`quit: "y" is the key of yaml too, on the dashboard`, `quit: "y" is the key of yes too, on a question`}},
		"ctrl+c stops":                   {Keys{"copy": {"ctrl+c"}}, []string{`copy: "ctrl+c" is the key of ctrl+c too, on the plan`}},
		"no such command":                {Keys{"exit": {"Q"}}, []string{"exit: no command has this name"}},
		"no choice":                      {Keys{"enter": {"Q"}}, []string{"enter: no command has this name"}},
		"no key":                         {Keys{"quit": {}}, []string{"quit: want a key, or a list of keys"}},
		"no such key":                    {Keys{"quit": {"ctrl-q"}, "help": {"hh"}, "pause": {"shift+p"}, "save": {""}}, []string{`help: "hh" is no key`, `pause: "shift+p" is no key`, `quit: "ctrl-q" is no key`, `save: "" is no key`}},
		"a letter where text is written": {Keys{"explain": {"e"}}, []string{`explain: "e" can't be typed into a field then`}},
		"the wrong order of modifiers":   {Keys{"quit": {"alt+ctrl+q"}}, []string{`quit: "alt+ctrl+q" is no key`}},
	} {
		errs := test.own.Validate()
		ok := len(errs) == len(test.want)
		for i, want := range test.want {
			ok = ok && i < len(errs) && strings.Contains(errs[i].Error(), want)
		}
		if !ok {
			t.Errorf("%s: got %q, want %q", name, errs, test.want)
		}
	}
}

// Every binding either has a name in the configuration or is everybody's, and
// what is usual has no conflicts.
func TestEveryKeyIsNamedOrFixed(t *testing.T) {
	k := newKeyMap(false)
	known := map[*key.Binding]bool{}
	every := Keys{}
	for name, b := range k.names() {
		known[b], every[name] = true, b.Keys()
	}
	for _, b := range k.fixed() {
		known[b] = true
	}
	v := reflect.ValueOf(&k).Elem()
	for i := range v.NumField() {
		if b := v.Field(i); !known[(*key.Binding)(b.Addr().UnsafePointer())] {
			t.Errorf("keyMap.%s has no name, and is not fixed", v.Type().Field(i).Name)
		}
	}
	every["up"], every["down"] = []string{"k"}, []string{"j"}
	if errs := every.Validate(); len(errs) > 0 {
		t.Errorf("the usual keys conflict: %v", errs)
	}
	for _, s := range scopes {
		for _, name := range s.commands {
			if k.names()[name] == nil && k.fixed()[name] == nil {
				t.Errorf("%s: %q is no command", s.where, name)
			}
		}
	}
}

// checkTogether is for every screen that any test sees: what can be done there
// stands together in a scope, or a conflict could go unseen.
func checkTogether(t testing.TB, m Model) {
	t.Helper()
	names := map[string]string{}
	k := m.keys
	for _, bindings := range []map[string]*key.Binding{k.names(), k.fixed()} {
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
	for _, s := range scopes {
		if !slices.ContainsFunc(shown, func(name string) bool { return !slices.Contains(s.commands, name) }) {
			return
		}
	}
	t.Errorf("screen %d has commands that no scope has: %v", m.screen, shown)
}

func TestOwnKeysWorkAndHelpShowsThem(t *testing.T) {
	inWorld(t, fresh(nil), func(t *testing.T, d *driver) {
		d.keys("Q")
		if d.quit {
			t.Error("Q quits though nobody wants it to")
		}
	})
	own := Keys{"quit": {"Q", "f10"}, "add-file": {"+"}, "down": {"w"}}
	inWorld(t, func(*flowtest.Pair, *world) Options { return Options{Keys: own} }, func(t *testing.T, d *driver) {
		d.has("Q/f10 quit", "+ add a kubeconfig file")
		before := d.model.clusters.selected
		d.keys("w")
		if d.model.clusters.selected == before {
			t.Error("w does not move down")
		}
		d.keys("up")
		if d.model.clusters.selected != before {
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
