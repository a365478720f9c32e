package services

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Look is the result of one hop. The zero value means that the hop could not be read.
type Look uint8

// The values.
const (
	NotLooked Look = iota
	Good
	Broken
)

func (l Look) String() string { return [...]string{"not looked", "good", "broken"}[l] }

// A Hop is one part of the way from a name to the endpoints.
type Hop struct {
	What string         // such as "ServiceExport of milan"
	Peer wire.ClusterID // the peer whose endpoints need the hop; "" if all need it
	Look Look
	// Found describes what was read, or why nothing was read.
	Found string
	At    time.Time    // when Found was read; zero if nothing was read
	Fix   command.Hint // of a broken hop
}

// An Explanation is the way from a name to the endpoints behind it, as one cluster sees it.
type Explanation struct {
	Name types.NamespacedName
	Self wire.ClusterID
	Hops []Hop
	// IP is the clusterset IP, and Derived the name of the Service that has it; "" if there is none.
	IP, Derived string
	Headless    bool
	Names       Names
}

// Names says whether pods of the cluster can resolve the names of imports. The zero value means that this is
// unknown.
type Names uint8

// The values.
const (
	NamesUnknown Names = iota
	Unserved           // our DNS server is not installed
	ServedByDNS        // the cluster's DNS forwards to our DNS server
)

// Broken returns the first broken hop; nil if there is none.
func (e *Explanation) Broken() *Hop {
	if i := slices.IndexFunc(e.Hops, func(h Hop) bool { return h.Look == Broken }); i >= 0 {
		return &e.Hops[i]
	}
	return nil
}

// NotLooked counts the hops that could not be read.
func (e *Explanation) NotLooked() (n int) {
	for _, h := range e.Hops {
		if h.Look == NotLooked {
			n++
		}
	}
	return n
}

// Result sums up all hops in one sentence.
func (e *Explanation) Result() string {
	switch b, n := e.Broken(), e.NotLooked(); {
	case b != nil:
		return "broken at: " + b.What
	case n == 1:
		return "nothing is broken, as far as it could be read; 1 part was not looked at"
	case n > 1:
		return fmt.Sprintf("nothing is broken, as far as it could be read; %d parts were not looked at", n)
	}
	if e.Names == Unserved {
		return fmt.Sprintf("nothing is broken, and %s serves no names", e.Self)
	}
	return "nothing is broken"
}

// Calls says how pods of the cluster call the Service; nothing if they can't.
func (e *Explanation) Calls() []string { return calls(e.Name, e.IP, e.Derived, e.Headless, e.Names) }

func calls(name types.NamespacedName, ip, derived string, headless bool, names Names) (lines []string) {
	known := ip != "" || headless
	if known && names == ServedByDNS {
		lines = append(lines, "pods call "+DNSName(name))
	}
	if ip != "" && derived != "" {
		lines = append(lines, fmt.Sprintf("pods call %s.%s.svc.cluster.local or %s", derived, name.Namespace, ip))
	}
	if known && names == NamesUnknown {
		lines = append(lines, fmt.Sprintf("where the cluster's DNS serves clusterset.local, pods call %s", DNSName(name)))
	}
	return lines
}

// DNSSuffix ends the names of imported Services.
const DNSSuffix = ".svc.clusterset.local"

// DNSName returns the name of an imported Service, where names are served.
func DNSName(name types.NamespacedName) string { return name.Name + "." + name.Namespace + DNSSuffix }

// Explain judges each hop from a name to the endpoints behind it.
func Explain(v View, name types.NamespacedName) Explanation {
	x := explainer{v: &v, out: Explanation{Name: name, Self: v.Self}}
	if !x.namespace() || !x.kinds() {
		return x.out
	}
	exporters, anybody := x.exports()
	if !anybody && named(v.Found.Imports, name) == nil {
		return x.out // without exports and an import, there are no further hops
	}
	x.imported(exporters)
	for _, p := range exporters {
		x.way(p)
	}
	x.served()
	return x.out
}

