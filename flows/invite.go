package flows

import (
	"fmt"
	"strings"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows/peerfile"
	"github.com/liqo-tui/liqo-tui/render"
)

// Two admins, each with access to their own cluster alone, connect them by
// two files, an invitation and an answer. Who invites hosts the gateway server: it can be made, and has an
// endpoint and a key, before anything is known of the other cluster. So the
// invitation has all that the other side needs, and its answer the rest.

// PlanInvite makes cluster A's end of a connection with peer, as far as that
// needs nothing of it: afterwards [NewInvitation] has something to tell. The nonce is
// random; a server that has one already keeps it.
func PlanInvite(p Params, peer render.ClusterID, nonce string, f Facts) Plan {
	p.Server, p.Given = A, p.Given|FieldServer
	f.Remote = ClusterFacts{ID: peer, Described: true}
	plan, c := NewHalf(p, f)
	if len(plan.Steps) > 0 {
		return plan
	}
	if client := c.Peers[A].Client; client != nil {
		plan.Steps = []Step{Refuse(A, CodeInvitation, "invitation", FailedConflict,
			fmt.Sprintf("%s is already the client of a connection with %s", f.Local.ID, peer),
			"remove it with liqo-tui network disconnect --local-only, or let the other cluster invite this one")}
		return plan
	}
	c.nonce = nonce
	plan.Steps = c.ExplainWaits([]Step{c.TenantNamespace(A), c.GatewayServer(A), c.Endpoint(A), c.OwnKey(A)})
	return plan
}

// PlanJoin makes cluster A's end of the connection that it is invited to.
func PlanJoin(p Params, l peerfile.File, f Facts) Plan {
	if s := misdirected(l, f.Local); s != nil {
		return Plan{A: f.Local.Name(), B: l.From.ClusterID, Steps: []Step{*s}}
	}
	f.Remote = described(l.From, f.Local.ID)
	live := f.Remote.Servers[0].Spec
	// What the inviter decides is no choice of this side's admin.
	p.Server, p.MTU, p.Port, p.ServiceType = B, live.MTU, uint16(live.Endpoint.Port), live.Endpoint.ServiceType
	p.Given |= FieldServer | FieldServiceType | FieldPort | FieldMTU | FieldServerTemplate | FieldClientAddress | FieldClientPort
	plan, c := NewHalf(p, f)
	if len(plan.Steps) > 0 {
		return plan
	}
	if c.Peers[A].Server != nil {
		plan.Steps = []Step{Refuse(A, CodeInvitation, "invitation", FailedConflict,
			fmt.Sprintf("%s already hosts a gateway server for %s: it has invited that cluster, or is connected with it", f.Local.ID, l.From.ClusterID),
			"agree on who invites; liqo-tui network disconnect --local-only removes this side's gateway")}
		return plan
	}
	plan.Kept = append(plan.Kept, l.Summary()...)
	plan.Steps = c.ExplainWaits([]Step{
		c.TenantNamespace(A), c.Configuration(A), c.GatewayClient(A), c.PublicKey(A), c.OwnKey(A), c.Remapped(A),
	})
	return plan
}

// PlanAccept completes the connection by the answer to an invitation.
func PlanAccept(p Params, l peerfile.File, f Facts) Plan {
	if s := misdirected(l, f.Local); s != nil {
		return Plan{A: f.Local.Name(), B: l.From.ClusterID, Steps: []Step{*s}}
	}
	f.Remote = described(l.From, f.Local.ID)
	p.Server, p.Given = A, p.Given|FieldServer|FieldClientTemplate
	plan, c := NewHalf(p, f)
	if len(plan.Steps) > 0 {
		return plan
	}
	if c.Peers[A].Server == nil {
		plan.Steps = []Step{Refuse(A, CodeInvitation, "answer", FailedPreflight,
			fmt.Sprintf("%s has not invited %s, or no longer has the gateway for it", f.Local.ID, l.From.ClusterID),
			"invite it: liqo-tui network invite --for "+string(l.From.ClusterID))}
		return plan
	}
	if c.Peers[A].Key == nil {
		plan.Steps = c.ExplainWaits([]Step{c.OwnKey(A)})
		return plan
	}
	if s := c.misanswered(l); s != nil {
		plan.Steps = []Step{*s}
		return plan
	}
	plan.Kept = append(plan.Kept, l.Summary()...)
	plan.Steps = []Step{c.TenantNamespace(A), c.Configuration(A), c.GatewayServer(A), c.PublicKey(A)}
	if p.Wait != WaitNone {
		plan.Steps = append(plan.Steps, c.Remapped(A), c.Connected(A))
	}
	plan.Steps = c.ExplainWaits(plan.Steps)
	return plan
}

