package tui

import (
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows"
)

type settingID uint8

const (
	settingIDA settingID = iota
	settingIDB
	settingServer
	settingService
	settingPort
	settingNodePort
	settingLoadBalancerIP
	settingClientAddress
	settingClientPort
	settingMTU
	settingWait
	settingCount
)

// Field is one thing that can be chosen of a connection: a line of the form, and
// a question where there is no form.
type Field struct {
	id settingID
	// Flag is the flag of network connect that is about the same.
	Flag  string
	Label string
	// Explain says what it is to somebody who never heard of it.
	Explain string
	// Empty is what no text stands for; a choice has none.
	Empty string
	// Options are the choices; none of a text. choose takes one, and choice is the
	// present one.
	Options []string
	choose  func(p *flows.Params, option int)
	choice  func(p flows.Params) int
	// get writes the value as a text, and set reads it.
	get func(p flows.Params) string
	set func(p *flows.Params, text string) error
	// Sets are the parameters that it is about; Applies reports whether they mean
	// anything with the choices so far.
	Sets    flows.Fields
	Applies func(p flows.Params) bool
}

// Value is what the field has, in words.
func (f Field) Value(p flows.Params) string {
	if f.Options != nil {
		return f.Options[f.choice(p)]
	}
	if text := f.get(p); text != "" {
		return text
	}
	return f.Empty
}

// Set reads a value: of a choice one of the options, or its first word. The error
// says what is wanted instead.
func (f Field) Set(p *flows.Params, text string) error {
	if f.Options == nil {
		return f.set(p, text)
	}
	for i, option := range f.Options {
		first, _, _ := strings.Cut(option, " ")
		if strings.EqualFold(text, option) || strings.EqualFold(text, first) {
			f.choose(p, i)
			return nil
		}
	}
	return fmt.Errorf("want %s", strings.Join(f.Options, " or "))
}

var serviceTypes = []corev1.ServiceType{corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort, corev1.ServiceTypeClusterIP}

// waitLevels are in the order of how much they wait for.
var waitLevels = []flows.WaitLevel{flows.WaitConnected, flows.WaitVerified, flows.WaitNone}

func always(flows.Params) bool { return true }

func offered(service corev1.ServiceType) func(flows.Params) bool {
	return func(p flows.Params) bool { return p.ServiceType == service }
}

