package peer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/check"
	"github.com/liqo-tui/liqo-tui/flows/setting"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// OffloadParams are the admin's settings for offloaded namespaces. An empty field keeps the present
// value.
type OffloadParams struct {
	Namespaces []string
	Pods       string
	Mapping    string
	RemoteName string
	Selectors  []string // label selectors of virtual nodes: one of them has to match
}

// OffloadSettings returns the descriptions of all settings in OffloadParams.
func OffloadSettings() []setting.Setting[OffloadParams] {
	type params = OffloadParams
	choice := func(name, help, unset string, at func(*params) *string, options ...string) setting.Setting[params] {
		s := setting.Setting[params]{Name: name, Help: help + ": " + strings.Join(options, ", ") + " (default: unchanged, at first " + unset + ")", Kind: setting.Choice, Empty: "unchanged", Store: setting.TextAt(at)}
		for _, o := range options {
			s.Options = append(s.Options, setting.Option{Value: o})
		}
		return s
	}
	return []setting.Setting[params]{
		choice("pod-offloading-strategy", "where pods may run", "LocalAndRemote", func(p *params) *string { return &p.Pods }, "Local", "Remote", "LocalAndRemote"),
		choice("namespace-mapping-strategy", "how the namespace is called on providers", "DefaultName", func(p *params) *string { return &p.Mapping }, "DefaultName", "EnforceSameName", "SelectedName"),
		{Name: "remote-namespace-name", Help: "name on providers, for SelectedName", Empty: "unchanged", Valid: validNamespace, Store: setting.TextAt(func(p *params) *string { return &p.RemoteName })},
	}
}

// validNamespace returns the reason that text can't be the name of a namespace; nil if it can.
func validNamespace(text string) error {
	if wrong := validation.IsDNS1123Label(text); len(wrong) > 0 {
		return errors.New("want the name of a namespace: " + wrong[0])
	}
	return nil
}

// terms translates the label selectors into the terms of a node selector.
func (p OffloadParams) terms() (terms []corev1.NodeSelectorTerm, err error) {
	operators := map[selection.Operator]corev1.NodeSelectorOperator{
		selection.In: corev1.NodeSelectorOpIn, selection.NotIn: corev1.NodeSelectorOpNotIn, selection.Equals: corev1.NodeSelectorOpIn,
		selection.DoubleEquals: corev1.NodeSelectorOpIn, selection.NotEquals: corev1.NodeSelectorOpNotIn,
		selection.Exists: corev1.NodeSelectorOpExists, selection.DoesNotExist: corev1.NodeSelectorOpDoesNotExist,
		selection.GreaterThan: corev1.NodeSelectorOpGt, selection.LessThan: corev1.NodeSelectorOpLt,
	}
	for _, text := range p.Selectors {
		parsed, err := labels.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("--selector %q: %w", text, err)
		}
		var term corev1.NodeSelectorTerm
		requirements, _ := parsed.Requirements()
		for _, r := range requirements {
			term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{Key: r.Key(), Operator: operators[r.Operator()], Values: r.ValuesUnsorted()})
		}
		if len(term.MatchExpressions) == 0 {
			return nil, fmt.Errorf("--selector %q: want labels of virtual nodes, such as liqo.io/remote-cluster-id=milan", text)
		}
		slices.SortFunc(term.MatchExpressions, func(a, b corev1.NodeSelectorRequirement) int { return strings.Compare(a.Key, b.Key) })
		terms = append(terms, term)
	}
	return terms, nil
}

// Validate returns all problems of p as one error; nil if there are none.
func (p OffloadParams) Validate() error {
	_, err := p.terms()
	err = errors.Join(setting.Check(OffloadSettings(), p), err)
	selected := p.Mapping == string(offloadingv1beta1.SelectedNameMappingStrategyType)
	if (p.RemoteName != "") != selected {
		err = errors.Join(err, errors.New("--remote-namespace-name and --namespace-mapping-strategy SelectedName: give both or none"))
	}
	return err
}

