package operator

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/liqo-tui/liqo-tui/gateway/operator/ranges"
	"github.com/liqo-tui/liqo-tui/internal/ipam"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// inputs holds the facts for one gateway's children.
type inputs struct {
	view          view
	gateway       render.Gateway
	template      render.GatewayTemplate
	filled        render.Filled
	others        othersStatus  // if another program makes the gateway
	nodes         []corev1.Node // shared with other gateways: read only
	hosts         []render.Host
	pod           *corev1.Pod                      // the pod that holds the tunnel; nil until it has an address
	pods          []corev1.Pod                     // all pods of the gateway, by name
	nodeIPs       []string                         // addresses of the nodes of these pods
	host          netip.Addr                       // of the node of pod, if this node forwards packets to pods
	services      bool                             // the pods exchange Services with the peer
	replicas      int                              // the number of pods that share the tunnel
	told          string                           // the pod's address that the nodes know; "" if they know none
	toldVersion   string                           // the resource version of the InternalFabric with told
	configuration *networkingv1beta1.Configuration // nil until it exists
	spared        []ipam.Reservation               // addresses that must not be routed to a gateway
}

func (r *gateways) read(ctx context.Context, object client.Object) (*inputs, error) {
	key := client.ObjectKeyFromObject(object)
	remote := wire.ClusterID(object.GetLabels()[wire.LabelRemoteCluster])
	if remote == "" {
		return nil, reconcile.TerminalError(fmt.Errorf("%s %s has no label %s, which names its peer", r.kind.name, key, wire.LabelRemoteCluster))
	}
	gvk, err := r.client.GroupVersionKindFor(object)
	if err != nil {
		return nil, err
	}
	object.GetObjectKind().SetGroupVersionKind(gvk)
	in := &inputs{view: r.kind.view(object)}
	in.gateway = render.Gateway{
		Tenant: render.Tenant{Namespace: key.Namespace, Remote: remote},
		Name:   key.Name, Type: in.view.role, Owner: object,
	}
	if in.template, err = r.readTemplate(ctx, in.view.template); err != nil {
		return nil, err
	}
	return in, r.readSurroundings(ctx, in)
}

func (r *gateways) readSurroundings(ctx context.Context, in *inputs) error {
	reserved, err := r.surroundings.Reserved(ctx)
	if err != nil {
		return err
	}
	in.spared, in.nodes = ranges.Spared(reserved), r.surroundings.Sorted()
	if in.hosts, err = r.readHosts(ctx, r.client); err != nil {
		return err
	}
	here := client.InNamespace(in.gateway.Tenant.Namespace)
	var pods corev1.PodList
	if err := r.client.List(ctx, &pods, here, client.MatchingLabels{wire.LabelGatewayName: in.gateway.Name, wire.LabelComponent: "gateway"}); err != nil {
		return fmt.Errorf("list gateway pods: %w", err)
	}
	in.takePods(pods.Items)
	if err := r.readNodeIPs(ctx, in); err != nil {
		return err
	}
	if err := r.readFabric(ctx, in); err != nil {
		return err
	}
	var confs networkingv1beta1.ConfigurationList
	if err := r.client.List(ctx, &confs, here, client.MatchingLabels{wire.LabelRemoteCluster: string(in.gateway.Tenant.Remote)}); err != nil {
		return fmt.Errorf("list Configurations: %w", err)
	}
	in.configuration = wire.First(confs.Items)
	return nil
}

func (in *inputs) takePods(pods []corev1.Pod) {
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	in.pods, in.pod = pods, activePod(pods)
}

// readNodeIPs reads all addresses of the nodes of the gateway's pods. Depending on the pod network, packets
// of the pods arrive from these. It includes the nodes of standby pods, so that other nodes already know them
// when a standby pod takes over.
func (r *gateways) readNodeIPs(ctx context.Context, in *inputs) error {
	for i := range in.pods {
		report, err := r.readNode(ctx, in, in.pods[i].Spec.NodeName)
		if err != nil {
			return err
		}
		// An agent without this report does not forward packets to pods either.
		if in.pod != nil && in.pod.Name == in.pods[i].Name && report.MTU > 0 {
			in.host = report.IP
		}
	}
	return nil
}

