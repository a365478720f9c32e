package services

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// A World holds the facts of a cluster about one name.
type World struct {
	Name types.NamespacedName
	Self wire.ClusterID
	// Export is this cluster's ServiceExport; nil if there is none.
	Export *mcsv1beta1.ServiceExport
	// Own are the slices that [Exported] has made for Export; none if Export is not valid.
	Own []discoveryv1.EndpointSlice
	// Peers have distinct IDs.
	Peers  []Exporter
	Policy Policy
	Never  []netip.Addr // addresses that no endpoint of a peer may have here
	// ImportUID is the UID of the ServiceImport in the cluster; "" if there is none yet.
	ImportUID types.UID
	// Derived is the Service in the cluster with the name of the derived Service; nil if there is none.
	Derived *corev1.Service
}

// An Exporter is a peer that exports the name.
type Exporter struct {
	ID wire.ClusterID
	// Copies are the copies of the peer's slices, as [Admit] makes them. Merge checks the copies again,
	// because an attacker who controls the gateway may have written them.
	Copies []discoveryv1.EndpointSlice
	// Seen returns the address that reaches a pod of the peer from here; false if no address does.
	Seen func(address string) (string, bool)
	// Down says that the path to the peer is broken: the gateway has measured it, or does not report.
	Down bool
}

// Merged holds a cluster's objects for one name. The zero value means that no cluster exports the name.
type Merged struct {
	Import *mcsv1beta1.ServiceImport
	// Service is the derived Service; nil for a headless one. The ServiceImport owns it and the Slices, so
	// both are absent until World.ImportUID is known.
	Service *corev1.Service
	Slices  []discoveryv1.EndpointSlice
	// Conflict is the condition of this cluster's ServiceExport; nil if the cluster exports nothing. Like the
	// conditions of Import, it has no time of transition.
	Conflict *metav1.Condition
}

// A part is the export of one cluster.
type part struct {
	cluster wire.ClusterID
	head    Head
	pieces  []piece
	down    bool
}

// A piece is one slice of a part.
type piece struct {
	name      string // of the object to be written
	head      Head   // the slice's own: while an exporter writes, its slices can differ
	ports     []discoveryv1.EndpointPort
	endpoints []endpoint
	// marks are the annotations of this cluster's own slice, because this slice is also an export; nil
	// for a slice of a peer.
	marks map[string]string
}

// An endpoint has the address by which this cluster reaches it.
type endpoint struct {
	discoveryv1.Endpoint
	home string // its address in its own cluster
}

// Merge decides which objects the cluster has for a name, by the KEP: the oldest ServiceExport decides where
// exporters disagree, and the ports are the union of all ports. Clusters that see the same exports make the
// same decision. The order of the inputs does not matter.
func Merge(w World) Merged {
	parts := partsOf(w)
	if len(parts) == 0 {
		return Merged{}
	}
	winner := &parts[0].head
	ports := union(parts)
	out := Merged{Import: importOf(w, winner, ports, parts)}
	if w.Export != nil && len(w.Own) > 0 {
		out.Conflict = new(conflictOf(w.Export, parts))
	}
	if w.ImportUID == "" {
		return out
	}
	if winner.Type == mcsv1beta1.ClusterSetIP && !taken(w) {
		out.Service = derivedOf(w, winner, ports)
	}
	for i := range parts {
		for j := range parts[i].pieces {
			parts[i].pieces[j].rename(ports)
		}
	}
	for i := range parts {
		instead := replacements(parts, i, w)
		for j := range parts[i].pieces {
			q := &parts[i].pieces[j]
			out.Slices = append(out.Slices, q.slice(w, parts[i].cluster, winner, out.Service, instead.cover(q)))
		}
	}
	slices.SortFunc(out.Slices, byName)
	return out
}

