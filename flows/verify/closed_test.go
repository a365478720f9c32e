package verify_test

import (
	"strings"
	"testing"

	"github.com/liqo-tui/liqo-tui/flows/verify"
)

// The pods of a test reach each other although others are kept out: that is a verdict of its own.
func TestATestOfClosedClustersVerifiesNoPods(t *testing.T) {
	good, bad := verify.Direction{Sent: 10, Received: 10, Node: "n"}, verify.Direction{Sent: 10, Loss: 1, Problem: "none of 10 packets was answered"}
	for name, tc := range map[string]struct {
		way              verify.Direction
		closed           [2]string
		want             verify.Verdict
		tested, verified bool
		says             string
	}{
		"open":            {good, [2]string{}, verify.Works, true, true, "verified from"},
		"closed":          {good, [2]string{"", "none"}, verify.Closed, true, false, "the tunnel is tested from n of rome, n of milan: pods of milan are closed by --allow none"},
		"closed, broken":  {bad, [2]string{"", "none"}, verify.Broken, false, false, "not verified"},
		"closed on both":  {good, [2]string{"exported", "none"}, verify.Closed, true, false, "pods of rome are closed by --allow exported, pods of milan are closed by --allow none"},
		"closed, no pods": {verify.Direction{}, [2]string{"none", ""}, verify.Works, false, false, "not verified"},
	} {
		v := verify.Result{A: "rome", B: "milan", Between: verify.Gateways, Closed: tc.closed}
		if tc.way.Sent > 0 {
			v.SetPaths([]verify.Path{{tc.way, tc.way}})
		}
		if got := v.Verdict(); got != tc.want || v.Tested() != tc.tested || v.Verified() != tc.verified {
			t.Errorf("%s: got %q, tested %t, verified %t", name, got, v.Tested(), v.Verified())
		}
		if m := v.Measurement(); m.OK != tc.tested || !strings.Contains(m.Result, tc.says) {
			t.Errorf("%s: got %t, %q, want %q", name, m.OK, m.Result, tc.says)
		}
		if turned := v.Turned(); turned.Closed != [2]string{tc.closed[1], tc.closed[0]} {
			t.Errorf("%s: turned, closed is %q", name, turned.Closed)
		}
	}
}
