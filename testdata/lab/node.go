package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// nodeSpec is the input of a node's PID 1, in the file node.json of its folder.
type nodeSpec struct {
	Name          string         `json:"name"`
	Dir           string         `json:"dir"`
	PKI           string         `json:"pki"`
	Bin           string         `json:"bin"`
	Cgroup        string         `json:"cgroup"`
	Address       netip.Addr     `json:"address"`
	PodCIDR       netip.Prefix   `json:"podCIDR"`
	Singles       []netip.Addr   `json:"singles,omitempty"`
	Pods          []netip.Prefix `json:"pods"` // the networks of the whole cluster
	IPv6          string         `json:"ipv6,omitempty"`
	Address6      netip.Addr     `json:"address6,omitzero"`
	PodCIDR6      netip.Prefix   `json:"podCIDR6,omitzero"`
	CNI           string         `json:"cni"`
	Modes         []string       `json:"modes,omitempty"`   // of the network plugin
	Flannel       string         `json:"flannel,omitempty"` // its program
	Calico        string         `json:"calico,omitempty"`  // the folder of its program and definitions
	Cilium        string         `json:"cilium,omitempty"`  // the folder of its program and C sources
	Proxy         string         `json:"proxy"`
	ControlPlane  bool           `json:"controlPlane"`
	KubeletServer string         `json:"kubeletServer"` // base name of files in PKI
	KubeletClient string         `json:"kubeletClient"`
	Images        []string       `json:"images,omitempty"`
	Registries    string         `json:"registries"` // folder of containerd's hosts.toml files: the registries to trust
	// Shared are the folders of the machine that the node sees as they are.
	Shared []string     `json:"shared"`
	LBs    netip.Prefix `json:"lbs,omitzero"` // zero: load balancers get no address
}

func (n nodeSpec) data() string              { return filepath.Join(n.Dir, "data") }
func (n nodeSpec) logs() string              { return filepath.Join(n.Dir, "log") }
func (n nodeSpec) config(file string) string { return filepath.Join(n.data(), file) }
func (n nodeSpec) tool(name string) string   { return filepath.Join(n.Bin, name) }
func eventFile(nodeDir string) string        { return filepath.Join(nodeDir, "events") }

// event is a line of a node's event file, from its PID 1 to `lab up`.
type event struct {
	// Reached is a milestone, in words for the user.
	Reached string `json:"reached,omitempty"`
	// Component ended because of Failure. It will be started again, unless it is
	// "init", the PID 1 itself.
	Component string `json:"component,omitempty"`
	Failure   string `json:"failure,omitempty"`
}

// initComponent is the name of a node's PID 1 and of its log.
const initComponent = "init"

// nodeInit is the PID 1 of a node, in its own network, mount, pid, uts and ipc
// namespaces. When it ends, the kernel kills all other processes of the node,
// including pods. It returns only if it has failed.
func nodeInit(dir string) error {
	syscall.CloseOnExec(lifeDescriptor) // it marks the life of this process only, not of its children
	data, err := os.ReadFile(filepath.Join(dir, "node.json"))
	if err != nil {
		return err
	}
	var n nodeSpec
	if err := json.Unmarshal(data, &n); err != nil {
		return fmt.Errorf("read specification of node: %w", err)
	}
	events, err := os.OpenFile(eventFile(dir), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	tell := func(e event) {
		// If an event can't be written, it is only in this log.
		if err := json.NewEncoder(events).Encode(e); err != nil {
			fmt.Fprintf(os.Stderr, "write event %+v: %v\n", e, err)
		}
	}
	err = n.boot(tell)
	tell(event{Component: initComponent, Failure: err.Error()})
	return err
}

func (n nodeSpec) boot(tell func(event)) error {
	if err := n.isolate(); err != nil {
		return err
	}
	files, err := n.configFiles()
	if err != nil {
		return err
	}
	for path, data := range files {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			return err
		}
	}
	ctx := context.Background() // a node is always killed, and never stopped in order
	path := "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	s := newSupervisor(ctx, n.logs(), []string{"PATH=" + path, "HOME=/root"}, tell)
	failed := make(chan error)
	spawn := func(work func(context.Context, *supervisor, func(event)) error) {
		go func() {
			if err := work(ctx, s, tell); err != nil {
				failed <- err
			}
		}()
	}
	if n.ControlPlane {
		go s.keep(ctx, "etcd", n.etcd()...)
		go s.keep(ctx, "kube-apiserver", n.apiServer()...)
		go s.keep(ctx, "kube-controller-manager", n.controllerManager()...)
		go s.keep(ctx, "kube-scheduler", n.scheduler()...)
	}
	go s.keep(ctx, "containerd", n.containerd()...)
	spawn(n.startKubelet)
	spawn(n.startServices)
	return <-failed
}

