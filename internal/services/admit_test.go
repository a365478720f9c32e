package services_test

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/liqo-tui/liqo-tui/internal/services"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

var milanPeer = services.Peer{
	ID: "milan", Ranges: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("127.1.0.0/16"), netip.MustParsePrefix("169.254.0.0/16")},
	Own: []string{"tunnels"}, Never: []netip.Addr{netip.MustParseAddr("10.244.0.1")},
}

// sent is a slice that milan sends.
func sent(t testing.TB) *discoveryv1.EndpointSlice {
	h := fullHead()
	text, err := h.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "hello-milan-0123456789abcdef", UID: "u", ResourceVersion: "7", Finalizers: []string{"f"}, OwnerReferences: []metav1.OwnerReference{{Name: "o"}},
			Labels:      map[string]string{mcsv1beta1.LabelServiceName: "hello", mcsv1beta1.LabelSourceCluster: "milan", discoveryv1.LabelServiceName: "derived-x", "other": "label"},
			Annotations: map[string]string{wire.AnnotationServiceHead: text, "other": "annotation"},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Protocol: new(corev1.ProtocolTCP), Port: new(int32(8080))}},
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{"10.244.0.5"}, Hostname: new("web-0"), Zone: new("zone-a"), NodeName: new("node-1"), TargetRef: &corev1.ObjectReference{Kind: "Pod"},
			Conditions: discoveryv1.EndpointConditions{Ready: new(false), Serving: new(true), Terminating: new(true)}, Hints: &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: "z"}}},
		}},
	}
}

func TestWhatIsKeptOfAPeersSlice(t *testing.T) {
	in := sent(t)
	got, problems := services.Admit(in, milanPeer)
	if got == nil || len(problems) > 0 {
		t.Fatalf("it was refused: %q", problems)
	}
	head := fullHead()
	text, _ := head.Encode()
	equal(t, "it keeps", got, &discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "shop.hello-milan-0123456789abcdef",
			Labels: map[string]string{
				wire.LabelServiceNamespace: "shop", wire.LabelServiceName: "hello", wire.LabelRemoteCluster: "milan",
				discoveryv1.LabelManagedBy: "liqo-tui", "service.kubernetes.io/headless": "",
			},
			Annotations: map[string]string{wire.AnnotationServiceHead: text},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Protocol: new(corev1.ProtocolTCP), Port: new(int32(8080)), AppProtocol: new("kubernetes.io/h2c")}},
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{"10.244.0.5"}, Hostname: new("web-0"), Zone: new("zone-a"), Conditions: in.Endpoints[0].Conditions,
		}},
	})
	equal(t, "it is of", services.CopyOf(got), types.NamespacedName{Namespace: "shop", Name: "hello"})
}

func TestHostileSlicesAreRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(*discoveryv1.EndpointSlice)
		want string
	}{
		{"name with ..", func(s *discoveryv1.EndpointSlice) { s.Name = "../../secrets" }, `"../../secrets" can't be its name`},
		{"name with an escape", func(s *discoveryv1.EndpointSlice) { s.Name = "\x1b[2J" }, `"?[2J" can't be its name`},
		{"long name", func(s *discoveryv1.EndpointSlice) { s.Name = strings.Repeat("a", 190) }, "can't be its name"},
		{"no name", func(s *discoveryv1.EndpointSlice) { s.Name = "" }, "can't be its name"},
		{"namespace with ..", func(s *discoveryv1.EndpointSlice) { s.Namespace = ".." }, `".." can't be its namespace`},
		{"no namespace", func(s *discoveryv1.EndpointSlice) { s.Namespace = "" }, "can't be its namespace"},
		{"kube-system", func(s *discoveryv1.EndpointSlice) { s.Namespace = "kube-system" }, "into the namespace kube-system"},
		{"kube-node-lease", func(s *discoveryv1.EndpointSlice) { s.Namespace = "kube-node-lease" }, "into the namespace kube-"},
		{"default", func(s *discoveryv1.EndpointSlice) { s.Namespace = "default" }, "into the namespace default"},
		{"our namespace", func(s *discoveryv1.EndpointSlice) { s.Namespace = "liqo" }, "into the namespace liqo"},
		{"our chosen namespace", func(s *discoveryv1.EndpointSlice) { s.Namespace = "tunnels" }, "into the namespace tunnels"},
		{"a tenant namespace", func(s *discoveryv1.EndpointSlice) { s.Namespace = "liqo-tenant-turin" }, "into the namespace liqo-tenant-turin"},
		{"Service with a dot", func(s *discoveryv1.EndpointSlice) { s.Labels[mcsv1beta1.LabelServiceName] = "a.b" }, `"a.b" can't be the name of its Service`},
		{"no Service", func(s *discoveryv1.EndpointSlice) { delete(s.Labels, mcsv1beta1.LabelServiceName) }, "can't be the name of its Service"},
		{"our Service", func(s *discoveryv1.EndpointSlice) { s.Labels[mcsv1beta1.LabelServiceName] = "derived-0123456789" }, "begin with derived-"},
		{"another cluster", func(s *discoveryv1.EndpointSlice) { s.Labels[mcsv1beta1.LabelSourceCluster] = "turin" }, `from the cluster "turin"`},
		{"no cluster", func(s *discoveryv1.EndpointSlice) { delete(s.Labels, mcsv1beta1.LabelSourceCluster) }, `from the cluster ""`},
		{"IPv6", func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeIPv6 }, `type "IPv6"`},
		{"FQDN", func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeFQDN }, `type "FQDN"`},
		{"no head", func(s *discoveryv1.EndpointSlice) { s.Annotations = nil }, "not a description"},
		{"long head", func(s *discoveryv1.EndpointSlice) {
			s.Annotations[wire.AnnotationServiceHead] = strings.Repeat(" ", 20000)
		}, "20000 bytes"},
		{"large", func(s *discoveryv1.EndpointSlice) { s.Annotations["x"] = strings.Repeat("x", 1<<20) }, "at most 524288"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := sent(t)
			c.do(in)
			got, problems := services.Admit(in, milanPeer)
			if got != nil || len(problems) != 1 || !strings.Contains(problems[0], c.want) {
				t.Errorf("got %q and %+v, want %q", problems, got, c.want)
			}
		})
	}
}

