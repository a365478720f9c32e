package main

import (
	"maps"
	"net/netip"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
)

var firstCreated = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// balanced is a service of type LoadBalancer; services are created in the
// order of age.
func balanced(name string, age int, change ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: name,
			CreationTimestamp: metav1.NewTime(firstCreated.Add(time.Duration(age) * time.Minute)),
		},
		Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer},
	}
	for _, c := range change {
		c(s)
	}
	return s
}

func has(ip string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}}
	}
}

func asks(ip string) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.LoadBalancerIP = ip }
}

func ofType(kind corev1.ServiceType) func(*corev1.Service) {
	return func(s *corev1.Service) { s.Spec.Type = kind }
}

func TestServicesGetAddresses(t *testing.T) {
	class := "other"
	for name, tt := range map[string]struct {
		services []*corev1.Service
		want     map[string]string
		unserved []string
	}{
		"the oldest gets the lowest": {
			services: []*corev1.Service{balanced("new", 2), balanced("old", 1)},
			want:     map[string]string{"default/old": "172.30.0.112", "default/new": "172.30.0.113"},
		},
		"an address is kept": {
			services: []*corev1.Service{balanced("old", 1), balanced("new", 2, has("172.30.0.112"))},
			want:     map[string]string{"default/new": "172.30.0.112", "default/old": "172.30.0.113"},
		},
		"a wish is granted": {
			services: []*corev1.Service{balanced("old", 1), balanced("new", 2, asks("172.30.0.112"))},
			want:     map[string]string{"default/new": "172.30.0.112", "default/old": "172.30.0.113"},
		},
		"a wish outside the pool is not": {
			services: []*corev1.Service{balanced("s", 1, asks("192.0.2.1"))},
			want:     map[string]string{"default/s": "172.30.0.112"},
		},
		"two cannot keep the same": {
			services: []*corev1.Service{balanced("old", 1, has("172.30.0.113")), balanced("new", 2, has("172.30.0.113"))},
			want:     map[string]string{"default/old": "172.30.0.113", "default/new": "172.30.0.112"},
		},
		"an address outside the pool is replaced": {
			services: []*corev1.Service{balanced("s", 1, has("192.0.2.1"))},
			want:     map[string]string{"default/s": "172.30.0.112"},
		},
		"others are left alone": {
			services: []*corev1.Service{
				balanced("node-port", 1, ofType(corev1.ServiceTypeNodePort)),
				balanced("classed", 1, func(s *corev1.Service) { s.Spec.LoadBalancerClass = &class }),
			},
			want: map[string]string{},
		},
		"the pool ends": {
			services: []*corev1.Service{balanced("a", 1), balanced("b", 2), balanced("c", 3), balanced("d", 4), balanced("e", 5)},
			want: map[string]string{
				"default/a": "172.30.0.112", "default/b": "172.30.0.113", "default/c": "172.30.0.114", "default/d": "172.30.0.115",
			},
			unserved: []string{"default/e"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			want, unserved := assign(tt.services, netip.MustParsePrefix("172.30.0.112/30"))
			got := map[string]string{}
			for key, a := range want {
				got[key] = a.String()
			}
			if !maps.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
			if !slices.Equal(unserved, tt.unserved) {
				t.Errorf("unserved: got %v, want %v", unserved, tt.unserved)
			}
		})
	}
}

// device is an addressHolder that remembers.
type device map[netip.Addr]bool

func (d device) Add(a netip.Addr) error    { d[a] = true; return nil }
func (d device) Remove(a netip.Addr) error { delete(d, a); return nil }

func TestAddressesComeAndGoWithServices(t *testing.T) {
	service := balanced("s", 1)
	other := balanced("was-balanced", 1, ofType(corev1.ServiceTypeClusterIP), has("172.30.0.113"))
	api := fake.NewClientset([]runtime.Object{service, other}...)
	held := device{}
	lb := loadBalancer{
		api: api, pool: netip.MustParsePrefix("172.30.0.112/28"),
		link: held, held: map[netip.Addr]bool{},
	}
	status := func(name string) string {
		s, err := api.CoreV1().Services("default").Get(t.Context(), name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return reported(s).String()
	}
	if err := lb.sync(t.Context(), []*corev1.Service{service, other}); err != nil {
		t.Fatal(err)
	}
	if got := status("s"); got != "172.30.0.112" || !held[netip.MustParseAddr(got)] {
		t.Errorf("got status %s and device %v, want 172.30.0.112 in both", got, held)
	}
	if got := status("was-balanced"); got != (netip.Addr{}).String() {
		t.Errorf("service of another type: got status %s, want none", got)
	}
	if err := lb.sync(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if len(held) != 0 {
		t.Errorf("after the service is gone: device has %v, want nothing", held)
	}
}
