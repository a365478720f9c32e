package flows

import (
	"fmt"
	"slices"

	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/render"
)

// TemplateFacts is one gateway template.
type TemplateFacts struct {
	Kind string // as references to it state it
	render.TemplateRef
	// Ours is set if its pods run our tunnel, which works only under our operator.
	Ours bool
}

// refusedTemplate returns a failed step if a gateway template does not exist, or
// if the cluster's controllers can't run it. Liqo's controllers report neither
// problem: the gateway would wait for ever.
func (c Connection) refusedTemplate(side Side, kind string, ref render.TemplateRef) *Step {
	cluster := c.Facts.Sides[side]
	ref = c.template(side, ref)
	if len(cluster.Templates) == 0 || ref.Kind != "" {
		return nil // templates are unreadable, come with the installation, or belong to another program
	}
	i := slices.IndexFunc(cluster.Templates, func(t TemplateFacts) bool { return t.Kind == kind && t.TemplateRef == ref })
	switch {
	case i < 0:
		var there []string
		for _, t := range cluster.Templates {
			if t.Kind == kind {
				there = append(there, t.Namespace+"/"+t.Name)
			}
		}
		return new(Refuse(side, CodeTemplate, "gateway template", FailedPreflight,
			fmt.Sprintf("%s has no %s %s/%s", cluster.Name(), kind, ref.Namespace, ref.Name),
			command.Text("name one that is there: "+Joined(there))))
	case !cluster.Can().RunOurGateway && cluster.Templates[i].Ours:
		return new(Refuse(side, CodeTemplate, "gateway template", FailedPreflight,
			fmt.Sprintf("%s %s/%s runs liqo-tui's gateway, which Liqo's controllers on %s can't run: it needs objects that liqo-tui's operator alone writes", kind, ref.Namespace, ref.Name, cluster.Name()),
			command.Text("use a template of Liqo's own gateway there")))
	}
	return nil
}