func TestHostilePartsOfASliceAreLeftOut(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(*discoveryv1.EndpointSlice)
		want string
	}{
		{"another cluster's pod", address("10.245.0.5"), "1 endpoints outside of the peer's pod ranges"},
		{"loopback", address("127.1.0.5"), "1 endpoints with an address that no pod of a peer has"},
		{"link-local", address("169.254.169.254"), "1 endpoints with an address that no pod of a peer has"},
		{"API server", address("10.244.0.1"), "1 endpoints with an address that no pod of a peer has"},
		{"unspecified", address("0.0.0.0"), "1 endpoints with an address that no pod of a peer has"},
		{"multicast", address("224.0.0.1"), "1 endpoints with an address that no pod of a peer has"},
		{"IPv6", address("fd00::1"), "1 endpoints without an IPv4 address"},
		{"IPv4 in IPv6", address("::ffff:10.244.0.6"), "1 endpoints without an IPv4 address"},
		{"a name", address("example.com"), "1 endpoints without an IPv4 address"},
		{"an escape", address("\x1b[2J"), "1 endpoints without an IPv4 address"},
		{"the same address again", address("10.244.0.5"), "1 endpoints with the address of another one"},
		{"no address", func(s *discoveryv1.EndpointSlice) { s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{}) }, "1 endpoints without an address"},
		{"port twice", func(s *discoveryv1.EndpointSlice) { s.Ports = append(s.Ports, s.Ports[0]) }, "1 ports with the name of another one"},
		{"foreign port", func(s *discoveryv1.EndpointSlice) {
			s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: new("ssh"), Port: new(int32(22))})
		}, "1 ports that its Service does not have"},
		{"lost port", func(s *discoveryv1.EndpointSlice) {
			s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: new("dns"), Protocol: new(corev1.ProtocolUDP), Port: new(int32(53))})
		}, "1 ports that its Service does not have"},
		{"all ports", func(s *discoveryv1.EndpointSlice) {
			s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: new("http")})
		}, "1 ports without a number from 1 to 65535"},
		{"port 65536", func(s *discoveryv1.EndpointSlice) {
			s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: new("http"), Port: new(int32(65536))})
		}, "1 ports without a number from 1 to 65535"},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := sent(t)
			want, _ := services.Admit(sent(t), milanPeer)
			c.do(in)
			got, problems := services.Admit(in, milanPeer)
			equal(t, "problems", problems, []string{c.want})
			equal(t, "kept", got, want)
		})
	}
	in := sent(t)
	in.Endpoints[0].Hostname, in.Endpoints[0].Zone = new("a.b"), new("a\nb")
	got, problems := services.Admit(in, milanPeer)
	equal(t, "problems", problems, []string{"1 host names that are no labels of DNS", "1 zones that no node can have"})
	if e := got.Endpoints[0]; e.Hostname != nil || e.Zone != nil {
		t.Errorf("it keeps %+v", e)
	}
	in = sent(t)
	for i := range 1200 {
		in.Endpoints = append(in.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprintf("10.244.%d.%d", 1+i/250, i%250)}})
	}
	got, problems = services.Admit(in, milanPeer)
	equal(t, "problems", problems, []string{"201 endpoints beyond the first 1000"})
	equal(t, "endpoints", len(got.Endpoints), 1000)
}

