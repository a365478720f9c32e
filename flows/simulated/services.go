package simulated

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"net/http"
	"net/netip"
	"reflect"
	"slices"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows/address"
	"github.com/liqo-tui/liqo-tui/internal/services"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// found is what an API server answers about one name, or about all names if name is zero.
func (c *Cluster) found(name types.NamespacedName) services.Found {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	f := services.Found{}
	f.Slices.Read, f.Copies.Read, f.Services.Read = true, true, name.Name != ""
	f.Exports.Read, f.Imports.Read = c.behaviour.Services, c.behaviour.Services
	f.Exports.Undefined, f.Imports.Undefined = !c.behaviour.Services, !c.behaviour.Services
	for _, r := range c.store.sorted() {
		o := r.object.DeepCopyObject().(wire.Object)
		f.Add(name, o)
		if s, ok := o.(*corev1.Service); ok && f.Services.Read && s.Namespace == name.Namespace && (s.Name == name.Name || s.Name == services.DerivedName(name)) {
			f.Services.Items = append(f.Services.Items, *s)
		}
	}
	return f
}

// offers are the Services of all namespaces.
func (c *Cluster) offers() (all []corev1.Service) {
	c.world.mu.Lock()
	defer c.world.mu.Unlock()
	for _, r := range c.store.sorted() {
		if s, ok := r.object.(*corev1.Service); ok {
			all = append(all, *s.DeepCopy())
		}
	}
	return all
}

// call is a request of a pod to an imported Service. It arrives if the Service has a ready endpoint, here or
// behind a tunnel that works.
func (c *Cluster) call(r render.ProbeCall) render.ProbeCallResult {
	for _, rec := range c.store.sorted() {
		i, ok := rec.object.(*mcsv1beta1.ServiceImport)
		if !ok {
			continue
		}
		name := types.NamespacedName{Namespace: i.Namespace, Name: i.Name}
		byIP := slices.Contains(i.Spec.IPs, r.Host)
		if !byIP && (services.DNSName(name) != r.Host || !c.servesNames()) {
			continue
		}
		out := render.ProbeCallResult{Address: r.Host, Problem: "connection refused"}
		for _, rec := range c.store.sorted() {
			s, ok := rec.object.(*discoveryv1.EndpointSlice)
			if !ok || s.Namespace != i.Namespace || services.SliceOf(s) != i.Name {
				continue
			}
			from := wire.ClusterID(s.Labels[mcsv1beta1.LabelSourceCluster])
			for _, e := range s.Endpoints {
				if e.Conditions.Ready != nil && !*e.Conditions.Ready {
					continue
				}
				if !byIP {
					out.Address = e.Addresses[0]
					if len(i.Spec.IPs) > 0 {
						out.Address = i.Spec.IPs[0]
					}
				}
				if from == c.identity.ID || c.connected(from) {
					out.Problem, out.Micros = "", (4 * time.Millisecond).Microseconds()
					if r.HTTP {
						out.Status = http.StatusOK
					}
					return out
				}
				out.Problem = "no answer within 2s"
			}
		}
		return out
	}
	return render.ProbeCallResult{Problem: "the name has no address"}
}

// servesNames reports whether the DNS server for imported Services is installed.
func (c *Cluster) servesNames() bool {
	return c.store.records[key{"Deployment", c.identity.Namespace, wire.DNSName}] != nil
}

