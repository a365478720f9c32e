package main

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
)

// podImage is the image of every pod's sandbox, and of the test pods.
const podImage = "lab.local/pod:v1"

const (
	containerdSocket = "/run/containerd/containerd.sock"
	cniPlugins       = "/usr/lib/cni" // Debian's folder
)

func (n nodeSpec) pki(file string) string { return filepath.Join(n.PKI, file) }

func (n nodeSpec) etcd() []string {
	const client, peer = "http://127.0.0.1:2379", "http://127.0.0.1:2380"
	return []string{
		n.tool("etcd"), "--name=lab", "--data-dir=" + filepath.Join(n.data(), "etcd"), "--log-level=warn",
		"--listen-client-urls=" + client, "--advertise-client-urls=" + client,
		"--listen-peer-urls=" + peer, "--initial-advertise-peer-urls=" + peer, "--initial-cluster=lab=" + peer,
		// A tmpfs needs no sync; a single member need not wait for peers.
		"--unsafe-no-fsync", "--heartbeat-interval=10", "--election-timeout=100",
	}
}

func (n nodeSpec) apiServer() []string {
	bind := "0.0.0.0"
	if n.IPv6 != "" {
		bind = "::"
	}
	return []string{
		n.tool("kube-apiserver"),
		"--etcd-servers=http://127.0.0.1:2379",
		"--bind-address=" + bind, fmt.Sprintf("--secure-port=%d", apiPort), "--advertise-address=" + n.addresses()[0],
		"--service-cluster-ip-range=" + strings.Join(byFamily(n.IPv6, serviceNetwork, serviceNetwork6), ","), "--allow-privileged",
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--tls-cert-file=" + n.pki("apiserver.crt"), "--tls-private-key-file=" + n.pki("apiserver.key"),
		"--client-ca-file=" + n.pki("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + n.pki("sa.pub"), "--service-account-signing-key-file=" + n.pki("sa.key"),
		"--kubelet-client-certificate=" + n.pki("kubelet-client.crt"),
		"--kubelet-client-key=" + n.pki("kubelet-client.key"),
		"--kubelet-certificate-authority=" + n.pki("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
		"--requestheader-client-ca-file=" + n.pki("front-proxy-ca.crt"),
		"--requestheader-allowed-names=front-proxy-client",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--requestheader-group-headers=X-Remote-Group", "--requestheader-username-headers=X-Remote-User",
		"--proxy-client-cert-file=" + n.pki("front-proxy-client.crt"),
		"--proxy-client-key-file=" + n.pki("front-proxy-client.key"),
		"--profiling=false",
	}
}

// controllerManager leaves node.spec.podCIDR to the lab. The lab knows the range
// before the node exists, because the CNI plugin needs the same range.
func (n nodeSpec) controllerManager() []string {
	return []string{
		n.tool("kube-controller-manager"), "--kubeconfig=" + n.pki("controller-manager.kubeconfig"),
		"--leader-elect=false", "--allocate-node-cidrs=false", "--cluster-cidr=" + n.clusterCIDRs(),
		"--cluster-signing-cert-file=" + n.pki("ca.crt"), "--cluster-signing-key-file=" + n.pki("ca.key"),
		"--root-ca-file=" + n.pki("ca.crt"), "--service-account-private-key-file=" + n.pki("sa.key"),
		"--profiling=false",
	}
}

func (n nodeSpec) scheduler() []string {
	return []string{
		n.tool("kube-scheduler"), "--kubeconfig=" + n.pki("scheduler.kubeconfig"),
		"--leader-elect=false", "--profiling=false",
	}
}

func (n nodeSpec) containerd() []string {
	return []string{"/usr/bin/containerd", "--config=" + n.config("containerd.toml")}
}

func (n nodeSpec) kubelet() []string {
	return []string{
		n.tool("kubelet"), "--config=" + n.config("kubelet.yaml"), "--kubeconfig=" + n.pki(n.KubeletClient+".kubeconfig"),
		"--node-ip=" + strings.Join(n.addresses(), ","), "--hostname-override=" + n.Name, "--v=2",
	}
}

// flannel fails until the Node exists; the supervisor starts it again.
func (n nodeSpec) flannel() []string {
	return []string{n.Flannel, n.Name, n.pki("admin.kubeconfig"), n.config("flannel.json"), "eth0"}
}

// calico waits in the same way as flannel.
func (n nodeSpec) calico() []string {
	return []string{n.tool("calico-node"), n.Name, n.pki("admin.kubeconfig"), n.config("calico.json")}
}

// cilium runs the program of Cilium with that name.
func (n nodeSpec) cilium(name string) []string {
	return []string{n.tool(name), n.Name, n.pki("admin.kubeconfig"), n.config("cilium.json")}
}

// clusterCIDR returns the first pod network, for components that know only one.
func (n nodeSpec) clusterCIDR() string { return n.Pods[0].String() }

// clusterCIDRs returns the pod networks of both families. For IPv4 it is that of
// clusterCIDR.
func (n nodeSpec) clusterCIDRs() string {
	return strings.Join(byFamily(n.IPv6, n.clusterCIDR(), podNetwork6), ",")
}

// addresses returns the node's addresses, in the order of the cluster's families.
func (n nodeSpec) addresses() []string {
	return byFamily(n.IPv6, n.Address.String(), n.Address6.String())
}

func (n nodeSpec) kubeProxy() []string {
	return []string{n.tool("kube-proxy"), "--config=" + n.config("kube-proxy.yaml")}
}

// configFiles returns the configuration of the node's components by path. Kubernetes'
// components read JSON, because JSON is also YAML.
func (n nodeSpec) configFiles() (map[string][]byte, error) {
	files := map[string][]byte{
		n.config("containerd.toml"): []byte(n.containerdConfig()),
		// Nodes can't reach this machine's DNS servers. The node itself refuses what pods
		// ask it, so they don't wait for an answer.
		n.config("resolv.conf"): []byte("nameserver " + n.Address.String() + "\n"),
	}
	configs := map[string]any{
		n.config("kubelet.yaml"):    n.kubeletConfig(),
		n.config("kube-proxy.yaml"): n.kubeProxyConfig(),
		n.config("flannel.json"): map[string]any{
			"Network": n.clusterCIDR(), "Backend": map[string]any{"Type": "vxlan"},
		},
	}
	switch n.CNI {
	case cniCalico: // it writes the file when Felix is ready
		configs[n.config("calico.json")] = map[string]any{
			"address": n.Address.String() + "/32", "pools": n.Pods,
			"pool": slices.IndexFunc(n.Pods, func(p netip.Prefix) bool { return p.Overlaps(n.PodCIDR) }), "crds": filepath.Join(n.Calico, "crds"),
			"cni": n.calicoCNI(), "config": cniConfigFile,
		}
	case cniCilium: // it writes the file when its agent is ready
		configs[n.config("cilium.json")] = n.ciliumSetup()
	default:
		configs[cniConfigFile] = n.cniConfig()
	}
	for path, v := range configs {
		data, err := json.MarshalIndent(v, "", "  ")
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", path, err)
		}
		files[path] = data
	}
	return files, nil
}

// containerdConfig is for containerd 1.6 and 1.7. With restrict_oom_score_adj, it
// runs without CAP_SYS_RESOURCE. It reads the folder of registries at each pull, so
// one may be added at any time.
func (n nodeSpec) containerdConfig() string {
	return fmt.Sprintf(`version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
oom_score = 0
disabled_plugins = [
  "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs",
  "io.containerd.internal.v1.opt", "io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp",
]
[grpc]
  address = %q
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = %q
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".registry]
    config_path = %q
`, containerdSocket, podImage, n.cniFolder(), n.Registries)
}

// cniFolder returns the folder of containerd's plugins: Debian's folder, or the lab's
// own folder with links to some of Debian's plugins.
func (n nodeSpec) cniFolder() string {
	if n.CNI == cniCalico || n.CNI == cniCilium {
		return n.Bin
	}
	return cniPlugins
}

// pluginBridge is the device of the bridge plugin, and of flannel.
const pluginBridge = "cni0"

const cniConfigFile = "/etc/cni/net.d/10-lab.conflist"

// calicoCNI is the configuration in Calico's manifests for its own IPAM and
// policies.
func (n nodeSpec) calicoCNI() any {
	return map[string]any{
		"cniVersion": "0.3.1",
		"name":       "k8s-pod-network",
		"plugins": []any{
			map[string]any{
				"type": "calico", "datastore_type": "kubernetes", "nodename": n.Name, "nodename_file_optional": true,
				"mtu": 1450, "log_level": "warning", "log_file_path": filepath.Join(n.logs(), "calico-cni.log"),
				"ipam": map[string]any{"type": "calico-ipam"}, "policy": map[string]any{"type": "k8s"},
				"kubernetes": map[string]any{"kubeconfig": n.pki("admin.kubeconfig")},
			},
			portmap(),
		},
	}
}

func portmap() any {
	return map[string]any{"type": "portmap", "capabilities": map[string]any{"portMappings": true}}
}

// cniConfig configures a plain bridge, or routes to each pod. Both masquerade all
// packets that leave the node's own pod CIDR. Many small clusters do so, and programs
// that route pod traffic elsewhere have to handle this. For flannel, it returns the
// configuration that flannel's own plugin would make: a bridge with the overlay's
// MTU, without masquerading, because flanneld masquerades.
func (n nodeSpec) cniConfig() any {
	plugin := map[string]any{
		"type": "bridge", "bridge": pluginBridge, "isGateway": true, "ipMasq": true, "hairpinMode": true,
		"ipam": map[string]any{
			"type":   "host-local",
			"ranges": byFamily(n.IPv6, n.addressRanges(), []any{map[string]any{"subnet": n.PodCIDR6}}),
			"routes": byFamily[any](n.IPv6, map[string]any{"dst": "0.0.0.0/0"}, map[string]any{"dst": "::/0"}),
		},
	}
	switch n.CNI {
	case cniPTP, cniVPC:
		plugin["type"] = "ptp"
		for _, ofBridge := range []string{"bridge", "isGateway", "hairpinMode"} {
			delete(plugin, ofBridge)
		}
	case cniFlannel:
		plugin["ipMasq"], plugin["mtu"] = false, 1450 // flannel's VXLAN leaves 1450 of 1500 bytes
	}
	return map[string]any{
		"cniVersion": "1.0.0",
		"name":       "lab",
		"plugins":    []any{plugin, portmap()},
	}
}

// addressRanges returns the ranges of the node's pods: its own range, or single
// addresses.
func (n nodeSpec) addressRanges() (ranges []any) {
	if len(n.Singles) == 0 {
		return []any{map[string]any{"subnet": n.PodCIDR}}
	}
	for _, a := range n.Singles {
		subnet, _ := a.Prefix(24)
		ranges = append(ranges, map[string]any{
			"subnet": subnet, "rangeStart": a, "rangeEnd": a, "gateway": subnet.Masked().Addr().Next(),
		})
	}
	return ranges
}

func (n nodeSpec) kubeletConfig() any {
	return map[string]any{
		"apiVersion":               "kubelet.config.k8s.io/v1beta1",
		"kind":                     "KubeletConfiguration",
		"failCgroupV1":             false,
		"cgroupDriver":             "cgroupfs",
		"cgroupRoot":               "/" + n.Cgroup,
		"containerRuntimeEndpoint": "unix://" + containerdSocket,
		"authentication": map[string]any{
			"anonymous": map[string]any{"enabled": false},
			"webhook":   map[string]any{"enabled": true},
			"x509":      map[string]any{"clientCAFile": n.pki("ca.crt")},
		},
		"authorization":          map[string]any{"mode": "Webhook"},
		"tlsCertFile":            n.pki(n.KubeletServer + ".crt"),
		"tlsPrivateKeyFile":      n.pki(n.KubeletServer + ".key"),
		"clusterDNS":             []string{dnsServiceIP},
		"clusterDomain":          "cluster.local",
		"resolvConf":             n.config("resolv.conf"),
		"failSwapOn":             false,
		"enforceNodeAllocatable": []string{"pods"},
		"kubeReserved":           map[string]any{"cpu": "100m"},
		"volumePluginDir":        "/var/lib/kubelet/volumeplugins",
		// These need CAP_SYS_RESOURCE otherwise.
		"oomScoreAdj":  0,
		"maxOpenFiles": 20000,
		// The node's disk is a tmpfs of the lab, so the free space of the machine's
		// disk does not matter.
		"evictionHard": map[string]any{
			"memory.available": "50Mi", "nodefs.available": "0%", "imagefs.available": "0%", "nodefs.inodesFree": "0%",
		},
		"imageGCHighThresholdPercent": 100, "imageGCLowThresholdPercent": 99,
		"nodeStatusUpdateFrequency": "2s", // so that the end of a node is visible within seconds
		"syncFrequency":             "10s",
		"shutdownGracePeriod":       "0s",
		// Tests kill processes more often than these end in real use. With the
		// default of five minutes, tests would mostly measure this pause.
		"crashLoopBackOff": map[string]any{"maxContainerRestartPeriod": "1s"},
	}
}

func (n nodeSpec) kubeProxyConfig() any {
	return map[string]any{
		"apiVersion":       "kubeproxy.config.k8s.io/v1alpha1",
		"kind":             "KubeProxyConfiguration",
		"mode":             n.Proxy,
		"clientConnection": map[string]any{"kubeconfig": n.pki("kube-proxy.kubeconfig")},
		"clusterCIDR":      n.clusterCIDRs(),
		"hostnameOverride": n.Name,
		"oomScoreAdj":      0,
		// These settings of conntrack cannot be written in a network namespace.
		"conntrack": map[string]any{
			"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s",
		},
		"nftables": map[string]any{"minSyncPeriod": "100ms", "syncPeriod": "30s"},
		"iptables": map[string]any{"minSyncPeriod": "100ms", "syncPeriod": "30s"},
	}
}
