package flows

import (
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

func forPeering(o wire.Object) bool {
	return Exists(o) && o.GetAnnotations()[wire.AnnotationForPeering] != ""
}

// gatewaysForPeering reports whether new gateways are marked as made for lending.
// A gateway that completes or replaces another one has its mark.
func (c Connection) gatewaysForPeering() bool {
	a, b := c.AnyGateway(A), c.AnyGateway(B)
	if a == nil && b == nil {
		return c.Params.ForLending
	}
	return forPeering(a) || forPeering(b)
}

// ForPeering reports whether all gateways, and all Configurations, were made for
// lending. Missing objects don't count.
func (c Connection) ForPeering() (gateways, configurations bool) {
	gateways, configurations = true, true
	for _, side := range []Side{A, B} {
		if g := c.AnyGateway(side); g != nil && !forPeering(g) {
			gateways = false
		}
		if conf := c.Ends[side].Configuration; conf != nil && !forPeering(conf) {
			configurations = false
		}
	}
	return gateways, configurations
}
