package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// kubernetesTools are the names under which the multi-call program kubelab runs.
func kubernetesTools() []string {
	return []string{
		"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kube-proxy",
	}
}

// debianPackages lists Debian's programs that the lab runs, by package.
func debianPackages() map[string][]string {
	return map[string][]string{
		"containerd":                  {"/usr/bin/containerd", "/usr/bin/containerd-shim-runc-v2", "/usr/bin/ctr"},
		"runc":                        {"/usr/sbin/runc"},
		"containernetworking-plugins": {cniPlugins + "/bridge", cniPlugins + "/ptp", cniPlugins + "/host-local", cniPlugins + "/portmap", cniPlugins + "/loopback"},
		"iptables":                    {"/usr/sbin/iptables"},
		"ipset":                       {"ipset"}, // for Calico
		"nftables":                    {"nft"},
		"iproute2":                    {"ip"},
		"procps":                      {"sysctl"},
		"util-linux":                  {"nsenter"},
	}
}

// missingPackages returns the packages to install, sorted.
func missingPackages() []string {
	var missing []string
	for name, files := range debianPackages() {
		if slices.ContainsFunc(files, func(f string) bool { _, err := exec.LookPath(f); return err != nil }) {
			missing = append(missing, name)
		}
	}
	slices.Sort(missing)
	return missing
}

// reporter prints one line per milestone with the time since it was made.
type reporter struct {
	mu    sync.Mutex
	out   io.Writer
	since time.Time
}

func (r *reporter) say(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.out, "%5.1fs  %s\n", time.Since(r.since).Seconds(), fmt.Sprintf(format, args...))
}

