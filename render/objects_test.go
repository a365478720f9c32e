package render_test

import (
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// separator stands between input and expected output in a golden file.
const separator = "\n----------\n"

// Each file in testdata/objects contains a builder's input and the resulting YAML.
func TestObjects(t *testing.T) {
	files, err := filepath.Glob("testdata/objects/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			input, want, ok := strings.Cut(string(text), separator)
			if !ok {
				t.Fatalf("%s has no line ----------", file)
			}
			got, err := apply.YAML(build(t, input)...)
			if err != nil {
				t.Fatal(err)
			}
			if os.Getenv("UPDATE") != "" {
				want = string(got)
				if err := os.WriteFile(file, []byte(input+separator+want), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if d := cmp.Diff(want, string(got)); d != "" {
				t.Errorf("%s (-want +got; UPDATE=1 rewrites it):\n%s", file, d)
			}
		})
	}
}

func build(t *testing.T, input string) []wire.Object {
	t.Helper()
	builder, input, _ := strings.Cut(input, "\n")
	switch strings.TrimPrefix(builder, "builder: ") {
	case "GatewayServer":
		return []wire.Object{render.GatewayServer(decode[render.ServerParams](t, input))}
	case "GatewayClient":
		return []wire.Object{render.GatewayClient(decode[render.ClientParams](t, input))}
	case "Configuration":
		in := decode[struct {
			Tenant   render.Tenant
			Networks render.Networks
		}](t, input)
		return []wire.Object{render.Configuration(in.Tenant, in.Networks)}
	case "TenantNamespace":
		return []wire.Object{render.TenantNamespace(decode[struct{ Tenant render.Tenant }](t, input).Tenant)}
	case "PublicKey":
		in := decode[gatewayInput](t, input)
		return []wire.Object{render.PublicKey(in.Tenant, [32]byte(in.Key), in.Owner.object())}
	case "Network":
		in := decode[struct {
			Namespace, Name, Kind, CIDR string
			PreAllocated                uint32
		}](t, input)
		return []wire.Object{render.Network(in.Namespace, in.Name, in.Kind, in.CIDR, in.PreAllocated)}
	case "Gateway":
		return children(t, decode[gatewayInput](t, input))
	}
	t.Fatalf("%s: there is no such builder", builder)
	return nil
}

func decode[T any](t *testing.T, input string) (out T) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(input), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

type gatewayInput struct {
	Tenant render.Tenant
	Name   string
	Type   networkingv1beta1.ConnectionType
	Owner  owner
	Key    []byte
	PodIP  string
	CIDRs  []networkingv1beta1.CIDR
	MTU    int
	// LeftOut are addresses in the peer's ranges.
	LeftOut []string
}

type owner struct{ Kind, Name, UID string }

// object returns nil if there is no owner.
func (o owner) object() wire.Object {
	meta := metav1.ObjectMeta{Name: o.Name, UID: types.UID(o.UID)}
	kind := metav1.TypeMeta{APIVersion: networkingv1beta1.GroupVersion.String(), Kind: o.Kind}
	switch o.Kind {
	case networkingv1beta1.GatewayServerKind:
		return &networkingv1beta1.GatewayServer{TypeMeta: kind, ObjectMeta: meta}
	case networkingv1beta1.GatewayClientKind:
		return &networkingv1beta1.GatewayClient{TypeMeta: kind, ObjectMeta: meta}
	}
	return nil
}

// children returns the objects that the operator makes for a gateway, except its programs.
func children(t *testing.T, in gatewayInput) []wire.Object {
	t.Helper()
	g := render.Gateway{Tenant: in.Tenant, Name: in.Name, Type: in.Type, Owner: in.Owner.object()}
	hosts, err := g.HostsConfigMap([]render.Host{{External: netip.MustParseAddr("10.70.0.1"), Real: netip.MustParseAddr("192.0.2.7")}})
	if err != nil {
		t.Fatal(err)
	}
	return []wire.Object{
		g.KeySecret([32]byte(in.Key), [32]byte(in.Key)), g.ServiceAccount(), g.Role(), g.RoleBinding(), g.Connection(),
		g.InternalFabric(render.Fabric{PodIP: in.PodIP, Remote: in.CIDRs, MTU: in.MTU, LeftOut: in.LeftOut, NodeIPs: []string{"172.18.0.2"}}), hosts, g.HistoryConfigMap(),
	}
}

func TestParseHostsReadsWhatWasWritten(t *testing.T) {
	g := render.Gateway{Tenant: render.Tenant{Namespace: "ns", Remote: "milan"}, Name: "milan", Owner: owner{Kind: "GatewayClient"}.object()}
	host := render.Host{External: netip.MustParseAddr("10.70.0.1"), Real: netip.MustParseAddr("192.0.2.7")}
	for _, want := range [][]render.Host{nil, {host}} {
		cm, err := g.HostsConfigMap(want)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := render.ParseHosts(cm); err != nil || !slices.Equal(got, want) {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
		cm.Data = nil
		if _, err := render.ParseHosts(cm); err == nil || !strings.Contains(err.Error(), "hosts.json of ConfigMap ns/gw-milan-hosts") {
			t.Errorf("without the key: got %v, want an error that names it", err)
		}
	}
}

func TestParseNodeReadsWhatWasWritten(t *testing.T) {
	p, a := netip.MustParsePrefix, netip.MustParseAddr
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "of-a"}}
	for _, want := range []wire.NodeReport{
		{IP: a("172.18.0.2")},
		{IP: a("172.18.0.2"), Networks: []netip.Prefix{p("172.18.0.0/16")}, Pods: []netip.Prefix{p("10.99.40.128/26"), p("10.99.7.7/32")}, Addresses: []netip.Addr{a("172.18.0.2"), a("10.99.40.128")}},
	} {
		got, err := wire.ParseNode(wire.InternalNode(node, want))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
	broken := wire.InternalNode(node, wire.NodeReport{IP: a("172.18.0.2")})
	broken.Annotations[wire.AnnotationPods] = "10.99.40.128/26,nonsense,10.99.7.7/32"
	got, err := wire.ParseNode(broken)
	if err == nil || !strings.Contains(err.Error(), `liqo-tui.dev/pods: "nonsense"`) || len(got.Pods) != 2 || got.IP != a("172.18.0.2") {
		t.Errorf("got %+v, %v, want all but the nonsense, and an error that names it", got, err)
	}
}

func TestClusterIDValidate(t *testing.T) {
	for _, tc := range []struct {
		id   wire.ClusterID
		want string // part of the error; "" for none
	}{
		{"rome", ""},
		{"rome-1", ""},
		{"1rome", ""},
		{"a", ""},
		{wire.ClusterID(strings.Repeat("a", 51)), ""}, // with the prefix, 63 bytes: the most that a namespace may have
		{wire.ClusterID(strings.Repeat("a", 52)), "has 52 bytes, at most 51 fit"},
		{"", "is empty"},
		{"42", "is only digits"},
		{"0042", "is only digits"},
		{"4e2", ""},
		{"Rome", "only a-z, 0-9 and -"},
		{"-rome", "starting and ending with a letter or digit"},
		{"rome-", "starting and ending with a letter or digit"},
		{"rome.italy", "only a-z, 0-9 and -"},
		{"rome_1", "only a-z, 0-9 and -"},
		{"röm", "only a-z, 0-9 and -"},
		{"rome\n", "only a-z, 0-9 and -"},
		{wire.ClusterID(strings.Repeat("9", 40)), ""}, // too large for an integer: Liqo's templates leave it a string
	} {
		err := tc.id.Validate()
		switch {
		case tc.want == "" && err != nil:
			t.Errorf("%q: got %v, want no error", tc.id, err)
		case tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
			t.Errorf("%q: got %v, want an error with %q", tc.id, err, tc.want)
		}
	}
}

func TestWantedLeavesTheObjectAlone(t *testing.T) {
	live := &unstructured.Unstructured{Object: map[string]any{"kind": "Namespace", "metadata": map[string]any{"name": "n", "uid": "u"}, "status": map[string]any{}}}
	before := live.DeepCopy()
	if _, err := apply.Wanted(live); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, live); diff != "" {
		t.Errorf("it was changed (-before +after):\n%s", diff)
	}
}
