package install_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/internal/sample"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

func planned(p render.InstallParams) flows.Planner {
	if p.Image == "" {
		p.Image = "example.org/gateway:v1"
	}
	if p.ClusterID == "" {
		p.ClusterID = "rome"
	}
	return func(f flows.Facts) flows.Plan { return install.Plan(p, f) }
}

// alone runs a plan on cluster A.
func alone(t *testing.T, pair *flowtest.Pair, plan flows.Planner) (flows.Plan, error) {
	t.Helper()
	var last flows.Plan
	err := engine.Run(t.Context(), plan, pair.A, engine.Absent{}, func(e engine.Event) { last = e.Plan }, engine.Options{Now: pair.Now})
	return last, err
}

func TestInstallContinuesAndThenChangesNothing(t *testing.T) {
	first, step := sample.Seed(t), uint64(sample.Of(4, 1)) // every fourth number, or all
	for n := first % step; n < 30; n += step {
		writes := int(n) //nolint:gosec // below 30
		pair := flowtest.NewPair()
		pair.A.Bare()
		pair.A.Behave(func(b *flowtest.Behaviour) { b.WriteErrors = map[int]error{writes: errors.New("killed")} })
		_, _ = alone(t, pair, planned(render.InstallParams{}))
		if _, err := alone(t, pair, planned(render.InstallParams{})); err != nil {
			t.Fatalf("killed at write %d: the next run says: %v", writes, err)
		}
		pair.Forget()
		if p, err := alone(t, pair, planned(render.InstallParams{})); err != nil || len(pair.Log()) > 0 {
			t.Errorf("killed at write %d: again: got %v, %v, writes %v", writes, err, p.Changes(), pair.Log())
		}
	}
}

