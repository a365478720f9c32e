package flows

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/services"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// PlanConnect returns the plan to connect the two clusters. A step waits for the other cluster only if it
// needs a value from there. If a connection exists, it keeps its values of the settings that p does not
// give, see [Adopt].
func PlanConnect(p Params, f Facts) Plan {
	if whole := p.Lending; whole != nil {
		p.Lending, p.ForLending = nil, true
		plan := whole.Whole(func(f Facts) Plan { return PlanConnect(p, f) }, p.Namespaces, f)
		plan.Params.Lending = whole
		return plan
	}
	install, expected, asks := installation(p, f)
	plan := planConnect(p, expected)
	plan.Asks = asks
	if plan.Failure() != nil {
		return plan
	}
	if slices.ContainsFunc(install, func(s Step) bool { return s.Status != Done }) {
		plan.Steps = behindInstallation(plan.Steps)
	}
	plan.Steps = append(install, plan.Steps...)
	return plan
}

// planConnect returns the plan without the steps that install the operator.
func planConnect(p Params, f Facts) Plan {
	plan, c := newPlan(p, f)
	if len(plan.Steps) > 0 {
		return plan
	}
	server, client := c.Params.Server, c.Params.Server.Other()
	for _, refused := range []*Step{
		c.refusedTemplate(server, networkingv1beta1.WgGatewayServerTemplateKind, c.Params.ServerTemplate),
		c.refusedTemplate(client, networkingv1beta1.WgGatewayClientTemplateKind, c.Params.ClientTemplate),
		RefusedNodePort(c.Params, f),
	} {
		if refused != nil {
			plan.Steps = append(plan.Steps, *refused)
		}
	}
	if len(plan.Steps) > 0 {
		return plan
	}
	plan.Steps = []Step{
		c.TenantNamespace(A), c.TenantNamespace(B),
		c.Configuration(A), c.Configuration(B),
		c.GatewayServer(server), c.Endpoint(server), c.GatewayClient(client),
		c.PublicKey(server), c.PublicKey(client),
	}
	if p.Wait != WaitNone {
		plan.Steps = append(plan.Steps, c.Remapped(A), c.Remapped(B), c.Connected(server), c.Connected(client))
		for _, side := range []Side{A, B} {
			if p.Install[side] != nil {
				plan.Steps = append(plan.Steps, c.agents(side))
			}
		}
	}
	if p.Wait == WaitVerified {
		plan.Steps = append(plan.Steps, c.verified())
	}
	plan.Steps = c.ExplainWaits(plan.Steps)
	return plan
}

// PlanInit returns the part of [PlanConnect] without gateways. Each cluster gets the address ranges of the
// other cluster, and its operator assigns the remapped ranges.
func PlanInit(p Params, f Facts) Plan {
	plan, c := newPlan(p, f)
	if len(plan.Steps) > 0 {
		return plan
	}
	plan.Steps = []Step{c.TenantNamespace(A), c.TenantNamespace(B), c.Configuration(A), c.Configuration(B)}
	if p.Wait != WaitNone {
		plan.Steps = append(plan.Steps, c.Remapped(A), c.Remapped(B))
	}
	plan.Steps = c.ExplainWaits(plan.Steps)
	return plan
}

// newPlan returns a plan without steps. If the clusters can't be connected, the plan has failed steps that
// say why.
func newPlan(p Params, f Facts) (Plan, Connection) {
	plan := Plan{A: f.Sides[A].Name(), B: f.Sides[B].Name(), Params: p}
	if plan.Steps = obstacles(f); len(plan.Steps) > 0 {
		return plan, Connection{}
	}
	plan, c := completePlan(plan, f)
	c.both = !slices.ContainsFunc(f.Sides[:], func(c ClusterFacts) bool { return c.Described || c.AsPeer })
	return plan, c
}

