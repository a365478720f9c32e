package flows

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"slices"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/liqo-tui/liqo-tui/render"
)

// DelegationFacts are what is there of the operators' access to each other.
// They hold tokens, so they are observed only for [PlanDelegate].
type DelegationFacts struct {
	CA       []byte // of the API server, PEM, from the admin's kubeconfig; nil if that has none
	Accounts []corev1.ServiceAccount
	Roles    []rbacv1.Role
	Bindings []rbacv1.RoleBinding
	Secrets  []corev1.Secret
}

// DelegateParams are what an admin may say about a delegation.
type DelegateParams struct {
	// APIServer is the URL under which the other cluster's operator reaches this
	// side's API server; "" for that of the admin's kubeconfig.
	APIServer  [2]string
	Namespaces [2]string // of the peering; "" for the one it has
}

// PlanDelegate lets the operators carry a changed endpoint or key to each
// other. Each gets an identity on the other cluster that may get and patch one
// gateway and one public key there; all of it belongs to that gateway, and goes
// with it.
func PlanDelegate(p DelegateParams, f Facts) Plan {
	plan := Plan{A: f.Local.Name(), B: f.Remote.Name()}
	if steps := Unfit(f); len(steps) > 0 {
		plan.Steps = steps
		return plan
	}
	d := delegation{params: p, connection: newConnection(Params{Namespaces: p.Namespaces}, f)}
	if d.peers[A].Server != nil {
		d.connection.params.Server = A
	} else {
		d.connection.params.Server = B
	}
	for _, side := range []Side{A, B} {
		if s := d.unfit(side); s != nil {
			plan.Steps = append(plan.Steps, *s)
		}
	}
	if len(plan.Steps) > 0 {
		return plan
	}
	plan.Steps = slices.Concat(d.identity(A), d.identity(B), []Step{d.token(A), d.token(B), d.access(A), d.access(B)})
	return plan
}

type delegation struct {
	connection

	params DelegateParams
}

// unfit is what stands against delegating, on one side.
func (d delegation) unfit(side Side) *Step {
	c, peer := d.facts.Side(side), d.peers[side]
	var s Step
	switch host := hostOf(d.server(side)); {
	case c.Software != Operator:
		s = Refuse(side, CodeSoftware, "operator", FailedPreflight,
			fmt.Sprintf("%s is connected by %s, which can't pass changes to other clusters", c.ID, c.Software),
			"both clusters need the liqo-tui operator for this")
	case !exists(d.gateway(side)) || peer.PublicKey == nil:
		s = Refuse(side, CodeKey, "connection", FailedPreflight,
			fmt.Sprintf("%s has no gateway with a public key for %s", c.ID, peer.Tenant.Remote), "run liqo-tui network connect first")
	case host == "":
		s = Refuse(side, CodeUsage, "API server's URL", FailedPreflight,
			fmt.Sprintf("%s's API server %q is not an https:// URL", c.ID, d.server(side)), "give its URL with "+apiServerFlag(side))
	case isLoopback(host):
		s = Refuse(side, CodeUsage, "API server's URL", FailedPreflight,
			fmt.Sprintf("%s's API server is %s in this kubeconfig, which another machine can't reach", c.ID, d.server(side)),
			"give a URL that the other cluster can reach: "+apiServerFlag(side))
	default:
		return nil
	}
	return &s
}

func apiServerFlag(side Side) string {
	return map[Side]string{A: "--api-server", B: "--remote-api-server"}[side]
}

// server is the URL under which the other side's operator will reach this one.
func (d delegation) server(side Side) string {
	if d.params.APIServer[side] != "" {
		return d.params.APIServer[side]
	}
	return d.facts.Side(side).Server
}

func hostOf(server string) string {
	u, err := url.Parse(server)
	if err != nil || u.Scheme != "https" {
		return ""
	}
	return u.Hostname()
}

func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && (ip.IsLoopback() || ip.IsUnspecified())
}

func (d delegation) delegate(side Side) render.Delegate {
	return render.Delegate{Tenant: d.peers[side].Tenant, Gateway: d.gateway(side), PublicKey: d.peers[side].PublicKey.Name}
}

// identity is what the other side's operator becomes on this side.
func (d delegation) identity(side Side) []Step {
	var steps []Step
	facts := d.known(side)
	for _, want := range d.delegate(side).Identity() {
		var s Step
		switch o := want.(type) {
		case *corev1.ServiceAccount:
			s = Ensure(side, "delegate-account", named(facts.Accounts, want), want)
		case *rbacv1.Role:
			s = Ensure(side, "delegate-role", named(facts.Roles, want), want)
		case *rbacv1.RoleBinding:
			s = Ensure(side, "delegate-binding", named(facts.Bindings, want), want)
		case *corev1.Secret:
			s = d.tokenSecret(side, o)
		}
		steps = append(steps, s)
	}
	return steps
}

