package flows

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/render"
)

// PlanConnect is what it takes to connect the two clusters, and how far it is.
// Nothing waits for the other cluster unless it uses a value from it.
func PlanConnect(p Params, f Facts) Plan {
	if steps := preflight(f); len(steps) > 0 {
		return Plan{Steps: steps, A: f.Local.name(), B: f.Remote.name()}
	}
	c := newConnection(p, f)
	if s := c.reversed(); s != nil {
		return Plan{Steps: []Step{*s}, A: f.Local.ID, B: f.Remote.ID}
	}
	server, client := p.Server, p.Server.Other()
	steps := []Step{
		c.namespace(A), c.namespace(B),
		c.configuration(A), c.configuration(B),
		c.gatewayServer(server), c.endpoint(server), c.gatewayClient(client),
		c.publicKey(server), c.publicKey(client),
		c.remapped(A), c.remapped(B),
		c.connected(server), c.connected(client),
	}
	return Plan{Steps: steps, A: f.Local.ID, B: f.Remote.ID}
}

// connection is one pair of clusters while a plan is made for it.
type connection struct {
	params Params
	facts  Facts
	peers  [2]Peer // what each side has for the other
}

func newConnection(p Params, f Facts) connection {
	return connection{params: p, facts: f, peers: [2]Peer{A: f.Local.Peer(f.Remote.ID), B: f.Remote.Peer(f.Local.ID)}}
}

// reversed refuses to add a second tunnel the other way round.
func (c connection) reversed() *Step {
	server, client := c.params.Server, c.params.Server.Other()
	var there render.Object
	side := server
	switch {
	case c.peers[server].Client != nil:
		there = c.peers[server].Client
	case c.peers[client].Server != nil:
		there, side = c.peers[client].Server, client
	default:
		return nil
	}
	s := failure(side, "no connection the other way round", FailedConflict,
		fmt.Sprintf("%s already has %s: the clusters are connected with %s as server", c.facts.Side(side).ID,
			render.Name(there), c.facts.Side(client).ID),
		"use the other --server-location, or run liqo-tui network reset first")
	return &s
}

func (c connection) namespace(side Side) Step {
	peer := c.peers[side]
	title := "Namespace " + peer.Tenant.Namespace
	ns := peer.Namespace
	if ns != nil && ns.DeletionTimestamp == nil && ns.Labels[render.LabelRemoteCluster] == string(peer.Tenant.Remote) {
		// Whoever made it: the label is what counts.
		return Step{ID: stepID(side, "namespace"), Side: side, Action: Update, Title: title, Status: Done}
	}
	return ensure(side, "namespace", title, ns, render.TenantNamespace(peer.Tenant))
}

// behindNamespace holds a step back until its namespace exists. What it will
// apply is known, and shown, all the same. What is done in a namespace that is
// being deleted will be to do again.
func (c connection) behindNamespace(side Side, s Step) Step {
	if (s.Status == Ready || s.Status == Done) && c.namespace(side).Status != Done {
		s.Status, s.Reason, s.Objects = Blocked, "needs the namespace", nil
	}
	return s
}

func (c connection) configuration(side Side) Step {
	peer, other := c.peers[side], c.facts.Side(side.Other())
	want := render.Configuration(peer.Tenant, other.Networks)
	keepName(want, peer.Configuration)
	return c.behindNamespace(side, ensure(side, "configuration", "Configuration "+string(peer.Tenant.Remote), peer.Configuration, want))
}

// keepName adopts an object that another tool made under another name.
func keepName[T any, O interface {
	*T
	render.Object
}](want O, live *T) {
	if live != nil {
		want.SetName(O(live).GetName())
	}
}

// remapped waits until the side has decided how it sees the other's addresses.
func (c connection) remapped(side Side) Step {
	s := Step{ID: stepID(side, "cidrs"), Side: side, Action: Wait, Title: "addresses of " + string(c.facts.Side(side.Other()).ID), Status: Waiting}
	conf := c.peers[side].Configuration
	switch {
	case conf == nil:
		s.Status, s.Reason = Blocked, "needs the Configuration"
	case !CIDRsConfigured(conf):
		s.Reason = "the operator has not assigned CIDRs yet"
	default:
		s.Status = Done
		s.Reason = fmt.Sprintf("sees pods %s as %s", joinCIDRs(conf.Spec.Remote.CIDR.Pod), joinCIDRs(conf.Status.Remote.CIDR.Pod))
	}
	return s
}

