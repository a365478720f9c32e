package consumer

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/internal/offload"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// offloadings are the facts for the plan for offloaded namespaces.
type offloadings struct {
	id      wire.ClusterID
	offered []offloadingv1beta1.NamespaceOffloading // in all namespaces, with the name that Liqo uses
	nodes   []offered
	maps    []offloadingv1beta1.NamespaceMap // this cluster's own
	slices  []authv1beta1.ResourceSlice      // this cluster's own, for providers
	rights  []rbacv1.RoleBinding             // of virtual kubelets, in offloaded namespaces
	taken   map[string]bool                  // namespaces with a RoleBinding of the same name that is not ours
	seen    *control.Deletions
}

// offered is a virtual node that namespaces can be offloaded to.
type offered struct {
	*offloadingv1beta1.VirtualNode

	labels map[string]string   // of its Node
	holds  map[string]struct{} // the namespaces of the pods on it
}

func (o offered) key() types.NamespacedName {
	return types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
}

func (o offered) provider() types.NamespacedName {
	return types.NamespacedName{Namespace: o.Namespace, Name: string(o.Spec.ClusterID)}
}

// handles returns the namespaces whose pods the virtual kubelet handles.
func (o offered) handles() (all []string) {
	for name := range strings.SplitSeq(o.Annotations[peering.AnnotationNamespaces], ",") {
		if name != "" {
			all = append(all, name)
		}
	}
	return all
}

// offloadingPlan is the wanted state of all offloaded namespaces.
type offloadingPlan struct {
	// maps has the wanted mappings of each NamespaceMap. Its keys are the tenant namespace and the
	// provider.
	maps map[types.NamespacedName]map[string]string
	// nodes has, for each namespace, the virtual nodes that may run its pods.
	nodes map[string][]types.NamespacedName
	// namespaces has, for each virtual node, the namespaces whose pods its virtual kubelet handles.
	namespaces map[types.NamespacedName][]string
	labelled   map[string]bool
	statuses   map[types.NamespacedName]offloadingv1beta1.NamespaceOffloadingStatus
	// refused has the reason for each namespace that is not requested from a provider, by the namespace's
	// name here.
	refused map[types.NamespacedName]map[string]string
	// withdrawn are the namespaces that a provider has to delete. left are namespaces that the provider
	// keeps although this cluster has no NamespaceOffloading or no ResourceSlice for them.
	withdrawn, left map[types.NamespacedName][]string
	// leaving means that pods still have to leave virtual nodes.
	leaving bool
}

// plan returns the wanted state. It depends only on o and now, the time of conditions that change.
func (o offloadings) plan(now time.Time) offloadingPlan {
	p := offloadingPlan{
		maps: map[types.NamespacedName]map[string]string{}, nodes: map[string][]types.NamespacedName{}, namespaces: map[types.NamespacedName][]string{},
		labelled: map[string]bool{}, statuses: map[types.NamespacedName]offloadingv1beta1.NamespaceOffloadingStatus{},
		withdrawn: map[types.NamespacedName][]string{}, left: map[types.NamespacedName][]string{},
		refused: o.refused(),
	}
	for i := range o.offered {
		n := &o.offered[i]
		if n.DeletionTimestamp != nil {
			continue
		}
		p.labelled[n.Namespace] = n.Spec.PodOffloadingStrategy != offloadingv1beta1.LocalPodOffloadingStrategyType
		for _, node := range o.nodes {
			m := node.provider()
			if o.taken[n.Namespace] || p.refused[m][n.Namespace] != "" || !selects(n.Spec.ClusterSelector, node.labels) {
				continue
			}
			if p.maps[m] == nil {
				p.maps[m] = map[string]string{}
			}
			p.maps[m][n.Namespace] = peering.RemoteName(n, o.id)
			p.nodes[n.Namespace] = append(p.nodes[n.Namespace], node.key())
			p.namespaces[node.key()] = append(p.namespaces[node.key()], n.Namespace)
		}
	}
	o.keep(p)
	// A virtual kubelet keeps a namespace that is not offloaded any more until the last pod has left, and
	// reports the reason on the pods. It needs its RoleBinding in the namespace for this. The RoleBinding
	// does not exist if the namespace is being deleted.
	for _, node := range o.nodes {
		for _, namespace := range node.handles() {
			if _, holds := node.holds[namespace]; holds && o.may(namespace) && !slices.Contains(p.namespaces[node.key()], namespace) {
				p.nodes[namespace] = append(p.nodes[namespace], node.key())
				p.namespaces[node.key()] = append(p.namespaces[node.key()], namespace)
				p.leaving = true
			}
		}
	}
	// A NamespaceMap without requests stays until the provider has deleted all its mapped namespaces:
	// virtual kubelets read from the map whether pods may run.
	for i := range o.maps {
		m := &o.maps[i]
		key := types.NamespacedName{Namespace: m.Namespace, Name: m.Name}
		if p.maps[key] == nil && (len(m.Status.CurrentMapping) > 0 || len(withdraws(m)) > 0) && !ended(o.seen, o.slices, key) {
			p.maps[key] = map[string]string{}
		}
	}
	byName := func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }
	for _, all := range p.nodes {
		slices.SortFunc(all, byName)
	}
	for _, all := range p.namespaces {
		slices.Sort(all)
	}
	for i := range o.offered {
		p.statuses[types.NamespacedName{Namespace: o.offered[i].Namespace, Name: o.offered[i].Name}] = o.status(&o.offered[i], p, now)
	}
	return p
}

