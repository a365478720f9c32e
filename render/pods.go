package render

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// PodSettings are an admin's settings for pods. The fields have the same names and meanings as those of a
// PodSpec. An empty field keeps the program's own setting.
type PodSettings struct {
	ImagePullSecrets  []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
	NodeSelector      map[string]string             `json:"nodeSelector,omitempty"`
	Tolerations       []corev1.Toleration           `json:"tolerations,omitempty"`
	Affinity          *corev1.Affinity              `json:"affinity,omitempty"`
	PriorityClassName string                        `json:"priorityClassName,omitempty"`
	Resources         *corev1.ResourceRequirements  `json:"resources,omitempty"` // of each container
	Labels            map[string]string             `json:"labels,omitempty"`
	Annotations       map[string]string             `json:"annotations,omitempty"`
	LogLevel          LogLevel                      `json:"logLevel,omitempty"` // of the program; default: info
}

// LogLevel is the lowest severity that a program logs.
type LogLevel string

// LogLevels are all log levels.
var LogLevels = []LogLevel{"debug", "info", "warn", "error"}

// UnmarshalJSON refuses unknown levels.
func (l *LogLevel) UnmarshalJSON(text []byte) error {
	var word string
	if err := json.Unmarshal(text, &word); err != nil {
		return err
	}
	if *l = LogLevel(word); word != "" && !slices.Contains(LogLevels, *l) {
		return fmt.Errorf("logLevel %q: want debug, info, warn or error", word)
	}
	return nil
}

// logLevelVariable is the environment variable with a program's level. cmd/liqo-gateway reads it.
const logLevelVariable = "LOG_LEVEL"

// ProgramSettings are the settings of all pods of an installation, with exceptions for each
// program.
type ProgramSettings struct {
	PodSettings `json:",inline"`

	Operator PodSettings `json:"operator,omitzero"`
	Fabric   PodSettings `json:"fabric,omitzero"`
	Gateway  PodSettings `json:"gateway,omitzero"`
}

// ParsePods reads the settings of pods from YAML. It refuses unknown fields.
func ParsePods(text []byte) (*ProgramSettings, error) {
	s := &ProgramSettings{}
	return s, yaml.UnmarshalStrict(text, s)
}

// annotationPods on the operator's Deployment contains the settings as JSON, so that a repeated installation
// without settings keeps them.
const annotationPods = "liqo-tui.dev/pod-settings"

func (s *ProgramSettings) remember(d *appsv1.Deployment) error {
	if s == nil {
		return nil
	}
	text, err := json.Marshal(s)
	if err != nil {
		return fmt.Errorf("settings of pods: %w", err)
	}
	d.Annotations = union(map[string]string{annotationPods: string(text)}, d.Annotations)
	return nil
}

// rememberedPods reads the settings from the operator's Deployment; nil if there are none.
func rememberedPods(d *appsv1.Deployment) *ProgramSettings {
	text, ok := d.Annotations[annotationPods]
	s, err := ParsePods([]byte(text))
	if !ok || err != nil { // there are no settings, or another release has written them
		return nil
	}
	return s
}

// ForOperator returns the settings of the operator's pod.
func (s *ProgramSettings) ForOperator() PodSettings {
	if s == nil {
		return PodSettings{}
	}
	return s.Operator.or(s.PodSettings)
}

// ForGateway returns the settings of gateways' pods.
func (s *ProgramSettings) ForGateway() PodSettings {
	if s == nil {
		return PodSettings{}
	}
	return s.Gateway.or(s.PodSettings)
}

// ForFabric returns the settings of node agents' pods.
func (s *ProgramSettings) ForFabric() PodSettings {
	if s == nil {
		return PodSettings{}
	}
	return s.Fabric.or(s.PodSettings)
}

// or returns s with the values of common instead of empty fields.
func (s PodSettings) or(common PodSettings) PodSettings {
	if s.ImagePullSecrets == nil {
		s.ImagePullSecrets = common.ImagePullSecrets
	}
	if s.NodeSelector == nil {
		s.NodeSelector = common.NodeSelector
	}
	if s.Tolerations == nil {
		s.Tolerations = common.Tolerations
	}
	if s.Labels == nil {
		s.Labels = common.Labels
	}
	if s.Annotations == nil {
		s.Annotations = common.Annotations
	}
	s.Affinity = cmp.Or(s.Affinity, common.Affinity)
	s.PriorityClassName = cmp.Or(s.PriorityClassName, common.PriorityClassName)
	s.Resources = cmp.Or(s.Resources, common.Resources)
	s.LogLevel = cmp.Or(s.LogLevel, common.LogLevel)
	return s
}