// CIDRsConfigured reports whether every CIDR of the peer has its remapped one.
// The condition is newer than some releases of Liqo: it counts if it is there.
func CIDRsConfigured(c *networkingv1beta1.Configuration) bool {
	for _, cond := range c.Status.Conditions {
		if cond.Type == networkingv1beta1.ConfigurationConditionNetworkCIDRsConfigured &&
			(cond.Status != "True" || cond.ObservedGeneration != c.Generation) {
			return false
		}
	}
	if c.Status.Remote == nil {
		return false
	}
	want, have := c.Spec.Remote.CIDR, c.Status.Remote.CIDR
	return len(want.Pod) == len(have.Pod) && len(want.External) == len(have.External) &&
		!slices.Contains(have.Pod, "") && !slices.Contains(have.External, "")
}

func joinCIDRs(cidrs []networkingv1beta1.CIDR) string {
	text := make([]string, len(cidrs))
	for i, c := range cidrs {
		text[i] = string(c)
	}
	return strings.Join(text, ", ")
}

func (c connection) gatewayServer(side Side) Step {
	peer := c.peers[side]
	want := render.GatewayServer(render.ServerParams{
		Tenant: peer.Tenant, Template: c.template(side, c.params.ServerTemplate), ServiceType: c.params.ServiceType,
		Port: c.params.Port, NodePort: c.params.NodePort, LoadBalancerIP: c.params.LoadBalancerIP, MTU: c.params.MTU,
	})
	keepName(want, peer.Server)
	return c.behindNamespace(side, ensure(side, "gateway-server", "GatewayServer "+string(peer.Tenant.Remote), peer.Server, want))
}

func (c connection) template(side Side, t render.TemplateRef) render.TemplateRef {
	t.Namespace = cmp.Or(t.Namespace, c.facts.Side(side).Namespace)
	return t
}

// dial is where the client finds the server; reason says why that is unknown.
func (c connection) dial(server Side) (addresses []string, port uint16, reason string) {
	if s := c.peers[server].Server; s != nil && s.Status.Endpoint != nil && !c.outdated(s.Status.Endpoint) {
		addresses = slices.DeleteFunc(slices.Clone(s.Status.Endpoint.Addresses), func(a string) bool { return a == "" })
		port = uint16(s.Status.Endpoint.Port)
	}
	if c.params.ClientAddress != "" {
		addresses = []string{c.params.ClientAddress}
	}
	switch {
	case c.params.ClientPort != 0:
		port = c.params.ClientPort
	case port == 0:
		port = c.params.NodePort
	}
	switch {
	case len(addresses) == 0 && c.params.ServiceType == corev1.ServiceTypeLoadBalancer:
		reason = "the load balancer has given no address to Service gw-" + string(c.peers[server].Tenant.Remote) + " yet"
	case len(addresses) == 0:
		reason = "the gateway server has no address yet"
	case port == 0:
		reason = "the gateway server has no port yet"
	}
	return addresses, port, reason
}

// outdated reports whether an endpoint is from before the server's port was
// changed: a GatewayServer's status doesn't say which spec it is about.
func (c connection) outdated(e *networkingv1beta1.EndpointStatus) bool {
	want := c.params.Port
	if c.params.ServiceType == corev1.ServiceTypeNodePort {
		want = c.params.NodePort
	}
	return want != 0 && e.Port != int32(want)
}

func (c connection) endpoint(server Side) Step {
	s := Step{ID: stepID(server, "endpoint"), Side: server, Action: Wait, Title: "endpoint of the gateway server", Status: Waiting}
	addresses, port, reason := c.dial(server)
	switch {
	case reason == "":
		s.Status, s.Reason = Done, fmt.Sprintf("UDP %s port %d", strings.Join(addresses, ", "), port)
	case c.peers[server].Server == nil:
		s.Status, s.Reason = Blocked, "needs the GatewayServer"
	default:
		s.Reason = reason
	}
	return s
}

