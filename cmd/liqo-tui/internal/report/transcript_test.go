package report

import (
	"testing"

	"github.com/liqo-tui/liqo-tui/flows"
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
A rome: create GatewayServer milan
+ port: 51840

A rome: delete Configuration default/milan
B milan: delete Namespace liqo-tenant-rome: being deleted
B milan: create GatewayClient rome: the server has no address yet
`
	if got := Diffs(p); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	if got := p.Changes(); got.Create != 2 || got.Delete != 2 {
		t.Errorf("got %s", got)
	}
}
