package peer

import (
	"fmt"
	"slices"
	"strings"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/lending"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// RemoveOptions select the parts of lending to remove, and the sides.
type RemoveOptions struct {
	flows.RemoveOptions

	Consumer flows.Side
	// KeepNetwork leaves the connection of the pod networks.
	KeepNetwork bool

	unasked map[string]bool // see [removal.unasked]; nil until the first plan
}

// unplan removes the objects that Plan creates. First, pods leave the virtual node, while their
// quota and access still exist. Then it removes the resources, the access, and the parts of the
// network that were created for them, unless the clusters also lend the other way round. The first
// plan of a run fills o.unasked: after the first deletion, it can't be found out any more.
func unplan(o *RemoveOptions, f flows.Facts) flows.Plan {
	reset := flows.ResetBy(command.Ours("unpeer"), o.RemoveOptions, networkOf(withoutContents(f)))
	if reset.Failure() != nil || o.LocalOnly && reset.B == "" {
		return reset
	}
	if o.LocalOnly {
		f.Sides[flows.B].ID = reset.B
	}
	p := newPair(Params{Consumer: o.Consumer}, o.Namespaces, f)
	r := removal{pair: p, local: o.LocalOnly}
	plan := flows.Plan{A: reset.A, B: reset.B, Owed: owed(*o, f)}
	if plan.Steps = slices.Concat(r.obstacles(), r.unread(), r.unseen()); len(plan.Steps) > 0 {
		return plan
	}
	if o.unasked == nil {
		o.unasked = r.unasked()
	}
	r.nobodys = o.unasked
	plan.Steps = r.steps()
	done := !slices.ContainsFunc(plan.Steps, func(s flows.Step) bool { return s.Status != flows.Done })
	plan.Kept = r.stays()
	remove, stays := r.network(*o)
	if stays != "" {
		plan.Kept = append(plan.Kept, stays)
	}
	if remove != nil {
		known := networkOf(f)
		if !done {
			known = withoutContents(known)
		}
		network := remove(o.RemoveOptions, known)
		plan.Steps, plan.Kept = append(plan.Steps, behind(network.Steps, done)...), append(plan.Kept, network.Kept...)
	}
	// The last step restores the mark that giveUp has set.
	plan.Steps = append(plan.Steps, r.forgetUnreachable(done)...)
	return plan
}

// network decides how much of the network to remove: the parts that were created for lending. stays
// describes the rest.
func (r removal) network(o RemoveOptions) (remove func(flows.RemoveOptions, flows.Facts) flows.Plan, stays string) {
	const all = "the network between the clusters stays"
	gateways, configurations := r.ForPeering()
	switch other := r.reverse(); {
	case o.KeepNetwork:
		return nil, all
	case other != "":
		return nil, all + ": " + other
	case !gateways:
		return nil, all + fmt.Sprintf(": it was there before the peering; %s removes it", r.Facts.Ours("network", "reset"))
	case !configurations:
		return flows.PlanDisconnect, fmt.Sprintf("what the clusters know of each other's addresses stays: it was there before the peering; %s removes it", r.Facts.Ours("network", "reset"))
	}
	return flows.PlanReset, ""
}

// withoutContents hides the contents of the namespaces: they are inspected only after lending's
// objects are gone from them.
func withoutContents(f flows.Facts) flows.Facts {
	f.Contents = [2]flows.Answer[flows.Contents]{}
	return f
}

// networkOf has the facts of the network alone: everything else is removed before the network.
func networkOf(f flows.Facts) flows.Facts {
	f.Sides[flows.A].Lending, f.Sides[flows.B].Lending = nil, nil
	return f
}

// behind blocks the steps that remove the network, until the others are done.
func behind(steps []flows.Step, done bool) []flows.Step {
	if done {
		return steps
	}
	for i := range steps {
		s := &steps[i]
		s.Asks = nil
		if s.Status == flows.Ready || s.Status == flows.Waiting {
			s.Status, s.Reason, s.Objects = flows.Blocked, "needs the peering to be removed", nil
		}
	}
	return steps
}

func owed(o RemoveOptions, f flows.Facts) []command.Command {
	if !o.LocalOnly {
		return nil
	}
	consumer := [...]string{"Remote", "Local"}[o.Consumer]
	c := command.Ours("unpeer").Add("--local-only", "--consumer", consumer, "--remote-cluster-id", string(f.Sides[flows.A].Name()))
	return []command.Command{c.For(string(f.Sides[flows.B].Name()))}
}

// removal is a pair whose lending is removed.
type removal struct {
	pair

	local   bool            // does not touch side B
	nobodys map[string]bool // namespaces of the provider that only this plan removes
}

// unasked lists the provider's namespaces for the consumer that no deletion removes: the provider
// has lost its copy of the map or, since our operator needs both, its copies of the slices. Then
// there is no copy whose deletion would remove them.
func (r removal) unasked() map[string]bool {
	out := map[string]bool{}
	copied := in(r.tenant(r.pro).Namespace, r.lending(r.pro).Slices, func(s *authv1beta1.ResourceSlice) bool { return r.copied(s) })
	if r.asked(r.con) && len(r.maps()) > 0 && (len(r.slices()) > 0 || !r.can(r.pro).NeedSlices) {
		return out // the copies are created again
	}
	asked := map[string]bool{}
	for _, m := range r.lending(r.pro).Maps {
		asked[peering.MapName(&m)] = len(copied) > 0 || !r.can(r.pro).NeedSlices
	}
	for _, ns := range r.Facts.Sides[r.pro].Namespaces {
		if r.lent(&ns) && !asked[ns.Annotations[peering.AnnotationMapped]] {
			out[ns.Name] = true
		}
	}
	return out
}

// unseen refuses a removal that can't read the virtual nodes: their pods would be lost without a
// question, or without a wait for their end.
func (r removal) unseen() (steps []flows.Step) {
	for _, kind := range []string{"Pod", "Node", "ForeignCluster"} {
		if r.asked(r.con) && r.lending(r.con).Hidden[kind] && r.remains() {
			steps = append(steps, flows.Refuse(r.con, flows.CodePermission, "virtual nodes and their pods", flows.FailedAccess,
				fmt.Sprintf("this user may not list all objects of kind %s on %s", kind, r.id(r.con)), r.Facts.AskForRights("--peering")))
		}
	}
	return steps
}

func (r removal) asked(side flows.Side) bool { return side == flows.A || !r.local }

func (r removal) obstacles() []flows.Step {
	for _, side := range []flows.Side{flows.A, flows.B} {
		c := r.Facts.Sides[side]
		if r.asked(side) && !c.Can().Consume && !c.Can().Provide {
			return []flows.Step{flows.Refuse(side, check.Lending, "Liqo", flows.FailedPreflight,
				fmt.Sprintf("%s has no Liqo (%s), whose controllers have to let go of what they made", c.ID, c.Software), command.Hintf("to remove the network alone: %s", r.Facts.Ours("network", "reset")))}
		}
	}
	return nil
}

// steps are in an order that Liqo's controllers can handle.
func (r removal) steps() []flows.Step {
	var steps []flows.Step
	if r.asked(r.con) {
		steps = append(steps, r.leave()...)
	}
	if r.asked(r.pro) {
		if r.asked(r.con) {
			before := slices.Clone(steps)
			for _, s := range r.removeNobodys() {
				steps = append(steps, r.ending(s, "needs the consumer to let go", before))
			}
			steps = append(steps, blockedBy(r.copiesGone(), "needs the consumer to let go", steps...))
		} else {
			steps = append(steps, r.evictConsumer()...)
		}
	}
	if r.asked(r.con) {
		steps = append(steps, r.logOut(steps)...)
	}
	if r.asked(r.pro) {
		steps = append(steps, r.shutOut(steps)...)
	}
	return steps
}

// ending is a deletion that waits for the steps before it.
func (r removal) ending(s flows.Step, why string, before []flows.Step) flows.Step {
	if s.Status == flows.Done {
		return s
	}
	if s.Status == flows.Waiting {
		s.Fix = []command.Hint{command.Hintf("see what holds it: %s", r.Facts.Sides[s.Side].See(s.Object))}
		return s
	}
	return blockedBy(s, why, before...)
}

func (r removal) remove(side flows.Side, what string, o wire.Object, interrupts string) flows.Step {
	return flows.Remove(side, what+"-"+o.GetName(), flows.RefTo(o), o, interrupts)
}

// leave removes the pods from the consumer's virtual nodes, and gives back the resources.
func (r removal) leave() []flows.Step {
	var steps []flows.Step
	if s := r.giveUp(); s != nil {
		steps = append(steps, *s)
	}
	for _, m := range r.members() {
		if m.DeletionTimestamp == nil && !m.Spec.Unschedulable {
			steps = append(steps, flows.Ensure(r.con, "cordon-"+m.Name, m, peering.Node(m.Name, true)))
		}
	}
	steps = append(steps, blockedBy(r.drain(), "needs the node to be cordoned", steps...))
	before := slices.Clone(steps)
	for _, s := range r.slices() {
		steps = append(steps, r.ending(r.remove(r.con, "slice", s, ""), "needs the pods to leave", before))
	}
	before = slices.Clone(steps)
	for _, v := range r.virtualNodes() {
		steps = append(steps, r.ending(r.remove(r.con, "virtual-node", v, ""), "needs the resources to be given back", before))
	}
	steps = append(steps, r.nodesGone())
	before = slices.Clone(steps)
	for _, m := range r.maps() {
		steps = append(steps, r.ending(r.remove(r.con, "map", m, ""), "needs the virtual node to go", before))
	}
	return steps
}

func (r removal) maps() []*offloadingv1beta1.NamespaceMap {
	return in(r.tenant(r.con).Namespace, r.lending(r.con).Maps, func(m *offloadingv1beta1.NamespaceMap) bool {
		return m.Labels[peering.LabelDestination] == string(r.tenant(r.con).Remote) && m.Labels[peering.LabelReplicated] == ""
	})
}

// dead reports whether the consumer's Liqo also treats the provider as gone.
func (r removal) dead() bool {
	state, _ := lending.Reached(r.cluster(r.con))
	return r.local && state != corev1beta1.ConditionStatusEstablished
}

// giveUp marks the provider as gone for good, so that the consumer's Liqo does not wait for it. Our
// operator never waits for it.
func (r removal) giveUp() *flows.Step {
	c := r.cluster(r.con)
	if !r.dead() || c == nil || !r.remains() || r.can(r.con).EndAlone {
		return nil
	}
	s := flows.Ensure(r.con, "give-up", c, peering.Unreachable(c.Name, true))
	s.Interrupts = fmt.Sprintf("what runs on %s is given up: its pods here are deleted without waiting for them to end there", r.id(r.pro))
	return &s
}

func (r removal) remains() bool {
	return len(r.slices())+len(r.virtualNodes())+len(r.maps())+len(r.identities())+len(r.kubeconfigs()) > 0
}

// forgetUnreachable undoes giveUp: otherwise, later lending would be cut off.
func (r removal) forgetUnreachable(done bool) []flows.Step {
	c := r.cluster(r.con)
	if !r.asked(r.con) || c == nil || c.Annotations[peering.AnnotationUnreachable] == "" || !wroteAnnotation(c) && done {
		return nil
	}
	want := peering.Unreachable(c.Name, false)
	s := flows.Ensure(r.con, "unreachable", c, want)
	if !done {
		s = flows.BlockedStep(r.con, flows.Update, "unreachable", flows.RefTo(want), "needs the rest to be gone")
	}
	return []flows.Step{s}
}

func wroteAnnotation(o metav1.Object) bool {
	return slices.ContainsFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == wire.FieldManager && e.FieldsV1 != nil && strings.Contains(string(e.FieldsV1.GetRawBytes()), peering.AnnotationUnreachable)
	})
}