func (c connection) gatewayClient(side Side) Step {
	title := "GatewayClient " + string(c.peers[side].Tenant.Remote)
	addresses, port, reason := c.dial(side.Other())
	if reason != "" {
		return blocked(side, Create, "gateway-client", title, "needs the server's endpoint")
	}
	peer := c.peers[side]
	want := render.GatewayClient(render.ClientParams{
		Tenant: peer.Tenant, Template: c.template(side, c.params.ClientTemplate),
		Addresses: addresses, Port: port, MTU: c.params.MTU,
	})
	keepName(want, peer.Client)
	return c.behindNamespace(side, ensure(side, "gateway-client", title, peer.Client, want))
}

// publicKey tells a side the key of the other's gateway.
func (c connection) publicKey(side Side) Step {
	peer, other := c.peers[side], c.peers[side.Other()]
	title := "PublicKey " + string(peer.Tenant.Remote)
	owner := c.gateway(side)
	switch {
	case !exists(owner):
		return blocked(side, Create, "public-key", title, "needs the gateway")
	case !exists(c.gateway(side.Other())):
		return blocked(side, Create, "public-key", title, fmt.Sprintf("needs %s's gateway", c.facts.Side(side.Other()).ID))
	case other.Key == nil:
		return Step{
			ID: stepID(side, "public-key"), Side: side, Action: Create, Title: title, Status: Waiting,
			Reason: fmt.Sprintf("%s's gateway has not made its key known yet", c.facts.Side(side.Other()).ID),
		}
	}
	want := render.PublicKey(peer.Tenant, *other.Key, owner)
	keepName(want, peer.PublicKey)
	return ensure(side, "public-key", title, peer.PublicKey, want)
}

// gateway is the side's own end of the tunnel, with its kind set.
func (c connection) gateway(side Side) render.Object {
	peer := c.peers[side]
	if side == c.params.Server {
		if peer.Server == nil {
			return nil
		}
		o := peer.Server.DeepCopy()
		o.SetGroupVersionKind(networkingv1beta1.GroupVersion.WithKind(networkingv1beta1.GatewayServerKind))
		return o
	}
	if peer.Client == nil {
		return nil
	}
	o := peer.Client.DeepCopy()
	o.SetGroupVersionKind(networkingv1beta1.GroupVersion.WithKind(networkingv1beta1.GatewayClientKind))
	return o
}

// connected waits for the side's own claim that it reaches the other gateway.
func (c connection) connected(side Side) Step {
	peer := c.peers[side]
	s := Step{ID: stepID(side, "connected"), Side: side, Action: Wait, Title: "Connection", Status: Waiting}
	owner := c.gateway(side)
	switch conn := peer.Connection; {
	case !exists(owner):
		s.Status, s.Reason = Blocked, "needs the gateway"
	case conn == nil:
		s.Reason = cmp.Or(podWait(peer.Pod), "the gateway has reported nothing yet")
	case conn.Spec.GatewayRef.UID != "" && conn.Spec.GatewayRef.UID != owner.GetUID():
		s.Reason = "the Connection is an earlier gateway's; waiting for this one's"
	case conn.Status.Value == networkingv1beta1.Connected:
		s.Status, s.Reason = connectedState(conn, c.facts)
	default:
		s.Reason = connectingReason(conn, peer.Pod)
	}
	return s
}

func connectedState(conn *networkingv1beta1.Connection, f Facts) (Status, string) {
	report, ok, err := render.ParseReport(conn.Annotations)
	switch {
	case err != nil:
		return Waiting, err.Error()
	case ok && report.Stale(f.At):
		return Waiting, fmt.Sprintf("it says Connected, but that was %s ago", f.At.Sub(report.At).Round(1e9))
	}
	if latency := conn.Status.Latency.Value; latency != "" && latency != render.FormatLatency(0) {
		return Done, "Connected, latency " + latency
	}
	return Done, "Connected"
}

func connectingReason(conn *networkingv1beta1.Connection, pod *PodFacts) string {
	if wait := podWait(pod); wait != "" {
		return wait
	}
	if report, ok, err := render.ParseReport(conn.Annotations); ok && err == nil && report.Message != "" {
		if report.Reason == render.ReasonPinged {
			return "pings are answered, the state follows" // the gateway writes its reason first
		}
		return report.Message
	}
	return "its state is " + cmp.Or(string(conn.Status.Value), "not set yet")
}

func podWait(pod *PodFacts) string {
	if pod == nil || pod.Waiting == "" {
		return ""
	}
	return "pod " + pod.Name + ": " + pod.Waiting
}
