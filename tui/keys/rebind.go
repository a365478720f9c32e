package keys

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"charm.land/bubbles/v2/key"
)

// Own has an admin's own keys, by the names of commands. All other commands have
// their usual keys.
type Own map[string][]string

// Error says why a command can't have its keys.
type Error struct {
	Command string
	Err     error
}

func (e Error) Error() string { return e.Command + ": " + e.Err.Error() }

func (e Error) Unwrap() error { return e.Err }

// Validate returns an [Error] for each command that can't have its keys, in the
// order of the names.
func (own Own) Validate() []error {
	_, errs := NewMap(false).Rebound(own)
	return errs
}

// Name is a command whose keys an admin can choose, with its usual keys.
type Name struct {
	Command, Means string
	Keys           []string
}

// Names returns these commands, in the order of their names.
func Names() []Name {
	k := NewMap(true)
	names := k.Bindings()
	var out []Name
	for _, name := range slices.Sorted(maps.Keys(names)) {
		out = append(out, Name{name, names[name].Help().Desc, names[name].Keys()})
	}
	return out
}

// Bindings returns the commands whose keys can be chosen. The keys that answer
// questions and that everybody knows are not among them: arrows, enter, esc, tab,
// y, n and ctrl+c.
func (k *Map) Bindings() map[string]*key.Binding {
	return map[string]*key.Binding{
		"up": &k.Up, "down": &k.Down, "page-up": &k.PageUp, "page-down": &k.PageDown, "top": &k.Top, "bottom": &k.Bottom,
		"apply": &k.Apply, "plan": &k.Plan, "retry": &k.Retry, "refresh": &k.Refresh,
		"settings": &k.Settings, "disconnect": &k.Disconnect, "reset": &k.Reset, "swap": &k.Swap, "local-only": &k.LocalOnly,
		"add-file": &k.AddFile, "filter": &k.Filter, "info": &k.Info, "dashboard": &k.Dashboard, "connect": &k.Connect,
		"explain": &k.Explain, "problems": &k.Problems, "verify": &k.Verify,
		"copy": &k.CopyCommand, "address": &k.Address, "mouse": &k.Mouse, "palette": &k.Palette,
		"events": &k.Events, "all-events": &k.AllEvents, "yaml": &k.YAML, "pause": &k.Pause, "save": &k.Save, "hand-over": &k.HandOver,
		"wide": &k.Wide, "grow": &k.Grow, "shrink": &k.Shrink, "hide": &k.Hide, "matrix": &k.Matrix, "diagnose": &k.Diagnose, "logs": &k.Logs, "services": &k.Services,
		"sort-name": &k.SortName, "sort-status": &k.SortStatus, "sort-latency": &k.SortLatency,
		"sort-traffic": &k.SortTraffic, "sort-age": &k.SortAge,
		"demo-cut": &k.CutUDP, "demo-slow": &k.SlowLink, "demo-kill": &k.KillGateway, "demo-cluster": &k.AddCluster,
		"help": &k.Help, "quit": &k.Quit,
	}
}

// Fixed returns the commands whose keys can't be chosen.
func (k *Map) Fixed() map[string]*key.Binding {
	return map[string]*key.Binding{
		"enter": &k.Enter, "esc": &k.Back, "the next field": &k.Next, "the previous field": &k.Previous,
		"the previous choice": &k.Left, "the next choice": &k.Right, "yes": &k.Yes, "no": &k.No, "choosing": &k.Choose, "ctrl+c": &k.Interrupt,
	}
}

// Scope is a place with commands that are available at the same time. No two of
// them may have the same key.
type Scope struct {
	Where    string
	Commands []string
}

