package verify_test

import (
	"slices"
	"testing"

	"github.com/liqo-tui/liqo-tui/flows/verify"
)

func TestWhatNobodyHasMeasuredIsUnknown(t *testing.T) {
	var v verify.Result
	if v.Verdict() != verify.Unknown || v.Verified() {
		t.Errorf("got %q, verified %t", v.Verdict(), v.Verified())
	}
	if got, want := v.Lines(), []string{"not verified: nothing was measured"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if m := v.Measurement(); m.OK || m.Result != "not verified: nothing was measured" {
		t.Errorf("got %+v", m)
	}
}
