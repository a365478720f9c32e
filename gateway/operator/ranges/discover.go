package ranges

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/internal/ipam"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Ranges are address ranges with the object that states them.
type Ranges struct {
	CIDRs  []netip.Prefix
	Source string // the object or setting, as text by which a person finds it
	// Contradiction names a pod outside of the stated ranges, if no other ranges are stated; "" otherwise.
	Contradiction string
}

// Statement reads one place where a cluster may state its ranges. Missing ranges are no error.
type Statement func(context.Context, client.Reader) (Ranges, error)

// Pods returns the statements about pods. First come the programs that assign the pods' addresses, then
// settings that these programs should use. A statement is ignored if no pod is in its ranges, because it may
// belong to a pod network that is not in use.
func Pods() []Statement {
	all := []Statement{
		calicoPools, ciliumPools, flannelNetwork, openShift("clusterNetwork"),
		kubeadm("podSubnet"), programFlag("kube-controller-manager", "--cluster-cidr"), kubeProxyRange, nodeRanges,
	}
	for i, state := range all {
		all[i] = func(ctx context.Context, reader client.Reader) (Ranges, error) {
			found, err := state(ctx, reader)
			if err != nil || len(found.CIDRs) == 0 {
				return found, err
			}
			stray, err := outside(ctx, reader, found.CIDRs)
			if stray != "" {
				found = Ranges{Contradiction: fmt.Sprintf("%s; %s: %s", stray, found.Source, wire.Joined(found.CIDRs))}
			}
			return found, err
		}
	}
	return all
}

// outside returns a pod of kube-system with its address, if there are such pods with addresses, and none of
// the addresses is in the ranges.
func outside(ctx context.Context, reader client.Reader, ranges []netip.Prefix) (pod string, err error) {
	const enough = 200 // pods; most pods of kube-system may be on the host's network
	var pods corev1.PodList
	if err := reader.List(ctx, &pods, client.InNamespace(metav1.NamespaceSystem), client.Limit(enough)); err != nil {
		return "", fmt.Errorf("list pods of %s: %w", metav1.NamespaceSystem, err)
	}
	for _, p := range pods.Items {
		if p.Spec.HostNetwork || p.Status.Phase != corev1.PodRunning {
			continue
		}
		for _, a := range p.Status.PodIPs {
			ip, err := netip.ParseAddr(a.IP)
			if err != nil || !ip.Is4() {
				continue
			}
			if slices.ContainsFunc(ranges, func(r netip.Prefix) bool { return r.Contains(ip) }) {
				return "", nil
			}
			pod = fmt.Sprintf("pod %s/%s has %s", p.Namespace, p.Name, ip)
		}
	}
	return pod, nil
}

// Services returns the statements about Services.
func Services(c client.Client, namespace string) []Statement {
	return []Statement{
		serviceCIDRs, openShift("serviceNetwork"), kubeadm("serviceSubnet"),
		programFlag("kube-apiserver", "--service-cluster-ip-range"), programFlag("kube-controller-manager", "--service-cluster-ip-range"),
		refusedService(c, namespace),
	}
}

// First returns the ranges of the first statement that has any. If there is none, it returns the first
// contradiction.
func First(ctx context.Context, reader client.Reader, statements []Statement) (Ranges, error) {
	var none Ranges
	for _, state := range statements {
		found, err := state(ctx, reader)
		if err != nil && !absent(err) {
			return Ranges{}, fmt.Errorf("look for the cluster's address ranges: %w", err)
		}
		if len(found.CIDRs) > 0 {
			return found, nil
		}
		none.Contradiction = cmp.Or(none.Contradiction, found.Contradiction)
	}
	return none, nil
}

// absent reports whether err means that an object or its kind does not exist, or that we may not read it.
func absent(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || meta.IsNoMatchError(err)
}

// parseRanges keeps the IPv4 ranges, because tunnels carry only IPv4.
func parseRanges(source string, texts ...string) Ranges {
	found := Ranges{Source: source}
	for _, text := range texts {
		if p, err := netip.ParsePrefix(strings.TrimSpace(text)); err == nil && p.Addr().Is4() && !slices.Contains(found.CIDRs, p.Masked()) {
			found.CIDRs = append(found.CIDRs, p.Masked())
		}
	}
	return found
}

func getAny(ctx context.Context, reader client.Reader, gvk schema.GroupVersionKind, name string) (map[string]any, error) {
	o := &unstructured.Unstructured{}
	o.SetGroupVersionKind(gvk)
	err := reader.Get(ctx, client.ObjectKey{Name: name}, o)
	return o.Object, err
}

// calicoPools reads the pools from which Calico assigns the pods' addresses.
func calicoPools(ctx context.Context, reader client.Reader) (Ranges, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Group: "crd.projectcalico.org", Version: "v1", Kind: "IPPoolList"})
	if err := reader.List(ctx, list); err != nil {
		return Ranges{}, err
	}
	var names, cidrs []string
	for _, pool := range list.Items {
		disabled, _, _ := unstructured.NestedBool(pool.Object, "spec", "disabled")
		uses, limited, _ := unstructured.NestedStringSlice(pool.Object, "spec", "allowedUses")
		cidr, _, _ := unstructured.NestedString(pool.Object, "spec", "cidr")
		if disabled || limited && !slices.Contains(uses, "Workload") || !strings.Contains(cidr, ".") {
			continue
		}
		names, cidrs = append(names, pool.GetName()), append(cidrs, cidr)
	}
	return parseRanges("Calico's IPPool "+strings.Join(names, ", "), cidrs...), nil
}

