package upkeep

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// DelegateParams are the admin's choices for a delegation.
type DelegateParams struct {
	// APIServer is the URL at which the other cluster's operator reaches this side's API server; ""
	// means the URL of the admin's kubeconfig.
	APIServer  [2]string
	Namespaces [2]string // tenant namespaces of the connection; "" means the connection's present namespace
	// Wait makes the plan end when each operator has reached the other cluster.
	Wait bool
}

// Delegate lets each operator write a changed endpoint or key to the other cluster. Each operator gets an
// identity there, which may get and patch one gateway and one public key. All objects of an identity
// belong to that gateway, and are deleted with it.
func Delegate(p DelegateParams, f flows.Facts) flows.Plan {
	plan := flows.Plan{A: f.Sides[flows.A].Name(), B: f.Sides[flows.B].Name()}
	if steps := flows.Obstacles(f); len(steps) > 0 {
		plan.Steps = steps
		return plan
	}
	d := delegation{params: p, Connection: flows.NewConnection(flows.Params{Namespaces: p.Namespaces}, f)}
	if d.Ends[flows.A].Server != nil {
		d.Params.Server = flows.A
	} else {
		d.Params.Server = flows.B
	}
	for _, side := range []flows.Side{flows.A, flows.B} {
		if s := d.obstacle(side); s != nil {
			plan.Steps = append(plan.Steps, *s)
		}
	}
	if len(plan.Steps) > 0 {
		return plan
	}
	plan.Steps = slices.Concat(d.identity(flows.A), d.identity(flows.B), []flows.Step{d.token(flows.A), d.token(flows.B), d.access(flows.A), d.access(flows.B)})
	if p.Wait {
		plan.Steps = append(plan.Steps, d.reaches(flows.A), d.reaches(flows.B))
	}
	return plan
}

type delegation struct {
	flows.Connection

	params DelegateParams
}

// obstacle returns the reason that one side can't delegate, as a failed step; nil if there is none.
func (d delegation) obstacle(side flows.Side) *flows.Step {
	c, end := d.Facts.Sides[side], d.Ends[side]
	var s flows.Step
	switch host := hostOf(d.server(side)); {
	case !c.Can().Delegate:
		s = flows.Refuse(side, flows.CodeSoftware, "operator", flows.FailedPreflight,
			fmt.Sprintf("%s is connected by %s, which can't pass changes to other clusters", c.ID, c.Software),
			command.Text("both clusters need the liqo-tui operator for this"))
	case !flows.Exists(d.Gateway(side)) || end.PublicKey == nil:
		s = flows.Refuse(side, flows.CodeKey, "connection", flows.FailedPreflight,
			fmt.Sprintf("%s has no gateway with a public key for %s", c.ID, end.Tenant.Remote), command.Hintf("run %s first", d.Facts.Ours("network", "connect")))
	case host == "":
		s = flows.Refuse(side, flows.CodeUsage, "API server's URL", flows.FailedPreflight,
			fmt.Sprintf("%s's API server %q is not an https:// URL", c.ID, d.server(side)), command.Text("give its URL with "+apiServerFlag(side)))
	case isLoopback(host):
		s = flows.Refuse(side, flows.CodeUsage, "API server's URL", flows.FailedPreflight,
			fmt.Sprintf("%s's API server is %s in this kubeconfig, which another machine can't reach", c.ID, d.server(side)),
			command.Text("give a URL that the other cluster can reach: "+apiServerFlag(side)))
	default:
		return nil
	}
	return &s
}

func apiServerFlag(side flows.Side) string {
	return map[flows.Side]string{flows.A: "--api-server", flows.B: "--remote-api-server"}[side]
}

