package services

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Reasons of conditions that the API does not name.
const (
	ReasonReservedNamespace    = "ReservedNamespace"    // ServiceExport, Valid: see [Reserved]
	ReasonDerivedService       = "DerivedService"       // ServiceExport, Valid: the Service comes from an import
	ReasonIPFamilyNotSupported = "IPFamilyNotSupported" // ServiceExport, Valid: the Service has no IPv4
	ReasonNameTaken            = "NameTaken"            // ServiceImport, Ready: another program has the derived Service's name
	ReasonAnotherProgram       = "AnotherProgram"       // ServiceExport, Ready: another program has made the ServiceImport
)

// An Export holds the results for a ServiceExport.
type Export struct {
	// Slices are the Service's multi-cluster EndpointSlices, before [Merge] gives ports the names that all
	// clusters use.
	Slices []discoveryv1.EndpointSlice
	// Conditions are Valid and Ready of the ServiceExport, without a time of transition. [Merge] adds
	// Conflict.
	Conditions []metav1.Condition
}

// Exported makes the multi-cluster EndpointSlices of the cluster id for a ServiceExport. service is the
// Service of the same name; nil if there is none. all can contain any EndpointSlices of the namespace.
// pods are the ranges of the cluster's pods, own are the namespaces of our programs.
//
// Peers reach endpoints in the pod ranges alone, so other endpoints are left out. Names of nodes and pods, and
// hints, are left out, too, because they have a meaning only in this cluster. With the name of a node, a
// peer's kube-proxy could take an endpoint for local if one of its own nodes has the same name.
func Exported(service *corev1.Service, export *mcsv1beta1.ServiceExport, all []discoveryv1.EndpointSlice, id wire.ClusterID, pods []netip.Prefix, own []string) Export {
	invalid := func(reason, message string) Export {
		return Export{Conditions: []metav1.Condition{
			condition(export, mcsv1beta1.ServiceExportConditionValid, metav1.ConditionFalse, reason, message),
			condition(export, mcsv1beta1.ServiceExportConditionReady, metav1.ConditionFalse, string(mcsv1beta1.ServiceExportReasonFailed), message),
		}}
	}
	switch {
	case Reserved(export.Namespace, own):
		return invalid(ReasonReservedNamespace, "Services of this namespace are not exported: clusters don't mean the same by it")
	case service == nil:
		return invalid(string(mcsv1beta1.ServiceExportReasonNoService), "there is no Service "+export.Name)
	case service.Spec.Type == corev1.ServiceTypeExternalName:
		return invalid(string(mcsv1beta1.ServiceExportReasonInvalidServiceType), "a Service of type ExternalName has no endpoints")
	case IsDerived(service):
		return invalid(ReasonDerivedService, "this Service comes from an import: export the Services from which it comes")
	case len(service.Spec.IPFamilies) > 0 && !slices.Contains(service.Spec.IPFamilies, corev1.IPv4Protocol):
		return invalid(ReasonIPFamilyNotSupported, "the Service has IPv6 addresses alone, and connections carry IPv4")
	}
	ready := func(status metav1.ConditionStatus, reason mcsv1beta1.ServiceExportConditionReason, message string) []metav1.Condition {
		return []metav1.Condition{
			condition(export, mcsv1beta1.ServiceExportConditionValid, metav1.ConditionTrue, string(mcsv1beta1.ServiceExportReasonValid), "the Service can be exported"),
			condition(export, mcsv1beta1.ServiceExportConditionReady, status, string(reason), message),
		}
	}
	if len(pods) == 0 {
		return Export{Conditions: ready(metav1.ConditionFalse, mcsv1beta1.ServiceExportReasonPending, "the ranges of the cluster's pods are not known yet")}
	}
	head := headOf(service, export)
	text, err := head.Encode()
	if err == nil && len(text) > maxHead {
		err = tooLong(len(text), maxHead)
	}
	if err == nil {
		if _, refused := ParseHead(text); refused != nil {
			err = fmt.Errorf("the Service %w", refused)
		}
	}
	if err != nil {
		return Export{Conditions: ready(metav1.ConditionFalse, mcsv1beta1.ServiceExportReasonFailed, err.Error())}
	}

	name := types.NamespacedName{Namespace: export.Namespace, Name: export.Name}
	slice := func(source string) discoveryv1.EndpointSlice {
		s := discoveryv1.EndpointSlice{
			TypeMeta: metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: name.Namespace, Name: sliceName(name, id, source),
				Labels: map[string]string{
					mcsv1beta1.LabelServiceName: name.Name, mcsv1beta1.LabelSourceCluster: string(id), discoveryv1.LabelManagedBy: wire.ManagedBy,
				},
				Annotations: map[string]string{wire.AnnotationServiceHead: text},
			},
			AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{},
		}
		if to, ok := export.Annotations[wire.AnnotationExportTo]; ok {
			s.Annotations[wire.AnnotationExportTo] = to
		}
		return s
	}
	var out []discoveryv1.EndpointSlice
	var left leftOut
	for i := range all {
		in := &all[i]
		if in.Namespace != name.Namespace || in.Labels[discoveryv1.LabelServiceName] != name.Name || in.AddressType != discoveryv1.AddressTypeIPv4 ||
			in.Labels[discoveryv1.LabelManagedBy] == wire.ManagedBy {
			continue
		}
		s := slice(in.Name)
		for _, p := range in.Ports {
			if p.Port != nil { // nil stands for all ports, which no Service has
				s.Ports = append(s.Ports, *p.DeepCopy())
			}
		}
		for j := range in.Endpoints {
			if e, ok := left.endpoint(&in.Endpoints[j], pods); ok {
				if head.Type == mcsv1beta1.Headless && e.Hostname == nil {
					e.Hostname = new(hostname(e.Addresses[0]))
				}
				s.Endpoints = append(s.Endpoints, e)
			}
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		out = append(out, slice("")) // an empty slice, which carries the head
	}
	slices.SortFunc(out, byName)
	var said []string
	if text := left.String(); text != "" {
		said = append(said, text)
	}
	if len(service.Spec.IPFamilies) > 1 {
		said = append(said, "peers get the IPv4 addresses alone")
	}
	if stays := stays(export); len(stays) > 0 {
		said = append(said, "not exported: "+strings.Join(stays, ", "))
	}
	if len(said) == 0 {
		said = append(said, "peers can read it")
	}
	return Export{Slices: out, Conditions: ready(metav1.ConditionTrue, mcsv1beta1.ServiceExportReasonReady, strings.Join(said, "; "))}
}