func configMap(ctx context.Context, reader client.Reader, namespace, name string) (map[string]string, error) {
	var cm corev1.ConfigMap
	err := reader.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &cm)
	return cm.Data, err
}

// ciliumPools reads Cilium's own pools. If there are none, Cilium uses the nodes' spec.podCIDRs.
func ciliumPools(ctx context.Context, reader client.Reader) (Ranges, error) {
	data, err := configMap(ctx, reader, metav1.NamespaceSystem, "cilium-config")
	if err != nil || !strings.HasPrefix(data["ipam"], "cluster-pool") {
		return Ranges{}, err
	}
	const key = "cluster-pool-ipv4-cidr"
	return parseRanges("ConfigMap kube-system/cilium-config, "+key, strings.FieldsFunc(data[key], func(r rune) bool { return r == ' ' || r == ',' })...), nil
}

func flannelNetwork(ctx context.Context, reader client.Reader) (Ranges, error) {
	const name, key = "kube-flannel-cfg", "net-conf.json"
	for _, namespace := range []string{"kube-flannel", metav1.NamespaceSystem} {
		data, err := configMap(ctx, reader, namespace, name)
		if err != nil && !absent(err) {
			return Ranges{}, err
		}
		var conf struct{ Network string }
		if json.Unmarshal([]byte(data[key]), &conf) == nil && conf.Network != "" {
			return parseRanges("ConfigMap "+namespace+"/"+name+", "+key, conf.Network), nil
		}
	}
	return Ranges{}, nil
}

// openShift reads the status of OpenShift's Network object: The field is either clusterNetwork, a list of
// {cidr}, or serviceNetwork, a list of strings.
func openShift(field string) Statement {
	return func(ctx context.Context, reader client.Reader) (Ranges, error) {
		o, err := getAny(ctx, reader, schema.GroupVersionKind{Group: "config.openshift.io", Version: "v1", Kind: "Network"}, "cluster")
		if err != nil {
			return Ranges{}, err
		}
		list, _, _ := unstructured.NestedSlice(o, "status", field)
		var cidrs []string
		for _, item := range list {
			switch item := item.(type) {
			case string:
				cidrs = append(cidrs, item)
			case map[string]any:
				cidr, _ := item["cidr"].(string)
				cidrs = append(cidrs, cidr)
			}
		}
		return parseRanges("OpenShift's Network cluster, status."+field, cidrs...), nil
	}
}

func kubeadm(field string) Statement {
	return func(ctx context.Context, reader client.Reader) (Ranges, error) {
		data, err := configMap(ctx, reader, metav1.NamespaceSystem, "kubeadm-config")
		if err != nil {
			return Ranges{}, err
		}
		var settings struct {
			Networking map[string]any `json:"networking"`
		}
		_ = yaml.Unmarshal([]byte(data["ClusterConfiguration"]), &settings) // a text that can't be parsed is ignored
		text, _ := settings.Networking[field].(string)
		return parseRanges("ConfigMap kube-system/kubeadm-config, networking."+field, strings.Split(text, ",")...), nil
	}
}

// programFlag reads a flag of a control plane component that runs as a pod.
func programFlag(program, flag string) Statement {
	return func(ctx context.Context, reader client.Reader) (Ranges, error) {
		var pods corev1.PodList
		if err := reader.List(ctx, &pods, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{"component": program}); err != nil {
			return Ranges{}, err
		}
		for _, p := range pods.Items {
			for _, container := range p.Spec.Containers {
				for _, arg := range slices.Concat(container.Command, container.Args) {
					if value, ok := strings.CutPrefix(arg, flag+"="); ok {
						return parseRanges(program+" "+flag, strings.Split(value, ",")...), nil
					}
				}
			}
		}
		return Ranges{}, nil
	}
}

func kubeProxyRange(ctx context.Context, reader client.Reader) (Ranges, error) {
	data, err := configMap(ctx, reader, metav1.NamespaceSystem, "kube-proxy")
	if err != nil {
		return Ranges{}, err
	}
	var settings struct {
		ClusterCIDR string `json:"clusterCIDR"`
	}
	_ = yaml.Unmarshal([]byte(data["config.conf"]), &settings)
	return parseRanges("ConfigMap kube-system/kube-proxy, clusterCIDR", strings.Split(settings.ClusterCIDR, ",")...), nil
}

// nodeRanges is the last resort if nothing states the whole range. It uses the ranges of the nodes.
func nodeRanges(ctx context.Context, reader client.Reader) (Ranges, error) {
	var nodes corev1.NodeList
	if err := reader.List(ctx, &nodes); err != nil {
		return Ranges{}, err
	}
	services, err := First(ctx, reader, []Statement{serviceCIDRs})
	if err != nil {
		return Ranges{}, err
	}
	return coverNodes(nodes.Items, services.CIDRs), nil
}