// nameServices is the work of the operator and the gateways for Services by name, one stage at a time: the
// export is judged, its slices are made, the peers get copies, and each cluster imports.
func (c *Cluster) nameServices() bool {
	if !c.behaviour.Services {
		return false
	}
	changed := false
	var all []discoveryv1.EndpointSlice // of Kubernetes
	own := map[types.NamespacedName]*mcsv1beta1.ServiceExport{}
	names := map[types.NamespacedName]bool{}
	policy := services.Policy{Own: []string{c.identity.Namespace}, Allowed: map[wire.ClusterID]services.Namespaces{}}
	peers := map[wire.ClusterID]*networkingv1beta1.Configuration{}
	for _, r := range c.store.sorted() {
		name := types.NamespacedName{Namespace: r.object.GetNamespace(), Name: r.object.GetName()}
		switch o := r.object.(type) {
		case *mcsv1beta1.ServiceExport:
			if o.DeletionTimestamp == nil {
				own[name], names[name] = o, true
			}
		case *mcsv1beta1.ServiceImport:
			names[name] = true
		case *networkingv1beta1.Configuration:
			peers[remoteOf(o)], policy.Allowed[remoteOf(o)] = o, services.ParseNamespaces(o)
		case *discoveryv1.EndpointSlice:
			all = append(all, *o)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(peers)) {
		changed = c.receive(id, peers[id], names) || changed
	}
	sorted := slices.SortedFunc(maps.Keys(names), func(a, b types.NamespacedName) int { return cmp.Compare(a.String(), b.String()) })
	for _, name := range sorted { // UIDs are made from a counter
		changed = c.name(name, own[name], all, policy, peers) || changed
	}
	return changed
}

// receive keeps in the tenant namespace what the peer exports, as long as the gateways are connected.
func (c *Cluster) receive(id wire.ClusterID, conf *networkingv1beta1.Configuration, names map[types.NamespacedName]bool) (changed bool) {
	peer := c.world.peer(c, id)
	if peer == nil || !peer.behaviour.Services || !c.connected(id) {
		return false
	}
	kept := map[string]bool{}
	from := services.Peer{ID: id, Own: []string{c.identity.Namespace}}
	for _, cidr := range conf.Spec.Remote.CIDR.Pod {
		if p, err := netip.ParsePrefix(string(cidr)); err == nil {
			from.Ranges = append(from.Ranges, p)
		}
	}
	for _, r := range peer.store.sorted() {
		s, ok := r.object.(*discoveryv1.EndpointSlice)
		if !ok || s.Labels[mcsv1beta1.LabelSourceCluster] != string(id) || !services.SentTo(s, c.identity.ID) {
			continue
		}
		copied, _ := services.Admit(s, from)
		if copied == nil {
			continue
		}
		copied.Namespace = conf.Namespace
		kept[copied.Name], names[services.CopyOf(copied)] = true, true
		changed = c.keep(copied) || changed
	}
	return c.drop(func(s *discoveryv1.EndpointSlice) bool {
		return s.Labels[wire.LabelRemoteCluster] == string(id) && services.CopyOf(s).Name != "" && !kept[s.Name]
	}) || changed
}

// connected reports whether the gateway says that the peer answers.
func (c *Cluster) connected(id wire.ClusterID) bool {
	for _, r := range c.store.records {
		if conn, ok := r.object.(*networkingv1beta1.Connection); ok && remoteOf(conn) == id && conn.Status.Value == networkingv1beta1.Connected {
			return true
		}
	}
	return false
}

// name makes what the cluster has for one name.
func (c *Cluster) name(name types.NamespacedName, export *mcsv1beta1.ServiceExport, all []discoveryv1.EndpointSlice, policy services.Policy, peers map[wire.ClusterID]*networkingv1beta1.Configuration) (changed bool) {
	if c.store.records[key{"Namespace", "", name.Namespace}] == nil {
		return false
	}
	w := services.World{Name: name, Self: c.identity.ID, Export: export, Policy: policy}
	if export != nil {
		var service *corev1.Service
		if r := c.store.records[key{"Service", name.Namespace, name.Name}]; r != nil {
			service = r.object.(*corev1.Service)
		}
		var pods []netip.Prefix
		for _, cidr := range c.identity.Networks.Pod {
			pods = append(pods, netip.MustParsePrefix(string(cidr)))
		}
		made := services.Exported(service, export, all, c.identity.ID, pods, policy.Own)
		for _, cond := range made.Conditions {
			changed = c.say(&export.Status.Conditions, cond) || changed
		}
		w.Own = made.Slices
	}
	if r := c.store.records[key{"Service", name.Namespace, services.DerivedName(name)}]; r != nil {
		w.Derived = r.object.(*corev1.Service)
	}
	imported := c.store.records[key{mcsv1beta1.ServiceImportKindName, name.Namespace, name.Name}]
	if imported != nil {
		w.ImportUID = imported.object.GetUID()
	}
	for id, conf := range peers {
		x := services.Exporter{ID: id, Down: !c.connected(id), Seen: func(text string) (string, bool) {
			real, err := netip.ParseAddr(text)
			if err != nil {
				return "", false
			}
			seen, err := address.SeenAs(conf, real)
			return seen.String(), err == nil
		}}
		for i := range all {
			if s := &all[i]; s.Labels[wire.LabelRemoteCluster] == string(id) && services.CopyOf(s) == name {
				x.Copies = append(x.Copies, *s)
			}
		}
		w.Peers = append(w.Peers, x)
	}
	m := services.Merge(w)
	if m.Import == nil {
		if imported != nil {
			delete(c.store.records, c.store.keyOf(imported.object))
			changed = true
		}
	} else {
		changed = c.keep(m.Import) || changed
	}
	if m.Service != nil {
		m.Service.Spec.ClusterIPs = []string{clusterIP(name)}
		changed = c.keep(m.Service) || changed
	}
	if m.Conflict != nil {
		changed = c.say(&export.Status.Conditions, *m.Conflict) || changed
	}
	kept := map[string]bool{}
	for i := range m.Slices {
		kept[m.Slices[i].Name] = true
		changed = c.keep(&m.Slices[i]) || changed
	}
	return c.drop(func(s *discoveryv1.EndpointSlice) bool {
		return s.Namespace == name.Namespace && services.SliceOf(s) == name.Name && !kept[s.Name]
	}) || changed
}

// clusterIP is the address that the API server gives a derived Service.
func clusterIP(name types.NamespacedName) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(name.String())) // it never fails
	sum := h.Sum32()
	return fmt.Sprintf("10.97.%d.%d", byte(sum>>8), byte(sum))
}

