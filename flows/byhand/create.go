// Package byhand plans the single steps of a connection for two admins. Each admin makes the
// steps on their own cluster. The objects and waits are those of [flows.PlanConnect].
package byhand

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// Object is the object that one command makes. It has the settings that [flows.Params] lacks.
type Object struct {
	Kind   Kind
	Name   string         // "": the peer's ID
	Remote wire.ClusterID // the peer
	// PodCIDRs and ExternalCIDRs are the peer's ranges, for a Configuration.
	PodCIDRs, ExternalCIDRs []string
	// Key is the key of the peer's gateway, in base64.
	Key string
	// Printed is set if the command only prints the object. Then the earlier steps need not
	// be done.
	Printed bool
	// Type and Protocol are values of liqoctl's flags with these names. Scripts may give
	// them, but only one value of each is supported.
	Type, Protocol string
}

// Kind is the kind of an [Object].
type Kind string

// The kinds, in the order of the steps.
const (
	Configuration Kind = "Configuration"
	GatewayServer Kind = "GatewayServer"
	GatewayClient Kind = "GatewayClient"
	PublicKey     Kind = "PublicKey"
)

// Word returns the name of the kind in commands.
func (k Kind) Word() string { return strings.ToLower(string(k)) }

func (k Kind) gateway() bool { return k == GatewayServer || k == GatewayClient }

// Creation is the goal of an object on cluster A.
type Creation struct {
	Object Object
	Params flows.Params
	Open   flows.Fields // the fields that facts decide
}

// Settle implements [flows.Goal].
func (c Creation) Settle(f flows.Facts) flows.Goal {
	if a := f.Sides[flows.A]; c.Open != 0 && a.Problem == nil {
		f.Sides[flows.B] = flows.ClusterFacts{ID: c.Object.Remote, Software: a.Software}
		c.Params, _ = c.Params.Decide(c.Open, f)
		c.Open = 0
	}
	return c
}

// Plan implements [flows.Goal].
func (c Creation) Plan(f flows.Facts) flows.Plan { return Create(c.Object, c.Params, f) }

// Create makes or changes the object on cluster A, and waits for the values that the other
// admin needs. It ignores the parts of p that don't matter for this kind.
func Create(o Object, p flows.Params, f flows.Facts) flows.Plan {
	namespace, conf := p.Namespaces[flows.A], render.Networks{Pod: cidrs(o.PodCIDRs), External: cidrs(o.ExternalCIDRs)}
	p.Namespaces[flows.A] = ""
	f.Sides[flows.B] = flows.ClusterFacts{ID: o.Remote, Described: true, Networks: conf}
	p.Server, p.Given = flows.A, p.Given|flows.FieldServer
	if o.Kind == GatewayClient || o.Kind == PublicKey && f.Sides[flows.A].End(o.Remote).Server == nil {
		p.Server = flows.B
	}
	if own := f.Sides[flows.A].ID; own == o.Remote && f.Sides[flows.A].Problem == nil {
		return flows.Plan{A: own, B: own, Steps: []flows.Step{*refuse(flows.FailedPreflight, fmt.Sprintf("%s is this cluster itself", own),
			command.Hintf("give the other cluster's ID: there, %s prints it; or choose another --context", command.Ours("info", "--get", "clusterid").Flag("--context", "CONTEXT")))}}
	}
	plan, c := flows.NewHalf(p, f)
	if len(plan.Steps) > 0 {
		return plan
	}
	if o.Kind == Configuration || o.Kind == PublicKey {
		plan.Kept = nil // these sentences are about gateways
	}
	refused := settle(&c, namespace)
	c.Ends[flows.A].Tenant.Name = o.Name
	for _, unfit := range []func(Object, flows.Connection) *flows.Step{Object.second, Object.taken, Object.early, Object.ownKey} {
		if refused == nil {
			refused = unfit(o, c)
		}
	}
	if refused != nil {
		plan.Steps = []flows.Step{*refused}
		return plan
	}
	plan.Steps = c.ExplainWaits(o.steps(c, p.Wait != flows.WaitNone && !o.Printed))
	plan.Owed = o.owed(c)
	return plan
}

func cidrs(texts []string) (out []networkingv1beta1.CIDR) {
	for _, text := range texts {
		out = append(out, networkingv1beta1.CIDR(text))
	}
	return out
}

