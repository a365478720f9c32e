package engine_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/flows/rights"
	"github.com/liqo-tui/liqo-tui/flows/upkeep"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

func invalidNodePort(message string) error {
	return apierrors.NewInvalid(schema.GroupKind{Group: "networking.liqo.io", Kind: "GatewayServer"}, "rome",
		field.ErrorList{field.Invalid(field.NewPath("spec", "endpoint", "nodePort"), 80, message)})
}

// What the API server answers to a change decides how a run goes on.
func TestAnswersThatEndARun(t *testing.T) {
	for name, tc := range map[string]struct {
		answer error
		kind   flows.FailureKind
		code   flows.Code
		hint   string // a part of it
	}{
		"forbidden": {flowtest.Forbidden("ada", "gatewayservers", "liqo-tenant-rome"), flows.FailedAccess, flows.CodeForbidden, "liqo-tui rbac"},
		"credentials": {
			fmt.Errorf("apply: %w", &flows.Problem{Kind: flows.Unauthorized, Message: "milan does not accept the credentials any more", Fix: command.Text("log in to milan")}),
			flows.FailedAccess, flows.CodeCredentials, "log in to milan",
		},
		"conflict":  {&flows.ConflictError{Object: "x", Managers: []string{"argocd"}}, flows.FailedConflict, flows.CodeOwnership, "--force-conflicts"},
		"others'":   {&flows.ForeignError{Object: flows.ObjectRef{Kind: "GatewayServer", Name: "x"}}, flows.FailedConflict, flows.CodeOwnership, "who made it"},
		"node port": {invalidNodePort("provided port is already allocated"), flows.FailedApply, flows.CodeNodePort, "another --node-port"},
		"other":     {errors.New("admission webhook denied the request"), flows.FailedApply, flows.CodeRefused, "run the same command again"},
	} {
		t.Run(name, func(t *testing.T) {
			p := flowtest.NewPair()
			p.B.Behave(func(b *flowtest.Behaviour) { b.WriteErrors = map[int]error{3: tc.answer} })
			r, err := flowtest.Run(t, p, flowtest.Connect(flowtest.NodePort()))
			var failed *flows.StepError
			if !errors.As(err, &failed) || !errors.Is(err, tc.answer) {
				t.Fatalf("got %v, want a failed step because of %v", err, tc.answer)
			}
			s := failed.Step
			if s.Kind != tc.kind || failed.Code() != tc.code || !strings.Contains(s.Hint().String(), tc.hint) || !failed.Changed {
				t.Errorf("got kind %d, code %s, hint %q, changed %v", s.Kind, s.Code, s.Hint(), failed.Changed)
			}
			if waited := r.Events[len(r.Events)-1].At.Sub(r.Events[0].At); waited > 10*time.Second {
				t.Errorf("it took %s to say so", waited)
			}
			p.B.Behave(func(b *flowtest.Behaviour) { b.WriteErrors = nil })
			flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
		})
	}
}

// An object of others under a name of ours stays as it is, though no field of it stands
// against an apply.
func TestANameThatOthersHave(t *testing.T) {
	p := flowtest.NewPair()
	theirs := render.Configuration(p.A.Tenant(), render.Networks{})
	theirs.Labels, theirs.Spec = map[string]string{"team": "a"}, networkingv1beta1.ConfigurationSpec{}
	p.A.PutAs("others", render.TenantNamespace(p.A.Tenant()), theirs)
	before := p.A.Objects()
	_, err := flowtest.Run(t, p, flowtest.Connect(flowtest.NodePort()))
	var foreign *flows.ForeignError
	if !errors.As(err, &foreign) || foreign.Object != flows.RefTo(theirs) {
		t.Errorf("got %v, want %s to be refused", err, apply.Name(theirs))
	}
	for i, o := range before {
		if now := p.A.Objects(); !slices.ContainsFunc(now, func(n wire.Object) bool { return reflect.DeepEqual(n, o) }) {
			t.Errorf("%s was changed: %v", apply.Name(before[i]), now)
		}
	}
}

