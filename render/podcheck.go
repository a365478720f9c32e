package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// The operator makes pods from gateway templates of any user with the right to write templates. So these pods
// must have no more rights than our own: every setting that is not known to be harmless is refused. The rules
// are the Pod Security Standard "baseline", checked with Kubernetes' own code. The standard forbids NET_ADMIN,
// which a gateway needs, so the namespace can't enforce it. Our own rules replace those of the standard for
// volumes and capabilities: they allow NET_ADMIN, but fewer kinds of volumes, and fewer other capabilities.
// Further rules are about things that the standard ignores: the gateway's ServiceAccount, its Secret, the
// choice of nodes, and priorities.

// gatewayCapabilities are the capabilities that a gateway's container may add; see gatewayTemplate.
var gatewayCapabilities = []corev1.Capability{"NET_ADMIN", "MKNOD"}

// RefusedError lists the settings of a template that a gateway must not have.
type RefusedError struct {
	what   string // the object that must not have these settings
	Fields []FieldError
}

func (e *RefusedError) Error() string {
	found := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		found[i] = fmt.Sprintf("%s (%s)", f.Problem, f.Field)
	}
	return e.what + " may not have " + strings.Join(found, ", ")
}

// CheckPods reports every setting of d's pods that a gateway's pod does not need, if the setting would affect
// more than the pod. d is made from a filled template. keys is the name of the Secret with the gateway's
// keys. The error is a [RefusedError].
func (g Gateway) CheckPods(d *appsv1.Deployment, keys string) error {
	const pod = ".spec.deployment.spec.template.spec"
	c := podCheck{keys: keys}
	s := &d.Spec.Template.Spec
	c.at = pod
	alone := *s
	alone.InitContainers, alone.Containers = nil, nil
	c.baseline(&d.Spec.Template.ObjectMeta, alone)
	for field, set := range map[string]bool{
		"resourceClaims": len(s.ResourceClaims) > 0, "nodeName": s.NodeName != "", "runtimeClassName": s.RuntimeClassName != nil,
		"priorityClassName " + s.PriorityClassName: CriticalPriority(s.PriorityClassName),
	} {
		c.at = pod + "." + strings.Fields(field)[0]
		c.refuse(set, "%s", field)
	}
	c.at = pod + ".serviceAccountName"
	c.refuse(s.ServiceAccountName != g.Name || s.DeprecatedServiceAccount != "" && s.DeprecatedServiceAccount != g.Name,
		"serviceAccountName %q instead of %q", s.ServiceAccountName, g.Name)
	for i := range s.Volumes {
		c.at = fmt.Sprintf("%s.volumes[%d]", pod, i)
		c.volume(&s.Volumes[i])
	}
	for i := range s.InitContainers {
		c.at = fmt.Sprintf("%s.initContainers[%d]", pod, i)
		c.container(s.InitContainers[i])
	}
	for i := range s.Containers {
		c.at = fmt.Sprintf("%s.containers[%d]", pod, i)
		c.container(s.Containers[i])
	}
	c.at = pod + ".ephemeralContainers"
	c.refuse(len(s.EphemeralContainers) > 0, "ephemeralContainers")
	return c.result("its pods")
}

// CriticalPriority reports whether a priority class is for programs that a cluster can't work without.
// Kubernetes evicts other pods to make room for a pod of such a class, and quotas count such pods separately.
func CriticalPriority(class string) bool {
	return class == "system-node-critical" || class == "system-cluster-critical"
}

// baseline evaluates the latest Pod Security Standards of the release in go.mod.
var baseline = sync.OnceValues(func() (policy.Evaluator, error) { return policy.NewEvaluator(policy.DefaultChecks(), nil) })

