package e2e

import (
	"fmt"
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
)

// testEndpointMoves changes the endpoint of b's server. Only the operators can
// send it to a's client. It measures from the moment at which the new endpoint is
// known.
func (l lab) testEndpointMoves(t *testing.T, way connection, bound time.Duration) {
	t.Helper()
	l.between(way, "delegate", "--yes", "--timeout", "60s").want(t, exit.OK)
	endpoint := func() string {
		return l.must(t, "kubectl", way.b, "get", "gatewayserver", "-n", "liqo-tenant-"+way.a, way.a, "-o",
			"jsonpath={.status.endpoint.addresses[0]}:{.status.endpoint.port}")
	}
	before, after := endpoint(), ""
	var known time.Time
	o := l.during(t, way, 15*time.Second, func() {
		l.must(t, "kubectl", way.b, "patch", "gatewayserver", "-n", "liqo-tenant-"+way.a, way.a, "--type", "merge", "-p", `{"spec":{"endpoint":{"nodePort":30345}}}`)
		eventually(t, 10*time.Second, func() error {
			asked := time.Now()
			if after = endpoint(); after == before || after == ":" {
				return fmt.Errorf("the endpoint is still %q", after)
			}
			known = asked
			return nil
		})
	})
	o.report(t, fmt.Sprintf("server of %s moved from %s to %s", way.b, before, after), known, bound)
	eventually(t, 10*time.Second, func() error {
		if got := l.dials(t, way); got != after {
			return fmt.Errorf("the client of %s dials %s, want %s", way.a, got, after)
		}
		return nil
	})
	// kubectl owns the field now. The admin takes it back.
	port := []string{"connect", "--node-port", "30346", "--yes", "--timeout", "60s"}
	l.between(way, port[0], port[1:]...).want(t, exit.Conflict)
	l.between(way, port[0], append(port[1:], "--force-conflicts")...).want(t, exit.OK)
}

// dials is the endpoint at which a's client dials b's server.
func (l lab) dials(t *testing.T, way connection) string {
	t.Helper()
	return l.must(t, "kubectl", way.a, "get", "gatewayclient", "-n", "liqo-tenant-"+way.b, way.b, "-o",
		"jsonpath={.spec.endpoint.addresses[0]}:{.spec.endpoint.port}")
}