func TestWhatAnInstallationWasToldStays(t *testing.T) {
	pair := flowtest.NewPair()
	pair.A.Bare()
	told := render.InstallParams{
		Pools: []string{"10.0.0.0/8"}, PodCIDRs: []string{"10.244.0.0/16"}, ServiceCIDR: "10.96.0.0/12", GatewayReplicas: 2, OperatorReplicas: 3,
		Pods:    &render.ProgramSettings{PodSettings: render.PodSettings{NodeSelector: map[string]string{"zone": "a"}}},
		Peering: render.PeeringProvider, APIServer: "https://203.0.113.7:6443", Announce: "https://192.168.1.20:6443",
	}
	for _, p := range []render.InstallParams{told, {}} {
		if _, err := alone(t, pair, planned(p)); err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range pair.A.Objects() {
		if d, ok := o.(*appsv1.Deployment); ok {
			if got := render.OperatorParams(d); !slices.Equal(got.Pools, told.Pools) || !slices.Equal(got.PodCIDRs, told.PodCIDRs) || got.ServiceCIDR != told.ServiceCIDR || d.Spec.Template.Spec.NodeSelector["zone"] != "a" ||
				got.Peering != told.Peering || got.OperatorReplicas != 3 || got.APIServer != told.APIServer {
				t.Errorf("got %+v, want %+v", got, told)
			}
		}
		if d, ok := o.(*appsv1.DaemonSet); ok && render.Announced(d) != told.Announce {
			t.Errorf("got %q announced, want %q", render.Announced(d), told.Announce)
		}
		if o.GetName() == wire.ServerTemplate && render.TemplateReplicas(o) != 2 {
			t.Errorf("got %d replicas", render.TemplateReplicas(o))
		}
	}
}

// Each role in lending has its own rights. After a change of the role, the rights of the former role are
// removed. The definitions stay, because objects of their kinds may still exist.
func TestAnotherPartInPeeringsHasOtherRights(t *testing.T) {
	rights := func(pair *flowtest.Pair) (names []string) {
		for _, o := range pair.A.Objects() {
			if kind := flows.RefTo(o).Kind; kind == "ClusterRole" || kind == "Role" || kind == "Service" {
				names = append(names, o.GetName())
			}
		}
		return names
	}
	pair := flowtest.NewPair()
	pair.A.Bare()
	if _, err := alone(t, pair, planned(render.InstallParams{})); err != nil {
		t.Fatal(err)
	}
	none := rights(pair)
	for _, c := range []struct {
		role       render.PeeringRole
		has, lacks []string
	}{
		{render.PeeringBoth, []string{wire.ProxyName, wire.PeeringAccessName, wire.ConsumerAccessName, "liqo-tui-operator-keys"}, nil},
		{render.PeeringConsumer, []string{wire.PeeringAccessName, "liqo-tui-operator-keys"}, []string{wire.ConsumerAccessName, "liqo-tui-operator-provider", wire.ProxyName}},
		{render.PeeringProvider, []string{wire.ProxyName, wire.PeeringAccessName, wire.ConsumerAccessName}, []string{"liqo-tui-operator-keys", "liqo-tui-operator-consumer"}},
		{render.PeeringNone, none, []string{wire.ProxyName, wire.PeeringAccessName, wire.ConsumerAccessName, "liqo-tui-operator-keys", "liqo-tui-operator-peering"}},
	} {
		for again := range 2 {
			pair.Forget()
			if _, err := alone(t, pair, planned(render.InstallParams{Peering: c.role})); err != nil {
				t.Fatal(err)
			}
			if log := pair.Log(); again > 0 && len(log) > 0 {
				t.Errorf("%s again: writes %v", c.role, log)
			}
		}
		now := rights(pair)
		for _, name := range c.has {
			if !slices.Contains(now, name) {
				t.Errorf("%s: lacks %s", c.role, name)
			}
		}
		for _, name := range c.lacks {
			if slices.Contains(now, name) {
				t.Errorf("%s: has %s", c.role, name)
			}
		}
	}
	if now := rights(pair); !slices.Equal(now, none) {
		t.Errorf("after none: got %v, want %v", now, none)
	}
}

// The role can't be changed if the operator would stop to handle existing access, of other clusters or to
// other clusters.
func TestAnOperatorThatGivesAccessStays(t *testing.T) {
	tenant := &authv1beta1.Tenant{TypeMeta: metav1.TypeMeta{APIVersion: authv1beta1.GroupVersion.String(), Kind: "Tenant"}, ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"}}
	identity := &authv1beta1.Identity{TypeMeta: metav1.TypeMeta{APIVersion: authv1beta1.GroupVersion.String(), Kind: "Identity"}, ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "controlplane-milan"}}
	for _, c := range []struct {
		was, role render.PeeringRole
		of        wire.Object
		want      string
	}{
		{render.PeeringBoth, render.PeeringConsumer, tenant, "clusters that would lose their access to this cluster: 1"},
		{render.PeeringBoth, render.PeeringProvider, identity, "clusters that this cluster would lose access to: 1"},
		{render.PeeringConsumer, render.PeeringBoth, identity, ""},
		{render.PeeringNone, render.PeeringNone, tenant, ""}, // the Tenant belongs to another program
	} {
		pair := flowtest.NewPair()
		pair.A.Bare()
		if _, err := alone(t, pair, planned(render.InstallParams{Peering: c.was})); err != nil {
			t.Fatal(err)
		}
		pair.A.Put(render.TenantNamespace(render.Tenant{Namespace: "liqo-tenant-milan", Remote: "milan"}), c.of)
		_, err := alone(t, pair, planned(render.InstallParams{Peering: c.role}))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("from %s to %s: got %v, want %q", c.was, c.role, err, c.want)
		}
		_, err = alone(t, pair, install.PlanRemoval)
		if refused := err != nil && strings.Contains(err.Error(), "access to"); refused != (c.was != render.PeeringNone) {
			t.Errorf("uninstall with part %s: got %v", c.was, err)
		}
	}
}

