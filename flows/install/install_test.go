package install_test

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/connect"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// installing returns parameters with installations of the operator for both sides.
func installing(t *testing.T) flows.Params {
	t.Helper()
	p := flows.Defaults()
	p.ServiceType = corev1.ServiceTypeNodePort
	for side, id := range []wire.ClusterID{"rome", "milan"} {
		i, err := install.New(render.InstallParams{ClusterID: id, Image: "example.org/gateway:v1"})
		if err != nil {
			t.Fatal(err)
		}
		p.Install[side] = i
	}
	return p
}

func TestConnectingInstallsTheOperatorWhereNothingIs(t *testing.T) {
	for name, bare := range map[string][]flows.Side{"on A": {flows.A}, "on B": {flows.B}, "on both": {flows.A, flows.B}, "nowhere": nil} {
		t.Run(name, func(t *testing.T) {
			pair := flowtest.NewPair()
			for _, s := range bare {
				pair.Side(s).Bare()
			}
			p := installing(t)
			var first *flows.Plan
			emit := func(e engine.Event) {
				if first == nil {
					first = &e.Plan
				}
			}
			if err := engine.Run(t.Context(), connect.Goal{Params: p}, pair.A, pair.B, emit, engine.Options{Now: pair.Now}); err != nil {
				t.Fatal(err)
			}
			for _, s := range []flows.Side{flows.A, flows.B} {
				operator, planned := first.Step(flows.StepID("operator-" + strings.ToLower(s.String())))
				if want := slices.Contains(bare, s); planned && (operator.Status != flows.Done) != want {
					t.Errorf("%s: got the operator %s at first, want it to be installed: %v", s, operator.Status, want)
				}
			}
			if f := pair.A.Facts(); f.End("milan").Connection == nil {
				t.Errorf("got no connection; there is %v", pair.A.Names())
			}
			pair.Forget()
			if err := engine.Run(t.Context(), connect.Goal{Params: p}, pair.A, pair.B, func(engine.Event) {}, engine.Options{Now: pair.Now}); err != nil {
				t.Fatal(err)
			}
			if log := pair.Log(); len(log) > 0 {
				t.Errorf("the second run wrote %v", log)
			}
		})
	}
}

func TestNothingIsInstalledThatNobodyAskedFor(t *testing.T) {
	pair := flowtest.NewPair()
	pair.B.Bare()
	p := installing(t)
	p.Install[flows.B] = nil
	err := engine.Run(t.Context(), connect.Goal{Params: p}, pair.A, pair.B, func(engine.Event) {}, engine.Options{Now: pair.Now})
	var step *flows.StepError
	if !errors.As(err, &step) || step.Code() != flows.CodeSoftware {
		t.Errorf("got %v, want %s", err, flows.CodeSoftware)
	}
	if log := pair.Log(); len(log) > 0 {
		t.Errorf("got writes %v", log)
	}
}

func TestAnInstallationThatWasCutShortIsCompleted(t *testing.T) {
	for writes := 1; writes < 36; writes += 3 {
		pair := flowtest.NewPair()
		pair.B.Bare()
		pair.B.Behave(func(b *flowtest.Behaviour) { b.WriteErrors = map[int]error{writes: errors.New("killed")} })
		p := installing(t)
		run := func() error {
			return engine.Run(t.Context(), connect.Goal{Params: p}, pair.A, pair.B, func(engine.Event) {}, engine.Options{Now: pair.Now})
		}
		_ = run() // it fails, unless it makes fewer writes
		if err := run(); err != nil {
			t.Errorf("killed at write %d: the next run says: %v", writes, err)
		}
		want, err := render.Install(render.InstallParams{ClusterID: "milan", Image: "example.org/gateway:v1"})
		if err != nil {
			t.Fatal(err)
		}
		names := pair.B.Names()
		for _, o := range want {
			if !slices.Contains(names, apply.Name(o)) {
				t.Errorf("killed at write %d: %s is missing", writes, apply.Name(o))
			}
		}
	}
}

