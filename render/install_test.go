package render_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/liqo-tui/liqo-tui/internal/golden"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

func installParams() render.InstallParams {
	return render.InstallParams{
		ClusterID: "rome", Image: "registry.example/gateway:1", PodCIDRs: []string{"10.244.0.0/16"}, ServiceCIDR: "10.96.0.0/12",
	}
}

func TestCRDs(t *testing.T) {
	crds := map[string]*apiextensionsv1.CustomResourceDefinition{}
	objs, err := render.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objs {
		crd := o.(*apiextensionsv1.CustomResourceDefinition)
		crds[crd.Name] = crd
		if want := crd.Spec.Names.Plural + "." + crd.Spec.Group; crd.Name != want {
			t.Errorf("%s is called so, its names say %s", crd.Name, want)
		}
		isTemplate := strings.HasSuffix(crd.Spec.Names.Kind, "Template")
		if got := crd.Labels["networking.liqo.io/gatewaytemplate"]; got != map[bool]string{true: "true"}[isTemplate] {
			t.Errorf("%s: label networking.liqo.io/gatewaytemplate is %q", crd.Name, got)
		}
	}
	for _, tc := range []struct {
		name, kind string
		columns    []string
		status     bool
	}{
		{"configurations.networking.liqo.io", "Configuration", []string{"Desired Pod CIDR ", "Remapped Pod CIDR", "Age"}, true},
		{"gatewayservers.networking.liqo.io", "GatewayServer", []string{"Template Kind", "IP", "Port", "Age"}, true},
		{"gatewayclients.networking.liqo.io", "GatewayClient", []string{"Template Kind", "IP", "Port", "Age"}, true},
		{"connections.networking.liqo.io", "Connection", []string{"Type", "Status", "Age"}, true},
		{"publickeies.networking.liqo.io", "PublicKey", nil, false},
		{"internalfabrics.networking.liqo.io", "InternalFabric", nil, false},
		{"internalnodes.networking.liqo.io", "InternalNode", nil, true},
		{"wggatewayservertemplates.networking.liqo.io", "WgGatewayServerTemplate", nil, false},
		{"wggatewayclienttemplates.networking.liqo.io", "WgGatewayClientTemplate", nil, false},
		{"networks.ipam.liqo.io", "Network", nil, true},
		{"ips.ipam.liqo.io", "IP", []string{"Local IP", "Remapped IP"}, true},
		{"foreignclusters.core.liqo.io", "ForeignCluster", []string{"Role", "Age"}, true},
	} {
		crd := crds[tc.name]
		if crd == nil {
			t.Errorf("%s is missing", tc.name)
			continue
		}
		version := crd.Spec.Versions[0]
		if crd.Spec.Names.Kind != tc.kind || len(crd.Spec.Versions) != 1 || !version.Served || !version.Storage {
			t.Errorf("%s: kind %s, versions %v", tc.name, crd.Spec.Names.Kind, crd.Spec.Versions)
		}
		if tc.status && (version.Subresources == nil || version.Subresources.Status == nil) {
			t.Errorf("%s has no status subresource", tc.name)
		}
		var columns []string
		for _, c := range version.AdditionalPrinterColumns {
			columns = append(columns, c.Name)
		}
		for _, want := range tc.columns {
			if !slices.Contains(columns, want) {
				t.Errorf("%s prints columns %q, want %q too", tc.name, columns, want)
			}
		}
	}
	if len(objs) != 12 {
		t.Errorf("%d definitions, want 12: is one new and not tested?", len(objs))
	}
}

