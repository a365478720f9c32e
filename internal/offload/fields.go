package offload

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// verdict is the decision about a field that a consumer has filled in. The zero value means that the field is
// undecided. A pod with such a field is refused.
type verdict struct {
	keep bool // the field is kept, and its contents are judged, too
	drop bool // the field is removed, or replaced by the provider's value
	// forbids returns the reason that the field may not have this value; "" if it may.
	forbids func(value any) string
	// why is the reason that no value is accepted.
	why string
}

var (
	keep = verdict{keep: true}
	drop = verdict{drop: true}
)

func never(why string) verdict { return verdict{why: why} }

func when(forbids func(any) string) verdict { return verdict{keep: true, forbids: forbids} }

const (
	ofTheHost    = "pods of consumers may not use their host"
	notOffered   = "not offered"
	onlyVolumes  = "only emptyDir, configMap, secret, downwardAPI and projections of these are offered"
	longestGrace = 600 // seconds
)

// fields has the verdict for each field of a pod. If a type has a row for one field, it needs a row for each:
// TestEveryFieldIsDecided checks this.
var fields = map[string]verdict{
	"PodSpec.Volumes": keep, "PodSpec.InitContainers": keep, "PodSpec.Containers": keep,
	"PodSpec.EphemeralContainers":           drop, // they can't be set when a pod is created, only added later; the consumer gets an Event about that
	"PodSpec.RestartPolicy":                 keep,
	"PodSpec.TerminationGracePeriodSeconds": when(atMost(longestGrace, "seconds")),
	"PodSpec.ActiveDeadlineSeconds":         keep,
	"PodSpec.DNSPolicy":                     keep,
	"PodSpec.NodeSelector":                  keep, // place removes most keys
	"PodSpec.ServiceAccountName":            drop, // the provider offers no account, and mounts no token
	"PodSpec.DeprecatedServiceAccount":      drop,
	"PodSpec.AutomountServiceAccountToken":  drop,
	"PodSpec.NodeName":                      drop, // the provider's scheduler chooses
	"PodSpec.HostNetwork":                   never(ofTheHost),
	"PodSpec.HostPID":                       never(ofTheHost),
	"PodSpec.HostIPC":                       never(ofTheHost),
	"PodSpec.ShareProcessNamespace":         keep,
	"PodSpec.SecurityContext":               keep,
	"PodSpec.ImagePullSecrets":              keep,
	"PodSpec.Hostname":                      keep, "PodSpec.Subdomain": keep, "PodSpec.SetHostnameAsFQDN": keep, "PodSpec.HostnameOverride": keep,
	"PodSpec.Affinity":                  keep,
	"PodSpec.SchedulerName":             drop,
	"PodSpec.Tolerations":               keep, // place removes most of them
	"PodSpec.HostAliases":               keep,
	"PodSpec.PriorityClassName":         drop, // the remote pod gets the provider's class, which preempts no pod
	"PodSpec.Priority":                  drop,
	"PodSpec.PreemptionPolicy":          drop,
	"PodSpec.DNSConfig":                 keep,
	"PodSpec.ReadinessGates":            keep,
	"PodSpec.RuntimeClassName":          never(notOffered),
	"PodSpec.EnableServiceLinks":        drop,
	"PodSpec.Overhead":                  drop,
	"PodSpec.TopologySpreadConstraints": keep,
	"PodSpec.OS":                        keep,
	"PodSpec.HostUsers":                 keep,
	"PodSpec.SchedulingGates":           drop, // they were removed on the consumer, or the pod would not be bound
	"PodSpec.ResourceClaims":            never(notOffered),
	"PodSpec.Resources":                 never("resources of a whole pod are not offered: state the resources of its containers"),
	"PodSpec.SchedulingGroup":           never(notOffered),
	"PodSpec.EvictionResponders":        never(notOffered),

	"Volume.Name": keep, "Volume.VolumeSource": keep,
	"VolumeSource.EmptyDir": keep, "VolumeSource.ConfigMap": keep, "VolumeSource.Secret": keep, "VolumeSource.DownwardAPI": keep, "VolumeSource.Projected": keep,
	"VolumeSource.HostPath":          never(ofTheHost),
	"VolumeSource.GCEPersistentDisk": never(onlyVolumes), "VolumeSource.AWSElasticBlockStore": never(onlyVolumes), "VolumeSource.GitRepo": never(onlyVolumes),
	"VolumeSource.NFS": never(onlyVolumes), "VolumeSource.ISCSI": never(onlyVolumes), "VolumeSource.Glusterfs": never(onlyVolumes),
	"VolumeSource.PersistentVolumeClaim": never(onlyVolumes), "VolumeSource.RBD": never(onlyVolumes), "VolumeSource.FlexVolume": never(onlyVolumes),
	"VolumeSource.Cinder": never(onlyVolumes), "VolumeSource.CephFS": never(onlyVolumes), "VolumeSource.Flocker": never(onlyVolumes),
	"VolumeSource.FC": never(onlyVolumes), "VolumeSource.AzureFile": never(onlyVolumes), "VolumeSource.VsphereVolume": never(onlyVolumes),
	"VolumeSource.Quobyte": never(onlyVolumes), "VolumeSource.AzureDisk": never(onlyVolumes), "VolumeSource.PhotonPersistentDisk": never(onlyVolumes),
	"VolumeSource.PortworxVolume": never(onlyVolumes), "VolumeSource.ScaleIO": never(onlyVolumes), "VolumeSource.StorageOS": never(onlyVolumes),
	"VolumeSource.CSI": never(onlyVolumes), "VolumeSource.Ephemeral": never(onlyVolumes), "VolumeSource.Image": never(onlyVolumes),
	"EmptyDirVolumeSource.Medium": keep, "EmptyDirVolumeSource.SizeLimit": keep, "EmptyDirVolumeSource.Mode": keep,
	"ConfigMapVolumeSource.LocalObjectReference": keep, "ConfigMapVolumeSource.Items": keep, "ConfigMapVolumeSource.DefaultMode": keep, "ConfigMapVolumeSource.Optional": keep, "ConfigMapVolumeSource.DefaultUser": keep,
	"SecretVolumeSource.SecretName": keep, "SecretVolumeSource.Items": keep, "SecretVolumeSource.DefaultMode": keep, "SecretVolumeSource.Optional": keep, "SecretVolumeSource.DefaultUser": keep,
	"DownwardAPIVolumeSource.Items": keep, "DownwardAPIVolumeSource.DefaultMode": keep, "DownwardAPIVolumeSource.DefaultUser": keep,
	"ProjectedVolumeSource.Sources": keep, "ProjectedVolumeSource.DefaultMode": keep, "ProjectedVolumeSource.DefaultUser": keep,
	"VolumeProjection.Secret": keep, "VolumeProjection.DownwardAPI": keep, "VolumeProjection.ConfigMap": keep,
	"VolumeProjection.ServiceAccountToken": never("no token of the provider is mounted"),
	"VolumeProjection.ClusterTrustBundle":  never(onlyVolumes),
	"VolumeProjection.PodCertificate":      never(onlyVolumes),

	"Container.Name": keep, "Container.Image": keep, "Container.Command": keep, "Container.Args": keep, "Container.WorkingDir": keep,
	"Container.Ports": keep, "Container.EnvFrom": keep, "Container.Env": keep, "Container.Resources": keep, "Container.ResizePolicy": keep,
	"Container.RestartPolicy": keep, "Container.RestartPolicyRules": keep, "Container.VolumeMounts": keep,
	"Container.VolumeDevices": never(onlyVolumes),
	"Container.LivenessProbe": keep, "Container.ReadinessProbe": keep, "Container.StartupProbe": keep, "Container.Lifecycle": keep,
	"Container.TerminationMessagePath": keep, "Container.TerminationMessagePolicy": keep, "Container.ImagePullPolicy": keep,
	"Container.SecurityContext": keep, "Container.Stdin": keep, "Container.StdinOnce": keep, "Container.TTY": keep,
	"ContainerPort.Name": keep, "ContainerPort.ContainerPort": keep, "ContainerPort.Protocol": keep,
	"ContainerPort.HostPort": never(ofTheHost), "ContainerPort.HostIP": never(ofTheHost),
	"VolumeMount.Name": keep, "VolumeMount.ReadOnly": keep, "VolumeMount.RecursiveReadOnly": keep, "VolumeMount.MountPath": keep,
	"VolumeMount.SubPath": keep, "VolumeMount.SubPathExpr": keep, "VolumeMount.BindMountOptions": never(notOffered),
	"VolumeMount.MountPropagation": when(oneOf("None", "HostToContainer")),
	"ResourceRequirements.Limits":  when(notNegative), "ResourceRequirements.Requests": when(notNegative), "ResourceRequirements.Claims": never(notOffered),

	// A kubelet sends probes from the network of its node, to any host that a probe names.
	"HTTPGetAction.Path": keep, "HTTPGetAction.Port": keep, "HTTPGetAction.Scheme": keep, "HTTPGetAction.HTTPHeaders": keep, "HTTPGetAction.Protocol": keep,
	"HTTPGetAction.Host":   never("probes ask the pod itself"),
	"TCPSocketAction.Port": keep, "TCPSocketAction.Host": never("probes ask the pod itself"),

	"PodSecurityContext.SELinuxOptions": never(notOffered), "PodSecurityContext.WindowsOptions": never(notOffered),
	"PodSecurityContext.RunAsUser": keep, "PodSecurityContext.RunAsGroup": keep, "PodSecurityContext.RunAsNonRoot": keep,
	"PodSecurityContext.SupplementalGroups": keep, "PodSecurityContext.SupplementalGroupsPolicy": keep, "PodSecurityContext.FSGroup": keep,
	"PodSecurityContext.Sysctls": keep, "PodSecurityContext.FSGroupChangePolicy": keep, "PodSecurityContext.SeccompProfile": keep,
	"PodSecurityContext.AppArmorProfile": keep, "PodSecurityContext.SELinuxChangePolicy": keep,
	"SecurityContext.Capabilities": keep, "SecurityContext.Privileged": when(no), "SecurityContext.SELinuxOptions": never(notOffered),
	"SecurityContext.WindowsOptions": never(notOffered), "SecurityContext.RunAsUser": keep, "SecurityContext.RunAsGroup": keep,
	"SecurityContext.RunAsNonRoot": keep, "SecurityContext.ReadOnlyRootFilesystem": keep, "SecurityContext.AllowPrivilegeEscalation": keep,
	"SecurityContext.ProcMount": when(oneOf("Default")), "SecurityContext.SeccompProfile": keep, "SecurityContext.AppArmorProfile": keep,
	"SeccompProfile.Type": when(confined), "SeccompProfile.LocalhostProfile": keep,
	"AppArmorProfile.Type": when(confined), "AppArmorProfile.LocalhostProfile": keep,
	"Capabilities.Add": when(usual), "Capabilities.Drop": keep,
	"Sysctl.Name": when(oneOf("kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.ip_unprivileged_port_start", "net.ipv4.tcp_syncookies",
		"net.ipv4.ping_group_range", "net.ipv4.ip_local_reserved_ports", "net.ipv4.tcp_keepalive_time", "net.ipv4.tcp_fin_timeout",
		"net.ipv4.tcp_keepalive_intvl", "net.ipv4.tcp_keepalive_probes")), "Sysctl.Value": keep,

	// Anti-affinity keeps other pods off the pod's node. A consumer must not name other namespaces, because
	// this would affect their pods, too.
	"Affinity.NodeAffinity": drop, "Affinity.PodAffinity": keep, "Affinity.PodAntiAffinity": keep,
	"PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution": keep, "PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution": keep,
	"PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution": keep, "PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution": keep,
	"WeightedPodAffinityTerm.Weight": keep, "WeightedPodAffinityTerm.PodAffinityTerm": keep,
	"PodAffinityTerm.LabelSelector": keep, "PodAffinityTerm.TopologyKey": keep, "PodAffinityTerm.MatchLabelKeys": keep, "PodAffinityTerm.MismatchLabelKeys": keep,
	"PodAffinityTerm.Namespaces":        never("terms for pods of other namespaces are not offered"),
	"PodAffinityTerm.NamespaceSelector": never("terms for pods of other namespaces are not offered"),

	"Toleration.Key": keep, "Toleration.Operator": keep, "Toleration.Value": keep, "Toleration.Effect": keep, "Toleration.TolerationSeconds": keep,

	// These contain only fields that affect the pod itself.
	"Lifecycle.PostStart": keep, "Lifecycle.PreStop": keep, "Lifecycle.StopSignal": keep,
	"LifecycleHandler.Exec": keep, "LifecycleHandler.HTTPGet": keep, "LifecycleHandler.TCPSocket": keep, "LifecycleHandler.Sleep": keep,
	"Probe.ProbeHandler": keep, "Probe.InitialDelaySeconds": keep, "Probe.TimeoutSeconds": keep, "Probe.PeriodSeconds": keep,
	"Probe.SuccessThreshold": keep, "Probe.FailureThreshold": keep, "Probe.TerminationGracePeriodSeconds": when(atMost(longestGrace, "seconds")),
	"ProbeHandler.Exec": keep, "ProbeHandler.HTTPGet": keep, "ProbeHandler.TCPSocket": keep, "ProbeHandler.GRPC": keep,
	"GRPCAction.Port": keep, "GRPCAction.Service": keep, "GRPCAction.Mode": keep,
	"ExecAction.Command": keep, "SleepAction.Seconds": keep, "HTTPHeader.Name": keep, "HTTPHeader.Value": keep,
	"EnvVar.Name": keep, "EnvVar.Value": keep, "EnvVar.ValueFrom": keep,
	"EnvVarSource.FieldRef": keep, "EnvVarSource.ResourceFieldRef": keep, "EnvVarSource.ConfigMapKeyRef": keep, "EnvVarSource.SecretKeyRef": keep, "EnvVarSource.FileKeyRef": keep,
	"EnvFromSource.Prefix": keep, "EnvFromSource.ConfigMapRef": keep, "EnvFromSource.SecretRef": keep,
	"ConfigMapEnvSource.LocalObjectReference": keep, "ConfigMapEnvSource.Optional": keep, "SecretEnvSource.LocalObjectReference": keep, "SecretEnvSource.Optional": keep,
	"ConfigMapKeySelector.LocalObjectReference": keep, "ConfigMapKeySelector.Key": keep, "ConfigMapKeySelector.Optional": keep,
	"SecretKeySelector.LocalObjectReference": keep, "SecretKeySelector.Key": keep, "SecretKeySelector.Optional": keep,
	"FileKeySelector.VolumeName": keep, "FileKeySelector.Path": keep, "FileKeySelector.Key": keep, "FileKeySelector.Optional": keep,
	"ObjectFieldSelector.APIVersion": keep, "ObjectFieldSelector.FieldPath": keep,
	"ResourceFieldSelector.ContainerName": keep, "ResourceFieldSelector.Resource": keep, "ResourceFieldSelector.Divisor": keep,
	"LocalObjectReference.Name": keep, "KeyToPath.Key": keep, "KeyToPath.Path": keep, "KeyToPath.Mode": keep, "KeyToPath.User": keep,
	"DownwardAPIVolumeFile.Path": keep, "DownwardAPIVolumeFile.FieldRef": keep, "DownwardAPIVolumeFile.ResourceFieldRef": keep, "DownwardAPIVolumeFile.Mode": keep, "DownwardAPIVolumeFile.User": keep,
	"SecretProjection.LocalObjectReference": keep, "SecretProjection.Items": keep, "SecretProjection.Optional": keep,
	"ConfigMapProjection.LocalObjectReference": keep, "ConfigMapProjection.Items": keep, "ConfigMapProjection.Optional": keep,
	"DownwardAPIProjection.Items":        keep,
	"ContainerResizePolicy.ResourceName": keep, "ContainerResizePolicy.RestartPolicy": keep,
	"ContainerRestartRule.Action": keep, "ContainerRestartRule.ExitCodes": keep,
	"ContainerRestartRuleOnExitCodes.Operator": keep, "ContainerRestartRuleOnExitCodes.Values": keep,
	"PodDNSConfig.Nameservers": keep, "PodDNSConfig.Searches": keep, "PodDNSConfig.Options": keep, "PodDNSConfigOption.Name": keep, "PodDNSConfigOption.Value": keep,
	"HostAlias.IP": keep, "HostAlias.Hostnames": keep, "PodReadinessGate.ConditionType": keep, "PodOS.Name": keep,
	"TopologySpreadConstraint.MaxSkew": keep, "TopologySpreadConstraint.TopologyKey": keep, "TopologySpreadConstraint.WhenUnsatisfiable": keep,
	"TopologySpreadConstraint.LabelSelector": keep, "TopologySpreadConstraint.MinDomains": keep, "TopologySpreadConstraint.NodeAffinityPolicy": keep,
	"TopologySpreadConstraint.NodeTaintsPolicy": keep, "TopologySpreadConstraint.MatchLabelKeys": keep,
}