// NotReady returns the condition of a ServiceExport whose objects can't be written.
func NotReady(export *mcsv1beta1.ServiceExport, reason, message string) []metav1.Condition {
	return []metav1.Condition{condition(export, mcsv1beta1.ServiceExportConditionReady, metav1.ConditionFalse, reason, message)}
}

// IsDerived reports whether a Service is a derived one of ours.
func IsDerived(s *corev1.Service) bool {
	return s.Labels[wire.LabelManagedBy] == wire.ManagedBy && strings.HasPrefix(s.Name, derivedPrefix)
}

func condition(export *mcsv1beta1.ServiceExport, kind mcsv1beta1.ServiceExportConditionType, status metav1.ConditionStatus, reason, message string) metav1.Condition {
	return metav1.Condition{Type: string(kind), Status: status, Reason: reason, Message: message, ObservedGeneration: export.Generation}
}

func headOf(s *corev1.Service, export *mcsv1beta1.ServiceExport) Head {
	h := Head{
		Type: mcsv1beta1.ClusterSetIP, Created: export.CreationTimestamp, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
		SessionAffinity: s.Spec.SessionAffinity, SessionAffinityConfig: s.Spec.SessionAffinityConfig, InternalTrafficPolicy: s.Spec.InternalTrafficPolicy,
		TrafficDistribution: s.Spec.TrafficDistribution, PublishNotReadyAddresses: s.Spec.PublishNotReadyAddresses,
		Labels: travelling(export.Spec.ExportedLabels, true), Annotations: travelling(export.Spec.ExportedAnnotations, false),
	}
	if s.Spec.ClusterIP == corev1.ClusterIPNone {
		h.Type = mcsv1beta1.Headless
	}
	for _, p := range s.Spec.Ports {
		h.Ports = append(h.Ports, Port{Name: p.Name, Protocol: cmp.Or(p.Protocol, corev1.ProtocolTCP), Number: p.Port, AppProtocol: p.AppProtocol, InSlices: new(p.Name)})
	}
	return h
}

// stays lists the exported labels and annotations that stay in the cluster, each with the reason.
func stays(export *mcsv1beta1.ServiceExport) (out []string) {
	for key, value := range export.Spec.ExportedLabels {
		if why := Travels(key, value, true); why != "" {
			out = append(out, fmt.Sprintf("label %s (%s)", Printable(key), why))
		}
	}
	for key, value := range export.Spec.ExportedAnnotations {
		if why := Travels(key, value, false); why != "" {
			out = append(out, fmt.Sprintf("annotation %s (%s)", Printable(key), why))
		}
	}
	slices.Sort(out)
	const most = 5 // because a condition has to be short
	if len(out) > most {
		out = append(out[:most], fmt.Sprintf("%d more", len(out)-most))
	}
	return out
}

// leftOut counts the endpoints that peers can't reach.
type leftOut struct{ all, pods, others int }

// endpoint returns an endpoint as peers get it; false if peers can't reach it. Kubernetes gives each endpoint
// one address, and consumers use the first.
func (l *leftOut) endpoint(e *discoveryv1.Endpoint, pods []netip.Prefix) (discoveryv1.Endpoint, bool) {
	l.all++
	if len(e.Addresses) > 0 {
		if a, err := netip.ParseAddr(e.Addresses[0]); err == nil && within(a, pods) {
			return discoveryv1.Endpoint{Addresses: []string{a.String()}, Conditions: *e.Conditions.DeepCopy(), Hostname: e.Hostname, Zone: e.Zone}, true
		}
	}
	if e.TargetRef != nil && e.TargetRef.Kind == "Pod" {
		l.pods++
	} else {
		l.others++
	}
	return discoveryv1.Endpoint{}, false
}

func (l *leftOut) String() string {
	var why []string
	if l.pods > 0 {
		why = append(why, "hostNetwork")
	}
	if l.others > 0 {
		why = append(why, "not a pod of this cluster")
	}
	if len(why) == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d endpoints can't be reached by peers: %s", l.pods+l.others, l.all, strings.Join(why, ", "))
}

func within(a netip.Addr, ranges []netip.Prefix) bool {
	return slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(a) })
}

// hostname returns the host name of a headless Service's endpoint that has none. It is made from the
// address in the exporter's cluster, so all clusters have the same name for the endpoint.
func hostname(address string) string { return strings.ReplaceAll(address, ".", "-") }

func byName(a, b discoveryv1.EndpointSlice) int { return cmp.Compare(a.Name, b.Name) }
