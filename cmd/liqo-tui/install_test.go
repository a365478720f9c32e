package main

import (
	"strings"
	"testing"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/render"
)

func TestTheRemovalOfNothingSaysSo(t *testing.T) {
	pair := flowtest.NewPair()
	pair.A.Bare()
	remove := func() string {
		var last engine.Event
		if err := engine.Run(t.Context(), install.Removal{}, pair.A, engine.Absent{}, func(e engine.Event) { last = e }, engine.Options{Now: pair.Now}); err != nil {
			t.Fatal(err)
		}
		return uninstalled(last)
	}
	if got := remove(); !strings.HasPrefix(got, "Nothing of liqo-tui is in namespace") {
		t.Errorf("got %q", got)
	}
	plan := func(f flows.Facts) flows.Plan {
		return install.Plan(render.InstallParams{ClusterID: "rome", Image: "example.org/gateway:v1"}, f)
	}
	if err := engine.Run(t.Context(), flows.Planner(plan), pair.A, engine.Absent{}, func(engine.Event) {}, engine.Options{Now: pair.Now}); err != nil {
		t.Fatal(err)
	}
	if got := remove(); !strings.HasPrefix(got, "liqo-tui is removed.") {
		t.Errorf("got %q", got)
	}
}

// Two questions about one plan say which part each is about.
func TestTheQuestionAboutTheClustersDNSIsTold(t *testing.T) {
	edit := flows.Step{ID: "dns", Action: flows.Update, Status: flows.Ready, Title: "forward", Edits: "the cluster's DNS"}
	other := flows.Step{ID: "x", Action: flows.Delete, Status: flows.Ready, Title: "operator"}
	for name, c := range map[string]struct {
		steps      []flows.Step
		edits, all string
	}{
		"both": {
			[]flows.Step{edit, other},
			"Question 1 of 2. The plan changes what was there before liqo-tui: the cluster's DNS. May it do so, as shown above?",
			"Question 2 of 2. Apply the plan, with all changes above?",
		},
		"DNS":  {[]flows.Step{edit}, "This changes what was there before liqo-tui: the cluster's DNS. Change it as shown?", ""},
		"none": {[]flows.Step{other}, "", "Apply these changes?"},
	} {
		edits, all := questions(flows.Plan{Steps: c.steps, A: "rome"})
		if strings.TrimSpace(edits) != c.edits || strings.TrimSpace(all) != c.all {
			t.Errorf("%s: got %q, %q", name, edits, all)
		}
	}
}

func TestHelpShowsWhatFactsDecideAsAuto(t *testing.T) {
	root, closeLog := rootCommand(streams{})
	defer closeLog()
	for _, path := range []string{"network connect", "peer", "check", "rbac"} {
		cmd, _, err := root.Find(strings.Fields(path))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"mtu", "server-service-type"} {
			if f := cmd.Flags().Lookup(name); f == nil || f.DefValue != "auto" {
				t.Errorf("%s --%s: got %+v", path, name, f)
			}
		}
	}
}
