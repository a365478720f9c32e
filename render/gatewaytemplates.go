package render

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// gatewayTemplate is the pod of a gateway and, for a server, its Service. MKNOD is needed on nodes without
// kernel WireGuard, if the container has no /dev/net/tun. The pod has no probes, because the operator reads
// the gateway's state from the Connection, and a restart by the kubelet would end a tunnel that the kernel
// keeps.
const gatewayTemplate = `
metadata:
  name: "{{ .Name }}"
  namespace: "{{ .Namespace }}"
  labels: &labels
    app.kubernetes.io/name: "{{ .Name }}"
    app.kubernetes.io/part-of: liqo
    app.kubernetes.io/managed-by: liqo-tui-operator
    networking.liqo.io/component: gateway
    networking.liqo.io/active: "true"
    networking.liqo.io/gateway-name: "{{ .Name }}"
    networking.liqo.io/gateway-namespace: "{{ .Namespace }}"
    liqo.io/remote-cluster-id: "{{ .ClusterID }}"
spec:
  deployment:
    metadata:
      labels: *labels
    spec:
      replicas: $REPLICAS
      # The new pod takes the tunnel over when the old one ends. It needs some seconds to
      # learn what it has to know for that.
      strategy: {type: RollingUpdate, rollingUpdate: {maxSurge: 1, maxUnavailable: 0}}
      minReadySeconds: 5
      selector:
        matchLabels: &selector
          networking.liqo.io/component: gateway
          networking.liqo.io/gateway-name: "{{ .Name }}"
      template:
        metadata:
          labels: *labels
          annotations: {prometheus.io/scrape: "true", prometheus.io/port: "8082"}
        spec:
          serviceAccountName: "{{ .Name }}"
          priorityClassName: $PRIORITY
          terminationGracePeriodSeconds: 5
          containers:
          - name: tunnel
            image: $IMAGE
            terminationMessagePolicy: FallbackToLogsOnError # what it said last is why it has ended
            imagePullPolicy: IfNotPresent
            args:
            - tunnel
            - --name={{ .Name }}
            - --namespace={{ .Namespace }}
            - --remote-cluster-id={{ .ClusterID }}
            - --role=$ROLE
            - --keys-dir=/etc/wireguard/keys
            ports:
            - {name: metrics, containerPort: 8082}
            env:
            - name: POD_IP
              valueFrom: {fieldRef: {fieldPath: status.podIPs}}
            - name: NODE_IP
              valueFrom: {fieldRef: {fieldPath: status.hostIP}}
            - name: NODE_NAME
              valueFrom: {fieldRef: {fieldPath: spec.nodeName}}
            securityContext:
              allowPrivilegeEscalation: false
              readOnlyRootFilesystem: true
              capabilities: {drop: [ALL], add: [NET_ADMIN, MKNOD]}
            resources:
              requests: {cpu: 10m, memory: 32Mi}
            volumeMounts:
            - {name: wireguard-config, mountPath: /etc/wireguard/keys, readOnly: true}
          volumes:
          - name: wireguard-config
            secret: {secretName: "{{ .SecretName }}"}
`

// serviceTemplate publishes the pod as soon as it has an address. Readiness would come about a second after
// the tunnel listens, and a client that dials meanwhile would be refused (2.7 s to Connected, instead of 1.9
// s).
const serviceTemplate = `
  service:
    metadata:
      labels: *labels
    spec:
      type: "{{ .Spec.Endpoint.ServiceType }}"
      publishNotReadyAddresses: true
      ipFamilies: [IPv4]
      ?loadBalancerIP: "{{ .Spec.Endpoint.LoadBalancerIP }}"
      selector:
        networking.liqo.io/component: gateway
        networking.liqo.io/gateway-name: "{{ .Name }}"
        networking.liqo.io/active: "true"
      ports:
      - name: wireguard
        protocol: UDP
        port: "{{ .Spec.Endpoint.Port }}"
        targetPort: "{{ .Spec.Endpoint.Port }}"
        ?nodePort: "{{ .Spec.Endpoint.NodePort }}"
`

