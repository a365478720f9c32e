package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/config"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/settingflag"
	"github.com/liqo-tui/liqo-tui/flows"
)

// peering is one connection of a file of many: the flags of network connect.
type peering struct {
	pair    *pairFlags
	connect *connectFlags
}

func (p peering) String() string {
	return fmt.Sprintf("%s and %s", p.pair.local.options().Context, p.pair.remote.options().Context)
}

// readPeerings reads a file of the form
//
//	defaults: {server-service-type: NodePort}
//	peerings:
//	- {context: rome, remote-context: milan}
//	- {context: rome, remote-context: turin, mtu: 1280}
//
// in which keys are flags that choose clusters or say what is wanted of a
// connection; those that were given beside the file hold where it says nothing.
// All that is wrong with it is found before anything is done.
func readPeerings(file string, given *pflag.FlagSet) ([]peering, error) {
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
	var out []peering
	for _, wanted := range content.Peerings {
		p, err := readPeering(file, given, content.Defaults, wanted)
		errs = append(errs, err)
		out = append(out, p)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, exit.UsageError{Err: err}
	}
	return out, nil
}

// newPeering is a peering with the flags that are the keys of its file.
func newPeering() (peering, *pflag.FlagSet) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	p := peering{pair: &pairFlags{}, connect: newConnectFlags()}
	p.pair.local.add(f, "", "the local cluster (A)")
	p.pair.remote.add(f, "remote-", "the remote cluster (B)")
	p.connect.add(f, nil)
	p.connect.addInstall(f)
	return p, f
}

func readPeering(file string, given *pflag.FlagSet, defaults, wanted map[string]yaml.Node) (peering, error) {
	values := map[string]yaml.Node{}
	maps.Copy(values, defaults)
	maps.Copy(values, wanted)
	p, f := newPeering()
	var errs []error
	given.Visit(func(flag *pflag.Flag) {
		if _, ok := values[flag.Name]; !ok && f.Lookup(flag.Name) != nil {
			errs = append(errs, settingflag.Set(f, flag.Name, flag.Value.String()))
		}
	})
	line := 0
	for _, name := range slices.Sorted(maps.Keys(values)) {
		node := values[name]
		if own, ok := wanted[name]; ok && (line == 0 || own.Line < line) {
			line = own.Line // where the peering begins
		}
		words, err := config.Scalars(&node)
		if f.Lookup(name) == nil {
			words, err = nil, errors.New("no flag of network connect has this name")
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", name, err)
		}
		for _, word := range words {
			err = errors.Join(err, settingflag.Set(f, name, word))
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %w", file, node.Line, err))
		}
	}
	if errors.Join(errs...) == nil {
		if _, _, err := p.connect.parse(); err != nil {
			errs = append(errs, fmt.Errorf("%s:%d: %w", file, line, err))
		}
		if p.pair.remote.context == "" && len(p.pair.remote.files) == 0 {
			errs = append(errs, fmt.Errorf("%s:%d: %w", file, line, errNoRemote))
		}
	}
	return p, errors.Join(errs...)
}

// connectMany connects one pair after the other, and goes on after a failure:
// what one pair lacks is no reason for the others to wait. The error, and with
// it the exit code, is that of the first that failed; changes that a dry run
// would make are no failure.
func connectMany(ctx context.Context, io streams, file string, given *pflag.FlagSet, r runFlags) error {
	all, err := readPeerings(file, given)
	if err != nil {
		return err
	}
	if r.output != report.Text {
		return exit.UsageError{Err: fmt.Errorf("--output %s: of many peerings there is text only; run them one by one for programs", r.output)}
	}
	var first error
	failed, pending := 0, 0
	for i, p := range all {
		fmt.Fprintf(io.err, "\n%d of %d: %s\n", i+1, len(all), p)
		op := operation{
			name: "connect",
			plan: p.connect.plan,
			done: func(f flows.Facts) report.Achieved { return connected(p.pair, p.connect.params.Wait, f) },
		}
		err := op.run(ctx, io, p.pair, r)
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
			fmt.Fprintf(io.err, "error: %s: %v\n", p, err)
			if h := exit.Hint(err); h != "" {
				fmt.Fprintln(io.err, "hint:", h)
			}
		}
	}
	switch {
	case first == nil && pending > 0:
		fmt.Fprintf(io.err, "\n%d of %d peerings would be changed\n", pending, len(all))
		return exit.Verdict(exit.Pending)
	case first == nil:
		return nil
	}
	fmt.Fprintf(io.err, "\n%d of %d peerings are not connected; the same command goes on with them\n", failed, len(all))
	return exit.Verdict(exit.Code(first))
}

// peeringsSchema is the JSON Schema of the file of network connect -f.
func peeringsSchema() map[string]any {
	_, flags := newPeering()
	keys := map[string]any{}
	flags.VisitAll(func(f *pflag.Flag) {
		key := map[string]any{"description": f.Usage}
		if v, ok := f.Value.(settingflag.Any); ok {
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