// Offload returns the plan by which pods of some namespaces of cluster A may run on its virtual nodes.
func Offload(p OffloadParams, f flows.Facts) flows.Plan {
	plan := flows.Plan{A: f.Sides[flows.A].Name()}
	if plan.Steps = consumerObstacles(f); len(plan.Steps) > 0 {
		return plan
	}
	for _, name := range p.Namespaces {
		plan.Steps = append(plan.Steps, p.offload(name, f)...)
	}
	for _, name := range p.Namespaces {
		if _, there := offloading(f.Sides[flows.A], name); !there {
			plan.Kept = append(plan.Kept, fmt.Sprintf("pods that already run in %s stay on their nodes", name))
		}
	}
	if f.Sides[flows.A].Can().SendMentioned {
		plan.Kept = append(plan.Kept, "ConfigMaps and Secrets that pods on a virtual node use are copied to the provider, so the provider's admins can read them")
	}
	if f.Sides[flows.A].Can().LeaveToleration {
		plan.Kept = append(plan.Kept, tolerance(f.Sides[flows.A]))
		if p.Pods == string(offloadingv1beta1.RemotePodOffloadingStrategyType) && !tolerated(f.Sides[flows.A]) {
			plan.Kept = append(plan.Kept, fmt.Sprintf("pods can still run on this cluster's own nodes, unless each pod has nodeSelector: {%s: %s}", peering.LabelNodeType, peering.NodeType))
		}
	}
	return plan
}

// tolerated reports whether the cluster adds the toleration of virtual nodes to new pods. A policy of
// our installation does that if the version of Kubernetes supports such policies.
func tolerated(c flows.ClusterFacts) bool { return c.Version != "" && !before(c.Version, 36) }

// tolerance describes the toleration that a pod needs to run on a virtual node.
func tolerance(c flows.ClusterFacts) string {
	if tolerated(c) {
		return "each new pod that can run on a virtual node gets the toleration automatically, but not pods of DaemonSets"
	}
	return "a pod runs on a virtual node only if it tolerates the node's taint; add this to the pods: " + tolerations()
}

// tolerations returns the toleration that a pod needs, in the form of a manifest.
func tolerations() string {
	t := peering.Toleration()
	return fmt.Sprintf("tolerations: [{key: %s, operator: %s, effect: %s}]", t.Key, t.Operator, t.Effect)
}

// consumerObstacles returns a failed step if cluster A can't be a consumer now; else nil.
func consumerObstacles(f flows.Facts) []flows.Step {
	if steps := flows.NoAnswer(f, flows.A); len(steps) > 0 {
		return steps
	}
	c := f.Sides[flows.A]
	switch {
	case !c.Can().Consume || c.Lending == nil:
		return []flows.Step{flows.Refuse(flows.A, check.Lending, "Liqo", flows.FailedPreflight, fmt.Sprintf("%s has neither Liqo nor our operator installed as a consumer (found: %s)", c.Name(), c.Software),
			command.Hintf("run %s, or install Liqo", command.Ours("install").Flag("--peering", string(render.PeeringConsumer)).On(c.Flags())))}
	case len(c.Lending.Missing) > 0 && c.Software == flows.Operator:
		return []flows.Step{flows.Refuse(flows.A, check.Lending, "Liqo's API", flows.FailedPreflight, fmt.Sprintf("%s does not serve %s", c.Name(), strings.Join(c.Lending.Missing, ", ")), command.Hintf("upgrade the installation: %s", c.Ours("install")))}
	case len(c.Lending.Missing) > 0:
		return []flows.Step{flows.Refuse(flows.A, check.Lending, "Liqo's API", flows.FailedPreflight, fmt.Sprintf("%s does not serve %s", c.Name(), strings.Join(c.Lending.Missing, ", ")), command.Text("install all CRDs of Liqo"))}
	}
	p := pair{Connection: flows.Connection{Facts: f}}
	if reason := p.down(flows.A, webhook); reason != "" {
		return []flows.Step{flows.Refuse(flows.A, check.Lending, "Liqo's programs", flows.FailedPreflight, reason, p.readLog(flows.A, webhook))}
	}
	return nil
}

// offloading returns the NamespaceOffloading of a namespace, and whether there is one.
func offloading(c flows.ClusterFacts, namespace string) (*offloadingv1beta1.NamespaceOffloading, bool) {
	o := first(in(namespace, c.Lending.Offloadings, func(o *offloadingv1beta1.NamespaceOffloading) bool { return o.Name == peering.OffloadingName }))
	return o, o != nil
}

