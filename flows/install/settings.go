package install

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"unicode"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/setting"
	"github.com/liqo-tui/liqo-tui/internal/discovery"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// Settings returns all settings of an installation.
func Settings() []setting.Setting[render.InstallParams] {
	type params = render.InstallParams
	return []setting.Setting[params]{
		{Name: "image", Help: imageHelp + " (default: unchanged, at first that of this release, if it has one)", Empty: "unchanged", Valid: validImage, Pattern: `^\S+$`, Store: setting.TextAt(func(p *params) *string { return &p.Image })},
		{Name: "cluster-id", Help: "name by which peers know the cluster (default: its ID if it has one, else from the context's name)", Valid: func(text string) error { return wire.ClusterID(text).Validate() }, Pattern: `^(?:[a-z0-9]|[a-z0-9][-a-z0-9]*[a-z0-9])$`, Store: setting.TextAt(func(p *params) *wire.ClusterID { return &p.ClusterID })},
		{Name: "pod-cidr", Help: "address range of the pods, may be repeated (default: unchanged, at first the operator detects it)", Kind: setting.List, Empty: "unchanged", Valid: validRange, Pattern: rangePattern, Store: setting.ListAt(func(p *params) *[]string { return &p.PodCIDRs })},
		{Name: "service-cidr", Help: "address range of the Services (default: unchanged, at first the operator detects it)", Empty: "unchanged", Valid: validRange, Pattern: rangePattern, Store: setting.TextAt(func(p *params) *string { return &p.ServiceCIDR })},
		{Name: "external-cidr", Help: "address range for hosts outside of the pod network (default: unchanged, at first " + render.DefaultExternalCIDR + ")", Empty: "unchanged", Valid: validRange, Pattern: rangePattern, Store: setting.TextAt(func(p *params) *string { return &p.ExternalCIDR })},
		{Name: "reserve", Help: "address range under which no peer may be seen, such as that of a VPN; may be repeated (default: unchanged, at first none)", Kind: setting.List, Empty: "unchanged", Valid: validRange, Pattern: rangePattern, Store: setting.ListAt(func(p *params) *[]string { return &p.Reserve })},
		{Name: "pools", Help: "address ranges under which peers are seen whose own are taken, may be repeated (default: unchanged, at first 240.0.0.0/4)", Kind: setting.List, Empty: "unchanged", Valid: validRange, Pattern: rangePattern, Store: setting.ListAt(func(p *params) *[]string { return &p.Pools })},
		{Name: "gateway-replicas", Help: "pods of each gateway: one holds the tunnel, the others stand by (default: unchanged, at first 1)", Kind: setting.Number, Want: "a number of pods", Min: 1, Max: maxGatewayReplicas, Empty: "unchanged", Store: setting.NumberAt(func(p *params) *int { return &p.GatewayReplicas })},
		{Name: "operator-replicas", Help: "pods of the operator: one works, the others stand by (default: unchanged, at first 1)", Kind: setting.Number, Want: "a number of pods", Min: 1, Max: maxOperatorReplicas, Empty: "unchanged", Store: setting.NumberAt(func(p *params) *int { return &p.OperatorReplicas })},
		{
			Name: "peering", Help: "part of the cluster in whole peerings: consumer, provider, both, or none, which takes the rights back (default: unchanged, at first none)", Kind: setting.Choice, Empty: "unchanged",
			Options: []setting.Option{{Value: string(render.PeeringNone)}, {Value: string(render.PeeringConsumer)}, {Value: string(render.PeeringProvider)}, {Value: string(render.PeeringBoth)}},
			Store:   setting.TextAt(func(p *params) *render.PeeringRole { return &p.Peering }),
		},
		{Name: "api-server", Help: "URL at which consumers reach the cluster's API server (default: unchanged, at first the address that the API server itself states)", Empty: "unchanged", Valid: ValidServer, Store: setting.TextAt(func(p *params) *string { return &p.APIServer })},
		{Name: "lend", Help: "most of a resource that all consumers get together, such as cpu=8; may be repeated (default: unchanged, at first what the nodes have)", Kind: setting.List, Empty: "unchanged", Valid: validAmount, Store: setting.ListAt(func(p *params) *[]string { return &p.Lend })},
		{
			Name: "services", Help: "export Services to peers, and import theirs, by the Multi-Cluster Services API: on or off (default: unchanged, at first off)", Kind: setting.Choice, Empty: "unchanged", Bare: string(render.On),
			Options: []setting.Option{{Value: string(render.On)}, {Value: string(render.Off)}},
			Store:   setting.TextAt(func(p *params) *render.Switch { return &p.Services }),
		},
		{Name: "announce", Help: "URL of the cluster's API server, which its nodes announce in their LANs by mDNS for liqo-tui discover; none takes it back (default: unchanged, at first none)", Empty: "unchanged", Valid: validAnnouncement, Pattern: `^(none|https://([0-9]{1,3}\.){3}[0-9]{1,3}(:[0-9]{1,5})?/?)$`, Store: setting.TextAt(func(p *params) *string { return &p.Announce })},
	}
}