// NewHalf is newPlan for plans that change only cluster A. The facts about B come from B's admin, and there
// may be only a few of them.
func NewHalf(p Params, f Facts) (Plan, Connection) {
	plan := Plan{A: f.Sides[A].Name(), B: f.Sides[B].ID, Params: p}
	if plan.Steps = NoAnswer(f, A); len(plan.Steps) > 0 {
		return plan, Connection{}
	}
	if s := FirstObstacle(A, f.Sides[A]); s != nil {
		plan.Steps = []Step{*s}
		return plan, Connection{}
	}
	var s Step
	same, _ := SameCluster(f.Sides[A], f.Sides[B])
	switch err := f.Sides[B].ID.Validate(); {
	case err != nil:
		s = Refuse(B, CodeClusterID, "cluster ID", FailedPreflight, err.Error(), command.Hintf("its admin finds it with: %s", command.Ours("info", "--get", "clusterid").Flag("--context", "CONTEXT")))
	case same:
		s = Refuse(B, CodeDifferent, "choice of clusters", FailedPreflight,
			fmt.Sprintf("%s is this cluster itself", f.Sides[B].ID), command.Text("choose the other cluster's context"))
	case f.Sides[B].ID == f.Sides[A].ID:
		s = Refuse(B, CodeClusterID, "cluster IDs", FailedPreflight,
			fmt.Sprintf("both clusters call themselves %q", f.Sides[A].ID), command.Text("install one of them with another --cluster-id"))
	default:
		return completePlan(plan, f)
	}
	plan.Steps = []Step{s}
	return plan, Connection{}
}

// completePlan adds the settings of existing gateways to the plan. The caller has found no obstacle to a
// plan of the two clusters. completePlan adds failed steps if the settings or the connection don't fit.
func completePlan(plan Plan, f Facts) (Plan, Connection) {
	p := plan.Params
	if strangers := Strangers(f); p.ReplacePeer {
		plan.Replaces = replaces(strangers)
	} else if plan.Steps = strangers; len(strangers) > 0 {
		return plan, Connection{}
	}
	adopted, _ := Adopt(p, f)
	adopted.OtherWay = adopted.OtherWay || dialledInVain(f, adopted.Server.Other())
	plan.Params, plan.Kept = adopted, kept(p, adopted, f)
	for _, err := range adopted.fits() {
		plan.Steps = append(plan.Steps, Refuse(A, CodeUsage, "settings", FailedUsage, err.Error(), command.Text("omit this setting, or choose the service type that it belongs to")))
	}
	if s := adopted.overIPv6(f); s != nil {
		plan.Steps = append(plan.Steps, *s)
	}
	c := NewConnection(adopted, f)
	plan.Kept = append(plan.Kept, c.others()...)
	for _, side := range []Side{A, B} {
		for _, s := range []*Step{c.Elsewhere(side), f.Sides[side].OldKernels(side), f.Sides[side].SharedGateways(side), c.refusedRelay(side), c.refusedAllow(side)} {
			if s != nil {
				plan.Steps = append(plan.Steps, *s)
			}
		}
	}
	return plan, c
}

// Connection has the parameters and the facts for the plan of one connection.
type Connection struct {
	Params Params
	Facts  Facts
	Ends   [2]End // the objects of the connection on each side

	// both is set if one admin has access to both clusters.
	both bool
	// Nonce is the nonce of the invitation, for a GatewayServer without a nonce; "" if the plan is not
	// for an invitation.
	Nonce string
}

// NewConnection returns the connection for the parameters p and the facts f.
func NewConnection(p Params, f Facts) Connection {
	c := Connection{Params: p, Facts: f}
	for _, side := range []Side{A, B} {
		c.Ends[side] = f.Sides[side].endIn(p.Namespaces[side], f.Sides[side.Other()].ID)
	}
	return c
}

