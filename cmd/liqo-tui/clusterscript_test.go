package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sync/errgroup"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/liqo-tui/liqo-tui/internal/apitest"
)

// TestClusterScripts runs testdata/cluster: the command line against two
// clusters, rome and milan, that have everything but nodes. Each script begins
// with our operator installed on both, and no connection.
func TestClusterScripts(t *testing.T) {
	apitest.Require(t)
	t.Parallel()
	files, err := filepath.Glob("testdata/cluster/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		onStage(t, strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T, s *stage) {
			testscript.RunT(inTurn{t}, testscript.Params{
				Files: []string{file}, UpdateScripts: os.Getenv("UPDATE") != "",
				Setup: s.setUp, Cmds: s.commands(),
			})
		})
	}
	onStage(t, "Ctrl-C at every step", func(t *testing.T, s *stage) { s.testInterrupts(t) })
	onStage(t, "questions on a terminal", func(t *testing.T, s *stage) { s.testQuestions(t) })
}

// onStage runs a part of a test beside others, which have clusters of their own:
// a script waits, most of its time, above all for namespaces to go.
func onStage(t *testing.T, name string, part func(*testing.T, *stage)) {
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		part(t, useStage(t))
	})
}

// inTurn is a test whose scripts run when it does: it has the stage they are for.
type inTurn struct{ *testing.T }

func (t inTurn) Parallel()     {}
func (t inTurn) Verbose() bool { return testing.Verbose() }
func (t inTurn) Run(name string, script func(testscript.T)) {
	t.T.Run(name, func(t *testing.T) { script(inTurn{t}) })
}

// stage is two clusters, rome and milan, as tests see them. It takes longer to
// set up than most tests: they share a few, and reset them.
type stage struct {
	planes     map[string]*controlPlane
	folder     string // of files
	kubeconfig string

	mu   sync.Mutex
	ends []func() error // what ends it, in reverse order
}

// stages are those that were set up, and that no test uses now.
var stages struct {
	mu   sync.Mutex
	all  []*stage
	idle []*stage
}

