package kube

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/liqo-tui/liqo-tui/flows/policy"
)

// testPolicies reads policies from an API server: the policies that can concern a pod, with the rights of
// several users.
func testPolicies(t *testing.T, env *envtest.Environment, admin *Cluster) {
	pod := func(name, app string, hostNetwork bool) *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": app}},
			Spec:       corev1.PodSpec{HostNetwork: hostNetwork, Containers: []corev1.Container{{Name: "c", Image: "example.org/c"}}},
		}
	}
	isolate := func(name string, selector metav1.LabelSelector, types ...networkingv1.PolicyType) *networkingv1.NetworkPolicy {
		return &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Spec: networkingv1.NetworkPolicySpec{PodSelector: selector, PolicyTypes: types}}
	}
	sends := isolate("sends", metav1.LabelSelector{}, networkingv1.PolicyTypeEgress)
	sends.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{{To: []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "240.1.0.0/16"}}}}}
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "default"}}, // no controller creates it here
		pod("web-1", "web", false), pod("web-2", "web", false), pod("db", "db", false), pod("agent", "web", true),
		isolate("default-deny", metav1.LabelSelector{}),
		isolate("web", metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}),
		isolate("egress", metav1.LabelSelector{}, networkingv1.PolicyTypeEgress),
		sends,
	} {
		if err := admin.client.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	f, err := admin.Policies(t.Context())
	if err != nil || f.Unknown != "" {
		t.Fatalf("got %v, %q", err, f.Unknown)
	}
	want := []policy.Group{{Namespace: "shop", Policies: []string{"default-deny"}, Pods: 1}, {Namespace: "shop", Policies: []string{"default-deny", "web"}, Pods: 2}}
	if diff := cmp.Diff(want, f.Pods); diff != "" || len(f.Policies) != 4 {
		t.Errorf("%d policies, pods:\n%s", len(f.Policies), diff)
	}
	want = []policy.Group{{Namespace: "shop", Policies: []string{"egress", "sends"}, Pods: 3}}
	if diff := cmp.Diff(want, f.Senders); diff != "" {
		t.Errorf("pods that may not send:\n%s", diff)
	}
	if got := f.Outdated(netip.MustParsePrefix("240.1.0.0/16"), netip.MustParsePrefix("240.2.0.0/16")); !slices.Equal(got, []string{"shop/sends"}) {
		t.Errorf("got %q as what names addresses", got)
	}
	f, err = restricted(t, env, "blind", "create").Policies(t.Context())
	if err != nil || !strings.Contains(f.Unknown, "forbidden") {
		t.Errorf("who may not read them: got %v, %q", err, f.Unknown)
	}
}

// A policy of another program is named for any kind and version.
func TestPoliciesOfOtherProgramsAreNamed(t *testing.T) {
	kinds := map[string]map[string]string{ // by version and resource
		"k8s.ovn.org/v1":                    {"egressfirewalls": "EgressFirewall", "egressips": "EgressIP", "egressservices": "EgressService", "adminpolicybasedexternalroutes": "AdminPolicyBasedExternalRoute", "egressqoses": "EgressQoS"},
		"policy.networking.k8s.io/v1alpha1": {"adminnetworkpolicies": "AdminNetworkPolicy", "baselineadminnetworkpolicies": "BaselineAdminNetworkPolicy"},
		"policy.networking.k8s.io/v1alpha2": {"clusternetworkpolicies": "ClusterNetworkPolicy"},
		"crd.projectcalico.org/v1":          {"globalnetworkpolicies": "GlobalNetworkPolicy", "stagednetworkpolicies": "StagedNetworkPolicy", "tiers": "Tier"},
	}
	const ovn, admin, calico = "OVN-Kubernetes", "Kubernetes' admin network policies", "Calico"
	for exists, want := range map[string]string{
		"k8s.ovn.org/v1/egressfirewalls": ovn, "k8s.ovn.org/v1/egressips": ovn, "k8s.ovn.org/v1/egressservices": ovn, "k8s.ovn.org/v1/adminpolicybasedexternalroutes": ovn, "k8s.ovn.org/v1/egressqoses": "",
		"policy.networking.k8s.io/v1alpha1/adminnetworkpolicies": admin, "policy.networking.k8s.io/v1alpha1/baselineadminnetworkpolicies": admin, "policy.networking.k8s.io/v1alpha2/clusternetworkpolicies": admin,
		"crd.projectcalico.org/v1/globalnetworkpolicies": calico, "crd.projectcalico.org/v1/stagednetworkpolicies": "", "crd.projectcalico.org/v1/tiers": "",
		"none": "",
	} {
		t.Run(exists, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				path := strings.TrimPrefix(r.URL.Path, "/apis/")
				var answer any
				switch {
				case r.URL.Path == "/api":
					answer = metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions", APIVersion: "v1"}}
				case r.URL.Path == "/apis":
					groups := metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
					for _, versions := range [][]string{{"k8s.ovn.org/v1"}, {"policy.networking.k8s.io/v1alpha2", "policy.networking.k8s.io/v1alpha1"}, {"crd.projectcalico.org/v1"}} {
						name, _, _ := strings.Cut(versions[0], "/")
						g := metav1.APIGroup{Name: name}
						for _, v := range versions {
							_, version, _ := strings.Cut(v, "/")
							g.Versions = append(g.Versions, metav1.GroupVersionForDiscovery{GroupVersion: v, Version: version})
						}
						g.PreferredVersion = g.Versions[0]
						groups.Groups = append(groups.Groups, g)
					}
					answer = groups
				case kinds[path] != nil:
					list := metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: path}
					for name, kind := range kinds[path] {
						list.APIResources = append(list.APIResources, metav1.APIResource{Name: name, Kind: kind, Verbs: metav1.Verbs{"list"}}, metav1.APIResource{Name: name + "/status", Kind: kind})
					}
					answer = list
				case path == "networking.k8s.io/v1/networkpolicies":
					answer = networkingv1.NetworkPolicyList{TypeMeta: metav1.TypeMeta{Kind: "NetworkPolicyList", APIVersion: "networking.k8s.io/v1"}}
				default:
					list := metav1.PartialObjectMetadataList{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadataList", APIVersion: "meta.k8s.io/v1"}, Items: []metav1.PartialObjectMetadata{}}
					if path == exists {
						list.Items = append(list.Items, metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: "meta.k8s.io/v1"}, ObjectMeta: metav1.ObjectMeta{Name: "x"}})
					}
					answer = list
				}
				w.Header().Set("Content-Type", "application/json")
				if err := json.NewEncoder(w).Encode(answer); err != nil {
					t.Error(err)
				}
			}))
			defer server.Close()
			f, err := open(t, &rest.Config{Host: server.URL}).Policies(t.Context())
			if err != nil || f.Unknown != "" {
				t.Fatalf("got %v, %q", err, f.Unknown)
			}
			if got := strings.Join(f.Others, ", "); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}
