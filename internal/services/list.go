package services

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// A Row is one name, as one cluster sees it.
type Row struct {
	Name types.NamespacedName
	// Exporters export the name, as far as the cluster knows. From are the exporters whose endpoints it uses;
	// none if it does not import the name.
	Exporters, From []wire.ClusterID
	Type            string   // "ClusterSetIP" or "Headless"; "" if the cluster does not import the name
	IPs             []string // clusterset IPs
	Names           Names
	Endpoints       []Part
	Problems        []Problem
}

// A Problem is one problem of a name.
type Problem struct {
	Kind ProblemKind
	Peer wire.ClusterID // of a NotAllowed problem
	Text string
	Fix  command.Hint
}

func (p Problem) String() string { return p.Hint().String() }

// Hint returns the problem with its fix.
func (p Problem) Hint() command.Hint {
	if p.Fix.IsZero() {
		return command.Text(p.Text)
	}
	return command.Join([]command.Hint{command.Text(p.Text), p.Fix}, "; ")
}

// A ProblemKind says what a [Problem] is about.
type ProblemKind uint8

// The kinds.
const (
	NotExported ProblemKind = iota // this cluster has a ServiceExport, and does not export the Service
	Conflicting                    // the exporters disagree, and the Service works
	NotAllowed                     // this cluster does not import the peer's Service into the namespace
	NoNamespace                    // this cluster does not have the namespace
	NotImported                    // the operator has not made the import, or it is not ready
	NoEndpoint                     // the import leads to no ready endpoint
)

// Calls says how pods of the cluster call the Service; nothing if they can't.
func (r *Row) Calls() []string {
	if len(r.IPs) > 0 {
		return calls(r.Name, r.IPs[0], DerivedName(r.Name), false, r.Names)
	}
	return calls(r.Name, "", "", r.Type == string(mcsv1beta1.Headless), r.Names)
}

// CallName is the name that pods of the cluster call; "" if there is none. It ends with clusterset.local,
// unless it is known that no such names are served.
func (r *Row) CallName() string {
	switch {
	case r.Type == "" || r.Names == Unserved && len(r.IPs) == 0:
		return ""
	case r.Names == Unserved:
		return DerivedName(r.Name) + "." + r.Name.Namespace
	}
	return DNSName(r.Name)
}

// A Part counts the endpoints in one of the clusters.
type Part struct {
	Cluster wire.ClusterID
	Count
	At time.Time // the time of the count; zero if it is unknown
}

// Rows returns the names that the cluster or a peer exports, or that the cluster imports. unread has a
// sentence for each part that could not be read: there may be more names. without has a sentence for each peer
// that exchanges no Services, so that nothing of it is missing.
func Rows(v View) (rows []Row, unread, without []string) {
	f := &v.Found
	for what, why := range map[string]string{
		"exports": unreadOf(f.Exports), "imports": unreadOf(f.Imports), "endpoints": unreadOf(f.Slices), "exports of peers": unreadOf(f.Copies),
	} {
		if why != "" {
			unread = append(unread, fmt.Sprintf("%s: the %s are unread: %s", v.Self, what, why))
		}
	}
	slices.Sort(unread)
	for i := range v.Peers {
		p := &v.Peers[i]
		switch why := p.Silent(); {
		case why == "":
		case v.apart(p):
			without = append(without, fmt.Sprintf("%s: %s", p.ID, why))
		default:
			unread = append(unread, fmt.Sprintf("%s: its exports are unread: %s", p.ID, why))
		}
	}
	parts := f.byName()
	for _, name := range slices.SortedFunc(maps.Keys(parts), compareNames) {
		if part := parts[name]; len(part.Exports.Items)+len(part.Imports.Items)+len(part.Copies.Items) > 0 {
			v.Found = *part
			rows = append(rows, v.row(name))
		}
	}
	return rows, unread, without
}

