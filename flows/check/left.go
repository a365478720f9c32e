package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/lending"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// lefts are a consumer's unowned objects on its provider, and the parts that can't be read.
type lefts struct {
	found, unseen []string
	withdrawn     map[string]bool // keys for the map's annotation by which the consumer gives up its objects
	fix           []command.Hint
}

// left judges objects of the consumer on the provider that have no counterpart on the consumer. The
// operator reports such namespaces, and virtual kubelets report such objects in namespaces.
func (in diagnosis) left(con flows.Side) Result {
	me, other := in.cluster(con), in.cluster(con.Other())
	if me.Lending == nil {
		return result(Inconclusive, unsaid)
	}
	l := lefts{withdrawn: map[string]bool{}}
	var at *offloadingv1beta1.NamespaceMap
	for i := range me.Lending.Maps {
		if m := &me.Lending.Maps[i]; asked(m, other.ID) {
			at = m
		}
	}
	switch {
	case at != nil:
		l.namespaces(at, me, other.ID)
	case me.Lending.Hidden["NamespaceMap"]:
		l.unseen = append(l.unseen, "NamespaceMaps of "+string(me.ID)+" can't be read")
	case other.Lending == nil || other.Lending.Hidden["NamespaceMap"]:
		l.unseen = append(l.unseen, fmt.Sprintf("%s has no NamespaceMap, and whether %s has one of it can't be read", me.ID, other.ID))
	}
	l.unknown(at, other, me.ID)
	if len(l.withdrawn) > 0 {
		maps.Copy(l.withdrawn, peering.Withdrawn(at))
		l.fix = append(l.fix, command.Hintf("to remove it there, unless a backup brings it back here: %s",
			me.KubectlIn(at.Namespace, "annotate", "namespacemaps.offloading.liqo.io", at.Name, "--overwrite", peering.AnnotationWithdrawn+"="+strings.Join(slices.Sorted(maps.Keys(l.withdrawn)), ","))))
	}
	l.slices(me, other)
	if at != nil || !me.Lending.Hidden["NamespaceMap"] {
		l.mapped(at, me.ID, other)
	}
	switch {
	case len(l.found) > 0:
		r := result(Warn, l.found[0], l.fix...)
		r.Evidence = append(l.found[1:], l.unseen...)
		return r
	case len(l.unseen) > 0:
		r := result(Inconclusive, l.unseen[0])
		r.Evidence = l.unseen[1:]
		return r
	}
	return pass("none")
}

// asked reports whether an object is a request that the consumer itself made to this provider.
func asked(o interface{ GetLabels() map[string]string }, provider wire.ClusterID) bool {
	return o.GetLabels()[peering.LabelDestination] == string(provider) && o.GetLabels()[peering.LabelReplicated] == ""
}

// unknown adds the namespaces that the provider's copy of the map requests and the consumer's map does
// not. The consumer's operator will add them to the map.
func (l *lefts) unknown(at *offloadingv1beta1.NamespaceMap, other flows.ClusterFacts, consumer wire.ClusterID) {
	if other.Lending == nil {
		return
	}
	for i := range other.Lending.Maps {
		c := &other.Lending.Maps[i]
		if c.Labels[peering.LabelReplicated] != "true" || c.Labels[peering.LabelOrigin] != string(consumer) || c.DeletionTimestamp != nil {
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(c.Spec.DesiredMapping)) {
			if at == nil || at.Spec.DesiredMapping[name] == "" && !peering.Withdrawn(at)[name] {
				l.unseen = append(l.unseen, fmt.Sprintf("namespace %s on %s: the operator of %s has not taken it over yet", c.Spec.DesiredMapping[name], other.ID, consumer))
			}
		}
	}
}

// namespaces adds the namespaces that a map keeps, and the unowned objects in all its namespaces.
func (l *lefts) namespaces(m *offloadingv1beta1.NamespaceMap, me flows.ClusterFacts, provider wire.ClusterID) {
	here := me.Lending
	kept := peering.Left(m)
	for _, name := range slices.Sorted(maps.Keys(kept)) {
		l.found = append(l.found, fmt.Sprintf("namespace %s on %s: no NamespaceOffloading in %s, or no ResourceSlice, asks for it any more", m.Spec.DesiredMapping[name], provider, name))
		l.withdrawn[name] = true
	}
	looked := map[string]bool{}
	for i := range here.Nodes {
		if v := &here.Nodes[i]; string(v.Spec.ClusterID) == string(provider) {
			for name := range strings.SplitSeq(v.Annotations[peering.AnnotationNamespaces], ",") {
				looked[name] = true
			}
		}
	}
	var of []string
	for _, name := range slices.Sorted(maps.Keys(m.Spec.DesiredMapping)) {
		switch {
		case kept[name] || m.Status.CurrentMapping[name].Phase != offloadingv1beta1.MappingAccepted:
		case looked[name]:
			of = append(of, name)
		default:
			l.unseen = append(l.unseen, fmt.Sprintf("namespace %s on %s: no virtual node is responsible for it", m.Spec.DesiredMapping[name], provider))
		}
	}
	if len(of) == 0 {
		return
	}
	there := false
	for i := range here.Members {
		if n := &here.Members[i]; n.Labels[wire.LabelRemoteCluster] == string(provider) {
			there = true
			l.node(n, me.ID, provider)
		}
	}
	switch {
	case there:
	case here.Hidden["Node"]:
		l.unseen = append(l.unseen, "Nodes may not be read: they report the objects that are left")
	default:
		l.unseen = append(l.unseen, fmt.Sprintf("there is no Node for %s, which would report the objects that are left", provider))
	}
}

