package services_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/liqo-tui/liqo-tui/internal/services"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

func three() (rome, milan, turin *cluster) {
	return newCluster("rome", "10.244.0.0/16", "milan", "turin"), newCluster("milan", "10.244.0.0/16", "rome", "turin"), newCluster("turin", "10.99.0.0/16", "rome", "milan")
}

// Other implementations of the API have the same name: scripts know it.
func TestTheDerivedServiceHasTheNameThatOthersGiveIt(t *testing.T) {
	equal(t, "name", services.DerivedName(types.NamespacedName{Namespace: "shop", Name: "hello"}), "derived-o2n15etsg5")
}

func TestEachDifferenceIsAConflict(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(milan *cluster)
		want string
	}{
		{"none", func(*cluster) {}, ""},
		{"order of ports", func(c *cluster) { slices.Reverse(c.service.Spec.Ports) }, ""},
		{"a default is written out", func(c *cluster) { c.service.Spec.InternalTrafficPolicy = nil }, ""},
		{"number", func(c *cluster) { c.service.Spec.Ports[0].Port = 43 }, "PortConflict"},
		{"protocol", func(c *cluster) { c.service.Spec.Ports[0].Protocol = corev1.ProtocolSCTP }, "PortConflict"},
		{"port name", func(c *cluster) { c.service.Spec.Ports[0].Name = "web" }, "PortConflict"},
		{"application protocol", func(c *cluster) { c.service.Spec.Ports[0].AppProtocol = new("http") }, "PortConflict"},
		{"fewer ports", func(c *cluster) { c.service.Spec.Ports = c.service.Spec.Ports[:1] }, "PortConflict"},
		{"type", func(c *cluster) { c.headless() }, "TypeConflict"},
		{"affinity", func(c *cluster) {
			c.service.Spec.SessionAffinity, c.service.Spec.SessionAffinityConfig = corev1.ServiceAffinityNone, nil
		}, "SessionAffinityConflict,SessionAffinityConfigConflict"},
		{"affinity's time", func(c *cluster) { c.service.Spec.SessionAffinityConfig = nil }, "SessionAffinityConfigConflict"},
		{"policy", func(c *cluster) {
			c.service.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
		}, "InternalTrafficPolicyConflict"},
		{"distribution", func(c *cluster) {
			c.service.Spec.TrafficDistribution = new(corev1.ServiceTrafficDistributionPreferSameZone)
		}, "TrafficDistributionConflict"},
		{"labels", func(c *cluster) { c.export.Spec.ExportedLabels = map[string]string{"a": "b"} }, "LabelsConflict"},
		{"annotations", func(c *cluster) { c.export.Spec.ExportedAnnotations = map[string]string{"a": "b"} }, "AnnotationsConflict"},
		{"several", func(c *cluster) {
			c.headless().export.Spec.ExportedLabels = map[string]string{"a": "b"}
		}, "TypeConflict,LabelsConflict"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rome, milan, turin := three()
			c.do(milan.exports(1))
			settle(t, rome.exports(3), milan, turin.exports(2))
			for _, x := range []*cluster{rome, milan, turin} {
				equal(t, string(x.id), x.conflict(), c.want)
				if c.want != "" {
					equal(t, "message", x.merged.Conflict.Message, "rome's ServiceExport is the oldest (2026-03-01 08:57:00), so its values are used; other values in milan")
				}
			}
		})
	}
}

func TestIPFamiliesConflictWherePeersCantReachAll(t *testing.T) {
	for _, c := range []struct {
		families []corev1.IPFamily
		want     string
	}{
		{nil, ""}, {[]corev1.IPFamily{corev1.IPv4Protocol}, ""}, {[]corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}, ""}, {[]corev1.IPFamily{corev1.IPv6Protocol}, "IPFamilyConflict"},
	} {
		rome, milan, _ := three()
		settle(t, rome.exports(2), milan.exports(1))
		w := rome.world(t, []*cluster{rome, milan})
		s := &w.Peers[0].Copies[0]
		h, err := services.ParseHead(s.Annotations[wire.AnnotationServiceHead])
		if err != nil {
			t.Fatal(err)
		}
		h.IPFamilies = c.families
		text, _ := h.Encode()
		s.Annotations = map[string]string{wire.AnnotationServiceHead: text}
		rome.merged = services.Merge(w)
		equal(t, fmt.Sprint(c.families), rome.conflict(), c.want)
	}
}

