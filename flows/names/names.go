// Package names decides how the DNS of a cluster gets to know the names of imported Services: it
// forwards their zone to our DNS server. Forwarding is the one way that all kinds of cluster DNS
// have. With forwarding, a fault of our server or of our definitions can't break the cluster's own
// names.
package names

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Zone is the zone of imported Services, by the Multi-Cluster Services API.
const Zone = "clusterset.local"

// Sources are the objects that say which DNS a cluster has. Those that exist are the facts of
// [Forward] and [Withdraw].
var Sources = []Source{
	{configMap, "coredns"},
	{configMap, "coredns-custom"},
	{configMap, "rke2-coredns-rke2-coredns"},
	{configMap, "kube-dns"},
	{configMap, "node-local-dns"},
	{configMap, "nodelocaldns"},
	{schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, "kube-dns"},
	{daemonSet, "node-local-dns"},
	{daemonSet, "nodelocaldns"},
	{schema.GroupVersionKind{Group: "operator.openshift.io", Version: "v1", Kind: "DNS"}, "default"},
}

var (
	configMap = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	daemonSet = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "DaemonSet"}
)

// Source names one of the [Sources].
type Source struct {
	Kind schema.GroupVersionKind
	Name string
}

// Namespace is the namespace of all Sources but those of OpenShift, which are in none.
func (s Source) Namespace() string {
	if s.Kind.Group == "operator.openshift.io" {
		return ""
	}
	return "kube-system"
}

// Verdict says what has to be changed in a cluster's DNS.
type Verdict struct {
	// DNS is the kind of the cluster's DNS, as a noun; "" if it is unknown.
	DNS string
	// Changes are the changes that are left to make. Without changes and Refusal, all is as wanted.
	Changes []Change
	// Notes are what an admin has to know of the changes, one sentence each.
	Notes []string
	// Refusal is the reason that this program does not make the change. Advice tells an admin how to
	// make the change. Both are "" if the program makes it.
	Refusal, Advice string
}

const byHand = "have the cluster's DNS forward %s to %s yourself"

func refuse(dns, reason, advice string, args ...any) Verdict {
	return Verdict{DNS: dns, Refusal: reason, Advice: fmt.Sprintf(advice, args...)}
}

// Change is a change of one field of one object.
type Change struct {
	Live  *unstructured.Unstructured // nil: the object does not exist
	Field []string
	Value any // nil: the field is removed
	// Gone is set if the whole object is removed, because we made it and it has no other data.
	Gone   bool
	source Source
}

// Want returns the object with the field alone, as our field manager applies it. An object that does
// not exist yet has our label.
func (c Change) Want() *unstructured.Unstructured {
	o := c.object()
	if c.Value != nil {
		_ = unstructured.SetNestedField(o.Object, c.Value, c.Field...) // no parent of the field is a string, so there is no error
	}
	return o
}

func (c Change) object() *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{}}
	o.SetGroupVersionKind(c.source.Kind)
	o.SetNamespace(c.source.Namespace())
	o.SetName(c.source.Name)
	if c.Live == nil || made(c.Live) {
		o.SetLabels(map[string]string{wire.LabelManagedBy: wire.ManagedBy})
	}
	if c.Live != nil {
		o.SetResourceVersion(c.Live.GetResourceVersion())
	}
	return o
}

// applied reports whether we have written fields of the object.
func applied(o *unstructured.Unstructured) bool {
	return slices.ContainsFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == wire.FieldManager })
}

func made(o *unstructured.Unstructured) bool {
	return o.GetLabels()[wire.LabelManagedBy] == wire.ManagedBy
}

// Forward returns what has to be changed so that the cluster's DNS forwards the zone to our server.
func Forward(facts []*unstructured.Unstructured, server netip.Addr) Verdict {
	return cluster(facts).decide(server)
}

