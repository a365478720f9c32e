package render

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// A probe is a pod that measures the path to a probe's pod in the other cluster. An annotation contains its
// task when the other pod's address is known. Its termination message contains the result.
const (
	ProbeName = "liqo-tui-probe"
	// ProbePort is the UDP and TCP port on which a probe answers.
	ProbePort = 6095
	// ProbeContainer is the name of the probe's container in its pod.
	ProbeContainer = "probe"
	// AnnotationProbeTarget on a probe's pod holds a [ProbeTarget].
	AnnotationProbeTarget = "liqo-tui.dev/probe-target"
	// ProbeTargetFile is the file in which the probe finds this annotation.
	ProbeTargetFile = "/etc/liqo-tui/probe-target"

	// A probe that no program removes ends by itself, and Kubernetes deletes it.
	probeLife  = 120 // seconds until it ends
	probeRests = 30  // seconds until it is deleted after its end
)

// ProbeTarget is a probe's task.
type ProbeTarget struct {
	Address string `json:"address,omitempty"` // of the other probe's pod, as seen from this cluster
	// Throughput is set if the probe also measures throughput. This fills the path for a few seconds.
	Throughput bool `json:"throughput,omitempty"`
	// Ways is the task before the clusters are connected: the probe tries ways to the other cluster.
	Ways *ProbeWays `json:"ways,omitempty"`
	// Call is the task if the probe calls a Service, and nothing else.
	Call *ProbeCall `json:"call,omitempty"`
}

// ProbeCall is a request to a Service, as any pod can make it.
type ProbeCall struct {
	Host string `json:"host"` // a name for the pod's resolver, or an address
	Port uint16 `json:"port"`
	// HTTP is set if the port answers HTTP. At any other port, an accepted TCP connection is the answer.
	HTTP bool `json:"http,omitempty"`
}

// URL returns the target of the request: a URL, or host:port.
func (c ProbeCall) URL() string {
	switch address := net.JoinHostPort(c.Host, fmt.Sprint(c.Port)); {
	case !c.HTTP:
		return address
	case c.Port == 80:
		return "http://" + c.Host
	default:
		return "http://" + address
	}
}

// ProbeCallResult is the result of [ProbeCall].
type ProbeCallResult struct {
	Address string `json:"address,omitempty"` // of the last request; "" if the name has no address
	Micros  int64  `json:"micros,omitempty"`  // from the request to the answer
	Status  int    `json:"status,omitempty"`  // of HTTP
	// Problem is the reason that there is no answer; "" if there is one.
	Problem string `json:"problem,omitempty"`
}

// ProbeWays are the ways to the other cluster that a probe has to try.
type ProbeWays struct {
	Token     string   `json:"token"`               // the token that the other probe answers
	Addresses []string `json:"addresses,omitempty"` // possible addresses of the other probe, host:port
	API       ProbeAPI `json:"api,omitzero"`
	// Alone is set if no other probe dials this one.
	Alone bool `json:"alone,omitempty"`
	// Until is the time at which the probe has to end, by the clock of its cluster.
	Until time.Time `json:"until"`
}

// ProbeAPI is an API server whose version a probe requests, without credentials.
type ProbeAPI struct {
	URL string `json:"url,omitempty"` // "" if there is none
	// CA are the trusted certificates, as PEM. If it is empty, every certificate is accepted.
	CA []byte `json:"ca,omitempty"`
}

// ProbeResult is the result of a probe, in the direction from the probe to its target.
type ProbeResult struct {
	Sent      int   `json:"sent"`
	Received  int   `json:"received"`
	MinMicros int64 `json:"minMicros,omitempty"` // round trips
	AvgMicros int64 `json:"avgMicros,omitempty"`
	MaxMicros int64 `json:"maxMicros,omitempty"`
	// LargestPacket is the largest packet that reached the target unfragmented, in bytes with its IP header;
	// 0 if none did.
	LargestPacket int `json:"largestPacket,omitempty"`
	// ToBits and FromBits are bits per second to and from the target; 0 if they were not measured.
	ToBits   int64 `json:"toBits,omitempty"`
	FromBits int64 `json:"fromBits,omitempty"`
	// Refused is the reason from an ICMP error, and its sender, if nothing was received; "" if there was no
	// such error.
	Refused string `json:"refused,omitempty"`
	// Error is the reason that the probe could not measure everything.
	Error string `json:"error,omitempty"`
	// Ways is the result of [ProbeTarget.Ways].
	Ways *ProbeWaysResult `json:"ways,omitempty"`
	// Call is the result of [ProbeTarget.Call].
	Call *ProbeCallResult `json:"call,omitempty"`
}

// ProbeWaysResult is the result of [ProbeWays].
type ProbeWaysResult struct {
	Dials []ProbeDial `json:"dials,omitempty"`
	// Arrived is the number of the other probe's packets, and From are their source addresses on arrival.
	Arrived int      `json:"arrived,omitempty"`
	From    []string `json:"from,omitempty"`
	// API is the HTTP status of the API server's answer; 0 if there was none.
	API      int    `json:"api,omitempty"`
	APIError string `json:"apiError,omitempty"`
}

// ProbeDial is the result of dialling one address.
type ProbeDial struct {
	Address       string `json:"address"`
	Sent          int    `json:"sent,omitempty"`
	Received      int    `json:"received,omitempty"`
	AvgMicros     int64  `json:"avgMicros,omitempty"`
	LargestPacket int    `json:"largestPacket,omitempty"`
	Error         string `json:"error,omitempty"`
}

