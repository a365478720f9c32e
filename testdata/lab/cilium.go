package main

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// Modes of Cilium, as in milan=cilium:kpr+native. Without a mode, Cilium has Helm's defaults:
// VXLAN between nodes, Services by kube-proxy, and ranges for nodes that Cilium's operator
// takes from the cluster's pod network.
const (
	ciliumKPR       = "kpr"       // Services and masquerading by BPF, and no kube-proxy
	ciliumNative    = "native"    // routes between nodes in place of VXLAN
	ciliumNodeCIDR  = "nodecidr"  // nodes' ranges are their spec.podCIDR
	ciliumMultiPool = "multipool" // pods have addresses in ciliumPool, in small ranges
)

func ciliumModes() []string {
	return []string{ciliumKPR, ciliumNative, ciliumNodeCIDR, ciliumMultiPool}
}

// ciliumPool is outside of the nodes' spec.podCIDR. Pools of Cilium may be there.
const ciliumPool = "10.50.0.0/16"

// clang is the compiler in Cilium's own images. On Debian it is in package clang-19.
const clang = "/usr/bin/clang-19"

// ciliumCgroup is the folder of a node's own group in the cgroup2 hierarchy.
const ciliumCgroup = "/run/cilium/cgroupv2"

// plugin splits the value of --cni into the network plugin and its modes.
func plugin(cni string) (name string, modes []string) {
	name, text, found := strings.Cut(cni, ":")
	if found {
		modes = strings.Split(text, "+")
	}
	return name, modes
}

// checkPlugin refuses plugins and modes that can't work.
func checkPlugin(cni string) error {
	name, modes := plugin(cni)
	if !slices.Contains(networkPlugins(), name) {
		return fmt.Errorf("want one of %s", strings.Join(networkPlugins(), ", "))
	}
	for _, m := range modes {
		if name != cniCilium || !slices.Contains(ciliumModes(), m) {
			return fmt.Errorf("want %s:%s", cniCilium, strings.Join(ciliumModes(), "+"))
		}
	}
	return nil
}

// ciliumSettings returns the settings in the ConfigMap cilium-config that differ from the
// programs' own defaults. Settings for functions that need images or an Envoy are left out.
func (n nodeSpec) ciliumSettings() map[string]string {
	settings := map[string]string{
		"identity-allocation-mode": "crd",
		"ipam":                     "cluster-pool", "cluster-pool-ipv4-cidr": n.clusterCIDR(), "cluster-pool-ipv4-mask-size": "24",
		"enable-ipv4": "true", "enable-ipv6": "false", "enable-ipv4-masquerade": "true",
		"routing-mode": "tunnel", "tunnel-protocol": "vxlan", "kube-proxy-replacement": "false",
		"enable-l7-proxy": "false", "enable-hubble": "false", "enable-health-checking": "false",
		"cgroup-root": ciliumCgroup,
		// On a busy machine, an API server may need more than 10 s for an answer. With the
		// default, the operator would end then.
		"leader-election-lease-duration": "60s", "leader-election-renew-deadline": "50s",
		// All nodes share the memory of this machine.
		"bpf-map-dynamic-size-ratio": "0.0005",
	}
	for _, mode := range n.Modes {
		maps.Copy(settings, map[string]map[string]string{
			ciliumKPR: {"kube-proxy-replacement": "true", "enable-bpf-masquerade": "true"},
			ciliumNative: {
				"routing-mode": "native", "auto-direct-node-routes": "true", "ipv4-native-routing-cidr": n.clusterCIDR(),
			},
			ciliumNodeCIDR: {"ipam": "kubernetes"},
			ciliumMultiPool: {
				"ipam": "multi-pool", "ipam-multi-pool-pre-allocation": "default=8",
				"auto-create-cilium-pod-ip-pools": "default=ipv4-cidrs:" + ciliumPool + ";ipv4-mask-size:27",
			},
		}[mode])
	}
	if slices.Contains(n.Modes, ciliumNative) && slices.Contains(n.Modes, ciliumMultiPool) {
		settings["ipv4-native-routing-cidr"] = ciliumPool
	}
	return settings
}

func (n nodeSpec) ciliumSetup() any {
	return map[string]any{
		"settings": n.ciliumSettings(), "sources": filepath.Join(n.Cilium, "bpf"), "tools": n.Bin, "config": cniConfigFile,
		"cni": map[string]any{
			"cniVersion": "1.0.0", "name": "cilium",
			"plugins": []any{map[string]any{"type": "cilium-cni", "log-file": filepath.Join(n.logs(), "cilium-cni.log")}},
		},
	}
}

// isolateBPF gives a node its own BPF file system, its own root of cgroups for socket programs,
// and its own copies of the kernel settings that Cilium writes. Otherwise Cilium would share
// them with the whole machine.
func (n nodeSpec) isolateBPF() error {
	const files = "/sys/fs/bpf"
	// Cilium does not start if several BPF file systems are mounted over each other. The
	// machine keeps its own.
	for unix.Unmount(files, unix.MNT_DETACH) == nil {
	}
	if err := unix.Mount("bpf", files, "bpf", 0, ""); err != nil {
		return fmt.Errorf("mount %s: %w", files, err)
	}
	group, err := n.unifiedGroup()
	if err != nil {
		return err
	}
	if err := bind(group, ciliumCgroup); err != nil {
		return err
	}
	// The socket programs also apply to processes on the node itself, above all kubelet.
	self := filepath.Join(group, "node")
	if err := os.MkdirAll(self, 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(self, "cgroup.procs"), []byte("0\n"), 0o644); err != nil {
		return err
	}
	return n.bindKernelSettings(map[string]string{"kernel/timer_migration": "0", "kernel/unprivileged_bpf_disabled": "1"})
}

// unifiedGroup makes the node's group in the cgroup2 hierarchy. runc puts pods below it.
func (n nodeSpec) unifiedGroup() (string, error) {
	for _, root := range []string{"/sys/fs/cgroup/unified", "/sys/fs/cgroup"} {
		if exists(filepath.Join(root, "cgroup.procs")) {
			group := filepath.Join(root, n.Cgroup)
			return group, os.MkdirAll(group, 0o755)
		}
	}
	return "", errors.New("find cgroups: nothing of type cgroup2 is mounted below /sys/fs/cgroup")
}
