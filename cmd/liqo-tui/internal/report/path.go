package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
)

// pathShortcuts has liqoctl's names for some paths.
var pathShortcuts = map[string]string{"clusterid": "local.clusterid", "network.podcidr": "network.podcidrs", "network.externalcidr": "network.externalcidrs"}

// WritePath prints the value at a path in v's JSON. A path consists of names with
// dots between them, in upper or lower case. A scalar is printed unchanged, a
// list of scalars with one in each line, any other value as YAML.
func WritePath(out io.Writer, v any, path string) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	var at any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // byte counters must not become floats
	if err := decoder.Decode(&at); err != nil {
		return err
	}
	if root, ok := at.(map[string]any); ok && root["local"] != nil {
		if long, ok := pathShortcuts[strings.ToLower(path)]; ok {
			path = long
		}
	}
	for rest := strings.TrimPrefix(path, "."); rest != ""; {
		fields, ok := at.(map[string]any)
		key, after := "", ""
		if ok {
			key, after = longestField(fields, rest)
		}
		if key == "" {
			return exit.UsageError{Err: fmt.Errorf("--get %s: there is nothing at %s; %s", path, rest, whatIsThere(at))}
		}
		at, rest = fields[key], after
	}
	return printValue(out, at)
}

// longestField returns the field whose name is the longest beginning of rest.
// Names that others have chosen, such as a cluster's ID, may contain dots.
func longestField(fields map[string]any, rest string) (key, after string) {
	for name := range fields {
		tail, ok := strings.CutPrefix(strings.ToLower(rest), strings.ToLower(name))
		if ok && len(name) > len(key) && (tail == "" || tail[0] == '.') {
			key, after = name, strings.TrimPrefix(rest[len(name):], ".")
		}
	}
	return key, after
}

func whatIsThere(at any) string {
	fields, ok := at.(map[string]any)
	if !ok {
		return "the value before it has no fields"
	}
	if len(fields) == 0 {
		return "it is empty"
	}
	return "there are " + strings.Join(slices.Sorted(maps.Keys(fields)), ", ")
}

func printValue(out io.Writer, v any) error {
	switch v := v.(type) {
	case []any:
		if !slices.ContainsFunc(v, func(item any) bool { _, ok := item.(map[string]any); return ok }) {
			for _, item := range v {
				if _, err := fmt.Fprintln(out, item); err != nil {
					return err
				}
			}
			return nil
		}
	case nil:
		_, err := fmt.Fprintln(out, "null") // null means unknown, as in the JSON
		return err
	case map[string]any:
	default:
		_, err := fmt.Fprintln(out, v)
		return err
	}
	return WriteDocument(out, YAML, v)
}
