package simulated

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/netip"
	"reflect"
	"slices"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/ipam"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// work lets all controllers of a cluster make one step. A controller makes at most
// one change to each object in a step, so that observers see the states in
// between.
func (c *Cluster) work() bool {
	changed := c.store.collect()
	changed = c.endPods() || changed
	changed = c.install() || changed
	if c.behaviour.MTUFixer {
		changed = c.fixMTUs() || changed
	}
	if c.behaviour.Silent || c.identity.Software == flows.NoSoftware {
		return changed
	}
	if c.identity.Software == flows.Liqo {
		changed = c.lend() || changed
	} else {
		changed = c.nameServices() || changed
	}
	for _, r := range c.store.sorted() {
		if r.object.GetDeletionTimestamp() != nil {
			continue
		}
		switch o := r.object.(type) {
		case *networkingv1beta1.Configuration:
			changed = c.configure(o) || changed
		case *networkingv1beta1.GatewayServer:
			changed = c.runGateway(o, o.Status.SecretRef == nil, func(ref *corev1.ObjectReference) { o.Status.SecretRef = ref }) || changed
		case *networkingv1beta1.GatewayClient:
			changed = c.runGateway(o, o.Status.SecretRef == nil, func(ref *corev1.ObjectReference) { o.Status.SecretRef = ref }) || changed
		}
	}
	return changed
}

// endPods ends the pods of deleted gateways, one tick later.
func (c *Cluster) endPods() bool {
	alive := map[types.UID]bool{}
	for _, r := range c.store.records {
		alive[r.object.GetUID()] = true
	}
	changed := false
	for uid, g := range c.gateways {
		if alive[uid] {
			continue
		}
		if changed = true; !g.ending {
			g.ending = true
			continue
		}
		delete(c.gateways, uid)
	}
	return changed
}

const (
	fixedMTU = 1200 // bytes
	mtuFixer = "mtu-fixer"
)

func (c *Cluster) fixMTUs() bool {
	changed := false
	for _, r := range c.store.records {
		var mtu *int
		switch o := r.object.(type) {
		case *networkingv1beta1.GatewayServer:
			mtu = &o.Spec.MTU
		case *networkingv1beta1.GatewayClient:
			mtu = &o.Spec.MTU
		default:
			continue
		}
		if *mtu != fixedMTU {
			*mtu, changed = fixedMTU, true
			r.object.SetGeneration(r.object.GetGeneration() + 1)
			r.written(mtuFixer, metav1.ManagedFieldsOperationUpdate, fieldpath.NewSet(fieldpath.MakePathOrDie("spec", "mtu")), c.clock())
		}
	}
	return changed
}

// configure assigns remapped ranges to the peer in three steps: none, half of
// them, all of them.
func (c *Cluster) configure(o *networkingv1beta1.Configuration) bool {
	if c.behaviour.NoCIDRs {
		return false
	}
	cond := meta.FindStatusCondition(o.Status.Conditions, networkingv1beta1.ConfigurationConditionNetworkCIDRsConfigured)
	want := o.Spec.Remote.CIDR
	switch {
	case o.Spec.Local == nil:
		o.Spec.Local = &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{
			Pod: slices.Clone(c.identity.Networks.Pod), External: slices.Clone(c.identity.Networks.External),
		}}
		metav1.SetMetaDataLabel(&o.ObjectMeta, wire.LabelConfigured, "true")
		metav1.SetMetaDataAnnotation(&o.ObjectMeta, render.AnnotationLocalRanges, wire.RangesText(o.Spec.Local.CIDR))
		o.Generation++
		c.condition(o, metav1.ConditionFalse, "WaitingForNetworks")
	case o.Status.Remote == nil || len(o.Status.Remote.CIDR.Pod) != len(want.Pod) || len(o.Status.Remote.CIDR.External) != len(want.External):
		o.Status.Remote = &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{
			Pod: c.remap(o, ipam.Pods, want.Pod), External: make([]networkingv1beta1.CIDR, len(want.External)),
		}}
		c.condition(o, metav1.ConditionFalse, "WaitingForNetworks")
	case cond == nil || cond.Status != metav1.ConditionTrue || cond.ObservedGeneration != o.Generation:
		pods := c.remap(o, ipam.Pods, want.Pod)
		o.Status.Remote.CIDR = networkingv1beta1.ClusterConfigCIDR{Pod: pods, External: c.remap(o, ipam.External, want.External, pods...)}
		c.condition(o, metav1.ConditionTrue, networkingv1beta1.ConfigurationConditionNetworkCIDRsConfigured)
	default:
		return c.renumber(o)
	}
	return true
}

