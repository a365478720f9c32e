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

// RemoveOptions say which lending ends, on which sides, and whether the network stays.
type RemoveOptions struct {
	flows.RemoveOptions

	Consumer flows.Side
	// KeepNetwork keeps the connection of the pod networks.
	KeepNetwork bool

	unmanaged map[string]bool // the result of [removal.findUnmanaged] for the first plan; nil before
}

// unplan returns a plan that removes the objects that Plan creates. First, the pods leave the virtual
// node, while the quota and the access that they need until their end still exist. Then the steps
// remove the resources and the access. The last steps remove the parts of the network that were
// created for lending, unless there is lending in the other direction. The first plan of a run fills
// o.unmanaged, because the run deletes the objects from which it is computed.
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
	if o.unmanaged == nil {
		o.unmanaged = r.findUnmanaged()
	}
	r.unmanaged = o.unmanaged
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
	// The last step removes the mark that the step of markGone has set.
	plan.Steps = append(plan.Steps, r.forgetUnreachable(done)...)
	return plan
}

// network returns the function that plans the removal of the network. It removes only parts that were
// created for lending; nil if the whole network stays. The text stays names the kept parts, with the
// reason; "" if there are none.
func (r removal) network(o RemoveOptions) (remove func(flows.RemoveOptions, flows.Facts) flows.Plan, stays string) {
	const all = "the network between the clusters stays"
	gateways, configurations := r.ForPeering()
	switch other := r.reverse(); {
	case o.KeepNetwork:
		return nil, all
	case other != "":
		return nil, all + ", because " + other
	case !gateways:
		return nil, all + fmt.Sprintf(", because it was there before the peering; to remove it: %s", r.Facts.Ours("network", "reset"))
	case !configurations:
		return flows.PlanDisconnect, fmt.Sprintf("the Configurations of the two clusters stay, because they were there before the peering; to remove them: %s", r.Facts.Ours("network", "reset"))
	}
	return flows.PlanReset, ""
}

// withoutContents clears Facts.Contents, so that the network's plan asks for the contents again after
// the objects of lending are deleted.
func withoutContents(f flows.Facts) flows.Facts {
	f.Contents = [2]flows.Answer[flows.Contents]{}
	return f
}

// networkOf returns facts without lending. The steps for the network come after the end of lending,
// so they are planned as if it had ended already.
func networkOf(f flows.Facts) flows.Facts {
	f.Sides[flows.A].Lending, f.Sides[flows.B].Lending = nil, nil
	return f
}

// behind blocks the steps that remove the network, until the steps that end lending are done.
func behind(steps []flows.Step, done bool) []flows.Step {
	if done {
		return steps
	}
	for i := range steps {
		s := &steps[i]
		s.Asks = nil
		if s.Status == flows.Ready || s.Status == flows.Waiting {
			s.Status, s.Reason, s.Objects = flows.Blocked, "needs the lending to end", nil
		}
	}
	return steps
}

// owed returns the command that the admin of the other cluster has to run after a removal on one side
// only.
func owed(o RemoveOptions, f flows.Facts) []command.Command {
	if !o.LocalOnly {
		return nil
	}
	consumer := [...]string{"Remote", "Local"}[o.Consumer]
	c := command.Ours("unpeer").Add("--local-only", "--consumer", consumer, "--remote-cluster-id", string(f.Sides[flows.A].Name()))
	return []command.Command{c.For(string(f.Sides[flows.B].Name()))}
}

// removal is a pair of clusters whose lending in one direction ends.
type removal struct {
	pair

	local     bool            // the run changes nothing on side B
	unmanaged map[string]bool // mapped namespaces that no other program removes, by name
}

