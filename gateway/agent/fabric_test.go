package agent

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// A gateway that refuses new settings keeps its old settings, and nodes do the same.
func TestNodesFollowWhatWasFitLast(t *testing.T) {
	f := &fabric{options: FabricOptions{Log: slog.New(slog.DiscardHandler)}}
	gw := func(name, pod, remote string, mtu int) gateway.Gateway {
		return gateway.Gateway{Name: name, PodIP: netip.MustParseAddr(pod), MTU: mtu, RemoteCIDRs: []netip.Prefix{netip.MustParsePrefix(remote)}}
	}
	follow := func(all ...gateway.Gateway) map[string]int {
		in := f.follow(gateway.NodeInputs{NodeIP: netip.MustParseAddr("192.0.2.1"), UnderlayMTU: 1500, Gateways: all}, nil)
		mtus := map[string]int{}
		for _, g := range in.Gateways {
			mtus[g.Name] = g.MTU
		}
		return mtus
	}
	milan := gw("milan", "10.0.0.1", "10.1.0.0/16", 1300)
	unfit := func(does string) {
		t.Helper()
		got := standing("", f.unfit, "").Unfit
		if len(got) != 1 || !strings.HasPrefix(got["turin"], does) || !strings.Contains(got["turin"], "MTU 500") {
			t.Errorf("of the gateway that is not fit it says %q, want that it %s, and why", got, does)
		}
	}
	if got := follow(milan, gw("turin", "10.0.0.2", "10.2.0.0/16", 500)); len(got) != 1 || got["milan"] != 1300 {
		t.Errorf("never fit: got %v", got)
	}
	unfit("does not lead to the peer: ")
	follow(milan, gw("turin", "10.0.0.2", "10.2.0.0/16", 1280))
	if got := follow(milan, gw("turin", "10.0.0.2", "10.2.0.0/16", 500)); len(got) != 2 || got["turin"] != 1280 {
		t.Errorf("no longer fit: got %v, want turin as it was", got)
	}
	unfit("goes on as before the last change: ")
	// The gateway now has the address of another gateway.
	if got := follow(gw("milan", "10.0.0.2", "10.1.0.0/16", 1300), gw("turin", "10.0.0.2", "10.2.0.0/16", 1280)); len(got) != 1 || got["milan"] != 1300 {
		t.Errorf("taken: got %v, want milan alone", got)
	}
}

// Kubernetes starts a DaemonSet's next pod while the last pod ends, and both use the network of the host.
func TestWaitsForTheAddressOfTheAgentBefore(t *testing.T) {
	before, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var refused error
	f := &fabric{options: FabricOptions{Token: func() error { return refused }}}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serve("tcp", before.Addr().String(), http.HandlerFunc(f.health))(ctx) }()
	select {
	case err := <-ended:
		t.Fatalf("gave up while the address was taken: %v", err)
	case <-time.After(2 * listenAgain):
	}
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		why     *string
		refused error
		status  int
		want    string
	}{
		{nil, nil, http.StatusServiceUnavailable, "nothing was set up yet"},
		{new("no default route"), nil, http.StatusServiceUnavailable, "no default route"},
		{new(""), nil, http.StatusOK, ""},
		{new(""), errors.New("the token is refused"), http.StatusServiceUnavailable, "the token is refused"},
	} {
		f.failed.Store(c.why)
		refused = c.refused
		var answer *http.Response
		for answer == nil {
			request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+before.Addr().String()+"/", http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			answer, err = http.DefaultClient.Do(request)
			if err != nil && ctx.Err() != nil {
				t.Fatal(err)
			}
		}
		body, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil || answer.StatusCode != c.status || strings.TrimSpace(string(body)) != c.want {
			t.Errorf("got %s %q, %v; want status %d", answer.Status, body, err, c.status)
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("at the end: %v", err)
	}
}

