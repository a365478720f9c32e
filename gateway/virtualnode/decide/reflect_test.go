package decide

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/internal/offload/network"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

func named(name string) corev1.LocalObjectReference { return corev1.LocalObjectReference{Name: name} }

func TestWhatPodsMentionGoesAlong(t *testing.T) {
	s := &corev1.PodSpec{
		ImagePullSecrets: []corev1.LocalObjectReference{named("registry"), {}},
		InitContainers:   []corev1.Container{{EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: named("init")}}}}},
		Containers: []corev1.Container{{
			EnvFrom: []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: named("all")}}},
			Env: []corev1.EnvVar{
				{Name: "A", Value: "not-this"},
				{Name: "B", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
				{Name: "C", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: named("one")}}},
				{Name: "D", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: named("key")}}},
			},
		}},
		Volumes: []corev1.Volume{
			{Name: "kube-api-access-x", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: named("kube-root-ca.crt")}}}}}},
			{Name: "ca", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named("kube-root-ca.crt")}}},
			{Name: "files", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: named("files")}}},
			{Name: "secret", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "volume"}}},
			{Name: "both", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
				{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: named("projected")}}, {Secret: &corev1.SecretProjection{LocalObjectReference: named("projected")}},
			}}}},
			{Name: "nothing", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		},
	}
	m := NewMentioned()
	m.Add(s)
	if got := strings.Join(slices.Sorted(maps.Keys(m.ConfigMaps)), " "); got != "all files one projected" {
		t.Errorf("ConfigMaps: %s", got)
	}
	if got := strings.Join(slices.Sorted(maps.Keys(m.Secrets)), " "); got != "init key projected registry volume" {
		t.Errorf("Secrets: %s", got)
	}
}

func TestServicesGoAlongWithoutTheirOutside(t *testing.T) {
	of := func(change func(*corev1.Service)) *corev1.Service {
		s := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"c": "d"}},
			Spec: corev1.ServiceSpec{
				Type: corev1.ServiceTypeLoadBalancer, ClusterIP: "10.96.0.7", ClusterIPs: []string{"10.96.0.7"}, ExternalIPs: []string{"192.0.2.1"}, LoadBalancerIP: "192.0.2.2",
				ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyLocal, HealthCheckNodePort: 30001, Ports: []corev1.ServicePort{{Port: 80, NodePort: 30000}},
				Selector: map[string]string{"app": "web"}, PublishNotReadyAddresses: true,
			},
		}
		change(s)
		return s
	}
	got := view.Service(of(func(*corev1.Service) {}))
	if got.Namespace != "demo-rome" || got.Labels["a"] != "" || got.Annotations["c"] != "" || got.Labels[peering.LabelPodOrigin] != "rome" {
		t.Errorf("it is %+v", got.ObjectMeta)
	}
	if s := got.Spec; s.Type != corev1.ServiceTypeClusterIP || s.ClusterIP != "" || s.ExternalIPs != nil || s.LoadBalancerIP != "" || s.ExternalTrafficPolicy != "" ||
		s.HealthCheckNodePort != 0 || s.Ports[0].NodePort != 0 || s.Selector["app"] != "web" || !s.PublishNotReadyAddresses {
		t.Errorf("it is %+v", s)
	}
	same := view.Service(of(func(s *corev1.Service) { s.Annotations["c"] = "e" }))
	other := view.Service(of(func(s *corev1.Service) { s.Spec.Ports[0].Port = 81 }))
	if v := got.Annotations[peering.AnnotationVersion]; v == "" || v != same.Annotations[peering.AnnotationVersion] || v == other.Annotations[peering.AnnotationVersion] {
		t.Error("versions don't tell what has changed")
	}
	if s := view.Service(of(func(s *corev1.Service) { s.Spec.ClusterIP = "None" })); s.Spec.ClusterIP != "None" {
		t.Error("a headless Service gets an address")
	}
	for name, change := range map[string]func(*corev1.Service){
		"another name":   func(s *corev1.Service) { s.Spec.Type = corev1.ServiceTypeExternalName },
		"kept by hand":   func(s *corev1.Service) { s.Annotations[peering.AnnotationStays] = "true" },
		"the API server": func(s *corev1.Service) { s.Namespace, s.Name = "default", "kubernetes" },
	} {
		if view.Service(of(change)) != nil {
			t.Errorf("%s goes along", name)
		}
	}
}

func TestEndpointsAreThoseThatTheProviderLacks(t *testing.T) {
	v := view
	v.Ranges = network.Ranges{{Own: netip.MustParsePrefix("10.244.0.0/16"), Seen: netip.MustParsePrefix("253.18.0.0/16")}}
	slice := func(addresses ...string) *discoveryv1.EndpointSlice {
		s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Name: "web-x", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}, AddressType: discoveryv1.AddressTypeIPv4}
		for _, a := range addresses {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{a}, NodeName: new("rome-1"), Zone: new("z"), TargetRef: &corev1.ObjectReference{Name: "x"}})
		}
		return s
	}
	got := v.Endpoints(slice("10.244.0.9", "253.18.0.7", "10.244.0.8"))
	all := got.Spec.Template.Endpoints
	if len(all) != 2 || all[0].Addresses[0] != "10.244.0.8" || all[1].Addresses[0] != "10.244.0.9" || all[0].NodeName != nil || all[0].Zone != nil || all[0].TargetRef != nil {
		t.Errorf("got %+v", all)
	}
	if again := v.Endpoints(slice("10.244.0.8", "10.244.0.9")); again.Annotations[peering.AnnotationVersion] != got.Annotations[peering.AnnotationVersion] {
		t.Error("another order is taken for news")
	}
	for name, s := range map[string]*discoveryv1.EndpointSlice{"all there": slice("253.18.0.7"), "none": slice(), "IPv6": func() *discoveryv1.EndpointSlice {
		s := slice("10.244.0.8")
		s.AddressType = discoveryv1.AddressTypeIPv6
		return s
	}(), "of no Service": {AddressType: discoveryv1.AddressTypeIPv4, Endpoints: slice("10.244.0.8").Endpoints}} {
		if v.Endpoints(s) != nil {
			t.Errorf("%s: it goes along", name)
		}
	}
}

func TestTokensStay(t *testing.T) {
	for kind, stays := range map[corev1.SecretType]bool{
		corev1.SecretTypeServiceAccountToken: true, corev1.SecretTypeBootstrapToken: true, corev1.SecretTypeOpaque: false, corev1.SecretTypeTLS: false, "example.com/x": false,
	} {
		if got := Stays(&corev1.Secret{}, kind); got != stays {
			t.Errorf("%s: got %t", kind, got)
		}
	}
	for kind, want := range map[corev1.SecretType]corev1.SecretType{corev1.SecretTypeTLS: corev1.SecretTypeTLS, "example.com/x": corev1.SecretTypeOpaque, "": corev1.SecretTypeOpaque} {
		if got := view.Secret(&corev1.Secret{Type: kind}, "1").Type; got != want {
			t.Errorf("%s goes along as %s", kind, got)
		}
	}
}