// byName sorts the objects by name, so that a row need not search the objects of all names.
func (f *Found) byName() map[types.NamespacedName]*Found {
	parts := map[types.NamespacedName]*Found{}
	of := func(name types.NamespacedName) *Found {
		if parts[name] == nil {
			part := *f
			part.Exports.Items, part.Imports.Items, part.Slices.Items, part.Copies.Items = nil, nil, nil, nil
			parts[name] = &part
		}
		return parts[name]
	}
	add := func(name types.NamespacedName, o metav1.Object) { of(name).Add(name, o) }
	for i := range f.Exports.Items {
		add(nameOf(&f.Exports.Items[i]), &f.Exports.Items[i])
	}
	for i := range f.Imports.Items {
		add(nameOf(&f.Imports.Items[i]), &f.Imports.Items[i])
	}
	for i := range f.Slices.Items {
		s := &f.Slices.Items[i]
		add(types.NamespacedName{Namespace: s.Namespace, Name: SliceOf(s)}, s)
	}
	for i := range f.Copies.Items {
		add(CopyOf(&f.Copies.Items[i]), &f.Copies.Items[i])
	}
	return parts
}

// names says whether pods of the cluster can resolve the names of imports.
func (v *View) names() Names {
	switch s := v.Served; {
	case s == nil || s.Problem != "" || s.Unknown != "":
		return NamesUnknown
	case s.Wanted:
		return ServedByDNS
	}
	return Unserved
}

// apart reports whether the peer exchanges no Services: its API server does not serve the kinds, or the tunnel
// works and the peer has never served any.
func (v *View) apart(p *PeerView) bool {
	if p.Found != nil && p.Found.Exports.Undefined {
		return true
	}
	never := p.Report == nil || p.Report.Complete == nil && p.Report.Problem != ""
	return never && p.Tunnel.Works && v.Found.Copies.Read && len(v.copies(p.ID, types.NamespacedName{})) == 0
}

func unreadOf[T any](l List[T]) string {
	if l.Read || l.Undefined {
		return ""
	}
	return l.why()
}

func (v *View) row(name types.NamespacedName) Row {
	r := Row{Name: name, Names: v.names()}
	if e := named(v.Found.Exports, name); e != nil {
		r.Exporters = append(r.Exporters, v.Self)
		text, advice := ExportState(e)
		conflict := meta.FindStatusCondition(e.Status.Conditions, string(mcsv1beta1.ServiceExportConditionConflict))
		switch {
		case advice != "":
			r.Problems = append(r.Problems, Problem{Kind: NotExported, Text: "export: " + text, Fix: command.Text(advice)})
		case conflict != nil && conflict.Status == metav1.ConditionTrue:
			r.Problems = append(r.Problems, Problem{Kind: Conflicting, Text: "export: " + text})
		}
	}
	peers := map[wire.ClusterID]*PeerView{}
	for i := range v.Peers {
		p := &v.Peers[i]
		peers[p.ID] = p
		if len(v.copies(p.ID, name)) == 0 {
			continue
		}
		r.Exporters = append(r.Exporters, p.ID)
		if policy := (Policy{Own: v.Own, Allowed: map[wire.ClusterID]Namespaces{p.ID: p.Imports}}); !policy.Imports(name.Namespace, p.ID) && !Reserved(name.Namespace, v.Own) {
			r.Problems = append(r.Problems, Problem{NotAllowed, p.ID, "not imported from " + string(p.ID), command.Hintf("to allow it: %s", p.Allow(v.Ours, name.Namespace))})
		}
	}
	slices.Sort(r.Exporters)
	if i := named(v.Found.Imports, name); i != nil {
		r.Type = Printable(string(i.Spec.Type))
		for _, ip := range i.Spec.IPs {
			r.IPs = append(r.IPs, Printable(ip))
		}
		ready := meta.FindStatusCondition(i.Status.Conditions, string(mcsv1beta1.ServiceImportConditionReady))
		if ready != nil && ready.Status != metav1.ConditionTrue {
			r.Problems = append(r.Problems, Problem{Kind: NotImported, Text: "import: it is not ready: " + sentence(ready.Message)})
		}
		if text, fix := v.unready(i); text != "" {
			r.Problems = append(r.Problems, Problem{Kind: NoEndpoint, Text: "import: " + text, Fix: command.Text(fix)})
		}
		for _, of := range i.Status.Clusters {
			r.From = append(r.From, wire.ClusterID(Printable(of.Cluster)))
			part := Part{Cluster: wire.ClusterID(Printable(of.Cluster)), Count: CountOf(v.Found.Of(wire.ClusterID(of.Cluster), name)), At: v.At}
			if p := peers[wire.ClusterID(of.Cluster)]; p != nil {
				part.At = p.heard()
			} else if part.Cluster != v.Self {
				part.At = time.Time{}
			}
			if v.Found.Slices.Read {
				r.Endpoints = append(r.Endpoints, part)
			}
		}
	} else if exists, known := v.Namespace(name.Namespace); known && !exists {
		r.Problems = append(r.Problems, Problem{Kind: NoNamespace, Text: fmt.Sprintf("not imported: %s has no namespace %s", v.Self, name.Namespace)})
	} else if v.Found.Imports.Read && len(r.Problems) == 0 {
		r.Problems = append(r.Problems, Problem{Kind: NotImported, Text: "not imported yet"})
	}
	return r
}

