package provider

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
)

// proxied returns the address of a proxy that leads to an API server.
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

// TLS is between the peer and the API server. The proxy leads to no other host.
func TestTheProxyLeadsToTheAPIServerAlone(t *testing.T) {
	apiServer := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "from "+r.Host) }))
	defer apiServer.Close()
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("another server was asked") }))
	defer other.Close()
	proxy := proxied(t, apiServer.URL)
	roots := x509.NewCertPool()
	roots.AddCert(apiServer.Certificate())
	c := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy), TLSClientConfig: &tls.Config{RootCAs: roots}}} //nolint:gosec // only for tests
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

// connected returns a connection to a proxy from an address. One byte has passed through it.
func connected(t *testing.T, to *url.URL, from string) net.Conn {
	t.Helper()
	c, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}, Timeout: 10 * time.Second}).DialContext(t.Context(), "tcp", to.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(c, "CONNECT x:443 HTTP/1.1\r\nHost: x:443\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatalf("connect from %s: %v", from, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("connect from %s: %s", from, answer.Status)
	}
	if err := echoes(c); err != nil {
		t.Fatalf("from %s: %v", from, err)
	}
	return c
}

// echoes returns an error if the sent bytes don't come back.
func echoes(c net.Conn) error {
	b := []byte("x")
	if _, err := c.Write(b); err != nil {
		return err
	}
	_, err := io.ReadFull(c, b)
	return err
}

// echo runs a server that sends back what it gets.
func echo(t *testing.T) (address string) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(all.Wait)
	t.Cleanup(func() { l.Close() })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				_, _ = io.Copy(c, c)
				c.Close()
			})
		}
	})
	return l.Addr().String()
}

// A client with many connections gets a new one, and loses the one that it used longest ago.
func TestTheProxyEndsSilentConnectionsForNewOnes(t *testing.T) {
	proxy := proxied(t, "https://"+echo(t))
	other := connected(t, proxy, "127.0.0.2")
	var all []net.Conn
	for range proxyOfOne {
		all = append(all, connected(t, proxy, "127.0.0.1"))
	}
	if err := echoes(all[0]); err != nil { // it is used
		t.Fatal(err)
	}
	all = append(all, connected(t, proxy, "127.0.0.1"))
	for i, c := range all {
		if err := echoes(c); (err != nil) != (i == 1) {
			t.Errorf("connection %d of %d: %v", i, len(all), err)
		}
	}
	if err := echoes(other); err != nil {
		t.Errorf("one of another address: %v", err)
	}
}

// Many addresses with as many connections as allowed exclude nobody, and end no connection of an address with
// few.
func TestTheProxyHasRoomForThoseWithFewConnections(t *testing.T) {
	proxy := proxied(t, "https://"+echo(t))
	few := connected(t, proxy, "127.0.1.1")
	for i := range proxyConnections {
		connected(t, proxy, fmt.Sprint("127.0.0.", 1+i/proxyOfOne))
	}
	if err := echoes(few); err != nil {
		t.Errorf("the connection of who has one: %v", err)
	}
	if err := echoes(connected(t, proxy, "127.0.1.2")); err != nil {
		t.Errorf("a newcomer: %v", err)
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