// object names the object of a step. If the object exists, this is its own name, otherwise the name of the object
// to create.
func (c Connection) object(side Side, kind string, live wire.Object) ObjectRef {
	tenant := c.Ends[side].Tenant
	ref := ObjectRef{Kind: kind, Namespace: tenant.Namespace, Name: tenant.ObjectName()}
	if Exists(live) {
		ref.Name, ref.Namespace = live.GetName(), live.GetNamespace()
	}
	return ref
}

// Elsewhere refuses a namespace if the connection is in another namespace, or if the namespace belongs to
// another connection. It returns nil if the plan can use the namespace.
func (c Connection) Elsewhere(side Side) *Step {
	want, end, facts := c.Params.Namespaces[side], c.Ends[side], c.Facts.Sides[side]
	refuse := func(reason string, fix command.Hint) *Step {
		return new(Refuse(side, CodeNamespace, "tenant namespace", FailedConflict, reason, fix))
	}
	begun := end.Configuration != nil || end.Server != nil || end.Client != nil
	if want != "" && want != end.Tenant.Namespace {
		return refuse(fmt.Sprintf("%s has its connection with %s in namespace %s, not in %s", facts.ID, end.Tenant.Remote, end.Tenant.Namespace, want),
			command.Hintf("leave the namespace out, or run %s first", c.Facts.Ours("network", "reset")))
	}
	if other := facts.peeringIn(end.Tenant.Namespace, end.Tenant.Remote); other != "" && !begun {
		return refuse(fmt.Sprintf("%s has its connection with %s in namespace %s", facts.ID, other, end.Tenant.Namespace),
			command.Text("choose another namespace for the connection with "+string(end.Tenant.Remote)))
	}
	return nil
}

// TenantNamespace creates the connection's namespace. It does not change a namespace that somebody else has
// made.
func (c Connection) TenantNamespace(side Side) Step {
	end := c.Ends[side]
	ns, want := end.Namespace, render.TenantNamespace(end.Tenant)
	labelled := ns != nil && ns.Labels[wire.LabelRemoteCluster] == string(end.Tenant.Remote)
	if ns == nil || ns.DeletionTimestamp != nil || render.CreatedByUs(ns) && !labelled {
		return Ensure(side, "namespace", ns, want)
	}
	object := RefTo(want)
	s := Step{ID: IDOf(side, "namespace"), Side: side, Action: Update, Object: object, Title: object.Title(), Status: Done}
	if labelled {
		s.Want = []wire.Object{want} // so that manifests contain it: GitOps deletes objects that disappear from manifests
		return s
	}
	s.Reason = "used as it is: liqo-tui did not create it"
	if refused := render.RefusesPods(ns); refused != "" && end.Server == nil && end.Client == nil {
		return Refuse(side, CodeNamespace, "tenant namespace", FailedConflict, refused,
			command.Text("leave --namespace out, and liqo-tui makes one"), command.Hintf("or allow it: %s", c.Facts.Sides[side].Privilege(ns.Name)))
	}
	return s
}

// BehindNamespace blocks a step until its namespace exists. The plan still shows the object that the step will
// apply. A step that is done is blocked, too: if its namespace is being deleted, the object has to be created
// again.
func (c Connection) BehindNamespace(side Side, s Step) Step {
	if (s.Status == Ready || s.Status == Done) && c.TenantNamespace(side).Status != Done {
		s.Status, s.Reason, s.Objects = Blocked, "needs the namespace", nil
	}
	return s
}

