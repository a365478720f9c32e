package services

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Bounds of the copies that a cluster keeps of one peer's slices.
const (
	// MaxSlices is the largest number of a peer's EndpointSlices. It is enough for 1,000 Services with
	// several slices each.
	MaxSlices = 4000
	// MaxServices is the largest number of a peer's Services. Each can take an address of this cluster's
	// range of Services, and a range of 12 bits has 4094.
	MaxServices = 2000
	// MaxBytes is the largest size of all slices of a peer together, encoded as protocol buffers. Each program
	// that reads the slices has them in its memory.
	MaxBytes = 16 << 20
	// MaxSlice is the largest size of a slice that is accepted, encoded as protocol buffers. A slice with
	// 1,000 endpoints, the API server's bound, has less.
	MaxSlice = 512 << 10
	// maxEndpoints is the largest number of a slice's endpoints: the API server accepts no more.
	maxEndpoints = 1000
	// maxSliceName is the longest name of a peer's slice, in bytes. With a namespace before it, it is still a
	// valid name of an object.
	maxSliceName = 253 - 63 - 1
)

// A Peer is the cluster from which [Admit] gets slices.
type Peer struct {
	ID     wire.ClusterID
	Ranges []netip.Prefix // the peer's own pod ranges, as the peer has them
	Own    []string       // namespaces of our programs in this cluster: see [Reserved]
	Never  []netip.Addr   // addresses that no endpoint may have, such as this cluster's API server
}

// Admit checks an EndpointSlice that a peer has sent, which may be hostile. It returns what this cluster
// keeps of it in the tenant namespace: a slice of the same addresses and no other metadata than the
// Service's name and its head. It returns nil if it refuses the slice. problems say in plain text what was
// refused or left out. Whether this cluster imports the Service is another question: see [Policy].
//
// The copies of a peer's slices have distinct names. The copy has the label of a headless Service, so that
// kube-proxy does not watch it.
func Admit(s *discoveryv1.EndpointSlice, from Peer) (copied *discoveryv1.EndpointSlice, problems []string) {
	refuse := func(format string, args ...any) (*discoveryv1.EndpointSlice, []string) {
		return nil, []string{fmt.Sprintf(format, args...)}
	}
	name, cluster := s.Labels[mcsv1beta1.LabelServiceName], s.Labels[mcsv1beta1.LabelSourceCluster]
	switch {
	case s.Size() > MaxSlice:
		return refuse("it has %d bytes, at most %d are allowed", s.Size(), MaxSlice)
	case len(s.Name) > maxSliceName || len(validation.IsDNS1123Subdomain(s.Name)) > 0:
		return refuse("%q can't be its name", Printable(s.Name))
	case len(validation.IsDNS1123Label(s.Namespace)) > 0:
		return refuse("%q can't be its namespace", Printable(s.Namespace))
	case len(validation.IsDNS1123Label(name)) > 0:
		return refuse("%q can't be the name of its Service", Printable(name))
	case cluster != string(from.ID):
		return refuse("it says that it comes from the cluster %q", Printable(cluster))
	case Reserved(s.Namespace, from.Own):
		return refuse("nothing is imported into the namespace %s", s.Namespace)
	case strings.HasPrefix(name, derivedPrefix):
		return refuse("the names of Services that imports make begin with %s", derivedPrefix)
	case s.AddressType != discoveryv1.AddressTypeIPv4:
		return refuse("its addresses are of the type %q, and connections carry IPv4", Printable(string(s.AddressType)))
	}
	head, err := ParseHead(s.Annotations[wire.AnnotationServiceHead])
	if err != nil {
		return refuse("its annotation %s %v", wire.AnnotationServiceHead, err)
	}
	text, err := head.Encode() // without the parts that ParseHead has dropped
	if err != nil {
		return refuse("%v", err)
	}
	copied = &discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{
			Name: s.Namespace + "." + s.Name,
			Labels: map[string]string{
				wire.LabelServiceNamespace: s.Namespace, wire.LabelServiceName: name, wire.LabelRemoteCluster: string(from.ID),
				discoveryv1.LabelManagedBy: wire.ManagedBy, labelHeadless: "",
			},
			Annotations: map[string]string{wire.AnnotationServiceHead: text},
		},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{},
	}
	var d dropped
	copied.Ports = d.ports(s.Ports, &head)
	copied.Endpoints = append(copied.Endpoints, d.endpoints(s.Endpoints, func(a netip.Addr) bool { return within(a, from.Ranges) }, from.Never)...)
	return copied, d.list()
}

// labelHeadless is the label by which kube-proxy leaves out the slices of headless Services.
const labelHeadless = "service.kubernetes.io/headless"

