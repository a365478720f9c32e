package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/liqo-tui/liqo-tui/flows"
)

// connectionSettings are what can be chosen of a connection: flags, keys of the
// file of network connect -f, and the wizard's form follow from them.
var connectionSettings = flows.Settings()

// auto is the value of flags that facts can answer.
const auto = "auto"

// settingFlag is the flag of a setting. It takes any text: what is wrong with it
// is told together with what is wrong with other flags, and where it is said.
type settingFlag[P any] struct {
	flows.Setting[P]
	to          *P
	text        string
	given, auto bool
	problem     error
}

// anySetting is a settingFlag of whatever parameters.
type anySetting interface {
	wrong() error
	completions() []string
	schema() map[string]any
}

// addSettings adds flags that set the fields of to.
func addSettings[P any](f *pflag.FlagSet, to *P, settings ...flows.Setting[P]) []*settingFlag[P] {
	var all []*settingFlag[P]
	for _, s := range settings {
		v := &settingFlag[P]{Setting: s, to: to, text: s.Write(*to)}
		f.VarPF(v, s.Name, s.Letter, s.Help).NoOptDefVal = s.Bare
		all = append(all, v)
	}
	return all
}

func (v *settingFlag[P]) String() string { return v.text }

// Type implements [pflag.Value].
func (v *settingFlag[P]) Type() string {
	switch {
	case v.Kind == flows.List:
		return "strings"
	case v.Kind == flows.Number && !v.Auto:
		return "int"
	}
	return "string"
}

// Set implements [pflag.Value].
func (v *settingFlag[P]) Set(text string) error {
	if v.Kind == flows.List && v.given {
		text = v.text + "," + text
	}
	v.text, v.given, v.problem = text, true, nil
	if v.auto = v.Auto && text == auto; v.auto {
		return nil
	}
	if v.problem = v.Setting.Set(v.to, text); v.problem != nil && v.Auto {
		v.problem = fmt.Errorf("%w, or %s", v.problem, auto)
	}
	return nil
}

// wrong says why the text is no value.
func (v *settingFlag[P]) wrong() error {
	if v.problem == nil {
		return nil
	}
	return fmt.Errorf("--%s %q: %w", v.Name, v.text, v.problem)
}

// wrong is what is wrong with all of the flags.
func wrong[P any](flags []*settingFlag[P]) error {
	var errs []error
	for _, v := range flags {
		errs = append(errs, v.wrong())
	}
	return errors.Join(errs...)
}

// setFlag gives a flag a value, of which a setting says only later that it is none.
func setFlag(f *pflag.FlagSet, name, text string) error {
	if err := f.Set(name, text); err != nil {
		return err
	}
	if v, ok := f.Lookup(name).Value.(anySetting); ok {
		return v.wrong()
	}
	return nil
}

// completions are the words that can be a value.
func (v *settingFlag[P]) completions() []string {
	var words []string
	for _, o := range v.Options {
		words = append(words, o.Value)
	}
	if v.Auto {
		words = append(words, auto)
	}
	return words
}

// completeSettings has shells complete the values of settings.
func completeSettings(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if v, ok := f.Value.(anySetting); ok {
			// It fails only for a flag that does not exist, or has a completion.
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(v.completions(), cobra.ShellCompDirectiveNoFileComp))
		}
	})
	for _, c := range cmd.Commands() {
		completeSettings(c)
	}
}

// schema is the JSON Schema of a value in a file.
func (v *settingFlag[P]) schema() map[string]any {
	s := map[string]any{"description": strings.TrimSpace(strings.Join([]string{v.Help, v.Explain, v.Field}, "\n"))}
	switch v.Kind {
	case flows.Choice:
		s["enum"] = v.completions()
	case flows.Number:
		bounds := map[string]any{"type": "integer", "minimum": v.Min, "maximum": v.Max}
		if v.Empty != "" {
			bounds["minimum"] = 0 // takes back an earlier choice
		}
		s["anyOf"] = []any{bounds}
		if v.Auto {
			s["anyOf"] = []any{bounds, map[string]any{"const": auto}}
		}
	case flows.Text, flows.List: // YAML makes of it what it looks like
	}
	return s
}

// peeringsSchema is the JSON Schema of the file of network connect -f.
func peeringsSchema() map[string]any {
	_, flags := newPeering()
	keys := map[string]any{}
	flags.VisitAll(func(f *pflag.Flag) {
		key := map[string]any{"description": f.Usage}
		if v, ok := f.Value.(anySetting); ok {
			key = v.schema()
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
