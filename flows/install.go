package flows

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/liqo-tui/liqo-tui/render"
)

// notYet stands in a plan for what is known only after the installation.
const notYet networkingv1beta1.CIDR = "<known after the installation>"

// Installable reports whether our operator can be brought to the cluster as the
// first part of a plan: nothing manages connections there, from no namespace.
func (c ClusterFacts) Installable() bool {
	return c.Problem == nil && c.Software == NoSoftware && c.Elsewhere.Software == NoSoftware
}

// installation is what it takes to bring our operator to the sides that want
// it, and the facts as a plan may count on them: of a side whose operator does
// not work yet, they are what the installation will make of it.
func installation(p Params, f Facts) (steps []Step, expected Facts, done bool) {
	expected, done = f, true
	for _, side := range []Side{A, B} {
		c := f.Side(side)
		if p.Install[side] == nil || c.Problem != nil || c.Software == Liqo {
			continue
		}
		s := p.Install[side].steps(side, c)
		steps = append(steps, s...)
		if !slices.ContainsFunc(s, func(s Step) bool { return s.Status != Done }) {
			continue
		}
		done = false
		*expected.side(side) = promised(c, p.Install[side].params)
	}
	return steps, expected, done
}

func (f *Facts) side(s Side) *ClusterFacts {
	if s == B {
		return &f.Remote
	}
	return &f.Local
}

// InstallNamespace refuses a namespace whose pod security allows none of our
// programs; nil if ns, which may not exist yet, can be used.
func InstallNamespace(side Side, c ClusterFacts, name string) *Step {
	ns := c.FindNamespace(name)
	if ns == nil || render.CreatedByUs(ns) || refusesPods(ns) == "" {
		return nil
	}
	s := failure(side, CodeNamespace, "the operator can be installed", FailedPreflight, refusesPods(ns),
		fmt.Sprintf("choose another with --liqo-namespace, or allow it: kubectl label namespace %s %s=privileged --overwrite", name, podSecurity))
	return &s
}

// promised is a cluster as it will be.
func promised(c ClusterFacts, p render.InstallParams) ClusterFacts {
	c.ID, c.Software, c.Operator = cmp.Or(c.ID, p.ClusterID), Operator, OperatorFacts{}
	c.HasCRDs, c.MissingKinds = true, nil
	c.Namespace = cmp.Or(p.Namespace, c.Namespace)
	if len(c.Networks.Pod) == 0 {
		c.Networks.Pod = []networkingv1beta1.CIDR{notYet}
	}
	if len(c.Networks.External) == 0 {
		c.Networks.External = []networkingv1beta1.CIDR{networkingv1beta1.CIDR(cmp.Or(p.ExternalCIDR, render.DefaultExternalCIDR))}
	}
	return c
}

// Installation is our operator as it is to be brought to one cluster.
type Installation struct {
	params             render.InstallParams
	definitions, rest  []render.Object
	definitionsSummary string
	restSummary, diff  string
}

// NewInstallation renders an installation. Plans that contain it don't have to.
func NewInstallation(p render.InstallParams) (*Installation, error) {
	p.Namespace = cmp.Or(p.Namespace, render.DefaultNamespace)
	objects, err := render.Install(p)
	if err = errors.Join(Check(InstallSettings(), p), err); err != nil {
		return nil, fmt.Errorf("install on %s: %w", p.ClusterID, err)
	}
	i := &Installation{params: p}
	for _, o := range objects {
		switch o.(type) {
		case *apiextensionsv1.CustomResourceDefinition, *corev1.Namespace:
			i.definitions = append(i.definitions, o)
		default:
			i.rest = append(i.rest, o)
			i.diff += render.Diff(nil, o)
		}
	}
	i.definitionsSummary = fmt.Sprintf("%d objects, with namespace %s", len(i.definitions), p.Namespace)
	i.restSummary = fmt.Sprintf("%d objects, image %s", len(i.rest), p.Image)
	return i, nil
}

// ClusterID is by which name the peers will know the cluster.
func (i *Installation) ClusterID() render.ClusterID { return i.params.ClusterID }