// partsOf returns the exports of all clusters, the oldest ServiceExport first.
func partsOf(w World) (parts []part) {
	add := func(p part) {
		if len(p.pieces) > 0 {
			slices.SortFunc(p.pieces, func(a, b piece) int { return cmp.Compare(a.name, b.name) })
			p.head = p.pieces[0].head
			parts = append(parts, p)
		}
	}
	own := part{cluster: w.Self}
	for i := range w.Own {
		s := &w.Own[i]
		if head, err := ParseHead(s.Annotations[wire.AnnotationServiceHead]); err == nil {
			q := piece{name: s.Name, head: head, ports: s.Ports, marks: s.Annotations}
			for j := range s.Endpoints {
				if e := s.Endpoints[j].DeepCopy(); len(e.Addresses) > 0 {
					q.endpoints = append(q.endpoints, endpoint{*e, e.Addresses[0]})
				}
			}
			own.pieces = append(own.pieces, q)
		}
	}
	add(own)
	for _, x := range w.Peers {
		if x.ID == w.Self || !w.Policy.Imports(w.Name.Namespace, x.ID) {
			continue
		}
		p := part{cluster: x.ID, down: x.Down}
		for i := range x.Copies {
			s := &x.Copies[i]
			head, err := ParseHead(s.Annotations[wire.AnnotationServiceHead])
			if err != nil || CopyOf(s) != w.Name || s.AddressType != discoveryv1.AddressTypeIPv4 {
				continue
			}
			var d dropped // Admit has reported the same
			q := piece{name: sliceName(w.Name, x.ID, s.Name), head: head, ports: d.ports(s.Ports, &head)}
			for _, e := range d.endpoints(s.Endpoints, func(a netip.Addr) bool { _, ok := x.Seen(a.String()); return ok }, nil) {
				home := e.Addresses[0]
				here, _ := x.Seen(home)
				if a, err := netip.ParseAddr(here); err == nil && !slices.Contains(w.Never, a) {
					e.Addresses = []string{here}
					q.endpoints = append(q.endpoints, endpoint{e, home})
				}
			}
			p.pieces = append(p.pieces, q)
		}
		add(p)
	}
	slices.SortFunc(parts, func(a, b part) int {
		return cmp.Or(a.head.Created.Compare(b.head.Created.Time), cmp.Compare(a.cluster, b.cluster))
	})
	return parts
}

// union returns the ports of all parts (KEP, "Service Port"). A port is its number with its protocol. If
// parts name a port differently, the name of the oldest part wins. If this name already belongs to
// another port, the part's entry is left out.
func union(parts []part) []mcsv1beta1.ServicePort {
	out := []mcsv1beta1.ServicePort{} // the API requires a list
	names, keys := map[string]bool{}, map[portKey]bool{}
	for i := range parts {
		for _, p := range parts[i].head.Ports {
			if keys[p.key()] || names[p.Name] || p.InSlices == nil || len(out) == maxPorts {
				continue
			}
			keys[p.key()], names[p.Name] = true, true
			out = append(out, mcsv1beta1.ServicePort{Name: p.Name, Protocol: p.Protocol, Port: p.Number, AppProtocol: p.AppProtocol})
		}
	}
	for i := range out {
		if p := &out[i]; p.Name == "" && len(out) > 1 { // a port may have no name only if there is no other port
			p.Name = fmt.Sprintf("%s-%d", strings.ToLower(string(p.Protocol)), p.Port)
			for names[p.Name] {
				p.Name += "-0"
			}
		}
	}
	return out
}

// rename gives a slice's ports the names of the merged Service's ports. kube-proxy matches the slice
// and the Service by these names. It drops the ports that the merged Service does not have.
func (q *piece) rename(merged []mcsv1beta1.ServicePort) {
	renamed := Head{Ports: slices.Clone(q.head.Ports)}
	for i := range renamed.Ports {
		p := &renamed.Ports[i]
		p.InSlices = nil
		for _, m := range merged {
			if (portKey{m.Port, m.Protocol}) == p.key() {
				p.InSlices = new(m.Name)
			}
		}
	}
	var ports []discoveryv1.EndpointPort
	for i := range q.ports {
		p := q.ports[i].DeepCopy()
		h := q.head.inSlices(p)
		if h == nil {
			continue
		}
		if to := renamed.Ports[slices.IndexFunc(q.head.Ports, func(x Port) bool { return x.key() == h.key() })].InSlices; to != nil {
			p.Name = new(*to)
			ports = append(ports, *p)
		}
	}
	q.ports, q.head.Ports = ports, renamed.Ports
}

