package session

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

// FieldID tells fields apart.
type FieldID uint8

// The fields.
const (
	FieldIDA FieldID = iota
	FieldIDB
	FieldServer
	FieldService
	FieldPort
	FieldNodePort
	FieldLoadBalancerIP
	FieldClientAddress
	FieldClientPort
	FieldMTU
	FieldWait
	FieldCount
)

// Field is one thing that can be chosen of a connection: a line of the form, and
// a question where there is no form.
type Field struct {
	ID FieldID
	// Flag is the flag of network connect that is about the same.
	Flag  string
	Label string
	// Explain says what it is to somebody who never heard of it.
	Explain string
	// Empty is what no text stands for; a choice has none.
	Empty string
	// Options are the choices; none of a text. Choose takes one, and Choice is the
	// present one.
	Options []string
	Choose  func(p *flows.Params, option int)
	Choice  func(p flows.Params) int
	// Write writes the value as a text, and Read reads it.
	Write func(p flows.Params) string
	Read  func(p *flows.Params, text string) error
	// Sets are the parameters that it is about; Applies reports whether they mean
	// anything with the choices so far.
	Sets    flows.Fields
	Applies func(p flows.Params) bool
}

// Value is what the field has, in words.
func (f Field) Value(p flows.Params) string {
	if f.Options != nil {
		return f.Options[f.Choice(p)]
	}
	if text := f.Write(p); text != "" {
		return text
	}
	return f.Empty
}

// Set reads a value: of a choice one of the options, or its first word. The error
// says what is wanted instead.
func (f Field) Set(p *flows.Params, text string) error {
	if f.Options == nil {
		return f.Read(p, text)
	}
	for i, option := range f.Options {
		first, _, _ := strings.Cut(option, " ")
		if strings.EqualFold(text, option) || strings.EqualFold(text, first) {
			f.Choose(p, i)
			return nil
		}
	}
	return fmt.Errorf("want %s", strings.Join(f.Options, " or "))
}

var serviceTypes = []corev1.ServiceType{corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort, corev1.ServiceTypeClusterIP}

// waitLevels are in the order of how much they wait for.
var waitLevels = []flows.WaitLevel{flows.WaitConnected, flows.WaitVerified, flows.WaitNone}

// Always is for a field that means something with any choices.
func Always(flows.Params) bool { return true }

func offered(service corev1.ServiceType) func(flows.Params) bool {
	return func(p flows.Params) bool { return p.ServiceType == service }
}

// Fields are all of them in their order, for two clusters of these names.
func Fields(a, b string) []Field {
	return []Field{
		{
			ID: FieldServer, Flag: "server-location", Label: "Gateway server on", Sets: flows.FieldServer, Applies: Always,
			Options: []string{a, b},
			Choose:  func(p *flows.Params, i int) { p.Server = flows.Side(i) },
			Choice:  func(p flows.Params) int { return int(p.Server) },
			Explain: "The server waits for the other cluster's gateway to dial it. Choose the cluster that the other one can reach: one with a public address, or without a firewall in front. Traffic flows both ways in either case.",
		},
		{
			ID: FieldService, Flag: "server-service-type", Label: "Reached through", Sets: flows.FieldServiceType, Applies: Always,
			Options: []string{"LoadBalancer", "NodePort", "ClusterIP"},
			Choose:  func(p *flows.Params, i int) { p.ServiceType = serviceTypes[i] },
			Choice:  func(p flows.Params) int { return max(0, slices.Index(serviceTypes, p.ServiceType)) },
			Explain: "The type of the Service in front of the gateway server. LoadBalancer needs a provider of load balancers and survives the loss of a node. NodePort needs nothing, but the client dials one node's address: if that node goes, the tunnel does. ClusterIP is for clusters that reach each other's Service addresses, or an address that you forward yourself.",
		},
		{
			ID: FieldPort, Flag: "server-port", Label: "UDP port", Sets: flows.FieldPort, Applies: Always,
			Write:   func(p flows.Params) string { return strconv.Itoa(int(p.Port)) },
			Read:    func(p *flows.Params, text string) (err error) { p.Port, err = parsePort(text); return err },
			Explain: "The port of the gateway server's Service. With a NodePort the client dials the node port instead.",
		},
		{
			ID: FieldNodePort, Flag: "node-port", Label: "Node port", Sets: flows.FieldNodePort, Applies: offered(corev1.ServiceTypeNodePort), Empty: "Kubernetes chooses",
			Write:   func(p flows.Params) string { return numberOr(int(p.NodePort), "") },
			Read:    func(p *flows.Params, text string) (err error) { p.NodePort, err = parseOptionalPort(text); return err },
			Explain: "The UDP port on the node that the client dials. Kubernetes gives out 30000 to 32767, unless the cluster says otherwise. Fix it if a firewall has to be opened for it.",
		},
		{
			ID: FieldLoadBalancerIP, Flag: "load-balancer-ip", Label: "Load balancer IP", Sets: flows.FieldLoadBalancerIP, Applies: offered(corev1.ServiceTypeLoadBalancer), Empty: "the provider chooses",
			Write: func(p flows.Params) string { return p.LoadBalancerIP },
			Read: func(p *flows.Params, text string) (err error) {
				p.LoadBalancerIP, err = parseOptionalIP(text)
				return err
			},
			Explain: "The address to ask the load balancer's provider for. Not every provider listens.",
		},
		{
			ID: FieldClientAddress, Flag: "client-address", Label: "Client dials", Sets: flows.FieldClientAddress, Applies: Always, Empty: "the server's address",
			Write: func(p flows.Params) string { return p.ClientAddress },
			Read: func(p *flows.Params, text string) (err error) {
				p.ClientAddress, err = parseOptionalHost(text)
				return err
			},
			Explain: "Another address or DNS name for the server, if the client can't use the server's own: behind a NAT, or a name that stays when nodes come and go.",
		},
		{
			ID: FieldClientPort, Flag: "client-port", Label: "at UDP port", Sets: flows.FieldClientPort, Applies: Always, Empty: "the server's port",
			Write: func(p flows.Params) string { return numberOr(int(p.ClientPort), "") },
			Read: func(p *flows.Params, text string) (err error) {
				p.ClientPort, err = parseOptionalPort(text)
				return err
			},
			Explain: "Another port for the server, if a NAT in front of it has one of its own.",
		},
		{
			ID: FieldMTU, Flag: "mtu", Label: "MTU", Sets: flows.FieldMTU, Applies: Always,
			Write:   func(p flows.Params) string { return strconv.Itoa(p.MTU) },
			Read:    func(p *flows.Params, text string) (err error) { p.MTU, err = parseMTU(text); return err },
			Explain: "The largest packet in the tunnel, in bytes. WireGuard adds 60 on IPv4, so it is at most the MTU of the network between the clusters less 60. Too large a value shows as connections that open and then hang. The gateways look for the largest packet that comes through, and never send more.",
		},
		{
			ID: FieldWait, Flag: "wait", Label: "Done when", Applies: Always,
			Options: []string{"connected", "verified", "applied"},
			Choose:  func(p *flows.Params, i int) { p.Wait = waitLevels[i] },
			Choice:  func(p flows.Params) int { return max(0, slices.Index(waitLevels, p.Wait)) },
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
