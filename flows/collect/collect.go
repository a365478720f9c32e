// Package collect turns the objects of a cluster into facts. It is pure: the same objects give the
// same facts, whether the cluster is real or simulated.
package collect

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// Collection keeps objects of one cluster between [Collection.Add] and [Collection.Finish]. Finish makes
// further facts from these objects, but the facts do not contain them. The zero value is ready to use.
type Collection struct {
	deployment *appsv1.Deployment    // Liqo's controller-manager, or our operator
	pods       []*corev1.Pod         // pods in the namespace of the installation
	identity   *corev1.ConfigMap     // the ConfigMap with the cluster's ID
	agents     map[string]netip.Addr // by node: the node address that the node's agent uses
	undecided  string                // the reason that one of the cluster's Networks has no range yet
}

// Add adds the facts that follow from one object. The caller passes the objects of each kind in
// sorted order. Neither the caller nor this package may change the object later: facts share
// maps and slices with it, and the collection keeps some objects as pointers.
func (all *Collection) Add(f *flows.ClusterFacts, o wire.Object) {
	switch o := o.(type) {
	case *corev1.Namespace:
		f.Namespaces = append(f.Namespaces, *o)
	case *corev1.ConfigMap:
		if node, gateways, ok := wire.ParseUnreached(o); ok {
			if len(gateways) > 0 {
				f.Unreached = append(f.Unreached, flows.UnreachedFacts{Node: node, Gateways: gateways})
			}
			return
		}
		all.identity, f.ID = o, wire.ClusterID(o.Data[wire.ClusterIDKey])
	case *rbacv1.ClusterRoleBinding:
		elsewhere(f, flows.Operator, bound(o))
	case *appsv1.Deployment:
		if o.Namespace != f.Namespace {
			elsewhere(f, SoftwareOf(o), o.Namespace)
		} else if software := SoftwareOf(o); software > f.Software {
			f.Software, all.deployment = software, o
		}
	case *corev1.Pod:
		switch {
		case o.Labels[wire.LabelComponent] == "gateway":
			f.Pods = append(f.Pods, Pod(o))
		case o.Labels["component"] == APIServer && o.Namespace == metav1.NamespaceSystem:
			f.NodePorts = nodePorts(o)
		default:
			all.pods = append(all.pods, o)
		}
	case *corev1.Node:
		f.Nodes = append(f.Nodes, nodeFacts(o))
	case *networkingv1beta1.InternalNode:
		f.Agents = append(f.Agents, o.Name)
		if ip, err := netip.ParseAddr(string(o.Spec.Interface.Node.IP)); err == nil {
			if all.agents == nil {
				all.agents = map[string]netip.Addr{}
			}
			all.agents[o.Name] = ip
		}
		if status, err := wire.ParseNodeStatus(o.Annotations); err == nil { // an unreadable report counts as no report
			if f.AgentStatus == nil {
				f.AgentStatus = map[string]wire.NodeStatus{}
			}
			f.AgentStatus[o.Name] = status
		}
	case *corev1.Service:
		switch {
		case o.Spec.Type != corev1.ServiceTypeLoadBalancer:
		case len(o.Status.LoadBalancer.Ingress) > 0:
			f.LoadBalancers.Answered++
		default:
			f.LoadBalancers.Pending++
		}
		for _, p := range slices.Concat(o.Spec.Ports, []corev1.ServicePort{{NodePort: o.Spec.HealthCheckNodePort}}) {
			if p.NodePort != 0 {
				f.UsedPorts = append(f.UsedPorts, flows.UsedPort{Port: uint16(p.NodePort), Namespace: o.Namespace, Name: o.Name})
			}
		}
	case *ipamv1alpha1.Network:
		addNetwork(f, o)
		if why := o.Annotations[wire.AnnotationProblem]; why != "" && o.Status.CIDR == "" && o.Namespace == f.Namespace {
			all.undecided = why
		}
	case *unstructured.Unstructured:
		f.Templates = append(f.Templates, flows.TemplateFacts{
			Kind: o.GetKind(), TemplateRef: render.TemplateRef{Name: o.GetName(), Namespace: o.GetNamespace()}, Ours: render.RunsOurTunnel(o),
		})
	case *networkingv1beta1.Configuration:
		f.Configurations = append(f.Configurations, *o)
	case *networkingv1beta1.GatewayServer:
		f.Servers = append(f.Servers, *o)
	case *networkingv1beta1.GatewayClient:
		f.Clients = append(f.Clients, *o)
	case *networkingv1beta1.PublicKey:
		f.PublicKeys = append(f.PublicKeys, *o)
	case *networkingv1beta1.Connection:
		f.Connections = append(f.Connections, *o)
	}
}