// coverNodes returns few ranges that contain all nodes' spec.podCIDRs, with room for more nodes. Kubernetes'
// default is a /16 with a /24 for each node, so a range is at most 8 bits wider than the smallest podCIDR.
// Ranges overlap neither Services nor nodes. If the podCIDRs are far apart, it returns several ranges, so
// that none contains other networks.
func coverNodes(nodes []corev1.Node, avoid []netip.Prefix) Ranges {
	const room = 8
	var blocks []netip.Prefix
	widest := 0
	avoid = slices.Clone(avoid)
	for _, n := range nodes {
		for _, text := range n.Spec.PodCIDRs {
			if p, err := netip.ParsePrefix(text); err == nil && p.Addr().Is4() {
				blocks, widest = append(blocks, p.Masked()), max(widest, p.Bits()-room)
			}
		}
		for _, a := range n.Status.Addresses {
			if ip, err := netip.ParseAddr(a.Address); err == nil && ip.Is4() {
				avoid = append(avoid, netip.PrefixFrom(ip, ip.BitLen()))
			}
		}
	}
	if len(blocks) == 0 {
		return Ranges{}
	}
	fits := func(p netip.Prefix) bool {
		return p.Bits() >= widest && !slices.ContainsFunc(avoid, func(a netip.Prefix) bool { return ipam.Overlaps(a, p) })
	}
	covers := cover(blocks, fits)
	for i := range covers {
		for covers[i].Bits() > 0 {
			wider := netip.PrefixFrom(covers[i].Addr(), covers[i].Bits()-1).Masked()
			others := slices.Concat(covers[:i], covers[i+1:])
			if !fits(wider) || slices.ContainsFunc(others, func(o netip.Prefix) bool { return ipam.Overlaps(o, wider) }) {
				break
			}
			covers[i] = wider
		}
	}
	return Ranges{CIDRs: covers, Source: "the nodes' spec.podCIDRs, with room for more nodes; the cluster states no whole range"}
}

// cover returns few prefixes that contain the blocks. fits returns true for each prefix that is not one of
// the blocks.
func cover(blocks []netip.Prefix, fits func(netip.Prefix) bool) []netip.Prefix {
	all := blocks[0]
	for _, b := range blocks {
		all = enclose(all, b)
	}
	if fits(all) || slices.Contains(blocks, all) {
		return []netip.Prefix{all}
	}
	half := netip.PrefixFrom(all.Addr(), all.Bits()+1)
	var lower, upper []netip.Prefix // neither is empty, because no smaller prefix contains all blocks
	for _, b := range blocks {
		if half.Contains(b.Addr()) {
			lower = append(lower, b)
		} else {
			upper = append(upper, b)
		}
	}
	return append(cover(lower, fits), cover(upper, fits)...)
}

// enclose returns the smallest prefix that contains both.
func enclose(a, b netip.Prefix) netip.Prefix {
	for bits := min(a.Bits(), b.Bits()); ; bits-- {
		if p := netip.PrefixFrom(a.Addr(), bits).Masked(); p.Contains(b.Addr()) {
			return p
		}
	}
}

// serviceCIDRs reads Kubernetes' own ServiceCIDR resource, which exists since 1.31 (beta).
func serviceCIDRs(ctx context.Context, reader client.Reader) (Ranges, error) {
	var last error
	for _, version := range []string{"v1", "v1beta1"} {
		o, err := getAny(ctx, reader, schema.GroupVersionKind{Group: "networking.k8s.io", Version: version, Kind: "ServiceCIDR"}, "kubernetes")
		if last = err; err != nil {
			if absent(err) {
				continue
			}
			return Ranges{}, err
		}
		cidrs, _, err := unstructured.NestedStringSlice(o, "spec", "cidrs")
		return parseRanges("ServiceCIDR kubernetes", cidrs...), err
	}
	return Ranges{}, last
}

// validIPs matches the text by which an API server without ServiceCIDRs rejects a Service's address.
var validIPs = regexp.MustCompile(`range of valid IPs is ([0-9./]+)`)

// refusedService creates a Service with an invalid address, so that the API server's error names the valid
// ones. Managed clusters without ServiceCIDRs state them nowhere else. The request is a dry run, with an
// address that nobody uses (RFC 5737).
func refusedService(c client.Client, namespace string) Statement {
	return func(ctx context.Context, _ client.Reader) (Ranges, error) {
		probe := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "liqo-tui-probe-"},
			Spec:       corev1.ServiceSpec{ClusterIP: "192.0.2.1", Ports: []corev1.ServicePort{{Port: 1}}},
		}
		err := c.Create(ctx, probe, client.DryRunAll)
		if status, ok := errors.AsType[*apierrors.StatusError](err); ok && apierrors.IsInvalid(err) {
			if m := validIPs.FindStringSubmatch(status.Error()); m != nil {
				return parseRanges("the API server's answer to a Service with another address", m[1]), nil
			}
			return Ranges{}, nil
		}
		return Ranges{}, err
	}
}
