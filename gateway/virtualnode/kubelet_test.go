package virtualnode

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// authority signs certificates.
type authority struct {
	t    *testing.T
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{t, cert, key}
}

func (a *authority) pem() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw}))
}

// issue returns a certificate of a client, or with another usage.
func (a *authority) issue(user, group string, usage x509.ExtKeyUsage, until time.Time) *tls.Certificate {
	a.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: user, Organization: []string{group}}, NotBefore: until.Add(-time.Hour), NotAfter: until, ExtKeyUsage: []x509.ExtKeyUsage{usage},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// proxied runs the kubelet of a virtual node. Its provider answers with the request that it got.
func proxied(t *testing.T, callers *authority) *httptest.Server {
	t.Helper()
	abroad := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") == "" {
			fmt.Fprintf(w, "%s %s?%s %s %s", r.Method, r.URL.Path, r.URL.RawQuery, r.Header.Get("Authorization"), r.Header.Get("Impersonate-User")+r.Header.Get("Impersonate-Extra-Scopes"))
			return
		}
		stream, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer stream.Close()
		fmt.Fprintf(stream, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\nX-Path: %s\r\n\r\n", r.Header.Get("Upgrade"), r.URL.Path)
		_, _ = io.Copy(stream, stream)
	}))
	t.Cleanup(abroad.Close)
	scheme := k8sruntime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), authorizationv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "extension-apiserver-authentication"}, Data: map[string]string{"client-ca-file": callers.pem()},
	}).WithInterceptorFuncs(interceptor.Funcs{Create: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
		review := o.(*authorizationv1.SubjectAccessReview)
		a := review.Spec.ResourceAttributes
		if a.Resource != "nodes" || a.Subresource != "proxy" || a.Name != "milan" {
			t.Errorf("asked whether %s may %+v", review.Spec.User, a)
		}
		review.Status.Allowed = review.Spec.User == "api" && strings.Contains(strings.Join(review.Spec.Groups, ","), "masters") || review.Spec.User == "reads" && a.Verb == "get"
		return nil
	}}).Build()
	k := newKubelet(&mirror{Options: Options{Name: "milan", Provider: "milan", Log: slog.New(slog.DiscardHandler)}, client: api})
	k.find = func(_ context.Context, namespace, pod string) (*provider, string, int, error) {
		if namespace != "demo" || pod != "web" {
			return nil, "", http.StatusNotFound, errors.New("no such pod")
		}
		transport := abroad.Client().Transport.(*http.Transport).Clone()
		transport.ForceAttemptHTTP2, transport.TLSClientConfig.NextProtos = false, []string{"http/1.1"}
		return &provider{server: abroad.URL, streams: transport}, "demo-rome", 0, nil
	}
	server := httptest.NewUnstartedServer(k.handler())
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	return server
}

// asks sends a request with a certificate; nil for none.
func asks(t *testing.T, server *httptest.Server, with *tls.Certificate, method, path string) (int, string) {
	t.Helper()
	transport := server.Client().Transport.(*http.Transport).Clone()
	if with != nil {
		transport.TLSClientConfig.Certificates = []tls.Certificate{*with}
	}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer stolen")
	r.Header.Set("Impersonate-User", "admin")
	r.Header.Set("Impersonate-Extra-Scopes", "admin")
	answer, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, strings.TrimSpace(string(body))
}