// served judges whether pods can resolve the name.
func (x *explainer) served() {
	s := x.v.Served
	if s == nil || x.out.IP == "" && !x.out.Headless {
		return
	}
	what := "name " + DNSName(x.out.Name)
	switch {
	case s.Problem != "":
		x.broken(what, s.Fix, "%s", s.Problem)
	case s.Unknown != "":
		x.unread(what, s.Unknown)
	case !s.Wanted && x.out.Headless:
		x.broken(what, command.Hintf("serve names: %s", x.ours("install", "--names")), "%s serves no names, and a headless Service has nothing else that pods could call", x.v.Self)
	case !s.Wanted:
		x.out.Names = Unserved
		x.good(what, "%s serves no names: pods call the derived Service", x.v.Self)
	default:
		x.out.Names = ServedByDNS
		x.good(what, "the DNS server runs, and the cluster's DNS forwards to it")
	}
}

type explainer struct {
	v   *View
	out Explanation
}

func (x *explainer) add(h Hop) { x.out.Hops = append(x.out.Hops, h) }

func (x *explainer) good(what, format string, args ...any) {
	x.add(Hop{What: what, Look: Good, At: x.v.At, Found: fmt.Sprintf(format, args...)})
}

func (x *explainer) broken(what string, fix command.Hint, format string, args ...any) {
	x.add(Hop{What: what, Look: Broken, At: x.v.At, Found: fmt.Sprintf(format, args...), Fix: fix})
}

func (x *explainer) unread(what, why string) { x.add(Hop{What: what, Found: why}) }

func (x *explainer) ours(words ...string) command.Command { return x.v.Ours(words...) }

// seeOperator is the advice if an object is missing that the operator usually writes within a second.
func (x *explainer) seeOperator() command.Hint {
	return command.Hintf("see whether the operator runs and serves Services by name: %s; to switch that on: %s", x.ours("info"), x.ours("install", "--services"))
}

// namespace judges the namespace of the name. It reports whether further hops can be judged.
func (x *explainer) namespace() bool {
	n := x.out.Name.Namespace
	what := "namespace " + n
	if Reserved(n, x.v.Own) {
		x.broken(what, command.Text("put the Service into another namespace"), "Services of this namespace are neither exported nor imported")
		return false
	}
	switch exists, known := x.v.Namespace(n); {
	case !known:
		x.unread(what, "this user may not see all namespaces")
	case !exists:
		x.broken(what, command.Text("create it: Services are imported only where their namespace exists"), "%s does not have it", x.v.Self)
		return false
	default:
		x.good(what, "it exists")
	}
	return true
}

func (x *explainer) kinds() bool {
	const what = "API of Services by name"
	switch f := &x.v.Found; {
	case f.Exports.Undefined || f.Imports.Undefined:
		x.broken(what, command.Hintf("switch it on: %s", x.ours("install", "--services")), "%s does not serve ServiceExport and ServiceImport of %s", x.v.Self, mcsv1beta1.GroupVersion)
		return false
	case !f.Exports.Read || !f.Imports.Read:
		x.unread(what, cmp.Or(f.Exports.Unread, f.Imports.Unread, "nobody has looked"))
	default:
		x.good(what, "it is served")
	}
	return true
}

// exports judges which clusters export the name, and returns the peers that do. anybody is also true if this
// cluster exports it, or if its ServiceExports were not read.
func (x *explainer) exports() (exporters []*PeerView, anybody bool) {
	v, name := x.v, x.out.Name
	own := named(v.Found.Exports, name)
	anybody = own != nil || !v.Found.Exports.Read
	what := "ServiceExport of " + string(v.Self)
	switch {
	case !v.Found.Exports.Read:
		x.unread(what, v.Found.Exports.why())
	case own != nil:
		x.add(exportHop(Hop{What: what, At: v.At}, own, v.Ours))
	}
	for i := range v.Peers {
		p := &v.Peers[i]
		if x.peerExports(p) {
			exporters, anybody = append(exporters, p), true
		}
	}
	if !anybody {
		x.broken("exports", x.exportIt(), "neither %s nor a peer that could be read exports it", v.Self)
	}
	return exporters, anybody
}

