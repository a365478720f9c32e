// Package flags has the flags that several commands share, flags made from settings, and
// suggestions for mistyped flags and commands.
package flags

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/liqo-tui/liqo-tui/flows/setting"
)

// Auto is the value of a flag for which facts decide.
const Auto = "auto"

// Flag is the flag of a setting. It accepts every text. The error is reported later, with the
// flag's name, together with the errors of other flags.
type Flag[P any] struct {
	setting.Setting[P]
	to          *P
	text        string
	Given, Open bool // the admin has given it; its value was auto
	Preset      bool // the value is the admin's own default, see [Preset]
	problem     error
}

// Any is a [Flag] for parameters of any type.
type Any interface {
	wrong() error
	preset()
	completions() []string
	Schema() map[string]any
}

// Add adds a flag for each setting. The flags set the fields of to.
func Add[P any](f *pflag.FlagSet, to *P, settings ...setting.Setting[P]) []*Flag[P] {
	var all []*Flag[P]
	for _, s := range settings {
		v := &Flag[P]{Setting: s, to: to, text: s.Write(*to)}
		f.VarPF(v, s.Name, s.Letter, s.Help).NoOptDefVal = s.Bare
		all = append(all, v)
	}
	return all
}

func (v *Flag[P]) String() string { return v.text }

// Type implements [pflag.Value].
func (v *Flag[P]) Type() string {
	switch {
	case v.Kind == setting.List:
		return "strings"
	case v.Kind == setting.Number && !v.Auto:
		return "int"
	}
	return "string"
}

// Set implements [pflag.Value].
func (v *Flag[P]) Set(text string) error {
	if v.Kind == setting.List && v.Given {
		text = v.text + "," + text
	}
	v.text, v.Given, v.Preset, v.problem = text, true, false, nil
	if v.Open = v.Auto && text == Auto; v.Open {
		return nil
	}
	if v.problem = v.Setting.Set(v.to, text); v.problem != nil && v.Auto {
		v.problem = fmt.Errorf("%w, or %s", v.problem, Auto)
	}
	return nil
}

func (v *Flag[P]) wrong() error {
	if v.problem == nil {
		return nil
	}
	return fmt.Errorf("--%s %q: %w", v.Name, v.text, v.problem)
}

// Wrong returns the errors of all flags, joined.
func Wrong[P any](flags []*Flag[P]) error {
	var errs []error
	for _, v := range flags {
		errs = append(errs, v.wrong())
	}
	return errors.Join(errs...)
}

// Set gives a flag a value. It returns all errors at once, including the error that a
// setting's flag would report later.
func Set(f *pflag.FlagSet, name, text string) error {
	if err := f.Set(name, text); err != nil {
		return err
	}
	if v, ok := f.Lookup(name).Value.(Any); ok {
		return v.wrong()
	}
	return nil
}

// preset makes the value a default.
func (v *Flag[P]) preset() { v.Given, v.Preset = false, !v.Open }

// isPreset marks flags whose value was preset.
const isPreset = "liqo-tui/preset"

// Preset gives a flag values from outside of the command line. For settings these values are
// defaults: they don't change existing objects.
func Preset(f *pflag.FlagSet, name string, values ...string) error {
	for _, value := range values {
		if err := Set(f, name, value); err != nil {
			return err
		}
	}
	if v, ok := f.Lookup(name).Value.(Any); ok {
		v.preset()
	}
	return f.SetAnnotation(name, isPreset, []string{"true"})
}

// IsPreset reports whether [Preset] gave the flag its value.
func IsPreset(f *pflag.Flag) bool { return f.Annotations[isPreset] != nil }

// completions returns the possible words of a value.
func (v *Flag[P]) completions() []string {
	var words []string
	for _, o := range v.Options {
		words = append(words, o.Value)
	}
	if v.Auto {
		words = append(words, Auto)
	}
	return words
}

// Complete adds completions for the values of settings.
func Complete(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if v, ok := f.Value.(Any); ok {
			// It fails only for a flag that does not exist, or that has a completion.
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(v.completions(), cobra.ShellCompDirectiveNoFileComp))
		}
	})
	for _, c := range cmd.Commands() {
		Complete(c)
	}
}

// Schema returns the JSON Schema of a value in a file.
func (v *Flag[P]) Schema() map[string]any {
	s := map[string]any{"description": strings.TrimSpace(strings.Join([]string{v.Help, v.Explain, v.Field}, "\n"))}
	switch v.Kind {
	case setting.Choice:
		s["enum"] = v.completions()
	case setting.Number:
		bounds := map[string]any{"type": "integer", "minimum": v.Min, "maximum": v.Max}
		if v.Empty != "" {
			bounds["minimum"] = 0 // 0 cancels an earlier choice
		}
		s["anyOf"] = []any{bounds}
		if v.Auto {
			s["anyOf"] = []any{bounds, map[string]any{"const": Auto}}
		}
	case setting.Text, setting.List: // in YAML, the text can look like another type
	}
	return s
}
