package flows

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows/setting"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// Side is one of the two clusters. A is the local one, B the remote one.
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

// Other returns the other side.
func (s Side) Other() Side { return 1 - s }

// Params are the admin's choices for a connection. [Defaults] returns the initial choices.
type Params struct {
	Server         Side // the side that hosts the gateway server
	ServiceType    corev1.ServiceType
	Port           uint16 // UDP port of the server's Service
	NodePort       uint16 // 0: Kubernetes chooses
	LoadBalancerIP string // "": the provider chooses
	ClientAddress  string // comma-separated addresses that the client dials; "": the server's own endpoint
	ClientPort     uint16 // 0: the server's own endpoint
	Relay          string // host:port that both gateways dial; "": the client dials the server
	MTU            int    // bytes
	ServerTemplate render.TemplateRef
	ClientTemplate render.TemplateRef
	Allow          [2]wire.Allow // where the peer's pods may open connections, by the side that allows them

	// Given marks the fields above that the admin chose. The other fields are proposals: if gateways
	// exist, their values are kept. See [Adopt].
	Given Fields
	// Preset marks the fields that the admin's configuration or environment sets. They count as Given for
	// a new connection.
	Preset Fields
	// Namespaces are the tenant namespaces to use, by side. "" means the namespace of the existing
	// connection, or Liqo's default if there is no connection.
	Namespaces [2]string
	// Install installs our operator on a side that has no operator; nil if the admin does not want
	// that, or has not agreed yet.
	Install [2]Installation
	// Wait is the state for which the run waits after all objects are applied.
	Wait WaitLevel
	// Lending adds lending to the connection; nil if the plan only connects.
	Lending Lending
	// ReplacePeer connects the other cluster although another cluster had its ID before.
	ReplacePeer bool
	// OtherWay is set while the server moves to the other cluster because no packet has passed
	// between the gateways, see [wire.AnnotationOtherWay].
	OtherWay bool
	// ForLending marks new objects as made for lending, see [wire.AnnotationForPeering].
	ForLending bool
}

// Lending is the lending that a plan adds to a connection.
type Lending interface {
	// Whole returns the plan for the connection and lending. network plans the connection.
	Whole(network func(Facts) Plan, namespaces [2]string, f Facts) Plan
}

// Fields is a set of fields of [Params].
type Fields = setting.Fields

// The fields for which an existing connection may have a value.
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
	FieldAllow
	FieldRemoteAllow

	AllFields = 1<<iota - 1
)

// WaitLevel is the state for which a run waits at its end.
type WaitLevel uint8

// The states, from which a run chooses one.
const (
	WaitConnected WaitLevel = iota // until both gateways report that they reach each other
	WaitNone                       // the run ends when all objects are applied
	WaitVerified                   // until packets have passed from pod to pod
)

var waitLevels = [...]string{WaitConnected: "connected", WaitNone: "none", WaitVerified: "verified"}

func (w WaitLevel) String() string { return waitLevels[w] }

// Defaults returns liqoctl's defaults: the remote cluster is the server, behind a LoadBalancer.
// [Params.Undecided] lists the fields that depend on the clusters.
func Defaults() Params {
	return Params{
		Server: B, ServiceType: corev1.ServiceTypeLoadBalancer,
		Port: wire.DefaultPort, MTU: wire.DefaultMTU,
		ServerTemplate: render.TemplateRef{Name: wire.ServerTemplate},
		ClientTemplate: render.TemplateRef{Name: wire.ClientTemplate},
	}
}

// Validate reports all problems of p, joined. Each problem names the flag to change. It checks
// whether the settings fit together only if the admin gave the service type, or no setting at all.
// Otherwise an existing connection may have the service type, and the plan reports the problem.
func (p Params) Validate() error {
	err := setting.Check(Settings(), p)
	if p.Given == 0 || p.Given.Has(FieldServiceType) {
		err = errors.Join(append([]error{err}, p.fits()...)...)
	}
	return err
}

// Uses reports whether a setting has an effect with the other choices in p.
func (p Params) Uses(s ConnectionSetting) bool {
	return (s.Service == "" || s.Service == p.ServiceType) && (!s.Peering || p.Lending != nil)
}

// fits returns an error for each setting that contradicts the other settings.
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
