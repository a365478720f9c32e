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

// OffloadParams are the admin's choices for offloaded namespaces. "" keeps the present value.
type OffloadParams struct {
	Namespaces []string
	Pods       string
	Mapping    string
	RemoteName string
	Selectors  []string // label selectors of virtual nodes: one of them has to match
}

// OffloadSettings lists all settings of offloading.
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

func validNamespace(text string) error {
	if wrong := validation.IsDNS1123Label(text); len(wrong) > 0 {
		return errors.New("want the name of a namespace: " + wrong[0])
	}
	return nil
}

// terms translates the label selectors into a node selector.
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

// Validate reports all problems of p, joined.
func (p OffloadParams) Validate() error {
	_, err := p.terms()
	err = errors.Join(setting.Check(OffloadSettings(), p), err)
	selected := p.Mapping == string(offloadingv1beta1.SelectedNameMappingStrategyType)
	if (p.RemoteName != "") != selected {
		err = errors.Join(err, errors.New("--remote-namespace-name and --namespace-mapping-strategy SelectedName: give both or none"))
	}
	return err
}

// Offload lets pods of a cluster's namespaces run on its virtual nodes.
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
			plan.Kept = append(plan.Kept, fmt.Sprintf("pods that run in %s already stay where they are", name))
		}
	}
	if f.Sides[flows.A].Can().SendMentioned {
		plan.Kept = append(plan.Kept, "ConfigMaps and Secrets that pods on a virtual node mention go along with them: the provider's admins can read them")
	}
	if f.Sides[flows.A].Can().LeaveToleration {
		plan.Kept = append(plan.Kept, tolerance(f.Sides[flows.A]))
		if p.Pods == string(offloadingv1beta1.RemotePodOffloadingStrategyType) && !tolerated(f.Sides[flows.A]) {
			plan.Kept = append(plan.Kept, fmt.Sprintf("nothing keeps pods from this cluster's own nodes but their own nodeSelector: {%s: %s}", peering.LabelNodeType, peering.NodeType))
		}
	}
	return plan
}

// tolerated reports whether Kubernetes itself adds the toleration of virtual nodes to pods, by a
// policy of our installation.
func tolerated(c flows.ClusterFacts) bool { return c.Version != "" && !before(c.Version, 36) }

// tolerance describes the toleration that a pod needs to run on a virtual node.
func tolerance(c flows.ClusterFacts) string {
	if tolerated(c) {
		return "pods that are made from now on, and can run there, get the toleration by themselves; those of DaemonSets don't"
	}
	return "pods get on a virtual node if they tolerate its taint; nobody adds that to them: " + tolerations()
}

// tolerations is the toleration that a pod needs, as in a manifest.
func tolerations() string {
	t := peering.Toleration()
	return fmt.Sprintf("tolerations: [{key: %s, operator: %s, effect: %s}]", t.Key, t.Operator, t.Effect)
}

func consumerObstacles(f flows.Facts) []flows.Step {
	if steps := flows.NoAnswer(f, flows.A); len(steps) > 0 {
		return steps
	}
	c := f.Sides[flows.A]
	switch {
	case !c.Can().Consume || c.Lending == nil:
		return []flows.Step{flows.Refuse(flows.A, check.Lending, "Liqo", flows.FailedPreflight, fmt.Sprintf("%s has no Liqo (%s), and no operator of ours that is told that the cluster is a consumer", c.Name(), c.Software),
			command.Hintf("%s, or install Liqo", command.Ours("install").Flag("--peering", string(render.PeeringConsumer)).On(c.Flags())))}
	case len(c.Lending.Missing) > 0 && c.Software == flows.Operator:
		return []flows.Step{flows.Refuse(flows.A, check.Lending, "Liqo's API", flows.FailedPreflight, fmt.Sprintf("%s does not serve %s", c.Name(), strings.Join(c.Lending.Missing, ", ")), command.Hintf("bring the installation up to date: %s", c.Ours("install")))}
	case len(c.Lending.Missing) > 0:
		return []flows.Step{flows.Refuse(flows.A, check.Lending, "Liqo's API", flows.FailedPreflight, fmt.Sprintf("%s does not serve %s", c.Name(), strings.Join(c.Lending.Missing, ", ")), command.Text("install Liqo's CRDs completely"))}
	}
	p := pair{Connection: flows.Connection{Facts: f}}
	if reason := p.down(flows.A, webhook); reason != "" {
		return []flows.Step{flows.Refuse(flows.A, check.Lending, "Liqo's programs", flows.FailedPreflight, reason, p.readLog(flows.A, webhook))}
	}
	return nil
}

func offloading(c flows.ClusterFacts, namespace string) (*offloadingv1beta1.NamespaceOffloading, bool) {
	o := first(in(namespace, c.Lending.Offloadings, func(o *offloadingv1beta1.NamespaceOffloading) bool { return o.Name == peering.OffloadingName }))
	return o, o != nil
}

