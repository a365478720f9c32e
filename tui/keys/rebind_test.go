package keys

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"charm.land/bubbles/v2/key"
)

func TestOwnKeys(t *testing.T) {
	for name, test := range map[string]struct {
		own  Own
		want []string
	}{
		"none":                           {nil, nil},
		"a free one":                     {Own{"verify": {"V", "ctrl+v"}, "explain": {"f1"}, "page-down": {"space"}}, nil},
		"two that change places":         {Own{"disconnect": {"v"}, "verify": {"x"}}, nil},
		"the same on other screens":      {Own{"add-file": {"v"}, "verify": {"v"}}, nil},
		"taken on the same screen":       {Own{"verify": {"x"}}, []string{`verify: "x" is the key of disconnect too, on the live connection`}},
		"both chosen":                    {Own{"verify": {"V"}, "pause": {"V"}}, []string{`verify: "V" is the key of pause too, on the dashboard`}},
		"enter is enter":                 {Own{"plan": {"enter"}}, []string{`plan: "enter" is the key of enter too, on a run`}},
		"an answer":                      {Own{"quit": {"y"}}, []string{`quit: "y" is the key of yaml too, on the dashboard`, `quit: "y" is the key of yes too, on a question`}},
		"ctrl+c stops":                   {Own{"copy": {"ctrl+c"}}, []string{`copy: "ctrl+c" is the key of ctrl+c too, on the plan`}},
		"no such command":                {Own{"exit": {"Q"}}, []string{"exit: no command has this name"}},
		"no choice":                      {Own{"enter": {"Q"}}, []string{"enter: no command has this name"}},
		"no key":                         {Own{"quit": {}}, []string{"quit: want a key, or a list of keys"}},
		"no such key":                    {Own{"quit": {"ctrl-q"}, "help": {"hh"}, "pause": {"shift+p"}, "save": {""}}, []string{`help: "hh" is not a key`, `pause: "shift+p" is not a key`, `quit: "ctrl-q" is not a key`, `save: "" is not a key`}},
		"a letter where text is written": {Own{"explain": {"e"}}, []string{`explain: "e" would be typed into fields`}},
		"the wrong order of modifiers":   {Own{"quit": {"alt+ctrl+q"}}, []string{`quit: "alt+ctrl+q" is not a key`}},
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
	k := NewMap(false)
	known := map[*key.Binding]bool{}
	every := Own{}
	for name, b := range k.Bindings() {
		known[b], every[name] = true, b.Keys()
	}
	for _, b := range k.Fixed() {
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
	for _, s := range Scopes {
		for _, name := range s.Commands {
			if k.Bindings()[name] == nil && k.Fixed()[name] == nil {
				t.Errorf("%s: %q is no command", s.Where, name)
			}
		}
	}
}

// An admin who has learned a key on one screen does not get something else by it on another one.
func TestAKeyMeansTheSameOnAllScreens(t *testing.T) {
	k := NewMap(false)
	again := map[string]string{"refresh": "retry"} // both do the same once more
	owner := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(k.Bindings())) {
		for _, pressed := range k.Bindings()[name].Keys() {
			means := cmp.Or(again[name], name)
			if other := owner[pressed]; other != "" && other != means {
				t.Errorf("%s is the key of %s and of %s", pressed, other, name)
			}
			owner[pressed] = means
		}
	}
}