// If Tenants may not be listed, they may exist.
func TestAnOperatorThatMayGiveAccessStays(t *testing.T) {
	for _, c := range []struct {
		role   render.PeeringRole
		hidden string
		want   string
	}{
		{render.PeeringNone, "you may not list tenants", "liqo-tui can't see which clusters would lose access: you may not list tenants"},
		{render.PeeringNone, "", ""},
		{render.PeeringBoth, "you may not list tenants", ""}, // no cluster loses its access
	} {
		pair := flowtest.NewPair()
		pair.A.Bare()
		if _, err := alone(t, pair, planned(render.InstallParams{Peering: render.PeeringProvider})); err != nil {
			t.Fatal(err)
		}
		f := flowtest.Facts(pair)
		there, err := pair.A.Installation(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		there.Unknown = c.hidden
		flows.Read(flows.AskInstallation{Side: flows.A}, there).Store(&f, f.At)
		plan := planned(render.InstallParams{Peering: c.role})(f)
		reason := ""
		if s := plan.Failure(); s != nil {
			reason = s.Reason
		}
		if reason != c.want {
			t.Errorf("part %s: got %q, want %q", c.role, reason, c.want)
		}
	}
}

func TestUninstallRemovesWhatInstallMade(t *testing.T) {
	theirs := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "precious"}}
	for name, others := range map[string][]wire.Object{"": nil, "it holds Secret precious": {theirs}} {
		pair := flowtest.NewPair()
		pair.A.Bare()
		if _, err := alone(t, pair, planned(render.InstallParams{})); err != nil {
			t.Fatal(err)
		}
		pair.A.PutAs("ada", others...)
		pair.Forget()
		p, err := alone(t, pair, install.PlanRemoval)
		if err != nil || install.KeptNamespace(p) != name {
			t.Errorf("got %v, the namespace stays because %q, want %q", err, install.KeptNamespace(p), name)
		}
		pair.Settle()
		for _, n := range pair.A.Names() {
			if !strings.HasPrefix(n, "CustomResourceDefinition ") && name == "" {
				t.Errorf("%s is left", n)
			}
		}
		if names := pair.A.Names(); name != "" && (!slices.Contains(names, "Secret liqo/precious") || !slices.Contains(names, "Namespace liqo")) {
			t.Errorf("left are %v", names)
		}
	}
}

func TestUninstallRefusesWhatNobodyWouldCleanUp(t *testing.T) {
	pair := flowtest.NewPair()
	flowtest.MustRun(t, pair, flowtest.Connect(flowtest.NodePort()))
	pair.Forget()
	_, err := alone(t, pair, install.PlanRemoval)
	failed, ok := errors.AsType[*flows.StepError](err)
	if !ok || failed.Step.Kind != flows.FailedPreflight || failed.Step.Reason != "it still has peers: milan" || len(pair.Log()) > 0 {
		t.Errorf("got %v, and writes %v", err, pair.Log())
	}
	// After a reset, the remaining objects are already being deleted, so there is no advice.
	ending := flowtest.Facts(pair)
	now := metav1.NewTime(pair.Now())
	for i := range ending.Sides[flows.A].Configurations {
		ending.Sides[flows.A].Configurations[i].DeletionTimestamp = &now
	}
	if s, ok := install.PlanRemoval(ending).Step("peers-a"); ok {
		t.Errorf("got %s, although a gateway stays", s.Reason)
	}
	for i := range ending.Sides[flows.A].Servers {
		ending.Sides[flows.A].Servers[i].DeletionTimestamp = &now
	}
	for i := range ending.Sides[flows.A].Clients {
		ending.Sides[flows.A].Clients[i].DeletionTimestamp = &now
	}
	if s, ok := install.PlanRemoval(ending).Step("peers-a"); !ok || s.Status != flows.Waiting || s.Reason != "what is left of milan is being deleted" {
		t.Errorf("while the peering ends: got %v, %s %q", ok, s.Status, s.Reason)
	}
	blind := unreadable{pair.A}
	pair.A.Be(func(f *flows.ClusterFacts) { f.ID = "rome" })
	for _, o := range pair.A.Objects() {
		pair.A.Remove(o)
	}
	err = engine.Run(t.Context(), flows.Planner(install.PlanRemoval), blind, engine.Absent{}, func(engine.Event) {}, engine.Options{Now: pair.Now})
	if failed, ok := errors.AsType[*flows.StepError](err); !ok || failed.Step.Kind != flows.FailedAccess {
		t.Errorf("an installation that can't be read: got %v", err)
	}
}

// unreadable is a cluster whose installation the user may not read.
type unreadable struct{ *flowtest.Cluster }

