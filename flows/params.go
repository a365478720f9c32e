package flows

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows/setting"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// Side is one of the two clusters: A is local, B is remote, everywhere.
type Side uint8

// The two sides.
const (
	A Side = iota
	B
)

func (s Side) String() string {
	if s == B {
		return "B"
	}
	return "A"
}

// Other is the opposite side.
func (s Side) Other() Side { return 1 - s }

// Params are what the admin wants of a connection. [Defaults] is a start.
type Params struct {
	Server         Side // the side that hosts the gateway server
	ServiceType    corev1.ServiceType
	Port           uint16 // UDP port of the server's Service
	NodePort       uint16 // 0: Kubernetes chooses
	LoadBalancerIP string // "": the provider chooses
	ClientAddress  string // what the client dials, several with commas between them; "": the server's own endpoint
	ClientPort     uint16 // 0: the server's own endpoint
	Relay          string // host:port that both gateways dial; "": the client dials the server
	MTU            int    // bytes
	ServerTemplate render.TemplateRef
	ClientTemplate render.TemplateRef

	// Given are the fields above that the admin chose. The others are only
	// proposals: where gateways exist, theirs are kept. See [Adopt].
	Given Fields
	// Namespaces are the tenant namespaces to use on each side; "" is the one
	// that the peering has already, or else Liqo's default.
	Namespaces [2]string
	// Install brings our operator to a side where nothing manages connections;
	// nil where that is not wanted, or the admin has not agreed to it.
	Install [2]Installation
	// Wait is what to wait for once everything is applied.
	Wait WaitLevel
	// Peering makes a whole peering of it, where Liqo runs; nil to connect only.
	Peering Peering
	// ReplacePeer connects the other cluster in place of the one that had its ID.
	ReplacePeer bool
	// ForPeering has what is made now go with a whole peering: [render.AnnotationForPeering].
	ForPeering bool
}

// Peering is what is wanted of a whole peering besides the network.
type Peering interface {
	// Whole is the plan for all of it. network plans the connection.
	Whole(network func(Facts) Plan, namespaces [2]string, f Facts) Plan
}

// Fields is a set of fields of [Params].
type Fields = setting.Fields

// The fields that a connection may already have.
const (
	FieldServer Fields = 1 << iota
	FieldServiceType
	FieldPort
	FieldNodePort
	FieldLoadBalancerIP
	FieldClientAddress
	FieldClientPort
	FieldRelay
	FieldMTU
	FieldServerTemplate
	FieldClientTemplate

	AllFields = 1<<iota - 1
)

// WaitLevel is what has to be seen before a connection counts as made.
type WaitLevel uint8

// What to wait for.
const (
	WaitConnected WaitLevel = iota // both gateways say that they reach each other
	WaitNone                       // nothing, once all objects are applied
	WaitVerified                   // a packet was measured from pod to pod
)

var waitLevels = [...]string{WaitConnected: "connected", WaitNone: "none", WaitVerified: "verified"}

func (w WaitLevel) String() string { return waitLevels[w] }

// Defaults are liqoctl's: the remote cluster is the server, behind a LoadBalancer. What
// of them depends on the clusters, [Params.Undecided] says.
func Defaults() Params {
	return Params{
		Server: B, ServiceType: corev1.ServiceTypeLoadBalancer,
		Port: wire.DefaultPort, MTU: wire.DefaultMTU,
		ServerTemplate: render.TemplateRef{Name: wire.ServerTemplate},
		ClientTemplate: render.TemplateRef{Name: wire.ClientTemplate},
	}
}

// Validate reports all problems of p, joined. Each names the flag to change.
// What the service type has to fit is checked if it is known: one that was not
// given may be that of a connection which exists, and then the plan says so.
func (p Params) Validate() error {
	err := setting.Check(Settings(), p)
	if p.Given == 0 || p.Given.Has(FieldServiceType) {
		err = errors.Join(append([]error{err}, p.fits()...)...)
	}
	return err
}

// Uses reports whether a setting means anything with the choices so far.
func (p Params) Uses(s ConnectionSetting) bool {
	return (s.Service == "" || s.Service == p.ServiceType) && (!s.Peering || p.Peering != nil)
}

// fits reports what the other settings have no use for.
func (p Params) fits() []error {
	var errs []error
	for _, s := range Settings() {
		if value := s.Write(p); value != "" && !p.Uses(s) {
			errs = append(errs, fmt.Errorf("--%s %s: applies to --server-service-type %s only, not to %s", s.Name, value, s.Service, p.ServiceType))
		}
	}
	if p.Relay != "" && (p.ClientAddress != "" || p.ClientPort != 0) {
		errs = append(errs, fmt.Errorf("--relay %s: the client dials the relay, and nothing that --client-address or --client-port says", p.Relay))
	}
	return errs
}