// findUnmanaged returns the mapped namespaces on the provider that no program will remove, by name. A
// provider removes its mapped namespaces when its copy of the NamespaceMap is deleted. Our operator
// does this only while it also has copies of the ResourceSlices. If the needed copies are already
// gone, and the consumer will not create them again, the namespaces are unmanaged.
func (r removal) findUnmanaged() map[string]bool {
	out := map[string]bool{}
	copied := in(r.tenant(r.pro).Namespace, r.lending(r.pro).Slices, func(s *authv1beta1.ResourceSlice) bool { return r.copied(s) })
	if r.covers(r.con) && len(r.maps()) > 0 && (len(r.slices()) > 0 || !r.can(r.pro).NeedSlices) {
		return out // the consumer's program creates the copies again
	}
	removable := map[string]bool{}
	for _, m := range r.lending(r.pro).Maps {
		removable[peering.MapName(&m)] = len(copied) > 0 || !r.can(r.pro).NeedSlices
	}
	for _, ns := range r.Facts.Sides[r.pro].Namespaces {
		if r.lent(&ns) && !removable[ns.Annotations[peering.AnnotationMapped]] {
			out[ns.Name] = true
		}
	}
	return out
}

// unseen returns a failed step if the user may not list the consumer's pods, Nodes or
// ForeignClusters. Without these lists, the plan would find no pods to evict, and delete virtual
// nodes under running pods without asking.
func (r removal) unseen() (steps []flows.Step) {
	for _, kind := range []string{"Pod", "Node", "ForeignCluster"} {
		if r.covers(r.con) && r.lending(r.con).Hidden[kind] && r.remains() {
			steps = append(steps, flows.Refuse(r.con, flows.CodePermission, "virtual nodes and their pods", flows.FailedAccess,
				fmt.Sprintf("this user may not list all objects of kind %s on %s", kind, r.id(r.con)), r.Facts.AskForRights("--peering")))
		}
	}
	return steps
}

// covers reports whether the run changes objects on a side.
func (r removal) covers(side flows.Side) bool { return side == flows.A || !r.local }

// obstacles returns a failed step if a cluster runs no program that can end lending.
func (r removal) obstacles() []flows.Step {
	for _, side := range []flows.Side{flows.A, flows.B} {
		c := r.Facts.Sides[side]
		if r.covers(side) && !c.Can().Consume && !c.Can().Provide {
			return []flows.Step{flows.Refuse(side, check.Lending, "Liqo", flows.FailedPreflight,
				fmt.Sprintf("%s has neither Liqo nor our operator with a part in lending, and only these can end lending (found: %s)", c.ID, c.Software), command.Hintf("to remove only the network: %s", r.Facts.Ours("network", "reset")))}
		}
	}
	return nil
}

// steps returns all steps that end lending. Their order is one that Liqo's controllers can handle.
func (r removal) steps() []flows.Step {
	var steps []flows.Step
	if r.covers(r.con) {
		steps = append(steps, r.leave()...)
	}
	if r.covers(r.pro) {
		if r.covers(r.con) {
			before := slices.Clone(steps)
			for _, s := range r.removeUnmanaged() {
				steps = append(steps, r.ending(s, "needs the deletions on the consumer", before))
			}
			steps = append(steps, blockedBy(r.copiesGone(), "needs the deletions on the consumer", steps...))
		} else {
			steps = append(steps, r.evictConsumer()...)
		}
	}
	if r.covers(r.con) {
		steps = append(steps, r.logOut(steps)...)
	}
	if r.covers(r.pro) {
		steps = append(steps, r.shutOut(steps)...)
	}
	return steps
}

// ending returns the deletion s, blocked with the reason why until the steps in before are done. If
// the object is already being deleted, the step has advice for a slow deletion.
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

// leave returns the steps on the consumer that remove the pods from the virtual nodes, and then the
// virtual nodes and the resources.
func (r removal) leave() []flows.Step {
	var steps []flows.Step
	if s := r.markGone(); s != nil {
		steps = append(steps, *s)
	}
	for _, m := range r.members() {
		if m.DeletionTimestamp == nil && !m.Spec.Unschedulable {
			steps = append(steps, flows.Ensure(r.con, "cordon-"+m.Name, m, peering.Node(m.Name, true)))
		}
	}
	steps = append(steps, blockedBy(r.drain(), "needs the virtual node to be cordoned", steps...))
	before := slices.Clone(steps)
	for _, s := range r.slices() {
		steps = append(steps, r.ending(r.remove(r.con, "slice", s, ""), "needs the pods to leave the virtual node", before))
	}
	before = slices.Clone(steps)
	for _, v := range r.virtualNodes() {
		steps = append(steps, r.ending(r.remove(r.con, "virtual-node", v, ""), "needs the ResourceSlice to be deleted", before))
	}
	steps = append(steps, r.nodesGone())
	before = slices.Clone(steps)
	for _, m := range r.maps() {
		steps = append(steps, r.ending(r.remove(r.con, "map", m, ""), "needs the virtual node to be gone", before))
	}
	return steps
}