func (u unreadable) Ask(ctx context.Context, q flows.Question) (flows.Reply, error) {
	if q, ok := q.(flows.AskInstallation); ok {
		return flows.Read(q, flows.InstallationFacts{Unknown: "ada may not get deployments.apps"}), nil
	}
	return u.Cluster.Ask(ctx, q)
}

// In TestARangeThatSomebodyWasToldOfStays, an admin states other ranges.
func TestARangeThatSomebodyWasToldOfStays(t *testing.T) {
	external := render.Network("liqo", wire.NetworkExternalCIDR, wire.NetworkExternalCIDR, "10.80.0.0/16", 1)
	pods := render.ClusterNetworks("liqo", wire.NetworkPodCIDR, []string{"10.1.0.0/16", "10.2.0.0/16"}, "Calico")
	reserved := render.Network("liqo", "reserved-10-5-0-0-16", wire.NetworkReserved, "10.5.0.0/16", 0)
	peer := networkingv1beta1.Configuration{}
	for name, c := range map[string]struct {
		peers []networkingv1beta1.Configuration
		hosts int
		hides string // the part of the installation that may not be read
		p     render.InstallParams
		want  string // the reason of the failure
		gone  []string
	}{
		"nothing is stated":          {peers: []networkingv1beta1.Configuration{peer}},
		"another external range":     {p: render.InstallParams{ExternalCIDR: "10.81.0.0/16"}, gone: []string{"Network liqo/external-cidr"}},
		"of which a peer was told":   {peers: []networkingv1beta1.Configuration{peer}, p: render.InstallParams{ExternalCIDR: "10.81.0.0/16"}, want: "Network liqo/external-cidr can't be changed from 10.80.0.0/16 to 10.81.0.0/16: peers that know the present range: 1"},
		"of which a host has one":    {hosts: 1, p: render.InstallParams{ExternalCIDR: "10.81.0.0/16"}, want: "Network liqo/external-cidr can't be changed from 10.80.0.0/16 to 10.81.0.0/16: IPs with an address of the present range: 1"},
		"of which nobody knows":      {hides: "you may not list ips", p: render.InstallParams{ExternalCIDR: "10.81.0.0/16"}, want: "Network liqo/external-cidr can't be changed from 10.80.0.0/16 to 10.81.0.0/16: liqo-tui can't see which IPs have an address of the present range: you may not list ips"},
		"one of two ranges of pods":  {p: render.InstallParams{PodCIDRs: []string{"10.1.0.0/16"}}}, // the operator replaces them
		"with a peer":                {peers: []networkingv1beta1.Configuration{peer}, p: render.InstallParams{PodCIDRs: []string{"10.1.0.0/16"}}, want: "Network liqo/pod-cidr-2 can't be changed from 10.2.0.0/16 (Calico) to the stated range: peers that know the present range: 1"},
		"the same ranges, and peers": {peers: []networkingv1beta1.Configuration{peer}, p: render.InstallParams{PodCIDRs: []string{"10.1.0.0/16", "10.2.0.0/16"}, ExternalCIDR: "10.80.0.0/16"}},
		"nobody is told of reserves": {peers: []networkingv1beta1.Configuration{peer}, p: render.InstallParams{Reserve: []string{"10.6.0.0/16"}}, gone: []string{"Network liqo/reserved-10-5-0-0-16"}},
	} {
		t.Run(name, func(t *testing.T) {
			pair := flowtest.NewPair()
			f := flowtest.Facts(pair)
			reserved.Labels[wire.LabelManagedBy] = wire.ManagedBy
			f.Sides[flows.A].Configurations, f.Sides[flows.A].ExternalCIDR = c.peers, "10.80.0.0/16"
			flows.Read(flows.AskInstallation{Side: flows.A}, flows.InstallationFacts{Hosts: c.hosts, Unknown: c.hides, Objects: append([]wire.Object{external, reserved}, pods...)}).Store(&f, f.At)
			p := planned(c.p)(f)
			reason := ""
			if s := p.Failure(); s != nil {
				reason = s.Reason
			}
			var gone []string
			for _, s := range p.Steps {
				for _, o := range s.Gone {
					gone = append(gone, apply.Name(o))
				}
			}
			if reason != c.want || !slices.Equal(gone, c.gone) {
				t.Errorf("got %q, and %q goes; want %q, %q", reason, gone, c.want, c.gone)
			}
		})
	}
}