// A node sends to the gateway's node if the pod network's own route is an overlay.
func TestNodeGoesByTheGatewaysNode(t *testing.T) {
	for _, c := range []struct {
		name, annotation string
		pod, host        int // the MTUs of the two routes
		want             string
	}{
		{"overlay", "10.244.1.5@192.0.2.11", 1450, 1500, "192.0.2.11"},
		{"no overlay", "10.244.1.5@192.0.2.11", 1500, 1500, ""},
		{"the node's way is not known", "10.244.1.5@192.0.2.11", 1450, 0, ""},
		{"this node", "10.244.1.5@192.0.2.1", 1450, 65536, ""},
		{"said of the pod before", "10.244.1.4@192.0.2.11", 1450, 1500, ""},
		{"nothing said", "", 1450, 1500, ""},
		{"no address", "10.244.1.5@node", 1450, 1500, ""},
	} {
		f := &networkingv1beta1.InternalFabric{Spec: networkingv1beta1.InternalFabricSpec{GatewayIP: "10.244.1.5"}}
		f.Annotations = map[string]string{wire.AnnotationHost: c.annotation}
		g, err := gatewayOf(f)
		if err != nil {
			t.Fatal(err)
		}
		choose(&g, netip.MustParseAddr("192.0.2.1"), func(to netip.Addr) int {
			if to == g.PodIP {
				return c.pod
			}
			return c.host
		})
		got := ""
		if g.HostIP.IsValid() {
			got = g.HostIP.String()
		}
		if got != c.want || g.UnderlayMTU != c.pod {
			t.Errorf("%s: got %q and %d, want %q and %d", c.name, got, g.UnderlayMTU, c.want, c.pod)
		}
	}
}

// A host that an admin made reachable for peers is closed to them on other paths, so nodes have to know it.
func TestNodesAreToldOfTheHostsThatAPeerMayReach(t *testing.T) {
	want := []netip.Addr{netip.MustParseAddr("192.0.2.7"), netip.MustParseAddr("10.96.0.1")}
	f := render.Gateway{Name: "server", Owner: &networkingv1beta1.GatewayServer{}}.InternalFabric(render.Fabric{PodIP: "10.244.0.1", MTU: 1300, Hosts: want})
	got, err := gatewayOf(f)
	if err != nil || !slices.Equal(got.Hosts, want) {
		t.Errorf("got %v, %v, want %v", got.Hosts, err, want)
	}
}

// Nodes drop packets to ranges that they can't route. Such packets never leave the cluster by the node's
// default route.
func TestWhatIsForAPeerThatCantBeFollowedIsClosed(t *testing.T) {
	f := &fabric{options: FabricOptions{Log: slog.New(slog.DiscardHandler)}}
	pods := []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}
	in := gateway.NodeInputs{NodeIP: netip.MustParseAddr("192.0.2.1"), UnderlayMTU: 1500, PodCIDRs: pods}
	bad := gateway.Gateway{Name: "milan", PodIP: netip.MustParseAddr("10.244.0.1"), MTU: 500, RemoteCIDRs: []netip.Prefix{netip.MustParsePrefix("10.240.0.0/13"), netip.MustParsePrefix("10.1.0.0/16")}}
	in.Gateways = []gateway.Gateway{bad}
	state, err := gateway.ComputeNode(f.follow(in, nil))
	if err != nil {
		t.Fatal(err)
	}
	var routes []string
	for _, r := range state.Routes {
		routes = append(routes, r.String())
	}
	text := strings.Join(routes, "\n")
	if !strings.Contains(text, "blackhole 10.1.0.0/16") || !strings.Contains(text, "blackhole 10.240.0.0/14") {
		t.Errorf("got\n%s\nwant the peer's ranges closed", text)
	}
	for _, r := range state.Routes {
		if r.Destination.Overlaps(pods[0]) {
			t.Errorf("got %s, want this cluster's own pods left alone", r)
		}
	}
}

func TestTheAgentEndsWhenTheNodesAddressIsGone(t *testing.T) {
	o := FabricOptions{NodeIP: netip.MustParseAddr("192.0.2.1"), Log: slog.New(slog.DiscardHandler)}
	answers := []bool{true, false, true, false, false}
	has := func(netip.Addr) (bool, error) {
		a := answers[0]
		answers = answers[1:]
		return a, nil
	}
	if err := o.keepAddress(t.Context(), time.Millisecond, has); err == nil || !strings.Contains(err.Error(), "192.0.2.1") || len(answers) > 0 {
		t.Errorf("got %v with %d looks left, want an end at the second in a row that finds nothing", err, len(answers))
	}
}

// If the node has lost its address, the error about a route says this.
func TestAnAddressThatIsGoneIsTheReason(t *testing.T) {
	o := FabricOptions{NodeIP: netip.MustParseAddr("192.0.2.2")}
	failed := errors.New("set route: invalid argument")
	for name, c := range map[string]struct {
		err     error
		has     bool
		unknown error
		want    string
	}{
		"all is well":                {nil, false, nil, ""},
		"the address is gone":        {failed, false, nil, "no device has the node's address 192.0.2.2 any more: set route: invalid argument"},
		"the address is there":       {failed, true, nil, "set route: invalid argument"},
		"whether it is is not known": {failed, false, errors.New("list addresses"), "set route: invalid argument"},
	} {
		if got := o.why(c.err, func(netip.Addr) (bool, error) { return c.has, c.unknown }); got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}
