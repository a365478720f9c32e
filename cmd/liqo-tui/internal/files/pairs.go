package files

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/config"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/flags"
)

// PairRow makes one row of the file of `network connect -f`. It returns a value, the flags that set it, and a
// function that checks the value afterwards.
type PairRow[T any] func() (T, *pflag.FlagSet, func() error)

// ReadPairs reads a file of the form
//
//	defaults: {server-service-type: NodePort}
//	peerings:
//	- {context: rome, remote-context: milan}
//	- {context: rome, remote-context: turin, mtu: 1280}
//
// The keys are names of flags that choose clusters, or of settings of a connection. A flag on the command
// line applies to each row without a value of its own. All errors are found before any pair is connected.
func ReadPairs[T any](file string, given *pflag.FlagSet, row PairRow[T]) ([]T, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, exit.UsageError{Err: fmt.Errorf("-f: %w", err)}
	}
	var content struct {
		Defaults map[string]yaml.Node   `yaml:"defaults"`
		Peerings []map[string]yaml.Node `yaml:"peerings"`
	}
	if err := yaml.Unmarshal(text, &content); err != nil {
		return nil, exit.UsageError{Err: fmt.Errorf("-f %s: %w", file, err)}
	}
	if len(content.Peerings) == 0 {
		return nil, exit.UsageError{Err: fmt.Errorf("-f %s: there are no peerings in it", file)}
	}
	var errs []error
	var out []T
	for _, wanted := range content.Peerings {
		p, err := readRow(file, given, row, content.Defaults, wanted)
		errs = append(errs, err)
		out = append(out, p)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, exit.UsageError{Err: err}
	}
	return out, nil
}

// PairsOf makes rows from maps of flags to their values; see [ReadPairs] for given. Errors name source as the
// origin of the rows.
func PairsOf[T any](source string, rows []map[string]string, given *pflag.FlagSet, row PairRow[T]) ([]T, error) {
	var out []T
	for _, words := range rows {
		wanted := map[string]yaml.Node{}
		for flag, word := range words {
			wanted[flag] = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: word}
		}
		p, err := readRow(source, given, row, nil, wanted)
		if err != nil {
			return nil, exit.UsageError{Err: err}
		}
		out = append(out, p)
	}
	return out, nil
}

// EachPair connects one pair after the other. It continues after a failure, because the pairs don't depend on
// each other. The error, and so the exit code, is that of the first failed pair. Changes in a dry run are no
// failure.
func EachPair[T fmt.Stringer](ctx context.Context, out io.Writer, all []T, connect func(T) error) error {
	var first error
	failed, pending := 0, 0
	for i, p := range all {
		fmt.Fprintf(out, "\n%d of %d: %s\n", i+1, len(all), p)
		err := connect(p)
		if ctx.Err() != nil {
			return err
		}
		if err == nil {
			continue
		}
		if exit.Code(err) == exit.Pending {
			pending++
			continue
		}
		failed++
		if first == nil {
			first = err
		}
		if _, said := errors.AsType[exit.Verdict](err); !said {
			fmt.Fprintf(out, "error: %s: %v\n", p, err)
			if h := exit.Hint(err); !h.IsZero() {
				fmt.Fprintln(out, "hint:", h)
			}
		}
	}
	switch {
	case first == nil && pending > 0:
		fmt.Fprintf(out, "\n%d of %d peerings would be changed\n", pending, len(all))
		return exit.Verdict(exit.Pending)
	case first == nil:
		return nil
	}
	fmt.Fprintf(out, "\n%d of %d peerings are not connected; the same command continues with them\n", failed, len(all))
	return exit.Verdict(exit.Code(first))
}

func readRow[T any](file string, given *pflag.FlagSet, row PairRow[T], defaults, wanted map[string]yaml.Node) (T, error) {
	values := map[string]yaml.Node{}
	maps.Copy(values, defaults)
	maps.Copy(values, wanted)
	p, f, invalid := row()
	var errs []error
	given.Visit(func(flag *pflag.Flag) {
		if _, ok := values[flag.Name]; !ok && f.Lookup(flag.Name) != nil {
			set := flags.Set
			if flags.IsPreset(flag) {
				set = func(f *pflag.FlagSet, name, text string) error { return flags.Preset(f, name, text) }
			}
			values := []string{flag.Value.String()}
			if several, ok := flag.Value.(interface{ GetSlice() []string }); ok {
				values = several.GetSlice()
			}
			for _, value := range values {
				errs = append(errs, set(f, flag.Name, value))
			}
		}
	})
	line := 0
	for _, name := range slices.Sorted(maps.Keys(values)) {
		node := values[name]
		if own, ok := wanted[name]; ok && (line == 0 || own.Line < line) {
			line = own.Line // the line of the connection
		}
		words, err := config.Scalars(&node)
		if f.Lookup(name) == nil {
			words, err = nil, errors.New("no flag of network connect has this name")
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
		for _, word := range words {
			err = errors.Join(err, flags.Set(f, name, word))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %w", file, node.Line, err))
		}
	}
	if errors.Join(errs...) == nil {
		if err := errors.Join(flags.RemoteFile(f), invalid()); err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %w", file, line, err))
		}
	}
	return p, errors.Join(errs...)
}

// PairsSchema returns the JSON Schema of the file, with these flags as keys.
func PairsSchema(set *pflag.FlagSet) map[string]any {
	keys := map[string]any{}
	set.VisitAll(func(f *pflag.Flag) {
		key := map[string]any{"description": f.Usage}
		if v, ok := f.Value.(flags.Any); ok {
			key = v.Schema()
		} else if f.Value.Type() == "bool" {
			key["type"] = "boolean"
		}
		keys[f.Name] = key
	})
	peering := map[string]any{"$ref": "#/$defs/peering"}
	return map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "liqo-tui.peerings/v1",
		"title": "The file of liqo-tui network connect -f", "type": "object", "required": []string{"peerings"},
		"properties": map[string]any{
			"defaults": peering,
			"peerings": map[string]any{"type": "array", "minItems": 1, "items": peering},
		},
		"$defs": map[string]any{
			"peering": map[string]any{"type": "object", "additionalProperties": false, "properties": keys},
		},
	}
}
