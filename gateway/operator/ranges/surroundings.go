package ranges

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/internal/ipam"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Surroundings are the addresses that the cluster, its admins and its tunnels need. If a peer's range
// contained one, nodes would route its packets to a gateway.
type Surroundings struct {
	cache  client.Reader // for Nodes, InternalNodes, gateways, and the API servers' EndpointSlice
	reader client.Reader // not cached, because a cache of all Services would cost more than a rare list
	server string        // the host of the URL by which the operator itself reaches the API server
	lookUp func(ctx context.Context, network, name string) ([]netip.Addr, error)

	mu       sync.Mutex
	services []host
	listed   time.Time
	names    map[string]answer
	all      []corev1.Node // by name
	ofNodes  []ipam.Reservation
	version  ofVersion // of the Nodes and InternalNodes in these fields
}

// ofVersion identifies a state of the Nodes and InternalNodes. Each change has a higher version.
type ofVersion struct {
	nodes, said int
	last        string
}

func (v *ofVersion) see(version string) {
	// Versions are decimal numbers.
	if cmp.Or(cmp.Compare(len(version), len(v.last)), cmp.Compare(version, v.last)) > 0 {
		v.last = version
	}
}

// host is an address or a name, and its use.
type host struct{ name, reason string }

type answer struct {
	addresses []netip.Addr
	at        time.Time
}

const (
	// servicesAge and namesAge are the times for which answers are kept, because hundreds of peers may appear
	// at once.
	servicesAge = 10 * time.Second
	namesAge    = time.Minute
	// lookUpTime is the time for all names together. A name without an answer reserves nothing, because a
	// gateway could not dial it either.
	lookUpTime = 2 * time.Second
)

// APIServerSlice is the EndpointSlice with the API servers' addresses. The API servers
// maintain it under this name.
func APIServerSlice() client.ObjectKey {
	return client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "kubernetes"}
}

// NewSurroundings returns Surroundings with the API server of config. Only the first of the two readers is
// cached.
func NewSurroundings(cache, reader client.Reader, config *rest.Config) *Surroundings {
	s := &Surroundings{cache: cache, reader: reader, lookUp: net.DefaultResolver.LookupNetIP}
	if u, _, err := rest.DefaultServerUrlFor(config); err == nil { // without an error, because the operator already uses config
		s.server = u.Hostname()
	}
	return s
}

// Reserved lists all addresses, each with its reason.
func (s *Surroundings) Reserved(ctx context.Context) ([]ipam.Reservation, error) {
	return s.known(ctx, servicesAge)
}

// known returns the same as Reserved. The list of Services may be as old as age.
func (s *Surroundings) known(ctx context.Context, age time.Duration) ([]ipam.Reservation, error) {
	out, err := s.nodes(ctx)
	if err != nil {
		return nil, err
	}
	hosts, err := s.gateways(ctx)
	if err != nil {
		return nil, err
	}
	servers, err := s.apiServers(ctx)
	if err != nil {
		return nil, err
	}
	hosts = append(hosts, servers...)
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.listed) > age {
		if s.services, err = listServices(ctx, s.reader); err != nil {
			return nil, err
		}
		s.listed = time.Now()
	}
	hosts = append(hosts, s.services...)
	s.resolve(ctx, hosts)
	for _, h := range hosts {
		if a, err := netip.ParseAddr(h.name); err == nil {
			out = append(out, ipam.Host(a, h.reason))
			continue
		}
		for _, a := range s.names[h.name].addresses {
			out = append(out, ipam.Host(a, h.reason+", "+h.name))
		}
	}
	return out, nil
}