// leftBehind puts a cluster into the state after Liqo's removal.
func leftBehind(t *testing.T, c *flowtest.Cluster, unusable string) {
	t.Helper()
	crds, err := render.CRDs()
	if err != nil {
		t.Fatal(err)
	}
	c.Bare()
	c.Be(func(f *flows.ClusterFacts) {
		for i, o := range crds {
			d := flows.DefinitionFacts{Name: o.GetName(), Manager: "helm"}
			if crd := o.(*apiextensionsv1.CustomResourceDefinition); i == 2 && unusable != "" {
				d.Unusable, crd.Spec.Versions[0].Served = unusable, false
			}
			f.Definitions = append(f.Definitions, d)
		}
	})
	c.PutAs("helm", crds...)
}

func TestDefinitionsThatLiqoLeftBehindAreLeftAlone(t *testing.T) {
	pair := flowtest.NewPair()
	leftBehind(t, pair.B, "")
	p := installing(t)
	plan := flows.PlanConnect(p, flowtest.Facts(pair))
	if s, _ := plan.Step("definitions-b"); s.Status != flows.Done || s.Reason != "12 definitions are helm's and stay as they are" {
		t.Errorf("got %s, %q", s.Status, s.Reason)
	}
	flowtest.MustRun(t, pair, connect.Goal{Params: p})
	for _, c := range pair.Log() {
		if strings.HasPrefix(c.Object, "CustomResourceDefinition ") {
			t.Errorf("%s was %s", c.Object, c.Verb)
		}
	}
	if names := pair.B.Names(); !slices.Contains(names, "Namespace liqo") {
		t.Errorf("got %v, want the namespace", names)
	}
}

func TestDefinitionsThatCantBeUsedAreNamedBeforeAnythingIsChanged(t *testing.T) {
	pair := flowtest.NewPair()
	leftBehind(t, pair.B, "it does not serve version v1alpha1")
	_, err := flowtest.Run(t, pair, connect.Goal{Params: installing(t)})
	failed, ok := errors.AsType[*flows.StepError](err)
	if !ok || failed.Step.Kind != flows.FailedPreflight || failed.Step.Code != flows.CodeSoftware || failed.Hint().IsZero() ||
		failed.Step.Reason != "definition networks.ipam.liqo.io is helm's: it does not serve version v1alpha1" {
		t.Errorf("got %v", err)
	}
	if log := pair.Log(); len(log) > 0 {
		t.Errorf("got writes %v", log)
	}
}

// Another program has applied an older definition over ours. No other program needs its present form, so the
// installation takes it over.
func TestAnOlderDefinitionIsTakenOver(t *testing.T) {
	for _, who := range []string{"kubectl", "helm"} {
		pair := flowtest.NewPair()
		pair.A.Bare()
		if _, err := alone(t, pair, planned(render.InstallParams{})); err != nil {
			t.Fatal(err)
		}
		f := flowtest.Facts(pair)
		found, err := pair.A.Installation(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range found.Objects {
			if d, ok := o.(*apiextensionsv1.CustomResourceDefinition); ok && d.Name == "publickeies.networking.liqo.io" {
				delete(d.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties, "spec")
				d.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: who, Operation: metav1.ManagedFieldsOperationUpdate}}
			}
		}
		flows.Read(flows.AskInstallation{Side: flows.A}, found).Store(&f, f.At)
		plan := planned(render.InstallParams{})(f)
		if s, _ := plan.Step("definitions-a"); plan.Failure() != nil || s.Status != flows.Ready || !s.Force {
			t.Errorf("%s: got %+v, %s, want it to be taken over", who, plan.Failure(), s.Status)
		}
	}
}

