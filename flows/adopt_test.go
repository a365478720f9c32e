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

// A script of somebody's gave the server a node port and, later, its Service
// another type: what is left over is no reason to refuse a change.
func TestANodePortOfALoadBalancerIsNotAdopted(t *testing.T) {
	pair := flowtest.NewPair()
	mustRun(t, pair, connect(nodePort()))
	server := pair.B.Facts().Servers[0]
	pair.B.Put(render.GatewayServer(render.ServerParams{
		Tenant: pair.B.Tenant(), Template: render.TemplateRef{Name: server.Spec.ServerTemplateRef.Name, Namespace: server.Spec.ServerTemplateRef.Namespace},
		ServiceType: corev1.ServiceTypeLoadBalancer, Port: uint16(server.Spec.Endpoint.Port), NodePort: 31555, MTU: server.Spec.MTU,
	}))
	pair.Settle()
	p := flows.Defaults()
	p.Port, p.Given = 51999, flows.FieldPort
	plan := flows.PlanConnect(p, factsOf(pair))
	if plan.Params.ServiceType != corev1.ServiceTypeLoadBalancer || plan.Params.NodePort != 0 {
		t.Errorf("got %s with node port %d, want LoadBalancer without one", plan.Params.ServiceType, plan.Params.NodePort)
	}
	if failed := plan.Failure(); failed != nil {
		t.Errorf("a change of the port is refused: %v", failed)
	}
}