// tokenSecret waits for its account: Kubernetes deletes a token without one.
func (d delegation) tokenSecret(side Side, want *corev1.Secret) Step {
	account := &corev1.ServiceAccount{}
	account.SetNamespace(want.Namespace)
	account.SetName(want.Annotations[corev1.ServiceAccountNameKey])
	s := Ensure(side, "delegate-token-secret", named(d.known(side).Secrets, want), want)
	if s.Status == Ready && !exists(named(d.known(side).Accounts, account)) {
		s.Status, s.Reason, s.Objects = Blocked, "needs the ServiceAccount", nil
	}
	return s
}

func (d delegation) known(side Side) DelegationFacts {
	if facts := d.facts.Side(side).Delegation; facts != nil {
		return *facts
	}
	return DelegationFacts{}
}

// token waits for Kubernetes to make the identity's token.
func (d delegation) token(side Side) Step {
	s := Step{ID: IDOf(side, "delegate-token"), Side: side, Action: Wait, Title: "token of the delegate", Status: Waiting, Code: CodeTimeout}
	switch secret := d.madeToken(side); {
	case secret == nil:
		s.Status, s.Reason = Blocked, "needs the Secret"
	case len(secret.Data[corev1.ServiceAccountTokenKey]) == 0:
		s.Reason = "waiting for Kubernetes to create the token"
	default:
		s.Status = Done
	}
	return s
}

func (d delegation) madeToken(side Side) *corev1.Secret {
	want := &corev1.Secret{}
	want.SetNamespace(d.peers[side].Tenant.Namespace)
	want.SetName(render.DelegateTokenName(d.gateway(side).GetName()))
	return named(d.known(side).Secrets, want)
}

// access gives this side's operator the identity on the other.
func (d delegation) access(side Side) Step {
	other := side.Other()
	name := render.DelegateAccessName(d.gateway(side).GetName())
	object := ObjectRef{Kind: "Secret", Namespace: d.peers[side].Tenant.Namespace, Name: name}
	if d.token(other).Status != Done {
		return blocked(side, Create, "delegate-access", object, fmt.Sprintf("needs the token from %s", d.facts.Side(other).ID))
	}
	token := d.madeToken(other)
	ca := d.known(other).CA
	if len(ca) == 0 {
		ca = token.Data[corev1.ServiceAccountRootCAKey]
	}
	access := render.PeerAccess{
		Server: d.server(other), CA: ca, Token: token.Data[corev1.ServiceAccountTokenKey],
		Namespace: d.peers[other].Tenant.Namespace, PublicKey: d.peers[other].PublicKey.Name,
		Gateway: d.gateway(other).GetName(), Endpoint: d.follows(side),
	}
	if access.Endpoint {
		access.Dials = cmp.Or(d.given(side).Dials, render.EndpointText(d.peers[other].Client.Spec.Endpoint))
	}
	carries := "a new key"
	if access.Endpoint {
		carries = "a new endpoint or key"
	}
	want, err := d.delegate(side).Access(access)
	if err != nil {
		return Refuse(side, CodeUnexpected, object.Title(), FailedApply, err.Error(), "")
	}
	s := Ensure(side, "delegate-access", named(d.known(side).Secrets, want), want)
	s.Reason = fmt.Sprintf("%s's operator will carry %s to %s, at %s", d.facts.Side(side).ID, carries, d.facts.Side(other).ID, access.Server)
	return s
}

// given is the access to the other side that this side's operator has already;
// the zero value if it has none.
func (d delegation) given(side Side) render.PeerAccess {
	secret := &corev1.Secret{}
	secret.SetNamespace(d.peers[side].Tenant.Namespace)
	secret.SetName(render.DelegateAccessName(d.gateway(side).GetName()))
	if secret = named(d.known(side).Secrets, secret); secret == nil {
		return render.PeerAccess{}
	}
	access, err := render.ParsePeerAccess(secret)
	if err != nil {
		return render.PeerAccess{} // it is replaced
	}
	return access
}

// follows reports whether the other side's client dials what this side's server
// says, or what it said when that was last carried: it may have changed since.
// If an admin has told the client to dial something else, an address translation
// in between perhaps, then that stays.
func (d delegation) follows(side Side) bool {
	server, client := d.peers[side].Server, d.peers[side.Other()].Client
	if server == nil || client == nil {
		return false
	}
	dials := render.EndpointText(client.Spec.Endpoint)
	if e := server.Status.Endpoint; e != nil && render.EndpointText(*e) == dials {
		return true
	}
	given := d.given(side)
	return given.Endpoint && (dials == given.Dials || dials == client.Annotations[render.AnnotationCarried])
}

// named finds the object of want's name, as a nil interface if there is none.
func named[T any, O interface {
	*T
	render.Object
}](all []T, want render.Object) O {
	for i := range all {
		if o := O(&all[i]); o.GetNamespace() == want.GetNamespace() && o.GetName() == want.GetName() {
			return o
		}
	}
	return nil
}
