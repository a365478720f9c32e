package policy_test

import (
	"encoding/json"
	"net/netip"
	"testing"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/flows/policy"
)

// ofCilium is a policy of Cilium with this spec, which selects pods of namespace "shop" with app: web.
func ofCilium(t *testing.T, kind, spec string) policy.Cilium {
	t.Helper()
	text, err := yaml.YAMLToJSON([]byte(spec))
	if err != nil {
		t.Fatal(err)
	}
	var rule map[string]any
	if err := json.Unmarshal(text, &rule); err != nil {
		t.Fatal(err)
	}
	selector := map[string]any{"matchLabels": map[string]any{"app": "web"}}
	metadata := map[string]any{"name": "p"}
	if kind == "CiliumNetworkPolicy" {
		metadata["namespace"] = "shop"
	} else {
		selector["matchLabels"].(map[string]any)["k8s:io.kubernetes.pod.namespace"] = "shop"
	}
	if rule["endpointSelector"] == nil && rule["nodeSelector"] == nil {
		rule["endpointSelector"] = selector
	}
	object, err := json.Marshal(map[string]any{"kind": kind, "metadata": metadata, "spec": rule})
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.ParseCilium(object)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// What Cilium itself does with most of these is a test of the lab's: TestCilium.
func TestForCiliumARemotePodIsOfTheWorld(t *testing.T) {
	milan := netip.MustParsePrefix("253.18.0.0/16")
	groups := map[string][]netip.Prefix{"peers": {netip.MustParsePrefix("240.0.0.0/4")}}
	for name, test := range map[string]struct {
		spec string
		want policy.Answer
	}{
		"no rule about what comes in":          {`{egress: [{toEntities: [all]}]}`, policy.Yes},
		"an empty list":                        {`{ingress: []}`, policy.Yes},
		"an empty rule":                        {`{ingress: [{}]}`, policy.No},
		"without default deny":                 {`{ingress: [{}], enableDefaultDeny: {ingress: false}}`, policy.Yes},
		"pods of the namespace":                {`{ingress: [{fromEndpoints: [{}]}]}`, policy.No},
		"no pods":                              {`{ingress: [{fromEndpoints: []}]}`, policy.No},
		"pods of all namespaces":               {`{ingress: [{fromEndpoints: [{matchExpressions: [{key: "k8s:io.kubernetes.pod.namespace", operator: Exists}]}]}]}`, policy.No},
		"a reserved label":                     {`{ingress: [{fromEndpoints: [{matchLabels: {"reserved:world": ""}}]}]}`, policy.Unknown},
		"the cluster":                          {`{ingress: [{fromEntities: [cluster]}]}`, policy.No},
		"the world":                            {`{ingress: [{fromEntities: [cluster, world]}]}`, policy.Yes},
		"everything":                           {`{ingress: [{fromEntities: [all]}]}`, policy.Yes},
		"at a port, from everywhere":           {`{ingress: [{toPorts: [{ports: [{port: "8080"}]}]}]}`, policy.Yes},
		"at a port, what a proxy lets through": {`{ingress: [{toPorts: [{ports: [{port: "8080"}], rules: {http: [{method: GET}]}}]}]}`, policy.Unknown},
		"ICMP alone":                           {`{ingress: [{icmps: [{fields: [{type: 8}]}]}]}`, policy.No},
		"the peer's range":                     {`{ingress: [{fromCIDR: [253.18.0.0/16]}]}`, policy.Yes},
		"half of it":                           {`{ingress: [{fromCIDR: [253.18.0.0/17]}]}`, policy.No},
		"another peer's":                       {`{ingress: [{fromCIDR: [253.19.0.0/16]}]}`, policy.No},
		"a larger one":                         {`{ingress: [{fromCIDRSet: [{cidr: 240.0.0.0/4}]}]}`, policy.Yes},
		"but for a part of the peer's":         {`{ingress: [{fromCIDRSet: [{cidr: 240.0.0.0/4, except: [253.18.3.0/24]}]}]}`, policy.No},
		"a group of ranges":                    {`{ingress: [{fromCIDRSet: [{cidrGroupRef: peers}]}]}`, policy.Yes},
		"a group that is hidden":               {`{ingress: [{fromCIDRSet: [{cidrGroupRef: others}]}]}`, policy.Unknown},
		"groups by their labels":               {`{ingress: [{fromCIDRSet: [{cidrGroupSelector: {}}]}]}`, policy.Unknown},
		"a group of a cloud":                   {`{ingress: [{fromGroups: [{aws: {}}]}]}`, policy.Unknown},
		"with authentication":                  {`{ingress: [{fromEntities: [world], authentication: {mode: required}}]}`, policy.Unknown},
		"refuses the world":                    {`{ingress: [{fromEntities: [all]}], ingressDeny: [{fromEntities: [world]}]}`, policy.No},
		"refuses one pod of the peer":          {`{ingress: [{fromEntities: [all]}], ingressDeny: [{fromCIDR: [253.18.3.7/32]}]}`, policy.No},
		"refuses the world at a port":          {`{ingress: [{fromEntities: [all]}], ingressDeny: [{fromEntities: [world], toPorts: [{ports: [{port: "22"}]}]}]}`, policy.Unknown},
		"refuses pods":                         {`{ingress: [{fromEntities: [all]}], ingressDeny: [{fromEndpoints: [{}]}]}`, policy.Yes},
		"of nodes":                             {`{nodeSelector: {}, ingress: [{}]}`, policy.Yes},
		"of Cilium's own endpoints":            {`{endpointSelector: {matchLabels: {"reserved:health": ""}}, ingress: [{}]}`, policy.Yes},
		"a selector that is none":              {`{endpointSelector: {matchLabels: {"a b": ""}}, ingress: [{}]}`, policy.Unknown},
		"of namespaces with a label":           {`{endpointSelector: {matchLabels: {"io.cilium.k8s.namespace.labels.team": a}}, ingress: [{}]}`, policy.No},
		"of namespaces with another":           {`{endpointSelector: {matchLabels: {"io.cilium.k8s.namespace.labels.team": b}}, ingress: [{}]}`, policy.Yes},
		"of a service account":                 {`{endpointSelector: {matchLabels: {"io.cilium.k8s.policy.serviceaccount": web}}, ingress: [{}]}`, policy.No},
	} {
		for _, kind := range []string{"CiliumNetworkPolicy", "CiliumClusterwideNetworkPolicy"} {
			f := policy.Facts{Cilium: []policy.Cilium{ofCilium(t, kind, test.spec)}, CIDRGroups: groups}
			web := policy.Pod{Namespace: "shop", ServiceAccount: "web", Labels: map[string]string{"app": "web"}, NamespaceLabels: map[string]string{"team": "a"}}
			if got := f.Admits(policy.Ingress, f.GroupOf(policy.Ingress, web), milan); got != test.want {
				t.Errorf("%s of kind %s: got %d, want %d", name, kind, got, test.want)
			}
			if elsewhere := (policy.Pod{Namespace: "bank", Labels: map[string]string{"app": "db"}}); test.want != policy.Unknown && f.Admits(policy.Ingress, f.GroupOf(policy.Ingress, elsewhere), milan) != policy.Yes {
				t.Errorf("%s of kind %s: closes another pod", name, kind)
			}
		}
	}
}

// What egress of Cilium's policies allows is found like what ingress allows.
func TestForCiliumWhatPodsSendLeavesForTheWorld(t *testing.T) {
	milan := netip.MustParsePrefix("253.18.0.0/16")
	groups := map[string][]netip.Prefix{"peers": {netip.MustParsePrefix("240.0.0.0/4")}}
	for name, test := range map[string]struct {
		spec string
		want policy.Answer
	}{
		"no rule about what goes out":  {`{ingress: [{}]}`, policy.Yes},
		"an empty rule":                {`{egress: [{}]}`, policy.No},
		"without default deny":         {`{egress: [{}], enableDefaultDeny: {egress: false}}`, policy.Yes},
		"names alone are resolved":     {`{egress: [{toEndpoints: [{matchLabels: {"k8s:io.kubernetes.pod.namespace": kube-system}}], toPorts: [{ports: [{port: "53"}], rules: {dns: [{matchPattern: "*"}]}}]}]}`, policy.No},
		"the cluster":                  {`{egress: [{toEntities: [cluster, kube-apiserver]}]}`, policy.No},
		"the world":                    {`{egress: [{toEntities: [world]}]}`, policy.Yes},
		"the world of IPv4":            {`{egress: [{toEntities: [world-ipv4]}]}`, policy.Unknown},
		"at a port, to everywhere":     {`{egress: [{toPorts: [{ports: [{port: "443"}]}]}]}`, policy.Yes},
		"what a proxy lets through":    {`{egress: [{toEntities: [all], toPorts: [{ports: [{port: "80"}], rules: {http: [{method: GET}]}}]}]}`, policy.Unknown},
		"the peer's range":             {`{egress: [{toCIDR: [253.18.0.0/16]}]}`, policy.Yes},
		"half of it":                   {`{egress: [{toCIDR: [253.18.0.0/17]}]}`, policy.No},
		"but for a part of the peer's": {`{egress: [{toCIDRSet: [{cidr: 0.0.0.0/0, except: [253.18.3.0/24]}]}]}`, policy.No},
		"a group of ranges":            {`{egress: [{toCIDRSet: [{cidrGroupRef: peers}]}]}`, policy.Yes},
		"a group that is hidden":       {`{egress: [{toCIDRSet: [{cidrGroupRef: others}]}]}`, policy.Unknown},
		"hosts by their names":         {`{egress: [{toFQDNs: [{matchName: milan.example}]}]}`, policy.Unknown},
		"Services":                     {`{egress: [{toServices: [{k8sService: {serviceName: milan}}]}]}`, policy.Unknown},
		"nodes":                        {`{egress: [{toNodes: [{}]}]}`, policy.No},
		"ICMP alone":                   {`{egress: [{icmps: [{fields: [{type: 8}]}]}]}`, policy.No},
		"refuses the world":            {`{egress: [{toEntities: [all]}], egressDeny: [{toEntities: [world]}]}`, policy.No},
		"refuses it, and no more":      {`{egressDeny: [{toCIDR: [253.18.0.0/16]}], enableDefaultDeny: {egress: false}}`, policy.No},
		"refuses a port":               {`{egress: [{toEntities: [all]}], egressDeny: [{toEntities: [world], toPorts: [{ports: [{port: "25"}]}]}]}`, policy.Unknown},
	} {
		for _, kind := range []string{"CiliumNetworkPolicy", "CiliumClusterwideNetworkPolicy"} {
			f := policy.Facts{Cilium: []policy.Cilium{ofCilium(t, kind, test.spec)}, CIDRGroups: groups}
			f.Count(policy.Pod{Namespace: "shop", Labels: map[string]string{"app": "web"}})
			f.Count(policy.Pod{Namespace: "bank", Labels: map[string]string{"app": "db"}})
			for _, answer := range []policy.Answer{policy.No, policy.Unknown} {
				if got := f.Groups(policy.Egress, milan, answer); (len(got) == 1) != (answer == test.want) {
					t.Errorf("%s of kind %s: got %v for answer %d, want it for %d", name, kind, got, answer, test.want)
				}
			}
		}
	}
}

// A rule that only refuses is about the pods, too.
func TestWhatARuleOfCiliumRefusesNoRuleAllows(t *testing.T) {
	milan := netip.MustParsePrefix("253.18.0.0/16")
	for spec, want := range map[string]bool{
		`{ingressDeny: [{fromCIDR: [253.18.0.0/16]}], enableDefaultDeny: {ingress: false}}`: true,
		`{ingress: [{}]}`: false,
	} {
		f := policy.Facts{Cilium: []policy.Cilium{ofCilium(t, "CiliumNetworkPolicy", spec)}}
		g := f.GroupOf(policy.Ingress, policy.Pod{Namespace: "shop", Labels: map[string]string{"app": "web"}})
		if got := f.Refuses(policy.Ingress, g, milan); f.Admits(policy.Ingress, g, milan) != policy.No || got != want {
			t.Errorf("%s: refuses: %t, want %t", spec, got, want)
		}
	}
}

func TestPoliciesOfBothKindsAdd(t *testing.T) {
	milan := netip.MustParsePrefix("253.18.0.0/16")
	deny := networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "deny"}}
	opens := ofCilium(t, "CiliumNetworkPolicy", `{ingress: [{fromCIDR: [253.18.0.0/16]}]}`)
	refuses := ofCilium(t, "CiliumClusterwideNetworkPolicy", `{ingressDeny: [{fromEntities: [world]}]}`)
	web := policy.Pod{Namespace: "shop", Labels: map[string]string{"app": "web"}}
	for name, test := range map[string]struct {
		facts policy.Facts
		want  policy.Answer
		names string
	}{
		"closed by Kubernetes', opened by Cilium's": {policy.Facts{Policies: []networkingv1.NetworkPolicy{deny}, Cilium: []policy.Cilium{opens}}, policy.Yes, "NetworkPolicy shop/deny, CiliumNetworkPolicy shop/p"},
		"opened and refused":                        {policy.Facts{Cilium: []policy.Cilium{opens, refuses}}, policy.No, "CiliumNetworkPolicy shop/p, CiliumClusterwideNetworkPolicy p"},
	} {
		g := test.facts.GroupOf(policy.Ingress, web)
		if got := test.facts.Admits(policy.Ingress, g, milan); got != test.want || test.facts.Names(g) != test.names {
			t.Errorf("%s: got %d by %s, want %d by %s", name, got, test.facts.Names(g), test.want, test.names)
		}
	}
	f := policy.Facts{Cilium: []policy.Cilium{opens}}
	if got := f.Outdated(milan, netip.MustParsePrefix("253.20.0.0/16")); len(got) != 1 || got[0] != "CiliumNetworkPolicy shop/p" {
		t.Errorf("a renumbering makes %q outdated", got)
	}
}