// renumber changes the ranges under which the peer is seen, in three steps: both
// ranges are published, the next one is used, the former one is released.
func (c *Cluster) renumber(o *networkingv1beta1.Configuration) bool {
	asked, err := wire.ParseRenumbering(o)
	if err != nil || c.identity.Software != flows.Operator {
		return false
	}
	told, _ := wire.ParseAliases(o)
	say := func(reason, message string) {
		meta.SetStatusCondition(&o.Status.Conditions, metav1.Condition{
			Type: wire.ConditionRenumbering, Status: metav1.ConditionTrue, Reason: reason, Message: message,
			ObservedGeneration: o.Generation, LastTransitionTime: metav1.NewTime(c.clock()),
		})
	}
	leaves := func(seen networkingv1beta1.CIDR) bool {
		return slices.ContainsFunc(asked.Leave, func(p netip.Prefix) bool { return p.String() == string(seen) })
	}
	seen := o.Status.Remote.CIDR
	switch leaving := slices.ContainsFunc(slices.Concat(seen.Pod, seen.External), leaves); {
	case leaving && len(told) == 0:
		pods := c.next(o, ipam.Pods, o.Spec.Remote.CIDR.Pod, seen.Pod, leaves)
		told = append(pods, c.next(o, ipam.External, o.Spec.Remote.CIDR.External, seen.External, leaves, pods...)...)
		setAnnotation(o, wire.AnnotationAlso, wire.JoinAliases(told))
		say(wire.ReasonPreparing, "this waits for node control")
	case leaving && !c.behaviour.NodesLag:
		o.Status.Remote = o.Status.Remote.DeepCopy()
		for _, list := range [][]networkingv1beta1.CIDR{o.Status.Remote.CIDR.Pod, o.Status.Remote.CIDR.External} {
			for i, cidr := range list {
				if !leaves(cidr) {
					continue
				}
				former := slices.IndexFunc(told, func(a wire.Alias) bool { return a.Seen.String() == string(cidr) })
				j := slices.IndexFunc(told, func(a wire.Alias) bool { return a.Real == told[former].Real && a.Seen != told[former].Seen })
				list[i] = networkingv1beta1.CIDR(told[j].Seen.String())
			}
		}
		say(wire.ReasonFormerKept, "the former range works until later")
	case !leaving && len(told) > 0 && asked.Keep <= 0:
		delete(o.GetAnnotations(), wire.AnnotationAlso)
		meta.RemoveStatusCondition(&o.Status.Conditions, wire.ConditionRenumbering)
	default:
		return false
	}
	return true
}

// next returns pairs of the next and the present range, for each range that is
// given up.
func (c *Cluster) next(o *networkingv1beta1.Configuration, kind string, reals, seen []networkingv1beta1.CIDR, leaves func(networkingv1beta1.CIDR) bool, more ...wire.Alias) []wire.Alias {
	taken := slices.Concat(seen, o.Status.Remote.CIDR.Pod, o.Status.Remote.CIDR.External)
	for _, a := range more {
		taken = append(taken, networkingv1beta1.CIDR(a.Seen.String()))
	}
	var out []wire.Alias
	for i, cidr := range reals {
		if !leaves(seen[i]) {
			continue
		}
		is := netip.MustParsePrefix(string(cidr))
		for _, both := range append(c.remap(o, kind, []networkingv1beta1.CIDR{cidr}, taken...), seen[i]) {
			out = append(out, wire.Alias{Seen: netip.MustParsePrefix(string(both)), Real: is})
		}
	}
	return out
}