// CopyOf returns the name of the Service to which a copy in a tenant namespace belongs.
func CopyOf(s *discoveryv1.EndpointSlice) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Labels[wire.LabelServiceNamespace], Name: s.Labels[wire.LabelServiceName]}
}

// A Budget counts the copies of one peer, by [MaxServices] and [MaxBytes]. The zero value has none.
type Budget struct {
	bytes    int
	services map[types.NamespacedName]int // copies
}

// Add counts a copy. If the copy does not fit, it returns the reason, and does not count the copy.
func (b *Budget) Add(s *discoveryv1.EndpointSlice) (full string) {
	name := CopyOf(s)
	switch {
	case b.services[name] == 0 && len(b.services) == MaxServices:
		return fmt.Sprintf("at most %d Services of a peer are kept", MaxServices)
	case b.bytes+s.Size() > MaxBytes:
		return fmt.Sprintf("at most %d MiB of a peer are kept", MaxBytes>>20)
	case b.services == nil:
		b.services = map[types.NamespacedName]int{}
	}
	b.services[name]++
	b.bytes += s.Size()
	return ""
}

// Remove subtracts a copy of this Service and size.
func (b *Budget) Remove(name types.NamespacedName, size int) {
	b.bytes -= size
	if b.services[name]--; b.services[name] == 0 {
		delete(b.services, name)
	}
}

// dropped counts the dropped parts of a slice, by the reason.
type dropped map[string]int

func (d *dropped) add(why string) {
	if *d == nil {
		*d = dropped{}
	}
	(*d)[why]++
}

func (d *dropped) list() (out []string) {
	for _, why := range slices.Sorted(maps.Keys(*d)) {
		out = append(out, fmt.Sprintf("%d %s", (*d)[why], why))
	}
	return out
}

// ports returns the slice's ports that its head describes.
func (d *dropped) ports(all []discoveryv1.EndpointPort, head *Head) (out []discoveryv1.EndpointPort) {
	seen := map[string]bool{}
	for i := range all {
		p := &all[i]
		h := head.inSlices(p)
		switch {
		case p.Port == nil || *p.Port < 1 || *p.Port > 65535:
			d.add("ports without a number from 1 to 65535")
		case h == nil:
			d.add("ports that its Service does not have")
		case seen[*h.InSlices]:
			d.add("ports with the name of another one")
		default:
			seen[*h.InSlices] = true
			out = append(out, discoveryv1.EndpointPort{Name: new(*h.InSlices), Protocol: new(h.Protocol), Port: new(*p.Port), AppProtocol: h.AppProtocol})
		}
	}
	return out
}

// inSlices returns the Service's port to which a slice's port belongs; nil if there is none.
func (h *Head) inSlices(p *discoveryv1.EndpointPort) *Port {
	name := ""
	if p.Name != nil {
		name = *p.Name
	}
	for i := range h.Ports {
		if q := &h.Ports[i]; q.InSlices != nil && *q.InSlices == name && (p.Protocol == nil && q.Protocol == protocols[0] || p.Protocol != nil && *p.Protocol == q.Protocol) {
			return q
		}
	}
	return nil
}

// endpoints returns the endpoints whose addresses belong to the peer's pods, and are none of never.
func (d *dropped) endpoints(all []discoveryv1.Endpoint, pod func(netip.Addr) bool, never []netip.Addr) (out []discoveryv1.Endpoint) {
	seen := map[netip.Addr]bool{}
	for i := range all {
		e := &all[i]
		if len(out) == maxEndpoints {
			d.add(fmt.Sprintf("endpoints beyond the first %d", maxEndpoints))
			continue
		}
		if len(e.Addresses) == 0 {
			d.add("endpoints without an address")
			continue
		}
		a, err := netip.ParseAddr(e.Addresses[0])
		switch {
		case err != nil || !a.Is4():
			d.add("endpoints without an IPv4 address")
			continue
		case a.IsUnspecified() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast() || slices.Contains(never, a):
			d.add("endpoints with an address that no pod of a peer has")
			continue
		case !pod(a):
			d.add("endpoints outside of the peer's pod ranges")
			continue
		case seen[a]:
			d.add("endpoints with the address of another one")
			continue
		}
		seen[a] = true
		kept := discoveryv1.Endpoint{Addresses: []string{a.String()}, Conditions: *e.Conditions.DeepCopy()}
		if e.Hostname != nil {
			if len(validation.IsDNS1123Label(*e.Hostname)) > 0 {
				d.add("host names that are no labels of DNS")
			} else {
				kept.Hostname = new(*e.Hostname)
			}
		}
		if e.Zone != nil {
			if *e.Zone == "" || len(validation.IsValidLabelValue(*e.Zone)) > 0 {
				d.add("zones that no node can have")
			} else {
				kept.Zone = new(*e.Zone)
			}
		}
		out = append(out, kept)
	}
	return out
}
