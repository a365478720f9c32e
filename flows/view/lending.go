package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/lending"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// Lending is what one cluster says of a peering besides the network, in one direction. Its
// fields are texts and figures, so that every reader says the same.
type Lending struct {
	// Role is that of the cluster: it uses the peer's resources, or lends its own.
	Role LendingRole `json:"role"`
	// Authentication says how far the consumer is let in.
	Authentication string `json:"authentication"`
	// Slices are what was asked for, and what became of it.
	Slices []SliceState `json:"slices"`
	// Nodes are the virtual nodes of a consumer.
	Nodes []NodeState `json:"nodes,omitempty"`
	// Pods are those that run with these resources, by phase.
	Pods map[corev1.PodPhase]int `json:"pods"`
	// Quota is what was granted in all, Used what the pods that have not ended request.
	Quota corev1.ResourceList `json:"quota,omitempty"`
	Used  corev1.ResourceList `json:"used,omitempty"`
}

// LendingRole is which end of a peering a cluster is.
type LendingRole string

// The two ends.
const (
	Consumer LendingRole = "consumer"
	Provider LendingRole = "provider"
)

// SliceState is one ResourceSlice.
type SliceState struct {
	Name  string `json:"name"`
	State string `json:"state"` // granted, denied, pending
}

// NodeState is one virtual node.
type NodeState struct {
	Name  string `json:"name"`
	State string `json:"state"` // Ready, or why not
}

// Lendings are the peerings with a peer besides the network: as consumer, as provider,
// both or none.
func Lendings(c flows.ClusterFacts, peer render.ClusterID) []Lending {
	if c.Lending == nil {
		return nil
	}
	l := lent{c.Lending, peer}
	return slices.Concat(l.consumer(), l.provider())
}

type lent struct {
	*lending.Facts

	peer render.ClusterID
}

func (l lent) ofPeer(o metav1.Object) bool {
	return o.GetLabels()[render.LabelRemoteCluster] == string(l.peer)
}

// consumer is what there is if the cluster uses the peer's resources.
func (l lent) consumer() []Lending {
	out := Lending{Role: Consumer, Pods: map[corev1.PodPhase]int{}}
	there := false
	for i := range l.Identities {
		if o := &l.Identities[i]; string(o.Spec.ClusterID) == string(l.peer) && o.Spec.Type == authv1beta1.ControlPlaneIdentityType {
			there, out.Authentication = true, l.access(o)
		}
	}
	there = l.addSlices(&out, func(s *authv1beta1.ResourceSlice) bool {
		return s.Labels[peering.LabelDestination] == string(l.peer) && s.Labels[peering.LabelReplicated] == ""
	}) || there
	nodes := map[string]bool{}
	for i := range l.Members {
		if n := &l.Members[i]; l.ofPeer(n) {
			there, nodes[n.Name] = true, true
			out.Nodes = append(out.Nodes, NodeState{n.Name, nodeState(n)})
		}
	}
	for i := range l.Nodes {
		if v := &l.Nodes[i]; string(v.Spec.ClusterID) == string(l.peer) && !nodes[v.Name] {
			there = true
			out.Nodes = append(out.Nodes, NodeState{v.Name, "not there yet"})
		}
	}
	if !there {
		return nil
	}
	out.Authentication = cmp.Or(out.Authentication, "none")
	l.addPods(&out, func(p *corev1.Pod) bool { return nodes[p.Spec.NodeName] })
	return []Lending{out}
}

// access is how far an Identity leads.
func (l lent) access(i *authv1beta1.Identity) string {
	if i.Status.KubeconfigSecretRef == nil {
		return "waiting for the kubeconfig"
	}
	way := i.Spec.AuthParams.APIServer
	if proxy := i.Spec.AuthParams.ProxyURL; proxy != nil && *proxy != "" {
		way += " through " + *proxy
	}
	for n := range l.Clusters {
		c := &l.Clusters[n]
		if string(c.Spec.ClusterID) != string(l.peer) {
			continue
		}
		switch state, message := lending.Reached(c); {
		case state == corev1beta1.ConditionStatusEstablished:
			return "accepted, reaches " + way
		case state != "":
			return strings.TrimSuffix(fmt.Sprintf("accepted, does not reach %s: %s", way, message), ": ")
		}
	}
	return "accepted, at " + way
}