// maps returns the NamespaceMaps that the consumer itself has for the provider.
func (r removal) maps() []*offloadingv1beta1.NamespaceMap {
	return in(r.tenant(r.con).Namespace, r.lending(r.con).Maps, func(m *offloadingv1beta1.NamespaceMap) bool {
		return m.Labels[peering.LabelDestination] == string(r.tenant(r.con).Remote) && m.Labels[peering.LabelReplicated] == ""
	})
}

// dead reports whether the run changes only the consumer, and the consumer does not reach the
// provider's API server.
func (r removal) dead() bool {
	state, _ := lending.Reached(r.cluster(r.con))
	return r.local && state != corev1beta1.ConditionStatusEstablished
}

// markGone returns the step that marks the provider as gone for good, so that the consumer's Liqo
// does not wait for the provider; nil if the mark is not needed. Our operator needs no mark: it
// never waits for a provider that does not answer.
func (r removal) markGone() *flows.Step {
	c := r.cluster(r.con)
	if !r.dead() || c == nil || !r.remains() || r.can(r.con).EndAlone {
		return nil
	}
	s := flows.Ensure(r.con, "give-up", c, peering.Unreachable(c.Name, true))
	s.Interrupts = fmt.Sprintf("the pods on the virtual node are deleted at once, even if they still run on %s", r.id(r.pro))
	return &s
}

// remains reports whether the consumer still has objects of this lending.
func (r removal) remains() bool {
	return len(r.slices())+len(r.virtualNodes())+len(r.maps())+len(r.identities())+len(r.kubeconfigs()) > 0
}

// forgetUnreachable returns the step that removes the mark of markGone. With the mark, the consumer's
// Liqo would not work with the provider later. While other steps are left, the step is blocked, and
// returned for any mark. At the end, a step is returned only for our own mark.
func (r removal) forgetUnreachable(done bool) []flows.Step {
	c := r.cluster(r.con)
	if !r.covers(r.con) || c == nil || c.Annotations[peering.AnnotationUnreachable] == "" || !wroteAnnotation(c) && done {
		return nil
	}
	want := peering.Unreachable(c.Name, false)
	s := flows.Ensure(r.con, "unreachable", c, want)
	if !done {
		s = flows.BlockedStep(r.con, flows.Update, "unreachable", flows.RefTo(want), "needs all other steps to be done")
	}
	return []flows.Step{s}
}

// wroteAnnotation reports whether our program wrote the mark of markGone on a ForeignCluster.
func wroteAnnotation(o metav1.Object) bool {
	return slices.ContainsFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == wire.FieldManager && e.FieldsV1 != nil && strings.Contains(string(e.FieldsV1.GetRawBytes()), peering.AnnotationUnreachable)
	})
}

// drain returns the step that evicts the pods from the virtual nodes. The controllers of the pods
// create new pods, which run on other nodes.
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
		s.Interrupts = fmt.Sprintf("pod %s on %s ends; its controller, if it has one, starts a new pod on another node", pods[0], r.nodeName())
		if len(pods) > 1 {
			s.Interrupts = fmt.Sprintf("%d pods on %s end; their controllers, if they have any, start new pods on other nodes", len(pods), r.nodeName())
		}
		s.Reason = "evicts pods when their PodDisruptionBudgets allow it: " + some(pods)
		s.Fix = []command.Hint{command.Hintf("a pod stays as long as its PodDisruptionBudget allows no eviction; to list the budgets: %s", r.Facts.Sides[r.con].Kubectl("get", "poddisruptionbudgets", "-A"))}
	default:
		s.Status, s.Code, s.Reason = flows.Waiting, check.Drain, fmt.Sprintf("pods that have not ended yet: %d", ending)
		s.Fix = []command.Hint{command.Hintf("to list them: %s", r.Facts.Sides[r.con].Kubectl("get", "pods", "-A", "--field-selector", "spec.nodeName="+r.nodeName()))}
	}
	return s
}