// slice returns the slice to write. If withdrawn is true, its endpoints are marked as not ready, so that they
// get no packets.
func (q *piece) slice(w World, cluster wire.ClusterID, winner *Head, derived *corev1.Service, withdrawn bool) discoveryv1.EndpointSlice {
	s := discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.Name.Namespace, Name: q.name,
			Labels: map[string]string{
				mcsv1beta1.LabelServiceName: w.Name.Name, mcsv1beta1.LabelSourceCluster: string(cluster), discoveryv1.LabelManagedBy: wire.ManagedBy,
			},
			OwnerReferences: ownedBy(w),
		},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: q.ports, Endpoints: []discoveryv1.Endpoint{},
	}
	if derived != nil {
		s.Labels[discoveryv1.LabelServiceName] = derived.Name
	} else {
		s.Labels[labelHeadless] = "true" // without it, kube-proxy logs an error about a slice without a Service
	}
	if q.marks != nil {
		s.Annotations = maps.Clone(q.marks)
		if text, err := q.head.Encode(); err == nil { // Exported leaves room for longer names of ports
			s.Annotations[wire.AnnotationServiceHead] = text
		}
	}
	for _, e := range q.endpoints {
		if winner.Type == mcsv1beta1.Headless && e.Hostname == nil {
			e.Hostname = new(hostname(e.home))
		}
		if withdrawn {
			e.Conditions.Ready, e.Conditions.Serving = new(false), new(false)
		}
		e.Hints = nil
		if derived != nil && winner.TrafficDistribution != nil && e.Zone != nil {
			// Names of nodes don't leave their cluster, so PreferSameNode also gets a hint for the
			// zone.
			e.Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: *e.Zone}}}
		}
		s.Endpoints = append(s.Endpoints, e.Endpoint)
	}
	return s
}

// A cover has the ports for which other endpoints are ready.
type cover struct {
	any   bool
	ports map[string]bool
}

// replacements returns the ports for which endpoints of other clusters can stand in for those of a part.
//
// Endpoints behind a broken path are withdrawn only if others are ready. Otherwise the replacement of this
// cluster's gateway would empty all imported Services, and clients would remember that headless ones have no
// addresses.
func replacements(parts []part, of int, w World) cover {
	c := cover{ports: map[string]bool{}}
	local := w.Export != nil && w.Export.Annotations[wire.AnnotationPrefer] == wire.PreferLocal && parts[of].cluster != w.Self &&
		parts[0].head.Type != mcsv1beta1.Headless // a pod that is not ready loses its own name, which clients of a StatefulSet use
	for i := range parts {
		p := &parts[i]
		if i == of || p.down || !parts[of].down && (!local || p.cluster != w.Self) {
			continue
		}
		for _, q := range p.pieces {
			if slices.ContainsFunc(q.endpoints, func(e endpoint) bool { return e.Conditions.Ready == nil || *e.Conditions.Ready }) {
				c.any = true
				for _, port := range q.ports {
					c.ports[*port.Name] = true
				}
			}
		}
	}
	return c
}

// cover reports whether each port of a slice has other endpoints that are ready.
func (c cover) cover(q *piece) bool {
	return c.any && !slices.ContainsFunc(q.ports, func(p discoveryv1.EndpointPort) bool { return !c.ports[*p.Name] })
}

// The condition lists a conflictReason if its function returns different values for the oldest
// exporter and another exporter.
type conflictReason struct {
	reason mcsv1beta1.ServiceExportConditionReason
	of     func(*Head) any
}

