package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
)

// failer is the part of testing.T that a test script has too.
type failer interface{ Fatalf(string, ...any) }

// checkEvents parses the NDJSON of one run and holds it against the schema and
// against what a schema for one line can't say.
func checkEvents(t failer, text string) []map[string]any {
	schema := eventsSchemaFor(t)
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

func eventsSchemaFor(t failer) *jsonschema.Schema {
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

// A schema that takes everything would let the other tests pass.
func TestTheSchemaRefusesWhatIsWrong(t *testing.T) {
	const head = `"v":1,"seq":0,"ts":"2026-11-21T05:00:00.123Z"`
	for name, line := range map[string]string{
		"another version":           `{"v":2,"seq":0,"ts":"2026-11-21T05:00:00Z","type":"progress","message":"x"}`,
		"no time":                   `{"v":1,"seq":0,"type":"progress","message":"x"}`,
		"a time that is none":       `{"v":1,"seq":0,"ts":"yesterday","type":"progress","message":"x"}`,
		"a result without the exit": `{` + head + `,"type":"result","ok":true,"changed":false}`,
		"an error without its code": `{` + head + `,"type":"error","what":"x"}`,
		"a side that is none":       `{` + head + `,"type":"change","side":"c","verb":"created","object":"x"}`,
		"a step that ends halfway":  `{` + head + `,"type":"step.end","side":"a","step":"s","title":"x","elapsedMs":1,"result":"maybe"}`,
		"a check that says nothing": `{` + head + `,"type":"check","id":"LT-P001","title":"x","sides":["a"],"data":{}}`,
	} {
		value, err := jsonschema.UnmarshalJSON(strings.NewReader(line))
		if err != nil {
			t.Fatal(err)
		}
		if eventsSchemaFor(t).Validate(value) == nil {
			t.Errorf("%s: the schema takes %s", name, line)
		}
	}
}
