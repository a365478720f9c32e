package kube

import (
	"context"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"
)

// Ranges are a cluster's address ranges as its own settings state them; ""
// for one that isn't stated anywhere.
type Ranges struct{ Pod, Service string }

// DiscoverRanges looks where clusters state their address ranges: the
// ServiceCIDR resource (Kubernetes 1.33 and later), kubeadm's settings, and the
// flags of a controller-manager that runs as a pod.
func (c *Cluster) DiscoverRanges(ctx context.Context) (Ranges, error) {
	var r Ranges
	var err error
	if r.Service, err = c.serviceRange(ctx); err != nil {
		return r, err
	}
	if r.Pod, err = c.kubeadmRange(ctx); err != nil || r.Pod != "" {
		return r, err
	}
	r.Pod, err = c.controllerManagerRange(ctx)
	return r, err
}

func (c *Cluster) serviceRange(ctx context.Context) (string, error) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(schema.GroupVersionKind{Group: "networking.k8s.io", Version: "v1", Kind: "ServiceCIDR"})
	if err := c.client.Get(ctx, client.ObjectKey{Name: "kubernetes"}, o); err != nil {
		return "", tolerate(err)
	}
	ranges, _, err := unstructured.NestedStringSlice(o.Object, "spec", "cidrs")
	return firstIPv4(ranges), err
}

func (c *Cluster) kubeadmRange(ctx context.Context) (string, error) {
	var cm corev1.ConfigMap
	if err := c.client.Get(ctx, client.ObjectKey{Namespace: "kube-system", Name: "kubeadm-config"}, &cm); err != nil {
		return "", tolerate(err)
	}
	var settings struct {
		Networking struct {
			PodSubnet string `json:"podSubnet"`
		} `json:"networking"`
	}
	// Settings that can't be parsed say as little as none: a flag is the way out.
	_ = yaml.Unmarshal([]byte(cm.Data["ClusterConfiguration"]), &settings)
	return firstIPv4(strings.Split(settings.Networking.PodSubnet, ",")), nil
}

func (c *Cluster) controllerManagerRange(ctx context.Context) (string, error) {
	var pods corev1.PodList
	err := c.client.List(ctx, &pods, client.InNamespace("kube-system"), client.MatchingLabels{"component": "kube-controller-manager"})
	if err != nil {
		return "", tolerate(err)
	}
	for _, p := range pods.Items {
		for _, container := range p.Spec.Containers {
			for _, arg := range append(container.Command, container.Args...) {
				if value, ok := strings.CutPrefix(arg, "--cluster-cidr="); ok {
					return firstIPv4(strings.Split(value, ",")), nil
				}
			}
		}
	}
	return "", nil
}

// tolerate turns "not there" and "not allowed to look" into "not stated".
func tolerate(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

func firstIPv4(ranges []string) string {
	for _, r := range ranges {
		if r = strings.TrimSpace(r); strings.Contains(r, ".") {
			return r
		}
	}
	return ""
}
