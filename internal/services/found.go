package services

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Found holds the objects of one cluster that belong to one name, or to all names.
type Found struct {
	// Services are the Service of the name and its derived Service. They are read for one name only.
	Services List[corev1.Service]
	Exports  List[mcsv1beta1.ServiceExport]
	Imports  List[mcsv1beta1.ServiceImport]
	// Slices are the multi-cluster EndpointSlices of all clusters, with addresses as this cluster sees them.
	// Copies are the copies of peers' slices that its gateways keep.
	Slices List[discoveryv1.EndpointSlice]
	Copies List[discoveryv1.EndpointSlice]
}

// A List has the objects of one kind. The zero value means that they were not read.
type List[T any] struct {
	Read  bool
	Items []T
	// Unread is the reason that the objects were not read; "" if they were read, or if nobody has tried.
	Unread string
	// Undefined is set if the API server does not serve the kind. Then there are no objects.
	Undefined bool
}

// why returns the reason that the list was not read.
func (l List[T]) why() string {
	if l.Unread == "" {
		return "nobody has looked"
	}
	return Printable(l.Unread)
}

// sorted returns the objects for which belongs is true, in the order of their names.
func sorted[T any, P interface {
	*T
	metav1.Object
}](l List[T], belongs func(P) bool) (out []P) {
	for i := range l.Items {
		if o := P(&l.Items[i]); belongs(o) {
			out = append(out, o)
		}
	}
	slices.SortFunc(out, func(a, b P) int { return compareNames(nameOf(a), nameOf(b)) })
	return out
}

func compareNames(a, b types.NamespacedName) int {
	return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func nameOf(o metav1.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

// named returns the object of a name; nil if there is none.
func named[T any, P interface {
	*T
	metav1.Object
}](l List[T], name types.NamespacedName) *T {
	for i := range l.Items {
		if nameOf(P(&l.Items[i])) == name {
			return &l.Items[i]
		}
	}
	return nil
}

// Complete reports whether all lists were read, except Services, which are read for one name only.
func (f *Found) Complete() bool {
	return f.Exports.Read && f.Imports.Read && f.Slices.Read && f.Copies.Read
}

// A View holds the facts of one cluster, Self, about Services by name.
type View struct {
	Self wire.ClusterID
	// Now is the present, and At is when Found was read.
	Now, At time.Time
	Found   Found
	Own     []string // namespaces of our programs: see [Reserved]
	// Namespace reports whether a namespace exists; known is false if the user may not see it.
	Namespace func(name string) (exists, known bool)
	Peers     []PeerView // sorted by their IDs
	// Served says whether pods can resolve the names of imports; nil if this was not read.
	Served *Served
	// Ours makes a command of our program for this cluster. Both makes a command for this cluster and its
	// peer.
	Ours, Both func(words ...string) command.Command
}

// Served says whether names of imported Services are served in a cluster.
type Served struct {
	Wanted bool // our DNS server is installed
	// Problem is the reason that names are not served, and Unknown the reason that this is unknown; "" if they
	// are served.
	Problem, Unknown string
	Fix              command.Hint
}

// A PeerView is what the cluster knows about a peer.
type PeerView struct {
	ID      wire.ClusterID
	Imports Namespaces
	// Seen returns the address that reaches a pod of the peer from here; false if no address does.
	Seen   func(address string) (string, bool)
	Tunnel Tunnel
	// Report is the report of the cluster's gateway; nil if the gateway exchanges no Services, or has not
	// reported yet.
	Report *wire.ServicesReport
	// Found was read of the peer itself at the time At; nil if nobody has asked the peer, for the reason
	// Unasked.
	Found   *Found
	At      time.Time
	Unasked string
	// Theirs makes a command of our program for the peer.
	Theirs func(words ...string) command.Command
}

// A Tunnel is what the cluster's gateway reports about the path to a peer. The zero value means that nothing
// is known.
type Tunnel struct {
	State     string // in words; "" if there is no report
	Works     bool
	Old       bool          // the report is stale, or its state is not known
	RoundTrip time.Duration // 0 if not measured
	At        time.Time
}

// heard returns the time when the gateway last heard of the peer's exports; zero if it never did.
func (p *PeerView) heard() time.Time {
	if p.Report == nil || p.Report.Heard == nil {
		return time.Time{}
	}
	return *p.Report.Heard
}

// Silent returns the reason that the peer's exports are not known now; "" if they are known.
func (p *PeerView) Silent() string {
	switch {
	case p.Report == nil:
		return "the gateways exchange no Services, or have not said so yet"
	case p.Report.Problem != "":
		return "nothing is received from " + string(p.ID) + " now: " + Printable(p.Report.Problem)
	case p.Report.Complete == nil:
		return "the list of " + string(p.ID) + "'s exports was not read yet"
	}
	return ""
}

// copies returns the cluster's copies of the peer's slices for one name, or for all names if name is zero.
func (v *View) copies(of wire.ClusterID, name types.NamespacedName) []*discoveryv1.EndpointSlice {
	return sorted(v.Found.Copies, func(s *discoveryv1.EndpointSlice) bool {
		return s.Labels[wire.LabelRemoteCluster] == string(of) && (name == types.NamespacedName{} || CopyOf(s) == name)
	})
}

// Of returns the multi-cluster EndpointSlices of a name whose endpoints are in the cluster of.
func (f *Found) Of(of wire.ClusterID, name types.NamespacedName) []*discoveryv1.EndpointSlice {
	return sorted(f.Slices, func(s *discoveryv1.EndpointSlice) bool {
		return s.Namespace == name.Namespace && SliceOf(s) == name.Name && s.Labels[mcsv1beta1.LabelSourceCluster] == string(of)
	})
}

// SliceOf returns the name of the Service to which a multi-cluster EndpointSlice belongs; "" if the slice is
// none of ours.
func SliceOf(s *discoveryv1.EndpointSlice) string {
	if s.Labels[discoveryv1.LabelManagedBy] != wire.ManagedBy || s.Labels[mcsv1beta1.LabelSourceCluster] == "" {
		return ""
	}
	return s.Labels[mcsv1beta1.LabelServiceName]
}

// Count counts endpoints.
type Count struct{ Ready, All int }

// CountOf counts the endpoints of slices.
func CountOf(all []*discoveryv1.EndpointSlice) (c Count) {
	for _, s := range all {
		for i := range s.Endpoints {
			if c.All++; ready(&s.Endpoints[i]) {
				c.Ready++
			}
		}
	}
	return c
}

func ready(e *discoveryv1.Endpoint) bool { return e.Conditions.Ready == nil || *e.Conditions.Ready }

// Unread returns the Found of a cluster that could not be read, with the reason.
func Unread(why string) Found {
	return Found{
		Services: List[corev1.Service]{Unread: why}, Exports: List[mcsv1beta1.ServiceExport]{Unread: why}, Imports: List[mcsv1beta1.ServiceImport]{Unread: why},
		Slices: List[discoveryv1.EndpointSlice]{Unread: why}, Copies: List[discoveryv1.EndpointSlice]{Unread: why},
	}
}
