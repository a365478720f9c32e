package board

import (
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Many checks are skipped for one reason: that is said once, before all of them.
func TestWhySkippedChecksAreSkippedIsSaidOnce(t *testing.T) {
	skipped := func(id, needs flows.Code) check.Result {
		return check.Result{Names: [2]wire.ClusterID{"rome", "milan"}, ID: id, Title: "title of " + string(id), Sides: []flows.Side{flows.A}, State: check.Skipped, Needs: needs, Summary: "needs " + string(needs)}
	}
	results := []check.Result{skipped("X1", "N1"), skipped("X2", "N2"), skipped("X3", "N1")}
	sortByUrgency(results)
	var lines []string
	for _, line := range resultLines(around(80, 24).Theme, results, 80) {
		lines = append(lines, strings.TrimSpace(ansi.Strip(line)))
	}
	want := "· skipped: needs N1|X1 rome title of X1 · X3 rome title of X3|· skipped: needs N2|X2 rome title of X2"
	if got := strings.Join(lines, "|"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// Each check of a connection has a place in the picture of a packet's way, or has none on purpose.
func TestEachCheckIsOfAPartOfTheWay(t *testing.T) {
	beside := []flows.Code{check.Kinds, check.KubeProxy, check.SamePeer, check.FreeRanges, check.PodRanges, check.Policies, check.Closed, check.Allowed, check.Warnings, check.PodTraffic}
	for _, r := range check.Diagnose(flows.Facts{}, nil) {
		places := 0
		for _, codes := range [][]flows.Code{ofServer, ofOperator, ofGateway, ofTunnel, ofNodes, beside} {
			if slices.Contains(codes, r.ID) {
				places++
			}
		}
		if places != 1 {
			t.Errorf("%s (%s) is in %d lists of the picture, want 1", r.ID, r.Title, places)
		}
	}
}

func TestACommandThatOnlyShowsIsNoFix(t *testing.T) {
	r := check.Result{ID: "X1", State: check.Fail, Fix: command.Texts("run: kubectl delete pod x", "see: kubectl get pods")}
	got := ansi.Strip(strings.Join(checkLines(around(80, 24).Theme, r, 4, 80)[1:], "|"))
	if want := "      Fix: kubectl delete pod x|      See: kubectl get pods"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A healthy pair has some thirty results.
func TestAPassedCheckIsOneLineIfThatHasRoom(t *testing.T) {
	r := check.Result{ID: "LT-D013", Title: "the keys match", Sides: []flows.Side{flows.A}, State: check.Pass, Summary: "key 8bf3197f..."}
	theme := around(80, 24).Theme
	if got := checkLines(theme, r, 4, 80); len(got) != 1 || !strings.Contains(ansi.Strip(got[0]), "the keys match                  key 8bf3") {
		t.Errorf("got %q", got)
	}
	if got := checkLines(theme, r, 4, 50); len(got) != 2 {
		t.Errorf("got %q, want the summary below", got)
	}
}