// Grow reserves memory for the facts about the objects of one kind. Without it, the facts of a
// cluster with thousands of peers would be copied several times while their slices grow.
func Grow[O wire.Object](f *flows.ClusterFacts, objects []O) {
	if len(objects) == 0 {
		return
	}
	n := len(objects)
	switch any(objects[0]).(type) {
	case *corev1.Namespace:
		f.Namespaces = slices.Grow(f.Namespaces, n)
	case *corev1.Pod:
		f.Pods = slices.Grow(f.Pods, n)
	case *networkingv1beta1.Configuration:
		f.Configurations = slices.Grow(f.Configurations, n)
	case *networkingv1beta1.GatewayServer:
		f.Servers = slices.Grow(f.Servers, n)
	case *networkingv1beta1.GatewayClient:
		f.Clients = slices.Grow(f.Clients, n)
	case *networkingv1beta1.PublicKey:
		f.PublicKeys = slices.Grow(f.PublicKeys, n)
	case *networkingv1beta1.Connection:
		f.Connections = slices.Grow(f.Connections, n)
	}
}

// Finish adds the facts that follow from several objects together. It is called after the last Add.
func (all *Collection) Finish(f *flows.ClusterFacts) {
	if f.UID == "" && all.identity != nil {
		// The user has no right to read the namespace kube-system. The UID of the ConfigMap stands in
		// for the namespace's UID, but only for comparison with a cluster where the user lacks the same
		// right.
		f.UID, f.UIDStandsIn = string(all.identity.UID), true
	}
	if all.deployment != nil {
		f.Operator = all.operator()
		told := render.OperatorParams(all.deployment)
		f.Operator.Peering, f.Operator.APIServer, f.Operator.Services = told.Peering, told.APIServer, told.Services == render.On
		for _, pool := range told.Pools {
			f.Pools = append(f.Pools, networkingv1beta1.CIDR(pool))
		}
	}
	slices.Sort(f.Taken)
	all.moved(f)
	all.unattended(f)
}

// unattended adds the nodes that have an InternalNode, but no ready agent. An InternalNode stays
// when the agent of its node ends.
func (all *Collection) unattended(f *flows.ClusterFacts) {
	ready := map[string]bool{}
	for _, p := range all.pods {
		if p.Labels[wire.LabelAppName] == wire.FabricName && Pod(p).Ready {
			ready[p.Spec.NodeName] = true
		}
	}
	for _, node := range f.Agents {
		if !ready[node] && !f.AttendanceUnknown {
			f.Unattended = append(f.Unattended, node)
		}
	}
}

// moved adds a problem to each node whose agent uses an address that the Node does not have any
// more. The agent ends when it notices the loss of the address, and starts again with the new
// address. Before the new start, gateways send to the old address, and the agent's report is out
// of date.
func (all *Collection) moved(f *flows.ClusterFacts) {
	for _, n := range f.Nodes {
		ip, ok := all.agents[n.Name]
		has := slices.Concat(n.Internal, n.External)
		if !ok || len(has) == 0 || slices.Contains(has, ip) {
			continue
		}
		if f.AgentStatus == nil {
			f.AgentStatus = map[string]wire.NodeStatus{}
		}
		s := f.AgentStatus[n.Name]
		s.Problem = fmt.Sprintf("its address has changed from %s to %s, and its agent was not started again yet", ip, flows.Joined(addressTexts(has)))
		f.AgentStatus[n.Name] = s
	}
}

func addressTexts(all []netip.Addr) (out []string) {
	for _, a := range all {
		out = append(out, a.String())
	}
	return out
}