// conflictReasons are the differences between exporters (KEP, "Conflict Resolution"), in the order in which
// the condition lists them.
var conflictReasons = []conflictReason{
	{mcsv1beta1.ServiceExportReasonPortConflict, func(h *Head) any {
		ports := map[Port]string{}
		for _, p := range h.Ports {
			app := "none"
			if p.AppProtocol != nil {
				app = "is " + *p.AppProtocol
			}
			ports[Port{Name: p.Name, Protocol: p.Protocol, Number: p.Number}] = app
		}
		return ports
	}},
	{mcsv1beta1.ServiceExportReasonTypeConflict, func(h *Head) any { return h.Type }},
	{mcsv1beta1.ServiceExportReasonSessionAffinityConflict, func(h *Head) any { return affinity(h) }},
	{mcsv1beta1.ServiceExportReasonSessionAffinityConfigConflict, func(h *Head) any {
		if affinity(h) == corev1.ServiceAffinityNone {
			return nil
		}
		if h.SessionAffinityConfig == nil {
			return corev1.DefaultClientIPServiceAffinitySeconds
		}
		return *h.SessionAffinityConfig.ClientIP.TimeoutSeconds
	}},
	{mcsv1beta1.ServiceExportReasonInternalTrafficPolicyConflict, func(h *Head) any {
		if h.InternalTrafficPolicy == nil {
			return corev1.ServiceInternalTrafficPolicyCluster
		}
		return *h.InternalTrafficPolicy
	}},
	{mcsv1beta1.ServiceExportReasonTrafficDistributionConflict, func(h *Head) any {
		if h.TrafficDistribution == nil {
			return ""
		}
		return *h.TrafficDistribution
	}},
	// Only IPv4 is imported, so an additional family makes no difference.
	{mcsv1beta1.ServiceExportReasonIPFamilyConflict, func(h *Head) any {
		return len(h.IPFamilies) == 0 || slices.Contains(h.IPFamilies, corev1.IPv4Protocol)
	}},
	{mcsv1beta1.ServiceExportReasonLabelsConflict, func(h *Head) any { return h.Labels }},
	{mcsv1beta1.ServiceExportReasonAnnotationsConflict, func(h *Head) any { return h.Annotations }},
}

func affinity(h *Head) corev1.ServiceAffinity {
	return cmp.Or(h.SessionAffinity, corev1.ServiceAffinityNone)
}

// conflictOf returns the condition Conflict. Exporters that see the same exports have the same
// condition.
func conflictOf(export *mcsv1beta1.ServiceExport, parts []part) metav1.Condition {
	var reasons, differ []string
	winner := &parts[0]
	for i := range parts {
		if slices.ContainsFunc(conflictReasons, func(c conflictReason) bool { return !reflect.DeepEqual(c.of(&winner.head), c.of(&parts[i].head)) }) {
			differ = append(differ, string(parts[i].cluster))
		}
	}
	for _, c := range conflictReasons {
		if slices.ContainsFunc(parts, func(p part) bool { return !reflect.DeepEqual(c.of(&winner.head), c.of(&p.head)) }) {
			reasons = append(reasons, string(c.reason))
		}
	}
	if len(reasons) == 0 {
		return condition(export, mcsv1beta1.ServiceExportConditionConflict, metav1.ConditionFalse, string(mcsv1beta1.ServiceExportReasonNoConflicts), "all exporters agree")
	}
	return condition(export, mcsv1beta1.ServiceExportConditionConflict, metav1.ConditionTrue, strings.Join(reasons, ","), fmt.Sprintf(
		"%s's ServiceExport is the oldest (%s), so its values are used; other values in %s", winner.cluster, winner.head.Created.UTC().Format("2006-01-02 15:04:05"), strings.Join(differ, ", ")))
}