func TestInstall(t *testing.T) {
	objs, err := render.Install(installParams())
	if err != nil {
		t.Fatal(err)
	}
	var list strings.Builder
	seen := map[string]bool{}
	namespaces := map[string]bool{}
	for _, o := range objs {
		name := apply.Name(o)
		fmt.Fprintln(&list, name)
		if o.GetObjectKind().GroupVersionKind().Kind == "" {
			t.Errorf("%s has no kind, and can't be applied", name)
		}
		if seen[name] {
			t.Errorf("%s is there twice", name)
		}
		seen[name] = true
		if _, ok := o.(*corev1.Namespace); ok {
			namespaces[o.GetName()] = true
		}
		if ns := o.GetNamespace(); ns != "" && !namespaces[ns] {
			t.Errorf("%s comes before its namespace", name)
		}
	}
	golden.Compare(t, "install.txt", list.String())
}

func TestTheClustersOwnRangesAreLeftToTheOperator(t *testing.T) {
	p := installParams()
	p.PodCIDRs, p.ServiceCIDR = nil, ""
	if got, want := networks(t, p), []string{"external-cidr 10.70.0.0/16"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestWhatAnAdminReservesIsANetworkAndPoolsAreTheOperators(t *testing.T) {
	p := installParams()
	p.PodCIDRs = []string{"10.244.0.0/16", "10.245.0.0/16"}
	p.Reserve, p.Pools = []string{"10.1.0.0/16", "192.168.7.0/24"}, []string{"10.0.0.0/8", "172.16.0.0/12"}
	want := []string{"external-cidr 10.70.0.0/16", "reserved-10-1-0-0-16 10.1.0.0/16", "reserved-192-168-7-0-24 192.168.7.0/24"}
	if got := networks(t, p); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	objs, err := render.Install(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objs {
		d, ok := o.(*appsv1.Deployment)
		if !ok {
			continue
		}
		told := render.OperatorParams(d)
		if !slices.Equal(told.Pools, p.Pools) || !slices.Equal(told.PodCIDRs, p.PodCIDRs) || told.ServiceCIDR != p.ServiceCIDR {
			t.Errorf("the operator is started with %q, want %+v", d.Spec.Template.Spec.Containers[0].Args, p)
		}
	}
}

func networks(t *testing.T, p render.InstallParams) []string {
	t.Helper()
	objs, err := render.Install(p)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, o := range objs {
		if n, ok := o.(*ipamv1alpha1.Network); ok {
			list = append(list, n.Name+" "+string(n.Spec.CIDR))
		}
	}
	return list
}

func TestInstallInAnotherNamespace(t *testing.T) {
	p := installParams()
	p.Namespace, p.ExternalCIDR = "elsewhere", "10.71.0.0/16"
	objs, err := render.Install(p)
	if err != nil {
		t.Fatal(err)
	}
	text, err := apply.YAML(objs...)
	if err != nil {
		t.Fatal(err)
	}
	for _, left := range []string{"$NAMESPACE", "$IMAGE", "$ROLE", "namespace: liqo\n", "liqo-namespace=liqo\n"} {
		if strings.Contains(string(text), left) {
			t.Errorf("%q is left in the manifests", left)
		}
	}
	for _, want := range []string{"--liqo-namespace=elsewhere", "cidr: 10.71.0.0/16", "--pod-cidr=10.244.0.0/16", "CLUSTER_ID: rome"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is not in the manifests", want)
		}
	}
	for _, o := range objs {
		var pod corev1.PodTemplateSpec
		switch o := o.(type) {
		case *appsv1.Deployment:
			pod = o.Spec.Template
		case *appsv1.DaemonSet:
			pod = o.Spec.Template
		default:
			continue
		}
		if got := pod.Spec.Containers[0].Image; got != p.Image {
			t.Errorf("%s runs %s, want %s", apply.Name(o), got, p.Image)
		}
	}
}

func TestYAMLIsStable(t *testing.T) {
	objs, err := render.Install(installParams())
	if err != nil {
		t.Fatal(err)
	}
	first, err := apply.YAML(objs...)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(objs)
	again, err := apply.YAML(objs...)
	if err != nil {
		t.Fatal(err)
	}
	if string(first) != string(again) {
		t.Errorf("the order of the arguments changes the output:\n%s", cmp.Diff(string(first), string(again)))
	}
}