// steps are the definitions, what they define and the programs, and the wait
// until those work. The operator's Deployment is applied last of all: where it
// exists nothing is missing, and before that all is applied again, because an
// earlier run may have ended anywhere.
func (i *Installation) steps(side Side, c ClusterFacts) []Step {
	if c.Software == NoSoftware {
		// Somebody was faster, or something is in the way.
		for _, obstacle := range []*Step{InstalledElsewhere(side, c), InstallNamespace(side, c, i.params.Namespace), UnusableDefinition(side, c.Definitions)} {
			if obstacle != nil {
				return []Step{*obstacle}
			}
		}
	}
	if c.ID != "" && c.ID != i.params.ClusterID {
		return []Step{failure(side, CodeSoftware, "installation", FailedPreflight,
			fmt.Sprintf("its peers know the cluster as %s, not %s", c.ID, i.params.ClusterID),
			"use the ID that it has: --cluster-id")}
	}
	definitions := Step{ID: stepID(side, "definitions"), Side: side, Action: Create, Title: "definitions of Liqo's API", Status: Done}
	operator := Step{ID: stepID(side, "operator"), Side: side, Action: Create, Title: "liqo-tui operator and fabric", Status: Done}
	works := Step{ID: stepID(side, "operator-works"), Side: side, Action: Wait, Title: "operator works", Status: Waiting}
	if c.Software != Operator {
		definitions.Status, definitions.Objects, definitions.Reason = Ready, i.definitions, i.definitionsSummary
		operator.Status, operator.Objects, operator.Reason, operator.Diff = Ready, i.rest, i.restSummary, i.diff
		if len(c.Definitions) > 0 {
			missing, namespace := i.missing(c.Definitions)
			definitions.Objects, definitions.Reason = missing, KeptDefinitions(c.Definitions)
			if len(missing) == 0 {
				definitions.Status = Done
			}
			operator.Objects = append(namespace, i.rest...)
		}
		works.Status, works.Reason = Blocked, "needs the operator"
		if !c.HasCRDs {
			operator.Status, operator.Reason = Blocked, "needs the definitions"
		}
		return []Step{definitions, operator, works}
	}
	problem := unfit(side, c)
	switch {
	case c.Operator.Refuses:
		works = *problem
	case c.Operator.Problem != "":
		works.Reason = c.Operator.Problem
	case problem != nil:
		works.Reason = problem.Reason
	default:
		works.Status = Done
	}
	return []Step{definitions, operator, works}
}

// missing are the definitions that nobody else has put there, and the namespace,
// which is applied by another step then: there may be no definition left.
func (i *Installation) missing(others []DefinitionFacts) (definitions, namespace []render.Object) {
	for _, o := range i.definitions {
		_, definition := o.(*apiextensionsv1.CustomResourceDefinition)
		switch {
		case !definition:
			namespace = append(namespace, o)
		case !slices.ContainsFunc(others, func(d DefinitionFacts) bool { return d.Name == o.GetName() }):
			definitions = append(definitions, o)
		}
	}
	return definitions, namespace
}

// KeptDefinitions says that another program's definitions are used as they are.
func KeptDefinitions(others []DefinitionFacts) string {
	if len(others) == 1 {
		return fmt.Sprintf("%s is %s and stays as it is", others[0].Name, others[0].owner())
	}
	return fmt.Sprintf("%d definitions are %s and stay as they are", len(others), others[0].owner())
}

func (d DefinitionFacts) owner() string {
	if d.Manager == "" {
		return "another program's"
	}
	return d.Manager + "'s"
}

// UnusableDefinition refuses a cluster whose definitions of Liqo's kinds are
// another program's and not those that our programs need, as a failed step; nil
// if there is none. They are not replaced: what was made of them may still be in
// use.
func UnusableDefinition(side Side, others []DefinitionFacts) *Step {
	i := slices.IndexFunc(others, func(d DefinitionFacts) bool { return d.Unusable != "" })
	if i < 0 {
		return nil
	}
	d := others[i]
	s := failure(side, CodeSoftware, "the definitions of Liqo's API", FailedPreflight,
		fmt.Sprintf("definition %s is %s: %s", d.Name, d.owner(), d.Unusable),
		fmt.Sprintf("bring it to that of Liqo v1.2 with the program that made it; or, if nothing uses it any more, delete it and all objects of its kind: kubectl delete crd %s", d.Name))
	return &s
}

// behindInstallation holds back what needs an operator that does not work yet.
func behindInstallation(steps []Step) []Step {
	for i := range steps {
		if s := &steps[i]; s.Status == Ready || s.Status == Waiting {
			s.Status, s.Reason, s.Objects = Blocked, "needs the operator", nil
		}
	}
	return steps
}
