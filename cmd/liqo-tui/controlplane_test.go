package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/liqo-tui/liqo-tui/gateway/operator"
	"github.com/liqo-tui/liqo-tui/internal/apitest"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// controlPlane is a cluster without nodes: a real API server, Kubernetes' own
// controllers and our operator. What a node would do is done by [kubelet].
type controlPlane struct {
	name   string
	env    *envtest.Environment
	client client.WithWatch
	server string // of the API server
	front  *front // what kubeconfigs name, and what can be cut
	admin  []byte // kubeconfig
	nodes  *kubelet
	stage  *stage // with which it ends

	processes map[string]*lockedBuffer // what they wrote, by name
	planted   []client.Object          // by a test: objects of others
}

func (p *controlPlane) startPlane(ctx context.Context) error {
	api, err := apitest.New(apitest.Options{Definitions: []string{"../../render/crds"}})
	if err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	p.stage.atEnd(api.Stop)
	p.env, p.client = api.Env, api
	p.server = strings.Trim(strings.TrimPrefix(api.Config.Host, "https:"), "/")
	if p.front, err = newFront(ctx, p.server); err != nil {
		return err
	}
	p.stage.atEnd(p.front.close)
	if p.admin, err = p.user("admin", "system:masters"); err != nil {
		return err
	}
	p.nodes = &kubelet{client: p.client, news: make(chan struct{}, 1), node: p.name + "-1", address: map[string]string{"rome": "192.0.2.11", "milan": "192.0.2.21", "genoa": "192.0.2.31"}[p.name]}
	if err := p.nodes.join(ctx); err != nil {
		return err
	}
	return p.runControllers() //nolint:contextcheck // they outlive the test that starts them
}

// user is a kubeconfig for a new user, by way of what can be cut.
func (p *controlPlane) user(name string, groups ...string) ([]byte, error) {
	u, err := p.env.AddUser(envtest.User{Name: name, Groups: groups}, nil)
	if err != nil {
		return nil, fmt.Errorf("add user %s to %s: %w", name, p.name, err)
	}
	text, err := u.KubeConfig()
	if err != nil {
		return nil, err
	}
	return []byte(strings.ReplaceAll(string(text), p.server, p.front.address)), nil
}

// runControllers runs those of Kubernetes' own controllers that deleting
// namespaces and making pods needs.
func (p *controlPlane) runControllers() error {
	kubeconfig := filepath.Join(p.stage.folder, "controllers-of-"+p.name)
	if err := os.WriteFile(kubeconfig, []byte(strings.ReplaceAll(string(p.admin), p.front.address, p.server)), 0o600); err != nil {
		return err
	}
	output := p.logOf("kube-controller-manager")
	stop, err := apitest.Controllers(kubeconfig, output,
		"--service-account-private-key-file", filepath.Join(p.env.ControlPlane.GetAPIServer().CertDir, "sa-signer.key"),
		"--controllers=namespace-controller,garbage-collector-controller,deployment-controller,replicaset-controller,job-controller,serviceaccount-token-controller")
	if err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	p.stage.atEnd(func() error { stop(); return nil })
	return nil
}

// runOperator runs ours in a process of its own: the name says which program
// the test binary is, see TestMain.
func (p *controlPlane) runOperator() error {
	kubeconfig := filepath.Join(p.stage.folder, "operator-of-"+p.name)
	if err := os.WriteFile(kubeconfig, []byte(strings.ReplaceAll(string(p.admin), p.front.address, p.server)), 0o600); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self)
	cmd.Args[0] = operatorProgram
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	output := p.logOf(operatorProgram)
	cmd.Stdout, cmd.Stderr = output, output
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the operator of %s: %w", p.name, err)
	}
	p.stage.atEnd(func() error {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()         // killed
		return nil
	})
	return nil
}

// runNodes does what its nodes would do, also when the test that started them is over.
func (p *controlPlane) runNodes(ctx context.Context) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() { defer close(done); p.nodes.run(ctx) }()
	p.stage.atEnd(func() error { cancel(); <-done; return nil })
}

