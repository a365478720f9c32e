package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report/reporttest"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
)

func TestAPanicIsAnErrorWithAResult(t *testing.T) {
	var out, errs bytes.Buffer
	op := operation{
		name: "connect",
		goal: func() (flows.Goal, error) { panic("no such thing") },
		done: func(engine.Event) report.Achieved { return report.Achieved{} },
	}
	err := op.run(t.Context(), streams{in: strings.NewReader(""), out: &out, err: &errs}, &pairFlags{}, runFlags{output: report.EventStream, dryRun: dryRunNone, timeout: 1})
	if code := exit.Code(err); code != exit.Unexpected {
		t.Errorf("got exit code %d, want %d", code, exit.Unexpected)
	}
	lines := reporttest.CheckEvents(t, out.String())
	if e := lines[len(lines)-2]; e["type"] != "error" || e["code"] != string(flows.CodeUnexpected) || !strings.Contains(e["what"].(string), "no such thing") {
		t.Errorf("got %v before the result, want the error", e)
	}
}

// No command takes a removal back, so none is named.
func TestAnInterruptedRunNamesTheCommandThatRemovesItsObjects(t *testing.T) {
	for want, op := range map[string]operation{
		"stopped; what was applied stays: the same command continues, liqo-tui uninstall removes all of it, also what existed before": {name: "install", undo: "uninstall"},
		"stopped; what was applied stays: the same command continues":                                                                 {name: "uninstall"},
	} {
		if got := op.interrupted(errors.New("stopped")).Error(); got != want {
			t.Errorf("%s: got %q, want %q", op.name, got, want)
		}
	}
}
