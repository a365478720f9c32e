package main

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/manifest"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/render"
)

// Who applies the manifests would make a team's namespace privileged, and ours.
func TestExportedManifestsLeaveTheNamespacesOfOthersAlone(t *testing.T) {
	p := flowtest.NewPair()
	p.A.PutAs("kubectl", &corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: "team-a", Labels: map[string]string{"team": "a"}},
	})
	params := flows.Defaults()
	params.Namespaces[flows.A] = "team-a"
	f := flows.Facts{Sides: [2]flows.ClusterFacts{p.A.Facts(), p.B.Facts()}, At: p.Now()}
	namespaces := func(side flows.Side) (out []*corev1.Namespace) {
		objects, _ := manifest.Of(flows.PlanConnect(params, f), side)
		for _, o := range objects {
			if ns, ok := o.(*corev1.Namespace); ok {
				out = append(out, ns)
			}
		}
		return out
	}
	if got := namespaces(flows.A); len(got) != 0 {
		t.Errorf("the manifests change namespace %s, which was there before: labels %v", got[0].Name, got[0].Labels)
	}
	created := namespaces(flows.B)
	if len(created) != 1 || created[0].Name != "liqo-tenant-rome" {
		t.Fatalf("got namespaces %v, want the one that does not exist yet", created)
	}
	// What is applied from a manifest does not become the program's to delete.
	if render.CreatedByUs(created[0]) {
		t.Error("the manifest says that liqo-tui created the namespace")
	}
	// An export that is made again keeps it: GitOps deletes what is taken out.
	p.B.PutAs("argocd", created[0])
	f.Sides[flows.B] = p.B.Facts()
	if got := namespaces(flows.B); len(got) != 1 {
		t.Errorf("exported again: got namespaces %v", got)
	}
}