// exportIt is the advice to export the Service, in a cluster that was seen to have it.
func (x *explainer) exportIt() command.Hint {
	name := x.out.Name
	in := func(ours func(...string) command.Command) command.Hint {
		return command.Hintf("export it: %s", ours("service", "export", name.Name).Flag("--namespace", name.Namespace))
	}
	if named(x.v.Found.Services, name) != nil {
		return in(x.v.Ours)
	}
	for _, p := range x.v.Peers {
		if p.Found != nil && named(p.Found.Services, name) != nil {
			return in(p.Theirs)
		}
	}
	return command.Text("export it in the cluster that has the Service")
}

// exportHop judges a ServiceExport by its conditions.
func exportHop(h Hop, e *mcsv1beta1.ServiceExport, ours func(...string) command.Command) Hop {
	text, advice := ExportState(e)
	if h.Look, h.Found = Good, text; advice != "" {
		h.Look, h.Fix = Broken, command.Hintf("%s; all exports: %s", advice, ours("service", "list"))
	}
	return h
}

// ExportState describes the conditions of a ServiceExport in words. advice is "" if the Service is exported.
func ExportState(e *mcsv1beta1.ServiceExport) (text, advice string) {
	of := func(kind mcsv1beta1.ServiceExportConditionType) *metav1.Condition {
		return meta.FindStatusCondition(e.Status.Conditions, string(kind))
	}
	valid, ready, conflict := of(mcsv1beta1.ServiceExportConditionValid), of(mcsv1beta1.ServiceExportConditionReady), of(mcsv1beta1.ServiceExportConditionConflict)
	switch {
	case ready != nil && ready.Reason == ReasonAnotherProgram:
		return "it is not exported: " + sentence(ready.Message), "remove the other program, or let it export the Service"
	case valid == nil:
		return "the operator has not judged it yet", "see whether the operator serves Services by name"
	case valid.Status != metav1.ConditionTrue:
		return "it can't be exported: " + sentence(valid.Message), "change the Service, or delete the ServiceExport"
	case ready == nil || ready.Status != metav1.ConditionTrue:
		if ready == nil {
			return "it is not ready yet", "wait a few seconds"
		}
		return "it is not ready: " + sentence(ready.Message), "remove the reason"
	}
	text = "it is exported"
	if to, ok := e.Annotations[wire.AnnotationExportTo]; ok {
		text += " to " + Printable(cmp.Or(to, "nobody"))
	}
	if ready.Message != "" {
		text += ": " + sentence(ready.Message)
	}
	if conflict != nil && conflict.Status == metav1.ConditionTrue {
		text += fmt.Sprintf("; the exporters disagree (%s): %s", sentence(conflict.Reason), sentence(conflict.Message))
	}
	return text, ""
}