// readNode reads the addresses of a node with a gateway pod, and the report of its agent. It reads nothing
// if the node does not exist.
func (r *gateways) readNode(ctx context.Context, in *inputs, name string) (report wire.NodeReport, err error) {
	j := slices.IndexFunc(in.nodes, func(n corev1.Node) bool { return n.Name == name })
	if j < 0 {
		return report, nil
	}
	var said networkingv1beta1.InternalNode
	if err := r.client.Get(ctx, client.ObjectKey{Name: name}, &said); client.IgnoreNotFound(err) != nil {
		return report, fmt.Errorf("read InternalNode %s: %w", name, err)
	}
	report, _ = wire.ParseNode(&said) // the gateways report a text that can't be parsed
	addresses := report.Addresses
	for _, a := range in.nodes[j].Status.Addresses {
		if ip, err := netip.ParseAddr(a.Address); err == nil {
			addresses = append(addresses, ip)
		}
	}
	for _, a := range addresses {
		if text := a.String(); a.Is4() && !slices.Contains(in.nodeIPs, text) {
			in.nodeIPs = append(in.nodeIPs, text)
		}
	}
	slices.Sort(in.nodeIPs)
	return report, nil
}

func (in *inputs) reals() []netip.Addr {
	var all []netip.Addr
	for _, h := range in.hosts {
		all = append(all, h.Real)
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

// readFabric reads the InternalFabric, which tells the nodes the address of the gateway.
func (r *gateways) readFabric(ctx context.Context, in *inputs) error {
	var f networkingv1beta1.InternalFabric
	err := r.client.Get(ctx, client.ObjectKey{Namespace: in.gateway.Tenant.Namespace, Name: in.gateway.Name}, &f)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read InternalFabric %s: %w", in.gateway.Name, err)
	}
	in.told, in.toldVersion = string(f.Spec.GatewayIP), f.ResourceVersion
	return nil
}

// activePod returns the pod that holds the tunnel. If several pods share the tunnel, this is the pod with the
// label. While a gateway is being replaced, it is the older pod. If no pod is ready, it is the newest pod
// that has an address and is not ending.
func activePod(pods []corev1.Pod) *corev1.Pod {
	shared := slices.ContainsFunc(pods, func(p corev1.Pod) bool { return render.SharesTunnel(&p.Spec) })
	living := slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool {
		return p.DeletionTimestamp != nil || wire.PodIPv4(&p) == "" || p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
	})
	silent := func(p corev1.Pod) bool { return p.Labels[wire.LabelActive] != "true" }
	if says := slices.DeleteFunc(slices.Clone(living), silent); len(says) > 0 {
		living = says
	} else if shared && slices.ContainsFunc(pods, func(p corev1.Pod) bool { return !silent(p) }) {
		return nil // the next pod has not set its label yet
	}
	if first := render.FirstReady(living); first != nil {
		return first
	}
	var found *corev1.Pod
	for i := range living {
		p := &living[i]
		if found == nil || found.CreationTimestamp.Before(&p.CreationTimestamp) {
			found = p
		}
	}
	return found
}

// supports returns the objects that a gateway's pod needs before it starts, and the objects that announce the
// pod to the nodes.
func (in *inputs) supports() ([]wire.Object, error) {
	hosts, err := in.gateway.HostsConfigMap(in.hosts)
	if err != nil {
		return nil, err
	}
	g := in.gateway
	role := g.Role()
	objects := []wire.Object{role, g.Connection(), hosts}
	if in.template.Ours() { // another program's gateway records nothing
		objects = append(objects, g.HistoryConfigMap())
	}
	if in.shared() || len(in.pods) > 1 {
		var names []string
		for i := range in.pods {
			names = append(names, in.pods[i].Name)
		}
		role.Rules = append(role.Rules, g.LeaderRules(names)...)
	}
	if in.services {
		role.Rules = append(role.Rules, g.ServicesRules()...)
	}
	if in.shared() {
		objects = append(objects, g.Lease())
	}
	if ip := in.gatewayIP(); ip != "" && in.configuration != nil && in.configuration.Status.Remote != nil {
		remote, leftOut, err := in.led()
		if err != nil {
			return nil, err
		}
		host := in.host
		if in.pod == nil || wire.PodIPv4(in.pod) != ip {
			host = netip.Addr{}
		}
		fabric := g.InternalFabric(render.Fabric{
			PodIP: ip, Host: host, Gone: in.gone(ip), Remote: remote, MTU: in.view.mtu, NodeIPs: in.nodeIPs, Hosts: in.reals(), LeftOut: leftOut, Also: in.also(),
		})
		if in.shared() { // another pod may have taken over since told was read, and may have written its own address
			fabric.ResourceVersion = in.toldVersion
		}
		objects = append(objects, fabric)
	}
	return objects, nil
}

