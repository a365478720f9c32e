// Package reporttest compares the output of the program with its schemas, for
// tests.
package reporttest

import (
	"encoding/json"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
)

// Failer has the method of testing.T that test scripts also have.
type Failer interface{ Fatalf(string, ...any) }

// CheckEvents parses the NDJSON of one run. It compares each line with the schema,
// and checks rules about several lines that a schema can't express.
func CheckEvents(t Failer, text string) []map[string]any {
	schema := EventsSchema(t)
	var lines []map[string]any
	for raw := range strings.Lines(text) {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(raw))
		if err != nil {
			t.Fatalf("line %q: %v", raw, err)
		}
		if err := schema.Validate(value); err != nil {
			t.Fatalf("line %s does not fit the schema: %v", raw, err)
		}
		var l map[string]any
		if err := json.Unmarshal([]byte(raw), &l); err != nil {
			t.Fatalf("line %q: %v", raw, err)
		}
		if got := l["seq"]; got != float64(len(lines)) {
			t.Fatalf("line %s: got seq %v, want %d", raw, got, len(lines))
		}
		lines = append(lines, l)
	}
	if len(lines) < 2 {
		t.Fatalf("got %d lines, want run.start and result at least:\n%s", len(lines), text)
	}
	for i, l := range lines {
		first, last := l["type"] == "run.start", l["type"] == "result"
		if first != (i == 0) || last != (i == len(lines)-1) {
			t.Fatalf("line %d of %d is %v; want run.start first, result last, and neither elsewhere", i, len(lines), l["type"])
		}
	}
	return lines
}

// EventsSchema returns the schema of one line.
func EventsSchema(t Failer) *jsonschema.Schema {
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(report.EventsSchema))
	if err != nil {
		t.Fatalf("events.schema.json: %v", err)
	}
	if err := c.AddResource("events.schema.json", doc); err != nil {
		t.Fatalf("events.schema.json: %v", err)
	}
	s, err := c.Compile("events.schema.json")
	if err != nil {
		t.Fatalf("events.schema.json: %v", err)
	}
	return s
}