// drain evicts the pods from the virtual nodes. Their controllers create new pods on other nodes.
func (r removal) drain() flows.Step {
	s := flows.Step{ID: flows.IDOf(r.con, "drain"), Side: r.con, Action: flows.Delete, Title: "pods on " + r.nodeName(), Status: flows.Done, Code: ""}
	members := r.members()
	on := func(p *corev1.Pod) bool {
		return slices.ContainsFunc(members, func(m *corev1.Node) bool { return m.Name == p.Spec.NodeName }) && !daemon(p)
	}
	pods, ending := []string{}, 0
	for i := range r.lending(r.con).Pods {
		pod := &r.lending(r.con).Pods[i]
		switch {
		case !on(pod):
		case pod.DeletionTimestamp != nil:
			ending++
		default:
			pods = append(pods, pod.Namespace+"/"+pod.Name)
			s.Gone = append(s.Gone, pod)
		}
	}
	switch {
	case r.dead() || len(pods)+ending == 0:
		s.Gone = nil
		return s
	case len(pods) > 0:
		s.Status, s.Objects = flows.Ready, s.Gone
		s.Interrupts = fmt.Sprintf("%s on %s ends; whoever made it starts another one elsewhere", pods[0], r.nodeName())
		if len(pods) > 1 {
			s.Interrupts = fmt.Sprintf("%d pods on %s end; whoever made them starts others elsewhere", len(pods), r.nodeName())
		}
		s.Reason = "evicted as PodDisruptionBudgets allow: " + some(pods)
		s.Fix = []command.Hint{command.Hintf("a budget that allows no eviction holds a pod for ever: %s", r.Facts.Sides[r.con].Kubectl("get", "poddisruptionbudgets", "-A"))}
	default:
		s.Status, s.Code, s.Reason = flows.Waiting, check.Drain, fmt.Sprintf("pods that are still ending: %d", ending)
		s.Fix = []command.Hint{command.Hintf("see: %s", r.Facts.Sides[r.con].Kubectl("get", "pods", "-A", "--field-selector", "spec.nodeName="+r.nodeName()))}
	}
	return s
}