func TestOfEquallyOldExportsTheClusterIDDecides(t *testing.T) {
	rome, milan, turin := three()
	milan.exports(2).export.Spec.ExportedLabels = map[string]string{"by": "milan"}
	rome.exports(2).export.Spec.ExportedLabels = map[string]string{"by": "rome"}
	settle(t, turin, rome, milan)
	for _, c := range []*cluster{rome, milan, turin} {
		equal(t, string(c.id), c.merged.Import.Labels["by"], "milan")
	}
}

// kube-proxy joins a Service and its slices by the names of ports.
func TestAPortHasTheNameOfTheOldestExport(t *testing.T) {
	rome, milan, turin := three()
	rome.ports(corev1.ServicePort{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}, corev1.ServicePort{Name: "admin", Protocol: corev1.ProtocolTCP, Port: 81})
	milan.ports(corev1.ServicePort{Name: "admin", Protocol: corev1.ProtocolTCP, Port: 80}, corev1.ServicePort{Name: "metrics", Protocol: corev1.ProtocolTCP, Port: 82})
	settle(t, rome.exports(2), milan.exports(1), turin)
	for _, c := range []*cluster{rome, milan, turin} {
		var names []string
		for _, p := range c.merged.Import.Spec.Ports {
			names = append(names, fmt.Sprintf("%s:%d", p.Name, p.Port))
		}
		equal(t, "ports", names, []string{"http:80", "admin:81", "metrics:82"})
		equal(t, "at 80", len(c.reached(80, corev1.ProtocolTCP)), 2)
		equal(t, "at 81", len(c.reached(81, corev1.ProtocolTCP)), 1)
		equal(t, "at 82", len(c.reached(82, corev1.ProtocolTCP)), 1)
	}
}

// Only a single port may have no name.
func TestAPortWithoutANameGetsOneAmongSeveral(t *testing.T) {
	rome, milan, turin := three()
	rome.ports(corev1.ServicePort{Protocol: corev1.ProtocolTCP, Port: 80})
	milan.ports(corev1.ServicePort{Name: "tcp-80", Protocol: corev1.ProtocolTCP, Port: 443}, corev1.ServicePort{Name: "b", Protocol: corev1.ProtocolTCP, Port: 80})
	settle(t, rome.exports(2), milan.exports(1), turin)
	for _, c := range []*cluster{rome, milan, turin} {
		equal(t, "ports", c.merged.Import.Spec.Ports, mcsPorts(corev1.ServicePort{Name: "tcp-80-0", Protocol: corev1.ProtocolTCP, Port: 80}, corev1.ServicePort{Name: "tcp-80", Protocol: corev1.ProtocolTCP, Port: 443}))
		equal(t, "at 80", len(c.reached(80, corev1.ProtocolTCP)), 2)
		equal(t, "at 443", len(c.reached(443, corev1.ProtocolTCP)), 1)
	}
	milan.export = nil
	settle(t, rome, milan, turin)
	equal(t, "alone", turin.merged.Import.Spec.Ports, mcsPorts(corev1.ServicePort{Protocol: corev1.ProtocolTCP, Port: 80}))
}

// A port can't be reached if it lost a conflict at its exporter, even if this cluster does not import from the
// other exporter.
func TestAPortThatLostElsewhereIsNotOffered(t *testing.T) {
	rome, milan, turin := three()
	milan.ports(corev1.ServicePort{Name: "tcp", Protocol: corev1.ProtocolTCP, Port: 4242}, corev1.ServicePort{Name: "more", Protocol: corev1.ProtocolTCP, Port: 5})
	turin.policy.Allowed = map[wire.ClusterID]services.Namespaces{"milan": {All: true}}
	settle(t, rome.exports(2), milan.exports(1), turin)
	equal(t, "ports", turin.merged.Import.Spec.Ports, mcsPorts(corev1.ServicePort{Name: "more", Protocol: corev1.ProtocolTCP, Port: 5}))
	rome.export = nil
	settle(t, rome, milan, turin)
	equal(t, "later", turin.merged.Import.Spec.Ports, mcsPorts(milan.service.Spec.Ports...))
}