// refused returns the namespaces that are not requested from providers, with the reasons. A provider rejects
// a whole map if it has too many names, or if one name is too long. If there are too many namespaces, already
// requested ones stay, and then the ones that were offloaded first.
func (o offloadings) refused() map[types.NamespacedName]map[string]string {
	out := map[types.NamespacedName]map[string]string{}
	for _, provider := range o.providers() {
		refused := map[string]string{}
		out[provider] = refused
		var asks []*offloadingv1beta1.NamespaceOffloading
		for i := range o.offered {
			n := &o.offered[i]
			selected := slices.ContainsFunc(o.nodes, func(node offered) bool {
				return node.provider() == provider && selects(n.Spec.ClusterSelector, node.labels)
			})
			switch name := peering.RemoteName(n, o.id); {
			case n.DeletionTimestamp != nil || o.taken[n.Namespace] || !selected:
			case len(name) > validation.DNS1123LabelMaxLength:
				refused[n.Namespace] = fmt.Sprintf("%s would have %d letters, and names of namespaces have %d at most: offload it with --namespace-mapping-strategy SelectedName --remote-namespace-name NAME",
					name, len(name), validation.DNS1123LabelMaxLength)
			default:
				asks = append(asks, n)
			}
		}
		isAsked := o.asked(provider)
		slices.SortStableFunc(asks, func(a, b *offloadingv1beta1.NamespaceOffloading) int {
			rank := func(n *offloadingv1beta1.NamespaceOffloading) int {
				if _, is := isAsked[n.Namespace]; is {
					return 0
				}
				return 1
			}
			return cmp.Or(rank(a)-rank(b), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Namespace, b.Namespace))
		})
		for _, n := range asks[min(len(asks), offload.MostMapped):] {
			refused[n.Namespace] = fmt.Sprintf("%d namespaces of one cluster are the most on a provider: unoffload another one", offload.MostMapped)
		}
	}
	return out
}

func (o offloadings) mapOf(provider types.NamespacedName) *offloadingv1beta1.NamespaceMap {
	for i := range o.maps {
		if m := &o.maps[i]; m.Namespace == provider.Namespace && m.Name == provider.Name {
			return m
		}
	}
	return nil
}

// asked returns the namespaces that the present NamespaceMap requests from a provider.
func (o offloadings) asked(provider types.NamespacedName) map[string]string {
	if m := o.mapOf(provider); m != nil {
		return m.Spec.DesiredMapping
	}
	return nil
}

// keep adds the present requests to the plan, until an admin withdraws them. A provider is selected by
// VirtualNodes and the labels of their Nodes, which this operator makes. If they are missing, or were made
// again without an admin's label, no admin has withdrawn anything. The same holds if an admin's own object is
// missing and its deletion was not seen, see [control.Deletions].
func (o offloadings) keep(p offloadingPlan) {
	for i := range o.maps {
		m := &o.maps[i]
		key := types.NamespacedName{Namespace: m.Namespace, Name: m.Name}
		if ended(o.seen, o.slices, key) {
			continue
		}
		said := peering.Withdrawn(m)
		for _, namespace := range slices.Sorted(maps.Keys(m.Spec.DesiredMapping)) {
			if p.maps[key][namespace] != "" {
				continue
			}
			if p.maps[key] == nil {
				p.maps[key] = map[string]string{}
			}
			n := o.offeredIn(namespace)
			if said[namespace] || o.takenBack(n, namespace, key) || p.refused[key][namespace] != "" {
				p.withdrawn[key] = append(p.withdrawn[key], namespace)
				continue
			}
			p.maps[key][namespace] = m.Spec.DesiredMapping[namespace]
			if n == nil || !slices.ContainsFunc(o.slices, func(s authv1beta1.ResourceSlice) bool { return asksProvider(&s, key) }) {
				p.left[key] = append(p.left[key], namespace)
			}
			for _, node := range o.nodes { // the pods of the namespace keep running, too
				if node.provider() == key && slices.Contains(node.handles(), namespace) {
					p.nodes[namespace] = append(p.nodes[namespace], node.key())
					p.namespaces[node.key()] = append(p.namespaces[node.key()], namespace)
				}
			}
		}
	}
}