// Withdraw returns what has to be changed so that nothing of ours is in the cluster's DNS. The
// parameter server is the address to which the DNS forwards at present; not valid if that is unknown.
func Withdraw(facts []*unstructured.Unstructured, server netip.Addr) Verdict {
	c := cluster(facts)
	var v Verdict
	for _, name := range []string{"coredns", "rke2-coredns-rke2-coredns", "node-local-dns", "nodelocaldns"} {
		o := c.find(configMap, name)
		if o == nil {
			continue
		}
		text := corefileOf(o)
		switch wanted := withoutBlock(text, server); {
		case wanted != text && byAddOn(o):
			v.Notes = append(v.Notes, "The setting corefile of the CoreDNS add-on still has the server block for "+Zone+": remove it there.")
		default:
			v.set(Source{configMap, name}, o, []string{"data", corefileKey}, text, wanted)
		}
	}
	if o := c.find(configMap, "coredns-custom"); o != nil {
		v.removeKey(Source{configMap, "coredns-custom"}, o, customKey)
	}
	if o := c.find(configMap, "kube-dns"); o != nil {
		text := dataOf(o, stubDomains)
		switch rest, ok := withoutStub(text, server, applied(o)); {
		case ok && rest == "":
			v.removeKey(Source{configMap, "kube-dns"}, o, stubDomains)
		case ok:
			v.set(Source{configMap, "kube-dns"}, o, []string{"data", stubDomains}, text, rest)
		}
	}
	if o := c.openShift(); o != nil {
		servers, _, _ := unstructured.NestedSlice(o.Object, "spec", "servers")
		kept := slices.DeleteFunc(slices.Clone(servers), isOurs)
		if len(kept) < len(servers) {
			change := Change{Live: o, source: openShiftDNS, Field: []string{"spec", "servers"}}
			if len(kept) > 0 {
				change.Value = kept
			}
			v.Changes = append(v.Changes, change)
		}
	}
	return v
}

// set adds a change of a text, if it differs.
func (v *Verdict) set(s Source, live *unstructured.Unstructured, field []string, now, wanted string) {
	if now != wanted {
		v.Changes = append(v.Changes, Change{Live: live, Field: field, Value: wanted, source: s})
	}
}

// removeKey adds the removal of a key of a ConfigMap, if it is there.
func (v *Verdict) removeKey(s Source, o *unstructured.Unstructured, key string) {
	data, _, _ := unstructured.NestedMap(o.Object, "data")
	if _, ok := data[key]; ok {
		v.Changes = append(v.Changes, Change{Live: o, Field: []string{"data", key}, Gone: made(o) && len(data) == 1, source: s})
	}
}

// cluster is a cluster's DNS, as its objects show it.
type cluster []*unstructured.Unstructured

func (c cluster) find(kind schema.GroupVersionKind, name string) *unstructured.Unstructured {
	for _, o := range c {
		if o.GroupVersionKind() == kind && o.GetName() == name {
			return o
		}
	}
	return nil
}

func dataOf(o *unstructured.Unstructured, key string) string {
	text, _, _ := unstructured.NestedString(o.Object, "data", key)
	return text
}

const corefileKey = "Corefile"

func corefileOf(o *unstructured.Unstructured) string { return dataOf(o, corefileKey) }

// decide finds the kind of the DNS by properties that only this kind has, and returns the changes
// for it.
func (c cluster) decide(server netip.Addr) Verdict {
	var v Verdict
	core, custom := c.find(configMap, "coredns"), c.find(configMap, "coredns-custom")
	switch rke2 := c.find(configMap, "rke2-coredns-rke2-coredns"); {
	case c.openShift() != nil:
		return c.forwardOpenShift(server)
	case rke2 != nil:
		v = c.forwardCorefile("CoreDNS of RKE2", rke2, server)
		v.note("An update of RKE2 writes the ConfigMap anew. Run the command again after it.")
	case core == nil:
		return c.forwardKubeDNS(server)
	case byAddOn(core):
		v = c.forwardCorefile(addOn, core, server)
		if v.Refusal == "" && len(v.Changes) > 0 {
			return refuse(addOn, "EKS manages ConfigMap kube-system/coredns, and an update of the add-on fails or undoes the change if another program changes it",
				"add these lines to the setting corefile of the add-on, then run the command again:\n%s", serverBlock(corefileOf(core), server))
		}
	case importsCustom(corefileOf(core)):
		v = c.forwardCustom(core, custom, server)
	default:
		v = c.forwardCorefile("CoreDNS", core, server)
		if release := core.GetAnnotations()["meta.helm.sh/release-name"]; release != "" {
			v.note("Helm release " + release + " has made the ConfigMap, and its next upgrade may undo the change. Run the command again after it.")
		}
	}
	if v.Refusal == "" {
		v.join(c.forwardNodeLocal(server))
	}
	return v
}

