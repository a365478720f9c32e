package install_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/connect"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/flows/trial"
	"github.com/liqo-tui/liqo-tui/render"
)

const noSuchImage = `ErrImagePull: failed to resolve reference "example.org/gateway:v1": not found`

// installing1 plans an installation on A alone, as liqo-tui install does.
func installing1(p render.InstallParams) flows.Planner {
	return func(f flows.Facts) flows.Plan { return install.Plan(p, f) }
}

func runPlan(t *testing.T, pair *flowtest.Pair, goal flows.Goal, o engine.Options) error {
	t.Helper()
	o.Now = pair.Now
	return engine.Run(t.Context(), goal, pair.A, pair.B, func(engine.Event) {}, o)
}

func TestAnImageThatNoNodePullsStopsBeforeAnythingIsApplied(t *testing.T) {
	for name, plan := range map[string]func(*testing.T) flows.Goal{
		"install": func(*testing.T) flows.Goal {
			return installing1(render.InstallParams{ClusterID: "rome", Image: "example.org/gateway:v1"})
		},
		"connect": func(t *testing.T) flows.Goal { return connect.Goal{Params: installing(t)} },
	} {
		t.Run(name, func(t *testing.T) {
			pair := flowtest.NewPair()
			pair.A.Bare()
			pair.A.Behave(func(b *flowtest.Behaviour) { b.ImageFails = noSuchImage })
			err := runPlan(t, pair, plan(t), engine.Options{})
			var step *flows.StepError
			if !errors.As(err, &step) || step.Code() != flows.CodeImage || step.Step.Kind != flows.FailedPreflight {
				t.Fatalf("got %v, want %s", err, flows.CodeImage)
			}
			if !strings.Contains(err.Error(), "node node-1 can't run example.org/gateway:v1, the registry has no such image or tag: "+noSuchImage) || !strings.Contains(step.Hint().String(), "--image") {
				t.Errorf("got %v, hint %s", err, step.Hint())
			}
			if step.Changed {
				t.Error("it says that something was changed")
			}
			if log := pair.Log(); len(log) > 0 {
				t.Errorf("it wrote %v", log)
			}
		})
	}
}

// An installation is possible without the right to run pods, and on a slow cluster.
func TestAnImageThatNobodyCanTryIsInstalled(t *testing.T) {
	pair := flowtest.NewPair()
	pair.B.Bare()
	pair.B.Behave(func(b *flowtest.Behaviour) { b.ImageUnknown = "you may not create jobs in default" })
	var last flows.Plan
	plan := connect.Goal{Params: installing(t)}.Plan
	if err := runPlan(t, pair, flows.Planner(func(f flows.Facts) flows.Plan { last = plan(f); return last }), engine.Options{}); err != nil {
		t.Fatal(err)
	}
	s, _ := last.Step("image-b")
	if s.Status != flows.Done || s.Reason != "not tried: you may not create jobs in default" {
		t.Errorf("got %s: %s", s.Status, s.Reason)
	}
}

// An admission that refuses the trial's pod would also refuse our programs' pods.
func TestAPodThatAdmissionRefusesStopsTheInstallation(t *testing.T) {
	for _, message := range []string{
		`pods "x" is forbidden: failed quota: team: must specify limits.cpu for: probe`,
		`pods "x" is forbidden: exceeded quota: small, requested: requests.memory=64Mi`,
		`pods "x" is forbidden: minimum memory usage per Container is 128Mi, but request is 32Mi`,
		`pods "x" is forbidden: no PriorityClass with name fast was found`,
		`admission webhook "validate.kyverno.svc-fail" denied the request: images come from mirror.example`,
	} {
		pair := flowtest.NewPair()
		pair.B.Bare()
		plan := connect.Goal{Params: installing(t)}.Plan
		f := flowtest.Facts(pair)
		var tried flows.Step
		for range 3 { // other questions come first
			p := plan(f)
			if tried, _ = p.Step("image-b"); tried.Asks != nil {
				break
			}
			for _, s := range p.Steps {
				if s.Asks != nil {
					flows.Unknown(s.Asks, "not asked").Store(&f, f.At)
				}
			}
		}
		ask, ok := tried.Asks.(flows.AskImage)
		if !ok {
			t.Fatalf("nobody tries the image: %+v", tried)
		}
		ask.Reply(trial.Image{Refused: message}).Store(&f, f.At)
		s, _ := plan(f).Step("image-b")
		if s.Status != flows.Failed || !strings.Contains(s.Reason, message) || !strings.Contains(s.Hint().String(), "quota") {
			t.Errorf("got %s: %s (%s)", s.Status, s.Reason, s.Hint())
		}
	}
}

