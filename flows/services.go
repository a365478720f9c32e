package flows

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liqo-tui/liqo-tui/internal/services"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// AskServices asks for the objects of Services by name: for those of one name, or of all names if Name is
// zero.
type AskServices struct {
	Side Side
	Name types.NamespacedName
}

// On implements [Question].
func (q AskServices) On() Side { return q.Side }

// Terms implements [Question].
func (q AskServices) Terms() Terms { return Terms{} }

func (q AskServices) slot(f *Facts) slot { return q.in(f) }

func (q AskServices) in(f *Facts) *Answer[services.Found] { return &f.Sides[q.Side].Services }

// AskOffers asks for the Services of a cluster, so that an admin can choose one.
type AskOffers struct{ Side Side }

// On implements [Question].
func (q AskOffers) On() Side { return q.Side }

// Terms implements [Question].
func (q AskOffers) Terms() Terms { return Terms{} }

func (q AskOffers) slot(f *Facts) slot { return q.in(f) }

func (q AskOffers) in(f *Facts) *Answer[[]corev1.Service] { return &f.Sides[q.Side].Offers }

// ServicesReport is what the gateway says about the Services that both clusters export, with times of this
// machine's clock; nil if it says nothing.
func (p End) ServicesReport() *wire.ServicesReport {
	if p.Connection == nil {
		return nil
	}
	report, ok, err := p.report()
	if err != nil || !ok {
		return nil
	}
	return report.Services
}

// ImportsFrom are the namespaces into which the cluster imports the peer's Services.
func (p End) ImportsFrom() services.Namespaces {
	if p.Configuration == nil {
		return services.Namespaces{}
	}
	return services.ParseNamespaces(p.Configuration)
}

// HasNamespace reports whether a namespace exists. known is false if this user may not see all namespaces.
func (c ClusterFacts) HasNamespace(name string) (exists, known bool) {
	exists = c.FindNamespace(name) != nil
	return exists, exists || !c.PeersHidden
}