// note adds a sentence about the changes, if there are any.
func (v *Verdict) note(sentence string) {
	if len(v.Changes) > 0 && !slices.Contains(v.Notes, sentence) {
		v.Notes = append(v.Notes, sentence)
	}
}

// join adds what a second DNS in front of the first one needs. If the second DNS can't be changed,
// the first DNS is not changed either.
func (v *Verdict) join(more Verdict) {
	if more.Refusal != "" {
		v.Changes, v.Notes = nil, nil
	}
	if more.DNS != "" {
		v.DNS += " behind " + more.DNS
	}
	v.Changes = append(v.Changes, more.Changes...)
	for _, n := range more.Notes {
		v.note(n)
	}
	v.Refusal, v.Advice = more.Refusal, more.Advice
}

const addOn = "CoreDNS add-on of EKS"

// byAddOn reports whether the EKS add-on manages CoreDNS. Clusters on EKS without the add-on have the
// label, too.
func byAddOn(o *unstructured.Unstructured) bool {
	return o.GetLabels()["eks.amazonaws.com/component"] != "" &&
		slices.ContainsFunc(o.GetManagedFields(), func(e metav1.ManagedFieldsEntry) bool { return e.Manager == "eks" })
}

// forwardCorefile adds a server block to a ConfigMap's Corefile.
func (c cluster) forwardCorefile(dns string, o *unstructured.Unstructured, server netip.Addr) Verdict {
	v := Verdict{DNS: dns}
	text := corefileOf(o)
	wanted, err := withBlock(text, server)
	if err != nil {
		return refuse(dns, "ConfigMap kube-system/"+o.GetName()+": "+err.Error(), byHand, Zone, server)
	}
	v.set(Source{configMap, o.GetName()}, o, []string{"data", corefileKey}, text, wanted)
	blocks, _ := parse(wanted)
	v.note(takesEffect(blocks))
	return v
}

// customKey is our key of the ConfigMap coredns-custom. Each key that ends in .server is imported.
const customKey = "liqo-tui.server"

// forwardCustom adds a file that the Corefile imports: k3s and AKS write the Corefile itself anew.
func (c cluster) forwardCustom(core, custom *unstructured.Unstructured, server netip.Addr) Verdict {
	v := Verdict{DNS: "CoreDNS that imports files"}
	text, now := corefileOf(core), ""
	files := map[string]string{}
	if custom != nil {
		files, _, _ = unstructured.NestedStringMap(custom.Object, "data") // a copy
		now = files[customKey]
		delete(files, customKey)
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !strings.HasSuffix(name, ".server") { // it is imported inside of a block
			files[name] = ". {\n" + files[name] + "\n}"
		}
		text += files[name] + "\n"
	}
	blocks, err := parse(text)
	if err == nil {
		if slices.ContainsFunc(blocks, func(b block) bool { return b.forwards(server) }) {
			return v
		}
		err = foreign(blocks)
	}
	if err != nil {
		return refuse(v.DNS, "ConfigMaps kube-system/coredns and kube-system/coredns-custom: "+err.Error(), byHand, Zone, server)
	}
	v.set(Source{configMap, "coredns-custom"}, custom, []string{"data", customKey}, now, serverBlock(corefileOf(core), server))
	v.note(takesEffect(blocks))
	return v
}

// forwardNodeLocal adds a block to the cache on nodes. Without it, the cache asks the resolvers
// outside of the cluster for the zone, and never the cluster's DNS.
func (c cluster) forwardNodeLocal(server netip.Addr) Verdict {
	for _, name := range []string{"node-local-dns", "nodelocaldns"} {
		if c.find(daemonSet, name) == nil {
			continue
		}
		const dns = "NodeLocal DNSCache"
		o := c.find(configMap, name)
		if o == nil || corefileOf(o) == "" {
			return refuse(dns, "DaemonSet kube-system/"+name+" exists, but ConfigMap kube-system/"+name+" is missing or has no Corefile", "have NodeLocal DNSCache forward %s to %s yourself", Zone, server)
		}
		v := c.forwardCorefile(dns, o, server)
		if o.GetAnnotations()["meta.helm.sh/release-name"] != "" {
			v.note("Helm has made ConfigMap kube-system/" + name + ", and its next upgrade may undo the change. Run the command again after it.")
		}
		return v
	}
	return Verdict{}
}