func TestAnImageIsTriedOnceAndOnlyWhereItIsNew(t *testing.T) {
	pair := flowtest.NewPair()
	pair.B.Bare()
	approved := false
	approve := func(p flows.Plan) (bool, error) {
		approved = true
		if n := len(pair.B.Images()); n > 0 {
			t.Errorf("%d pods were made before the admin was asked", n)
		}
		if s, ok := p.Step("image-b"); !ok || s.Status != flows.Waiting {
			t.Errorf("the plan that is asked about says of the image: %s", s.Status)
		}
		return true, nil
	}
	if err := runPlan(t, pair, connect.Goal{Params: installing(t)}, engine.Options{Approve: approve}); err != nil || !approved {
		t.Fatal(err, approved)
	}
	if a, b := pair.A.Images(), pair.B.Images(); len(a) != 0 || len(b) != 1 || b[0].Image != "example.org/gateway:v1" {
		t.Errorf("got %v and %v, want one of the image on B, where it was missing", a, b)
	}
	// With the same image, also with other settings, nothing is tried.
	back := flowtest.NewPair()
	back.A.Bare()
	for _, p := range []render.InstallParams{
		{ClusterID: "rome", Image: "example.org/gateway:v1"},
		{ClusterID: "rome", Image: "example.org/gateway:v1"},
		{ClusterID: "rome", Image: "example.org/gateway:v1", Pools: []string{"10.0.0.0/8"}},
	} {
		if err := runPlan(t, back, installing1(p), engine.Options{}); err != nil {
			t.Fatal(err)
		}
		if n := len(back.A.Images()); n != 1 {
			t.Errorf("%d trials, want 1", n)
		}
	}
	newer := render.InstallParams{ClusterID: "rome", Image: "example.org/gateway:v2"}
	if err := runPlan(t, back, installing1(newer), engine.Options{}); err != nil {
		t.Fatal(err)
	}
	if all := back.A.Images(); len(all) != 2 || all[1].Image != "example.org/gateway:v2" {
		t.Errorf("got %v, want another one of v2", all)
	}
}

func TestTheTrialHasThePodSettingsOfTheOperator(t *testing.T) {
	pair := flowtest.NewPair()
	pair.A.Bare()
	pods := &render.ProgramSettings{
		PodSettings: render.PodSettings{ImagePullSecrets: []corev1.LocalObjectReference{{Name: "registry"}}, NodeSelector: map[string]string{"pool": "all"}},
		Operator:    render.PodSettings{NodeSelector: map[string]string{"pool": "edge"}},
	}
	if err := runPlan(t, pair, installing1(render.InstallParams{ClusterID: "rome", Image: "example.org/gateway:v1", Pods: pods}), engine.Options{}); err != nil {
		t.Fatal(err)
	}
	all := pair.A.Images()
	if len(all) != 1 || all[0].Pods.NodeSelector["pool"] != "edge" || !slices.Equal(all[0].Pods.ImagePullSecrets, pods.ImagePullSecrets) {
		t.Errorf("got %+v", all)
	}
}

// A dry run changes nothing, and creates no pod.
func TestADryRunPullsNothing(t *testing.T) {
	pair := flowtest.NewPair()
	pair.A.Bare()
	if _, err := engine.DryRun(t.Context(), connect.Goal{Params: installing(t)}, pair.A, pair.B, true, engine.Options{Now: pair.Now}); err != nil {
		t.Fatal(err)
	}
	if all := pair.A.Images(); len(all) > 0 {
		t.Errorf("got %v", all)
	}
}

// slowNode is a cluster whose node takes longer to pull an image than a run may wait.
type slowNode struct {
	*flowtest.Cluster
	pair *flowtest.Pair
	ends time.Duration // the time until the trial has to end
}

func (s *slowNode) Ask(ctx context.Context, q flows.Question) (flows.Reply, error) {
	if q, ok := q.(flows.AskImage); ok {
		at, _ := ctx.Deadline()
		s.ends = time.Until(at)
		s.pair.Advance(time.Hour)
		return flows.Unknown(q, "it is still being pulled"), nil
	}
	return s.Cluster.Ask(ctx, q)
}

func TestASlowPullTakesNoTimeFromTheInstallation(t *testing.T) {
	pair := flowtest.NewPair()
	pair.A.Bare()
	slow := &slowNode{Cluster: pair.A, pair: pair}
	plan := installing1(render.InstallParams{ClusterID: "rome", Image: "example.org/gateway:v1"})
	o := engine.Options{Now: pair.Now, Timeout: 40 * time.Second}
	if err := engine.Run(t.Context(), plan, slow, engine.Absent{}, func(engine.Event) {}, o); err != nil {
		t.Error(err)
	}
	if slow.ends <= 0 || slow.ends > o.Timeout {
		t.Errorf("the trial may take %s of %s", slow.ends, o.Timeout)
	}
}