// elsewhere records an installation outside of the namespace of the observed installation. If there are
// several such installations, Liqo's counts more than ours.
func elsewhere(f *flows.ClusterFacts, software flows.Software, namespace string) {
	if namespace != "" && namespace != f.Namespace && software > f.Elsewhere.Software {
		f.Elsewhere = flows.ElsewhereFacts{Software: software, Namespace: namespace}
	}
}

// bound returns the namespace of the ServiceAccount to which a binding gives the rights of our programs;
// "" if it is not our binding. After an interrupted installation, the binding may exist without a
// Deployment.
func bound(b *rbacv1.ClusterRoleBinding) string {
	if b.Name != wire.OperatorName && b.Name != wire.FabricName {
		return ""
	}
	for _, s := range b.Subjects {
		if s.Namespace != "" {
			return s.Namespace
		}
	}
	return ""
}

// LiqoManager is the value of the label app.kubernetes.io/name on the Deployment of Liqo's
// controller-manager.
const LiqoManager = "controller-manager"

// SoftwareOf returns the software to which a Deployment belongs: Liqo for its controller-manager,
// Operator for our operator, and NoSoftware for any other Deployment.
func SoftwareOf(d *appsv1.Deployment) flows.Software {
	switch d.Labels[wire.LabelAppName] {
	case wire.OperatorName:
		return flows.Operator
	case LiqoManager:
		if d.Labels[wire.LabelPartOf] == "liqo" {
			return flows.Liqo
		}
	}
	return flows.NoSoftware
}

// operator returns the facts about Liqo's controller-manager or our operator.
func (all *Collection) operator() flows.OperatorFacts {
	d := all.deployment
	var o flows.OperatorFacts
	if containers := d.Spec.Template.Spec.Containers; len(containers) > 0 {
		o.Version = imageTag(containers[0].Image)
	}
	said, ok, err := wire.ParseOperatorStatus(d.Annotations)
	switch {
	case d.Status.AvailableReplicas == 0:
		o.Problem = "Deployment " + d.Namespace + "/" + d.Name + " is not available"
		if why := all.podsWait(d.Spec.Selector); why != "" {
			o.Problem += ": " + why
		}
	case err == nil && ok && said.State != wire.OperatorWorking:
		o.Problem, o.Refuses, o.KeepsRange = said.Message, said.State == wire.OperatorRefusing, said.State == wire.OperatorKeepsRange
		o.Unstated.Pods, o.Unstated.Services = slices.Contains(said.Unstated, wire.NetworkPodCIDR), slices.Contains(said.Unstated, wire.NetworkServiceCIDR)
	case all.undecided != "":
		o.Problem = all.undecided
	}
	return o
}

// podsWait names the first selected pod that is not ready, with the reason; "" if all are ready.
func (all *Collection) podsWait(selector *metav1.LabelSelector) string {
	selected, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return ""
	}
	for _, p := range all.pods {
		if f := Pod(p); selected.Matches(labels.Set(p.Labels)) && !f.Ready {
			return "pod " + f.Name + ": " + cmp.Or(f.Waiting, "it is "+strings.ToLower(string(p.Status.Phase)))
		}
	}
	return ""
}

func imageTag(image string) string {
	image, _, _ = strings.Cut(image, "@")
	name := image[strings.LastIndex(image, "/")+1:] // before the last "/", a ":" begins the port of a registry
	_, tag, _ := strings.Cut(name, ":")
	return tag
}

func addNetwork(f *flows.ClusterFacts, n *ipamv1alpha1.Network) {
	if n.Namespace == f.Namespace && n.Name == wire.NetworkExternalCIDR {
		f.ExternalCIDR = n.Spec.CIDR
	}
	if n.Status.CIDR == "" {
		return
	}
	f.Taken = append(f.Taken, n.Status.CIDR)
	if n.Namespace != f.Namespace {
		return
	}
	switch n.Labels[wire.LabelNetworkType] {
	case wire.NetworkPodCIDR:
		f.Networks.Pod = append(f.Networks.Pod, n.Status.CIDR)
	case wire.NetworkExternalCIDR:
		f.Networks.External = append(f.Networks.External, n.Status.CIDR)
	case wire.NetworkServiceCIDR:
		f.ServiceCIDRs = append(f.ServiceCIDRs, n.Status.CIDR)
	}
}

