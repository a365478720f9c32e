// Package config reads values of flags, and settings of screens, from the environment and from
// the configuration file.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/flags"
)

// The source of a flag's value is the first of these that has one: the command line, the
// environment, the configuration file, the default.
const (
	environmentPrefix = "LIQO_TUI_"
	Help              = `Every flag can also be set by an environment variable, --server-service-type by
LIQO_TUI_SERVER_SERVICE_TYPE, and by a line "server-service-type: NodePort" of
$XDG_CONFIG_HOME/liqo-tui/config.yaml (~/.config/liqo-tui/config.yaml if that is
not set). The command line wins over the environment, which wins over the file.
Settings from there are defaults: an existing connection keeps its own.
The file can also change keys and protect contexts: liqo-tui explain config.`
)

// settingsFile returns the path of the configuration file, whether the file exists or not; ""
// if there is no folder for it.
func settingsFile(env func(string) string) string {
	if dir := env("XDG_CONFIG_HOME"); dir != "" {
		return filepath.Join(dir, "liqo-tui", "config.yaml")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "" // there is no folder for the file
	}
	return filepath.Join(home, ".config", "liqo-tui", "config.yaml")
}

// setting is one key of the configuration file.
type setting struct {
	values []string
	line   int
}

// readSettings parses a configuration file. The file maps names of flags to scalars or to
// lists of scalars; it also has the settings of screens. A missing file counts as empty.
func readSettings(file string, known func(string) bool) (_ map[string]setting, screens Screens, _ error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, screens, nil
	}
	if err != nil {
		return nil, screens, exit.UsageError{Err: fmt.Errorf("read the configuration file: %w", err)}
	}
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return nil, screens, exit.UsageError{Err: fmt.Errorf("%s: %w", file, err)}
	}
	if len(document.Content) == 0 {
		return nil, screens, nil // the file has only comments
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode {
		return nil, screens, exit.UsageError{Err: fmt.Errorf("%s:%d: want lines of the form \"<flag>: <value>\"", file, root.Line)}
	}
	settings := map[string]setting{}
	var errs []error
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		var wrong []error
		switch {
		case key.Value == settingKeys:
			screens.Keys, wrong = readKeys(file, value)
		case key.Value == settingProtected:
			screens.Protected, wrong = readProtected(file, value)
		case !known(key.Value):
			wrong = append(wrong, fmt.Errorf("%s:%d: unknown key %q: no flag has this name", file, key.Line, key.Value))
		default:
			values, err := Scalars(value)
			if err != nil {
				wrong = append(wrong, fmt.Errorf("%s:%d: %s: %w", file, value.Line, key.Value, err))
			}
			settings[key.Value] = setting{values, key.Line}
		}
		errs = append(errs, wrong...)
	}
	if len(errs) > 0 {
		return nil, screens, exit.UsageError{Err: errors.Join(errs...)}
	}
	return settings, screens, nil
}

// Scalars returns the value of a scalar node, or the values of a list.
func Scalars(n *yaml.Node) ([]string, error) {
	if n.Kind == yaml.ScalarNode {
		return []string{n.Value}, nil
	}
	if n.Kind != yaml.SequenceNode {
		return nil, errors.New("want one value, or a list of values")
	}
	var out []string
	for _, item := range n.Content {
		if item.Kind != yaml.ScalarNode {
			return nil, errors.New("want a list of values")
		}
		out = append(out, item.Value)
	}
	return out, nil
}

// Apply gives each flag without a value on the command line the value from the environment,
// else from the configuration file. It leaves out a flag that a flag on the command line
// excludes. The values are defaults, see [flags.Preset]. Apply returns the file's settings of
// screens.
func Apply(cmd *cobra.Command, env func(string) string) (Screens, error) {
	known := map[string]bool{}
	everyFlag(cmd.Root(), func(f *pflag.Flag) { known[f.Name] = true })
	file := settingsFile(env)
	settings, screens, err := readSettings(file, func(name string) bool { return known[name] })
	if err != nil {
		return screens, err
	}
	var errs []error
	given := map[string]bool{}
	cmd.Flags().Visit(func(f *pflag.Flag) { given[f.Name] = true })
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if given[f.Name] || excluded(f, given) {
			return
		}
		values, source := []string(nil), ""
		if s, ok := settings[f.Name]; ok {
			values, source = s.values, fmt.Sprintf("%s:%d", file, s.line)
		}
		if v := env(environmentName(f.Name)); v != "" {
			values, source = []string{v}, environmentName(f.Name)
		}
		if len(values) > 0 && f.Annotations[commandLineOnly] != nil {
			errs = append(errs, fmt.Errorf("%s: --%s is for one run: give it on the command line", source, f.Name))
			return
		}
		if len(values) > 0 {
			if err := flags.Preset(cmd.Flags(), f.Name, values...); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", source, err))
			}
		}
	})
	if len(errs) > 0 {
		return screens, exit.UsageError{Err: errors.Join(errs...)}
	}
	return screens, nil
}

// exclusive is the annotation that cobra uses for flags that exclude each other.
const exclusive = "cobra_annotation_mutually_exclusive"

// excluded reports whether a flag on the command line excludes f.
func excluded(f *pflag.Flag, given map[string]bool) bool {
	return slices.ContainsFunc(f.Annotations[exclusive], func(group string) bool {
		return slices.ContainsFunc(strings.Fields(group), func(name string) bool { return given[name] })
	})
}

// commandLineOnly marks flags that must not come from the environment or the file.
const commandLineOnly = "liqo-tui/command-line-only"

// OnCommandLine allows a flag only on the command line, because it is about one run.
func OnCommandLine(f *pflag.FlagSet, name string) {
	_ = f.SetAnnotation(name, commandLineOnly, []string{"true"}) // this can't fail, because the flag exists
}

func environmentName(flag string) string {
	return environmentPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

func everyFlag(cmd *cobra.Command, visit func(*pflag.Flag)) {
	cmd.LocalFlags().VisitAll(visit)
	for _, c := range cmd.Commands() {
		everyFlag(c, visit)
	}
}
