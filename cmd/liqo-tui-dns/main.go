// Command liqo-tui-dns answers DNS queries for the names of Services that clusters share: the zone
// clusterset.local of the Multi-Cluster Services API. It is CoreDNS with the plugins that this
// takes. It is a program and a module of its own, because CoreDNS brings gRPC and QUIC along, which
// gateways do without.
package main

import (
	"github.com/coredns/caddy"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/metrics"
	_ "github.com/coredns/coredns/plugin/ready"
)

// corefile has no cache. Answers come from memory, and the cluster's own DNS keeps them for 5 s
// already: a second cache would double the time for which a new name stays missing. The names of
// imports need nothing of other Services: noendpoints leaves their EndpointSlices out, and labels
// the Services themselves.
const corefile = `clusterset.local:5353 {
	errors
	health :8080 {
		lameduck 5s
	}
	ready :8181
	prometheus :9153
	loadbalance
	kubernetes clusterset.local {
		multicluster clusterset.local
		labels multicluster.kubernetes.io/service-name
		noendpoints
		ttl 5
	}
}
`

func main() {
	caddy.RegisterCaddyfileLoader("liqo-tui-dns", caddy.LoaderFunc(load))
	coremain.Run()
}

func load(server string) (caddy.Input, error) {
	return caddy.CaddyfileInput{Filepath: "Corefile", Contents: []byte(corefile), ServerTypeName: server}, nil
}