// Configuration gives a side the address ranges of the other cluster.
func (c Connection) Configuration(side Side) Step {
	end, other := c.Ends[side], c.Facts.Sides[side.Other()]
	want := render.Configuration(end.Tenant, other.Networks)
	KeepName(want, end.Configuration)
	// Without these annotations, the operator would end a running renumbering.
	keepAnnotation(want, end.Configuration, wire.AnnotationRenumber)
	keepAnnotation(want, end.Configuration, wire.AnnotationKeep)
	keepAnnotation(want, end.Configuration, wire.AnnotationImport)
	if end.Configuration == nil && c.both && c.Facts.Sides[side].Can().ImportServices {
		// Whoever manages both clusters means the same by a namespace in both. A peer of another admin could join
		// any Service of this cluster, so there `service allow` decides.
		metav1.SetMetaDataAnnotation(&want.ObjectMeta, wire.AnnotationImport, wire.ImportAll)
	}
	if end.Configuration == nil && c.Params.ForLending || forPeering(end.Configuration) {
		metav1.SetMetaDataAnnotation(&want.ObjectMeta, wire.AnnotationForPeering, "true")
	}
	interrupts := c.identify(side, want)
	s := Ensure(side, "configuration", end.Configuration, want)
	s.Interrupts = interrupts
	return c.BehindNamespace(side, s)
}

// Allowing changes the namespaces into which a side imports Services of its peer. It changes nothing else of
// the peer's Configuration, which has to exist.
func Allowing(c ClusterFacts, peer wire.ClusterID, namespaces services.Namespaces) Step {
	end := c.End(peer)
	ranges := end.Configuration.Spec.Remote.CIDR
	want := render.Configuration(end.Tenant, render.Networks{Pod: ranges.Pod, External: ranges.External})
	KeepName(want, end.Configuration)
	want.Annotations = wire.Lasting(end.Configuration)
	keepAnnotation(want, end.Configuration, wire.AnnotationRenumber)
	keepAnnotation(want, end.Configuration, wire.AnnotationKeep)
	if delete(want.Annotations, wire.AnnotationImport); namespaces.String() != "" {
		metav1.SetMetaDataAnnotation(&want.ObjectMeta, wire.AnnotationImport, namespaces.String())
	}
	return Ensure(A, "configuration", end.Configuration, want)
}

// KeepName gives the object want the name and the namespace of the live object, because another tool may have
// chosen them. A Configuration can even be in another namespace than the gateway.
func KeepName[T any, O interface {
	*T
	wire.Object
}](want O, live *T) {
	if live != nil {
		want.SetName(O(live).GetName())
		want.SetNamespace(O(live).GetNamespace())
	}
}

// keepRequests keeps the annotations that a key rotation has set on a gateway. Without them, the operator would
// forget the next key. The peer may already know this key.
func keepRequests(want, live wire.Object) {
	keepAnnotation(want, live, wire.AnnotationRotateKey)
	keepAnnotation(want, live, wire.AnnotationUseKey)
}

func keepAnnotation(want, live wire.Object, name string) {
	if !Exists(live) || live.GetAnnotations()[name] == "" {
		return
	}
	annotations := want.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[name] = live.GetAnnotations()[name]
	want.SetAnnotations(annotations)
}

// Remapped waits until the side has assigned local addresses to the other side's ranges.
func (c Connection) Remapped(side Side) Step {
	s := Step{ID: IDOf(side, "cidrs"), Side: side, Action: Wait, Title: "addresses of " + string(c.Facts.Sides[side.Other()].ID), Status: Waiting}
	conf := c.Ends[side].Configuration
	switch {
	case conf == nil:
		s.Status, s.Reason = Blocked, "needs the Configuration"
	case !CIDRsConfigured(conf):
		s.Reason, s.Code = "the operator has assigned no addresses yet"+ConditionOf(conf), CodeRemapping
	default:
		s.Status = Done
		own, seen := Joined(conf.Spec.Remote.CIDR.Pod), Joined(conf.Status.Remote.CIDR.Pod)
		if s.Reason = fmt.Sprintf("sees pods %s as %s", own, seen); own == seen {
			s.Reason = "pods keep their addresses"
		}
	}
	return s
}

