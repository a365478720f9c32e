package wire

import (
	"fmt"
	"net"
	"strconv"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
)

// Relay is the address of a relay. The client of a connection dials Port, and the server dials Port+1.
type Relay struct {
	Host string // IP address or DNS name
	Port uint16 // UDP
}

func (r Relay) String() string { return net.JoinHostPort(r.Host, strconv.Itoa(int(r.Port))) }

// ParseRelay reads host:port.
func ParseRelay(text string) (Relay, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return Relay{}, fmt.Errorf("relay %q: %w", text, err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 || n == 1<<16-1 {
		return Relay{}, fmt.Errorf("relay %q: want a port from 1 to 65534", text)
	}
	return Relay{host, uint16(n)}, nil
}

// Ends returns the relay's endpoints for the client and for the server of a connection.
func (r Relay) Ends() (client, server networkingv1beta1.EndpointStatus) {
	return networkingv1beta1.EndpointStatus{Addresses: []string{r.Host}, Port: int32(r.Port)},
		networkingv1beta1.EndpointStatus{Addresses: []string{r.Host}, Port: int32(r.Port) + 1}
}

// RelayOf returns the address of the relay that a gateway server dials; "" if it dials no relay, or if s is
// nil.
func RelayOf(s *networkingv1beta1.GatewayServer) string {
	if s == nil {
		return ""
	}
	return s.Annotations[AnnotationRelay]
}
