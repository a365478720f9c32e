package install

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

func definition(live, wanted *apiextensionsv1.CustomResourceDefinition) *flows.DefinitionFacts {
	d := &flows.DefinitionFacts{Name: live.Name, Kind: wanted.Spec.Names.Kind, Unusable: render.Unusable(live, wanted)}
	if who := flows.Managers(live); len(who) > 0 {
		d.Manager = who[0]
	}
	return d
}

// OthersDefinition returns the facts about the CRD live if it belongs to another program; nil if it is
// ours. Our CRD counts as another program's if that program has changed it, and our programs can use
// the result.
func OthersDefinition(live, wanted *apiextensionsv1.CustomResourceDefinition) *flows.DefinitionFacts {
	d := definition(live, wanted)
	shared := slices.ContainsFunc(live.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == wire.FieldManager && e.Subresource == "" })
	if shared && (d.Manager == "" || d.Unusable != "" || apply.Contains(wire.FieldManager, live, wanted)) {
		return nil
	}
	return d
}

// UnfitDefinition returns the facts about the CRD live if our programs can't use it; else nil. Any
// program may have made the CRD.
func UnfitDefinition(live, wanted *apiextensionsv1.CustomResourceDefinition) *flows.DefinitionFacts {
	if d := definition(live, wanted); d.Unusable != "" {
		return d
	}
	return nil
}

// others returns the facts about the CRDs that another program has installed. On a cluster with our
// operator it omits CRDs that our programs can't use: no other program needs their present form.
func (i *Installation) others(c flows.ClusterFacts) (all []flows.DefinitionFacts) {
	if c.Installation.Value() == nil {
		return c.Definitions
	}
	for _, o := range i.objects {
		wanted, ok := o.(*apiextensionsv1.CustomResourceDefinition)
		if !ok {
			continue
		}
		if live := installed[apiextensionsv1.CustomResourceDefinition](c, o.GetName()); live != nil {
			if d := OthersDefinition(live, wanted); d != nil && (d.Unusable == "" || installed[appsv1.Deployment](c, wire.OperatorName) == nil) {
				all = append(all, *d)
			}
		}
	}
	return all
}

// unfit reports whether our programs can't use an installed CRD. The CRD is ours, even if another
// program has changed it: a new installation refuses an unusable CRD of another program.
func (i *Installation) unfit(c flows.ClusterFacts) bool {
	return slices.ContainsFunc(i.objects, func(o wire.Object) bool {
		wanted, ok := o.(*apiextensionsv1.CustomResourceDefinition)
		live := installed[apiextensionsv1.CustomResourceDefinition](c, o.GetName())
		return ok && live != nil && render.Unusable(live, wanted) != ""
	})
}

// keptDefinitions returns the sentence that our programs use the CRDs of another program unchanged.
func keptDefinitions(others []flows.DefinitionFacts) string {
	if len(others) == 1 {
		return fmt.Sprintf("%s is %s and stays as it is", others[0].Name, owner(others[0]))
	}
	return fmt.Sprintf("%d definitions are %s and stay as they are", len(others), owner(others[0]))
}

func owner(d flows.DefinitionFacts) string {
	if d.Manager == "" {
		return "another program's"
	}
	return d.Manager + "'s"
}

// UnusableDefinition returns a failed step if another program has installed a CRD that our
// programs can't use; else nil. The installation does not replace such a CRD, because
// objects of its kind may still be in use.
func UnusableDefinition(side flows.Side, c flows.ClusterFacts, others []flows.DefinitionFacts) *flows.Step {
	i := slices.IndexFunc(others, func(d flows.DefinitionFacts) bool { return d.Unusable != "" })
	if i < 0 {
		return nil
	}
	d := others[i]
	return new(flows.Refuse(side, flows.CodeSoftware, "the definitions of Liqo's API", flows.FailedPreflight,
		fmt.Sprintf("definition %s is %s: %s", d.Name, owner(d), d.Unusable),
		flows.UpgradeDefinition(),
		command.Hintf("or, if nothing uses it any more, delete it and all objects of its kind: %s", c.Kubectl("delete", "crd", d.Name))))
}