// withdraws returns the namespaces that a map withdraws. It leaves out withdrawals of single objects.
func withdraws(m *offloadingv1beta1.NamespaceMap) map[string]bool {
	all := peering.Withdrawn(m)
	maps.DeleteFunc(all, func(text string, _ bool) bool {
		_, object := peering.WithdrawnUID(text)
		return object
	})
	return all
}

// offeredIn returns the NamespaceOffloading of a namespace; nil if there is none.
func (o offloadings) offeredIn(namespace string) *offloadingv1beta1.NamespaceOffloading {
	for i := range o.offered {
		if o.offered[i].Namespace == namespace {
			return &o.offered[i]
		}
	}
	return nil
}

// takenBack reports whether an admin has withdrawn a namespace from a provider. It is called only if no
// virtual node of the provider is selected now. A NamespaceOffloading from a backup has no status yet, and
// does not count as changed.
func (o offloadings) takenBack(n *offloadingv1beta1.NamespaceOffloading, namespace string, provider types.NamespacedName) bool {
	if n == nil {
		return o.seen.Has(ofOffloading(namespace))
	}
	changed := n.Status.OffloadingPhase != "" && n.Generation > n.Status.ObservedGeneration
	return n.DeletionTimestamp != nil || o.taken[namespace] ||
		changed && slices.ContainsFunc(o.nodes, func(node offered) bool { return node.provider() == provider })
}

func (o offloadings) may(namespace string) bool {
	return slices.ContainsFunc(o.rights, func(b rbacv1.RoleBinding) bool { return b.Namespace == namespace })
}

// selects reports whether one of the terms matches the labels. A selector without terms matches all.
func selects(s corev1.NodeSelector, has map[string]string) bool {
	return len(s.NodeSelectorTerms) == 0 || slices.ContainsFunc(s.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool {
		return len(t.MatchExpressions)+len(t.MatchFields) > 0 && len(t.MatchFields) == 0 &&
			!slices.ContainsFunc(t.MatchExpressions, func(r corev1.NodeSelectorRequirement) bool { return !meets(r, has) })
	})
}

func meets(r corev1.NodeSelectorRequirement, has map[string]string) bool {
	operator := map[corev1.NodeSelectorOperator]selection.Operator{
		corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn, corev1.NodeSelectorOpExists: selection.Exists,
		corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist, corev1.NodeSelectorOpGt: selection.GreaterThan, corev1.NodeSelectorOpLt: selection.LessThan,
	}[r.Operator]
	requirement, err := labels.NewRequirement(r.Key, operator, r.Values)
	return err == nil && requirement.Matches(labels.Set(has))
}

