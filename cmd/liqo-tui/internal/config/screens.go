package config

import (
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/tui/keys"
)

// Keys of the configuration file without a flag.
const (
	settingKeys      = "keys"
	settingProtected = "protected"
)

// Screens are the values of these keys.
type Screens struct {
	Keys      keys.Own
	Protected Guard
}

// Guard has patterns of protected contexts. Before a change of their clusters,
// the admin has to type the context's name.
type Guard []*regexp.Regexp

// Protects reports whether a context is protected.
func (g Guard) Protects(context string) bool {
	return slices.ContainsFunc(g, func(r *regexp.Regexp) bool { return r.MatchString(context) })
}

// readKeys parses the keys for commands. Errors name the line in the file.
func readKeys(file string, n *yaml.Node) (keys.Own, []error) {
	if n.Kind != yaml.MappingNode {
		return nil, []error{fmt.Errorf("%s:%d: %s: want lines of the form \"<command>: <key>\"", file, n.Line, settingKeys)}
	}
	own, lines := keys.Own{}, map[string]int{}
	var errs []error
	for i := 0; i+1 < len(n.Content); i += 2 {
		command, value := n.Content[i], n.Content[i+1]
		list, err := Scalars(value)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %s: %s: %w", file, value.Line, settingKeys, command.Value, err))
			continue
		}
		own[command.Value], lines[command.Value] = list, command.Line
	}
	for _, err := range own.Validate() {
		line := n.Line
		if k, ok := errors.AsType[keys.Error](err); ok {
			line = lines[k.Command]
		}
		errs = append(errs, fmt.Errorf("%s:%d: %s: %w", file, line, settingKeys, err))
	}
	return own, errs
}

// readProtected parses the names of protected contexts.
func readProtected(file string, n *yaml.Node) (Guard, []error) {
	names, err := Scalars(n)
	if err != nil {
		return nil, []error{fmt.Errorf("%s:%d: %s: %w", file, n.Line, settingProtected, err)}
	}
	var g Guard
	var errs []error
	for _, name := range names {
		r, err := regexp.Compile(name)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %s: %w", file, n.Line, settingProtected, err))
			continue
		}
		g = append(g, r)
	}
	return g, errs
}

// ProtectedContext is [Guard.Protects] for the terminal program.
func (g Guard) ProtectedContext(ref flows.ContextRef) bool { return g.Protects(ref.Name) }

const configurationHelp = `The configuration file, $XDG_CONFIG_HOME/liqo-tui/config.yaml (by default
~/.config/liqo-tui/config.yaml), is YAML. A key that is none of these is an error.

  <flag>: <value>       what a flag is where neither the command line nor the
                        environment gives it, for every command that has it
  protected: [<regexp>] contexts whose clusters take more than a yes to be changed:
                        their names have to be typed (--yes still answers for scripts)
  keys:                 the keys of the terminal program's commands
    <command>: <key>    a key, or a list of keys, instead of the usual ones

For example:

  server-service-type: NodePort
  color: never
  protected: [^prod-, "^admin@"]
  keys:
    quit: Q
    disconnect: [ctrl+x, delete]

What you choose in the wizard, and apply, is offered the next time for the same clusters;
it is kept in $XDG_STATE_HOME/liqo-tui/answers.yaml (~/.local/state by default), which
no command obeys.

A key is a character (v, V, ?) or a name (f1, space, pgup, delete, home), also with
ctrl+ or alt+ before it. Two commands of one screen can't have the same key; arrows,
enter, esc, tab and ctrl+c stay what they are, and y and n what questions are
answered with. The commands and their usual keys:

`

// Explain writes the documentation of the file.
func Explain(out io.Writer) error {
	if _, err := fmt.Fprint(out, configurationHelp); err != nil {
		return err
	}
	for _, n := range keys.Names() {
		if _, err := fmt.Fprintf(out, "  %-13s %-14s %s\n", n.Command, strings.Join(n.Keys, ", "), n.Means); err != nil {
			return err
		}
	}
	return nil
}