// node adds the report of a virtual kubelet. The report is out of date while the Node is not ready.
func (l *lefts) node(n *corev1.Node, consumer, provider wire.ClusterID) {
	message := lending.NodeMessage(n, peering.ConditionLeftovers)
	ready := lending.NodeCondition(n, corev1.NodeReady) == corev1.ConditionTrue
	status := lending.NodeCondition(n, peering.ConditionLeftovers)
	if !ready || status == corev1.ConditionUnknown || status == "" {
		why := message
		switch {
		case !ready:
			why = "it is not ready"
		case status == "":
			why = "its program is an earlier one"
		}
		l.unseen = append(l.unseen, fmt.Sprintf("Node %s does not know what is left: %s", n.Name, why))
		return
	}
	if status == corev1.ConditionFalse {
		return
	}
	all, more, ok := peering.Leftovers(message)
	if !ok {
		l.unseen = append(l.unseen, fmt.Sprintf("Node %s has a report that this release does not understand: %s", n.Name, message))
		return
	}
	for _, o := range all {
		l.found = append(l.found, fmt.Sprintf("%s %s/%s on %s: the object that it was made from is not on %s", o.Kind, o.Namespace, o.Name, provider, consumer))
		l.withdrawn[peering.WithdrawnObject(o.UID)] = true
	}
	if more > 0 {
		l.found = append(l.found, fmt.Sprintf("%d more on %s: run check again when these are gone", more, provider))
	}
}

// mapped adds the provider's namespaces that no map requests. Such a namespace exists if the provider has
// lost its copy of the map, or has restored one from a backup, and the consumer has given up the namespace
// meanwhile.
func (l *lefts) mapped(at *offloadingv1beta1.NamespaceMap, consumer wire.ClusterID, other flows.ClusterFacts) {
	if other.Lending == nil || other.Lending.Hidden["Namespace"] || other.Lending.Hidden["NamespaceMap"] {
		l.unseen = append(l.unseen, fmt.Sprintf("namespaces or NamespaceMaps of %s can't be read: whether it has one that %s does not ask for is not known", other.ID, consumer))
		return
	}
	for i := range other.Namespaces {
		ns := &other.Namespaces[i]
		original := ns.Annotations[peering.AnnotationOriginal]
		switch {
		case !peering.IsMapped(ns) || ns.Labels[wire.LabelRemoteCluster] != string(consumer) || ns.DeletionTimestamp != nil:
		case at != nil && at.Spec.DesiredMapping[original] == ns.Name: // the map is copied again
		case slices.ContainsFunc(other.Lending.Maps, func(c offloadingv1beta1.NamespaceMap) bool {
			return peering.MapName(&c) == ns.Annotations[peering.AnnotationMapped] && (c.Spec.DesiredMapping[original] == ns.Name || c.Status.CurrentMapping[original].RemoteNamespace == ns.Name)
		}): // the map decides whether the namespace stays
		default:
			l.found = append(l.found, fmt.Sprintf("namespace %s on %s: %s does not ask for it", ns.Name, other.ID, consumer))
			l.fix = append(l.fix, command.Hintf("to remove it there, unless a backup brings back what asks for it: %s", other.Kubectl("delete", "namespace", ns.Name)))
		}
	}
}

// slices adds the ResourceSlices that exist only as a copy on the provider.
func (l *lefts) slices(me, other flows.ClusterFacts) {
	if other.Lending == nil || other.Lending.Hidden["ResourceSlice"] || me.Lending.Hidden["ResourceSlice"] {
		l.unseen = append(l.unseen, fmt.Sprintf("ResourceSlices of both clusters can't be read: whether %s has one that is not on %s is not known", other.ID, me.ID))
		return
	}
	here := map[string]bool{}
	for i := range me.Lending.Slices {
		if s := &me.Lending.Slices[i]; asked(s, other.ID) {
			here[s.Name] = true
		}
	}
	for i := range other.Lending.Slices {
		s := &other.Lending.Slices[i]
		if s.Labels[peering.LabelReplicated] != "true" || s.Labels[peering.LabelOrigin] != string(me.ID) || here[s.Name] || s.DeletionTimestamp != nil {
			continue
		}
		l.found = append(l.found, fmt.Sprintf("ResourceSlice %s/%s on %s: there is none of this name on %s", s.Namespace, s.Name, other.ID, me.ID))
		l.fix = append(l.fix, command.Hintf("to remove it there, unless a backup brings it back here: %s", other.KubectlIn(s.Namespace, "delete", "resourceslices.authentication.liqo.io", s.Name)))
	}
}
