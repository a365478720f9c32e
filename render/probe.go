package render

import (
	"encoding/json"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A probe is a pod that measures the path to the pod of another probe, in the
// other cluster. What it shall measure it learns from an annotation of its pod,
// once the other pod's address is known; what it found is its termination
// message.
const (
	ProbeName = "liqo-tui-probe"
	// ProbePort is the UDP and TCP port on which a probe answers.
	ProbePort = 6095
	// ProbeContainer is the probe among the containers of its pod.
	ProbeContainer = "probe"
	// AnnotationProbeTarget on a probe's pod holds a [ProbeTarget].
	AnnotationProbeTarget = "liqo-tui.dev/probe-target"
	// ProbeTargetFile is where the probe finds that annotation.
	ProbeTargetFile = "/etc/liqo-tui/probe-target"

	// A probe that nobody removes ends and goes by itself.
	probeLife  = 120 // seconds
	probeRests = 30  // seconds that an ended one is kept
)

// ProbeTarget is what a probe shall measure.
type ProbeTarget struct {
	Address string `json:"address"` // of the other probe's pod, as this cluster sees it
	// Throughput asks for it, too. It fills the path for a few seconds.
	Throughput bool `json:"throughput,omitempty"`
}

// ProbeResult is what a probe found, in the direction from it to its target.
type ProbeResult struct {
	Sent      int   `json:"sent"`
	Received  int   `json:"received"`
	MinMicros int64 `json:"minMicros,omitempty"` // round trips
	AvgMicros int64 `json:"avgMicros,omitempty"`
	MaxMicros int64 `json:"maxMicros,omitempty"`
	// LargestPacket that reached the target unfragmented, in bytes with its IP
	// header; 0 if none did.
	LargestPacket int `json:"largestPacket,omitempty"`
	// Bits per second to and from the target; 0 if not measured.
	ToBits   int64 `json:"toBits,omitempty"`
	FromBits int64 `json:"fromBits,omitempty"`
	// Error is why the probe could not measure, or not all.
	Error string `json:"error,omitempty"`
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
	Tenant Tenant
	Name   string
	Image  string
	Token  string // what both probes know, in hexadecimal digits
	Owner  Object // the probe goes with it; with its kind set
}

// ProbeLabels are those of a probe's pod for a peer, besides the Job's own.
func ProbeLabels(remote ClusterID) map[string]string {
	return map[string]string{LabelAppName: ProbeName, LabelManagedBy: ManagedBy, LabelRemoteCluster: string(remote)}
}

// Probe is the Job that runs a probe's pod. A Job, because Kubernetes removes it
// after its end, even if the program that made it has died.
func Probe(p ProbeParams) *batchv1.Job {
	labels := ProbeLabels(p.Tenant.Remote)
	return &batchv1.Job{
		TypeMeta: metav1.TypeMeta{APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job"},
		ObjectMeta: metav1.ObjectMeta{
			Name: p.Name, Namespace: p.Tenant.Namespace, Labels: labels, OwnerReferences: []metav1.OwnerReference{OwnerReference(p.Owner)},
		},
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
}

// probePod needs no rights at all: it passes the strictest Pod Security Standard.
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
			Args: []string{"echo", fmt.Sprintf("--port=%d", ProbePort), "--token=" + p.Token, "--target-file=" + ProbeTargetFile},
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