func TestEndpointsBehindABrokenPathAreWithdrawnIfOthersAreReady(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(rome, milan, turin *cluster)
		want string // where turin's clients are sent to
	}{
		{"all paths work", func(_, _, _ *cluster) {}, "milan rome"},
		{"one path is broken", func(_, _, turin *cluster) { turin.down = []wire.ClusterID{"rome"} }, "milan"},
		{"all paths are broken", func(_, _, turin *cluster) { turin.down = []wire.ClusterID{"rome", "milan"} }, "milan rome"},
		{"the others are not ready", func(_, milan, turin *cluster) {
			turin.down = []wire.ClusterID{"rome"}
			milan.slices[0].Endpoints[0].Conditions.Ready = new(false)
		}, "rome"},
		{"the others have no endpoints", func(_, milan, turin *cluster) { turin.down, milan.slices = []wire.ClusterID{"rome"}, nil }, "rome"},
		{"the others lack a port", func(_, milan, turin *cluster) {
			turin.down = []wire.ClusterID{"rome"}
			milan.ports(milan.service.Spec.Ports[0])
		}, "milan rome"},
		{"only this cluster is left", func(_, _, turin *cluster) { turin.exports(1).down = []wire.ClusterID{"rome", "milan"} }, "turin"},
		{"local first", func(_, _, turin *cluster) {
			turin.exports(1).export.Annotations[wire.AnnotationPrefer] = wire.PreferLocal
		}, "turin"},
		{"local first, and not ready", func(_, _, turin *cluster) {
			turin.exports(1).export.Annotations[wire.AnnotationPrefer] = wire.PreferLocal
			turin.slices[0].Endpoints[0].Conditions.Ready = new(false)
		}, "milan rome"},
		{"local first, and without one of the ports", func(_, _, turin *cluster) {
			turin.exports(1).export.Annotations[wire.AnnotationPrefer] = wire.PreferLocal
			turin.ports(turin.service.Spec.Ports[0])
		}, "milan rome turin"},
		{"local first, and one path is broken", func(_, _, turin *cluster) {
			turin.exports(1).export.Annotations[wire.AnnotationPrefer] = wire.PreferLocal
			turin.down, turin.slices = []wire.ClusterID{"rome"}, nil
		}, "milan"},
		{"another one's preference", func(rome, _, _ *cluster) { rome.export.Annotations[wire.AnnotationPrefer] = wire.PreferLocal }, "milan rome"},
	} {
		for _, headless := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, headless %v", c.name, headless), func(t *testing.T) {
				rome, milan, turin := three()
				rome.exports(3)
				milan.exports(2)
				if headless {
					rome.headless()
				}
				c.do(rome, milan, turin)
				settle(t, rome, milan, turin)
				var to []string
				for _, s := range turin.merged.Slices {
					for _, e := range s.Endpoints {
						if *e.Conditions.Ready != *e.Conditions.Serving && *e.Conditions.Ready {
							t.Errorf("it is ready and does not serve: %+v", e)
						}
						if *e.Conditions.Ready {
							to = append(to, s.Labels[mcsv1beta1.LabelSourceCluster])
						}
					}
				}
				slices.Sort(to)
				want := c.want
				if headless && c.name == "local first" {
					want = "milan rome turin" // each pod keeps its name
				}
				equal(t, "turin's clients are sent to", strings.Join(to, " "), want)
			})
		}
	}
}

// The admin of the importing cluster decides who may join a Service.
func TestOnlyAllowedNamespacesAreImported(t *testing.T) {
	rome, milan, turin := three()
	turin.policy.Allowed = map[wire.ClusterID]services.Namespaces{"rome": {Names: []string{"bank"}}, "milan": {Names: []string{"bank", "shop"}}}
	settle(t, rome.exports(2), milan.exports(1), turin)
	equal(t, "clusters", turin.merged.Import.Status.Clusters, []mcsv1beta1.ClusterStatus{{Cluster: "milan"}})
	equal(t, "slices", len(turin.merged.Slices), 1)
	turin.policy.Own = []string{"shop"}
	settle(t, rome, milan, turin)
	equal(t, "in our namespace", turin.merged, services.Merged{})
}