// ConditionOf returns the operator's message about the peer's ranges, as the end of a sentence; "" if there is no
// such message.
func ConditionOf(conf *networkingv1beta1.Configuration) string {
	for _, cond := range conf.Status.Conditions {
		if cond.Type == networkingv1beta1.ConfigurationConditionNetworkCIDRsConfigured && cond.Status != "True" && cond.Message != "" {
			return ": " + cond.Message
		}
	}
	return ""
}

// NoFreeRange reports whether the operator has found no free range for the peer.
func NoFreeRange(conf *networkingv1beta1.Configuration) bool {
	cond := meta.FindStatusCondition(conf.Status.Conditions, networkingv1beta1.ConfigurationConditionNetworkCIDRsConfigured)
	return cond != nil && cond.Status != metav1.ConditionTrue && cond.Reason == wire.ReasonNoFreeRange
}

// CIDRsConfigured reports whether the operator has assigned a range to every range of the peer. Older releases
// of Liqo do not write the condition, so a missing condition is no reason for false.
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

// Joined returns the values as a text, with commas between them.
func Joined[S ~string](parts []S) string {
	text := make([]string, len(parts))
	for i, p := range parts {
		text[i] = string(p)
	}
	return strings.Join(text, ", ")
}

// GatewayServer creates or updates the GatewayServer of the side that is dialled.
func (c Connection) GatewayServer(side Side) Step {
	end := c.Ends[side]
	want := render.GatewayServer(render.ServerParams{
		Tenant: end.Tenant, Template: c.template(side, c.Params.ServerTemplate), ServiceType: c.Params.ServiceType,
		Port: c.Params.Port, NodePort: c.Params.NodePort, LoadBalancerIP: c.Params.LoadBalancerIP, MTU: c.Params.MTU,
		Relay: c.Params.Relay,
	})
	KeepName(want, end.Server)
	keepRequests(want, end.Server)
	keepAnnotation(want, end.Server, wire.AnnotationInvitation)
	keepAnnotation(want, end.Server, wire.AnnotationOtherWay)
	if c.Params.OtherWay && end.Server == nil {
		metav1.SetMetaDataAnnotation(&want.ObjectMeta, wire.AnnotationOtherWay, "true")
	}
	if c.gatewaysForPeering() {
		metav1.SetMetaDataAnnotation(&want.ObjectMeta, wire.AnnotationForPeering, "true")
	}
	if c.Nonce != "" && want.Annotations[wire.AnnotationInvitation] == "" {
		metav1.SetMetaDataAnnotation(&want.ObjectMeta, wire.AnnotationInvitation, c.Nonce)
	}
	c.allow(side, want, end.Server)
	s := Ensure(side, stepServer, end.Server, want)
	if s.Action == Update && end.Server != nil {
		now := end.Server.DeepCopy()
		keepAnnotation(now, want, wire.AnnotationAllow)
		now.Spec.MTU = want.Spec.MTU
		if want.Spec.Endpoint.NodePort == nil && want.Spec.Endpoint.ServiceType == now.Spec.Endpoint.ServiceType {
			now.Spec.Endpoint.NodePort = nil // then the Service keeps its node port
		}
		s.Interrupts = c.changeInterrupts(side, end.Server, now, want)
	}
	return c.replacing(side, c.BehindNamespace(side, s), networkingv1beta1.ConnectionTypeServer)
}

// allow writes into a gateway where the peer's pods may open connections. The default is all pods, and needs
// no annotation. But a gateway that has the annotation keeps it: if an apply only left it out, another
// manager's value could stay.
func (c Connection) allow(side Side, want, live wire.Object) {
	has := Exists(live) && live.GetAnnotations()[wire.AnnotationAllow] != ""
	if allow := c.Params.Allow[side]; allow == wire.AllowAll && !has {
		return
	}
	annotations := want.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[wire.AnnotationAllow] = c.Params.Allow[side].String()
	want.SetAnnotations(annotations)
}