// named is the largest number of names in a sentence.
const named = 3

func some(names []string) string {
	if len(names) > named {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:named], ", "), len(names)-named)
	}
	return strings.Join(names, ", ")
}

func daemon(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "DaemonSet" || o.Kind == "Node" })
}

// nodesGone waits until the objects that the VirtualNodes created are gone.
func (r removal) nodesGone() flows.Step {
	s := r.wait(r.con, "node-gone", "Node is gone", check.VirtualNode)
	switch nodes, kubelets := len(r.members()), len(r.kubelets()); {
	case len(r.virtualNodes()) > 0:
		s.Status, s.Reason = flows.Blocked, "needs the VirtualNode to be deleted"
	case nodes+kubelets > 0:
		s.Reason, s.Fix = fmt.Sprintf("waiting for %s to remove the Node and its Deployment", r.program(r.con)), []command.Hint{r.readLog(r.con, manager)}
	default:
		s.Status = flows.Done
	}
	return s
}

// copiesGone waits until no object of the consumer is left on the provider.
func (r removal) copiesGone() flows.Step {
	s := r.wait(r.pro, "copies-gone", fmt.Sprintf("nothing of %s is left", r.id(r.con)), flows.CodeDeletion)
	if left := r.left(); len(left) > 0 {
		s.Reason, s.Fix = "still there: "+some(left), []command.Hint{r.readLog(r.con, replicator)}
	} else {
		s.Status = flows.Done
	}
	return s
}

