package main

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coredns/caddy"
	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1alpha1 "sigs.k8s.io/mcs-api/pkg/apis/v1alpha1"
)

// server is the program, with other ports and another API server.
type server struct {
	dns, ready, metrics string // their addresses
}

func start(t *testing.T, api *apiServer) *server {
	s := &server{dns: free(t, "udp"), ready: free(t, "tcp"), metrics: free(t, "tcp")}
	_, port, _ := net.SplitHostPort(s.dns)
	text := strings.NewReplacer(
		":5353", ":"+port, ":8080", free(t, "tcp"), ":8181", s.ready, ":9153", s.metrics, "lameduck 5s", "lameduck 1ms",
		"noendpoints", "noendpoints\n\t\tendpoint "+api.URL,
	).Replace(corefile)
	instance, err := caddy.Start(caddy.CaddyfileInput{Filepath: "Corefile", Contents: []byte(text), ServerTypeName: "dns"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		for _, err := range instance.ShutdownCallbacks() {
			t.Error(err)
		}
		if err := instance.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// free returns an address at which nothing listens.
func free(t *testing.T, network string) string {
	if network == "udp" {
		c, err := net.ListenPacket(network, "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.LocalAddr().String()
	}
	l, err := net.Listen(network, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func (s *server) ask(t *testing.T, kind uint16, name string) *dns.Msg {
	t.Helper()
	client := dns.Client{Timeout: 10 * time.Second}
	answer, _, err := client.Exchange(new(dns.Msg).SetQuestion(name, kind), s.dns)
	if err != nil {
		t.Fatalf("%s %s: %v", name, dns.TypeToString[kind], err)
	}
	return answer
}

// text is a DNS answer in one line, without its TTLs: the records in order, or why there are none.
func text(m *dns.Msg) string {
	if m.Rcode != dns.RcodeSuccess {
		return dns.RcodeToString[m.Rcode]
	}
	var all []string
	for _, rr := range m.Answer {
		all = append(all, strings.ReplaceAll(strings.TrimPrefix(rr.String(), rr.Header().String()), ".svc.clusterset.local.", ""))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func (s *server) isReady(t *testing.T) bool {
	t.Helper()
	response, err := http.Get("http://" + s.ready + "/ready")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	return response.StatusCode == http.StatusOK
}

func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after a minute: %s", what)
		}
	}
}

const imports, slicesOf = "serviceimports", "endpointslices"

// fill makes what an operator makes for two imported Services: web, and db, which is headless and
// has endpoints in two clusters.
func fill(api *apiServer) {
	api.put("namespaces", &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	api.put(imports, imported("web", mcsv1alpha1.ClusterSetIP, "10.96.7.7"))
	api.put(imports, imported("db", mcsv1alpha1.Headless))
	api.put(slicesOf, slice("web", "milan", endpoint("253.18.0.9", "")))
	api.put(slicesOf, slice("db", "milan", endpoint("253.18.0.5", "db-0"), endpoint("253.18.0.6", "db-1")))
	api.put(slicesOf, slice("db", "rome", endpoint("10.244.0.5", "db-0")))
}

func imported(name string, kind mcsv1alpha1.ServiceImportType, ips ...string) *mcsv1alpha1.ServiceImport {
	return &mcsv1alpha1.ServiceImport{
		TypeMeta:   metav1.TypeMeta{APIVersion: mcsv1alpha1.GroupVersion.String(), Kind: "ServiceImport"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec:       mcsv1alpha1.ServiceImportSpec{Type: kind, IPs: ips, Ports: []mcsv1alpha1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}}},
	}
}

func slice(service, cluster string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: discoveryv1.SchemeGroupVersion.String(), Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: service + "-" + cluster, Labels: map[string]string{
			mcsv1alpha1.LabelServiceName: service, mcsv1alpha1.LabelSourceCluster: cluster,
		}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   endpoints,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
	}
}

func endpoint(ip, host string) discoveryv1.Endpoint {
	e := discoveryv1.Endpoint{Addresses: []string{ip}, Conditions: discoveryv1.EndpointConditions{Ready: new(true)}}
	if host != "" {
		e.Hostname = &host
	}
	return e
}

func TestNamesOfImportedServices(t *testing.T) {
	api := startAPIServer(t, "namespaces", "services", slicesOf, imports)
	fill(api)
	// A Service of the cluster itself has no name in the zone.
	api.put("services", &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "own"}, Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.9", Ports: []corev1.ServicePort{{Port: 80}}},
	})
	s := start(t, api)
	if !s.isReady(t) {
		t.Fatal("the server is not ready")
	}
	for _, c := range []struct {
		kind uint16
		name string // in the zone, unless it ends in a dot
		want string
	}{
		{dns.TypeA, "web.shop.svc", "10.96.7.7"},
		{dns.TypeA, "WEB.shop.SVC", "10.96.7.7"},
		{dns.TypeAAAA, "web.shop.svc", ""},
		{dns.TypeSRV, "_http._tcp.web.shop.svc", "0 100 80 web.shop"},
		{dns.TypeSRV, "_other._tcp.web.shop.svc", "NXDOMAIN"},
		{dns.TypeA, "db.shop.svc", "10.244.0.5, 253.18.0.5, 253.18.0.6"},
		{dns.TypeA, "db-0.milan.db.shop.svc", "253.18.0.5"},
		{dns.TypeA, "db-0.rome.db.shop.svc", "10.244.0.5"},
		{dns.TypeSRV, "_http._tcp.db.shop.svc", "0 33 8080 db-0.milan.db.shop, 0 33 8080 db-0.rome.db.shop, 0 33 8080 db-1.milan.db.shop"},
		// Which cluster has a Service is nothing that a client should choose.
		{dns.TypeA, "milan.db.shop.svc", "NXDOMAIN"},
		{dns.TypeA, "milan.web.shop.svc", "NXDOMAIN"},
		{dns.TypeA, "db-0.milan.db.other.svc", "NXDOMAIN"},
		{dns.TypeA, "own.shop.svc", "NXDOMAIN"},
		{dns.TypeA, "nothing.shop.svc", "NXDOMAIN"},
		{dns.TypeA, "web.nowhere.svc", "NXDOMAIN"},
		{dns.TypeA, "10-244-0-5.shop.pod", "NXDOMAIN"},
		{dns.TypeTXT, "dns-version", `"1.1.0"`},
		{dns.TypeA, "kubernetes.default.svc.cluster.local.", "REFUSED"},
		{dns.TypePTR, "7.7.96.10.in-addr.arpa.", "REFUSED"},
	} {
		name := c.name
		if !strings.HasSuffix(name, ".") {
			name += ".clusterset.local."
		}
		answer := s.ask(t, c.kind, name)
		if got := text(answer); got != c.want {
			t.Errorf("%s %s: got %s, want %s", c.name, dns.TypeToString[c.kind], got, c.want)
		}
		if c.kind == dns.TypeTXT { // it never changes
			continue
		}
		for _, rr := range slices.Concat(answer.Answer, answer.Ns) { // an SOA among them bounds how long a missing name may be kept
			if soa, ok := rr.(*dns.SOA); rr.Header().Ttl > 5 || ok && soa.Minttl > 5 {
				t.Errorf("%s %s may be kept for longer than 5 s: %s", c.name, dns.TypeToString[c.kind], rr)
			}
		}
		if answer.Rcode == dns.RcodeNameError && len(answer.Ns) == 0 {
			t.Errorf("%s %s does not say how long it may be kept", c.name, dns.TypeToString[c.kind])
		}
	}
	response, err := http.Get("http://" + s.metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		t.Errorf("metrics: %s", response.Status)
	}
}

func TestANameIsThereAsSoonAsItsImport(t *testing.T) {
	api := startAPIServer(t, "namespaces", "services", slicesOf, imports)
	fill(api)
	s := start(t, api)
	name := func() string { return text(s.ask(t, dns.TypeA, "new.shop.svc.clusterset.local.")) }
	if got := name(); got != "NXDOMAIN" {
		t.Fatalf("before the import: %s", got)
	}
	began, added := time.Now(), imported("new", mcsv1alpha1.ClusterSetIP, "10.96.8.8")
	api.put(imports, added)
	until(t, "the name has no address", func() bool { return name() == "10.96.8.8" })
	if took := time.Since(began); took > 3*time.Second { // less than a cache of 5 s would take
		t.Errorf("the name has an address only after %s", took)
	}
	api.remove(imports, added)
	until(t, "the name still has an address", func() bool { return name() == "NXDOMAIN" })
}

func TestWithoutDefinitionsTheServerIsNotReady(t *testing.T) {
	api := startAPIServer(t, "namespaces", "services", slicesOf)
	s := start(t, api)
	if s.isReady(t) {
		t.Error("the server is ready")
	}
	// A missing name would be kept, and clients would give up.
	if got := text(s.ask(t, dns.TypeA, "web.shop.svc.clusterset.local.")); got != "SERVFAIL" {
		t.Errorf("without definitions: got %s, want SERVFAIL", got)
	}
	api.define(imports)
	fill(api)
	until(t, "the server is not ready", func() bool { return s.isReady(t) })
	if got := text(s.ask(t, dns.TypeA, "web.shop.svc.clusterset.local.")); got != "10.96.7.7" {
		t.Errorf("with definitions: got %s", got)
	}
}

func TestAnswersStayWhenDefinitionsAreDeleted(t *testing.T) {
	api := startAPIServer(t, "namespaces", "services", slicesOf, imports)
	fill(api)
	s := start(t, api)
	api.withdraw(imports)
	for deadline := time.Now().Add(2 * time.Second); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if got := text(s.ask(t, dns.TypeA, "web.shop.svc.clusterset.local.")); got != "10.96.7.7" {
			t.Fatalf("got %s", got)
		}
	}
	if !s.isReady(t) {
		t.Error("the server is not ready")
	}
}