// peerExports judges whether a peer exports the name, and whether this cluster knows it. It reports
// whether the peer does.
func (x *explainer) peerExports(p *PeerView) bool {
	v, name := x.v, x.out.Name
	copies := v.copies(p.ID, name)
	var there *mcsv1beta1.ServiceExport
	if p.Found != nil {
		there = named(p.Found.Exports, name)
	}
	if there != nil {
		x.add(exportHop(Hop{What: "ServiceExport of " + string(p.ID), Peer: p.ID, At: p.At}, there, p.Theirs))
	}
	silent := p.Silent()
	h := Hop{What: "what " + string(p.ID) + " has sent", Peer: p.ID, At: p.heard()}
	check := command.Hintf("find the reason: %s", v.Both("check"))
	switch {
	case len(copies) > 0 && silent != "":
		h.Look, h.Fix, h.Found = Broken, check, silent+"; what it said before still counts"
	case len(copies) > 0:
		c := CountOf(copies)
		h.Look, h.Found = Good, fmt.Sprintf("%s, %d ready", endpoints(c.All), c.Ready)
	case !v.Found.Copies.Read:
		h.Found, h.At = v.Found.Copies.why(), time.Time{}
	case there != nil && !SentTo(there, v.Self):
		h.Look, h.Fix = Broken, command.Hintf("give it to %s, too: %s", v.Self, p.Theirs("service", "export", name.Name).Flag("--namespace", name.Namespace).Flag("--to", WithPeer(there, v.Self)))
		h.Found = fmt.Sprintf("nothing: %s exports it to %s only", p.ID, Printable(cmp.Or(there.Annotations[wire.AnnotationExportTo], "nobody")))
	case there != nil && silent != "":
		h.Look, h.Fix, h.Found = Broken, check, silent
	case there != nil:
		h.Look, h.Fix, h.Found = Broken, check, "nothing of this name"+refusal(p.Report, name)
	case p.Report != nil && refusal(p.Report, name) != "":
		h.Look, h.Fix, h.Found = Broken, command.Hintf("ask the admin of %s to change it", p.ID), "nothing that could be taken"+refusal(p.Report, name)
		x.add(h)
		return true
	case silent != "":
		h.Found, h.At = silent, time.Time{}
	default:
		return false // the peer does not export it
	}
	x.add(h)
	return there != nil || len(copies) > 0
}

// refusal returns the reason that a slice of the name was refused, as the end of a sentence; "" if none is
// known.
func refusal(r *wire.ServicesReport, name types.NamespacedName) string {
	for _, f := range r.Refused {
		// Names of slices begin with the name of their Service.
		if f.Example == name.String() || strings.HasPrefix(f.Example, name.String()+"-") {
			return ": " + Printable(f.Reason)
		}
	}
	return ""
}

// SentTo reports whether a ServiceExport, or one of its slices, is for a peer.
func SentTo(o metav1.Object, peer wire.ClusterID) bool {
	to, limited := o.GetAnnotations()[wire.AnnotationExportTo]
	return !limited || slices.ContainsFunc(strings.Split(to, ","), func(id string) bool { return strings.TrimSpace(id) == string(peer) })
}

// WithPeer lists the peers to which a ServiceExport is limited, and one more.
func WithPeer(e metav1.Object, peer wire.ClusterID) string {
	all := []string{string(peer)}
	for id := range strings.SplitSeq(e.GetAnnotations()[wire.AnnotationExportTo], ",") {
		if id = strings.TrimSpace(id); wire.ClusterID(id).Validate() == nil {
			all = append(all, id)
		}
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ",")
}

func endpoints(n int) string {
	if n == 1 {
		return "1 endpoint"
	}
	return fmt.Sprintf("%d endpoints", n)
}

// Allow is the command that adds namespaces to those into which a peer's Services are imported.
func (p *PeerView) Allow(ours func(...string) command.Command, namespaces ...string) command.Command {
	return ours("service", "allow", "--from", string(p.ID)).Flag("--namespace", p.Imports.With(namespaces...))
}