// say sets a condition.
func (c *Cluster) say(all *[]metav1.Condition, cond metav1.Condition) bool {
	cond.LastTransitionTime = metav1.NewTime(c.clock())
	return meta.SetStatusCondition(all, cond)
}

// keep makes an object of the operator, or gives it this content.
func (c *Cluster) keep(o wire.Object) bool {
	k := c.store.keyOf(o)
	r := c.store.records[k]
	if r == nil {
		c.store.create(k, o)
		return true
	}
	o.SetUID(r.object.GetUID())
	o.SetCreationTimestamp(r.object.GetCreationTimestamp())
	o.SetGeneration(r.object.GetGeneration())
	if i, ok := o.(*mcsv1beta1.ServiceImport); ok {
		was := r.object.(*mcsv1beta1.ServiceImport)
		for j := range i.Status.Conditions {
			cond := &i.Status.Conditions[j]
			if cond.LastTransitionTime = metav1.NewTime(c.clock()); len(was.Status.Conditions) > j && was.Status.Conditions[j].Status == cond.Status {
				cond.LastTransitionTime = was.Status.Conditions[j].LastTransitionTime
			}
		}
	}
	if reflect.DeepEqual(r.object, o) {
		return false
	}
	r.object = o
	return true
}

// drop deletes EndpointSlices of the operator and the gateways.
func (c *Cluster) drop(gone func(*discoveryv1.EndpointSlice) bool) (changed bool) {
	for k, r := range c.store.records {
		if s, ok := r.object.(*discoveryv1.EndpointSlice); ok && gone(s) {
			delete(c.store.records, k)
			changed = true
		}
	}
	return changed
}

// servicesReport is what a gateway says of the Services that both clusters export.
func (c *Cluster) servicesReport(id wire.ClusterID, works bool) *wire.ServicesReport {
	if !c.behaviour.Services {
		return nil
	}
	r := &wire.ServicesReport{}
	for _, rec := range c.store.records {
		s, ok := rec.object.(*discoveryv1.EndpointSlice)
		switch {
		case !ok:
		case s.Labels[wire.LabelRemoteCluster] == string(id) && services.CopyOf(s).Name != "":
			r.Received++
		case s.Labels[mcsv1beta1.LabelSourceCluster] == string(c.identity.ID) && services.SentTo(s, id):
			r.Served++
		}
	}
	peer := c.world.peer(c, id)
	switch {
	case !works:
		r.Problem = "the tunnel does not work"
	case peer == nil || !peer.behaviour.Services:
		r.Problem = "the peer's gateway does not serve Services by name"
	default:
		now := c.clock()
		r.Watched, r.Complete, r.Heard = true, &now, &now
	}
	return r
}