// useStage gives the test two clusters that are as new, until it ends.
func useStage(t *testing.T) *stage {
	t.Helper()
	apitest.Require(t)
	stages.mu.Lock()
	var s *stage
	if n := len(stages.idle); n > 0 {
		s, stages.idle = stages.idle[n-1], stages.idle[:n-1]
	} else {
		s = &stage{planes: map[string]*controlPlane{}}
		stages.all = append(stages.all, s)
	}
	stages.mu.Unlock()
	if len(s.planes) == 0 {
		if err := s.startClusters(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			s.tell(t)
			return // what a script has changed and not put back would fail the next ones
		}
		stages.mu.Lock()
		defer stages.mu.Unlock()
		stages.idle = append(stages.idle, s)
	})
	if err := s.reset(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

// startClusters starts rome and milan, and installs our operator.
func (s *stage) startClusters(ctx context.Context) error {
	var err error
	if s.folder, err = os.MkdirTemp("", "stage"); err != nil {
		return err
	}
	s.atEnd(func() error { return os.RemoveAll(s.folder) })
	s.kubeconfig = filepath.Join(s.folder, "kubeconfig")
	var g errgroup.Group
	for _, name := range []string{"rome", "milan"} {
		p := &controlPlane{name: name, stage: s, processes: map[string]*lockedBuffer{}}
		s.planes[name] = p
		g.Go(func() error { return p.startPlane(ctx) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	rome, milan := s.planes["rome"], s.planes["milan"]
	rome.nodes.peer, milan.nodes.peer = milan.nodes, rome.nodes
	for _, p := range s.planes {
		if err := p.runOperator(); err != nil {
			return err
		}
		p.runNodes(ctx)
	}
	return s.prepare(ctx)
}

func (s *stage) atEnd(end func() error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ends = append(s.ends, end)
}

// endStages ends what useStage set up.
func endStages() error {
	var errs []error
	for _, s := range stages.all {
		for _, end := range slices.Backward(s.ends) {
			errs = append(errs, end())
		}
	}
	return errors.Join(errs...)
}

// tell shows what the programs on both clusters wrote last.
func (s *stage) tell(t *testing.T) {
	t.Helper()
	for _, p := range s.planes {
		for name, output := range p.processes {
			t.Logf("the end of the log of %s of %s:\n%s", name, p.name, output.tail(1500))
		}
	}
}

// prepare writes the kubeconfig that scripts start with, and installs our
// operator as an admin would.
func (s *stage) prepare(ctx context.Context) error {
	users := []struct {
		context, cluster, user string
		rules                  []rbacv1.PolicyRule
	}{
		{"rome", "rome", "", nil},
		{"milan", "milan", "", nil},
		{"rome-again", "rome", "bob", nil},
		{"milan-guest", "milan", "guest", nil},
		{"milan-reader", "milan", "reader", []rbacv1.PolicyRule{{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}}}},
		{"milan-noclients", "milan", "carol", []rbacv1.PolicyRule{
			{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list", "watch"}},
			{
				APIGroups: []string{"", "networking.liqo.io"}, Verbs: []string{"create", "patch", "update", "delete"},
				Resources: []string{"namespaces", "configurations", "publickeies", "gatewayclients"},
			},
		}},
	}
	configs := map[string][]byte{}
	for _, u := range users {
		plane := s.planes[u.cluster]
		text := plane.admin
		if u.user != "" {
			var err error
			groups := []string{}
			if u.user == "bob" {
				groups = append(groups, "system:masters")
			}
			if text, err = plane.user(u.user, groups...); err != nil {
				return err
			}
			if len(u.rules) > 0 {
				if err := plane.allow(ctx, u.user, u.rules...); err != nil {
					return err
				}
			}
		}
		configs[u.context] = text
	}
	merged, err := mergeKubeconfigs(configs)
	if err != nil {
		return err
	}
	if err := os.WriteFile(s.kubeconfig, merged, 0o600); err != nil {
		return err
	}
	for name := range s.planes {
		var out, errs strings.Builder
		//nolint:contextcheck // as main does, which has no context
		code := run([]string{
			"install", "--yes", "--kubeconfig", s.kubeconfig, "--context", name, "--cluster-id", name,
			"--pod-cidr", "10.244.0.0/16", "--service-cidr", "10.96.0.0/16", "--image", "lab.local/liqo-gateway:dev", "--timeout", "30s",
		}, strings.NewReader(""), &out, &errs)
		if code != 0 {
			return fmt.Errorf("install on %s ended with %d: %s", name, code, errs.String())
		}
	}
	return nil
}

// setUp gives a script a kubeconfig of its own.
func (s *stage) setUp(env *testscript.Env) error {
	text, err := os.ReadFile(s.kubeconfig)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(env.WorkDir, "kubeconfig"), text, 0o600); err != nil {
		return err
	}
	assets, err := filepath.Abs(os.Getenv("KUBEBUILDER_ASSETS"))
	if err != nil {
		return err
	}
	failOnCrash(env)
	env.Setenv("KUBECONFIG", filepath.Join(env.WorkDir, "kubeconfig"))
	env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config"))
	env.Setenv("HOME", env.WorkDir)
	env.Setenv("LIQO_TUI_TIMEOUT", "60s")
	env.Setenv("PATH", env.Getenv("PATH")+string(filepath.ListSeparator)+assets)
	return nil
}

// reset makes the clusters as new.
func (s *stage) reset(ctx context.Context) error {
	for _, p := range s.planes {
		p.front.set(false)
		p.nodes.set(func(k *kubelet) { k.silent, k.loadBalancer, k.closed, k.unpullable = false, "", false, "" })
	}
	var out, errs strings.Builder
	reset := []string{"network", "reset", "--kubeconfig", s.kubeconfig, "--context", "rome", "--remote-kubeconfig", s.kubeconfig, "--remote-context", "milan", "--yes", "--timeout", "30s"}
	//nolint:contextcheck // as main does, which has no context
	if code := run(reset, strings.NewReader(""), &out, &errs); code != 0 {
		return fmt.Errorf("reset after the last script ended with %d: %s", code, errs.String())
	}
	for _, p := range s.planes {
		if err := p.forget(ctx); err != nil {
			return err
		}
	}
	return nil
}

// commands are those that scripts have besides testscript's own.
func (s *stage) commands() map[string]func(*testscript.TestScript, bool, []string) {
	plane := func(ts *testscript.TestScript, name string) *controlPlane {
		p, ok := s.planes[name]
		if !ok {
			ts.Fatalf("no cluster %s", name)
		}
		return p
	}
	all := map[string]func(*testscript.TestScript, bool, []string){
		// cut CLUSTER: its API server can't be reached any more. mend CLUSTER undoes it.
		"cut":  func(ts *testscript.TestScript, _ bool, args []string) { plane(ts, args[0]).front.set(true) },
		"mend": func(ts *testscript.TestScript, _ bool, args []string) { plane(ts, args[0]).front.set(false) },
		// silence CLUSTER: its gateways never say that they are connected.
		"silence": func(ts *testscript.TestScript, _ bool, args []string) {
			plane(ts, args[0]).nodes.set(func(k *kubelet) { k.silent = true })
		},
		// firewall CLUSTER: no UDP of the other cluster reaches it.
		"firewall": func(ts *testscript.TestScript, _ bool, args []string) {
			plane(ts, args[0]).nodes.set(func(k *kubelet) { k.closed = true })
		},
		// unpullable CLUSTER IMAGE: no node can pull it.
		"unpullable": func(ts *testscript.TestScript, _ bool, args []string) {
			plane(ts, args[0]).nodes.set(func(k *kubelet) { k.unpullable = args[1] })
		},
		// loadbalancer CLUSTER ADDRESS: Services of that type get an address.
		"loadbalancer": func(ts *testscript.TestScript, _ bool, args []string) {
			plane(ts, args[0]).nodes.set(func(k *kubelet) { k.loadBalancer = args[1] })
		},
		// forget: the tenant namespaces of a reset are gone.
		"forget": func(ts *testscript.TestScript, _ bool, _ []string) {
			for _, p := range s.planes {
				ts.Check(p.forget(context.Background()))
			}
		},
		"when": s.when,
	}
	maps.Copy(all, scriptCommands)
	return all
}

// when runs "when CLUSTER OBJECT SIGNAL|cut CODE COMMAND...": it starts the
// command, waits until it has said something and the object
// (NAMESPACE/KIND/NAME) exists, then sends the signal, or cuts the cluster off,
// and expects the exit code.
func (s *stage) when(ts *testscript.TestScript, _ bool, args []string) {
	if len(args) < 5 {
		ts.Fatalf("usage: when CLUSTER NAMESPACE/KIND/NAME SIGNAL|cut CODE COMMAND...")
	}
	object := strings.Split(args[1], "/")
	path, err := exec.LookPath(args[4])
	ts.Check(err)
	cmd := exec.Command(path, args[5:]...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+ts.Getenv("KUBECONFIG"), "XDG_CONFIG_HOME="+ts.Getenv("XDG_CONFIG_HOME"), "LIQO_TUI_TIMEOUT=60s",
		crashesVariable+"="+ts.Getenv(crashesVariable))
	started := make(chan struct{})
	cmd.Stdout, cmd.Stderr = &announced{Writer: ts.Stdout(), started: started}, ts.Stderr()
	ts.Check(cmd.Start())
	select {
	case <-started: // before that, a signal would end it without a word
	case <-time.After(30 * time.Second):
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		ts.Fatalf("it wrote nothing to stdout")
	}
	kubectl := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kubectl")
	deadline := time.Now().Add(30 * time.Second)
	for {
		look := exec.Command(kubectl, "--kubeconfig", s.kubeconfig, "--context", args[0], "get", "-n", object[0], object[1], object[2])
		if look.Run() == nil {
			break
		}
		if time.Now().After(deadline) {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			ts.Fatalf("%s never appeared on %s", args[1], args[0])
		}
	}
	switch args[2] {
	case "cut":
		s.planes[args[0]].front.set(true)
	default:
		signals := map[string]syscall.Signal{"INT": syscall.SIGINT, "TERM": syscall.SIGTERM, "HUP": syscall.SIGHUP}
		ts.Check(cmd.Process.Signal(signals[args[2]]))
	}
	err = cmd.Wait()
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if strconv.Itoa(got) != args[3] {
		ts.Fatalf("got exit code %d (%v), want %s", got, err, args[3])
	}
}

// announced closes started at the first write.
type announced struct {
	io.Writer
	once    sync.Once
	started chan struct{}
}

func (a *announced) Write(p []byte) (int, error) {
	a.once.Do(func() { close(a.started) })
	return a.Writer.Write(p)
}

// mergeKubeconfigs makes one file of several, with a context for each.
func mergeKubeconfigs(byContext map[string][]byte) ([]byte, error) {
	merged := clientcmdapi.NewConfig()
	for name, text := range byContext {
		config, err := clientcmd.Load(text)
		if err != nil {
			return nil, err
		}
		context := config.Contexts[config.CurrentContext]
		merged.Clusters[name], merged.AuthInfos[name] = config.Clusters[context.Cluster], config.AuthInfos[context.AuthInfo]
		merged.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	return clientcmd.Write(*merged)
}