// NewHalf is a plan without steps, or one that says why there can't be any, for
// plans that change cluster A only, and know of B what its admin has told.
func NewHalf(p Params, f Facts) (Plan, Connection) {
	plan := Plan{A: f.Local.Name(), B: f.Remote.ID, Params: p}
	if plan.Steps = NoAnswer(f, A); len(plan.Steps) > 0 {
		return plan, Connection{}
	}
	if s := UnfitSide(A, f.Local); s != nil {
		plan.Steps = []Step{*s}
		return plan, Connection{}
	}
	var s Step
	switch err := f.Remote.ID.Validate(); {
	case err != nil:
		s = Refuse(B, CodeClusterID, "cluster ID", FailedPreflight, err.Error(), "its admin finds it with: liqo-tui info --get clusterid")
	case f.Remote.UID == f.Local.UID && f.Local.UID != "":
		s = Refuse(B, CodeDifferent, "choice of clusters", FailedPreflight,
			fmt.Sprintf("%s is this cluster itself", f.Remote.ID), "choose the other cluster's context")
	case f.Remote.ID == f.Local.ID:
		s = Refuse(B, CodeClusterID, "cluster IDs", FailedPreflight,
			fmt.Sprintf("both clusters call themselves %q", f.Local.ID), "install one of them with another --cluster-id")
	default:
		return completePlan(plan, f)
	}
	plan.Steps = []Step{s}
	return plan, Connection{}
}

// OwnKey waits for the key that the other admin has to be told.
func (c Connection) OwnKey(side Side) Step {
	s := Step{ID: IDOf(side, stepOwnKey), Side: side, Action: Wait, Title: "public key of the gateway", Status: Waiting, Code: CodeKey}
	switch peer := c.Peers[side]; {
	case !Live(c.AnyGateway(side)):
		s.Status, s.Reason = Blocked, "needs the gateway"
	case peer.Key == nil:
		s.Reason = "waiting for the gateway's key"
	default:
		s.Status, s.Reason = Done, peer.Key.String()
	}
	return s
}