// Fields are all of them in their order, for two clusters of these names.
func Fields(a, b string) []Field {
	return []Field{
		{
			id: settingServer, Flag: "server-location", Label: "Gateway server on", Sets: flows.FieldServer, Applies: always,
			Options: []string{a, b},
			choose:  func(p *flows.Params, i int) { p.Server = flows.Side(i) },
			choice:  func(p flows.Params) int { return int(p.Server) },
			Explain: "The server waits for the other cluster's gateway to dial it. Choose the cluster that the other one can reach: one with a public address, or without a firewall in front. Traffic flows both ways in either case.",
		},
		{
			id: settingService, Flag: "server-service-type", Label: "Reached through", Sets: flows.FieldServiceType, Applies: always,
			Options: []string{"LoadBalancer", "NodePort", "ClusterIP"},
			choose:  func(p *flows.Params, i int) { p.ServiceType = serviceTypes[i] },
			choice:  func(p flows.Params) int { return max(0, slices.Index(serviceTypes, p.ServiceType)) },
			Explain: "The type of the Service in front of the gateway server. LoadBalancer needs a provider of load balancers and survives the loss of a node. NodePort needs nothing, but the client dials one node's address: if that node goes, the tunnel does. ClusterIP is for clusters that reach each other's Service addresses, or an address that you forward yourself.",
		},
		{
			id: settingPort, Flag: "server-port", Label: "UDP port", Sets: flows.FieldPort, Applies: always,
			get:     func(p flows.Params) string { return strconv.Itoa(int(p.Port)) },
			set:     func(p *flows.Params, text string) (err error) { p.Port, err = parsePort(text); return err },
			Explain: "The port of the gateway server's Service. With a NodePort the client dials the node port instead.",
		},
		{
			id: settingNodePort, Flag: "node-port", Label: "Node port", Sets: flows.FieldNodePort, Applies: offered(corev1.ServiceTypeNodePort), Empty: "Kubernetes chooses",
			get:     func(p flows.Params) string { return numberOr(int(p.NodePort), "") },
			set:     func(p *flows.Params, text string) (err error) { p.NodePort, err = parseOptionalPort(text); return err },
			Explain: "The UDP port on the node that the client dials. Kubernetes gives out 30000 to 32767, unless the cluster says otherwise. Fix it if a firewall has to be opened for it.",
		},
		{
			id: settingLoadBalancerIP, Flag: "load-balancer-ip", Label: "Load balancer IP", Sets: flows.FieldLoadBalancerIP, Applies: offered(corev1.ServiceTypeLoadBalancer), Empty: "the provider chooses",
			get: func(p flows.Params) string { return p.LoadBalancerIP },
			set: func(p *flows.Params, text string) (err error) {
				p.LoadBalancerIP, err = parseOptionalIP(text)
				return err
			},
			Explain: "The address to ask the load balancer's provider for. Not every provider listens.",
		},
		{
			id: settingClientAddress, Flag: "client-address", Label: "Client dials", Sets: flows.FieldClientAddress, Applies: always, Empty: "the server's address",
			get: func(p flows.Params) string { return p.ClientAddress },
			set: func(p *flows.Params, text string) (err error) {
				p.ClientAddress, err = parseOptionalHost(text)
				return err
			},
			Explain: "Another address or DNS name for the server, if the client can't use the server's own: behind a NAT, or a name that stays when nodes come and go.",
		},
		{
			id: settingClientPort, Flag: "client-port", Label: "at UDP port", Sets: flows.FieldClientPort, Applies: always, Empty: "the server's port",
			get: func(p flows.Params) string { return numberOr(int(p.ClientPort), "") },
			set: func(p *flows.Params, text string) (err error) {
				p.ClientPort, err = parseOptionalPort(text)
				return err
			},
			Explain: "Another port for the server, if a NAT in front of it has one of its own.",
		},
		{
			id: settingMTU, Flag: "mtu", Label: "MTU", Sets: flows.FieldMTU, Applies: always,
			get:     func(p flows.Params) string { return strconv.Itoa(p.MTU) },
			set:     func(p *flows.Params, text string) (err error) { p.MTU, err = parseMTU(text); return err },
			Explain: "The largest packet in the tunnel, in bytes. WireGuard adds 60 on IPv4, so it is at most the MTU of the network between the clusters less 60. Too large a value shows as connections that open and then hang. The gateways look for the largest packet that comes through, and never send more.",
		},
		{
			id: settingWait, Flag: "wait", Label: "Done when", Applies: always,
			Options: []string{"connected", "verified", "applied"},
			choose:  func(p *flows.Params, i int) { p.Wait = waitLevels[i] },
			choice:  func(p flows.Params) int { return max(0, slices.Index(waitLevels, p.Wait)) },
			Explain: "Connected: each gateway answers the other's pings. Verified: besides, a packet was measured from a pod of one cluster to a pod of the other. Applied: don't wait for anything.",
		},
	}
}

func numberOr(n int, zero string) string {
	if n == 0 {
		return zero
	}
	return strconv.Itoa(n)
}

func parsePort(text string) (uint16, error) {
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n == 0 {
		return 0, errors.New("want a port, 1 to 65535")
	}
	return uint16(n), nil
}

func parseOptionalPort(text string) (uint16, error) {
	if text == "" {
		return 0, nil
	}
	return parsePort(text)
}

func parseOptionalIP(text string) (string, error) {
	if _, err := netip.ParseAddr(text); err != nil && text != "" {
		return "", errors.New("want an IP address, such as 192.0.2.7")
	}
	return text, nil
}

// hostName is what RFC 1123 calls one.
var hostName = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*$`)

func parseOptionalHost(text string) (string, error) {
	if _, err := netip.ParseAddr(text); err != nil && text != "" && !hostName.MatchString(text) {
		return "", errors.New("want an IP address or a DNS name, without a port")
	}
	return text, nil
}

func parseMTU(text string) (int, error) {
	n, err := strconv.Atoi(text)
	p := flows.Defaults()
	if p.MTU = n; err != nil || p.Validate() != nil {
		return 0, errors.New("want a number of bytes, 576 to 9000")
	}
	return n, nil
}