func (c Connection) template(side Side, t render.TemplateRef) render.TemplateRef {
	t.Namespace = cmp.Or(t.Namespace, c.Facts.Sides[side].Namespace)
	return t
}

// Dial returns the addresses and the port at which the client dials the server. If they are not known yet,
// reason says why.
func (c Connection) Dial(server Side) (addresses []string, port uint16, reason string) {
	if relay, err := wire.ParseRelay(c.Params.Relay); err == nil {
		return []string{relay.Host}, relay.Port, ""
	}
	outdated := ""
	if s := c.Ends[server].Server; s != nil && s.Status.Endpoint != nil {
		if outdated = c.outdated(server); outdated == "" {
			addresses = slices.DeleteFunc(slices.Clone(s.Status.Endpoint.Addresses), func(a string) bool { return a == "" })
			port = uint16(s.Status.Endpoint.Port)
		}
	}
	if c.Params.ClientAddress != "" {
		addresses = strings.Split(c.Params.ClientAddress, ",")
	}
	switch {
	case c.Params.ClientPort != 0:
		port = c.Params.ClientPort
	case port == 0:
		port = c.Params.NodePort
	}
	switch {
	case len(addresses) > 0 && port != 0:
	case outdated != "":
		reason = outdated
	case len(addresses) == 0 && c.Params.ServiceType == corev1.ServiceTypeLoadBalancer:
		reason = "the load balancer has given no address to Service " + wire.GatewayObjectName(c.gatewayName(server)) + " yet"
	case len(addresses) == 0:
		reason = "the gateway server has no address yet"
	default:
		reason = "the gateway server has no port yet"
	}
	return addresses, port, reason
}

// endpointGrace is how long the status is distrusted after the spec of a GatewayServer has changed. During
// this time, an unexpected port is probably the port from before the change. Later, an unexpected port is the
// choice of the template, whose Service may use another one. If the admin chose a node port, only this port
// is expected, at any time.
const endpointGrace = 15 * time.Second

// outdated returns the reason to wait for a new endpoint of the GatewayServer; "" if the present endpoint
// seems right. An endpoint is outdated if it seems older than the last change of the spec, or if this plan
// will change the spec. The status does not name the generation of the spec, so outdated compares ports and
// times.
func (c Connection) outdated(server Side) string {
	s := c.Ends[server].Server
	port, nodePort := uint16(s.Status.Endpoint.Port), c.Params.NodePort
	isNodePort := c.Params.ServiceType == corev1.ServiceTypeNodePort
	nodePorts := c.Facts.Sides[server].NodePorts
	if nodePorts == (PortRange{}) {
		nodePorts = PortRange{30000, 32767} // Kubernetes' default
	}
	spec, changes := s.Spec.Endpoint, !c.Facts.Sides[server].Described && c.Params.ServiceType != ""
	fresh := s.Generation > 1 && c.Facts.At.Sub(c.Ends[server].specChanged(s)) < endpointGrace
	switch {
	case changes && spec.ServiceType != c.Params.ServiceType:
		return fmt.Sprintf("waiting for the server's new endpoint, by a Service of type %s", c.Params.ServiceType)
	case changes && !isNodePort && uint16(spec.Port) != c.Params.Port:
		return fmt.Sprintf("waiting for the server's port to change from %d to %d", port, c.Params.Port)
	case isNodePort && nodePort != 0 && port != nodePort:
		return fmt.Sprintf("waiting for the server's port to change from %d to %d", port, nodePort)
	case fresh && isNodePort && nodePort == 0 && !nodePorts.Contains(port), fresh && !isNodePort && port != c.Params.Port:
		return fmt.Sprintf("waiting for the server's new endpoint, it still has port %d", port)
	}
	return ""
}

