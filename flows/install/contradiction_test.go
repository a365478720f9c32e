package install_test

import (
	"net/netip"
	"strings"
	"testing"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/render"
)

// Each setting alone is valid.
func TestSettingsThatExcludeEachOtherAreRefused(t *testing.T) {
	installed := func(c *flows.ClusterFacts) { c.ExternalCIDR = "10.70.0.0/16" }
	bare := func(c *flows.ClusterFacts) {
		c.Software, c.ID, c.Networks, c.ExternalCIDR = flows.NoSoftware, "", render.Networks{}, ""
	}
	node := func(address string) func(*flows.ClusterFacts) {
		return func(c *flows.ClusterFacts) {
			c.Nodes = []flows.NodeFacts{{Name: "n1", Internal: []netip.Addr{netip.MustParseAddr(address)}}}
		}
	}
	services := func(c *flows.ClusterFacts) { c.ServiceCIDRs = []networkingv1beta1.CIDR{"10.96.0.0/12"} }
	for name, test := range map[string]struct {
		facts []func(*flows.ClusterFacts)
		p     render.InstallParams
		says  string // "" if it is accepted
		fix   string
	}{
		"pods that get the external range": {
			[]func(*flows.ClusterFacts){installed},
			render.InstallParams{PodCIDRs: []string{"10.0.0.0/8"}, ExternalCIDR: "10.70.0.0/16"},
			"pod range 10.0.0.0/8 and external range 10.70.0.0/16 overlap", "install --context kind-rome --pod-cidr 10.0.0.0/8 --external-cidr 2",
		},
		"both are changed": {[]func(*flows.ClusterFacts){installed}, render.InstallParams{PodCIDRs: []string{"10.0.0.0/8"}, ExternalCIDR: "192.168.64.0/18"}, "", ""},
		"both are stated at first": {
			[]func(*flows.ClusterFacts){bare},
			render.InstallParams{PodCIDRs: []string{"10.0.0.0/8"}, ExternalCIDR: "10.80.0.0/16"},
			"pod range 10.0.0.0/8 and external range 10.80.0.0/16 overlap", "--external-cidr 2",
		},
		"the operator chooses the external range": {[]func(*flows.ClusterFacts){bare}, render.InstallParams{PodCIDRs: []string{"10.0.0.0/8"}}, "", ""},
		"the operator has moved it": {[]func(*flows.ClusterFacts){installed, func(c *flows.ClusterFacts) {
			c.Networks.Pod, c.Networks.External = []networkingv1beta1.CIDR{"10.0.0.0/8"}, []networkingv1beta1.CIDR{"249.254.0.0/16"}
		}}, render.InstallParams{PodCIDRs: []string{"10.0.0.0/8"}, ExternalCIDR: "10.70.0.0/16"}, "", ""},
		"Services": {
			[]func(*flows.ClusterFacts){installed, services},
			render.InstallParams{ExternalCIDR: "10.100.0.0/16"},
			"Service range 10.96.0.0/12 and external range 10.100.0.0/16 overlap", "--external-cidr",
		},
		"stated Services": {
			[]func(*flows.ClusterFacts){installed},
			render.InstallParams{ServiceCIDR: "10.64.0.0/12"},
			"Service range 10.64.0.0/12 and external range 10.70.0.0/16 overlap", "--service-cidr 10.64.0.0/12 --external-cidr 2",
		},
		"a node": {
			[]func(*flows.ClusterFacts){installed, node("192.168.1.7")},
			render.InstallParams{ExternalCIDR: "192.168.0.0/16"},
			"address of node n1 192.168.1.7/32 and external range 192.168.0.0/16 overlap", "--external-cidr",
		},
		"a pool within pods":         {[]func(*flows.ClusterFacts){installed}, render.InstallParams{Pools: []string{"10.244.128.0/17"}}, "pod range 10.244.0.0/16 and pool 10.244.128.0/17 overlap", "--pools"},
		"a pool with pods in it":     {[]func(*flows.ClusterFacts){installed}, render.InstallParams{Pools: []string{"10.0.0.0/8"}}, "", ""},
		"pods with Services in them": {[]func(*flows.ClusterFacts){installed, services}, render.InstallParams{PodCIDRs: []string{"10.0.0.0/8"}, ExternalCIDR: "192.168.64.0/18"}, "", ""},
		"nothing is stated":          {[]func(*flows.ClusterFacts){installed, services, node("172.18.0.2")}, render.InstallParams{}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := flowtest.Facts(flowtest.NewPair()).Sides[flows.A]
			for _, change := range test.facts {
				change(&f)
			}
			test.p.ClusterID, test.p.Image = "rome", "example.org/gateway:v1"
			s := install.Plan(test.p, flows.Facts{Sides: [2]flows.ClusterFacts{f}}).Failure()
			switch {
			case s == nil && test.says != "":
				t.Errorf("it is accepted, want %q", test.says)
			case s != nil && test.says == "":
				t.Errorf("it is refused: %s", s.Reason)
			case s != nil && (s.Reason != test.says || s.Kind != flows.FailedUsage || !strings.Contains(s.Hint().String(), test.fix)):
				t.Errorf("got %q (%s), want %q", s.Reason, s.Hint(), test.says)
			}
		})
	}
}
