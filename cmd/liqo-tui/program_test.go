package main

import (
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/flows/peer"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/tui"
)

func TestTheCommandLineOfAConnection(t *testing.T) {
	pair := func(local, remote clusterFlags) *pairFlags { return &pairFlags{local: local, remote: remote} }
	rome := clusterFlags{context: "rome", namespace: wire.DefaultNamespace}
	milan := clusterFlags{context: "milan", namespace: wire.DefaultNamespace}
	elsewhere := clusterFlags{kubeconfig: "/home/ada/my config", context: "it's", namespace: "liqo-two"}
	params := func(edit func(*flows.Params)) flows.Params {
		p := flows.Defaults()
		edit(&p)
		return p
	}
	const plain = "liqo-tui network connect --context rome --remote-context milan"
	for name, test := range map[string]struct {
		pair *pairFlags
		p    flows.Params
		want string
	}{
		"defaults": {pair(rome, milan), flows.Defaults(), plain},
		"exposure": {pair(rome, milan), params(func(p *flows.Params) {
			p.Server, p.ServiceType, p.NodePort, p.MTU = flows.A, corev1.ServiceTypeNodePort, 31000, 1280
		}), plain + " --server-location Local --server-service-type NodePort --node-port 31000 --mtu 1280"},
		"chosen, also where it is the default": {pair(rome, milan), params(func(p *flows.Params) {
			p.Given, p.Wait = flows.FieldServiceType|flows.FieldMTU, flows.WaitVerified
		}), plain + " --server-service-type LoadBalancer --mtu 1340 --wait=verified"},
		"what the gateways find out": {pair(rome, milan), params(func(p *flows.Params) { p.MTU = wire.MaxMTU }), plain},
		"taken back": {pair(rome, milan), params(func(p *flows.Params) {
			p.Given = flows.FieldNodePort | flows.FieldLoadBalancerIP
		}), plain + " --node-port 0 --load-balancer-ip ''"},
		"client": {pair(rome, milan), params(func(p *flows.Params) {
			p.ClientAddress, p.ClientPort = "gw.example.org", 4242
		}), plain + " --client-address gw.example.org --client-port 4242"},
		"a template in its side's namespace": {pair(rome, milan), params(func(p *flows.Params) {
			p.ServerTemplate.Namespace = wire.DefaultNamespace
		}), plain},
		"lending": {pair(rome, milan), params(func(p *flows.Params) {
			p.Lending, p.Wait = &peer.Params{CPU: "4", Memory: "8Gi"}, flows.WaitVerified
		}), "liqo-tui peer --context rome --remote-context milan --cpu 4 --memory 8Gi"},
		"lending the other way": {pair(rome, milan), params(func(p *flows.Params) {
			p.Lending, p.Server = &peer.Params{Consumer: flows.B}, flows.A
		}), "liqo-tui peer --context rome --remote-context milan --consumer Remote"},
		"lending, with the server on the consumer": {pair(rome, milan), params(func(p *flows.Params) {
			p.Lending, p.Server = &peer.Params{}, flows.A
		}), "liqo-tui peer --context rome --remote-context milan --server-location Local"},
		"as another user": {
			pair(rome, clusterFlags{context: "milan", namespace: wire.DefaultNamespace, Instead: command.Instead{As: "bob", AsGroups: []string{"dev"}, RequestTimeout: "1m"}}), flows.Defaults(),
			plain + " --remote-as bob --remote-as-group dev --remote-request-timeout 1m",
		},
		"words that a shell would break": {
			pair(rome, elsewhere), flows.Defaults(),
			`liqo-tui network connect --context rome --remote-kubeconfig '/home/ada/my config' --remote-context 'it'\''s' --remote-liqo-namespace liqo-two`,
		},
	} {
		if got := connectCommandLine(test.pair, test.p).String(); got != test.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, test.want)
		}
	}
}

// A screen on which the admin chooses clusters does not know which one another user is for.
func TestAnotherUserIsOfANamedContext(t *testing.T) {
	t.Setenv("KUBECONFIG", kubeconfigOf(t, "https://127.0.0.1:1"))
	instead := command.Instead{As: "bob", RequestTimeout: "1m"}
	for name, o := range map[string]*pairFlags{
		"user": {local: clusterFlags{Instead: command.Instead{User: "ada"}}}, "impersonated": {remote: clusterFlags{Instead: instead}},
	} {
		if _, _, err := newBackend(o); exit.Code(err) != exit.Usage {
			t.Errorf("%s: got %v, want an error", name, err)
		}
	}
	b, refs, err := newBackend(&pairFlags{local: clusterFlags{context: "home", Instead: instead}, others: command.Instead{As: "eve"}})
	if err != nil {
		t.Fatal(err)
	}
	for ref, want := range map[flows.ContextRef]command.Instead{refs[flows.A]: instead, {Name: "milan"}: {As: "eve", RequestTimeout: "1m"}} {
		if got := b.cluster(ref).Instead; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %+v, want %+v", ref, got, want)
		}
	}
}

func TestWhichTerminalsGetASCII(t *testing.T) {
	for name, test := range map[string]struct {
		os   string
		env  map[string]string
		want bool
	}{
		"UTF-8":                  {"linux", map[string]string{"LANG": "it_IT.UTF-8"}, false},
		"utf8, as glibc says it": {"linux", map[string]string{"LC_CTYPE": "C.utf8"}, false},
		"LC_ALL wins":            {"linux", map[string]string{"LC_ALL": "C", "LANG": "it_IT.UTF-8"}, true},
		"no locale":              {"linux", nil, true},
		"the console":            {"linux", map[string]string{"TERM": "linux", "LANG": "C.UTF-8"}, true},
		"Windows":                {"windows", nil, false},
	} {
		if got := report.ASCIIOnly(func(k string) string { return test.env[k] }, test.os); got != test.want {
			t.Errorf("%s: got %v, want %v", name, got, test.want)
		}
	}
}

func TestTheCommandLineOfAnInstallation(t *testing.T) {
	made, err := install.New(render.InstallParams{ClusterID: "milan", Image: "example.org/gateway:v1"})
	if err != nil {
		t.Fatal(err)
	}
	b := &backend{offer: install.Offer{Image: "example.org/gateway:v1"}}
	r := tui.Request{A: flows.ContextRef{Name: "rome"}, B: flows.ContextRef{Name: "milan"}, Params: flows.Defaults()}
	r.Params.Install[flows.B] = made
	want := "liqo-tui network connect --context rome --remote-context milan --install --remote-cluster-id milan --image example.org/gateway:v1"
	if got := b.commandLine(r).String(); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
	r.Goal = tui.Reset
	want = "liqo-tui network reset --context rome --remote-context milan"
	if got := b.commandLine(r).String(); got != want {
		t.Errorf("\n got %s\nwant %s", got, want)
	}
}
