package flows

import (
	"fmt"
	"slices"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// RemoveOptions say which connection to remove, and on which side.
type RemoveOptions struct {
	// LocalOnly is set to change nothing on cluster B. Then B need not answer, and need not exist.
	LocalOnly bool
	// Peer is the cluster ID of B, for a cluster B that does not answer. "" means the ID that B
	// reports, or the only peer of A if B reports no ID.
	Peer wire.ClusterID
	// Namespaces are the tenant namespaces that the admin gave, by side. If it is "", the connection may be
	// in any namespace.
	Namespaces [2]string
	// Made lists the objects that a run has created. The removal keeps all others; nil: it keeps none.
	Made []Change
}

// PlanReset returns the plan that removes the connection, with the Configurations and the tenant namespaces.
// Objects of others stay: a tenant namespace is deleted only if we created it. The plan fails while one of
// the clusters lends resources to the other one.
func PlanReset(o RemoveOptions, f Facts) Plan { return ResetBy(command.Ours("network", "reset"), o, f) }

// ResetBy is [PlanReset] for another command of ours. The hints name this command.
func ResetBy(by command.Command, o RemoveOptions, f Facts) Plan {
	plan := planRemoval(by, o, f, func(c Connection, side Side) []Step {
		return []Step{c.removeConfiguration(side), c.removeNamespace(side)}
	})
	if plan.Failure() == nil && plan.B != "" {
		if s := lent(o, f, [2]wire.ClusterID{plan.A, plan.B}); s != nil {
			plan.Steps = []Step{*s}
		} else if lendingHidden(o, f) && !plan.Done() {
			plan.Kept = append(plan.Kept, fmt.Sprintf("not known whether %s and %s lend, because you may not read VirtualNodes or ResourceSlices: pods on virtual nodes would lose the network", plan.A, plan.B))
		}
	}
	return plan
}

// lendingHidden reports whether this user can't see if the clusters lend. Each of them has objects of both
// roles, so it is enough to read them on one.
func lendingHidden(o RemoveOptions, f Facts) bool {
	sides := []Side{A, B}
	if o.LocalOnly {
		sides = []Side{A}
	}
	return !slices.ContainsFunc(sides, func(side Side) bool {
		l := f.Sides[side].Lending
		return l == nil || !l.Hidden["VirtualNode"] && !l.Hidden["ResourceSlice"]
	})
}

// lent returns a failed step if the connection has a virtual node, because pods on it would lose the network.
func lent(o RemoveOptions, f Facts, ids [2]wire.ClusterID) *Step {
	sides, unpeer := []Side{A, B}, f.Ours("unpeer")
	if o.LocalOnly {
		sides, unpeer = []Side{A}, forget(f.Sides[A].Ours("unpeer"), ids[B])
	}
	for _, side := range sides {
		what, uses := f.Sides[side].Lending.Lent(string(ids[side.Other()]))
		if what == "" {
			continue
		}
		consumer := side
		if !uses {
			consumer = side.Other()
		}
		if consumer == B {
			unpeer = unpeer.Flag("--consumer", "Remote")
		}
		return new(Refuse(side, CodeLent, "no virtual node", FailedPreflight,
			fmt.Sprintf("%s uses resources of %s, %s: its pods there would lose the network", ids[consumer], ids[consumer.Other()], what), command.Hintf("to remove both: %s", unpeer)))
	}
	return nil
}

// PlanDisconnect returns the plan that removes the gateways. The Configurations stay, so a new connection of the
// two clusters has the same addresses.
func PlanDisconnect(o RemoveOptions, f Facts) Plan {
	return planRemoval(command.Ours("network", "disconnect"), o, f, func(Connection, Side) []Step { return nil })
}

// planRemoval returns a plan with the steps that remove the gateways, and then the steps of rest for each side.
func planRemoval(by command.Command, o RemoveOptions, f Facts, rest func(Connection, Side) []Step) Plan {
	sides := []Side{A, B}
	if o.LocalOnly {
		sides = []Side{A}
	}
	plan := Plan{A: f.Sides[A].Name(), B: f.Sides[B].Name()}
	if plan.Steps = NoAnswer(f, sides...); len(plan.Steps) > 0 {
		for i := range plan.Steps {
			if s := &plan.Steps[i]; s.Side == B {
				s.Fix = append(s.Fix, command.Hintf("or, if the cluster is gone for good: %s", by.On(f.Sides[A].Flags()).Add("--local-only")))
			}
		}
		return plan
	}
	if o.LocalOnly {
		peer, unclear := o.peer(f)
		if unclear != nil {
			plan.Steps = []Step{*unclear}
		}
		if peer == "" {
			return plan // without a failed step, A has no peer
		}
		plan.B, f.Sides[B].ID = peer, peer
		plan.Owed = []command.Command{forget(by, f.Sides[A].Name()).For(string(f.Sides[B].Name()))}
	} else if f.Sides[A].ID == f.Sides[B].ID || f.Sides[A].ID == "" || f.Sides[B].ID == "" {
		plan.Steps = obstacles(f)
		return plan
	} else if plan.Steps = replaced(by, f); len(plan.Steps) > 0 {
		return plan
	}
	c := NewConnection(Params{Namespaces: o.Namespaces}, f)
	for _, side := range sides {
		if s := c.Elsewhere(side); s != nil {
			plan.Steps = append(plan.Steps, *s)
		}
	}
	if len(plan.Steps) > 0 {
		return plan
	}
	for _, part := range []func(Connection, Side) []Step{removeGateways, rest} {
		for _, side := range sides {
			plan.Steps = append(plan.Steps, part(c, side)...)
		}
	}
	if o.Made != nil {
		keepOlder(o.Made, plan.Steps)
	}
	plan.Kept = c.unattended(sides, plan.Steps)
	plan.Steps = c.ExplainWaits(plan.Steps)
	return plan
}

// keepOlder keeps the objects of a removal that are not among made, and what these need. A gateway needs
// its Configuration, and each object its namespace.
func keepOlder(made []Change, steps []Step) {
	var gateway, kept [2]bool
	for i := range steps {
		s := &steps[i]
		kind := s.Object.Kind
		why := ""
		switch {
		case s.Status == Done:
		case s.Action == Wait && gateway[s.Side]:
			why = "the gateway existed before the run"
		case s.Action != Delete:
		case kind == kindConfiguration && gateway[s.Side], kind == kindNamespace && kept[s.Side]:
			why = "objects that existed before the run need it"
		case !slices.Contains(made, Change{Side: s.Side, Verb: Created, Object: s.Object.String()}):
			why = "it existed before the run"
		}
		if why == "" {
			continue
		}
		kept[s.Side] = true
		gateway[s.Side] = gateway[s.Side] || kind == kindServer || kind == kindClient
		*s = Step{ID: s.ID, Side: s.Side, Action: s.Action, Title: s.Title, Object: s.Object, Status: Done, Reason: KeptBecause + why}
	}
}

// unattended returns a sentence for each side. The sentence names the nodes that keep their routes, because
// they have no ready agent.
func (c Connection) unattended(sides []Side, steps []Step) (out []string) {
	for _, side := range sides {
		f := c.Facts.Sides[side]
		if len(f.Unattended) > 0 && slices.ContainsFunc(steps, func(s Step) bool { return s.Side == side && s.Status != Done }) {
			out = append(out, fmt.Sprintf("nodes of %s without an agent that is ready keep their routes to %s until one is: %s", f.Name(), c.Facts.Sides[side.Other()].Name(), Some(f.Unattended)))
		}
	}
	return out
}

// replaced returns failed steps if a side is connected with another cluster that has the same ID.
func replaced(by command.Command, f Facts) []Step {
	var steps []Step
	for _, side := range []Side{A, B} {
		me, other := f.Sides[side], f.Sides[side.Other()]
		if was := me.End(other.ID).UID(); was == "" || other.Identity() == "" || was == other.Identity() {
			continue
		}
		steps = append(steps, Refuse(side, CodePeer, "identity of the peer", FailedConflict, f.stranger(side),
			command.Hintf("to remove what %s has for the former %s: %s", me.ID, other.ID, forget(by.On(me.Flags()), other.ID))))
	}
	return steps
}

// Removal is the goal of two clusters without a connection.
type Removal struct {
	RemoveOptions
	// Disconnect is set if the clusters keep each other's address ranges, see [PlanDisconnect].
	Disconnect bool
	// NoWait is set if the run ends when the deletions are requested.
	NoWait bool
}

// Settle implements [Goal]. The first plan determines the peer, because after the last deletion no object
// names the peer.
func (r Removal) Settle(f Facts) Goal {
	if r.Peer == "" {
		if p := r.Plan(f); p.Failure() == nil && len(p.Steps) > 0 {
			r.Peer = p.B
		}
	}
	return r
}

// Plan implements [Goal].
func (r Removal) Plan(f Facts) Plan {
	plan := PlanReset
	if r.Disconnect {
		plan = PlanDisconnect
	}
	p := plan(r.RemoveOptions, f)
	if r.NoWait && p.Failure() == nil {
		p.Steps = slices.DeleteFunc(p.Steps, func(s Step) bool { return !s.Action.Changes() })
	}
	return p
}

// peer returns the cluster whose connection A removes; "" if A has no connection. If A has several, and the
// admin chose none, peer also returns a failed step.
func (o RemoveOptions) peer(f Facts) (wire.ClusterID, *Step) {
	known := f.Sides[A].forgettable()
	switch {
	case o.Peer != "":
		return o.Peer, nil
	case f.Sides[B].ID != "":
		return f.Sides[B].ID, nil
	case len(known) == 1:
		return known[0], nil
	case len(known) == 0:
		return "", nil
	}
	s := Refuse(A, CodeUnnamedPeer, "the cluster to forget is known", FailedPreflight,
		"this cluster is peered with "+Joined(known), command.Text("name one with --remote-cluster-id"))
	return "", &s
}

// KnownPeers returns the IDs of the clusters to which this cluster has a connection, finished or begun. A
// namespace alone is no connection: a reset keeps a namespace that contains objects of others, and Liqo's
// authentication has its own namespaces.
func (c ClusterFacts) KnownPeers() []wire.ClusterID {
	var ids peerIDs
	for o := range c.connections() {
		ids.add(o)
	}
	slices.Sort(ids)
	return ids
}

// EndingPeers returns the peers whose connections are being deleted, for example after a reset.
func (c ClusterFacts) EndingPeers() []string {
	stays := map[wire.ClusterID]bool{}
	for o := range c.connections() {
		id := wire.ClusterID(o.GetLabels()[wire.LabelRemoteCluster])
		stays[id] = stays[id] || o.GetDeletionTimestamp() == nil
	}
	var ending []string
	for _, id := range c.KnownPeers() {
		if !stays[id] {
			ending = append(ending, string(id))
		}
	}
	return ending
}

// forgettable returns the known peers, and the peers for which only a namespace exists. An interrupted run
// may have made only the namespace.
func (c ClusterFacts) forgettable() []wire.ClusterID {
	ids := peerIDs(c.KnownPeers())
	for i := range c.Namespaces {
		ids.add(&c.Namespaces[i])
	}
	slices.Sort(ids)
	return ids
}

type peerIDs []wire.ClusterID

// add adds the peer that an object's label names, once.
func (ids *peerIDs) add(o wire.Object) {
	if id := wire.ClusterID(o.GetLabels()[wire.LabelRemoteCluster]); id != "" && !slices.Contains(*ids, id) {
		*ids = append(*ids, id)
	}
}

// forget returns the command that removes a connection on one cluster only.
func forget(by command.Command, peer wire.ClusterID) command.Command {
	return by.Add("--local-only", "--remote-cluster-id", string(peer))
}

func removeGateways(c Connection, side Side) []Step {
	return []Step{c.removeClient(side), c.removeServer(side), c.removeKey(side), c.drained(side)}
}

func (c Connection) removeClient(side Side) Step {
	return Remove(side, stepClient, c.object(side, kindClient, c.Ends[side].Client), c.Ends[side].Client, c.gatewayInterrupts(side))
}

func (c Connection) removeServer(side Side) Step {
	return Remove(side, stepServer, c.object(side, kindServer, c.Ends[side].Server), c.Ends[side].Server, c.gatewayInterrupts(side))
}

// removeKey removes a PublicKey that no gateway on this side owns.
func (c Connection) removeKey(side Side) Step {
	return Remove(side, stepKey, c.object(side, kindPublicKey, c.Ends[side].PublicKey), c.Ends[side].PublicKey, "")
}

// drained waits until the pods and the Connection of a deleted gateway are gone. Until then, a pod may still
// carry traffic.
func (c Connection) drained(side Side) Step {
	end := c.Ends[side]
	s := Step{ID: IDOf(side, "drained"), Side: side, Action: Wait, Title: "gateway is gone", Status: Done}
	if end.Client != nil || end.Server != nil {
		s.Status, s.Reason = Blocked, "needs the gateway to be deleted"
	} else if left := c.undrained(side); left != "" {
		s.Status, s.Reason, s.Code = Waiting, left, CodePod
	} else if f := c.Facts.Sides[side]; f.PodsHidden && f.PodsSeen != end.Tenant.Namespace {
		s.Reason = "its objects are; a pod may still run, because this user may not read pods there"
	}
	return s
}

// undrained lists the objects of a deleted gateway that still exist, as text; "" if all are gone.
func (c Connection) undrained(side Side) string {
	end := c.Ends[side]
	pods, facts := 0, c.Facts.Sides[side]
	for _, pod := range facts.Pods {
		if pod.Namespace == end.Tenant.Namespace && !facts.hasGateway(pod) {
			pods++
		}
	}
	switch {
	case pods == 1:
		return "the gateway's pod is still ending"
	case pods > 1:
		return fmt.Sprintf("%d gateway pods are still ending", pods)
	case end.Connection != nil:
		return "the Connection still exists"
	}
	return ""
}

// hasGateway reports whether the gateway of a pod still exists. A namespace may belong to several
// connections, so the pod may belong to another one.
func (c ClusterFacts) hasGateway(pod PodFacts) bool {
	of := func(o wire.Object) bool { return o.GetNamespace() == pod.Namespace && o.GetName() == pod.Gateway }
	return slices.ContainsFunc(c.Servers, func(o networkingv1beta1.GatewayServer) bool { return of(&o) }) ||
		slices.ContainsFunc(c.Clients, func(o networkingv1beta1.GatewayClient) bool { return of(&o) })
}

// removeConfiguration deletes the Configuration when the GatewayServer or GatewayClient is gone, because Liqo's
// controllers need the Configuration to clean up after a gateway. It does not wait for the gateway's pods.
func (c Connection) removeConfiguration(side Side) Step {
	object := c.object(side, kindConfiguration, c.Ends[side].Configuration)
	if c.Ends[side].Client != nil || c.Ends[side].Server != nil {
		return BlockedStep(side, Delete, "configuration", object, "needs the gateway to be deleted")
	}
	return Remove(side, "configuration", object, c.Ends[side].Configuration, "")
}

func (c Connection) removeNamespace(side Side) Step {
	end := c.Ends[side]
	rest := end.Configuration != nil || c.drained(side).Status != Done
	return RemoveNamespace(side, "namespace", end.Namespace, end.Tenant, c.Facts.Contents[side], rest)
}

// KeptBecause is the beginning of the reason of a step that keeps its object.
const KeptBecause = "kept: "

// RemoveNamespace deletes a namespace that we created, after all other objects of ours in it. It keeps the
// namespace if it contains objects of others, such as an admin or Liqo's authentication, because Kubernetes
// would delete them as well. rest is set if objects of ours are left.
func RemoveNamespace(side Side, what string, live *corev1.Namespace, tenant render.Tenant, contents Answer[Contents], rest bool) Step {
	s := Remove(side, what, ObjectRef{Kind: kindNamespace, Name: tenant.Namespace}, live, "")
	switch {
	case s.Status == Waiting:
		// The run does not wait, because Kubernetes takes 5 s even for an empty namespace. All of our
		// objects are gone by now, and the next run waits until the namespace is gone.
		s.Status, s.Reason = Done, "being deleted by Kubernetes"+deletionState(live)
	case s.Status == Done:
	case !render.CreatedByUs(live):
		s.Status, s.Reason, s.Objects = Done, KeptBecause+"liqo-tui did not create it", nil
	case keepsNamespace(contents) != "":
		s.Status, s.Reason, s.Objects = Done, KeptBecause+keepsNamespace(contents), nil
	default:
		s.Asks = AskContents{Side: side, Tenant: tenant, Last: !rest}
		switch {
		case !contents.Asked():
			s.Status, s.Reason, s.Objects = Blocked, "needs the other deletions; kept if anything else is in it", nil
		case rest:
			s.Status, s.Reason, s.Objects = Blocked, "needs the other deletions", nil
		}
	}
	return s
}