func TestInstallSaysWhatItWaitsFor(t *testing.T) {
	ours := map[string]string{wire.LabelManagedBy: wire.ManagedBy}
	operator := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: wire.OperatorName, Labels: ours}, Status: appsv1.DeploymentStatus{Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}}
	starting := operator.DeepCopy()
	starting.Status.UpdatedReplicas = 0
	fabric := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: wire.FabricName, Labels: ours}, Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 2, UpdatedNumberScheduled: 2, NumberReady: 1}}
	network := func(kind, cidr string, decided networkingv1beta1.CIDR) wire.Object {
		n := render.ClusterNetworks("liqo", kind, []string{cidr}, "")[0].(*ipamv1alpha1.Network)
		n.Status.CIDR = decided
		return n
	}
	foreign := func(o wire.Object) wire.Object {
		o = o.DeepCopyObject().(wire.Object)
		o.SetLabels(map[string]string{wire.LabelNetworkType: o.GetLabels()[wire.LabelNetworkType]})
		return o
	}
	pods, services := network(wire.NetworkPodCIDR, "10.244.0.0/16", "10.244.0.0/16"), network(wire.NetworkServiceCIDR, "10.96.0.0/12", "10.96.0.0/12")
	waiting := map[string]string{wire.OperatorName: "pod liqo-tui-operator-2: ImagePullBackOff", wire.FabricName: "pod liqo-tui-fabric-1 is pending"}
	for want, c := range map[string]struct {
		step    flows.StepID
		p       render.InstallParams
		objects []wire.Object
		nodes   []flows.NodeFacts
		done    bool
	}{
		"the operator starts: pod liqo-tui-operator-2: ImagePullBackOff": {step: "operator-works-a", objects: []wire.Object{starting}},
		"the operator has not found the cluster's address ranges yet":    {step: "operator-works-a", objects: []wire.Object{operator, pods}},
		"the operator has not decided on the range of Network pod-cidr":  {step: "operator-works-a", objects: []wire.Object{operator, network(wire.NetworkPodCIDR, "10.244.0.0/16", "")}},
		"the operator has not replaced Network pod-cidr":                 {step: "operator-works-a", p: render.InstallParams{PodCIDRs: []string{"10.1.0.0/16"}}, objects: []wire.Object{operator, pods, services}},
		"the operator has not made a Network with range 10.1.0.0/16":     {step: "operator-works-a", p: render.InstallParams{PodCIDRs: []string{"10.244.0.0/16", "10.1.0.0/16"}}, objects: []wire.Object{operator, pods, services}},
		"the operator has not made a Network with range 10.2.0.0/16":     {step: "operator-works-a", p: render.InstallParams{PodCIDRs: []string{"10.244.0.0/16", "10.2.0.0/16"}}, objects: []wire.Object{operator, pods, foreign(services)}},
		"": {step: "operator-works-a", objects: []wire.Object{operator, foreign(pods), services}, done: true},
		"the node agent runs on 1 of 2 nodes: pod liqo-tui-fabric-1 is pending": {step: "fabric-runs-a", objects: []wire.Object{fabric}},
		"not on a-2 (not ready), win (runs windows)": {
			step: "fabric-runs-a", objects: []wire.Object{fabric}, done: true,
			nodes: []flows.NodeFacts{{Name: "a-1", Ready: true}, {Name: "a-2"}, {Name: "win", Excluded: "runs windows"}},
		},
		"not on a-2 (its kernel 4.19.0 is older than 5.10)": {
			step: "fabric-runs-a", objects: []wire.Object{fabric}, done: true,
			nodes: []flows.NodeFacts{{Name: "a-1", Ready: true, Kernel: "6.1.0"}, {Name: "a-2", Ready: true, Kernel: "4.19.0"}},
		},
		"the node agent runs on 1 of 2 nodes: pod liqo-tui-fabric-1 is pending; not on win (runs windows)": {
			step: "fabric-runs-a", objects: []wire.Object{fabric},
			nodes: []flows.NodeFacts{{Name: "a-1", Ready: true}, {Name: "a-2", Ready: true}, {Name: "win", Ready: true, Excluded: "runs windows"}},
		},
	} {
		f := flowtest.Facts(flowtest.NewPair())
		flows.Read(flows.AskInstallation{Side: flows.A}, flows.InstallationFacts{Objects: c.objects, Waiting: waiting}).Store(&f, f.At)
		f.Sides[flows.A].Nodes = c.nodes
		if s, ok := planned(c.p)(f).Step(c.step); !ok || s.Reason != want || (s.Status == flows.Done) != c.done {
			t.Errorf("got %s, %q, want %q", s.Status, s.Reason, want)
		}
	}
}