// named is the largest number of names in a text of [some].
const named = 3

// some joins names, and counts those after the first few.
func some(names []string) string {
	if len(names) > named {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:named], ", "), len(names)-named)
	}
	return strings.Join(names, ", ")
}

// daemon reports whether a pod belongs to its node, so that an eviction would not move it.
func daemon(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "DaemonSet" || o.Kind == "Node" })
}

// nodesGone returns the step that waits until the consumer's program has deleted the Nodes and
// the virtual kubelets of the VirtualNodes.
func (r removal) nodesGone() flows.Step {
	s := r.wait(r.con, "node-gone", "Node is gone", check.VirtualNode)
	switch nodes, kubelets := len(r.members()), len(r.kubelets()); {
	case len(r.virtualNodes()) > 0:
		s.Status, s.Reason = flows.Blocked, "needs the VirtualNode to be deleted"
	case nodes+kubelets > 0:
		s.Reason, s.Fix = fmt.Sprintf("waiting for %s to delete the Node and its virtual kubelet", r.program(r.con)), []command.Hint{r.readLog(r.con, manager)}
	default:
		s.Status = flows.Done
	}
	return s
}

// copiesGone returns the step that waits until the provider has no copies of the consumer's
// requests, and no mapped namespaces of the consumer.
func (r removal) copiesGone() flows.Step {
	s := r.wait(r.pro, "copies-gone", fmt.Sprintf("objects of %s are gone", r.id(r.con)), flows.CodeDeletion)
	if left := r.left(); len(left) > 0 {
		s.Reason, s.Fix = "still there: "+some(left), []command.Hint{r.readLog(r.con, replicator)}
	} else {
		s.Status = flows.Done
	}
	return s
}

// left names the objects for which copiesGone waits, with the reason if a namespace can't be deleted.
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

// lent reports whether a namespace of the provider is a mapped namespace of the consumer.
func (r removal) lent(ns *corev1.Namespace) bool {
	return strings.HasPrefix(ns.Annotations[peering.AnnotationMapped], r.tenant(r.pro).Namespace+"/")
}

// copies returns the provider's copies of the consumer's NamespaceMaps and ResourceSlices. Copies of
// Renew objects are not included: they are deleted with the access, or by a step of evictConsumer.
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

// evictConsumer returns the steps that remove the consumer's objects from the provider in a run that
// does not change the consumer.
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
	steps = append(steps, r.removeUnmanaged()...)
	return append(steps, blockedBy(r.copiesGone(), "needs the deletions to be done", steps...))
}

// removeUnmanaged returns the steps that delete the mapped namespaces that no program removes.
func (r removal) removeUnmanaged() (steps []flows.Step) {
	for _, ns := range r.Facts.Sides[r.pro].Namespaces {
		if r.unmanaged[ns.Name] && r.lent(&ns) {
			steps = append(steps, r.ending(r.remove(r.pro, "namespace", &ns, r.podsEnd()), "", nil))
		}
	}
	return steps
}

func (r removal) podsEnd() string {
	return fmt.Sprintf("the pods that %s runs on %s are deleted, and everything else in their namespaces", r.id(r.con), r.id(r.pro))
}

func (r removal) kubeconfigs() []*corev1.Secret {
	return in(r.tenant(r.con).Namespace, r.lending(r.con).Secrets, func(s *corev1.Secret) bool {
		return r.ofPeer(r.con)(s) && s.Labels[peering.LabelIdentityType] != "" && len(s.OwnerReferences) > 0
	})
}