func (r removal) left() (names []string) {
	for _, o := range r.copies() {
		names = append(names, flows.RefTo(o).Title())
	}
	for _, ns := range r.Facts.Sides[r.pro].Namespaces {
		if r.lent(&ns) {
			name := "Namespace " + ns.Name
			if why := wire.Stays(&ns); why != "" && ns.DeletionTimestamp != nil {
				name += " (" + why + ")"
			}
			names = append(names, name)
		}
	}
	return names
}

// lent reports whether a namespace of the provider was created for the consumer.
func (r removal) lent(ns *corev1.Namespace) bool {
	return strings.HasPrefix(ns.Annotations[peering.AnnotationMapped], r.tenant(r.pro).Namespace+"/")
}

// copies lists the provider's copies of the consumer's requests. Those for its access are removed
// with the access.
func (r removal) copies() (all []wire.Object) {
	namespace, l := r.tenant(r.pro).Namespace, r.lending(r.pro)
	for _, m := range in(namespace, l.Maps, func(m *offloadingv1beta1.NamespaceMap) bool { return r.copied(m) }) {
		all = append(all, m)
	}
	for _, s := range in(namespace, l.Slices, func(s *authv1beta1.ResourceSlice) bool { return r.copied(s) }) {
		all = append(all, s)
	}
	return all
}