func (p OffloadParams) offload(name string, f flows.Facts) []flows.Step {
	live, there := offloading(f.Sides[flows.A], name)
	want, reason, hint := p.wanted(name, live, f.Sides[flows.A])
	if reason != "" {
		return []flows.Step{flows.Refuse(flows.A, check.Offloading, "namespace "+name, flows.FailedPreflight, reason, hint)}
	}
	s := flows.Ensure(flows.A, "offloading-"+name, live, want)
	wait := flows.Step{ID: flows.IDOf(flows.A, "offloaded-"+name), Side: flows.A, Action: flows.Wait, Title: "namespace " + name, Status: flows.Waiting, Code: check.Offloading}
	if !there || s.Status != flows.Done {
		wait.Status, wait.Reason, wait.Code = flows.Blocked, "needs the NamespaceOffloading", ""
		return []flows.Step{s, wait}
	}
	wait.Fix = []command.Hint{command.Hintf("to see its state: %s", f.Sides[flows.A].See(s.Object))}
	switch phase := live.Status.OffloadingPhase; {
	case live.Status.ObservedGeneration != live.Generation || phase == "" || phase == offloadingv1beta1.InProgressOffloadingPhaseType:
		who := "Liqo"
		if f.Sides[flows.A].Software == flows.Operator {
			who = "the operators"
		}
		wait.Reason = fmt.Sprintf("waiting for %s to create the namespace on the providers%s", who, failing(live))
	case phase == offloadingv1beta1.ReadyOffloadingPhaseType:
		wait.Status, wait.Code, wait.Reason = flows.Done, "", "is "+live.Status.RemoteNamespaceName+" on "+strings.Join(ready(live), ", ")
	case phase == offloadingv1beta1.NoClusterSelectedOffloadingPhaseType:
		wait.Status, wait.Code, wait.Reason = flows.Done, "", "no virtual node is selected, so pods stay on this cluster"
	default:
		wait.Reason = string(phase) + failing(live)
		if f.At.Add(f.Sides[flows.A].ClockAhead).Sub(changed(live)) > deniedTime {
			wait.Fail(flows.FailedConflict, check.Offloading, wait.Reason, command.Hintf("usually, the provider already has a namespace with this name: run %s, then offload the namespace with another --namespace-mapping-strategy", unoffload(name, f.Sides[flows.A])))
		}
	}
	return []flows.Step{s, wait}
}

// changed returns the time of the last change that a provider has reported.
func changed(o *offloadingv1beta1.NamespaceOffloading) (at time.Time) {
	at = o.CreationTimestamp.Time
	for _, conditions := range o.Status.RemoteNamespacesConditions {
		for _, c := range conditions {
			if c.LastTransitionTime.After(at) {
				at = c.LastTransitionTime.Time
			}
		}
	}
	return at
}

// failing returns the end of a sentence that names the providers without the namespace, with their
// reasons; "" if there are none.
func failing(o *offloadingv1beta1.NamespaceOffloading) string {
	var out []string
	for cluster, conditions := range o.Status.RemoteNamespacesConditions {
		for _, c := range conditions {
			if c.Type == offloadingv1beta1.NamespaceReady && c.Status != corev1.ConditionTrue {
				out = append(out, strings.TrimSuffix(fmt.Sprintf("%s says %s: %s", cluster, c.Reason, c.Message), ": "))
			}
		}
	}
	if len(out) == 0 {
		return ""
	}
	slices.Sort(out)
	return ": " + strings.Join(out, "; ")
}

// ready returns the cluster IDs of the providers that have the namespace.
func ready(o *offloadingv1beta1.NamespaceOffloading) []string {
	var out []string
	for cluster, conditions := range o.Status.RemoteNamespacesConditions {
		if slices.ContainsFunc(conditions, func(c offloadingv1beta1.RemoteNamespaceCondition) bool {
			return c.Type == offloadingv1beta1.NamespaceReady && c.Status == corev1.ConditionTrue
		}) {
			out = append(out, cluster)
		}
	}
	slices.Sort(out)
	return out
}

// unoffload returns the command that ends the offloading of a namespace.
func unoffload(namespace string, c flows.ClusterFacts) command.Command {
	return command.Ours("unoffload", "namespace", namespace).On(c.Flags())
}

const maxName = 63

