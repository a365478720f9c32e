// Package invite plans connections between clusters whose admins have access only to their
// own cluster. They send each other two files, an invitation and an answer. The inviting
// cluster hosts the gateway server, because a server can be created, with an endpoint and a
// key, before anything is known about the other cluster. So the invitation contains all
// that the other side needs, and the answer contains the rest.
package invite

import (
	"fmt"
	"strings"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/peerfile"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// Invitation is the goal of an end of a connection to which the cluster Peer is invited.
type Invitation struct {
	flows.Params

	Open  flows.Fields // the fields that facts decide
	Peer  wire.ClusterID
	Nonce string // random
}

// Settle implements [flows.Goal].
func (i Invitation) Settle(f flows.Facts) flows.Goal {
	if i.Open != 0 && f.Sides[flows.A].Problem == nil {
		f.Sides[flows.B] = flows.ClusterFacts{ID: i.Peer}
		i.Params, _ = i.Decide(i.Open, f)
		i.Open = 0
	}
	return i
}

// Plan implements [flows.Goal].
func (i Invitation) Plan(f flows.Facts) flows.Plan { return PlanInvite(i.Params, i.Peer, i.Nonce, f) }

// PlanInvite makes cluster A's end of a connection with peer, except the parts that need
// facts of the peer. [NewInvitation] needs a finished plan. The nonce is random; a server
// that already has a nonce keeps it.
func PlanInvite(p flows.Params, peer wire.ClusterID, nonce string, f flows.Facts) flows.Plan {
	p.Server, p.Given = flows.A, p.Given|flows.FieldServer
	f.Sides[flows.B] = flows.ClusterFacts{ID: peer, Described: true}
	p, notes := guarded(p, f)
	plan, c := flows.NewHalf(p, f)
	if len(plan.Steps) > 0 {
		return plan
	}
	plan.Kept = append(plan.Kept, notes...)
	if client := c.Ends[flows.A].Client; client != nil {
		plan.Steps = []flows.Step{flows.Refuse(flows.A, flows.CodeInvitation, "invitation", flows.FailedConflict,
			fmt.Sprintf("%s is already the client of a connection with %s", f.Sides[flows.A].ID, peer),
			command.Hintf("remove it with %s, or let the other cluster invite this one", disconnect(f, peer)))}
		return plan
	}
	c.Nonce = nonce
	plan.Steps = c.ExplainWaits([]flows.Step{c.TenantNamespace(flows.A), c.GatewayServer(flows.A), c.Endpoint(flows.A), c.OwnKey(flows.A)})
	return plan
}

// guarded returns p with the default of a new gateway on cluster A. Nobody administrates both clusters, so the
// peer's pods reach only the pods of Services that A exports. Where A exchanges no Services, that would be
// nothing: then they reach all pods, as in connections of one admin. notes say which it is.
func guarded(p flows.Params, f flows.Facts) (_ flows.Params, notes []string) {
	a, peer := f.Sides[flows.A], f.Sides[flows.B].ID
	if (p.Given|p.Preset)&flows.FieldAllow != 0 || !a.Can().Close || f.End(flows.A).Gateway() != nil {
		return p, nil
	}
	if !a.Operator.Services {
		return p, []string{fmt.Sprintf("pods of %s may open connections to all pods, because %s exchanges no Services. --allow none refuses them", peer, a.ID)}
	}
	p.Allow[flows.A] = wire.AllowExported
	return p, []string{fmt.Sprintf("pods of %s may open connections only to pods of Services that %s exports. --allow all opens all pods, and lending needs that", peer, a.ID)}
}

func disconnect(f flows.Facts, peer wire.ClusterID) command.Command {
	return f.Sides[flows.A].Ours("network", "disconnect", "--local-only", "--remote-cluster-id", string(peer))
}

func invite(f flows.Facts, peer wire.ClusterID) command.Command {
	return f.Sides[flows.A].Ours("network", "invite", "--for", string(peer))
}

// PlanJoin makes cluster A's end of the connection in an invitation.
func PlanJoin(p flows.Params, l peerfile.File, f flows.Facts) flows.Plan {
	if s := misdirected(l, f.Sides[flows.A]); s != nil {
		return flows.Plan{A: f.Sides[flows.A].Name(), B: l.From.ClusterID, Steps: []flows.Step{*s}}
	}
	f.Sides[flows.B] = described(l.From, f.Sides[flows.A].ID)
	live := f.Sides[flows.B].Servers[0].Spec
	// The inviting side decides these settings, not this side's admin.
	p.Server, p.MTU, p.Port, p.ServiceType = flows.B, live.MTU, uint16(live.Endpoint.Port), live.Endpoint.ServiceType
	p.Given |= flows.FieldServer | flows.FieldServiceType | flows.FieldPort | flows.FieldMTU | flows.FieldServerTemplate | flows.FieldClientAddress | flows.FieldClientPort
	p, notes := guarded(p, f)
	plan, c := flows.NewHalf(p, f)
	if len(plan.Steps) > 0 {
		return plan
	}
	plan.Kept = append(plan.Kept, notes...)
	if c.Ends[flows.A].Server != nil {
		plan.Steps = []flows.Step{flows.Refuse(flows.A, flows.CodeInvitation, "invitation", flows.FailedConflict,
			fmt.Sprintf("%s already hosts a gateway server for %s: it has invited that cluster, or is connected with it", f.Sides[flows.A].ID, l.From.ClusterID),
			command.Hintf("agree on who invites; %s removes this side's gateway", disconnect(f, l.From.ClusterID)))}
		return plan
	}
	plan.Kept = append(plan.Kept, l.Summary()...)
	plan.Steps = c.ExplainWaits([]flows.Step{
		c.TenantNamespace(flows.A), c.Configuration(flows.A), c.GatewayClient(flows.A), c.PublicKey(flows.A), c.OwnKey(flows.A), c.Remapped(flows.A),
	})
	return plan
}

// PlanAccept completes the connection with the answer to an invitation.
func PlanAccept(p flows.Params, l peerfile.File, f flows.Facts) flows.Plan {
	if s := misdirected(l, f.Sides[flows.A]); s != nil {
		return flows.Plan{A: f.Sides[flows.A].Name(), B: l.From.ClusterID, Steps: []flows.Step{*s}}
	}
	f.Sides[flows.B] = described(l.From, f.Sides[flows.A].ID)
	p.Server, p.Given = flows.A, p.Given|flows.FieldServer|flows.FieldClientTemplate
	plan, c := flows.NewHalf(p, f)
	if len(plan.Steps) > 0 {
		return plan
	}
	if c.Ends[flows.A].Server == nil {
		plan.Steps = []flows.Step{flows.Refuse(flows.A, flows.CodeInvitation, "answer", flows.FailedPreflight,
			fmt.Sprintf("%s has not invited %s, or no longer has the gateway for it", f.Sides[flows.A].ID, l.From.ClusterID),
			command.Hintf("invite it: %s", invite(f, l.From.ClusterID)))}
		return plan
	}
	if c.Ends[flows.A].Key == nil {
		plan.Steps = c.ExplainWaits([]flows.Step{c.OwnKey(flows.A)})
		return plan
	}
	if s := wrongAnswer(c, l); s != nil {
		plan.Steps = []flows.Step{*s}
		return plan
	}
	plan.Kept = append(plan.Kept, l.Summary()...)
	plan.Steps = []flows.Step{c.TenantNamespace(flows.A), c.Configuration(flows.A), c.GatewayServer(flows.A), c.PublicKey(flows.A)}
	if p.Wait != flows.WaitNone {
		plan.Steps = append(plan.Steps, c.Remapped(flows.A), c.Connected(flows.A))
	}
	plan.Steps = c.ExplainWaits(plan.Steps)
	return plan
}

// described makes facts of a cluster from its admin's description. The facts are those that
// plans of its peer need.
func described(d peerfile.Description, peer wire.ClusterID) flows.ClusterFacts {
	f := flows.ClusterFacts{
		ID: d.ClusterID, UID: d.UID, Described: true, Software: flows.Operator, HasCRDs: true,
		Networks: render.Networks{Pod: d.PodCIDRs, External: d.ExternalCIDRs}, Keys: map[string]wgtypes.Key{},
	}
	meta := metav1.ObjectMeta{
		Name: string(peer), Namespace: wire.TenantNamespaceName(peer), Labels: map[string]string{wire.LabelRemoteCluster: string(peer)},
	}
	if key, err := wgtypes.ParseKey(d.PublicKey); err == nil {
		f.Keys[meta.Namespace+"/"+meta.Name] = key
	}
	if d.Endpoint == nil {
		f.Clients = []networkingv1beta1.GatewayClient{{ObjectMeta: meta, Spec: networkingv1beta1.GatewayClientSpec{MTU: d.MTU}}}
		return f
	}
	f.Servers = []networkingv1beta1.GatewayServer{{
		ObjectMeta: meta,
		Spec: networkingv1beta1.GatewayServerSpec{
			MTU: d.MTU, Endpoint: networkingv1beta1.Endpoint{Port: int32(d.Endpoint.Port), ServiceType: corev1.ServiceTypeClusterIP},
		},
		Status: networkingv1beta1.GatewayServerStatus{
			Endpoint: &networkingv1beta1.EndpointStatus{Addresses: d.Endpoint.Addresses, Port: int32(d.Endpoint.Port)},
		},
	}}
	return f
}

// NewInvitation returns the file that cluster A sends to peer after [PlanInvite].
func NewInvitation(p flows.Params, peer wire.ClusterID, f flows.Facts, valid time.Duration) (peerfile.File, error) {
	p.Server, p.Given = flows.A, p.Given|flows.FieldServer
	f.Sides[flows.B] = flows.ClusterFacts{ID: peer, Described: true}
	p, _ = flows.Adopt(p, f)
	c := flows.NewConnection(p, f)
	addresses, port, reason := c.Dial(flows.A)
	if reason != "" {
		return peerfile.File{}, fmt.Errorf("invite %s: %s", peer, reason)
	}
	l, err := sent(c, valid)
	l.From.Endpoint = &peerfile.Dial{Addresses: addresses, Port: port}
	return l, err
}

// sent returns the invitation for cluster A's server, without its endpoint.
func sent(c flows.Connection, valid time.Duration) (peerfile.File, error) {
	server := c.Ends[flows.A].Server
	l, err := newFile(c, peerfile.Invitation, server.Spec.MTU, valid)
	l.Nonce = server.Annotations[wire.AnnotationInvitation]
	return l, err
}

// wrongAnswer returns a failed step unless l answers the current invitation. Files of
// earlier versions don't identify an invitation, and are accepted.
func wrongAnswer(c flows.Connection, l peerfile.File) *flows.Step {
	invitation, err := sent(c, 0)
	if err != nil || l.Answers == nil {
		return nil
	}
	me, peer := c.Facts.Sides[flows.A].ID, l.From.ClusterID
	var reason string
	switch {
	case l.Answers.Nonce != invitation.Nonce:
		reason = fmt.Sprintf("it answers another invitation than the one for which %s's gateway server was made", me)
	case l.Answers.Digest != invitation.Digest():
		reason = fmt.Sprintf("%s was told another key, address range or MTU than %s has: the invitation was changed on its way, or the gateway since", peer, me)
	default:
		return nil
	}
	return new(flows.Refuse(flows.A, flows.CodeInvitation, "answer to the present invitation", flows.FailedPreflight, reason,
		command.Hintf("write the invitation again, and ask %s to answer that one: %s", peer, invite(c.Facts, peer))))
}

// NewAnswer returns the file that cluster A sends to the inviting cluster after [PlanJoin].
func NewAnswer(invitation peerfile.File, f flows.Facts, valid time.Duration) (peerfile.File, error) {
	f.Sides[flows.B] = described(invitation.From, f.Sides[flows.A].ID)
	l, err := newFile(flows.NewConnection(flows.Params{Server: flows.B}, f), peerfile.Answer, invitation.From.MTU, valid)
	if invitation.Nonce != "" {
		l.Answers = &peerfile.Reference{Nonce: invitation.Nonce, Digest: invitation.Digest()}
	}
	return l, err
}

func newFile(c flows.Connection, kind peerfile.Kind, mtu int, valid time.Duration) (peerfile.File, error) {
	key := c.Ends[flows.A].Key
	if key == nil {
		return peerfile.File{}, fmt.Errorf("write to %s: the gateway's public key is not known", c.Facts.Sides[flows.B].ID)
	}
	f, now := c.Facts.Sides[flows.A], c.Facts.At.UTC().Truncate(time.Second)
	return peerfile.File{
		Kind: kind, For: c.Facts.Sides[flows.B].ID, Created: now, Expires: now.Add(valid),
		From: peerfile.Description{
			ClusterID: f.ID, UID: f.Identity(), PodCIDRs: f.Networks.Pod, ExternalCIDRs: f.Networks.External,
			PublicKey: key.String(), MTU: mtu,
		},
	}, nil
}

// Expired returns an error if a file is too old. Its endpoint and key may have changed
// meanwhile.
func Expired(l peerfile.File, now time.Time) error {
	if !now.After(l.Expires) {
		return nil
	}
	s := flows.Refuse(flows.A, flows.CodeInvitation, strings.ToLower(string(l.Kind))+" is still valid", flows.FailedPreflight,
		"it has expired at "+l.Expires.Format(time.RFC3339),
		command.Hintf("ask the admin of %s for a new one: the same command writes it again", l.From.ClusterID))
	return &flows.StepError{Step: s, Cluster: l.For}
}

// WrongFingerprint returns an error if the fingerprint of a file is not told, the
// fingerprint that the file's writer named. It returns nil if told is "".
func WrongFingerprint(l peerfile.File, told string) error {
	if told == "" || peerfile.SameFingerprint(told, l.Fingerprint) {
		return nil
	}
	s := flows.Refuse(flows.A, flows.CodeInvitation, "fingerprint of the "+strings.ToLower(string(l.Kind)), flows.FailedPreflight,
		fmt.Sprintf("it is %s, not %s", l.Fingerprint, told),
		command.Hintf("the file was changed on its way, or it is another file: ask the admin of %s to send it again, and to name its fingerprint", l.From.ClusterID))
	return &flows.StepError{Step: s, Cluster: l.For}
}

func misdirected(l peerfile.File, local flows.ClusterFacts) *flows.Step {
	if local.Problem != nil || local.ID == "" || local.ID == l.For {
		return nil // the file is for this cluster, or another step reports the cluster's problem
	}
	return new(flows.Refuse(flows.A, flows.CodeInvitation, strings.ToLower(string(l.Kind))+" is for this cluster", flows.FailedPreflight,
		fmt.Sprintf("%s wrote it for %s, and this is %s", l.From.ClusterID, l.For, local.ID), command.Text("choose the context of "+string(l.For))))
}