// In TestANewerImageSaysWhichTrafficItInterrupts, a gateway has an older image, and our template or an admin's
// own one.
func TestANewerImageSaysWhichTrafficItInterrupts(t *testing.T) {
	pair := flowtest.NewPair()
	pair.A.Bare()
	if _, err := alone(t, pair, planned(render.InstallParams{})); err != nil {
		t.Fatal(err)
	}
	facts := func(image, template string) flows.Facts {
		f := flowtest.Facts(pair)
		found, err := pair.A.Installation(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		d := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "gw-milan", Labels: map[string]string{wire.LabelGatewayName: "milan", wire.LabelRemoteCluster: "milan"}}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "tunnel", Image: image}}
		d.Status = appsv1.DeploymentStatus{Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}
		found.Gateways = []appsv1.Deployment{d}
		flows.Read(flows.AskInstallation{Side: flows.A}, found).Store(&f, f.At)
		server := render.GatewayServer(render.ServerParams{Tenant: render.Tenant{Namespace: "liqo-tenant-milan", Remote: "milan"}, Template: render.TemplateRef{Name: template, Namespace: "liqo"}})
		connection := networkingv1beta1.Connection{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "gw-milan"}}
		connection.Status.Value = networkingv1beta1.Connected
		f.Sides[flows.A].Servers, f.Sides[flows.A].Connections = []networkingv1beta1.GatewayServer{*server}, []networkingv1beta1.Connection{connection}
		return f
	}
	newer := planned(render.InstallParams{Image: "example.org/gateway:v2"})
	const warning = "traffic between rome and milan is interrupted for about a second, while the gateway is replaced; one gateway is replaced after the other"
	for name, c := range map[string]struct {
		plan     flows.Plan
		status   flows.Status
		reason   string
		warnings []string
	}{
		"before":         {newer(facts("example.org/gateway:v1", wire.ServerTemplate)), flows.Blocked, "image example.org/gateway:v1 → example.org/gateway:v2: needs the gateway templates", []string{warning}},
		"its turn comes": {planned(render.InstallParams{})(facts("example.org/gateway:v0", wire.ServerTemplate)), flows.Waiting, "image example.org/gateway:v0 → example.org/gateway:v1: the operator replaces it when the gateways before it are connected again", []string{warning}},
		"replaced":       {planned(render.InstallParams{})(facts("example.org/gateway:v1", wire.ServerTemplate)), flows.Done, "", nil},
	} {
		s, ok := c.plan.Step("gateway-milan-a")
		if !ok || s.Status != c.status || s.Reason != c.reason || !slices.Equal(c.plan.Interrupts(), c.warnings) {
			t.Errorf("%s: got %s, %q, and %q", name, s.Status, s.Reason, c.plan.Interrupts())
		}
	}
	f := facts("mirror.local/gateway:v1", wire.ServerTemplate)
	f.Sides[flows.A].Installation.Value().Gateways[0].Annotations = map[string]string{wire.AnnotationImages: "example.org/gateway:v1"}
	p := planned(render.InstallParams{})(f)
	s, _ := p.Step("gateway-milan-a")
	if want := "runs mirror.local/gateway:v1, which a webhook or an admission policy of the cluster puts in place of example.org/gateway:v1"; s.Status != flows.Done || s.Reason != want || len(p.Interrupts()) > 0 {
		t.Errorf("rewritten: got %s, %q, and %q", s.Status, s.Reason, p.Interrupts())
	}
	if s, ok := newer(facts("example.org/other:v1", "their-own")).Step("gateway-milan-a"); ok {
		t.Errorf("a gateway of another template is waited for: %+v", s)
	}
}

