package peer

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// User describes an account on cluster A, the provider. It is for the admin of a consumer who has no
// other access to A.
type User struct {
	Consumer wire.ClusterID
	// APIServer is the URL at which the consumer's admin reaches A's API server. "" means the URL that
	// A's operator gives to consumers, or else the URL in the kubeconfig.
	APIServer string
}

// Server returns the URL at which the consumer's admin reaches cluster A's API server.
func (u User) Server(f flows.ClusterFacts) string {
	return cmp.Or(u.APIServer, f.Operator.APIServer, f.Server)
}

// Invite returns the plan that creates the account.
func (u User) Invite(f flows.Facts) flows.Plan {
	p := u.pair(f)
	plan, _ := flows.NewHalf(flows.Params{}, p.Facts)
	if plan.Kept = nil; len(plan.Steps) > 0 {
		return plan
	}
	refuse := func(code flows.Code, title, reason string, fix command.Hint) flows.Plan {
		plan.Steps = []flows.Step{flows.Refuse(flows.A, code, title, flows.FailedPreflight, reason, fix)}
		return plan
	}
	given := p.delegation()
	switch server := u.Server(f.Sides[flows.A]); {
	case !f.Sides[flows.A].Can().InvitePeers:
		return refuse(flows.CodeSoftware, "operator", fmt.Sprintf("%s has %s, for which liqoctl creates such users", p.id(p.pro), f.Sides[flows.A].Software),
			command.Hintf("run %s", command.Of("liqoctl", "generate", "peering-user", "--consumer-cluster-id", string(u.Consumer))))
	case loopback(server):
		return refuse(flows.CodeUsage, "API server's URL", fmt.Sprintf("the URL of %s's API server is %s, which another machine can't reach", p.id(p.pro), server),
			command.Hintf("give a URL that the admin of %s can reach: --api-server", u.Consumer))
	case !slices.Contains(given.Bounds, peering.UserPolicy):
		return refuse(flows.CodeUnfit, "bounds of the account", fmt.Sprintf("%s has no admission policy %s, without which the account could do more than it should", p.id(p.pro), peering.UserPolicy),
			command.Hintf("upgrade the installation: %s; the policy needs Kubernetes 1.30 or later", f.Sides[flows.A].Ours("install")))
	}
	plan.Steps = []flows.Step{p.TenantNamespace(p.pro)}
	for _, o := range u.objects(p) {
		plan.Steps = append(plan.Steps, p.BehindNamespace(p.pro, flows.Ensure(p.pro, o.what, o.live, o.want)))
	}
	plan.Kept = []string{
		fmt.Sprintf("whoever has the file can connect %s and %s, let %s in as a consumer, and undo both; the file gives no access to objects of other peers, and to no Secret except the one that proves the consumer's identity", p.id(p.pro), u.Consumer, u.Consumer),
	}
	if !f.Sides[flows.A].Operator.Peering.Provides() {
		plan.Kept = append(plan.Kept, fmt.Sprintf("%s's operator was installed without lending, so the file only helps to connect the networks", p.id(p.pro)))
	}
	if len(given.CA) == 0 {
		plan.Kept = append(plan.Kept, fmt.Sprintf("the kubeconfig of context %s names no certificate authority, so the file names none either; it works only on machines that trust the API server's certificate", f.Sides[flows.A].Context.Name))
	}
	return plan
}

// Revoke returns the plan that removes the account. The access ends at once, even if the operator does
// not work. A connection and lending that were made with the account stay, and so does the tenant
// namespace with their objects.
func (u User) Revoke(f flows.Facts) flows.Plan {
	plan := flows.Plan{A: f.Sides[flows.A].Name(), B: u.Consumer}
	if plan.Steps = flows.NoAnswer(f, flows.A); len(plan.Steps) > 0 {
		return plan
	}
	p := u.pair(f)
	gone := true
	for _, o := range u.objects(p) {
		s := flows.Remove(p.pro, o.what, flows.RefTo(o.want), o.live, "")
		plan.Steps, gone = append(plan.Steps, s), gone && s.Status == flows.Done
	}
	used := p.Ends[p.pro]
	if used.Configuration != nil || used.Server != nil || used.Client != nil || used.PublicKey != nil || p.accepted() != nil {
		plan.Kept = []string{fmt.Sprintf("the connection and the peering with %s stay as they are", u.Consumer)}
		return plan
	}
	plan.Steps = append(plan.Steps, flows.RemoveNamespace(p.pro, "namespace", used.Namespace, used.Tenant, f.Contents[p.pro], !gone))
	return plan
}

// pair returns cluster A as the provider, and a consumer with only an ID.
func (u User) pair(f flows.Facts) pair {
	f.Sides[flows.B] = flows.ClusterFacts{ID: u.Consumer, Described: true}
	return newPair(Params{Consumer: flows.B}, [2]string{}, f)
}

// delegation returns the facts about accounts for peers on the provider.
func (p pair) delegation() flows.DelegationFacts {
	if d := p.Facts.Sides[p.pro].Delegation; d != nil {
		return *d
	}
	return flows.DelegationFacts{}
}

// object is an object of the account in its present and its wanted form.
type object struct {
	what       string // the name of its step
	live, want wire.Object
}

func (u User) objects(p pair) (out []object) {
	facts, tenant := p.delegation(), p.tenant(p.pro)
	for _, want := range peering.User(tenant, p.Facts.Sides[p.pro].Namespace) {
		o := object{want: want}
		switch want.(type) {
		case *corev1.ServiceAccount:
			o.what, o.live = "user-account", wire.Named(facts.Accounts, want)
		case *rbacv1.Role:
			o.what, o.live = "user-role", wire.Named(facts.Roles, want)
		case *rbacv1.RoleBinding:
			o.what, o.live = "user-binding", wire.Named(facts.Bindings, want)
		}
		if want.GetNamespace() != tenant.Namespace {
			o.what += "-" + want.GetNamespace()
		}
		out = append(out, o)
	}
	return out
}

// Account returns the namespace and the name of the account's ServiceAccount.
func (u User) Account(f flows.Facts) (namespace, name string) {
	p := u.pair(f)
	return p.tenant(p.pro).Namespace, peering.UserName
}