// described are the facts of a cluster as its admin describes it to peer: what plans
// for the peer's side look at.
func described(d peerfile.Description, peer render.ClusterID) ClusterFacts {
	f := ClusterFacts{
		ID: d.ClusterID, UID: d.UID, Described: true, Software: Operator, HasCRDs: true,
		Networks: render.Networks{Pod: d.PodCIDRs, External: d.ExternalCIDRs}, Keys: map[string]wgtypes.Key{},
	}
	meta := metav1.ObjectMeta{
		Name: string(peer), Namespace: render.TenantNamespaceName(peer), Labels: map[string]string{render.LabelRemoteCluster: string(peer)},
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

// NewInvitation is what cluster A sends to peer, once [PlanInvite] is done.
func NewInvitation(p Params, peer render.ClusterID, f Facts, valid time.Duration) (peerfile.File, error) {
	p.Server, p.Given = A, p.Given|FieldServer
	f.Remote = ClusterFacts{ID: peer, Described: true}
	p, _ = Adopt(p, f)
	c := NewConnection(p, f)
	addresses, port, reason := c.dial(A)
	if reason != "" {
		return peerfile.File{}, fmt.Errorf("invite %s: %s", peer, reason)
	}
	l, err := c.invitation(valid)
	l.From.Endpoint = &peerfile.Dial{Addresses: addresses, Port: port}
	return l, err
}

// invitation is the one that cluster A's server stands for, without its endpoint.
func (c Connection) invitation(valid time.Duration) (peerfile.File, error) {
	server := c.Peers[A].Server
	l, err := c.peerFile(peerfile.Invitation, server.Spec.MTU, valid)
	l.Nonce = server.Annotations[render.AnnotationInvitation]
	return l, err
}

// misanswered says that l is no answer to the invitation that stands, nil if it is
// one, or an earlier version has written it, which does not say.
func (c Connection) misanswered(l peerfile.File) *Step {
	invitation, err := c.invitation(0)
	if err != nil || l.Answers == nil {
		return nil
	}
	me, peer := c.Facts.Local.ID, l.From.ClusterID
	var reason string
	switch {
	case l.Answers.Nonce != invitation.Nonce:
		reason = fmt.Sprintf("it is to another invitation than the one that %s's gateway server was made for", me)
	case l.Answers.Digest != invitation.Digest():
		reason = fmt.Sprintf("%s was told another key, address range or MTU than %s has: the invitation was changed on its way, or the gateway since", peer, me)
	default:
		return nil
	}
	return new(Refuse(A, CodeInvitation, "answer to the present invitation", FailedPreflight, reason,
		fmt.Sprintf("write the invitation again, and have %s answer that one: liqo-tui network invite --for %s", peer, peer)))
}

// NewAnswer is what cluster A sends to the cluster that has invited it, once
// [PlanJoin] is done.
func NewAnswer(invitation peerfile.File, f Facts, valid time.Duration) (peerfile.File, error) {
	f.Remote = described(invitation.From, f.Local.ID)
	l, err := NewConnection(Params{Server: B}, f).peerFile(peerfile.Answer, invitation.From.MTU, valid)
	if invitation.Nonce != "" {
		l.Answers = &peerfile.Reference{Nonce: invitation.Nonce, Digest: invitation.Digest()}
	}
	return l, err
}

func (c Connection) peerFile(kind peerfile.Kind, mtu int, valid time.Duration) (peerfile.File, error) {
	key := c.Peers[A].Key
	if key == nil {
		return peerfile.File{}, fmt.Errorf("write to %s: the gateway's public key is not known", c.Facts.Remote.ID)
	}
	f, now := c.Facts.Local, c.Facts.At.UTC().Truncate(time.Second)
	return peerfile.File{
		Kind: kind, For: c.Facts.Remote.ID, Created: now, Expires: now.Add(valid),
		From: peerfile.Description{
			ClusterID: f.ID, UID: f.UID, PodCIDRs: f.Networks.Pod, ExternalCIDRs: f.Networks.External,
			PublicKey: key.String(), MTU: mtu,
		},
	}, nil
}

// Expired says that a file is too old to be used, nil if not. Its endpoint and
// key may have changed since.
func Expired(l peerfile.File, now time.Time) error {
	if !now.After(l.Expires) {
		return nil
	}
	again := "ask the admin of " + string(l.From.ClusterID) + " for a new one: the same command writes it again"
	s := Refuse(A, CodeInvitation, strings.ToLower(string(l.Kind))+" is still valid", FailedPreflight,
		"it has expired at "+l.Expires.Format(time.RFC3339), again)
	return &StepError{Step: s, Cluster: l.For}
}

// WrongFingerprint says that a file does not have the fingerprint that its writer has told,
// nil if it has it, or none is known.
func WrongFingerprint(l peerfile.File, told string) error {
	if told == "" || peerfile.SameFingerprint(told, l.Fingerprint) {
		return nil
	}
	s := Refuse(A, CodeInvitation, "fingerprint of the "+strings.ToLower(string(l.Kind)), FailedPreflight,
		fmt.Sprintf("it is %s, not %s", l.Fingerprint, told),
		fmt.Sprintf("the file was changed on its way, or it is another one: have the admin of %s send it again, and say its fingerprint", l.From.ClusterID))
	return &StepError{Step: s, Cluster: l.For}
}

// misdirected says that the file is for another cluster, nil if it is not.
func misdirected(l peerfile.File, local ClusterFacts) *Step {
	if local.Problem != nil || local.ID == "" || local.ID == l.For {
		return nil // or another step says what is wrong with the cluster
	}
	return new(Refuse(A, CodeInvitation, strings.ToLower(string(l.Kind))+" is for this cluster", FailedPreflight,
		fmt.Sprintf("%s wrote it for %s, and this is %s", l.From.ClusterID, l.For, local.ID), "choose the context of "+string(l.For)))
}