// A gateway that was taken over can write any copy into its tenant namespace.
func TestCopiesAreCheckedAgain(t *testing.T) {
	rome, milan, turin := three()
	settle(t, rome.exports(2), milan, turin)
	w := milan.world(t, []*cluster{milan, rome})
	w.Never = []netip.Addr{netip.MustParseAddr("10.240.0.1")}
	w.Peers[0].Seen = func(a string) (string, bool) {
		return strings.Replace(a, "10.244.", "10.240.", 1), strings.HasPrefix(a, "10.244.")
	}
	want := services.Merge(w)
	s := &w.Peers[0].Copies[0]
	for _, a := range []string{"10.244.0.1", "192.0.2.1", "127.0.0.1", "169.254.169.254", "\x1b"} {
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}})
	}
	s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: new("ssh"), Port: new(int32(22))}, discoveryv1.EndpointPort{})
	s.Labels["more"], s.OwnerReferences = "x", []metav1.OwnerReference{{Name: "x"}}
	for i, do := range []func(*discoveryv1.EndpointSlice){
		func(s *discoveryv1.EndpointSlice) { s.Labels[wire.LabelServiceName] = "other" },
		func(s *discoveryv1.EndpointSlice) { s.Labels[wire.LabelServiceNamespace] = "other" },
		func(s *discoveryv1.EndpointSlice) { s.AddressType = discoveryv1.AddressTypeFQDN },
		func(s *discoveryv1.EndpointSlice) { s.Annotations = nil },
	} {
		bad := s.DeepCopy()
		bad.Name = fmt.Sprintf("shop.bad-%d", i)
		do(bad)
		w.Peers[0].Copies = append(w.Peers[0].Copies, *bad)
	}
	w.Peers = append(w.Peers, services.Exporter{ID: "milan", Copies: w.Peers[0].Copies, Seen: w.Peers[0].Seen}) // our own ID
	equal(t, "it imports", services.Merge(w), want)
}

func TestANameThatIsTakenIsLeftAlone(t *testing.T) {
	rome, milan, _ := three()
	settle(t, rome.exports(1), milan)
	w := milan.world(t, []*cluster{milan, rome})
	w.Derived = &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: services.DerivedName(hello)}, Spec: corev1.ServiceSpec{ClusterIPs: []string{"10.96.0.9"}}}
	got := services.Merge(w)
	equal(t, "Ready", said(got.Import.Status.Conditions), []string{"Ready=False NameTaken: another program has made the Service " + services.DerivedName(hello)})
	if got.Service != nil || len(got.Import.Spec.IPs) > 0 || got.Import.Annotations[services.AnnotationDerivedService] != "" {
		t.Errorf("got %+v", got.Import)
	}
	for _, s := range got.Slices {
		if s.Labels[discoveryv1.LabelServiceName] != "" {
			t.Errorf("slice %s joins the other program's Service", s.Name)
		}
	}
}

// The ServiceImport owns the rest, so nothing is left when it is deleted.
func TestTheImportOwnsTheRest(t *testing.T) {
	rome, milan, _ := three()
	settle(t, rome.exports(1), milan)
	w := milan.world(t, []*cluster{milan, rome})
	w.ImportUID, w.Derived = "", nil
	first := services.Merge(w)
	if first.Service != nil || first.Slices != nil {
		t.Errorf("before the import exists: %+v", first)
	}
	equal(t, "Ready", said(first.Import.Status.Conditions), []string{"Ready=False Pending: the Service " + services.DerivedName(hello) + " has no address yet"})
	equal(t, "addresses and families", len(first.Import.Spec.IPs)+len(first.Import.Spec.IPFamilies), 0)
	w.ImportUID = "uid-7"
	second := services.Merge(w)
	owners := []metav1.OwnerReference{{APIVersion: "multicluster.x-k8s.io/v1beta1", Kind: "ServiceImport", Name: "hello", UID: "uid-7", Controller: new(true)}}
	equal(t, "owner of the Service", second.Service.OwnerReferences, owners)
	equal(t, "owner of the slices", second.Slices[0].OwnerReferences, owners)
}

