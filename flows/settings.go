package flows

import (
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows/setting"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Settings lists all settings of a connection, in the order of forms.
func Settings() []ConnectionSetting {
	return []ConnectionSetting{
		{
			Name: "server-location", Liqoctl: "gw-server-service-location", Sets: FieldServer, Label: "Gateway server on", Noun: "server's cluster", Auto: true,
			Help:    "cluster that hosts the gateway server: Remote, Local, or auto for one that can be reached",
			Explain: "The server waits for the other cluster's gateway to dial it. Choose the cluster that the other one can reach: one with a public address, or without a firewall in front. Traffic flows both ways in either case.",
			Kind:    setting.Choice, Options: []setting.Option{{Value: "Local", Also: []string{"Consumer"}}, {Value: "Remote", Also: []string{"Provider"}}},
			Words: func(a, b string) []string { return []string{a, b} },
			Store: setting.Store[Params]{
				Write: func(p Params) string { return [...]string{"Local", "Remote"}[p.Server] },
				Read:  func(p *Params, text string) { p.Server = map[string]Side{"Local": A, "Remote": B}[text] },
			},
		},
		{
			Name: "server-service-type", Liqoctl: "gw-server-service-type", Sets: FieldServiceType, Label: "Reached through", Noun: "service type", Inviter: true, Auto: true,
			Help:    "how the gateway server is exposed: LoadBalancer, NodePort, ClusterIP, or auto: LoadBalancer if the cluster gives them addresses, else NodePort",
			Explain: "The type of the Service in front of the gateway server. LoadBalancer needs a provider of load balancers and survives the loss of a node. NodePort needs nothing, but the client dials one node's address: if that node fails, so does the tunnel. ClusterIP is for clusters that reach each other's Service addresses, or an address that you forward yourself.",
			Field:   "GatewayServer.spec.endpoint.serviceType", Kind: setting.Choice, Options: []setting.Option{{Value: "LoadBalancer"}, {Value: "NodePort"}, {Value: "ClusterIP"}},
			Store: setting.TextAt(func(p *Params) *corev1.ServiceType { return &p.ServiceType }),
		},
		{
			Name: "server-port", Liqoctl: "gw-server-service-port", Sets: FieldPort, Label: "UDP port", Noun: "server's port", Inviter: true,
			Help:    "UDP port of the gateway server's Service",
			Explain: "The port of the gateway server's Service. With a NodePort the client dials the node port instead.",
			Field:   "GatewayServer.spec.endpoint.port", Kind: setting.Number, Want: wantPort, Min: 1, Max: maxPort, Store: setting.NumberAt(func(p *Params) *uint16 { return &p.Port }),
		},
		{
			Name: "node-port", Liqoctl: "gw-server-service-nodeport", Sets: FieldNodePort, Label: "Node port", Noun: "node port", Inviter: true,
			Service: corev1.ServiceTypeNodePort, Empty: "Kubernetes chooses",
			Help:    "node port of the gateway server (default: Kubernetes chooses); 0 takes back an earlier choice",
			Explain: "The UDP port on the node that the client dials. Kubernetes gives out 30000 to 32767, unless the cluster says otherwise. Fix it if a firewall has to be opened for it.",
			Field:   "GatewayServer.spec.endpoint.nodePort", Kind: setting.Number, Want: wantPort, Min: 1, Max: maxPort, Store: setting.NumberAt(func(p *Params) *uint16 { return &p.NodePort }),
		},
		{
			Name: "load-balancer-ip", Liqoctl: "gw-server-service-loadbalancerip", Sets: FieldLoadBalancerIP, Label: "Load balancer IP", Noun: "load balancer's address", Inviter: true,
			Service: corev1.ServiceTypeLoadBalancer, Empty: "the provider chooses",
			Help:    "address to request from the load balancer (default: it chooses); \"\" takes back an earlier choice",
			Explain: "The address to ask the load balancer's provider for. Not every provider listens.",
			Field:   "GatewayServer.spec.endpoint.loadBalancerIP", Valid: setting.Address, Store: setting.TextAt(func(p *Params) *string { return &p.LoadBalancerIP }),
		},
		{
			Name: "client-address", Liqoctl: "gw-client-address", Sets: FieldClientAddress, Label: "Client dials", Noun: "address that the client dials", Inviter: true,
			Empty:   "the server's address",
			Help:    "address or name that the client dials (default: the server's own)",
			Explain: "Another address or DNS name for the server, if the client can't use the server's own: behind a NAT, or a name that stays when nodes come and go.",
			Field:   "GatewayClient.spec.endpoint.addresses", Valid: setting.Hosts, Store: setting.TextAt(func(p *Params) *string { return &p.ClientAddress }),
		},
		{
			Name: "client-port", Liqoctl: "gw-client-port", Sets: FieldClientPort, Label: "At UDP port", Noun: "port that the client dials", Inviter: true,
			Empty:   "the server's port",
			Help:    "port that the client dials (default: the server's own)",
			Explain: "Another port for the server, if a NAT in front of it has one of its own.",
			Field:   "GatewayClient.spec.endpoint.port", Kind: setting.Number, Want: wantPort, Min: 1, Max: maxPort, Store: setting.NumberAt(func(p *Params) *uint16 { return &p.ClientPort }),
		},
		{
			Name: "relay", Sets: FieldRelay, Label: "Relay", Noun: "relay", Inviter: true,
			Empty:   "none",
			Help:    "HOST:PORT of a relay that both gateways dial, where neither can be dialled (default: none)",
			Explain: "For two clusters behind NAT, of which neither can be dialled. The relay is liqo-gateway relay, on any machine that both reach: it passes their encrypted packets on. The client dials this UDP port, and the server the next one.",
			Valid:   validRelay, Store: setting.TextAt(func(p *Params) *string { return &p.Relay }),
		},
		{
			Name: "mtu", Sets: FieldMTU, Label: "MTU at most", Noun: "MTU", Inviter: true, Auto: true,
			Help:    "largest packet in the tunnel, in bytes; auto: what the gateways find out (with Liqo's gateways: 1340)",
			Explain: "The largest packet in the tunnel, in bytes. WireGuard adds 60 on IPv4, so it is at most the MTU of the network between the clusters less 60. Too large a value shows as connections that open and then hang. The gateways look for the largest packet that comes through, and never send more.",
			Field:   "GatewayServer.spec.mtu", Kind: setting.Number, Want: "a number of bytes", Min: wire.MinMTU, Max: wire.MaxMTU, Store: setting.NumberAt(func(p *Params) *int { return &p.MTU }),
		},
		{Name: "server-template-name", Liqoctl: "gw-server-template-name", Help: "template of the gateway server", Noun: "server's template", Inviter: true, Sets: FieldServerTemplate, Field: "GatewayServer.spec.serverTemplateRef.name", Valid: setting.AnyText, Store: setting.TextAt(func(p *Params) *string { return &p.ServerTemplate.Name })},
		{Name: "server-template-namespace", Liqoctl: "gw-server-template-namespace", Help: "its namespace (default: Liqo's)", Inviter: true, Sets: FieldServerTemplate, Field: "GatewayServer.spec.serverTemplateRef.namespace", Valid: setting.AnyText, Store: setting.TextAt(func(p *Params) *string { return &p.ServerTemplate.Namespace })},
		{Name: "client-template-name", Liqoctl: "gw-client-template-name", Help: "template of the gateway client", Noun: "client's template", Sets: FieldClientTemplate, Field: "GatewayClient.spec.clientTemplateRef.name", Valid: setting.AnyText, Store: setting.TextAt(func(p *Params) *string { return &p.ClientTemplate.Name })},
		{Name: "client-template-namespace", Liqoctl: "gw-client-template-namespace", Help: "its namespace (default: Liqo's)", Sets: FieldClientTemplate, Field: "GatewayClient.spec.clientTemplateRef.namespace", Valid: setting.AnyText, Store: setting.TextAt(func(p *Params) *string { return &p.ClientTemplate.Namespace })},
		allowSetting(A), allowSetting(B),
		{Name: "namespace", Letter: "n", Help: "tenant namespace on the local cluster (default: the peering's own, or liqo-tenant-CLUSTER_ID)", Valid: setting.AnyText, Store: setting.TextAt(func(p *Params) *string { return &p.Namespaces[A] })},
		{Name: "remote-namespace", Help: "tenant namespace on the remote cluster (default: the same)", Valid: setting.AnyText, Store: setting.TextAt(func(p *Params) *string { return &p.Namespaces[B] })},
		{
			Name: "wait", Label: "Done when", Bare: WaitConnected.String(),
			Help:    "what to wait for: none, connected (the gateways answer each other's pings) or verified (packets pass from pod to pod)",
			Explain: "Connected: each gateway answers the other's pings. Verified: besides, a packet was measured from a pod of one cluster to a pod of the other. Applied: don't wait for anything.",
			Kind:    setting.Choice, Options: []setting.Option{{Value: "connected", Also: []string{"true"}}, {Value: "verified"}, {Value: "none", Also: []string{"false"}}},
			Words: func(string, string) []string { return []string{"connected", "verified", "applied"} },
			Store: setting.Store[Params]{
				Write: func(p Params) string { return p.Wait.String() },
				Read:  func(p *Params, text string) { p.Wait = WaitLevel(slices.Index(waitLevels[:], text)) },
			},
		},
	}
}

const (
	wantPort = "a port"
	maxPort  = 65535
)

func validRelay(text string) error {
	r, err := wire.ParseRelay(text)
	if err != nil || setting.Hosts(r.Host) != nil {
		return errors.New("want HOST:PORT, such as relay.example.org:51840, with a port up to 65534: the next one is needed, too")
	}
	return nil
}

// allowSetting returns the setting that limits which pods of a side the other
// cluster's pods reach.
func allowSetting(side Side) ConnectionSetting {
	s := ConnectionSetting{
		Name: "allow", Sets: FieldAllow, Noun: "access of the remote cluster's pods",
		Help: "where the remote cluster's pods may open connections in the local one: all, exported or none",
		Kind: setting.Choice, Options: []setting.Option{{Value: "all"}, {Value: "exported"}, {Value: "none"}},
		Store: setting.Store[Params]{
			Write: func(p Params) string { return p.Allow[side].String() },
			Read:  func(p *Params, text string) { p.Allow[side], _ = wire.ParseAllow(text) }, // Set has validated it
		},
	}
	if side == B {
		s.Name, s.Sets, s.Noun = "remote-allow", FieldRemoteAllow, "access of the local cluster's pods"
		s.Help = "the same for the local cluster's pods in the remote one"
	}
	return s
}