func (c *Cluster) condition(o *networkingv1beta1.Configuration, status metav1.ConditionStatus, reason string) {
	meta.SetStatusCondition(&o.Status.Conditions, metav1.Condition{
		Type: networkingv1beta1.ConfigurationConditionNetworkCIDRsConfigured, Status: status, Reason: reason,
		ObservedGeneration: o.Generation, LastTransitionTime: metav1.NewTime(c.clock()),
	})
}

// remap assigns ranges as the operator does. A range for which no room is left
// stays empty.
func (c *Cluster) remap(o *networkingv1beta1.Configuration, kind string, cidrs []networkingv1beta1.CIDR, taken ...networkingv1beta1.CIDR) []networkingv1beta1.CIDR {
	var busy []ipam.Reservation
	for _, r := range slices.Concat(c.identity.Networks.Pod, c.identity.Networks.External, taken, c.ofOthers(o), []networkingv1beta1.CIDR{"10.96.0.0/12"}) {
		if p, err := netip.ParsePrefix(string(r)); err == nil {
			busy = append(busy, ipam.Reservation{Prefix: p})
		}
	}
	out := make([]networkingv1beta1.CIDR, len(cidrs))
	for i, cidr := range cidrs {
		p, err := netip.ParsePrefix(string(cidr))
		if err != nil {
			continue
		}
		request := ipam.Request{Want: p, Peer: string(remoteOf(o)), Kind: kind}
		if got, _, err := ipam.Allocate(busy, request, ipam.DefaultPools()); err == nil {
			out[i], busy = networkingv1beta1.CIDR(got.String()), append(busy, ipam.Reservation{Prefix: got})
		}
	}
	return out
}

// ofOthers returns the ranges under which the cluster sees its other peers.
func (c *Cluster) ofOthers(o *networkingv1beta1.Configuration) (all []networkingv1beta1.CIDR) {
	for _, r := range c.store.records {
		if other, ok := r.object.(*networkingv1beta1.Configuration); ok && remoteOf(other) != remoteOf(o) && other.Status.Remote != nil {
			all = append(append(all, other.Status.Remote.CIDR.Pod...), other.Status.Remote.CIDR.External...)
		}
	}
	slices.Sort(all) // the order must be the same in each run
	return all
}

// runGateway lets one gateway make one step. The steps are the key and the
// Connection, the endpoint, the pod, and then the pod's reports about its tunnel.
func (c *Cluster) runGateway(o wire.Object, fresh bool, setSecret func(*corev1.ObjectReference)) bool {
	g := c.gateways[o.GetUID()]
	if g == nil {
		g = &gateway{key: sha256.Sum256([]byte(o.GetUID()))}
		c.gateways[o.GetUID()] = g
	}
	g.age++
	name := wire.GatewayObjectName(o.GetName())
	if c.ensureConnection(o) {
		g.start(o)
		return true
	}
	if (fresh || !g.published) && !c.behaviour.NoKeys {
		setSecret(&corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: o.GetNamespace(), Name: name})
		g.published = true
		if c.identity.Software == flows.Operator {
			setAnnotation(o, wire.AnnotationPublicKey, base64.StdEncoding.EncodeToString(g.key[:]))
		}
		return true
	}
	if s, ok := o.(*networkingv1beta1.GatewayServer); ok && c.expose(s, g) {
		return true
	}
	if c.identity.Software == flows.Operator && c.rotate(o, g) {
		return true
	}
	return c.runPod(g) || c.report(o, g)
}

// rotate creates the next key, or uses it, as the annotations request.
func (c *Cluster) rotate(o wire.Object, g *gateway) bool {
	asks := o.GetAnnotations()
	text := base64.StdEncoding.EncodeToString
	switch {
	case asks[wire.AnnotationRotateKey] != text(g.key[:]):
		return false
	case g.next == wgtypes.Key{}:
		g.next = sha256.Sum256(g.key[:])
		setAnnotation(o, wire.AnnotationNextPublicKey, text(g.next[:]))
	case asks[wire.AnnotationUseKey] == text(g.next[:]):
		g.key, g.next = g.next, wgtypes.Key{}
		setAnnotation(o, wire.AnnotationPublicKey, text(g.key[:]))
		delete(o.GetAnnotations(), wire.AnnotationNextPublicKey)
	default:
		return false
	}
	return true
}