// TestAnInstallationNeedsAnImage uses a build without a published image.
func TestAnInstallationNeedsAnImage(t *testing.T) {
	pair := flowtest.NewPair()
	pair.A.Bare()
	plan := func(image string) flows.Planner {
		return func(f flows.Facts) flows.Plan {
			return install.Plan(render.InstallParams{ClusterID: "rome", Image: image}, f)
		}
	}
	_, err := alone(t, pair, plan(""))
	failed, ok := errors.AsType[*flows.StepError](err)
	if !ok || failed.Step.Kind != flows.FailedUsage || !strings.Contains(flows.HintOf(err).String(), "--image") {
		t.Errorf("got %v (%q), want to be asked for an image", err, flows.HintOf(err))
	}
	if log := pair.Log(); len(log) > 0 {
		t.Errorf("written before that: %v", log)
	}
	if _, err := alone(t, pair, plan("example.org/gateway:v7")); err != nil {
		t.Fatal(err)
	}
	pair.Forget()
	if _, err := alone(t, pair, plan("")); err != nil || len(pair.Log()) > 0 {
		t.Errorf("again, without the image: got %v, writes %v", err, pair.Log())
	}
}

// TestABrokenOperatorIsMendedWhileConnecting runs the same command again with an image that can be pulled. The
// image of a working operator stays.
func TestABrokenOperatorIsMendedWhileConnecting(t *testing.T) {
	pair := flowtest.NewPair()
	pair.B.Bare()
	connect := func(image string) flows.Planner {
		i, err := install.New(render.InstallParams{ClusterID: "milan", Image: image})
		if err != nil {
			t.Fatal(err)
		}
		p := flows.Defaults()
		p.ServiceType, p.Install[flows.B] = corev1.ServiceTypeNodePort, i
		return func(f flows.Facts) flows.Plan { return flows.PlanConnect(p, f) }
	}
	if err := engine.Run(t.Context(), connect("example.org/gateway:v1"), pair.A, pair.B, func(engine.Event) {}, engine.Options{Now: pair.Now}); err != nil {
		t.Fatal(err)
	}
	operatorChanges := func() string {
		e, err := engine.DryRun(t.Context(), connect("example.org/gateway:v2"), pair.A, pair.B, true, engine.Options{Now: pair.Now})
		if err != nil {
			t.Fatal(err)
		}
		s, _ := e.Plan.Step("operator-b")
		return s.Diff
	}
	if diff := operatorChanges(); diff != "" {
		t.Errorf("an operator that works is changed:\n%s", diff)
	}
	pair.B.Be(func(f *flows.ClusterFacts) { f.Operator.Problem = "its pod does not start: ImagePullBackOff" })
	if diff := operatorChanges(); !strings.Contains(diff, "+        image: example.org/gateway:v2") {
		t.Errorf("got the diff %q, want the other image", diff)
	}
}