// nodes returns the addresses and networks of the nodes. After a change of a node, hundreds of gateways need
// them at once.
func (s *Surroundings) nodes(ctx context.Context) ([]ipam.Reservation, error) {
	var list corev1.NodeList
	if err := s.cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Nodes: %w", err)
	}
	var said networkingv1beta1.InternalNodeList
	err := s.cache.List(ctx, &said, client.UnsafeDisableDeepCopy)
	if err != nil && !meta.IsNoMatchError(err) { // an older installation has no InternalNodes
		return nil, fmt.Errorf("list InternalNodes: %w", err)
	}
	now := ofVersion{nodes: len(list.Items), said: len(said.Items)}
	for i := range list.Items {
		now.see(list.Items[i].ResourceVersion)
	}
	for i := range said.Items {
		now.see(said.Items[i].ResourceVersion)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.version != now {
		slices.SortFunc(list.Items, func(a, b corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
		s.all, s.ofNodes, s.version = list.Items, nodeReservations(list.Items, said.Items), now
	}
	return slices.Clone(s.ofNodes), nil
}

// Sorted returns the nodes of the last reservations, by name. Callers must not change them.
func (s *Surroundings) Sorted() []corev1.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all
}

func nodeReservations(nodes []corev1.Node, said []networkingv1beta1.InternalNode) []ipam.Reservation {
	var out []ipam.Reservation
	there := make(map[string]bool, len(nodes))
	for _, n := range nodes {
		there[n.Name] = true
		var addresses []netip.Addr
		for _, a := range n.Status.Addresses {
			if ip, err := netip.ParseAddr(a.Address); err == nil {
				addresses = append(addresses, ip)
			}
		}
		out = append(out, ipam.Node(n.Name, addresses)...)
	}
	// Most nodes of a cluster are in the same networks.
	seen := map[netip.Prefix]bool{}
	for i := range said {
		n := &said[i]
		if !there[n.Name] {
			continue
		}
		networks, _ := wire.NodeNetworks(n)            // gateways report networks that can't be read
		for _, p := range ipam.Around(networks, nil) { // the agent reports only such networks
			if !seen[p] {
				seen[p] = true
				out = append(out, ipam.Reservation{Prefix: p, Reason: "a route of node " + n.Name})
			}
		}
		servers, _ := wire.NodeNameservers(n)
		for _, a := range servers {
			if r := ipam.Host(a, "DNS server of node "+n.Name); !seen[r.Prefix] {
				seen[r.Prefix] = true
				out = append(out, r)
			}
		}
	}
	return out
}

// gateways returns the endpoints of this cluster's tunnels, here and at its peers.
func (s *Surroundings) gateways(ctx context.Context) ([]host, error) {
	var clients networkingv1beta1.GatewayClientList
	if err := s.cache.List(ctx, &clients, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list GatewayClients: %w", err)
	}
	var servers networkingv1beta1.GatewayServerList
	if err := s.cache.List(ctx, &servers, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list GatewayServers: %w", err)
	}
	var out []host
	add := func(o client.Object, kind string, e *networkingv1beta1.EndpointStatus) {
		for _, a := range e.Addresses {
			out = append(out, host{a, "endpoint of " + kind + " " + o.GetNamespace() + "/" + o.GetName()})
		}
	}
	for i := range clients.Items {
		add(&clients.Items[i], "GatewayClient", &clients.Items[i].Spec.Endpoint)
	}
	for i := range servers.Items {
		if e := servers.Items[i].Status.Endpoint; e != nil {
			add(&servers.Items[i], "GatewayServer", e)
		}
	}
	return out, nil
}

func (s *Surroundings) apiServers(ctx context.Context) ([]host, error) {
	var out []host
	if s.server != "" {
		out = append(out, host{s.server, "API server, as the operator reaches it"})
	}
	var slice discoveryv1.EndpointSlice
	if err := s.cache.Get(ctx, APIServerSlice(), &slice); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read the API servers' addresses: %w", err)
	}
	for _, e := range slice.Endpoints {
		for _, a := range e.Addresses {
			out = append(out, host{a, "API server"})
		}
	}
	return out, nil
}

func listServices(ctx context.Context, reader client.Reader) ([]host, error) {
	var list corev1.ServiceList
	if err := reader.List(ctx, &list); err != nil {
		return nil, fmt.Errorf("list Services: %w", err)
	}
	var out []host
	for i := range list.Items {
		svc := &list.Items[i]
		add := func(what string, addresses ...string) {
			for _, a := range addresses {
				if _, err := netip.ParseAddr(a); err == nil { // "" and None are no addresses
					out = append(out, host{a, what + " of Service " + svc.Namespace + "/" + svc.Name})
				}
			}
		}
		if client.ObjectKeyFromObject(svc) == APIServerSlice() || svc.Labels["k8s-app"] == "kube-dns" {
			add("cluster IP", svc.Spec.ClusterIPs...)
		}
		add("external IP", svc.Spec.ExternalIPs...)
		add("load balancer IP", svc.Spec.LoadBalancerIP)
		for _, in := range svc.Status.LoadBalancer.Ingress {
			add("load balancer", in.IP)
		}
	}
	return out, nil
}

// resolve looks up the names among hosts, and drops the answers for other names.
func (s *Surroundings) resolve(ctx context.Context, hosts []host) {
	ctx, cancel := context.WithTimeout(ctx, lookUpTime)
	defer cancel()
	known := s.names
	s.names = map[string]answer{}
	var missing []string
	for _, h := range hosts {
		_, err := netip.ParseAddr(h.name)
		_, asked := s.names[h.name]
		if err == nil || asked {
			continue
		}
		s.names[h.name] = known[h.name]
		if time.Since(known[h.name].at) > namesAge {
			missing = append(missing, h.name)
		}
	}
	found := make([][]netip.Addr, len(missing))
	var g errgroup.Group
	g.SetLimit(16)
	for i, name := range missing {
		g.Go(func() (err error) {
			found[i], err = s.lookUp(ctx, "ip4", name)
			return err
		})
	}
	_ = g.Wait() // a name without an answer reserves nothing
	for i, name := range missing {
		s.names[name] = answer{found[i], time.Now()}
	}
}

// Spared returns the reservations of single addresses. Ranges of gateways must never
// contain these, even if they were assigned earlier.
func Spared(all []ipam.Reservation) []ipam.Reservation {
	return slices.DeleteFunc(slices.Clone(all), func(r ipam.Reservation) bool { return !r.Prefix.IsSingleIP() })
}
