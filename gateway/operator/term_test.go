//go:build linux

package operator

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/liqo-tui/liqo-tui/internal/sample"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// In TestLeadsAgain, one process meets three failures: an API server that answers with errors, one that does
// not answer for 6 s, which ends nothing, and one that does not answer for longer than the lease.
func TestLeadsAgain(t *testing.T) {
	t.Parallel() // because it mostly waits
	w := newWorld(t)
	w.node("node-a", "192.0.2.11")
	var broken atomic.Bool
	broken.Store(true)
	config := rest.CopyConfig(w.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if broken.Load() && strings.HasSuffix(r.URL.Path, "/deployments") {
				return nil, errors.New("broken on purpose")
			}
			return next.RoundTrip(r)
		})
	})
	r, err := newReplica(config, Options{Namespace: "liqo", Identity: "the-one"})
	if err != nil {
		t.Fatal(err)
	}
	var lost atomic.Int64
	r.log = funcr.New(func(_, args string) {
		if strings.Contains(args, "lost the Lease") {
			lost.Add(1)
		}
	}, funcr.Options{})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.serve(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("got an end with %v, want one without an error", err)
		}
	}()
	w.untilHealth(r, standingBy, "starts again after an error: look for Liqo's controller-manager")
	broken.Store(false)
	w.untilHealth(r, working, "")
	w.peer("milan", "10.244.0.0/16")

	server := w.apiServer()
	w.signal(server, syscall.SIGSTOP)
	defer w.signal(server, syscall.SIGCONT) // a stopped process can't be ended
	time.Sleep(6 * time.Second)             // the time without an answer
	w.signal(server, syscall.SIGCONT)
	w.peer("paris", "10.244.0.0/16")
	if lost.Load() > 0 {
		t.Error("6 s without an answer have cost it the Lease")
	}
	w.signal(server, syscall.SIGSTOP)
	w.untilHealth(r, standingBy, "")
	w.signal(server, syscall.SIGCONT)
	w.untilHealth(r, working, "")
	if lost.Load() != 1 {
		t.Errorf("it says %d times that the Lease is lost, want once", lost.Load())
	}
	w.peer("turin", "10.244.0.0/16")

	cancel()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: wire.OperatorName}}
	until(w, lease, "given back", func(l *coordinationv1.Lease) bool {
		return l.Spec.HolderIdentity != nil && *l.Spec.HolderIdentity == ""
	})
}

// TestEndsAtAnyTime ends the operator while its controllers begin. In the first moments of a process, several
// parts start, and none may prevent the end.
func TestEndsAtAnyTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.node("node-a", "192.0.2.11")
	rnd := rand.New(rand.NewPCG(sample.Seed(t), 0))
	for range sample.Of(40, 150) {
		l := w.start()
		time.Sleep(time.Duration(rnd.Int64N(int64(150 * time.Millisecond)))) // the end comes at a random time
		l.stop()
		select {
		case err := <-l.done:
			if err != nil {
				t.Fatal(err)
			}
		case <-time.After(patience):
			var all strings.Builder
			_ = pprof.Lookup("goroutine").WriteTo(&all, 1)
			t.Fatalf("the operator does not end:\n%s", all.String())
		}
	}
}

// untilHealth waits until r has this state, and its readiness has this text.
func (w *world) untilHealth(r *replica, want state, text string) {
	w.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		said := ""
		if err := r.health.ready(httptest.NewRequest(http.MethodGet, "/readyz", nil)); err != nil {
			said = err.Error()
		}
		r.health.mu.Lock()
		got := r.health.state
		r.health.mu.Unlock()
		if got == want && strings.Contains(said, text) && (said == "") == (text == "") {
			return
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("got state %d, readiness %q, want state %d, %q", got, said, want, text)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// apiServer returns this world's process of the API server.
func (w *world) apiServer() *os.Process {
	w.t.Helper()
	address, err := url.Parse(w.config.Host)
	if err != nil {
		w.t.Fatal(err)
	}
	port := address.Port()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, file := range files {
		args, err := os.ReadFile(file)
		if err != nil || !strings.Contains(string(args), "--secure-port="+port+"\x00") {
			continue // the process may have ended
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		if err != nil {
			w.t.Fatal(err)
		}
		process, err := os.FindProcess(pid)
		if err != nil {
			w.t.Fatal(err)
		}
		return process
	}
	w.t.Fatalf("no API server at port %s", port)
	return nil
}

func (w *world) signal(p *os.Process, s os.Signal) {
	w.t.Helper()
	if err := p.Signal(s); err != nil {
		w.t.Fatal(err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