func validAmount(text string) error {
	_, err := peering.Amounts([]string{text})
	return err
}

// validImage refuses only names that no image can have. Only the attempt of a node to pull the
// image shows whether it exists.
func validImage(text string) error {
	if strings.ContainsFunc(text, unicode.IsSpace) {
		return errors.New("an image's name has no spaces")
	}
	return nil
}

// ValidServer refuses an invalid URL of an API server.
func ValidServer(text string) error {
	if u, err := url.Parse(text); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil {
		return errors.New("want a URL like https://203.0.113.7:6443")
	}
	return nil
}

func validAnnouncement(text string) error {
	if text == render.AnnounceNone {
		return nil
	}
	_, err := discovery.ParseServer(text)
	return err
}

const imageHelp = "image of operator, gateways and node agent"

// ImageSetting returns the setting for the image of installations in a plan for a connection.
func ImageSetting() flows.ConnectionSetting {
	return flows.ConnectionSetting{
		Name: "image", Label: "Image", Help: imageHelp,
		Explain: "The operator, the gateways and the node agent are one image. Both clusters' nodes have to be able to pull it.",
		Valid: func(text string) error {
			if text == "" {
				return errors.New(noImage + ": push one where the nodes can pull it, and name it here")
			}
			return validImage(text)
		},
		Store: setting.Store[flows.Params]{
			Write: func(p flows.Params) string {
				for _, i := range p.Install {
					if i, ok := i.(*Installation); ok {
						return i.params.Image
					}
				}
				return ""
			},
			Read: func(p *flows.Params, text string) {
				for side, i := range p.Install {
					i, ok := i.(*Installation)
					if !ok {
						continue
					}
					params := i.params
					params.Image = text
					if changed, err := New(params); err == nil { // if the image is invalid, the former installation stays
						p.Install[side] = changed
					}
				}
			},
		},
	}
}

// noImage is the reason that a build which is no release has no default image.
const noImage = "this build of liqo-tui has no published image"

// maxGatewayReplicas is the largest number of pods of a gateway. More pods are useless, because
// only one of them has the tunnel.
const maxGatewayReplicas = 5

// maxOperatorReplicas is the largest number of pods of the operator. More pods are useless,
// because one standby takes over within 2 s.
const maxOperatorReplicas = 5

const rangePattern = `^([0-9]{1,3}\.){3}[0-9]{1,3}/[0-9]{1,2}$`

func validRange(text string) error {
	prefix, err := netip.ParsePrefix(text)
	switch {
	case err != nil:
		return errors.New("want an address range like 10.244.0.0/16")
	case !prefix.Addr().Is4():
		return errors.New("only IPv4 is supported")
	case prefix.Masked() != prefix:
		return fmt.Errorf("host bits are set, did you mean %s?", prefix.Masked())
	}
	return nil
}