func address(text string) func(*discoveryv1.EndpointSlice) {
	return func(s *discoveryv1.EndpointSlice) {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{text}})
	}
}

func TestThereIsRoomForSoMuchOfAPeer(t *testing.T) {
	of := func(i int, size int) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{
			Labels:      map[string]string{wire.LabelServiceNamespace: "shop", wire.LabelServiceName: fmt.Sprint(i)},
			Annotations: map[string]string{"head": strings.Repeat("x", size)},
		}}
	}
	var b services.Budget
	for i := range services.MaxServices {
		if full := b.Add(of(i, 0)); full != "" {
			t.Fatalf("Service %d: %s", i, full)
		}
	}
	if full := b.Add(of(services.MaxServices, 0)); full != "at most 2000 Services of a peer are kept" {
		t.Errorf("one more: got %q", full)
	}
	if full := b.Add(of(0, 0)); full != "" {
		t.Errorf("a second slice of a Service: %s", full)
	}
	one := of(1, 0)
	b.Remove(services.CopyOf(one), one.Size())
	if full := b.Add(of(services.MaxServices, 0)); full != "" {
		t.Errorf("instead of another one: %s", full)
	}
	if full := b.Add(of(0, services.MaxBytes-100<<10)); full != "at most 16 MiB of a peer are kept" {
		t.Errorf("too large: got %q", full)
	}
}

// Whatever a peer sends, the copy is an object that the API server accepts, its addresses are those of the
// peer's pods, and no text can act on a terminal. Merge makes no object outside of the namespace from it.
func FuzzAdmit(f *testing.F) {
	valid := sent(f)
	head := valid.Annotations[wire.AnnotationServiceHead]
	f.Add("shop", "hello-milan", "hello", "milan", "10.244.0.5", "web-0", "zone-a", "http", int32(8080), head)
	f.Add("kube-system", "../x", "derived-x", "turin", "169.254.169.254", "\x1b[2J", "a b", "ssh", int32(0), "{}")
	f.Add("liqo-tenant-milan", "", "a.b", "", "10.244.0.1", "", "", "", int32(-1), "\xff")
	for _, put := range [][2]string{{"ClusterSetIP", "Headless"}, {`"http"`, "null"}, {"2026-03-01", "9999-99-99"}, {`"web"`, `"../web"`}, {"tier", "liqo-tui.dev/x"}, {"line 1", `\u001b`}} {
		f.Add("shop", "hello-milan", "hello", "milan", "10.244.0.5", "web-0", "zone-a", "http", int32(8080), strings.ReplaceAll(head, put[0], put[1]))
	}
	f.Fuzz(func(t *testing.T, namespace, object, service, cluster, address, hostname, zone, port string, number int32, head string) {
		in := *valid.DeepCopy()
		in.Namespace, in.Name = namespace, object
		in.Labels[mcsv1beta1.LabelServiceName], in.Labels[mcsv1beta1.LabelSourceCluster] = service, cluster
		in.Annotations[wire.AnnotationServiceHead] = head
		in.Endpoints = append(in.Endpoints, discoveryv1.Endpoint{Addresses: []string{address, address}, Hostname: &hostname, Zone: &zone, NodeName: &hostname})
		in.Ports = append(in.Ports, discoveryv1.EndpointPort{Name: &port, Port: &number, AppProtocol: &zone})
		before := in.DeepCopy()
		got, problems := services.Admit(&in, milanPeer)
		if !reflect.DeepEqual(&in, before) {
			t.Errorf("what was sent became %+v", in)
		}
		for _, p := range problems {
			if len(p) > 500 || strings.ContainsFunc(p, func(r rune) bool { return !unicode.IsPrint(r) }) {
				t.Errorf("it says %q", p)
			}
		}
		if got == nil {
			if len(problems) == 0 {
				t.Error("it was refused without a reason")
			}
			return
		}
		if len(validation.IsDNS1123Subdomain(got.Name)) > 0 || len(got.Endpoints) > 1000 || len(got.Annotations) != 1 || got.Namespace != "" || got.OwnerReferences != nil || got.Finalizers != nil {
			t.Errorf("it keeps %+v", got.ObjectMeta)
		}
		for _, l := range got.Labels {
			if len(validation.IsValidLabelValue(l)) > 0 {
				t.Errorf("it keeps the label %q", l)
			}
		}
		for _, e := range got.Endpoints {
			if a, err := netip.ParseAddr(e.Addresses[0]); err != nil || len(e.Addresses) != 1 || !milanPeer.Ranges[0].Contains(a) || e.NodeName != nil || e.TargetRef != nil || e.Hints != nil || e.DeprecatedTopology != nil {
				t.Errorf("it keeps %+v", e)
			}
		}
		// Admit keeps all parts of its own result.
		again := in.DeepCopy()
		again.Annotations, again.Ports, again.Endpoints = got.Annotations, got.Ports, got.Endpoints
		if second, problems := services.Admit(again, milanPeer); len(problems) > 0 || !reflect.DeepEqual(second, got) {
			t.Errorf("when it comes again, it keeps %+v of %+v: %q", second, got, problems)
		}

		name := services.CopyOf(got)
		merged := services.Merge(services.World{
			Name: name, Self: "rome", ImportUID: "uid", Policy: services.Policy{Allowed: map[wire.ClusterID]services.Namespaces{"milan": {All: true}}},
			Peers: []services.Exporter{{ID: "milan", Copies: []discoveryv1.EndpointSlice{*got}, Seen: func(a string) (string, bool) { return a, true }}},
		})
		if merged.Import == nil || merged.Import.Namespace != name.Namespace || merged.Import.Name != name.Name || len(merged.Slices) != 1 || merged.Slices[0].Namespace != name.Namespace ||
			len(validation.IsDNS1123Subdomain(merged.Slices[0].Name)) > 0 {
			t.Errorf("it becomes %+v", merged)
		}
		for _, o := range []map[string]string{merged.Import.Labels, merged.Import.Annotations} {
			for k := range o {
				if strings.HasPrefix(k, "liqo") {
					t.Errorf("the import has %s", k)
				}
			}
		}
	})
}

