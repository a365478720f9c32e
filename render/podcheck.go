package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Whoever may write a gateway template has the operator make pods. So these may do
// no more than our own: what is not known here to be harmless is refused. The rules
// are those of Kubernetes' Pod Security Standard "baseline", and besides: our
// capabilities, the gateway's ServiceAccount, and no Secret but the gateway's keys.

// gatewayCapabilities are what a gateway's container may add; see gatewayTemplate.
var gatewayCapabilities = []corev1.Capability{"NET_ADMIN", "MKNOD"}

// RefusedError is what a template asks for and no gateway is given.
type RefusedError struct {
	what   string // that may not have it
	Fields []FieldError
}

func (e *RefusedError) Error() string {
	found := make([]string, len(e.Fields))
	for i, f := range e.Fields {
		found[i] = fmt.Sprintf("%s (%s)", f.Problem, f.Field)
	}
	return e.what + " may not have " + strings.Join(found, ", ")
}

// CheckPods reports everything in the pods of d for which a gateway's pod has no
// need, and which would reach beyond it. d has the template's values filled in;
// keys is the name of the Secret with the gateway's keys. The error is a
// [RefusedError].
func (g Gateway) CheckPods(d *appsv1.Deployment, keys string) error {
	const pod = ".spec.deployment.spec.template.spec"
	c := podCheck{keys: keys}
	s := &d.Spec.Template.Spec
	for field, set := range map[string]bool{"hostNetwork": s.HostNetwork, "hostPID": s.HostPID, "hostIPC": s.HostIPC, "resourceClaims": len(s.ResourceClaims) > 0} {
		c.at = pod + "." + field
		c.refuse(set, "%s", field)
	}
	c.at = pod + ".serviceAccountName"
	c.refuse(s.ServiceAccountName != g.Name || s.DeprecatedServiceAccount != "" && s.DeprecatedServiceAccount != g.Name,
		"serviceAccountName %q instead of %q", s.ServiceAccountName, g.Name)
	c.at = pod + ".securityContext"
	if p := s.SecurityContext; p != nil {
		c.confinement(p.SeccompProfile, p.AppArmorProfile, p.WindowsOptions, "the pod")
		for _, sysctl := range p.Sysctls {
			c.refuse(!strings.HasPrefix(sysctl.Name, "net."), "sysctl %s", sysctl.Name) // others are the node's, or not the network's
		}
	}
	for i := range s.Volumes {
		c.at = fmt.Sprintf("%s.volumes[%d]", pod, i)
		c.volume(&s.Volumes[i])
	}
	for i := range s.InitContainers {
		c.at = fmt.Sprintf("%s.initContainers[%d]", pod, i)
		c.container(&s.InitContainers[i])
	}
	for i := range s.Containers {
		c.at = fmt.Sprintf("%s.containers[%d]", pod, i)
		c.container(&s.Containers[i])
	}
	c.at = pod + ".ephemeralContainers"
	c.refuse(len(s.EphemeralContainers) > 0, "ephemeralContainers")
	return c.result("its pods")
}

// CheckService reports what in a gateway's Service would lead others' traffic to
// the gateway, or the peer's to other pods.
func (g Gateway) CheckService(s *corev1.Service) error {
	c := podCheck{at: ".spec.service.spec.externalIPs"}
	c.refuse(len(s.Spec.ExternalIPs) > 0, "externalIPs, which would catch the cluster's traffic to them")
	c.at = ".spec.service.spec.type"
	c.refuse(s.Spec.Type == corev1.ServiceTypeExternalName, "type ExternalName")
	c.at = ".spec.service.spec.selector"
	c.refuse(s.Spec.Selector[LabelGatewayName] != g.Name, "a selector without the label %s: %s", LabelGatewayName, g.Name)
	return c.result("its Service")
}

type podCheck struct {
	keys  string
	at    string // the field that is looked at, or what it is in
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
			case p.ConfigMap != nil, p.DownwardAPI != nil, p.ServiceAccountToken != nil: // the token is of the gateway's own account
			default:
				c.refuse(true, "the source of projected volume %q", v.Name)
			}
		}
	case s.HostPath != nil:
		c.refuse(true, "hostPath %s", s.HostPath.Path)
	default:
		c.refuse(true, "volume %q, which is no emptyDir, configMap, downwardAPI, projected or secret", v.Name)
	}
}

func (c *podCheck) container(o *corev1.Container) {
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
	for _, p := range o.Ports {
		c.refuse(p.HostPort != 0, "hostPort %d", p.HostPort)
	}
	s := o.SecurityContext
	if s == nil {
		return
	}
	c.refuse(s.Privileged != nil && *s.Privileged, "a privileged container (%s)", o.Name)
	c.refuse(s.ProcMount != nil && *s.ProcMount != corev1.DefaultProcMount, "procMount %v", s.ProcMount)
	c.confinement(s.SeccompProfile, s.AppArmorProfile, s.WindowsOptions, "container "+o.Name)
	if s.Capabilities != nil {
		for _, added := range s.Capabilities.Add {
			c.refuse(!slices.Contains(gatewayCapabilities, added), "capability %s", added)
		}
	}
}

func (c *podCheck) confinement(seccomp *corev1.SeccompProfile, armor *corev1.AppArmorProfile, windows *corev1.WindowsSecurityContextOptions, whose string) {
	c.refuse(seccomp != nil && seccomp.Type == corev1.SeccompProfileTypeUnconfined, "%s without seccomp", whose)
	c.refuse(armor != nil && armor.Type == corev1.AppArmorProfileTypeUnconfined, "%s without AppArmor", whose)
	c.refuse(windows != nil && windows.HostProcess != nil && *windows.HostProcess, "%s as a host process", whose)
}