func TestWhatAnInstallationWillMakeKnownIsNotInvented(t *testing.T) {
	pair := flowtest.NewPair()
	pair.B.Bare()
	plan := flows.PlanConnect(installing(t), flows.Facts{Sides: [2]flows.ClusterFacts{pair.A.Facts(), pair.B.Facts()}, At: pair.Now()})
	if plan.B != "milan" {
		t.Errorf("got B called %q, want the ID that it will have", plan.B)
	}
	s, ok := plan.Step("configuration-a")
	if !ok || s.Status != flows.Blocked || len(s.Objects) > 0 || !strings.Contains(s.Diff, "<known after the installation>") {
		t.Errorf("got %+v", s)
	}
	needs := rights.Needed(plan, flows.B)
	if !slices.Contains(needs, rights.Permission{Verb: "create", Group: "apps", Resource: "daemonsets", Namespace: "liqo"}) {
		t.Errorf("the plan does not say that it needs rights for the installation: %v", needs)
	}
}

// In TestASecondInstallationIsRefused, the cluster has an installation in another namespace than the given
// one.
func TestASecondInstallationIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		is           flows.ElsewhereFacts
		reason, hint string
	}{
		"ours":   {flows.ElsewhereFacts{Software: flows.Operator, Namespace: "network"}, "liqo-tui is installed in namespace network, not in liqo", "use --remote-liqo-namespace network"},
		"Liqo's": {flows.ElsewhereFacts{Software: flows.Liqo, Namespace: "liqo-system"}, "Liqo is installed in namespace liqo-system, not in liqo", "use --remote-liqo-namespace liqo-system"},
	} {
		t.Run(name, func(t *testing.T) {
			pair := flowtest.NewPair()
			pair.B.Bare()
			pair.B.Be(func(f *flows.ClusterFacts) { f.Elsewhere = c.is })
			if pair.B.Facts().Installable() {
				t.Error("the cluster counts as one on which nothing is installed")
			}
			asked, notAsked := installing(t), installing(t)
			notAsked.Install[flows.B] = nil
			for _, p := range []flows.Params{asked, notAsked} {
				err := engine.Run(t.Context(), connect.Goal{Params: p}, pair.A, pair.B, func(engine.Event) {}, engine.Options{Now: pair.Now})
				var step *flows.StepError
				if !errors.As(err, &step) || step.Step.Kind != flows.FailedPreflight || step.Step.Reason != c.reason || step.Hint().String() != c.hint {
					t.Errorf("got %v, want %q", err, c.reason)
				}
			}
			if log := pair.Log(); len(log) > 0 {
				t.Errorf("got writes %v", log)
			}
			pair.B.Be(func(f *flows.ClusterFacts) { f.Software, f.ID, f.HasCRDs = flows.Operator, "milan", true })
			if s := flows.Obstacles(flows.Facts{Sides: [2]flows.ClusterFacts{pair.A.Facts(), pair.B.Facts()}}); slices.ContainsFunc(s, func(s flows.Step) bool { return s.Reason == c.reason }) {
				t.Errorf("a cluster that has its operator here too is refused: %v", s)
			}
		})
	}
}

// Nothing is installed if this user can't see whether an installation exists.
func TestNothingIsInstalledOverWhatMayNotBeRead(t *testing.T) {
	pair := flowtest.NewPair()
	pair.A.Bare()
	pair.A.Be(func(f *flows.ClusterFacts) { f.ManagersHidden = true })
	_, err := alone(t, pair, planned(render.InstallParams{}))
	var step *flows.StepError
	if !errors.As(err, &step) || step.Step.Kind != flows.FailedAccess || !strings.Contains(step.Step.Reason, "Deployments may not be read in all namespaces") || !strings.Contains(step.Hint().String(), "liqo-tui rbac") {
		t.Errorf("got %v", err)
	}
	if log := pair.Log(); len(log) > 0 {
		t.Errorf("got writes %v", log)
	}
}