var (
	everywhere = []string{"help", "quit", "mouse", "palette", "enter", "esc", "ctrl+c", "demo-cut", "demo-slow", "demo-kill", "demo-cluster"}
	scrolled   = []string{"up", "down", "page-up", "page-down"}
	listed     = slices.Concat(scrolled, []string{"top", "bottom"})
	// Scopes has all scopes.
	Scopes = []Scope{
		{"the list of clusters", slices.Concat(everywhere, listed, []string{"filter", "add-file", "info", "refresh", "dashboard"})},
		{"the checks", slices.Concat(everywhere, listed, []string{"info", "refresh", "problems", "verify"})},
		{"the form", slices.Concat(everywhere, []string{"explain", "the next field", "the previous field", "the previous choice", "the next choice"})},
		{"the plan", slices.Concat(everywhere, listed, []string{"apply", "copy", "settings", "refresh", "local-only"})},
		{"a run", slices.Concat(everywhere, listed, []string{"disconnect", "retry", "plan", "settings", "swap", "diagnose"})},
		{"the live connection", slices.Concat(everywhere, scrolled, []string{"verify", "diagnose", "address", "services", "settings", "plan", "disconnect", "reset", "copy", "dashboard"})},
		{"the dashboard", slices.Concat(everywhere, listed, []string{
			"filter", "info", "diagnose", "problems", "apply", "verify", "events", "all-events", "logs", "services", "yaml", "disconnect", "reset", "settings",
			"connect", "wide", "grow", "shrink", "hide", "matrix", "pause", "save", "hand-over", "copy", "refresh", "sort-name", "sort-status", "sort-latency", "sort-traffic", "sort-age",
			"the previous choice", "the next choice", // these move the cursor of the matrix
		})},
		{"a question", []string{"yes", "no", "choosing", "enter", "esc", "ctrl+c", "help", "quit"}},
	}
)

// Rebound returns the key map with an admin's own keys, and all errors in these.
func (k Map) Rebound(own Own) (Map, []error) {
	bindings := k.Bindings()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(own)) {
		b, ok := bindings[name]
		if !ok {
			errs = append(errs, Error{name, errNoCommand})
			continue
		}
		keys := own[name]
		if err := checkKeys(name, keys); err != nil {
			errs = append(errs, Error{name, err})
			continue
		}
		label := strings.Join(keys, "/")
		if name == "up" || name == "down" { // arrow keys always move
			keys, label = append([]string{name}, keys...), b.Keys()[0]+"/"+label
		}
		b.SetKeys(keys...)
		b.SetHelp(label, b.Help().Desc)
	}
	if len(errs) == 0 {
		errs = k.conflicts(own)
	}
	return k, errs
}

var errNoCommand = errors.New("no command has this name; liqo-tui explain config lists them")

// conflicts returns the keys that two commands in the same scope have.
func (k *Map) conflicts(own Own) []error {
	bindings := k.Bindings()
	maps.Copy(bindings, k.Fixed())
	var errs []error
	told := map[string]bool{}
	for _, s := range Scopes {
		for _, name := range s.Commands {
			for _, other := range s.Commands {
				if name == other || own[name] == nil || told[name+other] || told[other+name] {
					continue
				}
				for _, taken := range bindings[name].Keys() {
					if slices.Contains(bindings[other].Keys(), taken) && !told[name+other] {
						told[name+other] = true
						errs = append(errs, Error{name, fmt.Errorf("%q is the key of %s too, on %s", taken, other, s.Where)})
					}
				}
			}
		}
	}
	slices.SortStableFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errs
}

func checkKeys(name string, keys []string) error {
	if len(keys) == 0 {
		return errors.New("want a key, or a list of keys")
	}
	for _, text := range keys {
		if !isKey(text) {
			return fmt.Errorf("%q is not a key: want a character, such as v or V, or a name, such as f5, pgup, ctrl+v or alt+v", text)
		}
		if name == "explain" && utf8.RuneCountInString(text) == 1 {
			return fmt.Errorf("%q would be typed into fields: choose a key that writes no character, such as ctrl+e or f1", text)
		}
	}
	return nil
}

// keyNames has the keys with a name, in Bubble Tea's notation.
var keyNames = []string{
	"up", "down", "left", "right", "home", "end", "pgup", "pgdown", "insert", "delete", "backspace", "tab", "space", "enter", "esc",
	"f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9", "f10", "f11", "f12",
}

// isKey reports whether Bubble Tea has a key with this name: modifiers in their
// order, then a name or a character. It writes shift with a letter as the capital
// letter.
func isKey(text string) bool {
	base, modified := text, false
	for _, modifier := range []string{"ctrl+", "alt+", "shift+"} {
		if rest, ok := strings.CutPrefix(base, modifier); ok {
			base, modified = rest, true
		}
	}
	if slices.Contains(keyNames, base) {
		return true
	}
	r, size := utf8.DecodeRuneInString(base)
	switch {
	case size != len(base) || size == 0 || !unicode.IsGraphic(r) || unicode.IsSpace(r):
		return false
	case strings.Contains(text, "shift+"), modified && unicode.IsUpper(r):
		return false
	}
	return true
}