// imported judges the objects that the cluster has made from the exports.
func (x *explainer) imported(exporters []*PeerView) {
	v, name := x.v, x.out.Name
	for _, p := range exporters {
		h := Hop{What: "import from " + string(p.ID), Peer: p.ID, At: v.At}
		if x.imports(p) {
			if h.Look, h.Found = Good, string(v.Self)+" allows it for this namespace"; p.Imports.All {
				h.Found = string(v.Self) + " allows it for all namespaces"
			}
		} else {
			h.Look, h.Found, h.Fix = Broken, string(v.Self)+" does not allow it for this namespace", command.Hintf("if pods of %s may answer here under this name: %s", p.ID, p.Allow(v.Ours, name.Namespace))
		}
		x.add(h)
	}
	what := "ServiceImport"
	i := named(v.Found.Imports, name)
	switch {
	case !v.Found.Imports.Read:
		x.unread(what, v.Found.Imports.why())
		return
	case i == nil:
		x.broken(what, x.seeOperator(), "%s has none", v.Self)
		return
	}
	clusters := make([]string, len(i.Status.Clusters))
	for j, c := range i.Status.Clusters {
		clusters[j] = Printable(c.Cluster)
	}
	ready := meta.FindStatusCondition(i.Status.Conditions, string(mcsv1beta1.ServiceImportConditionReady))
	x.out.Headless = i.Spec.Type == mcsv1beta1.Headless
	switch {
	case ready == nil:
		x.broken(what, x.seeOperator(), "its state is not known")
	case ready.Status != metav1.ConditionTrue:
		x.broken(what, x.seeOperator(), "it is not ready: %s", sentence(ready.Message))
	default:
		x.good(what, "%s, of %s", i.Spec.Type, strings.Join(clusters, ", "))
	}
	if x.out.Headless {
		x.good("clusterset IP", "none: the Service is headless, its names lead to the endpoints")
	} else {
		x.derived(i)
	}
	x.slices(i)
}

func (x *explainer) imports(p *PeerView) bool {
	policy := Policy{Own: x.v.Own, Allowed: map[wire.ClusterID]Namespaces{p.ID: p.Imports}}
	return policy.Imports(x.out.Name.Namespace, p.ID)
}

// derived judges the clusterset IP, and the Service that has it.
func (x *explainer) derived(i *mcsv1beta1.ServiceImport) {
	if len(i.Spec.IPs) == 0 {
		x.broken("clusterset IP", x.seeOperator(), "the ServiceImport has none")
	} else {
		x.out.IP = Printable(i.Spec.IPs[0])
		x.good("clusterset IP", "%s", x.out.IP)
	}
	x.out.Derived = DerivedName(x.out.Name)
	what := "Service " + x.out.Derived
	var s *corev1.Service
	if s = named(x.v.Found.Services, types.NamespacedName{Namespace: x.out.Name.Namespace, Name: x.out.Derived}); !x.v.Found.Services.Read {
		x.unread(what, x.v.Found.Services.why())
		return
	}
	switch {
	case s == nil:
		x.broken(what, x.seeOperator(), "%s does not have it", x.v.Self)
	case !IsDerived(s):
		x.broken(what, command.Text("give that Service another name"), "another program has the name")
	case x.out.IP != "" && wire.ServiceIPv4(s) != x.out.IP:
		x.broken(what, x.seeOperator(), "its address is %s, and the ServiceImport says %s", wire.ServiceIPv4(s), x.out.IP)
	default:
		x.good(what, "it has the address %s", wire.ServiceIPv4(s))
	}
}

// slices judges the EndpointSlices to which the clusterset IP leads.
func (x *explainer) slices(i *mcsv1beta1.ServiceImport) {
	what := "EndpointSlices"
	if !x.v.Found.Slices.Read {
		x.unread(what, x.v.Found.Slices.why())
		return
	}
	if text, advice := x.v.unready(i); text != "" {
		x.broken(what, command.Text(advice), "%s", text)
		return
	}
	_, text := x.v.endpoints(i)
	x.good(what, "ready: %s", text)
}

