package flows_test

import (
	"strings"
	"testing"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

func TestATemplateThatCantBeUsedIsRefusedBeforeAnythingIsChanged(t *testing.T) {
	at := func(kind, name string, ours bool) flows.TemplateFacts {
		return flows.TemplateFacts{Kind: kind, TemplateRef: render.TemplateRef{Name: name, Namespace: "liqo"}, Ours: ours}
	}
	server, client := networkingv1beta1.WgGatewayServerTemplateKind, networkingv1beta1.WgGatewayClientTemplateKind
	there := []flows.TemplateFacts{at(server, wire.ServerTemplate, false), at(server, "own", true), at(client, wire.ClientTemplate, false)}
	for _, tc := range []struct {
		name      string
		templates []flows.TemplateFacts
		software  flows.Software
		template  string
		want      string
	}{
		{"one that is there", there, flows.Liqo, wire.ServerTemplate, ""},
		{"none may be read", nil, flows.Liqo, "else", ""},
		{"one that is not there", there, flows.Liqo, "else", "milan has no WgGatewayServerTemplate liqo/else"},
		{"ours, where Liqo runs", there, flows.Liqo, "own", "which Liqo's controllers on milan can't run"},
		{"ours, where our operator runs", there, flows.Operator, "own", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := flowtest.NewPair()
			p.Pacing = flowtest.Manual
			f := flowtest.Facts(p)
			for side := range f.Sides {
				c := &f.Sides[side]
				c.Templates, c.Software, c.Namespace = tc.templates, tc.software, "liqo"
			}
			params := flowtest.NodePort()
			params.Server, params.ServerTemplate.Name = flows.B, tc.template
			plan := flows.PlanConnect(params, f)
			failed := plan.Failure()
			switch {
			case tc.want == "" && failed != nil:
				t.Errorf("got %q, want no refusal", failed.Reason)
			case tc.want != "" && (failed == nil || failed.Code != flows.CodeTemplate || !strings.Contains(failed.Reason, tc.want)):
				t.Errorf("got %+v, want the reason %q", failed, tc.want)
			case tc.want != "" && len(plan.Steps) != 1:
				t.Errorf("got %d steps, want the refusal alone", len(plan.Steps))
			}
		})
	}
}