// server returns the URL at which the other side's operator will reach this side.
func (d delegation) server(side flows.Side) string {
	if d.params.APIServer[side] != "" {
		return d.params.APIServer[side]
	}
	return d.Facts.Sides[side].Server
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

func (d delegation) delegate(side flows.Side) render.Delegate {
	return render.Delegate{Tenant: d.Ends[side].Tenant, Gateway: d.Gateway(side), PublicKey: d.Ends[side].PublicKey.Name}
}

// identity returns the steps that create the other operator's identity on this side.
func (d delegation) identity(side flows.Side) []flows.Step {
	var steps []flows.Step
	facts := d.known(side)
	for _, want := range d.delegate(side).Identity() {
		var s flows.Step
		switch o := want.(type) {
		case *corev1.ServiceAccount:
			s = flows.Ensure(side, "delegate-account", wire.Named(facts.Accounts, want), want)
		case *rbacv1.Role:
			s = flows.Ensure(side, "delegate-role", wire.Named(facts.Roles, want), want)
		case *rbacv1.RoleBinding:
			s = flows.Ensure(side, "delegate-binding", wire.Named(facts.Bindings, want), want)
		case *corev1.Secret:
			s = d.tokenSecret(side, o)
		}
		steps = append(steps, s)
	}
	return steps
}

// tokenSecret creates the Secret for a token, after the account: Kubernetes deletes a token without an
// account.
func (d delegation) tokenSecret(side flows.Side, want *corev1.Secret) flows.Step {
	account := &corev1.ServiceAccount{}
	account.SetNamespace(want.Namespace)
	account.SetName(want.Annotations[corev1.ServiceAccountNameKey])
	s := flows.Ensure(side, "delegate-token-secret", wire.Named(d.known(side).Secrets, want), want)
	if d.exchanged(side) {
		return flows.Step{ID: s.ID, Side: side, Action: s.Action, Title: s.Title, Object: s.Object, Status: flows.Done}
	}
	if s.Status == flows.Ready && !flows.Exists(wire.Named(d.known(side).Accounts, account)) {
		s.Status, s.Reason, s.Objects = flows.Blocked, "needs the ServiceAccount", nil
	}
	return s
}

func (d delegation) known(side flows.Side) flows.DelegationFacts {
	if facts := d.Facts.Sides[side].Delegation; facts != nil {
		return *facts
	}
	return flows.DelegationFacts{}
}

// token waits until Kubernetes has created the identity's token.
func (d delegation) token(side flows.Side) flows.Step {
	s := flows.Step{ID: flows.IDOf(side, "delegate-token"), Side: side, Action: flows.Wait, Title: "token of the delegate", Status: flows.Waiting, Code: flows.CodeTimeout}
	switch secret := d.madeToken(side); {
	case d.exchanged(side):
		s.Status = flows.Done
	case secret == nil:
		s.Status, s.Reason = flows.Blocked, "needs the Secret"
	case len(secret.Data[corev1.ServiceAccountTokenKey]) == 0:
		s.Reason = "waiting for Kubernetes to create the token"
	default:
		s.Status = flows.Done
	}
	return s
}

func (d delegation) madeToken(side flows.Side) *corev1.Secret {
	want := &corev1.Secret{}
	want.SetNamespace(d.Ends[side].Tenant.Namespace)
	want.SetName(render.DelegateTokenName(d.Gateway(side).GetName()))
	return wire.Named(d.known(side).Secrets, want)
}

// access gives this side's operator the identity that it has on the other side.
func (d delegation) access(side flows.Side) flows.Step {
	other := side.Other()
	name := render.DelegateAccessName(d.Gateway(side).GetName())
	object := flows.ObjectRef{Kind: "Secret", Namespace: d.Ends[side].Tenant.Namespace, Name: name}
	if d.token(other).Status != flows.Done {
		return flows.BlockedStep(side, flows.Create, "delegate-access", object, fmt.Sprintf("needs the token from %s", d.Facts.Sides[other].ID))
	}
	given, ca := d.given(side), d.known(other).CA
	token, expires := given.Token, given.Expires
	if !d.exchanged(other) {
		made := d.madeToken(other)
		token, expires = made.Data[corev1.ServiceAccountTokenKey], time.Time{}
		given.CA = made.Data[corev1.ServiceAccountRootCAKey]
	}
	// The kubeconfig's certificates are only for the kubeconfig's server, which may be a proxy.
	if len(ca) == 0 || d.server(other) != d.Facts.Sides[other].Server && len(given.CA) > 0 {
		ca = given.CA
	}
	access := render.PeerAccess{
		Server: d.server(other), CA: ca, Token: token, Expires: expires,
		Namespace: d.Ends[other].Tenant.Namespace, PublicKey: d.Ends[other].PublicKey.Name,
		Gateway: d.Gateway(other).GetName(), Endpoint: d.follows(side),
	}
	if access.Endpoint {
		access.Dials = cmp.Or(given.Dials, render.EndpointText(d.Ends[other].Client.Spec.Endpoint))
	}
	carries := "a new key"
	if access.Endpoint {
		carries = "a new endpoint or key"
	}
	want, err := d.delegate(side).Access(access)
	if err != nil {
		return flows.Refuse(side, flows.CodeUnexpected, object.Title(), flows.FailedApply, err.Error())
	}
	s := flows.Ensure(side, "delegate-access", wire.Named(d.known(side).Secrets, want), want)
	s.Reason = fmt.Sprintf("%s's operator will carry %s to %s, at %s; it replaces its token by one for %.0f hours, and renews that",
		d.Facts.Sides[side].ID, carries, d.Facts.Sides[other].ID, access.Server, render.DelegateTokenLife.Hours())
	return s
}

// reaches waits until this side's operator has used its identity on the other side, and has reported this
// on the gateway. Only the operator can find out whether the URL leads there from its cluster.
func (d delegation) reaches(side flows.Side) flows.Step {
	other := side.Other()
	s := flows.Step{ID: flows.IDOf(side, "delegate-reaches"), Side: side, Action: flows.Wait, Title: fmt.Sprintf("operator reaches %s", d.Facts.Sides[other].ID), Status: flows.Waiting, Code: flows.CodeTimeout}
	said := d.Gateway(side).GetAnnotations()[render.AnnotationDelegation]
	switch {
	case d.access(side).Status != flows.Done:
		s.Status, s.Reason, s.Code = flows.Blocked, "needs the access", ""
	case !strings.Contains(said, d.server(other)):
		s.Reason = "the operator has not used it yet"
	case render.Carried(said):
		s.Status, s.Reason, s.Code = flows.Done, said, ""
		return s
	default:
		s.Reason = "the operator " + said
	}
	s.Fix = []command.Hint{command.Text("give a URL that it can reach: " + apiServerFlag(other))}
	return s
}

// exchanged reports whether the other side's operator has a token of this cluster that will expire, but
// is valid now. Then that operator has deleted the token that does not expire.
func (d delegation) exchanged(side flows.Side) bool {
	given := d.given(side.Other())
	return given.Expires.After(d.Facts.At)
}

// given returns the access to the other side that this side's operator has now; zero if it has none.
func (d delegation) given(side flows.Side) render.PeerAccess {
	secret := &corev1.Secret{}
	secret.SetNamespace(d.Ends[side].Tenant.Namespace)
	secret.SetName(render.DelegateAccessName(d.Gateway(side).GetName()))
	if secret = wire.Named(d.known(side).Secrets, secret); secret == nil {
		return render.PeerAccess{}
	}
	access, err := render.ParsePeerAccess(secret)
	if err != nil {
		return render.PeerAccess{} // this access will be replaced
	}
	return access
}

// follows reports whether the other side's client dials this side's server at its present endpoint, or at
// the endpoint that was last sent to the client, because the server may have changed since. It is false
// if an admin has set another address for the client, for instance because of an address translation
// between the clusters. This address stays.
func (d delegation) follows(side flows.Side) bool {
	server, client := d.Ends[side].Server, d.Ends[side.Other()].Client
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