// baseline refuses settings that the standard "baseline" forbids. It judges a pod without its containers, or
// with one container, so that each refusal names a field. Other functions judge volumes and capabilities. The
// sysctls "net." are allowed, because they change only the pod's own network.
func (c *podCheck) baseline(meta *metav1.ObjectMeta, pod corev1.PodSpec) {
	rules, err := baseline()
	if err != nil {
		c.refuse(true, "anything, since the rules of Pod Security can't be read: %v", err)
		return
	}
	pod.Volumes = nil
	if p := pod.SecurityContext.DeepCopy(); p != nil {
		p.Sysctls = slices.DeleteFunc(p.Sysctls, func(s corev1.Sysctl) bool { return strings.HasPrefix(s.Name, "net.") })
		pod.SecurityContext = p
	}
	for _, r := range rules.EvaluatePod(api.LevelVersion{Level: api.LevelBaseline, Version: api.LatestVersion()}, meta, &pod) {
		c.refuse(!r.Allowed, "%s: %s", r.ForbiddenReason, r.ForbiddenDetail)
	}
}

// CheckService reports settings of a gateway's Service that would lead other traffic to the
// gateway, or the peer's traffic to other pods.
func (g Gateway) CheckService(s *corev1.Service) error {
	c := podCheck{at: ".spec.service.spec.externalIPs"}
	c.refuse(len(s.Spec.ExternalIPs) > 0, "externalIPs, which would catch the cluster's traffic to them")
	c.at = ".spec.service.spec.type"
	c.refuse(s.Spec.Type == corev1.ServiceTypeExternalName, "type ExternalName")
	c.at = ".spec.service.spec.selector"
	c.refuse(s.Spec.Selector[wire.LabelGatewayName] != g.Name, "a selector of other pods: the gateway's pods have the label %s: %s", wire.LabelGatewayName, g.Name)
	return c.result("its Service")
}

type podCheck struct {
	keys  string
	at    string // the field that is checked, or its parent
	found []FieldError
}

func (c *podCheck) result(what string) error {
	if len(c.found) == 0 {
		return nil
	}
	slices.SortFunc(c.found, func(a, b FieldError) int {
		return cmp.Or(cmp.Compare(a.Problem, b.Problem), cmp.Compare(a.Field, b.Field))
	})
	return &RefusedError{what, slices.Compact(c.found)}
}

func (c *podCheck) refuse(when bool, format string, args ...any) {
	if when {
		c.found = append(c.found, FieldError{Field: c.at, Problem: fmt.Sprintf(format, args...)})
	}
}

func (c *podCheck) secret(name string) {
	c.refuse(name != c.keys, "Secret %q: only %q is the gateway's", name, c.keys)
}

func (c *podCheck) volume(v *corev1.Volume) {
	switch s := v.VolumeSource; {
	case s.EmptyDir != nil, s.ConfigMap != nil, s.DownwardAPI != nil:
	case s.Secret != nil:
		c.secret(s.Secret.SecretName)
	case s.Projected != nil:
		for _, p := range s.Projected.Sources {
			switch {
			case p.Secret != nil:
				c.secret(p.Secret.Name)
			case p.ConfigMap != nil, p.DownwardAPI != nil, p.ServiceAccountToken != nil: // the token belongs to the gateway's own account
			default:
				c.refuse(true, "projected volume %q with a source that is no configMap, downwardAPI, secret or serviceAccountToken", v.Name)
			}
		}
	case s.HostPath != nil:
		c.refuse(true, "hostPath %s", s.HostPath.Path)
	default:
		c.refuse(true, "volume %q, which is no emptyDir, configMap, downwardAPI, projected or secret", v.Name)
	}
}

func (c *podCheck) container(o corev1.Container) {
	for _, e := range o.Env {
		if e.ValueFrom != nil && e.ValueFrom.SecretKeyRef != nil {
			c.secret(e.ValueFrom.SecretKeyRef.Name)
		}
	}
	for _, e := range o.EnvFrom {
		if e.SecretRef != nil {
			c.secret(e.SecretRef.Name)
		}
	}
	if s := o.SecurityContext.DeepCopy(); s != nil && s.Capabilities != nil {
		for _, added := range s.Capabilities.Add {
			c.refuse(!slices.Contains(gatewayCapabilities, added), "capability %s", added)
		}
		s.Capabilities = nil
		o.SecurityContext = s
	}
	c.baseline(&metav1.ObjectMeta{}, corev1.PodSpec{Containers: []corev1.Container{o}})
}
