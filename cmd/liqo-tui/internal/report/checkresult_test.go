package report

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// A condition of the other cluster may have a line that looks like a check.
func TestTextsOfOthersAddNoCheck(t *testing.T) {
	var out bytes.Buffer
	const forged = "no answer\nok   LT-D020 milan all is well"
	WriteChecks(&out, []check.Result{{ID: "LT-D031", State: check.Fail, Summary: forged, Evidence: []string{forged}}}, Details)
	for line := range strings.Lines(out.String()) {
		if strings.HasPrefix(line, "ok ") {
			t.Errorf("got the line %q", line)
		}
	}
}

// A healthy connection has some thirty checks. The list begins with what is wrong, and fits on a screen.
func TestProblemsComeFirstAndWhatPassedIsShort(t *testing.T) {
	results := []check.Result{
		{ID: "LT-D001", Title: "the API server answers", State: check.Pass, Summary: "within 3 ms", Sides: []flows.Side{flows.A}},
		{ID: "LT-D001", Title: "the API server answers", State: check.Pass, Summary: "within 4 ms", Sides: []flows.Side{flows.B}},
		{ID: "LT-D015", Title: "no warnings about the gateway", State: check.Warn, Summary: "there are some", Sides: []flows.Side{flows.A}},
		{ID: "LT-D030", Title: "ping through the tunnel", State: check.Fail, Summary: "none is answered", Root: true, Sides: []flows.Side{flows.A}},
		{ID: "LT-D031", Title: "MTU of the tunnel", State: check.Pass, Summary: "1440", Sides: []flows.Side{flows.A}},
		{ID: "LT-D032", Title: "packet loss", State: check.Skipped, Summary: "needs LT-D030: ping", Sides: []flows.Side{flows.A}},
		{ID: "LT-D033", Title: "packets from pod to pod", State: check.Skipped, Summary: "needs LT-D030: ping", Sides: []flows.Side{flows.A}},
		{ID: "LT-D012", Title: "the gateway's pod runs", State: check.Skipped, Summary: "only Liqo knows", Sides: []flows.Side{flows.A}},
	}
	for i := range results {
		results[i].Names = [2]wire.ClusterID{"rome", "milan"}
	}
	const problems = `Result: failed: none is answered · 3 of 8 checks passed

FAIL LT-D030 rome ping through the tunnel (root cause)
     none is answered
warn LT-D015 rome no warnings about the gateway
     there are some
`
	const head = problems + `-    2 checks were skipped
     needs LT-D030: ping
-    LT-D012 rome the gateway's pod runs
     only Liqo knows
`
	for listed, want := range map[Listed]string{
		Problems: head,
		Brief: head + `ok   clusters (2): the API server answers
ok   tunnel (1): MTU of the tunnel

--details shows what each of these checks has seen.
`,
		Details: problems + `-    LT-D032 rome packet loss
     needs LT-D030: ping
-    LT-D033 rome packets from pod to pod
     needs LT-D030: ping
-    LT-D012 rome the gateway's pod runs
     only Liqo knows
ok   LT-D001 rome  the API server answers
     within 3 ms
ok   LT-D001 milan the API server answers
     within 4 ms
ok   LT-D031 rome  MTU of the tunnel
     1440
`,
	} {
		var out bytes.Buffer
		if WriteChecks(&out, results, listed); out.String() != want {
			t.Errorf("%d: got\n%s\nwant\n%s", listed, out.String(), want)
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