// random returns the facts of one of three clusters, which export hello in random ways.
func random(t *testing.T, r *rand.Rand) services.World {
	rome, milan, turin := three()
	all := []*cluster{rome, milan, turin}
	numbers, names := []int32{42, 43, 80}, []string{"tcp", "udp", "web", "more"}
	for i, c := range all {
		var ports []corev1.ServicePort
		r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		for j := range 1 + r.IntN(3) {
			ports = append(ports, corev1.ServicePort{Name: names[j], Protocol: []corev1.Protocol{"TCP", "UDP", "SCTP"}[r.IntN(3)], Port: numbers[j]})
		}
		if len(ports) == 1 && r.IntN(2) == 0 {
			ports[0].Name = ""
		}
		c.ports(ports...)
		c.slices = append(c.slices, c.kubeSlice("hello-b", 11, 12, 13))
		if r.IntN(4) == 0 {
			c.headless()
		}
		if r.IntN(3) == 0 {
			c.service.Spec.TrafficDistribution = new(corev1.ServiceTrafficDistributionPreferSameZone)
		}
		if r.IntN(5) > 0 || i == 0 {
			c.exports(r.IntN(2))
			if r.IntN(3) == 0 {
				c.export.Annotations[wire.AnnotationPrefer] = wire.PreferLocal
			}
		}
		for _, p := range all {
			if p != c && r.IntN(4) == 0 {
				c.down = append(c.down, p.id)
			}
		}
	}
	settle(t, all...)
	return all[r.IntN(len(all))].world(t, all)
}

func TestPropertiesOfMerge(t *testing.T) {
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 7))
		w := random(t, r)
		before := fmt.Sprintf("%+v", w.Peers)
		want := services.Merge(w)
		if diff := difference(want, services.Merge(w)); diff != "" {
			t.Fatalf("seed %d: it is not deterministic:\n%s", seed, diff)
		}
		if fmt.Sprintf("%+v", w.Peers) != before {
			t.Fatalf("seed %d: it changes what it was given", seed)
		}
		shuffle(r, w.Own)
		shuffle(r, w.Peers)
		for i := range w.Peers {
			shuffle(r, w.Peers[i].Copies)
		}
		if diff := difference(want, services.Merge(w)); diff != "" {
			t.Fatalf("seed %d: it depends on the order:\n%s", seed, diff)
		}

		// Merge adds no slices and no endpoints.
		slicesIn, endpointsIn := len(w.Own), 0
		for _, s := range w.Own {
			endpointsIn += len(s.Endpoints)
		}
		for _, p := range w.Peers {
			slicesIn += len(p.Copies)
			for _, s := range p.Copies {
				endpointsIn += len(s.Endpoints)
			}
		}
		endpoints, names, own := 0, map[string]bool{}, []discoveryv1.EndpointSlice{}
		for _, s := range want.Slices {
			endpoints += len(s.Endpoints)
			names[s.Name] = true
			if s.Labels[mcsv1beta1.LabelSourceCluster] == string(w.Self) {
				own = append(own, s)
			}
		}
		if len(want.Slices) > slicesIn || endpoints > endpointsIn || len(names) != len(want.Slices) {
			t.Fatalf("seed %d: %d slices of %d, %d endpoints of %d, %d names", seed, len(want.Slices), slicesIn, endpoints, endpointsIn, len(names))
		}
		if want.Import == nil {
			continue
		}

		// A merge of its own result changes nothing.
		w.Own = own
		if diff := difference(want, services.Merge(w)); diff != "" {
			t.Fatalf("seed %d: its own work changes it:\n%s", seed, diff)
		}

		// The API server accepts the Service: names and numbers are distinct. Each slice's port is a port of
		// the Service.
		ports := map[string]bool{}
		for _, p := range want.Import.Spec.Ports {
			ports[p.Name], ports[fmt.Sprint(p.Port, p.Protocol)] = true, true
			if p.Name == "" && len(want.Import.Spec.Ports) > 1 {
				t.Fatalf("seed %d: a port has no name", seed)
			}
		}
		if len(ports) != 2*len(want.Import.Spec.Ports) {
			t.Fatalf("seed %d: ports %+v", seed, want.Import.Spec.Ports)
		}
		for _, s := range want.Slices {
			for _, p := range s.Ports {
				if !ports[*p.Name] {
					t.Fatalf("seed %d: slice %s has the port %s", seed, s.Name, *p.Name)
				}
			}
		}
	}
}

// difference is cmp.Diff, which is slow where nothing differs.
func difference(want, got services.Merged) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	return cmp.Diff(want, got)
}

func shuffle[T any](r *rand.Rand, all []T) {
	r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
}