// way judges how packets reach the endpoints of a peer.
func (x *explainer) way(p *PeerView) {
	if !x.imports(p) {
		return
	}
	here, home := x.endpoint(p)
	h := Hop{What: "address of an endpoint in " + string(p.ID), Peer: p.ID, At: x.v.At}
	copied := CountOf(x.v.copies(p.ID, x.out.Name))
	switch {
	case !x.v.Found.Slices.Read || !x.v.Found.Copies.Read:
		h.Found, h.At = cmp.Or(x.v.Found.Slices.Unread, x.v.Found.Copies.Unread, "nobody has looked"), time.Time{}
	case here != nil:
		h.Look, h.Found = Good, fmt.Sprintf("%s is %s in %s", here.Addresses[0], home, p.ID)
	case copied.All == 0:
		h.Look, h.Found, h.Fix = Broken, "there is none", command.Hintf("start pods that the Service selects in %s", p.ID)
	default:
		h.Look, h.Fix = Broken, command.Hintf("see the ranges of both: %s", x.ours("info", "peer", string(p.ID)))
		h.Found = fmt.Sprintf("%s has none for the %s of %s", x.v.Self, endpoints(copied.All), p.ID)
	}
	x.add(h)
	x.tunnel(p)
	if here != nil {
		x.atHome(p, home)
	}
}

// endpoint returns an endpoint of the peer as this cluster has it, a ready one if there is one, and its
// address in the peer; nil if there is none.
func (x *explainer) endpoint(p *PeerView) (here *discoveryv1.Endpoint, home string) {
	homes := map[string]string{}
	for _, s := range x.v.copies(p.ID, x.out.Name) {
		for i := range s.Endpoints {
			if a := s.Endpoints[i].Addresses; len(a) > 0 {
				if seen, ok := p.Seen(a[0]); ok {
					homes[seen] = a[0]
				}
			}
		}
	}
	for _, s := range x.v.Found.Of(p.ID, x.out.Name) {
		for i := range s.Endpoints {
			e := &s.Endpoints[i]
			if len(e.Addresses) > 0 && homes[e.Addresses[0]] != "" && (here == nil || !ready(here) && ready(e)) {
				here, home = e, homes[e.Addresses[0]]
			}
		}
	}
	return here, home
}

func (x *explainer) tunnel(p *PeerView) {
	h := Hop{What: "tunnel to " + string(p.ID), Peer: p.ID, At: p.Tunnel.At, Found: Printable(p.Tunnel.State)}
	switch {
	case p.Tunnel.State == "":
		h.Found, h.At = "the gateway has reported nothing", time.Time{}
	case p.Tunnel.Old:
		h.At = time.Time{}
	case p.Tunnel.Works:
		if h.Look = Good; p.Tunnel.RoundTrip > 0 {
			h.Found += ", round trip " + wire.FormatLatency(p.Tunnel.RoundTrip)
		}
	default:
		h.Look, h.Fix = Broken, command.Hintf("find the reason: %s", x.v.Both("check"))
	}
	x.add(h)
}

// atHome judges the endpoint in its own cluster.
func (x *explainer) atHome(p *PeerView, home string) {
	h := Hop{What: "endpoint " + home + " in " + string(p.ID), Peer: p.ID, At: p.At}
	if p.Found == nil || !p.Found.Slices.Read {
		h.At, h.Found = time.Time{}, cmp.Or(Printable(p.Unasked), "nobody has asked "+string(p.ID))
		if p.Found != nil {
			h.Found = p.Found.Slices.why()
		}
		x.add(h)
		return
	}
	h.Look, h.Found, h.Fix = Broken, "there is no such endpoint now", command.Text("wait a few seconds: it ends, or has just ended")
	for _, s := range p.Found.Of(p.ID, x.out.Name) {
		for i := range s.Endpoints {
			switch e := &s.Endpoints[i]; {
			case len(e.Addresses) == 0 || e.Addresses[0] != home:
			case ready(e):
				h.Look, h.Found, h.Fix = Good, "it is ready", command.Hint{}
			default:
				h.Found, h.Fix = "it is not ready", command.Hintf("see why its pod is not ready in %s", p.ID)
			}
		}
	}
	x.add(h)
}