func atMost(most int64, of string) func(any) string {
	return func(v any) string {
		if n, ok := v.(int64); ok && n <= most && n >= 0 {
			return ""
		}
		return fmt.Sprintf("%v %s are too many: at most %d are offered", v, of, most)
	}
}

func oneOf(these ...string) func(any) string {
	return func(v any) string {
		if slices.Contains(these, fmt.Sprint(v)) {
			return ""
		}
		return fmt.Sprintf("%v is not offered", v)
	}
}

func no(v any) string {
	if v == false {
		return ""
	}
	return notOffered
}

// confined judges security profiles, because a pod without any confinement could leave its container.
func confined(v any) string {
	if text := fmt.Sprint(v); text == "RuntimeDefault" || text == "Localhost" {
		return ""
	}
	return fmt.Sprintf("%v is not offered", v)
}

// usual judges capabilities. It allows the ones that Kubernetes' baseline allows.
func usual(v any) string {
	for _, c := range v.([]corev1.Capability) {
		switch c {
		case "AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT":
		default:
			return fmt.Sprintf("%s is not offered", c)
		}
	}
	return ""
}

func notNegative(v any) string {
	for name, q := range v.(corev1.ResourceList) {
		if q.Sign() < 0 {
			return fmt.Sprintf("%s: %s is less than nothing", name, q.String())
		}
	}
	return ""
}

