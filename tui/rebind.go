package tui

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

// Keys are an admin's own keys, by the names of commands. A command that is not
// in it has its usual ones.
type Keys map[string][]string

// KeyError is why a command can't have its keys.
type KeyError struct {
	Command string
	Err     error
}

func (e KeyError) Error() string { return e.Command + ": " + e.Err.Error() }

func (e KeyError) Unwrap() error { return e.Err }

// Validate reports every command that can't have the keys that it is given, as
// KeyErrors in the order of the names.
func (own Keys) Validate() []error {
	_, errs := newKeyMap(false).rebound(own)
	return errs
}

// KeyName is a command whose keys an admin can choose, with its usual ones.
type KeyName struct {
	Command, Means string
	Keys           []string
}

// KeyNames are all of them, in the order of their names.
func KeyNames() []KeyName {
	k := newKeyMap(true)
	names := k.names()
	var out []KeyName
	for _, name := range slices.Sorted(maps.Keys(names)) {
		out = append(out, KeyName{name, names[name].Help().Desc, names[name].Keys()})
	}
	return out
}

// names are the commands whose keys can be chosen. Not among them are the keys
// that everybody knows, and that questions are answered with: arrows, enter, esc,
// tab, y, n and ctrl+c.
func (k *keyMap) names() map[string]*key.Binding {
	return map[string]*key.Binding{
		"up": &k.up, "down": &k.down, "page-up": &k.pageUp, "page-down": &k.pageDown, "top": &k.top, "bottom": &k.bottom,
		"apply": &k.apply, "plan": &k.plan, "retry": &k.retry, "refresh": &k.refresh, "continue": &k.resume, "leave": &k.leave,
		"settings": &k.settings, "disconnect": &k.disconnect, "reset": &k.reset, "swap": &k.swap, "local-only": &k.localOnly,
		"add-file": &k.addFile, "filter": &k.filter, "info": &k.info, "dashboard": &k.dashboard, "connect": &k.connect,
		"explain": &k.explain, "problems": &k.problems, "verify": &k.verify,
		"copy": &k.copyCommand, "mouse": &k.mouse, "palette": &k.palette,
		"events": &k.events, "all-events": &k.allEvents, "yaml": &k.yaml, "pause": &k.pause, "save": &k.save,
		"wide": &k.wide, "change": &k.change, "diagnose": &k.diagnose, "logs": &k.logs,
		"sort-name": &k.sortName, "sort-status": &k.sortStatus, "sort-latency": &k.sortLatency,
		"sort-traffic": &k.sortTraffic, "sort-age": &k.sortAge,
		"help": &k.help, "quit": &k.quit,
	}
}

// fixed are the keys of everybody's.
func (k *keyMap) fixed() map[string]*key.Binding {
	return map[string]*key.Binding{
		"enter": &k.enter, "esc": &k.back, "the next field": &k.next, "the field before": &k.previous,
		"the choice before": &k.left, "the next choice": &k.right, "yes": &k.yes, "no": &k.no, "choosing": &k.choose, "ctrl+c": &k.interrupt,
	}
}

// scope is a place where commands can be had at the same time, so that none of
// them may have a key of another.
type scope struct {
	where    string
	commands []string
}

var (
	everywhere = []string{"help", "quit", "mouse", "palette", "enter", "esc", "ctrl+c"}
	scrolled   = []string{"up", "down", "page-up", "page-down"}
	listed     = slices.Concat(scrolled, []string{"top", "bottom"})
	scopes     = []scope{
		{"the list of clusters", slices.Concat(everywhere, listed, []string{"filter", "add-file", "info", "refresh", "dashboard"})},
		{"the checks", slices.Concat(everywhere, listed, []string{"settings", "refresh", "problems"})},
		{"the form", slices.Concat(everywhere, []string{"explain", "the next field", "the field before", "the choice before", "the next choice"})},
		{"the plan", slices.Concat(everywhere, listed, []string{"apply", "copy", "settings", "refresh", "local-only"})},
		{"a run", slices.Concat(everywhere, listed, []string{"continue", "leave", "disconnect", "retry", "plan", "settings", "swap"})},
		{"the live connection", slices.Concat(everywhere, scrolled, []string{"verify", "settings", "plan", "disconnect", "reset", "copy", "dashboard"})},
		{"the dashboard", slices.Concat(everywhere, listed, []string{
			"filter", "info", "diagnose", "problems", "verify", "events", "all-events", "logs", "yaml", "disconnect", "reset", "change",
			"connect", "wide", "pause", "save", "copy", "refresh", "sort-name", "sort-status", "sort-latency", "sort-traffic", "sort-age",
		})},
		{"a question", []string{"yes", "no", "choosing", "enter", "esc", "ctrl+c", "help", "quit"}},
	}
)

// rebound is the key map with an admin's own keys, and every reason why it can't
// be that.
func (k keyMap) rebound(own Keys) (keyMap, []error) {
	bindings := k.names()
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(own)) {
		b, ok := bindings[name]
		if !ok {
			errs = append(errs, KeyError{name, errNoCommand})
			continue
		}
		keys := own[name]
		if err := checkKeys(name, keys); err != nil {
			errs = append(errs, KeyError{name, err})
			continue
		}
		label := strings.Join(keys, "/")
		if name == "up" || name == "down" { // arrows always move
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

// conflicts are the keys that two commands of one place have.
func (k *keyMap) conflicts(own Keys) []error {
	bindings := k.names()
	maps.Copy(bindings, k.fixed())
	var errs []error
	told := map[string]bool{}
	for _, s := range scopes {
		for _, name := range s.commands {
			for _, other := range s.commands {
				if name == other || own[name] == nil || told[name+other] || told[other+name] {
					continue
				}
				for _, taken := range bindings[name].Keys() {
					if slices.Contains(bindings[other].Keys(), taken) && !told[name+other] {
						told[name+other] = true
						errs = append(errs, KeyError{name, fmt.Errorf("%q is the key of %s too, on %s", taken, other, s.where)})
					}
				}
			}
		}
	}
	slices.SortStableFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	return errs
}

// checkKeys judges the keys of one command by themselves.
func checkKeys(name string, keys []string) error {
	if len(keys) == 0 {
		return errors.New("want a key, or a list of keys")
	}
	for _, text := range keys {
		if !isKey(text) {
			return fmt.Errorf("%q is no key: want a character, such as v or V, or a name, such as f5, pgup, ctrl+v or alt+v", text)
		}
		if name == "explain" && utf8.RuneCountInString(text) == 1 {
			return fmt.Errorf("%q can't be typed into a field then: want a key that writes nothing, such as ctrl+e or f1", text)
		}
	}
	return nil
}

// keyNames are the keys that have a name, as Bubble Tea writes them.
var keyNames = []string{
	"up", "down", "left", "right", "home", "end", "pgup", "pgdown", "insert", "delete", "backspace", "tab", "space", "enter", "esc",
	"f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9", "f10", "f11", "f12",
}

// isKey reports whether Bubble Tea ever calls a key so: modifiers in their order,
// then a name or a character. A character is its own capital: shift makes that.
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