// provider is what there is if the cluster lends to the peer.
func (l lent) provider() []Lending {
	out := Lending{Role: Provider, Pods: map[corev1.PodPhase]int{}}
	there := false
	for i := range l.Tenants {
		t := &l.Tenants[i]
		if string(t.Spec.ClusterID) != string(l.peer) {
			continue
		}
		there, out.Authentication = true, "accepted"
		switch state := t.Spec.TenantCondition; {
		case t.Status.AuthParams == nil:
			out.Authentication = "not accepted yet"
		case state != "" && state != authv1beta1.TenantConditionActive:
			out.Authentication += ", " + strings.ToLower(string(state)) + " by an admin"
		}
	}
	there = l.addSlices(&out, func(s *authv1beta1.ResourceSlice) bool {
		return s.Labels[peering.LabelReplicated] == "true" && s.Labels[peering.LabelOrigin] == string(l.peer)
	}) || there
	if !there {
		return nil
	}
	out.Authentication = cmp.Or(out.Authentication, "none")
	l.addPods(&out, func(p *corev1.Pod) bool { return p.Labels[peering.LabelPodOrigin] == string(l.peer) })
	return []Lending{out}
}

func (l lent) addSlices(out *Lending, is func(*authv1beta1.ResourceSlice) bool) (there bool) {
	out.Slices = []SliceState{}
	for i := range l.Slices {
		s := &l.Slices[i]
		if !is(s) {
			continue
		}
		there = true
		denied := func(what authv1beta1.ResourceSliceConditionType) bool {
			c := peering.Condition(s, what)
			return c != nil && c.Status == authv1beta1.ResourceSliceConditionDenied
		}
		state := "pending"
		switch {
		case denied(authv1beta1.ResourceSliceConditionTypeAuthentication), denied(authv1beta1.ResourceSliceConditionTypeResources):
			state = "denied"
		case lending.Granted(s):
			state = "granted"
			add(&out.Quota, s.Status.Resources)
		}
		out.Slices = append(out.Slices, SliceState{s.Name, state})
	}
	return there
}

// addPods counts pods, and what they request as a Quota of Liqo counts it.
func (l lent) addPods(out *Lending, is func(*corev1.Pod) bool) {
	for i := range l.Pods {
		p := &l.Pods[i]
		if !is(p) {
			continue
		}
		out.Pods[cmp.Or(p.Status.Phase, corev1.PodPending)]++
		if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
			continue
		}
		add(&out.Used, corev1.ResourceList{corev1.ResourcePods: *resource.NewQuantity(1, resource.DecimalSI)})
		for _, container := range p.Spec.Containers {
			add(&out.Used, container.Resources.Requests)
		}
	}
}

func add(sum *corev1.ResourceList, more corev1.ResourceList) {
	if *sum == nil {
		*sum = corev1.ResourceList{}
	}
	for name, q := range more {
		total := (*sum)[name]
		total.Add(q)
		(*sum)[name] = total
	}
}

func nodeState(n *corev1.Node) string {
	state := "Ready"
	switch {
	case lending.NodeCondition(n, corev1.NodeNetworkUnavailable) == corev1.ConditionTrue:
		state = "network unavailable"
	case lending.NodeCondition(n, corev1.NodeReady) != corev1.ConditionTrue:
		state = "not ready"
	}
	if n.Spec.Unschedulable {
		state += ", cordoned"
	}
	return state
}

// Title says which way it goes, with the names of cluster and peer.
func (l Lending) Title(cluster, peer render.ClusterID) string {
	if l.Role == Consumer {
		return fmt.Sprintf("%s uses resources of %s", cluster, peer)
	}
	return fmt.Sprintf("%s lends resources to %s", cluster, peer)
}

// Healthy reports whether nothing of it waits for anything.
func (l Lending) Healthy() bool {
	return strings.HasPrefix(l.Authentication, "accepted") && !strings.Contains(l.Authentication, "does not reach") &&
		!slices.ContainsFunc(l.Slices, func(s SliceState) bool { return s.State != "granted" }) &&
		!slices.ContainsFunc(l.Nodes, func(n NodeState) bool { return n.State != "Ready" })
}

// Row is a name, and what is said of it.
type Row struct{ Name, Text string }

// Rows are all that is said of it, in words.
func (l Lending) Rows() []Row {
	rows := []Row{{"Access", l.Authentication}}
	for _, s := range l.Slices {
		rows = append(rows, Row{"Slice", s.Name + ": " + s.State})
	}
	for _, n := range l.Nodes {
		rows = append(rows, Row{"Node", n.Name + ": " + n.State})
	}
	if len(l.Quota) > 0 {
		rows = append(rows, Row{"Quota used", l.quotaText()})
	}
	return append(rows, Row{"Pods", l.podText()})
}

func (l Lending) podText() string {
	var parts []string
	for _, phase := range []corev1.PodPhase{corev1.PodRunning, corev1.PodPending, corev1.PodSucceeded, corev1.PodFailed, corev1.PodUnknown} {
		if n := l.Pods[phase]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, strings.ToLower(string(phase))))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}

// quotaText is what is used of each resource that was granted.
func (l Lending) quotaText() string {
	var parts []string
	for name, granted := range l.Quota {
		used := l.Used[name]
		parts = append(parts, fmt.Sprintf("%s %s of %s", name, used.String(), granted.String()))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