// startKubelet starts kubelet when its container runtime runs and has the images,
// because nothing can be pulled later.
func (n nodeSpec) startKubelet(ctx context.Context, s *supervisor, tell func(event)) error {
	if !ownRoutes(n.CNI) {
		for _, command := range n.keepPodAddresses() {
			if err := s.run("iptables", nil, command...); err != nil {
				return err
			}
		}
	}
	waitSocket(containerdSocket)
	tell(event{Reached: "containerd runs"})
	for _, image := range n.Images {
		if err := n.importImage(s, image); err != nil {
			return err
		}
	}
	tell(event{Reached: "images are imported"})
	s.keep(ctx, "kubelet", n.kubelet()...)
	return nil
}

// keepPodAddresses returns the commands that exempt traffic between pods of
// different nodes from masquerading, because Kubernetes promises pods that they see
// each other's address. The CNI plugin itself exempts only the node's own pods. It
// appends its rules, so these rules come first.
func (n nodeSpec) keepPodAddresses() [][]string {
	var commands [][]string
	keep := func(program, from, to string) {
		commands = append(commands, []string{program, "-w", "-t", "nat", "-A", "POSTROUTING", "-s", from, "-d", to, "-j", "ACCEPT"})
	}
	for _, from := range n.Pods {
		for _, to := range n.Pods {
			keep("/usr/sbin/iptables", from.String(), to.String())
		}
	}
	if n.IPv6 != "" {
		keep("/usr/sbin/ip6tables", podNetwork6, podNetwork6)
	}
	return commands
}

func (n nodeSpec) importImage(s *supervisor, image string) error {
	file, err := os.Open(image)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := s.run("images", file, importCommand()...); err != nil {
		return fmt.Errorf("import %s: %w", image, err)
	}
	return nil
}

// importCommand reads a docker or OCI archive from its standard input.
func importCommand() []string {
	return []string{"/usr/bin/ctr", "--namespace=k8s.io", "images", "import", "-"}
}

// startServices starts kube-proxy when the API server is ready. On the first node,
// it also starts the load balancer.
func (n nodeSpec) startServices(ctx context.Context, s *supervisor, tell func(event)) error {
	api, err := apiClient(n.pki("kube-proxy.kubeconfig"))
	if err != nil {
		return err
	}
	for !apiReady(ctx, api) {
		time.Sleep(pollInterval)
	}
	if n.Proxy != proxyNone {
		tell(event{Reached: "kube-proxy starts"})
		go s.keep(ctx, "kube-proxy", n.kubeProxy()...)
	}
	switch n.CNI {
	case cniFlannel:
		go s.keep(ctx, "flanneld", n.flannel()...)
	case cniCalico:
		go s.keep(ctx, "calico-node", n.calico()...)
	case cniCilium:
		if n.ControlPlane {
			go s.keep(ctx, "cilium-operator", n.cilium("cilium-operator")...)
		}
		go s.keep(ctx, "cilium-agent", n.cilium("cilium-agent")...)
	}
	if !n.ControlPlane || !n.LBs.IsValid() {
		return nil
	}
	admin, err := apiClient(n.pki("admin.kubeconfig"))
	if err != nil {
		return err
	}
	return serveLoadBalancers(ctx, admin, n.LBs, nodeLink{s})
}

// pollInterval is the time between two tests of a state without a notification: a
// twentieth of the time in which a cluster comes up.
const pollInterval = 50 * time.Millisecond

// waitSocket returns when a program listens on a Unix socket. It has no time limit,
// because the caller of `lab up` has one.
func waitSocket(path string) {
	for {
		conn, err := net.Dial("unix", path)
		if err == nil {
			conn.Close()
			return
		}
		time.Sleep(pollInterval)
	}
}

func apiClient(kubeconfig string) (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", kubeconfig, err)
	}
	config.QPS = -1 // the server's own limits are enough
	return kubernetes.NewForConfig(config)
}

func apiReady(ctx context.Context, api *kubernetes.Clientset) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return api.Discovery().RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil
}

// loaded returns the archives that `lab load` imported and that still exist.
func (l Lab) loaded() []string {
	return slices.DeleteFunc(slices.Clone(l.Loaded), func(archive string) bool { return !exists(archive) })
}

func (l Lab) spec(c Cluster, n Node, from supplies) nodeSpec {
	s := nodeSpec{
		Name: n.Name, Dir: l.nodeDir(n), PKI: l.pkiDir(c), Bin: l.path("bin"), Cgroup: l.cgroup(n),
		Address: n.Address, PodCIDR: n.PodCIDR, Singles: n.Singles, Pods: c.Pods, IPv6: c.IPv6, Address6: n.Address6, PodCIDR6: n.PodCIDR6, CNI: c.CNI, Modes: c.Modes, Proxy: c.Proxy, ControlPlane: n.Index == 1,
		KubeletServer: kubeletServer(n), KubeletClient: kubeletClient(n), Images: slices.Concat(from.images, from.liqo[c.Name].images(), l.loaded()), Flannel: from.flanneld, Calico: from.calico, Cilium: from.cilium,
		Registries: l.path("registries"),
		Shared:     []string{l.Dir, filepath.Dir(from.kubelab), l.Images},
	}
	if l.LB == lbServed {
		s.LBs = c.LBs
	}
	return s
}
