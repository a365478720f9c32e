package policy_test

import (
	"net/netip"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows/policy"
)

type spec = networkingv1.NetworkPolicySpec

func from(peers ...networkingv1.NetworkPolicyPeer) []networkingv1.NetworkPolicyIngressRule {
	return []networkingv1.NetworkPolicyIngressRule{{From: peers}}
}

func block(cidr string, except ...string) networkingv1.NetworkPolicyPeer {
	return networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: cidr, Except: except}}
}

func TestARemotePodIsAnAddressOfWhichOnlyIPBlocksSpeak(t *testing.T) {
	milan := netip.MustParsePrefix("253.18.0.0/16")
	everyPod := networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{}}
	web := metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	for name, test := range map[string]struct {
		policies []spec
		closed   int // pods of one web and two others
	}{
		"none":                                   {nil, 0},
		"nothing is let in":                      {[]spec{{}}, 3},
		"of the web server alone":                {[]spec{{PodSelector: web}}, 1},
		"about egress only":                      {[]spec{{PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}}}, 0},
		"all sources":                            {[]spec{{Ingress: from()}}, 0},
		"every pod, of this cluster":             {[]spec{{Ingress: from(everyPod)}}, 3},
		"the peer's range":                       {[]spec{{Ingress: from(everyPod, block("253.18.0.0/16"))}}, 0},
		"a larger range":                         {[]spec{{Ingress: from(block("0.0.0.0/0"))}}, 0},
		"but for a part of the peer's":           {[]spec{{Ingress: from(block("0.0.0.0/0", "253.18.3.0/24"))}}, 3},
		"half of the peer's":                     {[]spec{{Ingress: from(block("253.18.0.0/17"))}}, 3},
		"another peer's":                         {[]spec{{Ingress: from(block("253.19.0.0/16"))}}, 3},
		"another policy lets the peer in":        {[]spec{{}, {Ingress: from(block("240.0.0.0/4"))}}, 0},
		"another policy lets it to the web only": {[]spec{{}, {PodSelector: web, Ingress: from(block("240.0.0.0/4"))}}, 2},
	} {
		var f policy.Facts
		for i, s := range test.policies {
			f.Policies = append(f.Policies, networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: string(rune('a' + i))}, Spec: s})
		}
		f.Count(policy.Pod{Namespace: "shop", Labels: map[string]string{"app": "web"}})
		f.Count(policy.Pod{Namespace: "shop", Labels: map[string]string{"app": "db"}})
		f.Count(policy.Pod{Namespace: "shop"})
		f.Count(policy.Pod{Namespace: "elsewhere", Labels: map[string]string{"app": "web"}})
		closed := 0
		for _, g := range f.Groups(policy.Ingress, milan, policy.No) {
			closed += g.Pods
		}
		if closed != test.closed {
			t.Errorf("%s: closed to %d pods, want %d: %v", name, closed, test.closed, f.Pods)
		}
	}
}

func to(peers ...networkingv1.NetworkPolicyPeer) []networkingv1.NetworkPolicyEgressRule {
	return []networkingv1.NetworkPolicyEgressRule{{To: peers}}
}

// What egress allows is found like what ingress allows.
func TestPodsThatSendNothingToThePeerAreFound(t *testing.T) {
	milan := netip.MustParsePrefix("253.18.0.0/16")
	dns := networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": "kube-system"}}}
	egress := []networkingv1.PolicyType{networkingv1.PolicyTypeEgress}
	for name, test := range map[string]struct {
		policies []spec
		mute     int
	}{
		"none":                     {nil, 0},
		"about ingress only":       {[]spec{{}}, 0},
		"nothing is let out":       {[]spec{{PolicyTypes: egress}}, 2},
		"names alone are resolved": {[]spec{{PolicyTypes: egress, Egress: to(dns)}}, 2},
		"everything is let out":    {[]spec{{PolicyTypes: egress, Egress: to()}}, 0},
		"the peer's range":         {[]spec{{PolicyTypes: egress}, {PolicyTypes: egress, Egress: to(dns, block("253.18.0.0/16"))}}, 0},
		"half of it":               {[]spec{{PolicyTypes: egress, Egress: to(block("253.18.0.0/17"))}}, 2},
		"rules, and no types":      {[]spec{{Egress: to(block("10.0.0.0/8"))}}, 2},
	} {
		var f policy.Facts
		for i, s := range test.policies {
			f.Policies = append(f.Policies, networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: string(rune('a' + i))}, Spec: s})
		}
		f.Count(policy.Pod{Namespace: "shop"})
		f.Count(policy.Pod{Namespace: "shop", Labels: map[string]string{"app": "web"}})
		mute := 0
		for _, g := range f.Groups(policy.Egress, milan, policy.No) {
			mute += g.Pods
		}
		if mute != test.mute {
			t.Errorf("%s: %d pods send nothing, want %d: %v", name, mute, test.mute, f.Senders)
		}
	}
}

func TestPoliciesThatNameARangeAreOutdatedWithIt(t *testing.T) {
	left, next := netip.MustParsePrefix("240.1.0.0/16"), netip.MustParsePrefix("240.2.0.0/16")
	everyPod := networkingv1.NetworkPolicyPeer{NamespaceSelector: &metav1.LabelSelector{}}
	for name, test := range map[string]struct {
		spec
		want bool
	}{
		"names no addresses":               {spec{Ingress: from(everyPod)}, false},
		"lets the range in":                {spec{Ingress: from(everyPod, block("240.1.0.0/16"))}, true},
		"lets one of its pods in":          {spec{Ingress: from(block("240.1.5.7/32"))}, true},
		"lets the range out":               {spec{Egress: to(block("240.1.0.0/16"))}, true},
		"lets all out but the range":       {spec{Egress: to(block("0.0.0.0/0", "240.1.0.0/16"))}, true},
		"lets all peers in":                {spec{Ingress: from(block("240.0.0.0/4"))}, false},
		"lets both in":                     {spec{Ingress: from(block("240.1.0.0/16"), block("240.2.0.0/16"))}, false},
		"lets one in and the other out":    {spec{Ingress: from(block("240.1.0.0/16")), Egress: to(block("240.2.0.0/16"))}, true},
		"is about somebody else's range":   {spec{Ingress: from(block("240.3.0.0/16"))}, false},
		"is about a range that is no CIDR": {spec{Ingress: from(block("rome"))}, false},
	} {
		f := policy.Facts{Policies: []networkingv1.NetworkPolicy{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: test.spec}}}
		if got := f.Outdated(left, next); (len(got) == 1 && got[0] == "shop/web") != test.want || len(got) > 1 {
			t.Errorf("%s: got %q, want it: %v", name, got, test.want)
		}
	}
}