func (o Object) steps(c flows.Connection, wait bool) []flows.Step {
	const a = flows.A
	steps, waits := []flows.Step{c.TenantNamespace(a)}, []flows.Step(nil)
	switch o.Kind {
	case Configuration:
		steps, waits = append(steps, c.Configuration(a)), []flows.Step{c.Remapped(a)}
	case GatewayServer:
		steps, waits = append(steps, c.GatewayServer(a)), []flows.Step{c.Endpoint(a), c.OwnKey(a)}
	case GatewayClient:
		steps, waits = append(steps, c.GatewayClient(a)), []flows.Step{c.OwnKey(a)}
	case PublicKey:
		key, _ := wgtypes.ParseKey(o.Key) // the flag's definition has validated the key
		if o.Printed {
			return append(steps, flows.Ensure(a, "public-key", c.Ends[a].PublicKey, render.PublicKey(c.Ends[a].Tenant, key, nil)))
		}
		// The peer's cluster is not observed. The step needs the peer's gateway, so it is
		// assumed to exist.
		c.Ends[flows.B] = flows.End{Key: &key, Server: &networkingv1beta1.GatewayServer{}, Client: &networkingv1beta1.GatewayClient{}}
		steps = append(steps, c.PublicKey(a))
	}
	if !wait {
		return steps
	}
	return append(steps, waits...)
}

// settle chooses the namespace. The connection's namespace comes first, then the wanted one,
// then the kubeconfig's, as with kubectl.
func settle(c *flows.Connection, wanted string) *flows.Step {
	end := &c.Ends[flows.A]
	if end.Configuration != nil || end.Server != nil || end.Client != nil {
		c.Params.Namespaces[flows.A] = wanted
		return c.Elsewhere(flows.A)
	}
	namespace := cmp.Or(wanted, c.Facts.Sides[flows.A].ContextNamespace, metav1.NamespaceDefault)
	end.Tenant.Namespace, end.Namespace = namespace, c.Facts.Sides[flows.A].FindNamespace(namespace)
	return nil
}

func refuse(kind flows.FailureKind, reason string, fix command.Hint) *flows.Step {
	return new(flows.Refuse(flows.A, flows.CodeByHand, "manual step", kind, reason, fix))
}

// second returns a failed step if a connection may have the object only once, and has it
// under another name. It also refuses a second gateway with the opposite role.
func (o Object) second(c flows.Connection) *flows.Step {
	p, id := c.Ends[flows.A], c.Facts.Sides[flows.A].ID
	var live wire.Object
	for kind, other := range map[Kind]wire.Object{Configuration: p.Configuration, GatewayServer: p.Server, GatewayClient: p.Client, PublicKey: p.PublicKey} {
		if kind == o.Kind {
			live = other
		}
	}
	switch {
	case o.Kind == GatewayServer && p.Client != nil:
		return refuse(flows.FailedConflict, fmt.Sprintf("%s is already the client of a connection with %s: %s", id, o.Remote, apply.Name(p.Client)), oneGateway(c.Facts.Sides[flows.A], o.Remote))
	case o.Kind == GatewayClient && p.Server != nil:
		return refuse(flows.FailedConflict, fmt.Sprintf("%s already hosts a gateway server for %s: %s", id, o.Remote, apply.Name(p.Server)), oneGateway(c.Facts.Sides[flows.A], o.Remote))
	case flows.Exists(live) && o.Name != "" && live.GetName() != o.Name:
		return refuse(flows.FailedConflict, fmt.Sprintf("%s has %s for %s already, and a peer can have only one", id, apply.Name(live), o.Remote),
			command.Text("to change it, give its name: "+live.GetName()))
	}
	return nil
}

func oneGateway(on flows.ClusterFacts, peer wire.ClusterID) command.Hint {
	return command.Hintf("a cluster has one gateway for a peer; %s removes it", on.Ours("network", "disconnect").Add("--local-only", "--remote-cluster-id", string(peer)))
}

// taken returns a failed step if an object for another peer has the name. Two gateways with
// one name would have the same Deployment.
func (o Object) taken(c flows.Connection) *flows.Step {
	f, tenant := c.Facts.Sides[flows.A], c.Ends[flows.A].Tenant
	for _, other := range objects(f) {
		kind := Kind(flows.RefTo(other).Kind)
		same := kind == o.Kind || kind.gateway() && o.Kind.gateway()
		if !same || other.GetNamespace() != tenant.Namespace || other.GetName() != tenant.ObjectName() {
			continue
		}
		about := other.GetLabels()[wire.LabelRemoteCluster]
		if about == string(o.Remote) {
			continue
		}
		return refuse(flows.FailedConflict, fmt.Sprintf("%s of %s is about %s", apply.Name(other), f.ID, cmp.Or(about, "no peer: it has no label "+wire.LabelRemoteCluster)),
			command.Text("choose another name for the one about "+string(o.Remote)))
	}
	return nil
}

