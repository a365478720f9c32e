package address_test

import (
	"net/netip"
	"strings"
	"testing"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/address"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
)

func TestSeenAs(t *testing.T) {
	conf := func(spec, status []networkingv1beta1.CIDR) *networkingv1beta1.Configuration {
		c := &networkingv1beta1.Configuration{}
		c.Spec.Remote.CIDR.Pod = spec
		c.Status.Remote = &networkingv1beta1.ClusterConfig{}
		c.Status.Remote.CIDR.Pod = status
		return c
	}
	two := conf([]networkingv1beta1.CIDR{"10.244.0.0/16", "10.245.0.0/16"}, []networkingv1beta1.CIDR{"10.244.0.0/16", "10.71.0.0/16"})
	for pod, want := range map[string]string{"10.244.3.4": "10.244.3.4", "10.245.3.4": "10.71.3.4", "10.9.0.1": ""} {
		got, err := address.SeenAs(two, netip.MustParseAddr(pod))
		if want == "" != (err != nil) || err == nil && got.String() != want {
			t.Errorf("%s: got %s, %v; want %s", pod, got, err, want)
		}
	}
	if _, err := address.SeenAs(conf([]networkingv1beta1.CIDR{"10.244.0.0/16"}, nil), netip.MustParseAddr("10.244.0.1")); err == nil {
		t.Error("without a decision: got no error")
	}
}

func TestTargetsAreReadAsKubectlReadsThem(t *testing.T) {
	for text, want := range map[string]string{
		"pod/web": "pod shop/web", "po/web": "pod shop/web", "svc/web": "service shop/web", "service/web": "service shop/web",
		"10.244.0.4": "10.244.0.4", "::ffff:10.244.0.4": "10.244.0.4",
		"web": "", "pod/": "", "deployment/web": "", "pod/a/b": "", "": "", "10.244.0": "",
	} {
		got, err := address.Parse(text, "shop")
		if want == "" != (err != nil) || err == nil && got.String() != want {
			t.Errorf("%q: got %s, %v; want %q", text, got, err, want)
		}
	}
}

// Whatever is asked for: an address is given only where packets to it reach what it stands
// for, and what can't be called says why.
func TestTheAnswerIsWhatCanBeCalled(t *testing.T) {
	pair := flowtest.NewPair()
	flowtest.MustRun(t, pair, flowtest.Connect(flowtest.NodePort()))
	f := flows.Facts{Sides: [2]flows.ClusterFacts{pair.A.Facts(), pair.B.Facts()}, At: pair.Now()}
	web := address.Target{Kind: address.Service, Namespace: "shop", Name: "web"}
	found := address.Found{ClusterIP: "10.96.7.7", Ends: []address.End{
		{Name: "web-1", Address: "10.244.0.4", Ready: true}, {Name: "web-2"}, {Name: "web-3", Address: "172.18.0.20", HostNetwork: true, Ready: true},
	}}
	got, err := address.Of(f, flows.A, web, found)
	if err != nil {
		t.Fatal(err)
	}
	seen := f.Sides[flows.A].End("milan").Configuration.Status.Remote.CIDR.Pod[0]
	if !netip.MustParsePrefix(string(seen)).Contains(got.Ends[0].Seen) || got.Ends[0].Problem != "" {
		t.Errorf("got %+v, want an address in %s", got.Ends[0], seen)
	}
	for _, e := range got.Ends[1:] {
		if e.Seen.IsValid() || e.Problem == "" {
			t.Errorf("got %+v, want a reason", e)
		}
	}
	text := strings.Join(got.Lines(), "\n")
	for _, want := range []string{"service shop/web of milan, called from pods of rome", got.Ends[0].Seen.String(), "(pod web-1, 10.244.0.4 there)", "no address yet", "not ready", "its node's", "Its address 10.96.7.7 is of milan only"} {
		if !strings.Contains(text, want) {
			t.Errorf("got\n%s\nwant it to say %q", text, want)
		}
	}

	outside, err := address.Of(f, flows.A, address.Target{Kind: address.Address, Address: netip.MustParseAddr("10.96.0.10")}, address.Found{})
	if err != nil || outside.Ends[0].Problem == "" || outside.Note == "" {
		t.Errorf("got %+v, %v; want no address for one of no range", outside, err)
	}
	if _, err := address.Of(f, flows.A, web, address.Found{}); err == nil {
		t.Error("a Service without pods: got no error")
	}
	f.Sides[flows.A].Configurations = nil
	if _, err := address.Of(f, flows.A, web, found); err == nil {
		t.Error("clusters that are not connected: got no error")
	}
}
