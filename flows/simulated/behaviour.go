package simulated

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Behaviour describes the deviations of a cluster from one in which everything works.
// The zero value has no deviations.
type Behaviour struct {
	// Unreachable has the observations, counted from 1, in which the cluster can't be
	// used. Requests after such an observation fail as well.
	Unreachable []Window
	// Problem is the result of these observations; nil means that the API server does
	// not answer.
	Problem *flows.Problem
	// WriteErrors has the error for the n-th object that is applied or deleted, counted
	// from 1. This object is not changed. See [Forbidden] and [flows.ConflictError].
	WriteErrors map[int]error

	// Meanwhile simulates a write by another program just before ours: it returns the
	// object that replaces ours; nil for none. It must not call methods of the world or
	// its clusters.
	Meanwhile func(wire.Object) wire.Object

	// Lacks has the verbs and resources that the user may not use according to reviews.
	// Only WriteErrors refuses writes.
	Lacks []rights.Permission

	// Silent stops the operator. Kubernetes' own controllers, which delete children and
	// finish deletions, continue.
	Silent bool
	// NoCIDRs makes the operator assign no remapped ranges. Its other work continues.
	NoCIDRs bool
	// NodesLag keeps nodes from reporting routes to a new range.
	NodesLag bool
	// NoKeys keeps the operator from publishing the gateways' keys.
	NoKeys bool
	// LoadBalancerPending keeps Services of that type from getting an address.
	LoadBalancerPending bool
	// PodWaiting is the reason that gateway pods don't run; "" if they run.
	PodWaiting string
	// Refuses has node ports that the API server does not give to a Service, each with
	// the operator's message.
	Refuses map[uint16]string
	// ServicePort is the port of the server's Service, whatever the GatewayServer says.
	// It simulates a custom template. 0 for none.
	ServicePort int32
	// WrongKey makes gateways use another key than they publish, so there is never a
	// handshake.
	WrongKey bool
	// NoReports stops the reports of gateways: the Connections don't change any more.
	NoReports bool
	// MTUFixer simulates another program, which changes the MTU of every gateway back to
	// 1200.
	MTUFixer bool
	// PrunesMTU simulates an API server with an older definition, which drops spec.mtu
	// from applied objects.
	PrunesMTU bool
	// AlsoAt has addresses, "host:port", at which the gateway server can be dialled in
	// addition to its published endpoint.
	AlsoAt []string

	// ImageFails is the kubelet's message if a node can't pull an image; "" if it can.
	ImageFails string
	// ImageUnknown is the reason that no node can try to pull an image.
	ImageUnknown string

	// NoPods is the reason that no test pod can run.
	NoPods string
	// Firewalled drops UDP packets from the other cluster. Mute drops the answers to
	// them.
	Firewalled, Mute bool
	// APIProblem is the error that the other cluster's pods get from the API server.
	APIProblem string
	// Services lets the operator serve Services by name, as install --services does. Without it, the API
	// server does not serve the kinds.
	Services bool
	// Lending describes deviations of Liqo in lending.
	Lending Lending

	// DeletionTicks is the number of ticks for which a finalizer keeps deleted gateways,
	// or Forever.
	DeletionTicks int
	// NamespaceTicks is the number of ticks that the deletion of an empty namespace
	// takes, or Forever.
	NamespaceTicks int
}

// Forever stands for an infinite number of ticks.
const Forever = -1

// Window is a range of calls, counted from 1.
type Window struct {
	From int
	// For is the number of calls; 0 means all further calls.
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

// Forbidden returns the API server's error for a user who may not write a resource.
func Forbidden(user, resource, namespace string) error {
	return apierrors.NewForbidden(schema.GroupResource{Group: "networking.liqo.io", Resource: resource}, "",
		fmt.Errorf("user %q cannot create %s in %q", user, resource, namespace))
}