// Nodes with both families are accepted, in any order of their addresses.
func TestAClusterWithoutIPv4IsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		addresses []string
		want      string
	}{
		"IPv6 alone": {[]string{"fd00::11"}, "no node of"},
		"IPv6 first": {[]string{"fd00::11", "192.0.2.11"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			pair := flowtest.NewPair()
			pair.A.Bare()
			pair.A.Be(func(f *flows.ClusterFacts) {
				node := flows.NodeFacts{Name: "rome-1", Ready: true}
				for _, a := range c.addresses {
					node.Internal = append(node.Internal, netip.MustParseAddr(a))
				}
				f.Nodes = []flows.NodeFacts{node}
			})
			_, err := alone(t, pair, planned(render.InstallParams{}))
			var step *flows.StepError
			if refused := errors.As(err, &step); refused != (c.want != "") || refused && (step.Step.Kind != flows.FailedPreflight || !strings.Contains(step.Step.Reason, c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if log := pair.Log(); (len(log) > 0) != (c.want == "") {
				t.Errorf("got writes %v", log)
			}
		})
	}
}

// Only Helm changes and removes a Helm release. A connection needs no change of it.
func TestAHelmReleaseIsLeftToHelm(t *testing.T) {
	pair := flowtest.NewPair()
	pair.A.Bare()
	run := func(plan flows.Planner) error {
		return engine.Run(t.Context(), plan, pair.A, engine.Absent{}, func(engine.Event) {}, engine.Options{Now: pair.Now})
	}
	installs := func(image string) flows.Planner {
		return func(f flows.Facts) flows.Plan {
			return install.Plan(render.InstallParams{ClusterID: "rome", Image: image}, f)
		}
	}
	if err := run(installs("example.org/gateway:v1")); err != nil {
		t.Fatal(err)
	}
	for _, o := range pair.A.Objects() {
		if o.GetName() == wire.OperatorName && flows.RefTo(o).Kind == "Deployment" {
			o.SetAnnotations(map[string]string{"meta.helm.sh/release-name": "net", "meta.helm.sh/release-namespace": "liqo"})
			pair.A.PutAs("helm", o)
		}
	}
	pair.Forget()
	for name, plan := range map[string]flows.Planner{"install": installs("example.org/gateway:v2"), "uninstall": install.PlanRemoval} {
		var step *flows.StepError
		if err := run(plan); !errors.As(err, &step) || step.Code() != flows.CodeOwnership || !strings.Contains(err.Error(), "Helm release net in namespace liqo") {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if log := pair.Log(); len(log) > 0 {
		t.Errorf("it wrote %v", log)
	}
	if err := engine.Run(t.Context(), connect.Goal{Params: installing(t)}, pair.A, pair.B, func(engine.Event) {}, engine.Options{Now: pair.Now}); err != nil {
		t.Errorf("connecting: %v", err)
	}
}

// Peers could mistake such an ID for something else. A cluster that has such an ID keeps it.
func TestANewClusterGetsNoIDThatCanBeMistaken(t *testing.T) {
	for _, id := range []wire.ClusterID{"system", "default", "kube-prod", "xn--p1ai", "milan-a8a4c692b93b"} {
		pair := flowtest.NewPair()
		pair.A.Bare()
		pair.A.Be(func(f *flows.ClusterFacts) { f.ID = "" })
		p := render.InstallParams{ClusterID: id, Image: "example.org/gateway:v1"}
		if failed := install.Plan(p, flowtest.Facts(pair)).Failure(); failed == nil || failed.Kind != flows.FailedUsage || !strings.Contains(failed.Reason, string(id)) {
			t.Errorf("%s: got %+v, want a refusal", id, failed)
		}
		pair.A.Be(func(f *flows.ClusterFacts) { f.ID = id })
		if failed := install.Plan(p, flowtest.Facts(pair)).Failure(); failed != nil {
			t.Errorf("%s, which the cluster has already: %s", id, failed.Reason)
		}
	}
}