func setAnnotation(o metav1.Object, name, value string) {
	annotations := o.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[name] = value
	o.SetAnnotations(annotations)
}

func (c *Cluster) ensureConnection(o wire.Object) bool {
	role := networkingv1beta1.ConnectionTypeServer
	if _, ok := o.(*networkingv1beta1.GatewayClient); ok {
		role = networkingv1beta1.ConnectionTypeClient
	}
	want := render.Gateway{
		Tenant: render.Tenant{Namespace: o.GetNamespace(), Remote: remoteOf(o)}, Name: o.GetName(), Type: role, Owner: o,
	}.Connection()
	k := c.store.keyOf(want)
	if r := c.store.records[k]; r != nil && metav1.IsControlledBy(r.object, o) {
		return c.gateways[o.GetUID()].pod == nil
	}
	c.store.create(k, want)
	return true
}

func remoteOf(o metav1.Object) wire.ClusterID {
	return wire.ClusterID(o.GetLabels()[wire.LabelRemoteCluster])
}

// loadBalancerTicks is the number of ticks until a provider assigns an address.
const loadBalancerTicks = 5

// expose publishes the server's endpoint.
func (c *Cluster) expose(s *networkingv1beta1.GatewayServer, g *gateway) bool {
	problem := ""
	if n := s.Spec.Endpoint.NodePort; n != nil {
		problem = c.behaviour.Refuses[uint16(*n)]
	}
	if s.Annotations[wire.AnnotationProblem] != problem {
		if setAnnotation(s, wire.AnnotationProblem, problem); problem == "" {
			delete(s.Annotations, wire.AnnotationProblem)
		}
		return true
	}
	if problem != "" {
		return false
	}
	want := c.endpoint(s, g)
	if reflect.DeepEqual(s.Status.Endpoint, want) {
		return false
	}
	s.Status.Endpoint = want
	return true
}

// nodePort returns the first free node port. Each cluster begins at another port.
func (c *Cluster) nodePort(s *networkingv1beta1.GatewayServer) int32 {
	taken := map[int32]bool{}
	for _, r := range c.store.records {
		if o, ok := r.object.(*networkingv1beta1.GatewayServer); ok && o.UID != s.UID && o.Status.Endpoint != nil {
			taken[o.Status.Endpoint.Port] = true
		}
	}
	port := 30000 + int32(c.host)
	for taken[port] {
		port++
	}
	return port
}

func (c *Cluster) endpoint(s *networkingv1beta1.GatewayServer, g *gateway) *networkingv1beta1.EndpointStatus {
	e := &networkingv1beta1.EndpointStatus{Port: s.Spec.Endpoint.Port, Protocol: new(corev1.ProtocolUDP)}
	address := ""
	switch s.Spec.Endpoint.ServiceType {
	case corev1.ServiceTypeNodePort:
		address = fmt.Sprintf("172.18.0.%d", c.host)
		e.Port = c.nodePort(s)
		switch was := s.Status.Endpoint; {
		case s.Spec.Endpoint.NodePort != nil:
			e.Port = *s.Spec.Endpoint.NodePort
		case was != nil && was.Port >= 30000 && was.Port <= 32767:
			e.Port = was.Port // a Service keeps its port
		}
	case corev1.ServiceTypeLoadBalancer:
		if c.behaviour.LoadBalancerPending || g.age < loadBalancerTicks {
			return nil
		}
		address = fmt.Sprintf("203.0.113.%d", c.host)
		if s.Spec.Endpoint.LoadBalancerIP != nil {
			address = *s.Spec.Endpoint.LoadBalancerIP
		}
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeExternalName:
		address = fmt.Sprintf("10.96.0.%d", c.host)
	}
	if c.behaviour.ServicePort != 0 {
		e.Port = c.behaviour.ServicePort
	}
	e.Addresses = []string{address}
	return e
}
