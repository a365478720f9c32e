package flows

import (
	"fmt"
	"slices"

	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// AskDefinitions asks which CustomResourceDefinitions of Liqo's kinds lack a field that our programs
// need. API servers drop a field that the definition lacks, without an error.
type AskDefinitions struct{ Side Side }

// On implements [Question].
func (q AskDefinitions) On() Side { return q.Side }

// Terms implements [Question]. The answer stays valid, because only an installation changes
// definitions, and installations do not ask.
func (q AskDefinitions) Terms() Terms { return Terms{Lasts: true} }

func (q AskDefinitions) slot(f *Facts) slot { return q.in(f) }

func (q AskDefinitions) in(f *Facts) *Answer[[]DefinitionFacts] { return &f.Sides[q.Side].Older }

// UpgradeDefinition returns the advice about a definition that another program has installed.
func UpgradeDefinition() command.Hint {
	return command.Text("upgrade it to the definition of Liqo v1.2 with the program that installed it")
}

// DefinitionFix returns the advice about incomplete definitions.
func (c ClusterFacts) DefinitionFix(d DefinitionFacts) []command.Hint {
	if c.Software != Operator {
		return []command.Hint{UpgradeDefinition()}
	}
	fix := []command.Hint{
		command.Hintf("bring it up to date: %s", c.Ours("install")),
		command.Hintf("if Helm has installed liqo-tui: %s | %s", command.Helm(c.Flags(), "show", "crds", "CHART"),
			c.Kubectl("apply", "--server-side", "--force-conflicts", "-f", "-")),
	}
	if d.Manager == "helm" {
		slices.Reverse(fix)
	}
	return fix
}

// LostField returns the definition that lacks a field of one of the objects. ok is false if no
// definition does, or if the question was not asked.
func (c ClusterFacts) LostField(objects []wire.Object) (d DefinitionFacts, ok bool) {
	if c.Older.Value() == nil {
		return d, false
	}
	i := slices.IndexFunc(*c.Older.Value(), func(d DefinitionFacts) bool {
		return slices.ContainsFunc(objects, func(o wire.Object) bool { return RefTo(o).Kind == d.Kind })
	})
	if i < 0 {
		return d, false
	}
	return (*c.Older.Value())[i], true
}

// Text describes the problem of the definition.
func (d DefinitionFacts) Text() string {
	return fmt.Sprintf("definition %s is not the one that liqo-tui needs: %s", d.Name, d.Unusable)
}
