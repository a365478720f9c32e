package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/liqo-tui/liqo-tui/flows"
)

func TestAPanicIsAnErrorWithAResult(t *testing.T) {
	var out, errs bytes.Buffer
	op := operation{
		name: "connect",
		plan: func() (func(flows.Facts) flows.Plan, error) { panic("no such thing") },
		done: func(flows.Facts) achieved { return achieved{} },
	}
	err := op.run(t.Context(), streams{in: strings.NewReader(""), out: &out, err: &errs}, &pairFlags{}, runFlags{output: formatNDJSON, dryRun: dryRunNone, timeout: 1})
	if code := exitCode(err); code != exitUnexpected {
		t.Errorf("got exit code %d, want %d", code, exitUnexpected)
	}
	lines := checkEvents(t, out.String())
	if e := lines[len(lines)-2]; e["type"] != "error" || e["code"] != string(flows.CodeUnexpected) || !strings.Contains(e["what"].(string), "no such thing") {
		t.Errorf("got %v before the result, want the error", e)
	}
}
