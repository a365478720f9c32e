package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/internal/command"
)

// A condition of the other cluster may have a line that looks like a check.
func TestTextsOfOthersAddNoCheck(t *testing.T) {
	var out bytes.Buffer
	const forged = "no answer\nok   LT-D020 B    all is well"
	WriteChecks(&out, []check.Result{{ID: "LT-D031", State: check.Fail, Summary: forged, Evidence: []string{forged}}}, nil)
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "ok ") {
			t.Errorf("got the line %q", line)
		}
	}
}

func TestAChecksCommandsAreForPrograms(t *testing.T) {
	verify := command.Ours("network", "verify").On(command.Cluster{Context: "rome (prod)"})
	text, err := json.Marshal(CheckOf(check.Result{Fix: []command.Hint{command.Text("wait"), command.Hintf("or try it: %s", verify)}}))
	if err != nil {
		t.Fatal(err)
	}
	const want = `"fix":["wait","or try it: liqo-tui network verify --context 'rome (prod)'"],` +
		`"commands":[{"command":["liqo-tui","network","verify","--context","rome (prod)"],"text":"liqo-tui network verify --context 'rome (prod)'"}]`
	if !strings.Contains(string(text), want) {
		t.Errorf("got %s\nwant %s", text, want)
	}
}
