package e2e

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

const (
	answering = 5 // of the contexts
	silent    = 45
)

// TestFirstFrame measures how soon the real program shows the contexts of a kubeconfig, of
// which most do not answer, and how soon it shows the state of those that do. With
// BENCH_TUI=1 both have to be fast. Otherwise they have to appear at all, without a wait for
// the silent ones.
func TestFirstFrame(t *testing.T) {
	program, kubeconfig := program(t), mostlySilent(t)
	var first, known []time.Duration
	for range 5 {
		a, b := firstFrame(t, program, kubeconfig)
		first, known = append(first, a), append(known, b)
	}
	slices.Sort(first)
	slices.Sort(known)
	middle := len(first) / 2
	t.Logf("first frame after %d ms, all that answer known after %d ms: the middle one of %d",
		first[middle].Milliseconds(), known[middle].Milliseconds(), len(first))
	if bound := 100 * time.Millisecond; os.Getenv("BENCH_TUI") != "" && first[0] > bound {
		t.Errorf("got the first frame after %s, want it within %s", first[0], bound)
	}
}

// TestDemoFirstFrame measures how soon the demonstration shows its connections, without a
// kubeconfig, a home directory or a network. With BENCH_TUI=1 it has to be fast.
func TestDemoFirstFrame(t *testing.T) {
	program := program(t)
	var took []time.Duration
	for range 5 {
		cmd := exec.CommandContext(t.Context(), program, "demo")
		cmd.Env = []string{"TERM=xterm-256color", "LANG=C.UTF-8", "HOME=" + t.TempDir(), "KUBECONFIG=/nonexistent"}
		took = append(took, untilShown(t, cmd, func(text string) bool {
			return strings.Contains(text, "DEMO") && strings.Contains(text, "edge-07") && strings.Contains(text, "degraded")
		})[0])
	}
	slices.Sort(took)
	t.Logf("first frame of the demonstration after %d ms: the middle one of %d", took[len(took)/2].Milliseconds(), len(took))
	if bound := time.Second; os.Getenv("BENCH_TUI") != "" && took[0] > bound {
		t.Errorf("got the first frame after %s, want it within %s", took[0], bound)
	}
}

// firstFrame starts the program once. It returns the times until the contexts were on the
// screen, and until the states of the answering ones were.
func firstFrame(t *testing.T, program, kubeconfig string) (first, known time.Duration) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, "wizard", "--kubeconfig", kubeconfig)
	cmd.Env = append(os.Environ(), "TERM=xterm-256color", "LANG=C.UTF-8", "CI=", "SSH_TTY=")
	took := untilShown(t, cmd,
		func(text string) bool { return strings.Contains(text, "silent-44") },
		func(text string) bool { return strings.Count(text, "nothing installed") >= answering })
	return took[0], took[1]
}

// untilShown runs a program on a terminal until it has shown everything in shown, and returns
// the time of each. It reads the emulated screen: a program writes only the cells that change,
// so that a word need not be whole in its output.
func untilShown(t *testing.T, cmd *exec.Cmd, shown ...func(text string) bool) []time.Duration {
	t.Helper()
	began := time.Now()
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: 120, Rows: 80})
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	screen := vt.NewEmulator(120, 80)
	answers := make(chan struct{})
	go func() {
		defer close(answers)
		_, _ = io.Copy(terminal, screen)
	}()
	defer func() { _ = screen.Close(); <-answers }()
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	if err := terminal.SetReadDeadline(began.Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	chunk := make([]byte, 64<<10)
	took := make([]time.Duration, len(shown))
	for slices.Contains(took, 0) {
		n, err := terminal.Read(chunk)
		if err != nil {
			t.Fatalf("%v; the screen is:\n%s", err, screen)
		}
		if _, err := screen.Write(chunk[:n]); err != nil {
			t.Fatal(err)
		}
		text := screen.String()
		for i := range shown {
			if took[i] == 0 && shown[i](text) {
				took[i] = time.Since(began)
			}
		}
	}
	return took
}

// mostlySilent returns a kubeconfig with API servers that answer, that refuse the connection,
// and that accept it and send nothing, and with one that no name server knows.
func mostlySilent(t *testing.T) string {
	t.Helper()
	mute, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts connections, and nobody answers
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { mute.Close() })
	config := clientcmdapi.NewConfig()
	add := func(name, server string) {
		config.Clusters[name] = &clientcmdapi.Cluster{Server: server, InsecureSkipTLSVerify: true}
		config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: "none"}
		config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	}
	for i := range answering {
		add(fmt.Sprintf("answers-%d", i), emptyCluster(t, i).URL)
	}
	servers := []string{"https://127.0.0.1:1", "https://" + mute.Addr().String(), "https://nowhere.invalid:6443"}
	for i := range silent {
		add(fmt.Sprintf("silent-%02d", i), servers[i%len(servers)])
	}
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	return file
}

// emptyCluster imitates an API server without an installation, as far as the program asks.
func emptyCluster(t *testing.T, n int) *httptest.Server {
	t.Helper()
	lists := map[string]string{
		"namespaces": "Namespace", "configmaps": "ConfigMap", "deployments": "Deployment", "pods": "Pod", "nodes": "Node", "services": "Service",
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		group := "v1"
		if strings.HasPrefix(r.URL.Path, "/apis/apps/") {
			group = "apps/v1"
		}
		kind, served := lists[filepath.Base(r.URL.Path)]
		switch {
		case r.URL.Path == "/version":
			fmt.Fprint(w, `{"major": "1", "minor": "35", "gitVersion": "v1.35.0"}`)
		case strings.HasSuffix(r.URL.Path, "/namespaces/kube-system"):
			fmt.Fprintf(w, `{"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "kube-system", "uid": "uid-%d"}}`, n)
		case served && r.URL.Query().Get("watch") != "":
			w.(http.Flusher).Flush()
			<-r.Context().Done()
		case served:
			fmt.Fprintf(w, `{"kind": "%sList", "apiVersion": %q, "metadata": {"resourceVersion": "1"}, "items": []}`, kind, group)
		default:
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound"}`)
		}
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // about programs that are stopped in the middle of a request
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections() // watches don't end by themselves
		server.Close()
	})
	return server
}
