package flows_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows"
)

func TestParamsValidate(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(*flows.Params)
		want string // "" for none
	}{
		{"the defaults", func(*flows.Params) {}, ""},
		{"NodePort", func(p *flows.Params) { p.ServiceType, p.NodePort = corev1.ServiceTypeNodePort, 31000 }, ""},
		{"ClusterIP", func(p *flows.Params) { p.ServiceType = corev1.ServiceTypeClusterIP }, ""},
		{"the smallest MTU", func(p *flows.Params) { p.MTU = 576 }, ""},
		{"the largest MTU", func(p *flows.Params) { p.MTU = 9000 }, ""},
		{"an address to ask for", func(p *flows.Params) { p.LoadBalancerIP = "203.0.113.7" }, ""},
		{"an IPv6 address to ask for", func(p *flows.Params) { p.LoadBalancerIP = "2001:db8::7" }, ""},
		{
			"no service type", func(p *flows.Params) { p.ServiceType = "" },
			`--server-service-type "": want LoadBalancer, NodePort or ClusterIP`,
		},
		{
			"a service type that makes no endpoint", func(p *flows.Params) { p.ServiceType = corev1.ServiceTypeExternalName },
			`--server-service-type "ExternalName": want LoadBalancer, NodePort or ClusterIP`,
		},
		{"an MTU just too small", func(p *flows.Params) { p.MTU = 575 }, `--mtu "575": want a number of bytes, 576 to 9000`},
		{"an MTU just too large", func(p *flows.Params) { p.MTU = 9001 }, `--mtu "9001": want a number of bytes, 576 to 9000`},
		{"a negative MTU", func(p *flows.Params) { p.MTU = -1 }, `--mtu "-1": want a number of bytes, 576 to 9000`},
		{"no port", func(p *flows.Params) { p.Port = 0 }, `--server-port "0": want a port, 1 to 65535`},
		{
			"a node port without NodePort", func(p *flows.Params) { p.NodePort = 31000 },
			"--node-port 31000: applies to --server-service-type NodePort only, not to LoadBalancer",
		},
		{
			"an address to ask nobody for", func(p *flows.Params) { p.ServiceType, p.LoadBalancerIP = corev1.ServiceTypeNodePort, "203.0.113.7" },
			"--load-balancer-ip 203.0.113.7: applies to --server-service-type LoadBalancer only, not to NodePort",
		},
		{"a name to ask for", func(p *flows.Params) { p.LoadBalancerIP = "lb.example" }, `--load-balancer-ip "lb.example": want an IP address, such as 192.0.2.7`},
		{
			"all problems at once", func(p *flows.Params) { *p = flows.Params{NodePort: 1, LoadBalancerIP: "x"} },
			"--server-service-type \"\": want LoadBalancer, NodePort or ClusterIP\n" +
				"--server-port \"0\": want a port, 1 to 65535\n" +
				"--load-balancer-ip \"x\": want an IP address, such as 192.0.2.7\n" +
				"--mtu \"0\": want a number of bytes, 576 to 9000\n" +
				"--node-port 1: applies to --server-service-type NodePort only, not to \n" +
				"--load-balancer-ip x: applies to --server-service-type LoadBalancer only, not to ",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := flows.Defaults()
			tc.edit(&p)
			got := ""
			if err := p.Validate(); err != nil {
				got = err.Error()
			}
			if got != tc.want {
				t.Errorf("\n got %s\nwant %s", got, tc.want)
			}
		})
	}
}