// GatewayTemplates are the templates of a new installation, with Liqo's names. image is the gateway's image.
// Only one of the replicas holds the tunnel.
func GatewayTemplates(namespace, image string, replicas int, pods PodSettings) ([]wire.Object, error) {
	if CriticalPriority(pods.PriorityClassName) { // the operator would refuse the templates
		return nil, fmt.Errorf("pods of gateways: priorityClassName %s is for the cluster's own programs: give gateways another one, such as %s", pods.PriorityClassName, wire.GatewayPriorityClass)
	}
	server, err := parseTemplate(gatewayTemplate+serviceTemplate, image, replicas, "server", pods)
	if err != nil {
		return nil, err
	}
	client, err := parseTemplate(gatewayTemplate, image, replicas, "client", pods)
	if err != nil {
		return nil, err
	}
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Namespace: namespace, Labels: map[string]string{wire.LabelManagedBy: wire.ManagedBy}}
	}
	return []wire.Object{
		&networkingv1beta1.WgGatewayServerTemplate{
			TypeMeta: networkingType(networkingv1beta1.WgGatewayServerTemplateKind), ObjectMeta: meta(wire.ServerTemplate),
			Spec: networkingv1beta1.WgGatewayServerTemplateSpec{
				ObjectKind: networkingType(networkingv1beta1.WgGatewayServerKind), Template: unstructured.Unstructured{Object: server},
			},
		},
		&networkingv1beta1.WgGatewayClientTemplate{
			TypeMeta: networkingType(networkingv1beta1.WgGatewayClientTemplateKind), ObjectMeta: meta(wire.ClientTemplate),
			Spec: networkingv1beta1.WgGatewayClientTemplateSpec{
				ObjectKind: networkingType(networkingv1beta1.WgGatewayClientKind), Template: unstructured.Unstructured{Object: client},
			},
		},
	}, nil
}

func parseTemplate(text, image string, replicas int, role string, pods PodSettings) (map[string]any, error) {
	text = replaceAll(text, map[string]string{"$IMAGE": image, "$REPLICAS": strconv.Itoa(replicas), "$ROLE": role, "$PRIORITY": wire.GatewayPriorityClass})
	var tmpl map[string]any
	if err := yaml.Unmarshal([]byte(text), &tmpl); err != nil {
		return nil, fmt.Errorf("gateway template for the %s: %w", role, err)
	}
	if err := pods.applyToTemplate(tmpl); err != nil {
		return nil, fmt.Errorf("gateway template for the %s: %w", role, err)
	}
	return tmpl, nil
}

// applyToTemplate is like [PodSettings.Apply], for the pods of a template's Deployment.
func (s PodSettings) applyToTemplate(tmpl map[string]any) error {
	path := []string{"spec", "deployment", "spec", "template"}
	fields, _, err := unstructured.NestedMap(tmpl, path...)
	if err != nil {
		return err
	}
	var pod corev1.PodTemplateSpec
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &pod); err != nil {
		return err
	}
	s.Apply(&pod.ObjectMeta, &pod.Spec)
	if fields, err = runtime.DefaultUnstructuredConverter.ToUnstructured(&pod); err != nil {
		return err
	}
	return unstructured.SetNestedMap(tmpl, fields, path...)
}

// TemplateReplicas returns the number of pods of a gateway with this template from the API server; 0 if there
// is no template, or no number in it.
func TemplateReplicas(template wire.Object) int {
	u, ok := template.(*unstructured.Unstructured)
	if !ok {
		return 0
	}
	replicas, _, err := unstructured.NestedInt64(u.Object, "spec", "template", "spec", "deployment", "spec", "replicas")
	if err != nil {
		return 0
	}
	return int(replicas)
}

// RunsOurTunnel reports whether a template from the API server runs our gateway's program.
func RunsOurTunnel(template *unstructured.Unstructured) bool {
	containers, _, err := unstructured.NestedSlice(template.Object, "spec", "template", "spec", "deployment", "spec", "template", "spec", "containers")
	if err != nil {
		return false
	}
	return slices.ContainsFunc(containers, func(c any) bool {
		args, _, err := unstructured.NestedStringSlice(map[string]any{"c": c}, "c", "args")
		return err == nil && slices.Index(args, "tunnel") == 0 && slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--keys-dir=") })
	})
}