// A hostile cluster must not choose which object of this cluster it replaces.
func TestSlicesOfTwoClustersHaveTwoNames(t *testing.T) {
	merge := func(service string, cluster wire.ClusterID) string {
		in := sent(t)
		in.Labels[mcsv1beta1.LabelServiceName], in.Labels[mcsv1beta1.LabelSourceCluster] = service, string(cluster)
		peer := milanPeer
		peer.ID = cluster
		got, problems := services.Admit(in, peer)
		if got == nil {
			t.Fatal(problems)
		}
		return services.Merge(services.World{
			Name: services.CopyOf(got), Self: "rome", ImportUID: "uid", Policy: services.Policy{Allowed: map[wire.ClusterID]services.Namespaces{cluster: {Names: []string{"shop"}}}},
			Peers: []services.Exporter{{ID: cluster, Copies: []discoveryv1.EndpointSlice{*got}, Seen: func(a string) (string, bool) { return a, true }}},
		}).Slices[0].Name
	}
	if a, b := merge("a", "b-c"), merge("a-b", "c"); a == b || !strings.HasPrefix(a, "a-b-c-") || !strings.HasPrefix(b, "a-b-c-") {
		t.Errorf("they are called %s and %s", a, b)
	}
	if a, b := merge("a", "b-c"), merge("a", "b-c"); a != b {
		t.Errorf("it was called %s, and is called %s", a, b)
	}
}

func TestReservedNamespaces(t *testing.T) {
	for namespace, want := range map[string]bool{
		"kube-system": true, "kube-public": true, "kube-x": true, "default": true, "liqo": true, "liqo-tenant-milan": true, "tunnels": true, "shop": false, "kubeflow": false, "liqor": false,
	} {
		if got := services.Reserved(namespace, []string{"tunnels"}); got != want {
			t.Errorf("%s: got %v", namespace, got)
		}
		policy := services.Policy{Own: []string{"tunnels"}, Allowed: map[wire.ClusterID]services.Namespaces{"milan": {All: true}}}
		if policy.Imports(namespace, "milan") == want || policy.Imports(namespace, "turin") {
			t.Errorf("%s: milan %v, turin %v", namespace, policy.Imports(namespace, "milan"), policy.Imports(namespace, "turin"))
		}
	}
}

func TestNamespacesOfTheAnnotation(t *testing.T) {
	for text, want := range map[string]services.Namespaces{
		"": {}, "*": {All: true}, "shop": {Names: []string{"shop"}}, " shop, bank,shop,,": {Names: []string{"bank", "shop"}}, ",": {},
	} {
		got := services.ParseNamespaces(&metav1.ObjectMeta{Annotations: map[string]string{wire.AnnotationImport: text}})
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
		if again := services.ParseNamespaces(&metav1.ObjectMeta{Annotations: map[string]string{wire.AnnotationImport: got.String()}}); !reflect.DeepEqual(again, want) {
			t.Errorf("%q: written as %q, and read as %+v", text, got, again)
		}
	}
}