// An object of another program with one of our names stops the installation before anything is changed.
func TestAnInstallationTakesNothingOver(t *testing.T) {
	p := flowtest.NewPair()
	p.A.Bare()
	theirs := &rbacv1.ClusterRole{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"}, ObjectMeta: metav1.ObjectMeta{Name: wire.OperatorName}}
	p.A.PutAs("others", theirs)
	_, err := alone(t, p, planned(render.InstallParams{}))
	var failed *flows.StepError
	if !errors.As(err, &failed) || failed.Code() != flows.CodeOwnership || !strings.Contains(failed.Step.Reason, theirs.Name) || failed.Changed {
		t.Errorf("got %v, want a refusal that names %s", err, theirs.Name)
	}
}

// silent is a cluster that does not answer the question about the installation.
type silent struct{ *flowtest.Cluster }

func (silent) Ask(context.Context, flows.Question) (flows.Reply, error) { return nil, engine.ErrNoWay }

func TestNothingIsDoneWhereNobodyKnowsWhatIsInstalled(t *testing.T) {
	brought, err := install.New(render.InstallParams{ClusterID: "rome", Image: "example.org/gateway:v1"})
	if err != nil {
		t.Fatal(err)
	}
	params := flowtest.NodePort()
	params.Install[flows.A] = brought
	for name, plan := range map[string]flows.Planner{
		"install":   planned(render.InstallParams{}),
		"uninstall": install.PlanRemoval,
		"connect":   flowtest.Connect(params),
	} {
		pair := flowtest.NewPair()
		pair.A.Bare()
		err := engine.Run(t.Context(), plan, silent{pair.A}, pair.B, func(engine.Event) {}, engine.Options{Now: pair.Now})
		failed, ok := errors.AsType[*flows.StepError](err)
		if !ok || failed.Step.Kind != flows.FailedAccess || !strings.Contains(failed.Step.Reason, engine.ErrNoWay.Error()) || len(pair.Log()) > 0 {
			t.Errorf("%s: got %v, and wrote %v", name, err, pair.Log())
		}
	}
}

// The agents stay until they have removed our routes and rules from their nodes.
func TestARemovalWaitsForTheNodes(t *testing.T) {
	pair := flowtest.NewPair()
	pair.A.Bare()
	if _, err := alone(t, pair, planned(render.InstallParams{})); err != nil {
		t.Fatal(err)
	}
	there, err := pair.A.Installation(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name       string
		status     map[string]wire.NodeStatus // of rome-1 and rome-2
		unattended []string
		waits      string
		want, kept string
	}{
		{"clean", map[string]wire.NodeStatus{"rome-1": {Kernel: wire.KernelClean}, "rome-2": {Kernel: wire.KernelClean}}, nil, "", "reported by 2 agents", ""},
		{"in use", map[string]wire.NodeStatus{"rome-1": {Kernel: wire.KernelClean}, "rome-2": {Kernel: wire.KernelInUse}}, nil, "have not removed them yet: rome-2", "", ""},
		{"it fails", map[string]wire.NodeStatus{"rome-1": {Kernel: wire.KernelInUse, Problem: "clean up the node: device busy"}, "rome-2": {Kernel: wire.KernelClean}}, nil, "rome-1: clean up the node: device busy", "", ""},
		{"no agent", map[string]wire.NodeStatus{"rome-1": {Kernel: wire.KernelInUse}, "rome-2": {Kernel: wire.KernelClean}}, []string{"rome-1"}, "", "on all nodes but rome-1", "until the nodes start again: rome-1"},
		{"older", map[string]wire.NodeStatus{"rome-1": {Level: wire.NodeLevel}, "rome-2": {Kernel: wire.KernelClean}}, nil, "", "not known for 1 of 2 nodes", ""},
		{"none has reported", nil, nil, "", "not known: no agent has reported", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := flowtest.Facts(pair)
			a := &f.Sides[flows.A]
			a.Agents, a.AgentStatus, a.Unattended = slices.Sorted(maps.Keys(c.status)), c.status, c.unattended
			flows.Read(flows.AskInstallation{Side: flows.A}, there).Store(&f, f.At)
			plan := install.PlanRemoval(f)
			nodes, _ := plan.Step(flows.IDOf(flows.A, "nodes"))
			if waits := nodes.Status == flows.Waiting; waits != (c.waits != "") || !strings.Contains(nodes.Reason, c.waits) || !strings.Contains(nodes.Reason, c.want) {
				t.Errorf("got %s: %s", nodes.Status, nodes.Reason)
			}
			if kept := strings.Join(plan.Kept, "; "); kept == "" != (c.kept == "") || !strings.Contains(kept, c.kept) {
				t.Errorf("kept: %q", kept)
			}
			for _, s := range plan.Steps {
				if s.Action == flows.Delete && (len(s.Objects) > 0) == (c.waits != "") && len(s.Gone) > 0 && flows.RefTo(s.Gone[0]).Kind != "Namespace" {
					t.Errorf("%s: %s, %d objects", s.Title, s.Status, len(s.Objects))
				}
			}
		})
	}
}
