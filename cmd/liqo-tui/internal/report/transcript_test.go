package report

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// Before the question, an admin sees each change: also the deletion of an object, and an object that can
// be made only later. What is done already, and waits, are no changes.
func TestEachChangeIsShownBeforeTheQuestion(t *testing.T) {
	p := flows.Plan{A: "rome", B: "milan", Steps: []flows.Step{
		{Side: flows.A, Action: flows.Create, Title: "GatewayServer milan", Status: flows.Ready, Diff: "+ port: 51840\n"},
		{Side: flows.A, Action: flows.Delete, Title: "Configuration default/milan", Status: flows.Ready},
		{Side: flows.B, Action: flows.Delete, Title: "Tenant rome", Status: flows.Done, Reason: "does not exist"},
		{Side: flows.B, Action: flows.Delete, Title: "Namespace liqo-tenant-rome", Status: flows.Waiting, Reason: "being deleted"},
		{Side: flows.B, Action: flows.Create, Title: "GatewayClient rome", Status: flows.Blocked, Reason: "the server has no address yet"},
		{Side: flows.A, Action: flows.Wait, Title: "handshake", Status: flows.Waiting},
	}}
	const want = `
rome: create GatewayServer milan
+ port: 51840

rome: delete Configuration default/milan
milan: delete Namespace liqo-tenant-rome: being deleted
milan: create GatewayClient rome: the server has no address yet
`
	if got := Diffs(p); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if got := p.Changes(); got.Create != 2 || got.Delete != 2 {
		t.Errorf("got %s", got)
	}
}

// An installation has thousands of lines. New objects are counted; what changes in existing ones is shown.
func TestABriefPlanCountsNewObjects(t *testing.T) {
	object := func(kind, name string) wire.Object {
		return &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: kind}, ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	var made, mixed string
	for _, name := range []string{"a", "b"} {
		made += apply.Diff(nil, object("ServiceAccount", name))
	}
	made += apply.Diff(nil, object("Role", "c"))
	changed := object("ConfigMap", "d")
	changed.SetLabels(map[string]string{"x": "z"})
	mixed = made + apply.Diff(object("ConfigMap", "d"), changed)
	one := apply.Diff(nil, object("Namespace", "e"))
	p := flows.Plan{A: "rome", Steps: []flows.Step{
		{Action: flows.Create, Title: "rights", Status: flows.Ready, Diff: made},
		{Action: flows.Update, Title: "settings", Status: flows.Ready, Diff: mixed},
		{Action: flows.Create, Title: "namespace", Status: flows.Ready, Diff: one},
	}}
	got := Diffs(Counted(p))
	for _, want := range []string{
		"rome: create rights, new: 1 Role, 2 ServiceAccount\n", "rome: update settings, new: 1 Role, 2 ServiceAccount\n--- live", "+    x: z", "rome: create namespace\n--- live", "kind: Namespace",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got:\n%s\nwithout %q", got, want)
		}
	}
	if strings.Contains(got, "kind: ServiceAccount") || strings.Contains(got, "kind: Role") {
		t.Errorf("got a new object:\n%s", got)
	}
	if Diffs(p) == got || p.Steps[0].Diff != made {
		t.Error("the plan itself has changed")
	}
}
