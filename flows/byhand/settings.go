package byhand

import (
	"errors"
	"net/netip"
	"slices"
	"strings"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/setting"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Aliases returns liqoctl's other names of the kind.
func (k Kind) Aliases() []string {
	return map[Kind][]string{
		Configuration: {"config", "configurations"},
		GatewayServer: {"gatewayservers", "server", "servers", "gws"},
		GatewayClient: {"gatewayclients", "client", "clients", "gwc"},
		PublicKey:     {"publickeys", "publickeies"},
	}[k]
}

// Settings returns the settings of an object that a connection does not have, with
// liqoctl's names.
func (k Kind) Settings() []setting.Setting[Object] {
	settings := []setting.Setting[Object]{{
		Name: "remote-cluster-id", Help: "ID of the other cluster; liqo-tui info --get clusterid prints it there",
		Valid: func(text string) error { return wire.ClusterID(text).Validate() }, Store: setting.TextAt(func(o *Object) *wire.ClusterID { return &o.Remote }),
	}}
	switch k {
	case Configuration:
		return append(
			settings,
			setting.Setting[Object]{Name: "pod-cidr", Help: "pod CIDR of the other cluster", Kind: setting.List, Valid: validRange, Store: setting.ListAt(func(o *Object) *[]string { return &o.PodCIDRs })},
			setting.Setting[Object]{Name: "external-cidr", Help: "external CIDR of the other cluster", Kind: setting.List, Valid: validRange, Store: setting.ListAt(func(o *Object) *[]string { return &o.ExternalCIDRs })},
		)
	case PublicKey:
		return append(settings, setting.Setting[Object]{Name: "public-key", Help: "public key of the other cluster's gateway, 32 bytes in base64", Valid: validKey, Store: setting.TextAt(func(o *Object) *string { return &o.Key })})
	case GatewayClient:
		settings = append(settings, setting.Setting[Object]{Name: "protocol", Help: "protocol of the tunnel: UDP", Valid: only("UDP"), Store: setting.TextAt(func(o *Object) *string { return &o.Protocol })})
	case GatewayServer:
	}
	return append(settings, setting.Setting[Object]{
		Name: "type", Help: "kind of the template (default: WireGuard's, the only one)", Empty: "WireGuard's",
		Valid: only("networking.liqo.io/v1beta1/wg" + k.Word() + "templates"), Store: setting.TextAt(func(o *Object) *string { return &o.Type }),
	})
}

// New returns an object with the default settings.
func New(k Kind) Object { return Object{Kind: k, Protocol: "UDP"} }

func validRange(text string) error {
	if p, err := netip.ParsePrefix(text); err != nil || p != p.Masked() {
		return errors.New("want an address range, such as 10.244.0.0/16")
	}
	return nil
}

func validKey(text string) error {
	if _, err := wgtypes.ParseKey(text); err != nil {
		return errors.New("want 32 bytes in base64, as liqo-tui generate publickey prints them")
	}
	return nil
}

func only(value string) func(string) error {
	return func(text string) error {
		if text != value {
			return errors.New("want " + value)
		}
		return nil
	}
}

// names maps settings of a connection to liqoctl's names for them, by kind of
// gateway.
var names = map[Kind]map[string]string{
	GatewayServer: {
		"server-service-type": "service-type", "server-port": "port", "node-port": "node-port", "load-balancer-ip": "load-balancer-ip", "mtu": "mtu",
		"server-template-name": "template-name", "server-template-namespace": "template-namespace",
	},
	GatewayClient: {
		"client-address": "addresses", "client-port": "port", "mtu": "mtu",
		"client-template-name": "template-name", "client-template-namespace": "template-namespace",
	},
}

// OfConnection returns the settings of the kind that a connection has as well.
func (k Kind) OfConnection() []flows.ConnectionSetting {
	var out []flows.ConnectionSetting
	for _, s := range flows.Settings() {
		name, ok := names[k][s.Name]
		switch {
		case s.Name == "namespace":
			s.Help = "namespace of the object (default: the peering's own, or else the context's)"
			out = append(out, s)
		case ok:
			s.Name, s.Help = name, strings.Replace(s.Help, " (default: the server's own)", " (needed)", 1)
			out = append(out, s)
		}
	}
	return out
}

// Alias returns the kind's flag for an admin's flag with another name: the flag of
// connect, or one with the prefix remote-.
func (k Kind) Alias(flag string) string {
	if name, ok := names[k][flag]; ok {
		return name
	}
	if flag == "cluster-id" {
		return "remote-cluster-id"
	}
	if name, ok := strings.CutPrefix(flag, "remote-"); ok && slices.Contains([]string{"pod-cidr", "external-cidr"}, name) {
		return name
	}
	return flag
}

// OfGateway returns the settings of commands that print a cluster's own objects.
func (k Kind) OfGateway() []setting.Setting[Gateway] {
	namespace := setting.Setting[Gateway]{
		Name: "namespace", Letter: "n", Help: "namespace of the object; for the other cluster, a name with a peer's ID gets this cluster's ID (default: the context's)",
		Store: setting.TextAt(func(g *Gateway) *string { return &g.Namespace }),
	}
	if k == Configuration {
		return []setting.Setting[Gateway]{namespace}
	}
	namespace.Help = "namespace of the gateway (default: any that has one of this name)"
	return []setting.Setting[Gateway]{
		namespace,
		{
			Name: "gateway-type", Help: "this cluster's end of the tunnel: server or client", Kind: setting.Choice,
			Options: []setting.Option{{Value: string(flows.RoleServer)}, {Value: string(flows.RoleClient)}}, Store: setting.TextAt(func(g *Gateway) *flows.Role { return &g.Role }),
		},
		{Name: "gateway-name", Help: "name of the GatewayServer or GatewayClient", Valid: named, Store: setting.TextAt(func(g *Gateway) *string { return &g.Name })},
	}
}

func named(text string) error {
	if text == "" {
		return errors.New("want a name")
	}
	return nil
}

// Check returns an error if a needed setting is missing.
func (o Object) Check(p flows.Params) error {
	err := setting.Check(o.Kind.Settings(), o)
	if o.Kind == GatewayClient && (p.ClientAddress == "" || p.ClientPort == 0) {
		err = errors.Join(err, errors.New("where is the server? give --addresses and --port; on its cluster, liqo-tui info peer CLUSTER_ID --get network.gateway prints them"))
	}
	return err
}