// Apply gives a pod the settings of all our pods, and the settings of s. It keeps the program's own labels,
// because selectors use them.
func (s PodSettings) Apply(meta *metav1.ObjectMeta, spec *corev1.PodSpec) {
	spec.SecurityContext = cmp.Or(spec.SecurityContext, &corev1.PodSecurityContext{})
	spec.SecurityContext.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	spec.NodeSelector = union(s.NodeSelector, map[string]string{corev1.LabelOSStable: "linux"})
	spec.Affinity = realNodes(s.Affinity)
	spec.Tolerations = append(spec.Tolerations, s.Tolerations...)
	spec.ImagePullSecrets = s.ImagePullSecrets
	spec.PriorityClassName = cmp.Or(s.PriorityClassName, spec.PriorityClassName)
	if s.Resources != nil {
		for i := range spec.Containers {
			c := &spec.Containers[i]
			c.Resources = withRequests(*s.Resources, c.Resources.Requests)
		}
	}
	if s.LogLevel != "" {
		for i := range spec.Containers {
			spec.Containers[i].Env = append(spec.Containers[i].Env, corev1.EnvVar{Name: logLevelVariable, Value: string(s.LogLevel)})
		}
	}
	meta.Labels = union(s.Labels, meta.Labels)
	meta.Annotations = union(s.Annotations, meta.Annotations)
}

// withRequests adds the program's own request for each resource without a requested amount. Otherwise
// Kubernetes requests as much as the limit, so that a limit of two CPUs would reserve both.
func withRequests(asked corev1.ResourceRequirements, own corev1.ResourceList) corev1.ResourceRequirements {
	requests := maps.Clone(own)
	if requests == nil {
		requests = corev1.ResourceList{}
	}
	maps.Copy(requests, asked.Requests)
	if asked.Requests = nil; len(requests) > 0 {
		asked.Requests = requests
	}
	return asked
}

// union returns the entries of both maps. If both have a key, the value of own counts.
func union(asked, own map[string]string) map[string]string {
	if len(asked)+len(own) == 0 {
		return nil
	}
	all := maps.Clone(asked)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, own)
	return all
}

// virtualNodes are the labels of nodes without a kernel of their own: those of Liqo, of virtual-kubelet
// (Azure's virtual nodes have its label) and of AWS Fargate. Pods that need the node's network can't run on
// them, and a DaemonSet that tolerates everything would wait for them for ever.
var virtualNodes = []corev1.NodeSelectorRequirement{
	{Key: "liqo.io/type", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"virtual-node"}},
	{Key: "type", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"virtual-kubelet"}},
	{Key: "eks.amazonaws.com/compute-type", Operator: corev1.NodeSelectorOpNotIn, Values: []string{"fargate"}},
}

// VirtualNode reports whether a node with these labels has no kernel of its own. If such a node has an
// address, it is the address of a pod.
func VirtualNode(labels map[string]string) bool {
	return slices.ContainsFunc(virtualNodes, func(r corev1.NodeSelectorRequirement) bool { return slices.Contains(r.Values, labels[r.Key]) })
}

// Excluded returns the reason that the programs of an installation don't run on a node with these labels; ""
// if they run there. It gives the same result as the selectors of their pods.
func Excluded(labels map[string]string) string {
	if os := labels[corev1.LabelOSStable]; os != "linux" {
		return "runs " + cmp.Or(os, "an unknown system")
	}
	for _, r := range virtualNodes {
		if value, ok := labels[r.Key]; ok && slices.Contains(r.Values, value) {
			return "virtual, " + r.Key + "=" + value
		}
	}
	return ""
}

// FitnessLabels returns the labels of a node that [Excluded] reads.
func FitnessLabels(all map[string]string) map[string]string {
	out := map[string]string{}
	for key, value := range all {
		if key == corev1.LabelOSStable || slices.ContainsFunc(virtualNodes, func(r corev1.NodeSelectorRequirement) bool { return r.Key == key }) {
			out[key] = value
		}
	}
	return out
}

// PlacesFabric reports whether an admin has chosen the nodes on which agents run.
func (s *ProgramSettings) PlacesFabric() bool {
	return s != nil && (s.NodeSelector != nil || s.Affinity != nil || s.Fabric.NodeSelector != nil || s.Fabric.Affinity != nil)
}

// realNodes returns the affinity asked, with a condition that also excludes virtual nodes.
func realNodes(asked *corev1.Affinity) *corev1.Affinity {
	affinity := asked.DeepCopy()
	if affinity == nil {
		affinity = &corev1.Affinity{}
	}
	affinity.NodeAffinity = cmp.Or(affinity.NodeAffinity, &corev1.NodeAffinity{})
	required := cmp.Or(affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution,
		&corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{}}})
	for i := range required.NodeSelectorTerms { // terms are alternatives, so each needs the condition
		term := &required.NodeSelectorTerms[i]
		term.MatchExpressions = append(term.MatchExpressions, virtualNodes...)
	}
	affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = required
	return affinity
}