// ParseProbeResult reads a probe's termination message.
func ParseProbeResult(message string) (ProbeResult, error) {
	var r ProbeResult
	if err := json.Unmarshal([]byte(message), &r); err != nil {
		return ProbeResult{}, fmt.Errorf("the probe's pod left no result: %q", message)
	}
	return r, nil
}

// ProbeParams describe a probe.
type ProbeParams struct {
	Tenant Tenant // without a remote cluster if there is no connection yet
	Name   string
	Image  string
	Token  string      // a secret of both probes, in hexadecimal digits
	Owner  wire.Object // Kubernetes deletes the probe with this object, which has its kind set; nil for none
	Pods   PodSettings
	// Node is the node on which the probe has to run, in spite of its taints; "" leaves the choice to the
	// scheduler, which avoids nodes of gateways.
	Node string
}

// ProbeLabels returns the labels of a probe's pod for a peer, without the labels that the Job adds.
func ProbeLabels(remote wire.ClusterID) map[string]string {
	labels := map[string]string{wire.LabelAppName: ProbeName, wire.LabelManagedBy: wire.ManagedBy}
	if remote != "" {
		labels[wire.LabelRemoteCluster] = string(remote)
	}
	return labels
}

// Probe returns the Job that runs a probe's pod. Kubernetes removes a Job after its end, even if the program
// that made it has died.
func Probe(p ProbeParams) *batchv1.Job {
	labels := ProbeLabels(p.Tenant.Remote)
	job := &batchv1.Job{
		TypeMeta:   metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{Name: p.Name, Namespace: p.Tenant.Namespace, Labels: labels},
		Spec: batchv1.JobSpec{
			BackoffLimit:            new(int32(0)),
			ActiveDeadlineSeconds:   new(int64(probeLife)),
			TTLSecondsAfterFinished: new(int32(probeRests)),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       probePod(p),
			},
		},
	}
	affinity, tolerations := probeNode(p.Node)
	p.Pods.Affinity = cmp.Or(p.Pods.Affinity, affinity)
	p.Pods.Tolerations = append(slices.Clip(p.Pods.Tolerations), tolerations...)
	p.Pods.Apply(&job.Spec.Template.ObjectMeta, &job.Spec.Template.Spec)
	if p.Owner != nil {
		job.OwnerReferences = []metav1.OwnerReference{OwnerReference(p.Owner)}
	}
	return job
}

// ProbeService returns a Service that leads to a probe's pod as the Service of a gateway server with these
// parameters leads to the gateway. Kubernetes deletes it with the Job, which has to exist.
func ProbeService(job *batchv1.Job, p ServerParams) *corev1.Service {
	owner := job.DeepCopy()
	owner.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("Job")) // typed clients drop the kind
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{
			Name: job.Name, Namespace: job.Namespace, Labels: job.Labels, OwnerReferences: []metav1.OwnerReference{OwnerReference(owner)},
		},
		Spec: corev1.ServiceSpec{
			Type: p.ServiceType, LoadBalancerIP: p.LoadBalancerIP, PublishNotReadyAddresses: true, IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Selector: map[string]string{batchv1.JobNameLabel: job.Name},
			Ports: []corev1.ServicePort{{
				Name: "probe", Protocol: corev1.ProtocolUDP, Port: int32(p.Port), NodePort: int32(p.NodePort), TargetPort: intstr.FromInt32(ProbePort),
			}},
		},
	}
}

// probeNode binds a probe to this node, or keeps it away from the gateway's node, where its packets would
// pass no other node's filters.
func probeNode(node string) (*corev1.Affinity, []corev1.Toleration) {
	if node == "" {
		gateways := metav1.LabelSelector{MatchLabels: map[string]string{wire.LabelComponent: "gateway"}}
		return &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
			Weight: 100, PodAffinityTerm: corev1.PodAffinityTerm{LabelSelector: &gateways, TopologyKey: corev1.LabelHostname},
		}}}}, nil
	}
	only := corev1.NodeSelectorTerm{MatchFields: []corev1.NodeSelectorRequirement{{
		Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
	}}}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{only}},
	}}, []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
}

// probePod returns a pod without any rights, which passes the strictest Pod Security Standard.
func probePod(p ProbeParams) corev1.PodSpec {
	const volume, user = "target", 65532
	return corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyNever,
		AutomountServiceAccountToken:  new(false),
		EnableServiceLinks:            new(false),
		TerminationGracePeriodSeconds: new(int64(1)),
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(user)), RunAsGroup: new(int64(user)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{{
			Name: ProbeContainer, Image: p.Image, ImagePullPolicy: corev1.PullIfNotPresent,
			TerminationMessagePolicy: corev1.TerminationMessageFallbackToLogsOnError,
			Args:                     []string{"echo", fmt.Sprintf("--port=%d", ProbePort), "--token=" + p.Token, "--target-file=" + ProbeTargetFile},
			SecurityContext: &corev1.SecurityContext{
				AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
			},
			VolumeMounts: []corev1.VolumeMount{{Name: volume, MountPath: "/etc/liqo-tui", ReadOnly: true}},
		}},
		Volumes: []corev1.Volume{{Name: volume, VolumeSource: corev1.VolumeSource{DownwardAPI: &corev1.DownwardAPIVolumeSource{
			Items: []corev1.DownwardAPIVolumeFile{{
				Path:     "probe-target",
				FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['" + AnnotationProbeTarget + "']"},
			}},
		}}}},
	}
}