// operatorProgram is the name under which the test binary is our operator.
const operatorProgram = "test-operator"

func operatorMain() {
	if err := runOperatorProgram(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func runOperatorProgram() error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	return operator.Run(ctrl.SetupSignalHandler(), config, operator.Options{Namespace: wire.DefaultNamespace, Identity: "test", Stated: map[string][]netip.Prefix{
		wire.NetworkPodCIDR: {netip.MustParsePrefix("10.244.0.0/16")}, wire.NetworkServiceCIDR: {netip.MustParsePrefix("10.96.0.0/16")}, // as the installation states
	}})
}

// logOf is for what a process writes.
func (p *controlPlane) logOf(process string) *lockedBuffer {
	b := &lockedBuffer{}
	p.processes[process] = b
	return b
}

type lockedBuffer struct {
	mu   sync.Mutex
	text []byte
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p...)
	return len(p), nil
}

func (b *lockedBuffer) tail(n int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return string(b.text[max(0, len(b.text)-n):])
}

// front is a TCP proxy before an API server.
type front struct {
	address, server string
	listener        net.Listener
	mu              sync.Mutex
	cut             bool
	open            map[net.Conn]bool
}

func newFront(ctx context.Context, server string) (*front, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	f := &front{address: listener.Addr().String(), server: server, open: map[net.Conn]bool{}, listener: listener}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go f.serve(conn)
		}
	}()
	return f, nil
}

func (f *front) close() error {
	f.set(true)
	return f.listener.Close()
}

// set cuts all connections and refuses new ones, or stops to.
func (f *front) set(cut bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.cut = cut
	if cut {
		for conn := range f.open {
			_ = conn.Close()
		}
	}
}

func (f *front) serve(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	f.mu.Lock()
	if f.cut {
		f.mu.Unlock()
		return
	}
	f.open[conn] = true
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.open, conn)
	}()
	server, err := net.Dial("tcp", f.server)
	if err != nil {
		return
	}
	go func() { _, _ = io.Copy(server, conn); _ = server.Close() }()
	_, _ = io.Copy(conn, server)
}

// allow gives a user what a Kubernetes role by that name gives, on the whole
// cluster.
func (p *controlPlane) allow(ctx context.Context, user string, rules ...rbacv1.PolicyRule) error {
	meta := metav1.ObjectMeta{Name: "test-" + user}
	return p.create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, Subjects: []rbacv1.Subject{{Kind: "User", Name: user, APIGroup: rbacv1.GroupName}},
		RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: meta.Name, APIGroup: rbacv1.GroupName},
	})
}

func (p *controlPlane) create(ctx context.Context, objects ...client.Object) error {
	for _, o := range objects {
		if err := p.client.Create(ctx, o); err != nil {
			return fmt.Errorf("create %T %s on %s: %w", o, o.GetName(), p.name, err)
		}
	}
	return nil
}

// forget removes the tenant namespaces and returns when they are gone. That takes
// Kubernetes' own controller 5 s. Who is faster than it, by finalizing them, has it
// empty the next namespace of that name.
func (p *controlPlane) forget(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		left, err := p.removeTenants(ctx)
		if err != nil || left == 0 {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d tenant namespaces of %s are left: %w", left, p.name, ctx.Err())
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// removeTenants has them removed, and says how many there are.
func (p *controlPlane) removeTenants(ctx context.Context) (left int, err error) {
	var all corev1.NamespaceList
	if err := p.client.List(ctx, &all); err != nil {
		return 0, err
	}
	for i := range all.Items {
		ns := &all.Items[i]
		if !strings.HasPrefix(ns.Name, wire.TenantNamespaceName("")) {
			continue
		}
		left++
		// No pod has to be given time to end.
		if err := p.client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(ns.Name), client.GracePeriodSeconds(0)); err != nil {
			return 0, fmt.Errorf("delete the pods in namespace %s of %s: %w", ns.Name, p.name, err)
		}
		if err := p.client.Delete(ctx, ns); client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return 0, err
		}
	}
	return left, nil
}
