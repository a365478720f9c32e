package check_test

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// The gateway's report counts, not the setting that it was given.
func TestWhatIsAllowedIsJudgedByTheGatewaysReport(t *testing.T) {
	pair := flowtest.NewPair()
	flowtest.MustRun(t, pair, flowtest.Connect(flowtest.NodePort()))
	for name, tc := range map[string]struct {
		asked    string
		reported wire.Report
		old      bool // the report is stale
		want     check.Outcome
		says     string
	}{
		"open":                        {"", wire.Report{Allow: "all"}, false, check.Pass, "pods of rome may open connections to all pods"},
		"open, of an earlier release": {"", wire.Report{}, false, check.Pass, "pods of rome may open connections to all pods"},
		"closed":                      {"none", wire.Report{Allow: "none"}, false, check.Pass, "pods of rome are allowed: none. The gateway has dropped nothing"},
		"closed, and lately dropped": {
			"exported",
			wire.Report{Allow: "exported", Closed: 12, ClosedTo: []string{"tcp 10.1.3.7:5432"}},
			false, check.Warn,
			"12 packets of rome dropped, lately to tcp 10.1.3.7:5432: pods of rome are allowed: exported",
		},
		"closed, and once dropped":       {"none", wire.Report{Allow: "none", Closed: 1}, false, check.Pass, "1 packet of rome dropped, none lately"},
		"not closed, of earlier release": {"none", wire.Report{}, false, check.Fail, "does not report a limit"},
		"not closed yet":                 {"none", wire.Report{Allow: "all"}, false, check.Warn, "The gateway still allows: all"},
		"not opened yet":                 {"all", wire.Report{Allow: "none"}, false, check.Warn, "The gateway still allows: none"},
		"too old to say":                 {"none", wire.Report{Allow: "all"}, true, check.Inconclusive, "too old"},
		"nonsense":                       {"some", wire.Report{Allow: "all"}, false, check.Fail, `"some" is not all, exported or none`},
	} {
		f := flowtest.Facts(pair)
		c := &f.Sides[flows.B]
		server := c.Servers[0].DeepCopy()
		if c.Servers[0] = *server; tc.asked != "" {
			metav1.SetMetaDataAnnotation(&c.Servers[0].ObjectMeta, wire.AnnotationAllow, tc.asked)
		}
		at := f.At
		if tc.old {
			at = at.Add(-time.Hour)
		}
		says(c, at, func(r *wire.Report) {
			r.Reason, r.Allow, r.Closed, r.ClosedTo = wire.ReasonPinged, tc.reported.Allow, tc.reported.Closed, tc.reported.ClosedTo
		})
		var found check.Result
		for _, r := range check.Diagnose(f, nil) {
			if r.ID == check.Allowed && r.Sides[0] == flows.B {
				found = r
			}
		}
		if found.State != tc.want || !strings.Contains(found.Summary, tc.says) {
			t.Errorf("%s: got %v, %q, want %v, %q", name, found.State, found.Summary, tc.want, tc.says)
		}
	}
}
