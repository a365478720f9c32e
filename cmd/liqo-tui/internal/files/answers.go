package files

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/liqo-tui/liqo-tui/flows"
)

// maxAnswers is the largest number of pairs of clusters whose answers are kept.
const maxAnswers = 100

// Answers has an admin's answers to the wizard for pairs of clusters, the latest
// first. They are in a separate file, because the wizard only suggests them,
// while commands obey the configuration file.
type Answers struct {
	file  string
	pairs []answered
}

// answered is one pair, with the values of flags.
type answered struct {
	A      contextName       `yaml:"a"`
	B      contextName       `yaml:"b"`
	Values map[string]string `yaml:"values"`
}

type contextName struct {
	File string `yaml:"file,omitempty"`
	Name string `yaml:"context"`
}

func nameOf(ref flows.ContextRef) contextName { return contextName{ref.File, ref.Name} }

// AnswersPath returns the path of the answers, in the folder for the state of
// programs.
func AnswersPath(env func(string) string) string {
	home, err := os.UserHomeDir()
	dir := cmp.Or(env("XDG_STATE_HOME"), filepath.Join(home, ".local", "state"))
	if err != nil && env("XDG_STATE_HOME") == "" {
		return "" // there is no folder for the file
	}
	return filepath.Join(dir, "liqo-tui", "answers.yaml")
}

// ReadAnswers reads the answers. An unreadable file counts as empty: nothing
// depends on it, and the next answers replace it.
func ReadAnswers(file string) *Answers {
	a := &Answers{file: file}
	text, err := os.ReadFile(file)
	if err == nil && yaml.Unmarshal(text, &a.pairs) != nil {
		a.pairs = nil
	}
	return a
}

func (a *Answers) index(first, second flows.ContextRef) int {
	return slices.IndexFunc(a.pairs, func(p answered) bool { return p.A == nameOf(first) && p.B == nameOf(second) })
}

// Complete adds the answers for the pair to p. It keeps the values that are
// already given.
func (a *Answers) Complete(first, second flows.ContextRef, p flows.Params) (_ flows.Params, ok bool) {
	i := a.index(first, second)
	if i < 0 {
		return p, false
	}
	for _, f := range flows.Form(flows.Settings(), "A", "B") {
		text, known := a.pairs[i].Values[f.Name]
		if !known || f.Sets != 0 && p.Given.Has(f.Sets) {
			continue
		}
		changed := p
		if f.Set(&changed, text) != nil || changed.Validate() != nil {
			continue // an edited file may have an invalid value
		}
		p, ok = changed, true
		p.Given |= f.Sets
	}
	return p, ok
}

// Keep writes the answers for a pair.
func (a *Answers) Keep(first, second flows.ContextRef, p flows.Params) error {
	if a.file == "" {
		return nil
	}
	values := map[string]string{}
	for _, f := range flows.Form(flows.Settings(), "A", "B") {
		chosen := f.Sets != 0 && p.Given.Has(f.Sets) || f.Sets == 0 && p.Wait != flows.WaitConnected
		if text := f.Value(p); chosen && p.Uses(f) && text != f.Empty {
			values[f.Name] = text
		}
	}
	if i := a.index(first, second); i >= 0 {
		a.pairs = slices.Delete(a.pairs, i, i+1)
	}
	a.pairs = slices.Insert(a.pairs, 0, answered{nameOf(first), nameOf(second), values})
	a.pairs = a.pairs[:min(len(a.pairs), maxAnswers)]
	text, err := yaml.Marshal(a.pairs)
	if err != nil {
		return err
	}
	if err := Replace(a.file, text); err != nil {
		return fmt.Errorf("keep what was chosen for the next time: %w", err)
	}
	return nil
}