// Some answers are no end: the next attempt is made by the same run.
func TestAnswersAfterWhichARunGoesOn(t *testing.T) {
	for name, answer := range map[string]error{
		"no answer":   fmt.Errorf("apply: %w", &flows.Problem{Kind: flows.Unreachable, Message: "connection refused"}),
		"overloaded":  apierrors.NewTooManyRequests("slow down", 1),
		"restarting":  apierrors.NewServiceUnavailable("starting"),
		"etcd":        apierrors.NewInternalError(errors.New("etcdserver: leader changed")),
		"was changed": apierrors.NewConflict(schema.GroupResource{Resource: "gatewayservers"}, "rome", errors.New("the object has been modified")),
		"namespace is going": &apierrors.StatusError{ErrStatus: metav1.Status{
			Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden, Message: "forbidden",
			Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}},
		}},
		"namespace is gone": apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "liqo-tenant-rome"),
	} {
		t.Run(name, func(t *testing.T) {
			p := flowtest.NewPair()
			p.B.Behave(func(b *flowtest.Behaviour) { b.WriteErrors = map[int]error{3: answer} })
			r := flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
			said := false
			for _, e := range r.Events {
				s, _ := e.Plan.Step("gateway-server-b")
				said = said || s.Status == flows.Waiting && s.Reason != ""
			}
			if !said {
				t.Error("no event says that the change has to be made again")
			}
		})
	}
}

// Credentials that expire in the middle are not waited for: a person is needed.
func TestCredentialsThatExpireInTheMiddle(t *testing.T) {
	p := flowtest.NewPair()
	p.B.Behave(func(b *flowtest.Behaviour) {
		b.Unreachable = []flowtest.Window{{From: 3}}
		b.Problem = &flows.Problem{Kind: flows.Unauthorized, Message: "milan does not accept the credentials", Fix: command.Text("log in again")}
	})
	r, err := flowtest.Run(t, p, flowtest.Connect(flowtest.NodePort()))
	var failed *flows.StepError
	if !errors.As(err, &failed) || failed.Step.Kind != flows.FailedAccess || !failed.Changed {
		t.Fatalf("got %v", err)
	}
	if waited := r.Events[len(r.Events)-1].At.Sub(r.Events[0].At); waited > 10*time.Second {
		t.Errorf("it took %s to say so", waited)
	}
}

// Whether all of a plan is allowed is asked before any of it is done.
func TestAPlanThatIsNotAllowedIsNotBegun(t *testing.T) {
	p := flowtest.NewPair()
	p.B.Behave(func(b *flowtest.Behaviour) {
		b.Lacks = []rights.Permission{{Verb: "create", Resource: "publickeies"}, {Verb: "patch", Resource: "gatewayservers"}}
	})
	asked := false
	err := engine.Run(t.Context(), flowtest.Connect(flowtest.NodePort()), p.A, p.B, func(engine.Event) {}, engine.Options{
		Now: p.Now, Approve: func(flows.Plan) (bool, error) { asked = true; return true, nil },
	})
	var failed *flows.StepError
	if !errors.As(err, &failed) || failed.Step.Kind != flows.FailedAccess || failed.Code() != flows.CodePermission || failed.Changed || asked {
		t.Fatalf("got %v, asked %v", err, asked)
	}
	const want = `milan: permissions for this plan: user "ada" may not patch gatewayservers.networking.liqo.io in liqo-tenant-rome, create publickeies.networking.liqo.io in liqo-tenant-rome`
	if err.Error() != want {
		t.Errorf("got\n%s\nwant\n%s", err, want)
	}
	if log := p.Log(); len(log) > 0 {
		t.Errorf("it wrote %v", log)
	}
}

// The permissions of a plan are those of what is left of it to do, and no more.
func TestPermissionsAreThoseThatAreUsed(t *testing.T) {
	used := map[string]bool{}
	p := flowtest.NewPair()
	plan := flows.PlanConnect(flowtest.NodePort(), flowtest.Facts(p))
	for _, permission := range rights.Needed(plan, flows.B) {
		used[permission.String()] = true
	}
	for _, want := range []string{
		"create namespaces", "patch namespaces", "create configurations.networking.liqo.io in liqo-tenant-rome",
		"create gatewayservers.networking.liqo.io in liqo-tenant-rome", "create publickeies.networking.liqo.io in liqo-tenant-rome",
	} {
		if !used[want] {
			t.Errorf("not asked for: %s (of %v)", want, used)
		}
	}
	if used["create gatewayclients.networking.liqo.io in liqo-tenant-rome"] || used["delete gatewayservers.networking.liqo.io in liqo-tenant-rome"] {
		t.Errorf("too much is asked for: %v", used)
	}
	flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
	if left := rights.Needed(flows.PlanConnect(flowtest.NodePort(), flowtest.Facts(p)), flows.B); len(left) > 0 {
		t.Errorf("a finished plan needs %v", left)
	}
	resetting := map[string]bool{}
	for _, permission := range rights.Needed(flowtest.Reset(flowtest.Facts(p)), flows.A) {
		resetting[permission.Verb+" "+permission.Resource] = true
	}
	for _, want := range []string{"delete gatewayclients", "delete publickeies", "delete configurations", "delete namespaces"} {
		if !resetting[want] {
			t.Errorf("reset does not ask for: %s (of %v)", want, resetting)
		}
	}
}