// logOut returns the steps that remove the consumer's access. They come after the steps in before,
// because the deletions on the provider need the access.
func (r removal) logOut(before []flows.Step) []flows.Step {
	var steps []flows.Step
	for _, i := range r.identities() {
		steps = append(steps, r.ending(r.remove(r.con, "identity", i, ""), "needs the other deletions to be done", before))
	}
	s := r.wait(r.con, "access-gone", "access is gone", check.Identity)
	renews := in(r.tenant(r.con).Namespace, r.lending(r.con).Renews, func(o *authv1beta1.Renew) bool {
		return o.Labels[peering.LabelDestination] == string(r.tenant(r.con).Remote) && o.Labels[peering.LabelReplicated] == ""
	})
	switch {
	case len(r.identities()) > 0:
		s.Status, s.Reason = flows.Blocked, "needs the Identity to be deleted"
	case len(renews)+len(r.kubeconfigs()) > 0:
		s.Reason, s.Fix = fmt.Sprintf("waiting for %s to delete the kubeconfig for the provider", r.program(r.con)), []command.Hint{r.readLog(r.con, replicator)}
	default:
		s.Status = flows.Done
	}
	steps = append(steps, s)
	if o := r.secret(r.con, peering.LabelSignedNonce); o != nil {
		steps = append(steps, r.ending(r.remove(r.con, "secret", o, ""), "needs the access to be gone", slices.Concat(before, steps)))
	}
	return steps
}

// shutOut returns the steps that remove the provider's Tenant, and then the Secrets from which the
// Tenant was made.
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

// reverse returns a sentence about lending in the other direction; "" if there is none.
func (r removal) reverse() string {
	sentence := fmt.Sprintf("%s uses resources of %s", r.id(r.pro), r.id(r.con))
	other := pair{Connection: r.Connection, con: r.pro, pro: r.con}
	switch {
	case r.covers(r.con) && other.accepted() != nil, r.covers(r.pro) && len(other.identities())+len(other.slices())+len(other.virtualNodes()) > 0:
		return sentence
	}
	return ""
}

// stays returns a sentence for each kind of object that the run keeps: certificates, the marks of
// offloaded namespaces, and the ForeignClusters that Liqo keeps.
func (r removal) stays() []string {
	var out []string
	if s := r.certificate(peering.CertificateName); s != nil {
		if c, err := peering.Certificate(s.Data[peering.KeyCertificate]); err == nil {
			out = append(out, fmt.Sprintf("%s can't revoke the certificates that it gave %s; they are valid until %s, but they allow nothing while %s has no Tenant %s",
				r.id(r.pro), r.id(r.con), c.NotAfter.UTC().Format("2006-01-02"), r.id(r.pro), r.id(r.con)))
		}
	}
	if r.covers(r.con) {
		var namespaces []string
		for _, o := range r.lending(r.con).Offloadings {
			if _, here := o.Status.RemoteNamespacesConditions[string(r.tenant(r.con).Remote)]; here {
				namespaces = append(namespaces, o.Namespace)
			}
		}
		if len(namespaces) > 0 {
			out = append(out, fmt.Sprintf("these namespaces stay marked for offloading: %s; to remove a mark: %s", some(namespaces), r.Facts.Sides[r.con].Ours("unoffload", "namespace").Add(namespaces...)))
		}
	}
	for _, side := range []flows.Side{flows.A, flows.B} {
		if c := r.cluster(side); r.covers(side) && c != nil && r.can(side).KeepForeignCluster {
			out = append(out, fmt.Sprintf("Liqo on %s keeps ForeignCluster %s, which says that there is no peering", r.id(side), c.Name))
		}
	}
	return out
}

// Removal is the goal of two clusters of which one no longer uses resources of the other.
type Removal struct{ RemoveOptions }

// Settle implements [flows.Goal]. The first plan determines the peer, because after the last deletion no
// object names the peer.
func (r Removal) Settle(f flows.Facts) flows.Goal {
	if r.Peer == "" || r.unmanaged == nil {
		if p := unplan(&r.RemoveOptions, f); r.Peer == "" && p.Failure() == nil && len(p.Steps) > 0 {
			r.Peer = p.B
		}
	}
	return r
}

// Plan implements [flows.Goal].
func (r Removal) Plan(f flows.Facts) flows.Plan { return unplan(&r.RemoveOptions, f) }
