package main

import (
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report/reporttest"
)

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
		if reporttest.EventsSchema(t).Validate(value) == nil {
			t.Errorf("%s: the schema takes %s", name, line)
		}
	}
}
