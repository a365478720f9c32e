package simulated

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Behaviour describes how a cluster deviates from one on which all goes well. The zero
// value is a cluster without deviations.
type Behaviour struct {
	// Unreachable are the observations, counted from 1, in which the cluster
	// can't be used. Requests that follow such an observation fail too.
	Unreachable []Window
	// Problem is the result of those observations; nil: the API server does not answer.
	Problem *flows.Problem
	// WriteErrors answers the n-th object that is applied or deleted, counted
	// from 1, and leaves it as it is. See [Forbidden] and [flows.ConflictError].
	WriteErrors map[int]error

	// Meanwhile returns the object that another program writes in place of an object,
	// just before the object is written; nil for none. It must not call methods of the
	// world or its clusters.
	Meanwhile func(wire.Object) wire.Object

	// Lacks are verbs and resources that the user may not use, for reviews only. Writes
	// are refused by WriteErrors only.
	Lacks []rights.Permission

	// Silent keeps the operator from doing anything. Kubernetes' own
	// controllers, which collect and finish deletions, go on.
	Silent bool
	// NoCIDRs keeps the operator from remapping addresses, but from nothing else.
	NoCIDRs bool
	// NodesLag keeps nodes from reporting routes to another range.
	NodesLag bool
	// NoKeys keeps the operator from publishing the gateways' keys.
	NoKeys bool
	// LoadBalancerPending keeps Services of that type from getting an address.
	LoadBalancerPending bool
	// PodWaiting keeps gateway pods from running; it is the reason.
	PodWaiting string
	// Refuses are node ports that the API server does not give to a Service, each with
	// the operator's message about it.
	Refuses map[uint16]string
	// ServicePort is the port of the server's Service, whatever port the GatewayServer
	// has: a template of the cluster's own sets it. 0 for none.
	ServicePort int32
	// WrongKey makes gateways use another key than the one they publish, so
	// that there is never a handshake.
	WrongKey bool
	// NoReports stops the gateways: their Connections stay as they are.
	NoReports bool
	// MTUFixer is another program, which sets the MTU of every gateway to 1200
	// as soon as somebody else sets it to something else.
	MTUFixer bool
	// PrunesMTU is an API server with an older definition. It drops spec.mtu from
	// applied objects.
	PrunesMTU bool
	// AlsoAt are addresses, "host:port", at which the gateway server can be
	// dialled besides the endpoint that it publishes.
	AlsoAt []string

	// ImageFails is the kubelet's message when a node pulls an image; "" if pulling
	// succeeds.
	ImageFails string
	// ImageUnknown is the reason that no node can try to pull.
	ImageUnknown string

	// NoPods is the reason that no pod can test the ways between the clusters.
	NoPods string
	// Firewalled keeps UDP from arriving from the other cluster, Mute keeps the answers
	// from leaving.
	Firewalled, Mute bool
	// APIProblem is the error that the other cluster's pods get when they ask the API
	// server.
	APIProblem string
	// Lending describes how Liqo deviates in lending.
	Lending Lending

	// DeletionTicks is the number of ticks for which a finalizer holds deleted gateways,
	// or Forever.
	DeletionTicks int
	// NamespaceTicks is the number of ticks that the deletion of an empty namespace
	// takes, or Forever.
	NamespaceTicks int
}

// Forever is a number of ticks that does not end.
const Forever = -1

// Window is a range of calls, counted from 1.
type Window struct {
	From int
	// For is the number of calls; 0: all further calls.
	For int
}

func (w Window) contains(n int) bool {
	return n >= w.From && (w.For == 0 || n < w.From+w.For)
}

func (b *Behaviour) unreachable(observation int) bool {
	for _, w := range b.Unreachable {
		if w.contains(observation) {
			return true
		}
	}
	return false
}

// Forbidden is the API server's answer to a user who may not write a resource.
func Forbidden(user, resource, namespace string) error {
	return apierrors.NewForbidden(schema.GroupResource{Group: "networking.liqo.io", Resource: resource}, "",
		fmt.Errorf("user %q cannot create %s in %q", user, resource, namespace))
}