// Endpoint waits until the server can be dialled.
func (c Connection) Endpoint(server Side) Step {
	s := Step{ID: IDOf(server, "endpoint"), Side: server, Action: Wait, Title: "endpoint of the gateway server", Status: Waiting}
	addresses, port, reason := c.Dial(server)
	switch {
	case reason == "":
		s.Status, s.Reason = Done, fmt.Sprintf("UDP %s port %d", strings.Join(addresses, ", "), port)
	case c.Ends[server].Server == nil:
		s.Status, s.Reason = Blocked, "needs the GatewayServer"
	default:
		s.Reason, s.Code = reason, CodeEndpoint
		if why := c.Ends[server].Server.Annotations[wire.AnnotationEndpoint]; why != "" {
			s.Reason += ": " + why
		}
	}
	return s
}

// GatewayClient creates or updates the GatewayClient of the side that dials.
func (c Connection) GatewayClient(side Side) Step {
	end := c.Ends[side]
	object := c.object(side, kindClient, end.Client)
	addresses, port, reason := c.Dial(side.Other())
	if reason != "" {
		action := Create
		if Exists(end.Client) {
			action = Update
		}
		s := BlockedStep(side, action, stepClient, object, "needs the server's endpoint")
		return c.replacing(side, s, networkingv1beta1.ConnectionTypeClient)
	}
	want := render.GatewayClient(render.ClientParams{
		Tenant: end.Tenant, Template: c.template(side, c.Params.ClientTemplate),
		Addresses: addresses, Port: port, MTU: c.Params.MTU,
	})
	KeepName(want, end.Client)
	keepRequests(want, end.Client)
	if c.gatewaysForPeering() {
		metav1.SetMetaDataAnnotation(&want.ObjectMeta, wire.AnnotationForPeering, "true")
	}
	c.allow(side, want, end.Client)
	s := Ensure(side, stepClient, end.Client, want)
	if s.Action == Update && end.Client != nil {
		now := end.Client.DeepCopy()
		keepAnnotation(now, want, wire.AnnotationAllow)
		now.Spec.MTU = want.Spec.MTU
		s.Interrupts = c.changeInterrupts(side, end.Client, now, want)
	}
	return c.replacing(side, c.BehindNamespace(side, s), networkingv1beta1.ConnectionTypeClient)
}

// PublicKey gives a side the public key of the other side's gateway.
func (c Connection) PublicKey(side Side) Step {
	end, other := c.Ends[side], c.Ends[side.Other()]
	object := c.object(side, kindPublicKey, end.PublicKey)
	owner := c.Gateway(side)
	switch {
	case !Live(owner):
		return BlockedStep(side, Create, stepKey, object, "needs the gateway")
	case !Live(c.Gateway(side.Other())):
		return BlockedStep(side, Create, stepKey, object, fmt.Sprintf("needs %s's gateway", c.Facts.Sides[side.Other()].ID))
	case other.Key == nil:
		s := BlockedStep(side, Create, stepKey, object, fmt.Sprintf("%s's gateway has not published its key yet", c.Facts.Sides[side.Other()].ID))
		s.Status, s.Code = Waiting, CodeKey
		return s
	}
	want := render.PublicKey(end.Tenant, *other.Key, owner)
	KeepName(want, end.PublicKey)
	if end.PublicKey != nil && bytes.Equal(end.PublicKey.Spec.PublicKey, want.Spec.PublicKey) {
		keepAnnotation(want, end.PublicKey, wire.AnnotationNextPublicKey)
		if len(end.PublicKey.OwnerReferences) == 0 {
			want.OwnerReferences = nil // a PublicKey made by hand has no owner, and stays so
		}
	}
	return Ensure(side, stepKey, end.PublicKey, want)
}

// Gateway returns the side's GatewayServer or GatewayClient, by the role in the parameters; nil if it does not
// exist. The object's TypeMeta is filled in.
func (c Connection) Gateway(side Side) wire.Object {
	role := c.Ends[side]
	if side == c.Params.Server {
		role.Client = nil
	} else {
		role.Server = nil
	}
	return role.gateway()
}