// admit judges all fields below v that are filled in. It clears the fields to drop, and returns an error for
// the first other field that is not allowed.
func admit(v reflect.Value, path string) error {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return admit(v.Elem(), path)
	case reflect.Slice:
		for i := range v.Len() {
			if err := admit(v.Index(i), fmt.Sprintf("%s[%s]", path, nameOf(v.Index(i), i))); err != nil {
				return err
			}
		}
	case reflect.Struct:
		if !decided(v.Type()) {
			return nil
		}
		for i := range v.NumField() {
			field, value := v.Type().Field(i), v.Field(i)
			if value.IsZero() {
				continue
			}
			what := fields[v.Type().Name()+"."+field.Name]
			at := path
			if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" {
				at = strings.TrimPrefix(path+"."+name, ".")
			}
			if what.drop {
				value.SetZero()
				continue
			}
			why := what.why
			if what.forbids != nil {
				why = what.forbids(reflect.Indirect(value).Interface())
			}
			if !what.keep || why != "" {
				if why == "" {
					why = notOffered
				}
				return fmt.Errorf("%s: %s", at, why)
			}
			if err := admit(value, at); err != nil {
				return err
			}
		}
	default: // strings, numbers and maps have no fields
	}
	return nil
}

// decided reports whether the fields of a type are judged one by one. This is so for the types of pods.
// Quantities, ports and selectors are judged as a whole.
func decided(t reflect.Type) bool { return t.PkgPath() == reflect.TypeFor[corev1.PodSpec]().PkgPath() }

func nameOf(v reflect.Value, i int) string {
	if v.Kind() == reflect.Struct {
		if name := v.FieldByName("Name"); name.IsValid() && name.Kind() == reflect.String && name.String() != "" {
			return name.String()
		}
	}
	return fmt.Sprint(i)
}
