package main

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/flags"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/manifest"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/connect"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/rights"
)

func parsed(t *testing.T, words ...string) (flows.Params, flows.Fields, error) {
	t.Helper()
	c, f := newConnectFlags(), pflag.NewFlagSet("", pflag.ContinueOnError)
	c.add(f, nil)
	if err := f.Parse(words); err != nil {
		t.Fatal(err)
	}
	return c.parse()
}

func TestWhatIsGivenAndWhatFactsDecide(t *testing.T) {
	p, open, err := parsed(t, "--server-service-type=nodeport", "--server-location=Consumer")
	if err != nil || open != 0 || p.ServiceType != corev1.ServiceTypeNodePort || p.Server != flows.A {
		t.Errorf("got %+v, open %b, error %v; want NodePort on A, nothing open", p, open, err)
	}
	if want := flows.FieldServiceType | flows.FieldServer; p.Given != want {
		t.Errorf("got given %b, want %b", p.Given, want)
	}
	p, open, err = parsed(t, "--server-service-type=auto", "--mtu=auto")
	if want := flows.FieldServiceType | flows.FieldMTU; err != nil || open != want || p.Given != 0 {
		t.Errorf("auto: got open %b, given %b, error %v; want open %b, and nothing given yet", open, p.Given, err, want)
	}
	_, _, err = parsed(t, "--server-location=Moon", "--mtu=big")
	if _, ok := errors.AsType[exit.UsageError](err); !ok || !strings.Contains(err.Error(), "Moon") || !strings.Contains(err.Error(), "big") {
		t.Errorf("got %v, want both problems at once", err)
	}
}

// A default of the admin's own is not a wish to change what runs, with an interruption.
func TestDefaultsOfTheAdminAreForNewConnections(t *testing.T) {
	for connected, want := range map[bool]corev1.ServiceType{true: flows.Defaults().ServiceType, false: corev1.ServiceTypeNodePort} {
		c, f := newConnectFlags(), pflag.NewFlagSet("", pflag.ContinueOnError)
		c.add(f, nil)
		if err := flags.Preset(f, "server-service-type", "NodePort"); err != nil {
			t.Fatal(err)
		}
		goal, err := c.goal()
		if err != nil {
			t.Fatal(err)
		}
		p := goal.Plan(pairFacts(t, connected))
		if p.Params.ServiceType != want || len(p.Interrupts()) > 0 || connected && !p.Empty() {
			t.Errorf("connected %v: got %s, interrupts %v, empty %v; want %s", connected, p.Params.ServiceType, p.Interrupts(), p.Empty(), want)
		}
	}
}