// offload lists the steps for one namespace.
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
	wait.Fix = []command.Hint{command.Hintf("see: %s", f.Sides[flows.A].See(s.Object))}
	switch phase := live.Status.OffloadingPhase; {
	case live.Status.ObservedGeneration != live.Generation || phase == "" || phase == offloadingv1beta1.InProgressOffloadingPhaseType:
		who := "Liqo"
		if f.Sides[flows.A].Software == flows.Operator {
			who = "the operators"
		}
		wait.Reason = fmt.Sprintf("waiting for %s to make it on the providers%s", who, failing(live))
	case phase == offloadingv1beta1.ReadyOffloadingPhaseType:
		wait.Status, wait.Code, wait.Reason = flows.Done, "", "is "+live.Status.RemoteNamespaceName+" on "+strings.Join(ready(live), ", ")
	case phase == offloadingv1beta1.NoClusterSelectedOffloadingPhaseType:
		wait.Status, wait.Code, wait.Reason = flows.Done, "", "no virtual node is selected: pods stay here"
	default:
		wait.Reason = string(phase) + failing(live)
		if f.At.Add(f.Sides[flows.A].ClockAhead).Sub(changed(live)) > deniedTime {
			wait.Fail(flows.FailedConflict, check.Offloading, wait.Reason, command.Hintf("most often the name is taken on the provider: %s, then offload it with another --namespace-mapping-strategy", unoffload(name, f.Sides[flows.A])))
		}
	}
	return []flows.Step{s, wait}
}

// changed is the time of the last change that a provider reported.
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

// failing names the providers on which the namespace can't be created, as the end of a sentence.
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

func unoffload(namespace string, c flows.ClusterFacts) command.Command {
	return command.Ours("unoffload", "namespace", namespace).On(c.Flags())
}

// maxName is the longest name of a namespace.
const maxName = 63

// wanted is the offloading with the given settings; the others keep their values.
func (p OffloadParams) wanted(name string, live *offloadingv1beta1.NamespaceOffloading, c flows.ClusterFacts) (want wire.Object, reason string, hint command.Hint) {
	ns := c.FindNamespace(name)
	if ns == nil {
		return nil, fmt.Sprintf("%s has no namespace %s", c.ID, name), command.Hintf("create it first: %s", c.Kubectl("create", "namespace", name))
	}
	if ns.DeletionTimestamp != nil {
		return nil, fmt.Sprintf("namespace %s is being deleted", name), command.Text("wait for that")
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
			return nil, fmt.Sprintf("%s is offloaded already, and its name on providers can't be changed", name),
				command.Hintf("%s, which deletes it on the providers with everything in it; then offload it again", unoffload(name, c))
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
		return nil, fmt.Sprintf("its name on providers would be %s-%s, which is longer than %d characters", name, c.ID, maxName),
			command.Text("choose another: --namespace-mapping-strategy SelectedName --remote-namespace-name NAME")
	}
	return peering.Offloading(name, o), "", command.Hint{}
}

// Unoffload ends the offloading: the providers delete the mapped namespaces with everything in
// them.
func Unoffload(namespaces []string, f flows.Facts) flows.Plan {
	plan := flows.Plan{A: f.Sides[flows.A].Name()}
	if plan.Steps = consumerObstacles(f); len(plan.Steps) > 0 {
		return plan
	}
	for _, name := range namespaces {
		live, _ := offloading(f.Sides[flows.A], name)
		interrupts := ""
		if live != nil && len(ready(live)) > 0 {
			interrupts = fmt.Sprintf("namespace %s on %s is deleted, with everything in it", live.Status.RemoteNamespaceName, strings.Join(ready(live), ", "))
			if n := running(f.Sides[flows.A], name); n > 0 {
				interrupts += fmt.Sprintf("; pods that run there and end: %d", n)
			}
		}
		object := flows.ObjectRef{Kind: "NamespaceOffloading", Namespace: name, Name: peering.OffloadingName}
		s := flows.Remove(flows.A, "offloading-"+name, object, live, interrupts)
		s.Title = "offloading of namespace " + name
		if s.Status == flows.Waiting {
			s.Fix = []command.Hint{command.Hintf("it waits for the providers; see: %s", f.Sides[flows.A].See(object))}
		}
		plan.Steps = append(plan.Steps, s)
	}
	return plan
}

// Unoffloaded describes the result, and names the namespaces that providers have not deleted yet.
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

func running(c flows.ClusterFacts, namespace string) int {
	return len(in(namespace, c.Lending.Pods, func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodRunning }))
}

// Offloaded describes the result, one sentence for each namespace.
func Offloaded(namespaces []string, f flows.Facts) string {
	var out []string
	for _, name := range namespaces {
		live, _ := offloading(f.Sides[flows.A], name)
		switch {
		case live == nil:
		case live.Status.OffloadingPhase == offloadingv1beta1.NoClusterSelectedOffloadingPhaseType:
			out = append(out, fmt.Sprintf("Namespace %s is offloaded, but no virtual node is selected: its pods stay here.", name))
		default:
			out = append(out, fmt.Sprintf("Pods of namespace %s may run on %s, in namespace %s.", name, strings.Join(ready(live), ", "), live.Status.RemoteNamespaceName))
		}
	}
	if len(out) > 0 && f.Sides[flows.A].Can().LeaveToleration && !tolerated(f.Sides[flows.A]) {
		out = append(out, "They need "+tolerations()+".")
	}
	return strings.Join(out, "\n")
}
