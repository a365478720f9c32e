package remote_test

import (
	"context"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/gateway/remote"
)

var someone = client.ObjectKey{Namespace: "liqo-tenant-milan", Name: "milan"}

// apiServer refuses every request after hold has returned. opened and open count connections.
func apiServer(t *testing.T, hold http.HandlerFunc) (a remote.Access, opened, open *atomic.Int32) {
	t.Helper()
	opened, open = new(atomic.Int32), new(atomic.Int32)
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if hold != nil {
			hold(w, r)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
	}))
	s.EnableHTTP2 = true
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state { //nolint:exhaustive // what lies between does not count
		case http.StateNew:
			opened.Add(1)
			open.Add(1)
		case http.StateClosed:
			open.Add(-1)
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return remote.Access{Server: s.URL, CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), Token: []byte("a")}, opened, open
}

func newClients(t *testing.T) *remote.Clients {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	c := &remote.Clients{Scheme: scheme, Mapper: mapper, Within: 10 * time.Second}
	t.Cleanup(func() { c.Forget(someone) })
	return c
}

func ask(ctx context.Context, t *testing.T, all *remote.Clients, a remote.Access) error {
	t.Helper()
	c, err := all.Get(someone, a)
	if err != nil {
		t.Fatal(err)
	}
	return c.API.Get(ctx, someone, &corev1.ConfigMap{})
}

// through is a proxy that counts its connections.
func through(t *testing.T, opened *atomic.Int32) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		opened.Add(1)
		server, err := new(net.Dialer).DialContext(r.Context(), "tcp", r.Host)
		if err != nil {
			t.Error(err)
			return
		}
		defer server.Close()
		peer, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer peer.Close()
		_, _ = io.WriteString(peer, "HTTP/1.1 200 OK\r\n\r\n")
		go func() {
			_, _ = io.Copy(server, peer)
			_ = server.Close()
		}()
		_, _ = io.Copy(peer, server)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// All requests to a cluster use one connection, also through a proxy.
func TestQuestionsShareAConnection(t *testing.T) {
	a, opened, _ := apiServer(t, nil)
	all, proxied := newClients(t), new(atomic.Int32)
	for _, a.Proxy = range []string{"", through(t, proxied)} {
		before := opened.Load()
		for range 20 {
			if err := ask(t.Context(), t, all, a); !apierrors.IsForbidden(err) {
				t.Fatal(err)
			}
		}
		if got := opened.Load() - before; got != 1 {
			t.Errorf("by proxy %q: %d connections", a.Proxy, got)
		}
	}
	if got := proxied.Load(); got != 1 {
		t.Errorf("the proxy has seen %d", got)
	}
}

// A change of any part of the access takes effect at the next request, and the earlier connection is closed.
func TestAnotherAccessIsAnotherConnection(t *testing.T) {
	a, opened, open := apiServer(t, nil)
	all := newClients(t)
	if err := ask(t.Context(), t, all, a); !apierrors.IsForbidden(err) {
		t.Fatal(err)
	}
	for what, change := range map[string]func(){
		"token": func() { a.Token = []byte("b") },
		"proxy": func() { a.Proxy = through(t, new(atomic.Int32)) },
		"CA":    func() { a.CA = append([]byte("# renewed\n"), a.CA...) },
	} {
		change()
		before := opened.Load()
		if err := ask(t.Context(), t, all, a); !apierrors.IsForbidden(err) {
			t.Fatal(err)
		}
		if opened.Load() != before+1 {
			t.Errorf("another %s: %d new connections", what, opened.Load()-before)
		}
		for deadline := time.Now().Add(10 * time.Second); open.Load() != 1; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("another %s: %d connections are open", what, open.Load())
			}
		}
	}
}

// After a request without an answer, the next request does not wait for the same connection.
func TestAQuestionWithoutAnAnswerEndsItsConnection(t *testing.T) {
	held, asked := make(chan struct{}), make(chan struct{}, 2)
	a, opened, _ := apiServer(t, func(http.ResponseWriter, *http.Request) {
		if asked <- struct{}{}; len(asked) == 1 {
			<-held
		}
	})
	t.Cleanup(func() { close(held) }) // before the server ends
	all := newClients(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		for len(asked) == 0 {
			time.Sleep(time.Millisecond)
		}
		cancel()
	}()
	if err := ask(ctx, t, all, a); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	if err := ask(t.Context(), t, all, a); !apierrors.IsForbidden(err) {
		t.Errorf("got %v", err)
	}
	if got := opened.Load(); got != 2 {
		t.Errorf("%d connections", got)
	}
}

func TestAProxyMustBeAURL(t *testing.T) {
	if _, err := remote.New(remote.Access{Server: "https://milan.example", Proxy: "http://%"}, nil); err == nil {
		t.Error("no error")
	}
}
