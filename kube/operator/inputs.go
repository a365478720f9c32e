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

	"github.com/liqo-tui/liqo-tui/ipam"
	"github.com/liqo-tui/liqo-tui/kube/operator/ranges"
	"github.com/liqo-tui/liqo-tui/render"
)

// inputs are what one gateway's children are made from.
type inputs struct {
	view          view
	gateway       render.Gateway
	template      render.GatewayTemplate
	filled        render.Filled
	others        othersStatus  // if another program makes the gateway
	nodes         []corev1.Node // shared: nothing changes them
	hosts         []render.Host
	pod           *corev1.Pod                      // that holds the tunnel; nil until it has an address
	pods          []corev1.Pod                     // all that there are, by name
	nodeIPs       []string                         // addresses of the nodes that they are on
	host          netip.Addr                       // of the node of pod, if it passes packets on to pods
	replicas      int                              // pods that share the tunnel
	told          string                           // the pod's address, as nodes have it; "" if they have none
	toldVersion   string                           // of the InternalFabric that says so
	configuration *networkingv1beta1.Configuration // nil until it exists
	spared        []ipam.Reservation               // addresses that nothing may lead to a gateway
}

// read collects a gateway's inputs.
func (r *gateways) read(ctx context.Context, object client.Object) (*inputs, error) {
	key := client.ObjectKeyFromObject(object)
	remote := render.ClusterID(object.GetLabels()[render.LabelRemoteCluster])
	if remote == "" {
		return nil, reconcile.TerminalError(fmt.Errorf("%s %s has no label %s, which names its peer", r.kind.name, key, render.LabelRemoteCluster))
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
	if err := r.client.List(ctx, &pods, here, client.MatchingLabels{render.LabelGatewayName: in.gateway.Name, render.LabelComponent: "gateway"}); err != nil {
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
	if err := r.client.List(ctx, &confs, here, client.MatchingLabels{render.LabelRemoteCluster: string(in.gateway.Tenant.Remote)}); err != nil {
		return fmt.Errorf("list Configurations: %w", err)
	}
	in.configuration = render.First(confs.Items)
	return nil
}

func (in *inputs) takePods(pods []corev1.Pod) {
	slices.SortFunc(pods, func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	in.pods, in.pod = pods, activePod(pods)
}

// readNodeIPs reads under which addresses a pod network may send what the gateway's
// pods send: any that their nodes have. Those of standby pods are among them, so
// that nodes need not be told anything more when one of them takes over.
func (r *gateways) readNodeIPs(ctx context.Context, in *inputs) error {
	for i := range in.pods {
		report, err := r.readNode(ctx, in, in.pods[i].Spec.NodeName)
		if err != nil {
			return err
		}
		// Agents that don't say it don't pass packets on to pods either.
		if in.pod != nil && in.pod.Name == in.pods[i].Name && report.MTU > 0 {
			in.host = report.IP
		}
	}
	return nil
}

// readNode reads which addresses a node has that a gateway is on, and what its agent
// says; nothing of a node that is not there.
func (r *gateways) readNode(ctx context.Context, in *inputs, name string) (report render.NodeReport, err error) {
	j := slices.IndexFunc(in.nodes, func(n corev1.Node) bool { return n.Name == name })
	if j < 0 {
		return report, nil
	}
	var said networkingv1beta1.InternalNode
	if err := r.client.Get(ctx, client.ObjectKey{Name: name}, &said); client.IgnoreNotFound(err) != nil {
		return report, fmt.Errorf("read InternalNode %s: %w", name, err)
	}
	report, _ = render.ParseNode(&said) // what can't be read is named by the gateways
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

// reals are the addresses that hosts have themselves.
func (in *inputs) reals() []netip.Addr {
	var all []netip.Addr
	for _, h := range in.hosts {
		all = append(all, h.Real)
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

// readFabric reads what the nodes were told last.
func (r *gateways) readFabric(ctx context.Context, in *inputs) error {
	var f networkingv1beta1.InternalFabric
	err := r.client.Get(ctx, client.ObjectKey{Namespace: in.gateway.Tenant.Namespace, Name: in.gateway.Name}, &f)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("read InternalFabric %s: %w", in.gateway.Name, err)
	}
	in.told, in.toldVersion = string(f.Spec.GatewayIP), f.ResourceVersion
	return nil
}

// activePod is the pod that holds the tunnel: of several that share it, the one that says
// so; of a gateway that is being replaced, the one that was there first. Where none is ready, it
// is the newest that has an address and is not ending.
func activePod(pods []corev1.Pod) *corev1.Pod {
	shared := slices.ContainsFunc(pods, func(p corev1.Pod) bool { return render.SharesTunnel(&p.Spec) })
	living := slices.DeleteFunc(slices.Clone(pods), func(p corev1.Pod) bool {
		return p.DeletionTimestamp != nil || podIP(&p) == "" || p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
	})
	silent := func(p corev1.Pod) bool { return p.Labels[render.LabelActive] != "true" }
	if says := slices.DeleteFunc(slices.Clone(living), silent); len(says) > 0 {
		living = says
	} else if shared && slices.ContainsFunc(pods, func(p corev1.Pod) bool { return !silent(p) }) {
		return nil // the next one has not said it yet
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

// supports are the objects that a gateway's pod needs before it starts, and
// that tell the nodes about it.
func (in *inputs) supports() ([]render.Object, error) {
	hosts, err := in.gateway.HostsConfigMap(in.hosts)
	if err != nil {
		return nil, err
	}
	g := in.gateway
	role := g.Role()
	objects := []render.Object{role, g.Connection(), hosts}
	if in.shared() || len(in.pods) > 1 {
		var names []string
		for i := range in.pods {
			names = append(names, in.pods[i].Name)
		}
		role.Rules = append(role.Rules, g.LeaderRules(names)...)
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
		if in.pod == nil || podIP(in.pod) != ip {
			host = netip.Addr{}
		}
		fabric := g.InternalFabric(render.Fabric{
			PodIP: ip, Host: host, Gone: in.gone(ip), Remote: remote, MTU: in.view.mtu, NodeIPs: in.nodeIPs, Hosts: in.reals(), LeftOut: leftOut, Also: in.also(),
		})
		if in.shared() { // the address may be another pod's since it was read: that pod has written it
			fabric.ResourceVersion = in.toldVersion
		}
		objects = append(objects, fabric)
	}
	return objects, nil
}

// led are the ranges that nodes lead to the gateway, and what of the peer's they
// don't. A range may have been given before an address in it was needed here: a
// VPC's that the peer's pods share with its load balancer, or a node's that came
// later. Without that address the cluster, or the tunnel itself, would be cut off.
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

// seen are the ranges under which the peer is seen, in any way.
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

// also are the former and the next ranges of a peer that has both.
func (in *inputs) also() []netip.Prefix {
	told, _ := render.ParseAliases(in.configuration) // written by the operator alone
	var out []netip.Prefix
	for _, a := range told {
		out = append(out, a.Seen)
	}
	return out
}

// shared reports whether several pods share the tunnel.
func (in *inputs) shared() bool { return in.replicas > 1 }

// gatewayIP is where nodes send the peer's traffic; "" as long as that is open.
// Where several pods share the tunnel, the one that has it says so itself: what
// we know of pods may be older than that.
func (in *inputs) gatewayIP() string {
	if e := in.others.InternalEndpoint; e != nil && e.IP != nil {
		return string(*e.IP)
	}
	if in.pod == nil || in.shared() && in.told != "" {
		return in.told
	}
	return podIP(in.pod)
}

// gone reports whether no pod of the gateway has the address: it may be another
// pod's by now. Of pods that share the tunnel, one may have said that it is there
// before its address is in its status.
func (in *inputs) gone(ip string) bool {
	return in.others.InternalEndpoint == nil && !slices.ContainsFunc(in.pods, func(p corev1.Pod) bool {
		if p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded {
			return false
		}
		return podIP(&p) == ip || in.shared() && podIP(&p) == "" && p.Spec.NodeName != ""
	})
}

// podIP is the pod's IPv4 address, which need not be its first.
func podIP(p *corev1.Pod) string {
	for _, ip := range p.Status.PodIPs {
		if isIPv4(ip.IP) {
			return ip.IP
		}
	}
	return p.Status.PodIP
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

// values are what the gateway's template is filled in with; keys names the Secret with
// its keys.
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
	return d, nil
}