// Pod returns the facts about a pod, with the reason if the pod waits.
func Pod(p *corev1.Pod) flows.PodFacts {
	f := flows.PodFacts{
		Namespace: p.Namespace, Name: p.Name, Gateway: p.Labels[wire.LabelGatewayName], Node: p.Spec.NodeName,
		Active: p.Labels[wire.LabelActive] == "true",
	}
	for _, cond := range p.Status.Conditions {
		switch {
		case cond.Type == corev1.PodReady:
			f.Ready = cond.Status == corev1.ConditionTrue
		case cond.Type == corev1.PodScheduled && cond.Status == corev1.ConditionFalse:
			f.Waiting = cond.Message
		}
	}
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		f.Restarts = max(f.Restarts, int(s.RestartCount))
		if running := s.State.Running; running != nil && s.RestartCount > 0 && running.StartedAt.After(f.Restarted) {
			f.Restarted = running.StartedAt.Time
		}
		// A container that fails repeatedly may run for a moment between two failures. Even then the pod
		// counts as waiting.
		if last := s.LastTerminationState.Terminated; last != nil && s.RestartCount > 1 && !s.Ready && last.ExitCode != 0 {
			f.Waiting = fmt.Sprintf("container %s has ended %d times, the last time with exit code %d", s.Name, s.RestartCount, last.ExitCode)
			if last.Message != "" {
				f.Waiting += ": " + lastLine(last.Message)
			}
		}
		if f.Waiting == "" && s.State.Waiting != nil && s.State.Waiting.Reason != "PodInitializing" {
			f.Waiting = s.State.Waiting.Reason
			if s.State.Waiting.Message != "" {
				f.Waiting += ": " + s.State.Waiting.Message
			}
			if last := s.LastTerminationState.Terminated; last != nil && last.Message != "" {
				f.Waiting += "; it ended with: " + lastLine(last.Message)
			}
		}
	}
	return f
}

// APIServer is the value of the label "component" on the pods of API servers. kubeadm and some other
// distributions set this label.
const APIServer = "kube-apiserver"

// nodePorts returns the range of node ports from the arguments of an API server's pod. If no argument
// has a range, it returns Kubernetes' default. It returns the zero value for a notation that it does not
// know.
func nodePorts(p *corev1.Pod) flows.PortRange {
	for _, c := range p.Spec.Containers {
		for _, arg := range slices.Concat(c.Command, c.Args) {
			var r flows.PortRange
			if text, ok := strings.CutPrefix(arg, "--service-node-port-range="); ok {
				if n, err := fmt.Sscanf(text, "%d-%d", &r.From, &r.To); n == 2 && err == nil {
					return r
				}
				return flows.PortRange{}
			}
		}
	}
	return flows.PortRange{From: 30000, To: 32767}
}

func nodeFacts(n *corev1.Node) flows.NodeFacts {
	f := flows.NodeFacts{Name: n.Name, Excluded: render.Excluded(n.Labels), Gateway: flows.ParseGatewayMode(n.Annotations[flows.AnnotationGateway])}
	f.Provider, _, _ = strings.Cut(n.Spec.ProviderID, "://")
	f.Kernel, f.Arch, f.CPUs, f.Memory = n.Status.NodeInfo.KernelVersion, n.Status.NodeInfo.Architecture, n.Status.Capacity.Cpu().MilliValue(), n.Status.Capacity.Memory().Value()
	for _, a := range n.Status.Addresses {
		ip, err := netip.ParseAddr(a.Address)
		switch {
		case err != nil || render.VirtualNode(n.Labels):
		case a.Type == corev1.NodeInternalIP:
			f.Internal = append(f.Internal, ip)
		case a.Type == corev1.NodeExternalIP:
			f.External = append(f.External, ip)
		}
	}
	for _, c := range n.Status.Conditions {
		f.Ready = f.Ready || c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}
	return f
}

// lastLine returns the last line of a program's output, in which programs usually write why they end.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(lines[len(lines)-1])
}
