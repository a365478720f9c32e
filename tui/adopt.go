package tui

import (
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/render"
)

// adopt replaces wanted parameters by those of the gateways that exist: to look
// at a connection must not end in a plan that changes it. fixed reports whether
// there is any gateway.
func adopt(p flows.Params, f flows.Facts) (_ flows.Params, fixed bool) {
	for _, side := range []flows.Side{flows.A, flows.B} {
		peer := f.Side(side).Peer(f.Side(side.Other()).ID)
		if s := peer.Server; s != nil && s.DeletionTimestamp == nil {
			p, fixed = adoptServer(p, side, s.Spec), true
		}
	}
	client := f.Side(p.Server.Other()).Peer(f.Side(p.Server).ID)
	if c := client.Client; c != nil && c.DeletionTimestamp == nil {
		ref := c.Spec.ClientTemplateRef
		p.ClientTemplate = render.TemplateRef{Name: ref.Name, Namespace: ref.Namespace}
		server := f.Side(p.Server).Peer(f.Side(p.Server.Other()).ID).Server
		p, fixed = adoptEndpoint(p, client, server), true
	}
	return p, fixed
}

func adoptServer(p flows.Params, side flows.Side, s networkingv1beta1.GatewayServerSpec) flows.Params {
	p.Server, p.ServiceType, p.Port, p.MTU = side, s.Endpoint.ServiceType, uint16(s.Endpoint.Port), s.MTU
	p.NodePort, p.LoadBalancerIP = 0, ""
	if s.Endpoint.NodePort != nil {
		p.NodePort = uint16(*s.Endpoint.NodePort)
	}
	if s.Endpoint.LoadBalancerIP != nil {
		p.LoadBalancerIP = *s.Endpoint.LoadBalancerIP
	}
	p.ServerTemplate = render.TemplateRef{Name: s.ServerTemplateRef.Name, Namespace: s.ServerTemplateRef.Namespace}
	return p
}

// adoptEndpoint keeps an address that the admin chose for the client. One that
// differs from the server's own may also be out of date: it counts as chosen
// when the connection works with it.
func adoptEndpoint(p flows.Params, client flows.Peer, server *networkingv1beta1.GatewayServer) flows.Params {
	if server == nil || server.Status.Endpoint == nil || client.Connection == nil ||
		client.Connection.Status.Value != networkingv1beta1.Connected {
		return p
	}
	dialled, own := client.Client.Spec.Endpoint, server.Status.Endpoint
	if len(dialled.Addresses) == 1 && (len(own.Addresses) != 1 || own.Addresses[0] != dialled.Addresses[0]) {
		p.ClientAddress = dialled.Addresses[0]
	}
	if dialled.Port != own.Port {
		p.ClientPort = uint16(dialled.Port)
	}
	return p
}
