package check_test

import (
	"strings"
	"testing"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// An API server drops the fields that an older definition lacks. The failures that follow are not root causes.
func TestADefinitionThatLacksAFieldIsTheCause(t *testing.T) {
	pair := flowtest.NewPair()
	connectPair(t, pair)
	older := func(manager string) []flows.DefinitionFacts {
		return []flows.DefinitionFacts{{Name: "publickeies.networking.liqo.io", Kind: "PublicKey", Manager: manager, Unusable: "in its version v1beta1, field .spec.publicKey is missing or different"}}
	}
	const lacks = "definition publickeies.networking.liqo.io is not the one that liqo-tui needs: in its version v1beta1, field .spec.publicKey is missing or different"
	down := func(f *flows.Facts) {
		for side := range f.Sides {
			says(&f.Sides[side], f.At, func(r *wire.Report) { r.Reason = wire.ReasonNoHandshake })
		}
		f.Sides[flows.A].PublicKeys[0].Spec.PublicKey = nil
	}
	for name, c := range map[string]struct {
		change func(*flows.Facts)
		answer flows.Reply
		want   check.Outcome
		says   string
		fix    string
	}{
		"nobody has asked":   {func(*flows.Facts) {}, nil, check.Inconclusive, check.NotRead, ""},
		"it may not be read": {func(*flows.Facts) {}, flows.Unknown(flows.AskDefinitions{Side: flows.A}, "forbidden"), check.Inconclusive, "forbidden", ""},
		"all are as needed":  {func(*flows.Facts) {}, flows.Read(flows.AskDefinitions{Side: flows.A}, older("")[:0]), check.Pass, "", ""},
		"it works still":     {func(*flows.Facts) {}, flows.Read(flows.AskDefinitions{Side: flows.A}, older("kubectl")), check.Warn, lacks, "liqo-tui install "},
		"it is down":         {down, flows.Read(flows.AskDefinitions{Side: flows.A}, older("kubectl")), check.Fail, lacks, "liqo-tui install "},
		"Helm's":             {down, flows.Read(flows.AskDefinitions{Side: flows.A}, older("helm")), check.Fail, lacks, "helm "},
		"Liqo's":             {func(f *flows.Facts) { down(f); f.Sides[flows.A].Software = flows.Liqo }, flows.Read(flows.AskDefinitions{Side: flows.A}, older("helm")), check.Warn, lacks, "with the program that installed it"},
	} {
		f := factsOf(pair)
		c.change(&f)
		if c.answer != nil {
			c.answer.Store(&f, f.At)
		}
		results := check.Diagnose(f, nil)
		r := find(t, results, check.Kinds) // the result for A
		if r.State != c.want || !strings.Contains(r.Summary, c.says) || c.fix != "" && !strings.Contains(r.Fix[0].String(), c.fix) {
			t.Errorf("%s: got %s %q, advice %q", name, r.State, r.Summary, command.Join(r.Fix, "; "))
		}
		for _, other := range results {
			if c.want == check.Fail && other.Root && other.ID != check.Kinds {
				t.Errorf("%s: %s is called a cause, too: %s", name, other.ID, other.Summary)
			}
		}
	}
}