// unready returns the reason that an import leads to no ready endpoint, and the advice; "" if it leads to
// one, or if the EndpointSlices were not read.
func (v *View) unready(i *mcsv1beta1.ServiceImport) (text, advice string) {
	all, text := v.endpoints(i)
	switch {
	case !v.Found.Slices.Read || all.Ready > 0:
		return "", ""
	case all.All == 0:
		return "no endpoint in any cluster", "start pods that the Service selects, in a cluster that exports it"
	}
	return "no endpoint is ready: " + text, "see why the pods are not ready, in the clusters that export it"
}

// endpoints counts the endpoints of an import, together and as text for each cluster.
func (v *View) endpoints(i *mcsv1beta1.ServiceImport) (all Count, text string) {
	var parts []string
	for _, of := range i.Status.Clusters {
		c := CountOf(v.Found.Of(wire.ClusterID(of.Cluster), nameOf(i)))
		all = Count{all.Ready + c.Ready, all.All + c.All}
		parts = append(parts, fmt.Sprintf("%s %d of %d", Printable(of.Cluster), c.Ready, c.All))
	}
	return all, strings.Join(parts, ", ")
}

// Add sorts an object of the cluster into the list to which it belongs. It leaves out objects of other kinds.
// It also leaves out objects of other names, unless name is zero.
func (f *Found) Add(name types.NamespacedName, o metav1.Object) {
	all := name == types.NamespacedName{}
	switch o := o.(type) {
	case *mcsv1beta1.ServiceExport:
		if all || nameOf(o) == name {
			f.Exports.Items = append(f.Exports.Items, *o)
		}
	case *mcsv1beta1.ServiceImport:
		if all || nameOf(o) == name {
			f.Imports.Items = append(f.Imports.Items, *o)
		}
	case *discoveryv1.EndpointSlice:
		of := types.NamespacedName{Namespace: o.Namespace, Name: SliceOf(o)}
		switch copied := CopyOf(o); {
		case copied.Name != "" && (all || copied == name):
			f.Copies.Items = append(f.Copies.Items, *o)
		case copied.Name == "" && of.Name != "" && (all || of == name):
			f.Slices.Items = append(f.Slices.Items, *o)
		}
	}
}

// Text returns the parts as one line, such as "rome 2/2, milan 1/3 (4s ago)".
func Text(parts []Part, now time.Time) string {
	var out []string
	for _, p := range parts {
		text := fmt.Sprintf("%s %d/%d", p.Cluster, p.Ready, p.All)
		switch age := now.Sub(p.At).Round(time.Second); {
		case p.At.IsZero():
			text += " (age not known)"
		case age > time.Second:
			text += fmt.Sprintf(" (%s ago)", age)
		}
		out = append(out, text)
	}
	return cmp.Or(strings.Join(out, ", "), "-")
}