// wanted returns the NamespaceOffloading with the settings of p. Settings that p leaves out keep their
// present values. If it is not possible, wanted returns a reason and a hint.
func (p OffloadParams) wanted(name string, live *offloadingv1beta1.NamespaceOffloading, c flows.ClusterFacts) (want wire.Object, reason string, hint command.Hint) {
	ns := c.FindNamespace(name)
	if ns == nil {
		return nil, fmt.Sprintf("%s has no namespace %s", c.ID, name), command.Hintf("create it first: %s", c.Kubectl("create", "namespace", name))
	}
	if ns.DeletionTimestamp != nil {
		return nil, fmt.Sprintf("namespace %s is being deleted", name), command.Text("wait until it is deleted, then run the command again")
	}
	o := peering.OffloadingParams{
		Pods: string(offloadingv1beta1.LocalAndRemotePodOffloadingStrategyType), Mapping: string(offloadingv1beta1.DefaultNameMappingStrategyType),
	}
	if live != nil {
		o = peering.OffloadingParams{
			Pods: string(live.Spec.PodOffloadingStrategy), Mapping: string(live.Spec.NamespaceMappingStrategy),
			RemoteName: live.Spec.RemoteNamespaceName, Selector: live.Spec.ClusterSelector.NodeSelectorTerms,
		}
		if p.Mapping != "" && p.Mapping != o.Mapping || p.RemoteName != "" && p.RemoteName != o.RemoteName {
			return nil, fmt.Sprintf("namespace %s is already offloaded, and its name on providers can't be changed", name),
				command.Hintf("run %s, which deletes the namespace on the providers and everything in it; then offload it again", unoffload(name, c))
		}
	}
	if p.Pods != "" {
		o.Pods = p.Pods
	}
	if p.Mapping != "" {
		o.Mapping, o.RemoteName = p.Mapping, p.RemoteName
	}
	if terms, err := p.terms(); err == nil && len(terms) > 0 {
		o.Selector = terms
	}
	if o.Mapping == string(offloadingv1beta1.DefaultNameMappingStrategyType) && len(name)+1+len(c.ID) > maxName {
		return nil, fmt.Sprintf("the name of the namespace on providers would be %s-%s, which is longer than %d characters", name, c.ID, maxName),
			command.Text("choose another name: --namespace-mapping-strategy SelectedName --remote-namespace-name NAME")
	}
	return peering.Offloading(name, o), "", command.Hint{}
}

// Unoffload returns the plan that ends the offloading of namespaces. The providers then delete the
// mapped namespaces and everything in them.
func Unoffload(namespaces []string, f flows.Facts) flows.Plan {
	plan := flows.Plan{A: f.Sides[flows.A].Name()}
	if plan.Steps = consumerObstacles(f); len(plan.Steps) > 0 {
		return plan
	}
	for _, name := range namespaces {
		live, _ := offloading(f.Sides[flows.A], name)
		interrupts := ""
		if live != nil && len(ready(live)) > 0 {
			interrupts = fmt.Sprintf("namespace %s on %s is deleted, and everything in it", live.Status.RemoteNamespaceName, strings.Join(ready(live), ", "))
			if n := running(f.Sides[flows.A], name); n > 0 {
				interrupts += fmt.Sprintf("; running pods that end: %d", n)
			}
		}
		object := flows.ObjectRef{Kind: "NamespaceOffloading", Namespace: name, Name: peering.OffloadingName}
		s := flows.Remove(flows.A, "offloading-"+name, object, live, interrupts)
		s.Title = "offloading of namespace " + name
		if s.Status == flows.Waiting {
			s.Fix = []command.Hint{command.Hintf("the deletion waits for the providers; to see its state: %s", f.Sides[flows.A].See(object))}
		}
		plan.Steps = append(plan.Steps, s)
	}
	return plan
}

// Unoffloaded describes the result of [Unoffload]. It names the mapped namespaces that providers have
// not deleted yet.
func Unoffloaded(namespaces []string, f flows.Facts) string {
	out := []string{fmt.Sprintf("No pods of %s run on virtual nodes any more.", flows.Joined(namespaces))}
	for i := range f.Sides[flows.A].Lending.Maps {
		m := &f.Sides[flows.A].Lending.Maps[i]
		for _, name := range namespaces {
			if at, there := m.Status.CurrentMapping[name]; there && peering.MapOf(m) == "" {
				out = append(out, strings.TrimSuffix(fmt.Sprintf("%s has not deleted %s yet: %s", m.Name, at.RemoteNamespace, peering.ProblemOf(m, name)), ": ")+".")
			}
		}
	}
	return strings.Join(out, "\n")
}

// running returns the number of pods of a namespace that run on virtual nodes.
func running(c flows.ClusterFacts, namespace string) int {
	return len(in(namespace, c.Lending.Pods, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning }))
}

// Offloaded describes the result of [Offload], with one sentence for each namespace.
func Offloaded(namespaces []string, f flows.Facts) string {
	var out []string
	for _, name := range namespaces {
		live, _ := offloading(f.Sides[flows.A], name)
		switch {
		case live == nil:
		case live.Status.OffloadingPhase == offloadingv1beta1.NoClusterSelectedOffloadingPhaseType:
			out = append(out, fmt.Sprintf("Namespace %s is offloaded, but no virtual node is selected, so its pods stay on this cluster.", name))
		default:
			out = append(out, fmt.Sprintf("Pods of namespace %s may run on %s, in namespace %s.", name, strings.Join(ready(live), ", "), live.Status.RemoteNamespaceName))
		}
	}
	if len(out) > 0 && f.Sides[flows.A].Can().LeaveToleration && !tolerated(f.Sides[flows.A]) {
		out = append(out, "These pods need "+tolerations()+".")
	}
	return strings.Join(out, "\n")
}