// pairFacts are those of the in-memory pair after a connect, or before one.
func pairFacts(t *testing.T, connected bool) flows.Facts {
	t.Helper()
	p := flowtest.NewPair()
	if connected {
		params := flows.Defaults()
		if err := engine.Run(t.Context(), connect.Goal{Params: params}, p.A, p.B, func(engine.Event) {}, engine.Options{Now: p.Now}); err != nil {
			t.Fatal(err)
		}
	}
	f, err := engine.Observe(t.Context(), p.A, p.B, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestAutoIsDecidedOnceAndAConnectionKeepsWhatItHas(t *testing.T) {
	open := flows.FieldServer | flows.FieldServiceType | flows.FieldMTU
	p, reasons := flows.Defaults().Decide(open, pairFacts(t, false))
	if len(reasons) != 3 || p.Given != open {
		t.Errorf("got %v and given %b, want a reason for each of three, and all given", reasons, p.Given)
	}
	p, reasons = flows.Defaults().Decide(open, pairFacts(t, true))
	if len(reasons) != 0 || p.Given != 0 {
		t.Errorf("of a connection: got %v and given %b, want nothing decided", reasons, p.Given)
	}
	mixed := pairFacts(t, false)
	mixed.Sides[flows.B].Software = flows.Liqo
	p, reasons = flows.Defaults().Decide(flows.FieldMTU, mixed)
	if p.MTU != flows.Defaults().MTU || len(reasons) != 1 || !strings.Contains(reasons[0].Why, string(mixed.Sides[flows.B].ID)) {
		t.Errorf("beside Liqo's gateway: got MTU %d, %v; want the default, and which side is the reason", p.MTU, reasons)
	}
}

func TestManifestsHoldWhatIsKnown(t *testing.T) {
	kinds := func(f flows.Facts, side flows.Side) (kinds []string, missing int) {
		objects, left := manifest.Of(flows.PlanConnect(flows.Defaults(), f), side)
		for _, o := range objects {
			kinds = append(kinds, o.GetObjectKind().GroupVersionKind().Kind)
		}
		return kinds, len(left)
	}
	for name, test := range map[string]struct {
		connected bool
		side      flows.Side
		want      []string
		missing   int
	}{
		"the client before": {false, flows.A, []string{"Namespace", "Configuration"}, 2},
		"the server before": {false, flows.B, []string{"Namespace", "Configuration", "GatewayServer"}, 1},
		"the client after":  {true, flows.A, []string{"Namespace", "Configuration", "GatewayClient", "PublicKey"}, 0},
		"the server after":  {true, flows.B, []string{"Namespace", "Configuration", "GatewayServer", "PublicKey"}, 0},
	} {
		got, missing := kinds(pairFacts(t, test.connected), test.side)
		if !slices.Equal(got, test.want) || missing != test.missing {
			t.Errorf("%s: got %v and %d left out, want %v and %d", name, got, missing, test.want, test.missing)
		}
	}
}

func TestRolesOfTwoUsersHaveTwoNames(t *testing.T) {
	known := map[string]string{}
	for _, user := range []string{"a@b", "a-b", "A-b", "a:b", "admin"} {
		name := rights.Roles(user, []rights.Permission{{Verb: "list", Resource: "pods"}})[0].GetName()
		if other, ok := known[name]; ok {
			t.Errorf("%s and %s have the role %s", user, other, name)
		}
		known[name] = user
	}
	if known["liqo-tui-admin"] != "admin" || known["liqo-tui-a-b"] != "a-b" {
		t.Errorf("got %v, want plain names as they are", known)
	}
}

func TestRolesAreTheSmallest(t *testing.T) {
	objects := rights.Roles("ada@example.org", []rights.Permission{
		{Verb: "list", Resource: "pods"},
		{Verb: "watch", Resource: "pods"},
		{Verb: "patch", Group: "networking.liqo.io", Resource: "gatewayservers", Namespace: "liqo-tenant-rome"},
		{Verb: "create", Group: "networking.liqo.io", Resource: "gatewayservers", Namespace: "liqo-tenant-rome"},
		{Verb: "create", Group: "networking.liqo.io", Resource: "gatewayclients", Namespace: "liqo-tenant-rome"},
		{Verb: "patch", Group: "networking.liqo.io", Resource: "gatewayclients", Namespace: "liqo-tenant-rome"},
	})
	if len(objects) != 4 {
		t.Fatalf("got %d objects, want a ClusterRole and a Role with their bindings", len(objects))
	}
	cluster, ok := objects[0].(*rbacv1.ClusterRole)
	if !ok || len(cluster.Rules) != 1 || !slices.Equal(cluster.Rules[0].Verbs, []string{"list", "watch"}) {
		t.Errorf("got %+v first, want a ClusterRole to list and watch pods", objects[0])
	}
	role, ok := objects[2].(*rbacv1.Role)
	if !ok || role.Namespace != "liqo-tenant-rome" || len(role.Rules) != 1 ||
		!slices.Equal(role.Rules[0].Resources, []string{"gatewayclients", "gatewayservers"}) || !slices.Equal(role.Rules[0].Verbs, []string{"create", "patch"}) {
		t.Errorf("got %+v, want one rule for both kinds of gateways", objects[2])
	}
	if binding, ok := objects[3].(*rbacv1.RoleBinding); !ok || binding.Subjects[0].Name != "ada@example.org" || binding.RoleRef.Name != role.Name {
		t.Errorf("got %+v, want it bound to the user", objects[3])
	}
}
