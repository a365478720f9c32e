package control_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

// installed are the policies and bindings that an API server has.
type installed struct {
	client.Reader

	policies map[string]bool
	bindings map[string]*admissionregistrationv1.ValidatingAdmissionPolicyBinding
	err      error
	asked    int
}

func (i *installed) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	i.asked++
	switch o := o.(type) {
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		if b := i.bindings[key.Name]; b != nil && i.err == nil {
			b.DeepCopyInto(o)
			return nil
		}
	default:
		if i.policies[key.Name] && i.err == nil {
			return nil
		}
	}
	if i.err != nil {
		return i.err
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func install(t *testing.T, role render.PeeringRole) *installed {
	t.Helper()
	objects, err := render.Install(render.InstallParams{ClusterID: "rome", Image: "x", Peering: role})
	if err != nil {
		t.Fatal(err)
	}
	all := &installed{policies: map[string]bool{}, bindings: map[string]*admissionregistrationv1.ValidatingAdmissionPolicyBinding{}}
	for _, o := range objects {
		switch o := o.(type) {
		case *admissionregistrationv1.ValidatingAdmissionPolicy:
			all.policies[o.Name] = true
		case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
			all.bindings[o.Name] = o
		}
	}
	return all
}

// Missing finds each missing policy of a role, each missing binding, and each binding that denies less.
func TestAGuardIsMissed(t *testing.T) {
	for _, role := range []render.PeeringRole{render.PeeringConsumer, render.PeeringProvider} {
		missing := func(change func(*installed)) (string, error) {
			all := install(t, role)
			change(all)
			return (&control.Guards{Reader: all, Role: role}).Missing(t.Context())
		}
		if why, err := missing(func(*installed) {}); why != "" || err != nil {
			t.Errorf("%s: got %q, %v of a whole installation", role, why, err)
		}
		for _, name := range role.Guards() {
			for what, change := range map[string]func(*installed){
				"ValidatingAdmissionPolicy " + name:                    func(i *installed) { delete(i.policies, name) },
				"there is no ValidatingAdmissionPolicyBinding " + name: func(i *installed) { delete(i.bindings, name) },
				name + " does not deny": func(i *installed) {
					i.bindings[name].Spec.ValidationActions = []admissionregistrationv1.ValidationAction{admissionregistrationv1.Audit}
				},
				name + " does not deny everything":                 func(i *installed) { i.bindings[name].Spec.MatchResources = &admissionregistrationv1.MatchResources{} },
				name + " does not deny everything that its policy": func(i *installed) { i.bindings[name].Spec.PolicyName = "x" },
			} {
				if why, err := missing(change); err != nil || !strings.Contains(why, what) || !strings.Contains(why, "an installation with role "+string(role)) {
					t.Errorf("%s: got %q, %v, want %q", role, why, err, what)
				}
			}
		}
		if why, err := missing(func(i *installed) { i.err = errors.New("no answer") }); err == nil || why != "" {
			t.Errorf("%s: got %q, %v of an API server that does not answer", role, why, err)
		}
	}
}

// A complete result is used again for a moment. Missing policies and errors are read again each time.
func TestGuardsAreNotAskedForEachTime(t *testing.T) {
	all := install(t, render.PeeringProvider)
	g := &control.Guards{Reader: all, Role: render.PeeringProvider}
	look := func() (string, int) {
		before := all.asked
		why, err := g.Missing(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return why, all.asked - before
	}
	taken := all.bindings[wire.MappedAccessName]
	delete(all.bindings, wire.MappedAccessName)
	for range 2 {
		if why, asked := look(); why == "" || asked == 0 {
			t.Errorf("got %q after %d requests, want it missed", why, asked)
		}
	}
	all.bindings[wire.MappedAccessName] = taken
	if why, asked := look(); why != "" || asked != 2*len(render.PeeringProvider.Guards()) {
		t.Errorf("got %q after %d requests", why, asked)
	}
	if why, asked := look(); why != "" || asked != 0 {
		t.Errorf("got %q after %d requests, want none", why, asked)
	}
}
