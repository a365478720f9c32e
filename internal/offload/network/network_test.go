package network

import (
	"fmt"
	"strings"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

func TestRangesAreThoseOfTheConfiguration(t *testing.T) {
	c := networkingv1beta1.Configuration{}
	c.Spec.Remote.CIDR.Pod = []networkingv1beta1.CIDR{"10.244.0.0/16"}
	if got := RangesOf(&c); got != nil {
		t.Errorf("not remapped yet: got %v", got)
	}
	c.Status.Remote = &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{Pod: []networkingv1beta1.CIDR{"253.18.0.0/16"}}}
	ranges := RangesOf(&c)
	if got := fmt.Sprint(ranges); got != "[{10.244.0.0/16 253.18.0.0/16}]" {
		t.Errorf("got %s", got)
	}
	for address, want := range map[string]string{"10.244.0.7": "253.18.0.7", "10.245.0.7": "", "169.254.169.254": "", "x": "", "::1": ""} {
		if seen, ok := ranges.Seen(address); seen != want || ok != (want != "") {
			t.Errorf("%s is seen as %q, %t", address, seen, ok)
		}
		if ranges.Contain(address) || want != "" && !ranges.Contain(want) {
			t.Errorf("%s, or not %s, is taken for an address as it is seen", address, want)
		}
	}
	if got := RangesOf(nil); got != nil {
		t.Errorf("of nothing: %v", got)
	}
}

func TestTunnelsAreJudgedByTheirReports(t *testing.T) {
	start := time.Unix(1000, 0)
	connection := func(value networkingv1beta1.ConnectionStatusValue, report string) []networkingv1beta1.Connection {
		c := networkingv1beta1.Connection{Status: networkingv1beta1.ConnectionStatus{Value: value}}
		if report != "" {
			c.Annotations = map[string]string{wire.AnnotationStatus: report}
		}
		return []networkingv1beta1.Connection{c}
	}
	const report = `{"at":"2020-01-01T00:00:00Z","intervalSeconds":10,"message":"hm"}`
	for name, c := range map[string]struct {
		configured bool
		all        []networkingv1beta1.Connection
		after      time.Duration
		there      bool
		down       string
	}{
		"no network of ours":     {false, nil, 0, false, ""},
		"no gateway":             {true, nil, 0, true, "no gateway"},
		"connected":              {true, connection(networkingv1beta1.Connected, report), 29 * time.Second, true, ""},
		"connected, and silent":  {true, connection(networkingv1beta1.Connected, report), 31 * time.Second, true, "not reported for 31s"},
		"a gateway of Liqo":      {true, connection(networkingv1beta1.Connected, ""), time.Hour, true, ""},
		"connecting":             {true, connection(networkingv1beta1.Connecting, report), 0, true, "hm"},
		"connecting, of Liqo":    {true, connection(networkingv1beta1.Connecting, ""), 0, true, "says Connecting"},
		"not reported yet":       {true, connection("", ""), 0, true, "not reported yet"},
		"a report that is wrong": {true, connection(networkingv1beta1.ConnectionError, "{"), 0, true, "says"},
	} {
		t.Run(name, func(t *testing.T) {
			var f Follower
			f.Tunnel(c.configured, c.all, start)
			got := f.Tunnel(c.configured, c.all, start.Add(c.after))
			if got.There != c.there || (got.Down == "") != (c.down == "") || !strings.Contains(got.Down, c.down) {
				t.Errorf("got %+v", got)
			}
			if got.Until.IsZero() == (c.all != nil && c.all[0].Annotations[wire.AnnotationStatus] == report && c.after < 30*time.Second) {
				t.Errorf("it is judged again at %v", got.Until)
			}
		})
	}
}

// While the roles are swapped, there are two Connections. The same one has to count in any order of the list.
// Otherwise a silent Connection would never be found.
func TestOneOfTwoConnectionsCounts(t *testing.T) {
	one := func(name, report string, value networkingv1beta1.ConnectionStatusValue) networkingv1beta1.Connection {
		return networkingv1beta1.Connection{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{wire.AnnotationStatus: report}}, Status: networkingv1beta1.ConnectionStatus{Value: value},
		}
	}
	a, b := one("gw-a", `{"intervalSeconds":10}`, networkingv1beta1.Connected), one("gw-b", `{"intervalSeconds":11}`, networkingv1beta1.Connecting)
	var f Follower
	now := time.Unix(1000, 0)
	for i := range 4 {
		all := []networkingv1beta1.Connection{a, b}
		if i%2 == 1 {
			all = []networkingv1beta1.Connection{b, a}
		}
		if down := f.Tunnel(true, all, now).Down; (down == "") != (i == 0) {
			t.Errorf("look %d: %q", i, down)
		}
		now = now.Add(time.Hour)
	}
}