// up starts the missing parts of the lab. It may be killed at any moment and run
// again.
func up(ctx context.Context, l Lab, r *reporter) error {
	supplies, err := l.supplies()
	if err != nil {
		return err
	}
	if err := l.checkOthers(); err != nil {
		return err
	}
	if err := l.linkTools(supplies); err != nil {
		return err
	}
	if err := l.write(); err != nil {
		return err
	}
	running, err := l.running()
	if err != nil {
		return err
	}
	if !l.networkComplete() {
		// Nodes in a half-built network are of no use.
		if err := l.killNodes(running); err != nil {
			return err
		}
		clear(running)
		if err := l.buildNetwork(); err != nil {
			return err
		}
		r.say("network between %d clusters", len(l.Clusters))
	}
	var group errgroup.Group
	for _, c := range l.Plan() {
		group.Go(func() error { return l.upCluster(ctx, c, running, supplies, r) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := l.mergeKubeconfigs(); err != nil {
		return err
	}
	r.say("lab is up")
	return nil
}

// checkMachine reports what this machine lacks, before anything is changed.
func checkMachine() error {
	if os.Geteuid() != 0 {
		return errors.New("the lab makes namespaces and mounts: run it as root")
	}
	if missing := missingPackages(); len(missing) > 0 {
		return fmt.Errorf("programs are missing: apt-get install -y --no-install-recommends %s", strings.Join(missing, " "))
	}
	_, err := cgroupRoots()
	return err
}

// checkOthers reports whether another lab uses the name or the network.
func (l Lab) checkOthers() error {
	if owner := l.owner(); owner != "" && owner != l.Dir {
		return fmt.Errorf("--name %s: the lab in %s has that name", l.Name, owner)
	}
	links, err := net.Interfaces()
	if err != nil {
		return err
	}
	for _, link := range links {
		addresses, err := link.Addrs()
		if err != nil || link.Name == l.hostLink() {
			continue
		}
		for _, address := range addresses {
			if p, err := netip.ParsePrefix(address.String()); err == nil && l.WAN.Overlaps(p) {
				return fmt.Errorf("--wan %s: %s has the address %s", l.WAN, link.Name, address)
			}
		}
	}
	return nil
}

// supplies are the files for nodes, by absolute path.
type supplies struct {
	lab, kubelab, kubectl string                 // programs
	flanneld              string                 // only where a cluster needs it
	calico, cilium        string                 // folders, only where a cluster needs them
	liqo                  map[string]liqoRelease // by cluster
	images                []string
}

func (l Lab) supplies() (supplies, error) {
	lab, err := os.Executable()
	if err != nil {
		return supplies{}, err
	}
	s := supplies{lab: lab, kubelab: filepath.Join(filepath.Dir(lab), "kubelab"), kubectl: filepath.Join(filepath.Dir(lab), "kubectl")}
	for program, source := range map[string]string{s.kubelab: "./kubelab", s.kubectl: "k8s.io/kubernetes/cmd/kubectl"} {
		if _, err := os.Stat(program); err != nil {
			return s, fmt.Errorf("%s: %w: build %s of the module testdata/lab into that folder", filepath.Base(program), err, source)
		}
	}
	if l.has(cniFlannel) {
		s.flanneld = filepath.Join(filepath.Dir(lab), "flanneld")
		if _, err := os.Stat(s.flanneld); err != nil {
			return s, fmt.Errorf("flanneld: %w: build the module testdata/flannel into that folder", err)
		}
	}
	if l.has(cniCalico) {
		s.calico = filepath.Join(filepath.Dir(lab), "calico")
		if _, err := os.Stat(filepath.Join(s.calico, "crds")); err != nil {
			return s, fmt.Errorf("calico: %w: run make bin/calico", err)
		}
	}
	if l.has(cniCilium) {
		s.cilium = filepath.Join(filepath.Dir(lab), "cilium")
		if _, err := os.Stat(filepath.Join(s.cilium, "bpf")); err != nil {
			return s, fmt.Errorf("cilium: %w: run make bin/cilium", err)
		}
		if _, err := os.Stat(clang); err != nil {
			return s, fmt.Errorf("cilium: %w: apt-get install -y --no-install-recommends clang-19", err)
		}
	}
	if s.liqo, err = l.liqoReleases(filepath.Dir(lab)); err != nil {
		return s, err
	}
	if s.images, err = filepath.Glob(filepath.Join(l.Images, "*.tar")); err != nil {
		return s, err
	}
	if len(s.images) == 0 {
		return s, fmt.Errorf("images in %s: no *.tar; the lab needs at least %s, made from testdata/lab/pod", l.Images, podImage)
	}
	return s, nil
}

// has tells whether a cluster has that network plugin.
func (l Lab) has(cni string) bool {
	return slices.ContainsFunc(l.Plan(), func(c Cluster) bool { return c.CNI == cni })
}

// linkTools gives the programs that are several in one the names of each.
func (l Lab) linkTools(from supplies) error {
	if err := os.MkdirAll(l.path("bin"), 0o755); err != nil {
		return err
	}
	links := map[string]string{"kubectl": from.kubectl}
	for _, name := range kubernetesTools() {
		links[name] = from.kubelab
	}
	if from.calico != "" {
		for _, name := range []string{"calico", "calico-ipam", "calico-node"} {
			links[name] = filepath.Join(from.calico, "calico")
		}
		for _, name := range []string{"portmap", "loopback"} {
			links[name] = filepath.Join(cniPlugins, name)
		}
	}
	if from.cilium != "" {
		for _, name := range []string{"cilium-agent", "cilium-operator", "cilium-cni", "cilium-dbg"} {
			links[name] = filepath.Join(from.cilium, "cilium")
		}
		links["loopback"], links["clang"] = filepath.Join(cniPlugins, "loopback"), clang
	}
	for name, program := range links {
		if err := os.Remove(l.tool(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := os.Symlink(program, l.tool(name)); err != nil {
			return err
		}
	}
	return nil
}

// upCluster starts the nodes of c that do not run, and waits until all are ready.
// The state of a cluster is on its first node: without that, the other nodes
// belong to a cluster that is gone.
func (l Lab) upCluster(ctx context.Context, c Cluster, running map[string]int, s supplies, r *reporter) error {
	alive := map[string]int{} // node folder → pid
	for _, n := range c.Nodes {
		if pid := running[l.nodeDir(n)]; pid != 0 {
			alive[l.nodeDir(n)] = pid
		}
	}
	if alive[l.nodeDir(c.Nodes[0])] == 0 {
		if err := l.killNodes(alive); err != nil {
			return err
		}
		clear(alive)
		if err := l.writePKI(c); err != nil {
			return err
		}
		r.say("%s: certificates", c.Name)
	}
	started := map[string]<-chan struct{}{}
	for _, n := range c.Nodes {
		if alive[l.nodeDir(n)] != 0 {
			continue
		}
		if len(alive) > 0 {
			if err := l.markDown(ctx, c, n); err != nil {
				return err
			}
		}
		ended, err := l.startNode(c, n, s)
		if err != nil {
			return err
		}
		started[l.nodeDir(n)] = ended
	}
	if err := l.awaitCluster(ctx, c, started, r); err != nil || s.liqo[c.Name] == "" {
		return err
	}
	return l.installLiqo(ctx, c, s.liqo[c.Name], r)
}

// startNode prepares the folder and the cgroups of a node and starts it.
func (l Lab) startNode(c Cluster, n Node, s supplies) (ended <-chan struct{}, err error) {
	spec := l.spec(c, n, s)
	if err := os.RemoveAll(spec.Dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(spec.logs(), 0o755); err != nil {
		return nil, err
	}
	if err := writeJSON(filepath.Join(spec.Dir, "node.json"), spec); err != nil {
		return nil, err
	}
	// The node's earlier process left them.
	if err := retryBusy(func() error { return removeCgroups(spec.Cgroup) }); err != nil {
		return nil, err
	}
	if err := l.buildNode(c, n); err != nil {
		return nil, err
	}
	if err := makeCgroups(spec.Cgroup); err != nil {
		return nil, err
	}
	return startNode(l.nodeNetns(n), s.lab, spec)
}
