package peer

import (
	"fmt"
	"slices"
	"strings"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/lending"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// lend returns the steps by which the consumer gets resources and a virtual node. The virtual kubelet
// starts after the steps in network, because it reads the addresses of the network only once. The tunnel
// may come up later.
func (p pair) lend(network []flows.Step) []flows.Step {
	if !p.wants(p.params.Slice, true) {
		return nil
	}
	slice := p.resourceSlice(network)
	steps := []flows.Step{slice, p.granted()}
	if !p.wantsNode() {
		return steps
	}
	steps = append(steps, p.virtualNode(), p.ready())
	if m := p.member(p.nodeName()); m != nil && cordonedByUs(m) {
		steps = append(steps, flows.Ensure(p.con, "uncordon", m, peering.Node(m.Name, false)))
	}
	return steps
}

// wants reports whether the admin wants something. choice is the admin's answer, "true" or "false".
// otherwise is the result if choice is "".
func (pair) wants(choice string, otherwise bool) bool {
	return choice == yes || choice == "" && otherwise
}

// wantsNode reports whether the plan makes a virtual node of the resources.
func (p pair) wantsNode() bool {
	live := p.slice()
	return p.wants(p.params.VirtualNode, live == nil || peering.CreatesNode(live))
}

// resourceSlice returns the step that writes the request for resources, after the steps in network.
func (p pair) resourceSlice(network []flows.Step) flows.Step {
	live := p.slice()
	ask := peering.SliceParams{Class: p.params.Class, VirtualNode: p.wantsNode()}
	var were corev1.ResourceList
	if live != nil {
		were = live.Spec.Resources
		if ask.Class == "" {
			ask.Class = string(live.Spec.Class)
		}
	}
	ask.Resources = p.params.resources(were)
	want := peering.ResourceSlice(p.tenant(p.con), ask)
	s := p.BehindNamespace(p.con, flows.Ensure(p.con, stepSlice, live, want))
	if s.Status == flows.Done {
		return s
	}
	return blockedBy(blockedBy(s, "needs the addresses of the network", network...), fmt.Sprintf("needs access to %s", p.id(p.pro)), p.kubeconfig())
}

// deniedTime is how long the plan waits for another answer after a denial. Liqo also denies a request if
// a certificate takes more than 30 s, and then tries again.
const deniedTime = 45 * time.Second

// granted returns the step that waits until the provider has granted the resources.
func (p pair) granted() flows.Step { return p.once("granted", p.makeGranted) }

func (p pair) makeGranted() flows.Step {
	s := p.wait(p.con, "granted", "resources of "+string(p.id(p.pro)), check.Slice)
	live := p.slice()
	if live == nil || live.DeletionTimestamp != nil || !covers(live.Spec.Resources, p.params.resources(nil)) { // the provider has not seen the present request yet
		s.Status, s.Reason = flows.Blocked, "needs the ResourceSlice"
		return s
	}
	copied := first(in(p.tenant(p.pro).Namespace, p.lending(p.pro).Slices, func(o *authv1beta1.ResourceSlice) bool {
		return o.Name == live.Name && p.copied(o)
	}))
	says := live
	if p.can(p.pro).AnswerInCopy {
		says = &authv1beta1.ResourceSlice{}
		if copied != nil && equality.Semantic.DeepEqual(copied.Spec, live.Spec) && peering.Answered(copied) {
			says = copied
		}
	}
	authentication, resources := peering.Condition(says, authv1beta1.ResourceSliceConditionTypeAuthentication), peering.Condition(says, authv1beta1.ResourceSliceConditionTypeResources)
	switch {
	case denied(authentication):
		hint := command.Hintf("if %s has a new key, delete the certificate for the old one: %s", p.id(p.con), p.Kubectl(p.pro, "delete", "secret", peering.SliceCertificateName(live.Name)))
		if p.runsOurs(p.pro) {
			hint = p.readLog(p.pro, manager)
		}
		p.deny(&s, authentication, "does not accept the request for a certificate", hint)
	case denied(resources):
		p.deny(&s, resources, "denies the resources", p.denial(live))
	case authentication == nil || resources == nil:
		reason, fix := p.pending(live, copied, authentication)
		s.Reason, s.Fix = reason, []command.Hint{fix}
	case !equality.Semantic.DeepEqual(says.Status, live.Status):
		s.Reason, s.Fix = fmt.Sprintf("waiting for the answer to arrive on %s", p.id(p.con)), []command.Hint{p.readLog(p.con, replicator)}
	case live.Status.Resources.Cpu().IsZero() || live.Status.Resources.Memory().IsZero():
		s.Fail(flows.FailedConflict, check.Slice, fmt.Sprintf("%s grants %s, but a virtual node needs CPU and memory", p.id(p.pro), lending.Amounts(live.Status.Resources)), command.Text("request both with --cpu and --memory"))
	case isDefault(live) && !covers(live.Status.Resources, live.Spec.Resources):
		s.Reason = fmt.Sprintf("waiting for %s to grant %s; it has granted %s so far", p.id(p.pro), lending.Amounts(live.Spec.Resources), lending.Amounts(live.Status.Resources))
		s.Fix = []command.Hint{p.readLog(p.pro, manager)}
	default:
		s.Status, s.Reason = flows.Done, lending.Amounts(live.Status.Resources)
	}
	return s
}

// isDefault reports whether Liqo itself grants a ResourceSlice.
func isDefault(s *authv1beta1.ResourceSlice) bool {
	return s.Spec.Class == authv1beta1.ResourceSliceClassDefault || s.Spec.Class == authv1beta1.ResourceSliceClassUnknown
}

// covers reports whether exactly the requested amounts were granted.
func covers(granted, asked corev1.ResourceList) bool {
	for name, q := range asked {
		if have := granted[name]; have.Cmp(q) != 0 {
			return false
		}
	}
	return true
}

// denied reports whether a condition of a request says that the provider has denied this part.
func denied(c *authv1beta1.ResourceSliceCondition) bool {
	return c != nil && c.Status == authv1beta1.ResourceSliceConditionDenied
}

// deny writes a denial into the step. The step fails unless the provider may change its answer later.
func (p pair) deny(s *flows.Step, c *authv1beta1.ResourceSliceCondition, what string, fix command.Hint) {
	s.Reason, s.Fix = fmt.Sprintf("%s %s", p.id(p.pro), what), []command.Hint{fix}
	if c.Message != "" {
		s.Reason += ": " + c.Message
	}
	ruled := p.can(p.pro).DenyForGood && c.Type == authv1beta1.ResourceSliceConditionTypeResources // a denied certificate may be accepted a short time after the Tenant
	if ruled || p.since(p.pro, c.LastTransitionTime) > deniedTime || p.refuses() != "" {
		s.Fail(flows.FailedConflict, check.Slice, s.Reason, fix)
	}
}

// refuses returns the state of the consumer's Tenant if the provider grants nothing in this state; else
// "".
func (p pair) refuses() string {
	if t := p.accepted(); t != nil && t.Spec.TenantCondition != "" && t.Spec.TenantCondition != authv1beta1.TenantConditionActive {
		return string(t.Spec.TenantCondition)
	}
	return ""
}

// denial returns the advice if a provider has denied the resources of s.
func (p pair) denial(s *authv1beta1.ResourceSlice) command.Hint {
	if state := p.refuses(); state != "" {
		back := map[string]string{string(authv1beta1.TenantConditionCordoned): "uncordon", string(authv1beta1.TenantConditionDrained): "activate"}[state]
		return command.Hintf("an admin of %s has set tenant %s to %s; to undo that: %s", p.id(p.pro), p.id(p.con), state, command.Of("liqoctl", back, "tenant", string(p.id(p.con))))
	}
	if p.runsOurs(p.pro) {
		return command.Hintf("request less, such as --cpu 1 --memory 1Gi; or an admin of %s lends more: %s, or %s", p.id(p.pro), p.Facts.Sides[p.pro].Ours("install").Flag("--lend", "cpu=AMOUNT"),
			p.Kubectl(p.pro, "annotate", "tenant", string(p.id(p.con)), peering.AnnotationLend+"=cpu=4,memory=8Gi"))
	}
	return command.Hintf("the controller of class %q on %s writes the reason into its ResourceSlice: %s", s.Spec.Class, p.id(p.pro), p.Kubectl(p.pro, "describe", "resourceslice", s.Name))
}

// pending returns the reason that a request has no answer yet, and the advice.
func (p pair) pending(live, copied *authv1beta1.ResourceSlice, authentication *authv1beta1.ResourceSliceCondition) (reason string, fix command.Hint) {
	slow := p.age(p.con, live) > controllerTime
	switch {
	case lending.Refused(live) != "":
		return lending.Refused(live), p.readLog(p.con, replicator)
	case copied == nil && p.runsOurs(p.con):
		return fmt.Sprintf("waiting for the ResourceSlice to arrive on %s", p.id(p.pro)), p.readLog(p.con, replicator)
	case copied == nil && slow && !slices.Contains(live.Finalizers, peering.FinalizerReplicas):
		return fmt.Sprintf("Liqo's crd-replicator on %s does nothing for the ResourceSlice", p.id(p.con)), p.readLog(p.con, replicator)
	case copied == nil:
		return fmt.Sprintf("waiting for the ResourceSlice to arrive on %s", p.id(p.pro)), command.Hintf("%s; usually, it has no right to write there", p.readLog(p.con, replicator))
	case authentication == nil:
		return fmt.Sprintf("waiting for %s to answer", p.id(p.pro)), p.readLog(p.pro, manager)
	case slow:
		return fmt.Sprintf("%s has not decided yet; is there a controller for class %q?", p.id(p.pro), live.Spec.Class), command.Hintf("choose another --resource-slice-class, or %s", p.readLog(p.pro, manager))
	}
	return fmt.Sprintf("waiting for %s to grant the resources", p.id(p.pro)), p.readLog(p.pro, manager)
}

func (p pair) virtualNodes() []*offloadingv1beta1.VirtualNode {
	return in(p.tenant(p.con).Namespace, p.lending(p.con).Nodes, func(v *offloadingv1beta1.VirtualNode) bool {
		return p.ofPeer(p.con)(v) && string(v.Spec.ClusterID) == string(p.tenant(p.con).Remote)
	})
}

// kubelets returns the Deployments of the provider's virtual kubelets.
func (p pair) kubelets() []*appsv1.Deployment {
	return in(p.tenant(p.con).Namespace, p.lending(p.con).Kubelets, func(d *appsv1.Deployment) bool { return p.ofPeer(p.con)(d) })
}

// members returns the Nodes of the provider's virtual nodes.
func (p pair) members() []*corev1.Node {
	return in("", p.lending(p.con).Members, func(n *corev1.Node) bool { return p.ofPeer(p.con)(n) })
}

func (p pair) member(name string) *corev1.Node {
	return first(slices.DeleteFunc(p.members(), func(n *corev1.Node) bool { return n.Name != name }))
}

// virtualNode returns the step that waits until the virtual kubelet runs. It looks at the virtual
// kubelet's Deployment, because the VirtualNode's status only says that the Deployment was written.
func (p pair) virtualNode() flows.Step { return p.once("virtualNode", p.makeVirtualNode) }

func (p pair) makeVirtualNode() flows.Step {
	s := p.wait(p.con, "virtual-node", "virtual node "+p.nodeName(), check.VirtualNode)
	all := slices.DeleteFunc(p.virtualNodes(), func(v *offloadingv1beta1.VirtualNode) bool { return v.Name != p.nodeName() })
	kubelet := first(slices.DeleteFunc(p.kubelets(), func(d *appsv1.Deployment) bool { return d.Labels[peering.LabelVirtualNode] != p.nodeName() }))
	switch {
	case p.granted().Status != flows.Done:
		s.Status, s.Reason = flows.Blocked, "needs the resources"
	case len(all) == 0:
		s.Reason, s.Fix = fmt.Sprintf("waiting for %s to make the VirtualNode", p.program(p.con)), []command.Hint{p.readLog(p.con, manager)}
	case kubelet == nil:
		s.Reason, s.Fix = fmt.Sprintf("waiting for %s to make the virtual kubelet's Deployment", p.program(p.con)), []command.Hint{p.readLog(p.con, manager)}
		if why := all[0].Annotations[wire.AnnotationProblem]; strings.HasPrefix(why, wire.ProblemRefused) {
			s.Fail(flows.FailedConflict, check.VirtualNode, why, s.Fix...)
		}
	case kubelet.Status.AvailableReplicas == 0:
		s.Reason = "the virtual kubelet's pod does not run yet"
		if why := p.lending(p.con).Waiting[kubelet.Namespace+"/"+p.nodeName()]; why != "" {
			s.Reason = why
		}
		s.Fix = []command.Hint{command.Hintf("to see its state: %s", p.Kubectl(p.con, "describe", "pods", "-l", peering.LabelVirtualNode+"="+p.nodeName()))}
	default:
		s.Status = flows.Done
	}
	return s
}

// ready returns the step that waits until the Node is ready, with the granted resources.
func (p pair) ready() flows.Step { return p.once("ready", p.makeReady) }

func (p pair) makeReady() flows.Step {
	s := p.wait(p.con, "node-ready", "Node "+p.nodeName(), check.VirtualNode)
	m := p.member(p.nodeName())
	s.Fix = []command.Hint{command.Hintf("read the virtual kubelet's log: %s", p.Kubectl(p.con, "logs", "-l", peering.LabelVirtualNode+"="+p.nodeName()))}
	switch {
	case p.virtualNode().Status != flows.Done:
		s.Status, s.Reason, s.Fix = flows.Blocked, "needs the virtual node", nil
	case m == nil:
		s.Reason = "waiting for the Node"
	case lending.NodeCondition(m, corev1.NodeNetworkUnavailable) == corev1.ConditionTrue:
		s.Reason = fmt.Sprintf("its network is unavailable, because the tunnel to %s does not work, or Liqo has not noticed yet that it works", p.id(p.pro))
		s.Fix = []command.Hint{command.Hintf("see what is broken: %s", p.Facts.Ours("check"))}
	case lending.NodeCondition(m, corev1.NodeReady) != corev1.ConditionTrue:
		s.Reason = strings.TrimSuffix("it is not ready: "+lending.NodeMessage(m, corev1.NodeReady), ": ")
	case !grants(m, p.slice()):
		s.Reason = "it does not have the granted resources yet"
	default:
		s.Status, s.Reason = flows.Done, "Ready with "+lending.Amounts(offered(m))
		if m.Spec.Unschedulable && !cordonedByUs(m) {
			s.Reason += "; it is cordoned, so no new pods run there"
		}
	}
	return s
}

// grants reports whether a Node offers the resources that the provider has granted to the ResourceSlice.
func grants(m *corev1.Node, s *authv1beta1.ResourceSlice) bool {
	has := offered(m)
	return !has.Cpu().IsZero() && (s == nil || covers(has, s.Status.Resources))
}

// offered returns the resources of a Node: its capacity if it has one. The allocatable resources may
// lack the pods, because our virtual nodes report none while they can run none.
func offered(m *corev1.Node) corev1.ResourceList {
	if len(m.Status.Capacity) > 0 {
		return m.Status.Capacity
	}
	return m.Status.Allocatable
}

// cordonedByUs reports whether this program cordoned a Node, to remove it.
func cordonedByUs(n *corev1.Node) bool {
	return slices.ContainsFunc(n.ManagedFields, func(e metav1.ManagedFieldsEntry) bool {
		return e.Manager == wire.FieldManager && e.FieldsV1 != nil && strings.Contains(string(e.FieldsV1.GetRawBytes()), `"f:unschedulable"`)
	})
}