// evictConsumer removes the objects that a consumer has left on the provider and will never remove.
func (r removal) evictConsumer() []flows.Step {
	var steps []flows.Step
	interrupts := ""
	for _, ns := range r.Facts.Sides[r.pro].Namespaces {
		if r.lent(&ns) {
			interrupts = r.podsEnd()
		}
	}
	for _, o := range r.copies() {
		steps = append(steps, r.ending(r.remove(r.pro, strings.ToLower(flows.RefTo(o).Kind), o, interrupts), "", nil))
	}
	for _, o := range in(r.tenant(r.pro).Namespace, r.lending(r.pro).Renews, func(o *authv1beta1.Renew) bool { return r.copied(o) }) {
		steps = append(steps, r.ending(r.remove(r.pro, "renew", o, ""), "", nil))
	}
	steps = append(steps, r.removeNobodys()...)
	return append(steps, blockedBy(r.copiesGone(), "needs the deletions", steps...))
}

// removeNobodys removes the namespaces that no other program removes.
func (r removal) removeNobodys() (steps []flows.Step) {
	for _, ns := range r.Facts.Sides[r.pro].Namespaces {
		if r.nobodys[ns.Name] && r.lent(&ns) {
			steps = append(steps, r.ending(r.remove(r.pro, "namespace", &ns, r.podsEnd()), "", nil))
		}
	}
	return steps
}

func (r removal) podsEnd() string {
	return fmt.Sprintf("the pods that %s runs on %s are deleted, with everything in their namespaces", r.id(r.con), r.id(r.pro))
}

// kubeconfigs lists the Secrets with the consumer's access.
func (r removal) kubeconfigs() []*corev1.Secret {
	return in(r.tenant(r.con).Namespace, r.lending(r.con).Secrets, func(s *corev1.Secret) bool {
		return r.ofPeer(r.con)(s) && s.Labels[peering.LabelIdentityType] != "" && len(s.OwnerReferences) > 0
	})
}

