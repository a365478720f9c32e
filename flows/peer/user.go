package peer

import (
	"cmp"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// User is an account on cluster A, the provider, for the admin of a consumer, who has no
// other access to it.
type User struct {
	Consumer  render.ClusterID
	APIServer string // URL for the consumer's admin; "" for what the operator tells consumers, or the kubeconfig's
}

// Server is the URL under which the consumer's admin is to reach cluster A's API server.
func (u User) Server(f flows.ClusterFacts) string {
	return cmp.Or(u.APIServer, f.Operator.APIServer, f.Server)
}

// Invite makes the account.
func (u User) Invite(f flows.Facts) flows.Plan {
	plan, p := u.half(f)
	if len(plan.Steps) > 0 {
		return plan
	}
	if f.Local.Software != flows.Operator {
		plan.Steps = []flows.Step{flows.Refuse(flows.A, flows.CodeSoftware, "operator", flows.FailedPreflight,
			fmt.Sprintf("%s has %s, whose own program makes such users", p.id(p.pro), f.Local.Software),
			"liqoctl generate peering-user --consumer-cluster-id "+string(u.Consumer))}
		return plan
	}
	if server := u.Server(f.Local); loopback(server) {
		plan.Steps = []flows.Step{flows.Refuse(flows.A, flows.CodeUsage, "API server's URL", flows.FailedPreflight,
			fmt.Sprintf("%s's API server is %s, which another machine can't reach", p.id(p.pro), server), "give a URL that the admin of "+string(u.Consumer)+" can reach: --api-server")}
		return plan
	}
	plan.Steps = []flows.Step{p.TenantNamespace(p.pro)}
	for _, o := range u.objects(p) {
		plan.Steps = append(plan.Steps, p.BehindNamespace(p.pro, flows.Ensure(p.pro, o.what, o.live, o.want)))
	}
	plan.Kept = []string{
		fmt.Sprintf("whoever has the file that this writes may connect %s and %s, let %s in, and take that back; it sees nothing of other peers, and of Secrets the nonce alone", p.id(p.pro), u.Consumer, u.Consumer),
	}
	if !f.Local.Operator.Peering.Provides() {
		plan.Kept = append(plan.Kept, fmt.Sprintf("the operator on %s is not told that the cluster is a provider: until then the file is good for the network alone", p.id(p.pro)))
	}
	return plan
}

// Revoke removes the account: what it was good for ends at once. What was connected or
// peered with it stays, and so does the namespace then.
func (u User) Revoke(f flows.Facts) flows.Plan {
	plan, p := u.half(f)
	if len(plan.Steps) > 0 {
		return plan
	}
	gone := true
	for _, o := range u.objects(p) {
		s := flows.Remove(p.pro, o.what, flows.RefTo(o.want), o.live, "")
		plan.Steps, gone = append(plan.Steps, s), gone && s.Status == flows.Done
	}
	used := p.Peers[p.pro]
	if used.Configuration != nil || used.Server != nil || used.Client != nil || used.PublicKey != nil || p.accepted() != nil {
		plan.Kept = []string{fmt.Sprintf("the connection and the peering with %s stay as they are", u.Consumer)}
		return plan
	}
	plan.Steps = append(plan.Steps, flows.RemoveNamespace(p.pro, "namespace", used.Namespace, used.Tenant, f.Contents[p.pro], !gone))
	return plan
}

// half is a plan for cluster A alone, which lends.
func (u User) half(f flows.Facts) (flows.Plan, pair) {
	f.Remote = flows.ClusterFacts{ID: u.Consumer, Described: true}
	plan, c := flows.NewHalf(flows.Params{}, f)
	plan.Kept = nil
	return plan, pair{Connection: c, con: flows.B, pro: flows.A, made: map[string]flows.Step{}}
}

// object is one of the account's: as it is, and as it should be.
type object struct {
	what       string
	live, want render.Object
}

func (u User) objects(p pair) (out []object) {
	facts, tenant := flows.DelegationFacts{}, p.tenant(p.pro)
	if d := p.Facts.Side(p.pro).Delegation; d != nil {
		facts = *d
	}
	for _, want := range peering.User(tenant, p.Facts.Side(p.pro).Namespace) {
		o := object{want: want}
		switch want.(type) {
		case *corev1.ServiceAccount:
			o.what, o.live = "user-account", render.Named(facts.Accounts, want)
		case *rbacv1.Role:
			o.what, o.live = "user-role", render.Named(facts.Roles, want)
		case *rbacv1.RoleBinding:
			o.what, o.live = "user-binding", render.Named(facts.Bindings, want)
		}
		if want.GetNamespace() != tenant.Namespace {
			o.what += "-" + want.GetNamespace()
		}
		out = append(out, o)
	}
	return out
}

// Account is the account's ServiceAccount.
func (u User) Account(f flows.Facts) (namespace, name string) {
	_, p := u.half(f)
	return p.tenant(p.pro).Namespace, peering.UserName
}