// Two programs that want different things undo each other's work. The run does
// not go on for ever, and says who it is.
func TestWhoUndoesAChangeIsNamed(t *testing.T) {
	p := flowtest.NewPair()
	p.B.Behave(func(b *flowtest.Behaviour) { b.MTUFixer = true })
	r, err := flowtest.Run(t, p, flowtest.Connect(flowtest.NodePort()))
	var failed *flows.StepError
	if !errors.As(err, &failed) || failed.Step.Kind != flows.FailedConflict || failed.Code() != flows.CodeUndone {
		t.Fatalf("got %v", err)
	}
	if !strings.Contains(err.Error(), "mtu-fixer writes it too") {
		t.Errorf("it does not say who: %v", err)
	}
	if waited := r.Events[len(r.Events)-1].At.Sub(r.Events[0].At); waited > 30*time.Second {
		t.Errorf("it took %s to see", waited)
	}
}

// A wait that does not end says what was seen last, since when, what the
// cluster says of it, and what to do.
func TestATimeoutSaysAllThatIsKnown(t *testing.T) {
	p := flowtest.NewPair()
	p.B.Behave(func(b *flowtest.Behaviour) { b.LoadBalancerPending = true })
	p.B.Be(func(f *flows.ClusterFacts) {
		f.Events = []flows.EventFacts{
			{Object: "Service elsewhere/gw-rome", Reason: "Other", Message: "not about us", At: flowtest.Epoch()},
			{Object: "Service liqo-tenant-rome/gw-rome", Reason: "SyncLoadBalancerFailed", Message: "no quota left", Count: 14, At: flowtest.Epoch().Add(4 * time.Minute)},
		}
	})
	_, err := flowtest.Run(t, p, flowtest.Connect(flows.Defaults()))
	var failed *flows.StepError
	if !errors.As(err, &failed) {
		t.Fatalf("got %v", err)
	}
	s := failed.Step
	const want = "gave up after 5m: the load balancer has given no address to Service gw-rome yet (for 4m58s); " +
		"warning about Service liqo-tenant-rome/gw-rome: SyncLoadBalancerFailed: no quota left (1m0s ago)"
	if s.Reason != want || s.Code != flows.CodeEndpoint {
		t.Errorf("got %s %s\nwant %s", s.Code, s.Reason, want)
	}
	const hint = "see what the provider says: kubectl --context kind-milan -n liqo-tenant-rome describe service gw-rome; " +
		"or choose --server-service-type NodePort, or give the address: --client-address; to wait longer: run the same command again"
	if s.Hint().String() != hint {
		t.Errorf("hint:\n got %s\nwant %s", s.Hint(), hint)
	}
	if s.Evidence["since"] != "2026-05-04T12:00:02Z" || s.Evidence["observed"] == "" || s.Evidence["event"] == "" {
		t.Errorf("evidence %v", s.Evidence)
	}
}

// A namespace that an admin names is used, and never deleted by us.
func TestANamespaceOfTheAdminsChoice(t *testing.T) {
	p := flowtest.NewPair()
	params := flowtest.NodePort()
	params.Namespaces = [2]string{"network", ""}
	p.A.PutAs("kubectl", &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "network"}})
	flowtest.MustRun(t, p, flowtest.Connect(params))
	if got := p.A.Facts().Clients[0].Namespace; got != "network" {
		t.Errorf("the gateway is in %s", got)
	}
	if got := p.B.Facts().Servers[0].Namespace; got != "liqo-tenant-rome" {
		t.Errorf("the other gateway is in %s", got)
	}
	flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort())) // it is found again without being named
	params.Namespaces[flows.A] = "elsewhere"
	_, err := flowtest.Run(t, p, flowtest.Connect(params))
	var failed *flows.StepError
	if !errors.As(err, &failed) || failed.Code() != flows.CodeNamespace || failed.Step.Kind != flows.FailedConflict {
		t.Errorf("another name later: got %v", err)
	}
	flowtest.MustRun(t, p, flows.Planner(flowtest.Reset))
	p.Settle()
	if left := p.A.Names(); len(left) != 1 || left[0] != "Namespace network" {
		t.Errorf("left on A: %v", left)
	}
}

