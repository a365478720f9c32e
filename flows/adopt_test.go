package flows_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/render"
)

func TestAdoptingAConnectionLeavesNothingToDo(t *testing.T) {
	for _, server := range []flows.Side{flows.A, flows.B} {
		pair := flowtest.NewPair()
		params := nodePort()
		params.Server = server
		mustRun(t, pair, connect(params))
		f := factsOf(pair)
		p, fixed := flows.Adopt(flows.Defaults(), f)
		if !fixed || p.Server != server || p.ServiceType != corev1.ServiceTypeNodePort {
			t.Errorf("server %s: got %+v, fixed %v", server, p, fixed)
		}
		if plan := flows.PlanConnect(p, f); !plan.Done() {
			t.Errorf("server %s: a connection that works would be changed: %v", server, plan.Steps)
		}
	}
}

func TestAdoptingALiqoctlConnectionKeepsItsSpec(t *testing.T) {
	pair := flowtest.NewPair()
	pair.ConnectByLiqoctl(flows.A)
	f := factsOf(pair)
	p, _ := flows.Adopt(flows.Defaults(), f)
	for _, s := range flows.PlanConnect(p, f).Steps {
		for line := range strings.Lines(s.Diff) {
			if strings.HasPrefix(line, "-  ") || strings.HasPrefix(line, "+  ") && !strings.Contains(line, render.LabelManagedBy) {
				t.Errorf("%s would change %q", s.Title, line)
			}
		}
	}
}

func TestAnAddressOfTheAdminsOwnIsKeptWhileItWorks(t *testing.T) {
	pair := flowtest.NewPair()
	pair.B.Behave(func(b *flowtest.Behaviour) { b.AlsoAt = []string{"gw.example.org:4242"} })
	mustRun(t, pair, connect(nodePort()))
	client := pair.A.Facts().Clients[0].DeepCopy()
	pair.A.Put(render.GatewayClient(render.ClientParams{
		Tenant: pair.A.Tenant(), Template: render.TemplateRef{Name: client.Spec.ClientTemplateRef.Name, Namespace: client.Spec.ClientTemplateRef.Namespace},
		Addresses: []string{"gw.example.org"}, Port: 4242, MTU: client.Spec.MTU,
	}))
	pair.Settle()
	f := factsOf(pair)
	p, _ := flows.Adopt(flows.Defaults(), f)
	if p.ClientAddress != "gw.example.org" || p.ClientPort != 4242 {
		t.Errorf("got %s port %d, want the admin's", p.ClientAddress, p.ClientPort)
	}
	if plan := flows.PlanConnect(p, f); !plan.Done() {
		t.Errorf("a connection that works would be changed: %v", plan.Steps)
	}
}
