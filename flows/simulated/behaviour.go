package simulated

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Behaviour is how a cluster deviates from one on which all goes well, which is
// what the zero value describes.
type Behaviour struct {
	// Unreachable are the observations, counted from 1, in which the cluster
	// can't be used. Requests that follow such an observation fail too.
	Unreachable []Window
	// Problem is what those observations say; nil stands for an API server that
	// does not answer.
	Problem *flows.Problem
	// WriteErrors answers the n-th object that is applied or deleted, counted
	// from 1, and leaves it as it is. See [Forbidden] and [flows.ConflictError].
	WriteErrors map[int]error

	// Meanwhile is what somebody else makes in place of an object just before it is
	// written, nil for nothing. It must not call methods of the world or its clusters.
	Meanwhile func(wire.Object) wire.Object

	// Lacks are verbs and resources that the user may not use, as a review says.
	// Writes are refused by WriteErrors only.
	Lacks []rights.Permission

	// Silent keeps the operator from doing anything. Kubernetes' own
	// controllers, which collect and finish deletions, go on.
	Silent bool
	// NoCIDRs keeps the operator from remapping addresses only.
	NoCIDRs bool
	// NodesLag keeps nodes from saying that they have a way to another range.
	NodesLag bool
	// NoKeys keeps the operator from publishing the gateways' keys.
	NoKeys bool
	// LoadBalancerPending keeps Services of that type from getting an address.
	LoadBalancerPending bool
	// PodWaiting keeps gateway pods from running, and says why.
	PodWaiting string
	// Refuses are node ports that the API server does not give to a Service, and
	// what the operator says of it.
	Refuses map[uint16]string
	// ServicePort is the port of the server's Service, whatever the GatewayServer
	// says: that of a template of the cluster's own. 0 for none.
	ServicePort int32
	// WrongKey makes gateways use another key than the one they publish, so
	// that there is never a handshake.
	WrongKey bool
	// NoReports stops the gateways: their Connections stay as they are.
	NoReports bool
	// MTUFixer is another program, which sets the MTU of every gateway to 1200
	// as soon as somebody else sets it to something else.
	MTUFixer bool
	// PrunesMTU is an API server with an older definition, which drops spec.mtu
	// from what is applied.
	PrunesMTU bool
	// AlsoAt are addresses, "host:port", at which the gateway server can be
	// dialled besides the endpoint that it publishes.
	AlsoAt []string

	// ImageFails is what the kubelet says when a node is to pull an image; "" if it can.
	ImageFails string
	// ImageUnknown is why no node can be asked to.
	ImageUnknown string

	// NoPods is why no pod can be run that tries ways.
	NoPods string
	// Firewalled keeps UDP from arriving from the other cluster, Mute keeps the answers
	// from leaving.
	Firewalled, Mute bool
	// APIProblem is what the other cluster's pods meet when they ask the API server.
	APIProblem string
	// Lending is how Liqo deviates in lending.
	Lending Lending

	// DeletionTicks is how long gateways that were deleted are held by a
	// finalizer; Forever for always.
	DeletionTicks int
	// NamespaceTicks is how long an empty namespace is still being deleted;
	// Forever for always.
	NamespaceTicks int
}

// Forever is a number of ticks that does not end.
const Forever = -1

// Window is a range of calls, counted from 1.
type Window struct {
	From int
	// For how many calls; 0 means from then on.
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

// Forbidden is the API server's answer to somebody who may not write a resource.
func Forbidden(user, resource, namespace string) error {
	return apierrors.NewForbidden(schema.GroupResource{Group: "networking.liqo.io", Resource: resource}, "",
		fmt.Errorf("user %q cannot create %s in %q", user, resource, namespace))
}