const stubDomains = "stubDomains"

// forwardKubeDNS adds a stub domain. NodeLocal DNSCache reads the stub domain from the same ConfigMap.
// An additional block would be a second block for the zone, and NodeLocal DNSCache would not start.
func (c cluster) forwardKubeDNS(server netip.Addr) Verdict {
	const dns = "kube-dns"
	d := c.find(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, "kube-dns")
	if d == nil {
		return refuse("", "the cluster has neither CoreDNS nor kube-dns in kube-system", byHand, Zone, server)
	}
	if n, ok, _ := unstructured.NestedFieldNoCopy(d.Object, "spec", "replicas"); ok && fmt.Sprint(n) == "0" { // an int64, or a float64
		return refuse(dns, "Deployment kube-system/kube-dns has no pods: another DNS answers, such as Cloud DNS for GKE", byHand, Zone, server)
	}
	for _, name := range []string{"node-local-dns", "nodelocaldns"} {
		if o := c.find(configMap, name); o != nil && forwardsTo(corefileOf(o), "cluster.local", cloudDNS) {
			return refuse("Cloud DNS for GKE", "Cloud DNS answers for the cluster, and can't forward a zone to a server in the cluster", byHand, Zone, server)
		}
	}
	o := c.find(configMap, "kube-dns")
	now := ""
	if o != nil {
		now = dataOf(o, stubDomains)
	}
	wanted, err := withStub(now, server, o != nil && applied(o))
	if err != nil {
		return refuse(dns, "ConfigMap kube-system/kube-dns: "+err.Error(), byHand, Zone, server)
	}
	v := Verdict{DNS: dns}
	v.set(Source{configMap, "kube-dns"}, o, []string{"data", stubDomains}, now, wanted)
	v.note("kube-dns reads its ConfigMap about once a minute.")
	return v
}

// cloudDNS is the resolver of Google's virtual machines.
const cloudDNS = "169.254.169.254"

var openShiftDNS = Sources[len(Sources)-1]

func (c cluster) openShift() *unstructured.Unstructured {
	return c.find(openShiftDNS.Kind, openShiftDNS.Name)
}

// serverName is the name of our entry among the servers of OpenShift's DNS.
const serverName = "liqo-tui"

func isOurs(server any) bool {
	s, ok := server.(map[string]any)
	return ok && s["name"] == serverName
}

// forwardOpenShift adds a server to the settings of OpenShift's DNS operator.
func (c cluster) forwardOpenShift(server netip.Addr) Verdict {
	o, v := c.openShift(), Verdict{DNS: "DNS operator of OpenShift"}
	if state, _, _ := unstructured.NestedString(o.Object, "spec", "managementState"); state == "Unmanaged" {
		return refuse(v.DNS, "DNS default is Unmanaged, so the operator ignores its settings", "set its managementState to Managed, then run the command again")
	}
	servers, _, _ := unstructured.NestedSlice(o.Object, "spec", "servers")
	ours := map[string]any{
		"name": serverName, "zones": []any{Zone}, "forwardPlugin": map[string]any{"upstreams": []any{server.String()}},
	}
	var kept []any
	for _, s := range servers {
		if isOurs(s) {
			if upstreams, _, _ := unstructured.NestedStringSlice(s.(map[string]any), "forwardPlugin", "upstreams"); slices.Equal(upstreams, []string{server.String()}) {
				return v // the operator adds defaults to it
			}
			continue
		}
		if m, ok := s.(map[string]any); ok {
			zones, _, _ := unstructured.NestedStringSlice(m, "zones")
			for _, z := range zones {
				if within(zoneOf(z)) {
					return refuse(v.DNS, fmt.Sprintf("server %v of DNS default is for zone %s already: another program answers for it", m["name"], z), "remove the server if nobody needs it, then run the command again")
				}
			}
		}
		kept = append(kept, s)
	}
	v.Changes = []Change{{Live: o, source: openShiftDNS, Field: []string{"spec", "servers"}, Value: append(kept, ours)}}
	return v
}

// takesEffect says when CoreDNS reads a change of its Corefile.
func takesEffect(blocks []block) string {
	if slices.ContainsFunc(blocks, func(b block) bool { return b.has("reload") }) {
		return "CoreDNS reads the change within 2 minutes."
	}
	return "CoreDNS has no plugin reload: restart its pods, so that they read the change."
}