// objects returns all objects of the kinds that this package creates.
func objects(f flows.ClusterFacts) (all []wire.Object) {
	add(&all, f.Configurations)
	add(&all, f.Servers)
	add(&all, f.Clients)
	add(&all, f.PublicKeys)
	return all
}

func add[T any, O interface {
	*T
	wire.Object
}](all *[]wire.Object, items []T) {
	for i := range items {
		*all = append(*all, O(&items[i]))
	}
}

// early returns a failed step if the previous step was not made.
func (o Object) early(c flows.Connection) *flows.Step {
	p, id := c.Ends[flows.A], c.Facts.Sides[flows.A].ID
	switch {
	case o.Printed:
	case o.Kind == PublicKey && p.Server == nil && p.Client == nil:
		return refuse(flows.FailedPreflight, fmt.Sprintf("%s has no gateway for %s yet, so nothing uses the key", id, o.Remote),
			command.Hintf("create the gateway first: %s, or create a gatewayclient if the other cluster has the server", create(GatewayServer, "NAME", o.Remote).On(c.Facts.Sides[flows.A].Flags())))
	case o.Kind.gateway() && p.Configuration == nil:
		hint := command.Hintf("first, on %s: %s > configuration.yaml; then here: %s", o.Remote, command.Ours("generate", "configuration").For(string(o.Remote)), c.Facts.Sides[flows.A].Kubectl("apply", "-f", "configuration.yaml"))
		for i := range c.Facts.Sides[flows.A].Configurations {
			if own := &c.Facts.Sides[flows.A].Configurations[i]; own.Labels[wire.LabelRemoteCluster] == string(id) {
				hint = command.Hintf("delete %s here: it describes %s itself, and belongs to %s; %s", apply.Name(own), id, o.Remote, hint)
			}
		}
		return refuse(flows.FailedPreflight, fmt.Sprintf("%s has no Configuration for %s yet", id, o.Remote), hint)
	}
	return nil
}

// ownKey returns a failed step if the key is the key of this cluster's own gateway.
func (o Object) ownKey(c flows.Connection) *flows.Step {
	if own := c.Ends[flows.A].Key; o.Kind != PublicKey || own == nil || own.String() != o.Key {
		return nil
	}
	role := flows.RoleServer
	if c.Ends[flows.A].Server != nil {
		role = flows.RoleClient
	}
	return refuse(flows.FailedPreflight, fmt.Sprintf("this is the public key of %s's own gateway", c.Facts.Sides[flows.A].ID),
		command.Hintf("take what %s prints on %s", command.Ours("generate", "publickey").Flag("--gateway-type", string(role)).Flag("--gateway-name", "NAME").For(string(o.Remote)), o.Remote))
}

// owed returns the commands that the other admin has to run next, with the values that are
// known here.
func (o Object) owed(c flows.Connection) []command.Command {
	end, id := c.Ends[flows.A], c.Facts.Sides[flows.A].ID
	if s := end.Server; o.Kind == GatewayServer && s != nil && s.Status.Endpoint != nil {
		return []command.Command{create(GatewayClient, "client", id).Flag("--addresses", strings.Join(s.Status.Endpoint.Addresses, ",")).
			Flag("--port", fmt.Sprint(s.Status.Endpoint.Port)).For(string(o.Remote))}
	}
	return nil
}

func create(kind Kind, name string, peer wire.ClusterID) command.Command {
	return command.Ours("create", kind.Word(), name).Flag("--remote-cluster-id", string(peer))
}

// Manifest returns the object in a plan of [Create]. Other tools apply it.
func (o Object) Manifest(plan flows.Plan) wire.Object {
	wants := plan.Wants(flows.A)
	i := slices.IndexFunc(wants, func(w wire.Object) bool { return Kind(flows.RefTo(w).Kind) == o.Kind })
	if i < 0 {
		return nil
	}
	want := wants[i].DeepCopyObject().(wire.Object)
	want.SetOwnerReferences(nil) // they contain UIDs, which differ in other clusters
	// The other annotations are requests to the operator that are made once.
	want.SetAnnotations(wire.Lasting(want))
	return want
}
