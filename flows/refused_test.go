package flows_test

import (
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
)

// Both are 403, and who has all rights would look for missing ones.
func TestAPolicyOfTheClusterIsNoMissingRight(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	for text, want := range map[string]flows.Code{
		`User "ada" cannot create resource "pods" in API group "" in the namespace "liqo"`:                                                                           flows.CodeForbidden,
		`admission webhook "validate.kyverno.svc-fail" denied the request: images have to come from registry.example.org`:                                            flows.CodeRefused,
		`violates PodSecurity "restricted:latest": host namespaces (hostNetwork=true)`:                                                                               flows.CodeRefused,
		`exceeded quota: few, requested: pods=1, used: pods=3, limited: pods=3`:                                                                                      flows.CodeRefused,
		`ValidatingAdmissionPolicy 'no-host-network' with binding 'all' denied request: failed expression: !object.spec.hostNetwork`:                                 flows.CodeRefused,
		`User "ada" cannot create resource "pods" in API group "" in the namespace "shop": the admission of shop is ours; ask for access at https://example.org/a/b`: flows.CodeForbidden,
	} {
		var s flows.Step
		s.Refused(apierrors.NewForbidden(pods, "gw-milan", errors.New(text)), flowtest.Facts(flowtest.NewPair()))
		if s.Status != flows.Failed || s.Code != want || !strings.Contains(s.Reason, text) {
			t.Errorf("%s: got %s %s, %q; want %s", text, s.Status, s.Code, s.Hint(), want)
		}
		if rights := strings.Contains(s.Hint().String(), "rbac"); rights != (want == flows.CodeForbidden) {
			t.Errorf("%s: hint %q", text, s.Hint())
		}
	}
}

// A command that a hint names has the file that the user has named: it is pasted as it is.
func TestCommandsOfHintsNameTheFile(t *testing.T) {
	pair := flowtest.NewPair()
	pair.A.Bare()
	f := flowtest.Facts(pair)
	f.Sides[flows.A].Context = flows.ContextRef{File: "lab.yaml", Name: "rome"}
	failed := flows.FirstObstacle(flows.A, f.Sides[flows.A])
	if want := "liqo-tui install --kubeconfig lab.yaml --context rome --cluster-id NAME"; failed == nil || !strings.Contains(failed.Hint().String(), want) {
		t.Errorf("got %+v, want the hint %q", failed, want)
	}
	if got, want := f.Ours("network", "verify").String(), "liqo-tui network verify --kubeconfig lab.yaml --context rome --remote-context kind-milan"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What a hint names acts on the cluster that was looked at: as which user, and where Liqo is.
func TestCommandsOfHintsActOnTheSameCluster(t *testing.T) {
	pair := flowtest.NewPair()
	pair.A.Bare()
	f := flowtest.Facts(pair)
	f.Sides[flows.A].Context, f.Sides[flows.A].Namespace = flows.ContextRef{File: "my configs/kc", Name: "rome (prod)"}, "liqo-sys"
	f.Sides[flows.A].Instead.User = "ada"
	failed := flows.FirstObstacle(flows.A, f.Sides[flows.A])
	const where = "--kubeconfig 'my configs/kc' --context 'rome (prod)' --user ada"
	if want := "liqo-tui install " + where + " --liqo-namespace liqo-sys --cluster-id NAME"; failed == nil || !strings.Contains(failed.Hint().String(), want) {
		t.Errorf("got %+v, want the hint %q", failed, want)
	}
	if got, want := f.Sides[flows.A].Kubectl("get", "nodes").String(), "kubectl "+where+" get nodes"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// What an API server refuses has hints for the cluster that refused it.
func TestHintsOfRefusalsNameTheClusters(t *testing.T) {
	f := flowtest.Facts(flowtest.NewPair())
	f.Sides[flows.B].Context.File = "lab.yaml"
	alone := f.Sides[flows.B].Alone()
	for _, c := range []struct {
		facts flows.Facts
		side  flows.Side
		err   error
		want  string
	}{
		{f, flows.B, flowtest.Forbidden("ada", "pods", "shop"), "liqo-tui rbac --context kind-rome --remote-kubeconfig lab.yaml --remote-context kind-milan prints"},
		{alone, flows.A, flowtest.Forbidden("ada", "pods", "shop"), "liqo-tui rbac --kubeconfig lab.yaml --context kind-milan --remote-context CONTEXT prints"},
		{
			f, flows.B, &flows.ForeignError{Object: flows.ObjectRef{Kind: "PublicKey", Namespace: "liqo-tenant-rome", Name: "rome"}},
			"find out who made it: kubectl --kubeconfig lab.yaml --context kind-milan -n liqo-tenant-rome get publickey rome -o yaml --show-managed-fields; ",
		},
	} {
		s := flows.Step{Side: c.side}
		if s.Refused(c.err, c.facts); !strings.Contains(s.Hint().String(), c.want) {
			t.Errorf("got %s, want %s", s.Hint(), c.want)
		}
	}
}
