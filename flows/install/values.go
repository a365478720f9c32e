package install

import (
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/render"
)

// ReadValues reads values of the Helm chart into p: the settings, by their keys, and
// the settings of pods. A setting that is missing or empty in the text keeps its value
// in p. The settings of pods are replaced as a whole.
func ReadValues(text []byte, p *render.InstallParams) error {
	values := map[string]any{}
	if err := yaml.UnmarshalStrict(text, &values); err != nil {
		return err
	}
	var errs []error
	for _, s := range Settings() {
		value, said := values[s.Key()]
		delete(values, s.Key())
		list, several := value.([]any)
		if !several {
			list = []any{value}
		}
		var words []string
		for _, v := range list {
			words = append(words, fmt.Sprint(v))
		}
		if word := strings.Join(words, ","); said && value != nil && word != "" {
			if err := s.Set(p, word); err != nil {
				errs = append(errs, fmt.Errorf("%s %q: %w", s.Key(), word, err))
			}
		}
	}
	rest, err := yaml.Marshal(values)
	if err != nil {
		return err
	}
	p.Pods, err = render.ParsePods(rest)
	return errors.Join(append(errs, err)...)
}