// logOut removes the consumer's access, once no deletion on the provider needs it.
func (r removal) logOut(before []flows.Step) []flows.Step {
	var steps []flows.Step
	for _, i := range r.identities() {
		steps = append(steps, r.ending(r.remove(r.con, "identity", i, ""), "needs the rest to be gone", before))
	}
	s := r.wait(r.con, "access-gone", "access is gone", check.Identity)
	renews := in(r.tenant(r.con).Namespace, r.lending(r.con).Renews, func(o *authv1beta1.Renew) bool {
		return o.Labels[peering.LabelDestination] == string(r.tenant(r.con).Remote) && o.Labels[peering.LabelReplicated] == ""
	})
	switch {
	case len(r.identities()) > 0:
		s.Status, s.Reason = flows.Blocked, "needs the Identity to be deleted"
	case len(renews)+len(r.kubeconfigs()) > 0:
		s.Reason, s.Fix = fmt.Sprintf("waiting for %s to remove the kubeconfig", r.program(r.con)), []command.Hint{r.readLog(r.con, replicator)}
	default:
		s.Status = flows.Done
	}
	steps = append(steps, s)
	if o := r.secret(r.con, peering.LabelSignedNonce); o != nil {
		steps = append(steps, r.ending(r.remove(r.con, "secret", o, ""), "needs the access to be gone", slices.Concat(before, steps)))
	}
	return steps
}

// shutOut removes the provider's Tenant, and then the objects from which it was made.
func (r removal) shutOut(before []flows.Step) []flows.Step {
	var steps []flows.Step
	if t := r.accepted(); t != nil {
		steps = append(steps, r.ending(r.remove(r.pro, "tenant", t, ""), "needs the access to be gone", before))
	}
	before = slices.Concat(before, steps)
	secrets := r.certificates()
	if o := r.secret(r.pro, peering.LabelNonce); o != nil {
		secrets = append(secrets, o)
	}
	for _, o := range secrets {
		steps = append(steps, r.ending(r.remove(r.pro, "secret", o, ""), "needs the Tenant to be gone", before))
	}
	return steps
}

// reverse describes lending in the other direction; "" if there is none.
func (r removal) reverse() string {
	sentence := fmt.Sprintf("%s uses resources of %s", r.id(r.pro), r.id(r.con))
	other := pair{Connection: r.Connection, con: r.pro, pro: r.con}
	switch {
	case r.asked(r.con) && other.accepted() != nil, r.asked(r.pro) && len(other.identities())+len(other.slices())+len(other.virtualNodes()) > 0:
		return sentence
	}
	return ""
}

// stays describes the leftovers, as sentences: Liqo keeps them, or nobody can remove them.
func (r removal) stays() []string {
	var out []string
	if s := r.certificate(peering.CertificateName); s != nil {
		if c, err := peering.Certificate(s.Data[peering.KeyCertificate]); err == nil {
			out = append(out, fmt.Sprintf("the certificates that %s has given %s can't be called back: they are good until %s, and allow nothing as long as %s has no Tenant %s",
				r.id(r.pro), r.id(r.con), c.NotAfter.UTC().Format("2006-01-02"), r.id(r.pro), r.id(r.con)))
		}
	}
	if r.asked(r.con) {
		var namespaces []string
		for _, o := range r.lending(r.con).Offloadings {
			if _, here := o.Status.RemoteNamespacesConditions[string(r.tenant(r.con).Remote)]; here {
				namespaces = append(namespaces, o.Namespace)
			}
		}
		if len(namespaces) > 0 {
			out = append(out, fmt.Sprintf("namespaces stay marked for offloading: %s; %s takes that back", some(namespaces), r.Facts.Sides[r.con].Ours("unoffload", "namespace")))
		}
	}
	for _, side := range []flows.Side{flows.A, flows.B} {
		if c := r.cluster(side); r.asked(side) && c != nil && r.can(side).KeepForeignCluster {
			out = append(out, fmt.Sprintf("Liqo on %s keeps ForeignCluster %s, which says that there is no peering", r.id(side), c.Name))
		}
	}
	return out
}

// Removing is [unplan] for one run. The first plan settles the peer, because after the last
// deletion no object names it.
func Removing(o RemoveOptions) func(flows.Facts) flows.Plan {
	return func(f flows.Facts) flows.Plan {
		p := unplan(&o, f)
		if o.Peer == "" && p.Failure() == nil && len(p.Steps) > 0 {
			o.Peer = p.B
		}
		return p
	}
}