// A kind that a plan applies and no permission speaks of would be refused in
// the middle of a run.
func TestPermissionsCoverAllKinds(t *testing.T) {
	p := flowtest.NewPair()
	p.B.Be(func(f *flows.ClusterFacts) {
		f.Software, f.HasCRDs, f.ID, f.Networks = flows.NoSoftware, false, "", render.Networks{}
	})
	installation, err := install.New(render.InstallParams{
		ClusterID: "milan", Image: "registry.example.org/liqo-gateway:v1", PodCIDRs: []string{"10.244.0.0/16"}, ServiceCIDR: "10.96.0.0/12",
	})
	if err != nil {
		t.Fatal(err)
	}
	installing := flowtest.NodePort()
	installing.Install[flows.B] = installation
	plans := map[string]flows.Plan{
		"install": flows.PlanConnect(installing, flowtest.Facts(p)), "connect": flows.PlanConnect(flowtest.NodePort(), flowtest.Facts(flowtest.NewPair())),
	}
	made := flowtest.NewPair()
	flowtest.MustRun(t, made, flowtest.Connect(flowtest.NodePort()))
	plans["delegate"] = upkeep.Delegate(upkeep.DelegateParams{APIServer: [2]string{"https://192.0.2.1:6443", "https://192.0.2.2:6443"}}, flowtest.Facts(made))
	plans["rotate"] = upkeep.Rotate(upkeep.StartRotation(flowtest.Facts(made)), flowtest.Facts(made))
	for name, plan := range plans {
		if plan.Failure() != nil {
			t.Fatalf("%s: %+v", name, plan.Failure())
		}
		objects := 0
		for _, s := range plan.Steps {
			if !s.Action.Changes() || s.Status == flows.Done {
				continue
			}
			var refs []flows.ObjectRef
			for _, o := range s.Objects {
				refs = append(refs, flows.RefTo(o))
			}
			if len(refs) == 0 && s.Object.Kind != "" { // what it waits for is not there yet
				refs = append(refs, s.Object)
			}
			for _, ref := range refs {
				objects++
				kind := ref.Kind
				alone := flows.Plan{Steps: []flows.Step{{Side: s.Side, Status: s.Status, Action: s.Action, Object: ref}}}
				for _, permission := range rights.Needed(alone, s.Side) {
					if !slices.Contains(rights.Needed(plan, s.Side), permission) {
						t.Errorf("%s: %s is not asked for %s", name, permission, kind)
					}
				}
				if len(rights.Needed(alone, s.Side)) == 0 {
					t.Errorf("%s applies a %s, which no permission speaks of", name, kind)
				}
			}
		}
		if objects == 0 {
			t.Errorf("%s: the plan applies nothing: the test is void", name)
		}
	}
}

// A namespace that has another peering would lose that one's objects: they are
// found by its label.
func TestANamespaceOfAnotherPeering(t *testing.T) {
	p := flowtest.NewPair()
	params := flowtest.NodePort()
	params.Namespaces = [2]string{"peers", ""}
	flowtest.MustRun(t, p, flowtest.Connect(params))
	third := flowtest.NewPair()
	f := flowtest.Facts(p)
	f.Sides[flows.B] = third.B.Facts()
	f.Sides[flows.B].ID, f.Sides[flows.B].UID = "turin", "uid-turin"
	plan := flows.PlanConnect(params, f)
	if s := plan.Failure(); s == nil || s.Side != flows.A || s.Code != flows.CodeNamespace || !strings.Contains(s.Reason, "milan") {
		t.Errorf("got %+v, want a failure that names the other peering", s)
	}
	params.Namespaces[flows.A] = "others"
	if s := flows.PlanConnect(params, f).Failure(); s != nil {
		t.Errorf("in a namespace of its own: got %+v", s)
	}
	flowtest.MustRun(t, p, flows.Planner(flowtest.Reset))
	p.Settle()
	f.Sides[flows.A], params.Namespaces[flows.A] = p.A.Facts(), "peers"
	if s := flows.PlanConnect(params, f).Failure(); s != nil {
		t.Errorf("after the other peering has gone: got %+v", s)
	}
}