func importOf(w World, winner *Head, ports []mcsv1beta1.ServicePort, parts []part) *mcsv1beta1.ServiceImport {
	out := &mcsv1beta1.ServiceImport{
		TypeMeta: metav1.TypeMeta{APIVersion: mcsv1beta1.GroupVersion.String(), Kind: mcsv1beta1.ServiceImportKindName},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.Name.Namespace, Name: w.Name.Name, Labels: map[string]string{wire.LabelManagedBy: wire.ManagedBy}, Annotations: map[string]string{},
		},
		Spec: mcsv1beta1.ServiceImportSpec{
			Ports: ports, Type: winner.Type, SessionAffinity: winner.SessionAffinity, SessionAffinityConfig: winner.SessionAffinityConfig,
			InternalTrafficPolicy: winner.InternalTrafficPolicy, TrafficDistribution: winner.TrafficDistribution,
		},
		Status: mcsv1beta1.ServiceImportStatus{EndpointSliceObjects: mcsv1beta1.EndpointSliceObjectsPresent},
	}
	maps.Copy(out.Labels, winner.Labels)
	maps.Copy(out.Annotations, winner.Annotations)
	for i := range parts {
		out.Status.Clusters = append(out.Status.Clusters, mcsv1beta1.ClusterStatus{Cluster: string(parts[i].cluster)})
	}
	slices.SortFunc(out.Status.Clusters, func(a, b mcsv1beta1.ClusterStatus) int { return cmp.Compare(a.Cluster, b.Cluster) })

	ready := metav1.Condition{Type: string(mcsv1beta1.ServiceImportConditionReady), Status: metav1.ConditionFalse, Reason: string(mcsv1beta1.ServiceImportReasonPending)}
	switch derived := DerivedName(w.Name); {
	case winner.Type == mcsv1beta1.Headless:
		out.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
		ready.Status, ready.Reason, ready.Message = metav1.ConditionTrue, string(mcsv1beta1.ServiceImportReasonReady), "its DNS names resolve to the addresses of the endpoints"
	case taken(w):
		ready.Reason, ready.Message = ReasonNameTaken, "another program has made the Service "+derived
	default:
		out.Annotations[AnnotationDerivedService] = derived
		ready.Message = "the Service " + derived + " has no address yet"
		if w.Derived == nil {
			break
		}
		if ip := wire.ServiceIPv4(w.Derived); ip != "" {
			out.Spec.IPs, out.Spec.IPFamilies = []string{ip}, []corev1.IPFamily{corev1.IPv4Protocol}
			ready.Status, ready.Reason, ready.Message = metav1.ConditionTrue, string(mcsv1beta1.ServiceImportReasonReady), "its address is that of the Service "+derived
		}
	}
	out.Status.Conditions = []metav1.Condition{ready}
	return out
}

// taken reports whether another program has the name of the derived Service.
func taken(w World) bool { return w.Derived != nil && !IsDerived(w.Derived) }

// derivedOf returns the Service that has the clusterset IP. It has no selector, so its endpoints are the
// slices that [Merge] makes.
func derivedOf(w World, winner *Head, ports []mcsv1beta1.ServicePort) *corev1.Service {
	s := &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.Name.Namespace, Name: DerivedName(w.Name), Labels: map[string]string{wire.LabelManagedBy: wire.ManagedBy}, OwnerReferences: ownedBy(w),
		},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, IPFamilyPolicy: new(corev1.IPFamilyPolicySingleStack),
			SessionAffinity: affinity(winner), SessionAffinityConfig: winner.SessionAffinityConfig,
			InternalTrafficPolicy: winner.InternalTrafficPolicy, TrafficDistribution: winner.TrafficDistribution, PublishNotReadyAddresses: winner.PublishNotReadyAddresses,
		},
	}
	for _, p := range ports {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: p.Name, Protocol: p.Protocol, AppProtocol: p.AppProtocol, Port: p.Port, TargetPort: intstr.FromInt32(p.Port)})
	}
	return s
}

func ownedBy(w World) []metav1.OwnerReference {
	return []metav1.OwnerReference{{
		APIVersion: mcsv1beta1.GroupVersion.String(), Kind: mcsv1beta1.ServiceImportKindName, Name: w.Name.Name, UID: w.ImportUID, Controller: new(true),
	}}
}