// status is the status of one NamespaceOffloading, with the reasons and phases that Liqo's controllers use.
func (o offloadings) status(n *offloadingv1beta1.NamespaceOffloading, p offloadingPlan, now time.Time) offloadingv1beta1.NamespaceOffloadingStatus {
	s := offloadingv1beta1.NamespaceOffloadingStatus{RemoteNamespaceName: peering.RemoteName(n, o.id), ObservedGeneration: n.Generation}
	asked, ready, failed := 0, 0, 0
	for _, provider := range o.providers() {
		if p.maps[provider] == nil && !slices.ContainsFunc(o.nodes, func(n offered) bool { return n.provider() == provider }) {
			continue // the provider has no virtual node, and no namespace of this cluster
		}
		required := offloadingv1beta1.RemoteNamespaceCondition{
			Type: offloadingv1beta1.NamespaceOffloadingRequired, Status: corev1.ConditionFalse, Reason: "ClusterNotSelected", Message: "no virtual node of the provider is selected",
		}
		conditions := offloadingv1beta1.RemoteNamespaceConditions{}
		if o.taken[n.Namespace] {
			required.Reason = "RoleBindingTaken"
			required.Message = fmt.Sprintf("namespace %s has a RoleBinding %s that is not the operator's: remove it, or rename it", n.Namespace, wire.OffloadedAccessName)
			asked, failed = asked+1, failed+1
		}
		if why := p.refused[provider][n.Namespace]; why != "" {
			required.Reason, required.Message = "NamespaceRefused", why
			asked, failed = asked+1, failed+1
		}
		if _, is := p.maps[provider][n.Namespace]; is {
			required.Status, required.Reason, required.Message = corev1.ConditionTrue, "ClusterSelected", "a virtual node of the provider is selected"
			c, phase := o.ready(provider, n.Namespace)
			conditions = append(conditions, c)
			asked++
			switch phase {
			case offloadingv1beta1.MappingAccepted:
				ready++
			case offloadingv1beta1.MappingCreationLoopBackOff:
				failed++
			case offloadingv1beta1.MappingTerminating:
			}
		}
		conditions = append(offloadingv1beta1.RemoteNamespaceConditions{required}, conditions...)
		for i := range conditions {
			c := &conditions[i]
			c.LastTransitionTime = metav1.NewTime(now)
			for _, was := range n.Status.RemoteNamespacesConditions[provider.Name] {
				if was.Type == c.Type && was.Status == c.Status && was.Reason == c.Reason {
					c.LastTransitionTime = was.LastTransitionTime
				}
			}
		}
		if s.RemoteNamespacesConditions == nil {
			s.RemoteNamespacesConditions = map[string]offloadingv1beta1.RemoteNamespaceConditions{}
		}
		s.RemoteNamespacesConditions[provider.Name] = conditions
	}
	switch {
	case n.DeletionTimestamp != nil:
		s.OffloadingPhase = offloadingv1beta1.TerminatingOffloadingPhaseType
	case asked == 0:
		s.OffloadingPhase = offloadingv1beta1.NoClusterSelectedOffloadingPhaseType
	case ready == asked:
		s.OffloadingPhase = offloadingv1beta1.ReadyOffloadingPhaseType
	case failed == asked:
		s.OffloadingPhase = offloadingv1beta1.AllFailedOffloadingPhaseType
	case failed > 0:
		s.OffloadingPhase = offloadingv1beta1.SomeFailedOffloadingPhaseType
	default:
		s.OffloadingPhase = offloadingv1beta1.InProgressOffloadingPhaseType
	}
	return s
}

// providers returns the providers of virtual nodes and of ResourceSlices, each with its tenant namespace.
func (o offloadings) providers() []types.NamespacedName {
	all := map[types.NamespacedName]bool{}
	for _, n := range o.nodes {
		all[n.provider()] = true
	}
	for i := range o.slices {
		if s := &o.slices[i]; s.Spec.ProviderClusterID != nil && s.DeletionTimestamp == nil {
			all[types.NamespacedName{Namespace: s.Namespace, Name: string(*s.Spec.ProviderClusterID)}] = true
		}
	}
	return slices.SortedFunc(maps.Keys(all), func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
}

// ready returns the condition and the phase of the mapped namespace, as the provider reports them.
func (o offloadings) ready(provider types.NamespacedName, namespace string) (offloadingv1beta1.RemoteNamespaceCondition, offloadingv1beta1.MappingPhase) {
	c := offloadingv1beta1.RemoteNamespaceCondition{Type: offloadingv1beta1.NamespaceReady, Status: corev1.ConditionFalse, Reason: "Creating", Message: "the provider has not made it yet"}
	var says offloadingv1beta1.RemoteNamespaceStatus
	problem := ""
	for i := range o.maps {
		if m := &o.maps[i]; m.Namespace == provider.Namespace && m.Name == provider.Name {
			says, problem = m.Status.CurrentMapping[namespace], m.Annotations[wire.AnnotationProblem]
		}
	}
	switch says.Phase {
	case offloadingv1beta1.MappingAccepted:
		c.Status, c.Reason, c.Message = corev1.ConditionTrue, "NamespaceCreated", fmt.Sprintf("it is %s there", says.RemoteNamespace)
		return c, says.Phase
	case offloadingv1beta1.MappingCreationLoopBackOff:
		c.Reason, c.Message = string(says.Phase), "the provider can't make it: most often the name is taken"
	case offloadingv1beta1.MappingTerminating:
		c.Reason, c.Message = string(says.Phase), "it is being deleted there"
	}
	c.Message = cmp.Or(problem, c.Message)
	return c, says.Phase
}

func onNode(name string) fields.Selector { return fields.OneTermEqualSelector("spec.nodeName", name) }