func TestLogsAreForThoseWhoMay(t *testing.T) {
	ca := newAuthority(t)
	server := proxied(t, ca)
	soon := time.Now().Add(time.Minute)
	const logs = "/containerLogs/demo/web/c?follow=true&tailLines=3"
	for name, c := range map[string]struct {
		with   *tls.Certificate
		method string
		path   string
		status int
		text   string
	}{
		"the API server":         {ca.issue("api", "system:masters", x509.ExtKeyUsageClientAuth, soon), "GET", logs, 200, "GET /api/v1/namespaces/demo-rome/pods/web/log?container=c&follow=true&tailLines=3"},
		"who may read":           {ca.issue("reads", "x", x509.ExtKeyUsageClientAuth, soon), "GET", logs, 200, "GET /api"},
		"who may only read":      {ca.issue("reads", "x", x509.ExtKeyUsageClientAuth, soon), "POST", "/exec/demo/web/c?command=sh", 403, "reads may not create nodes/proxy of milan"},
		"nobody":                 {nil, "GET", logs, 401, "client certificate"},
		"a user of the cluster":  {ca.issue("eve", "system:authenticated", x509.ExtKeyUsageClientAuth, soon), "GET", logs, 403, "eve may not get"},
		"another cluster's":      {newAuthority(t).issue("api", "system:masters", x509.ExtKeyUsageClientAuth, soon), "GET", logs, 401, "not one of the cluster"},
		"a server's certificate": {ca.issue("api", "system:masters", x509.ExtKeyUsageServerAuth, soon), "GET", logs, 401, "not one of the cluster"},
		"an expired one":         {ca.issue("api", "system:masters", x509.ExtKeyUsageClientAuth, time.Now().Add(-time.Second)), "GET", logs, 401, "expired"},
		"a pod that is none":     {ca.issue("api", "system:masters", x509.ExtKeyUsageClientAuth, soon), "GET", "/containerLogs/demo/other/c", 404, "no such pod"},
		"a way out": {
			ca.issue("api", "system:masters", x509.ExtKeyUsageClientAuth, soon), "GET", "/containerLogs/demo/web%2F..%2F..%2Fsecrets/c", 404, "no such pod",
		},
		"another path": {ca.issue("api", "system:masters", x509.ExtKeyUsageClientAuth, soon), "GET", "/runningpods/", 404, "not found"},
		"exec": {
			ca.issue("api", "system:masters", x509.ExtKeyUsageClientAuth, soon), "POST", "/exec/demo/web/c?command=sh&command=-c&input=1&output=1&tty=1", 200,
			"POST /api/v1/namespaces/demo-rome/pods/web/exec?command=sh&command=-c&container=c&stdin=true&stdout=true&tty=true",
		},
		"attach, by UID":  {ca.issue("api", "system:masters", x509.ExtKeyUsageClientAuth, soon), "POST", "/attach/demo/web/u1/c?error=1", 200, "POST /api/v1/namespaces/demo-rome/pods/web/attach?container=c&stderr=true"},
		"a port's stream": {ca.issue("api", "system:masters", x509.ExtKeyUsageClientAuth, soon), "POST", "/portForward/demo/web", 200, "POST /api/v1/namespaces/demo-rome/pods/web/portforward?"},
	} {
		t.Run(name, func(t *testing.T) {
			status, text := asks(t, server, c.with, c.method, c.path)
			if status != c.status || !strings.Contains(text, c.text) || strings.Contains(text, "stolen") || strings.Contains(text, "admin") {
				t.Errorf("got %d %s", status, text)
			}
		})
	}
}

// A stream goes in both directions until one end closes it.
func TestStreamsPass(t *testing.T) {
	ca := newAuthority(t)
	server := proxied(t, ca)
	config := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.Certificates = []tls.Certificate{*ca.issue("api", "system:masters", x509.ExtKeyUsageClientAuth, time.Now().Add(time.Minute))}
	c, err := (&tls.Dialer{Config: config}).DialContext(t.Context(), "tcp", server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "POST /exec/demo/web/c?command=cat&input=1&output=1 HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n")
	r := bufio.NewReader(c)
	answer, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusSwitchingProtocols || answer.Header.Get("Upgrade") != "SPDY/3.1" || answer.Header.Get("X-Path") != "/api/v1/namespaces/demo-rome/pods/web/exec" {
		t.Fatalf("got %s %v", answer.Status, answer.Header)
	}
	for _, text := range []string{"one\n", "two\n"} {
		fmt.Fprint(c, text)
		if got, err := r.ReadString('\n'); got != text || err != nil {
			t.Errorf("got %q, %v", got, err)
		}
	}
}
