package tenancy

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

// proxied is a proxy that leads to an API server, and its address.
func proxied(t *testing.T, apiServer string) *url.URL {
	t.Helper()
	p, err := newProxy(&rest.Config{Host: apiServer}, "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- p.serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return &url.URL{Scheme: "http", Host: l.Addr().String()}
}

// TLS is between the peer and the API server; to other hosts there is no way.
func TestTheProxyLeadsToTheAPIServerAlone(t *testing.T) {
	apiServer := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "from "+r.Host) }))
	defer apiServer.Close()
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("another server was asked") }))
	defer other.Close()
	proxy := proxied(t, apiServer.URL)
	roots := x509.NewCertPool()
	roots.AddCert(apiServer.Certificate())
	c := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy), TLSClientConfig: &tls.Config{RootCAs: roots}}} //nolint:gosec // of a test
	defer c.CloseIdleConnections()
	get := func(at string) (string, error) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := c.Do(r)
		if err != nil {
			return "", err
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		return answer.Status + " " + string(text), err
	}
	// example.com is a name of the certificate.
	if got, err := get("https://example.com:6443/"); err != nil || got != "200 OK from example.com:6443" {
		t.Errorf("by its own name: got %q, %v", got, err)
	}
	if got, err := get(strings.Replace(other.URL, "http:", "https:", 1)); err != nil || !strings.HasPrefix(got, "200 OK from 127.0.0.1") {
		t.Errorf("another host: got %q, %v, want the API server", got, err)
	}
	if got, err := get(other.URL); err != nil || !strings.HasPrefix(got, "405 ") {
		t.Errorf("without CONNECT: got %q, %v", got, err)
	}
}

func TestAnAPIServerThatIsAwayIsABadGateway(t *testing.T) {
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	c := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxied(t, "https://"+l.Addr().String()))}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://example.com:6443/", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := c.Do(r)
	if err == nil {
		answer.Body.Close()
	}
	if err == nil || !strings.Contains(err.Error(), "Bad Gateway") {
		t.Errorf("got %v", err)
	}
}

// Whoever opens many connections keeps nobody else out, and silent ones end.
func TestTheProxyBoundsWhatOneAddressOpens(t *testing.T) {
	var p proxy
	var ends []func()
	for range proxyOfOne {
		done, ok := p.admit("10.0.0.1:1000")
		if !ok {
			t.Fatalf("refused after %d", len(ends))
		}
		ends = append(ends, done)
	}
	if _, ok := p.admit("10.0.0.1:1001"); ok {
		t.Error("one more of the same address is let in")
	}
	if done, ok := p.admit("10.0.0.2:1000"); !ok {
		t.Error("another address is kept out")
	} else {
		done()
	}
	for _, done := range ends {
		done()
	}
	if len(p.open) > 0 {
		t.Errorf("left: %v", p.open)
	}
}

func TestSilentConnectionsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		peer, ours := net.Pipe()
		theirs, server := net.Pipe()
		began := time.Now()
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			join(t.Context(), ours, bufio.NewReader(ours), theirs, time.Minute)
			ours.Close()
			theirs.Close()
		}()
		go func() { _, _ = io.Copy(io.Discard, server) }()
		time.Sleep(50 * time.Second)
		if _, err := peer.Write([]byte("x")); err != nil {
			t.Error(err)
		}
		<-ended
		if took := time.Since(began); took != 110*time.Second {
			t.Errorf("it ended after %s, want a minute after the last byte", took)
		}
	})
}