// led returns the ranges that nodes route to the gateway, and the parts of the peer's ranges that nodes don't
// route. These parts contain addresses that this cluster needs, such as an address of a VPC that the peer's
// pods share with its load balancer, or of a node that joined after the range was assigned. A route to the
// gateway would cut off the cluster or the tunnel itself.
func (in *inputs) led() (remote []networkingv1beta1.CIDR, leftOut []string, err error) {
	all, err := in.seen()
	if err != nil {
		return nil, nil, fmt.Errorf("status of Configuration %s/%s: %w", in.configuration.Namespace, in.configuration.Name, err)
	}
	for _, p := range all {
		for _, s := range in.spared {
			if p.Overlaps(s.Prefix) {
				leftOut = append(leftOut, s.String())
			}
		}
		for _, part := range ipam.Without([]netip.Prefix{p}, in.spared) {
			remote = append(remote, networkingv1beta1.CIDR(part.String()))
		}
	}
	slices.Sort(leftOut)
	return remote, slices.Compact(leftOut), nil
}

// seen returns all ranges under which the peer is seen.
func (in *inputs) seen() ([]netip.Prefix, error) {
	cidr := in.configuration.Status.Remote.CIDR
	var out []netip.Prefix
	for _, c := range slices.Concat(cidr.Pod, cidr.External) {
		p, err := netip.ParsePrefix(string(c))
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	for _, p := range in.also() {
		if !slices.Contains(out, p) {
			out = append(out, p)
		}
	}
	return out, nil
}

// also returns the former and the next ranges of a peer that is being renumbered.
func (in *inputs) also() []netip.Prefix {
	told, _ := wire.ParseAliases(in.configuration) // only the operator writes it
	var out []netip.Prefix
	for _, a := range told {
		out = append(out, a.Seen)
	}
	return out
}

func (in *inputs) shared() bool { return in.replicas > 1 }

// gatewayIP returns the address to which nodes send the peer's traffic; "" until it is known. If several pods
// share the tunnel, the pod that holds it writes this address itself, because our list of pods may be
// outdated.
func (in *inputs) gatewayIP() string {
	if e := in.others.InternalEndpoint; e != nil && e.IP != nil {
		return string(*e.IP)
	}
	if in.pod == nil || in.shared() && in.told != "" {
		return in.told
	}
	return wire.PodIPv4(in.pod)
}

// gone reports whether no pod of the gateway has this address any more. Another pod may have it now. A pod
// that shares the tunnel may have announced itself before its address is in its status.
func (in *inputs) gone(ip string) bool {
	return in.others.InternalEndpoint == nil && !slices.ContainsFunc(in.pods, func(p corev1.Pod) bool {
		if p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded {
			return false
		}
		return wire.PodIPv4(&p) == ip || in.shared() && wire.PodIPv4(&p) == "" && p.Spec.NodeName != ""
	})
}

func sameNode(a, b *corev1.Node) bool {
	return slices.Equal(a.Status.Addresses, b.Status.Addresses) && ready(a) == ready(b)
}

func ready(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// values returns the values for the gateway's template; keys is the name of the Secret with its keys.
func (in *inputs) values(keys string) render.Values {
	return render.Values{
		Spec: in.view.spec, Name: in.gateway.Name, Namespace: in.gateway.Tenant.Namespace,
		GatewayUID: string(in.view.object.GetUID()), ClusterID: string(in.gateway.Tenant.Remote), SecretName: keys,
	}
}

func (in *inputs) deployment() (*appsv1.Deployment, error) {
	d, err := in.filled.Deployment()
	if err != nil {
		return nil, err
	}
	in.replicas = 1 // Kubernetes' default
	if d.Spec.Replicas != nil {
		in.replicas = int(*d.Spec.Replicas)
	}
	if in.shared() {
		render.ShareTunnel(d)
	}
	in.services = render.ExchangesServices(&d.Spec.Template.Spec)
	return d, nil
}
