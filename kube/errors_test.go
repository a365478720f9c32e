package kube

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// An API server that answered before fails a change. Package flows decides by the type of the error whether
// to go on.
func TestChangesThatFailSayWhy(t *testing.T) {
	status := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_, _ = w.Write([]byte(body))
		}
	}
	for name, c := range map[string]struct {
		answer  http.HandlerFunc
		problem flows.ProblemKind // 0 for none
		is      func(error) bool
		says    string
	}{
		"it dies": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, flows.Unreachable, nil, "EOF"},
		"the credentials have expired": {
			status(401, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 401, "reason": "Unauthorized"}`),
			flows.Unauthorized, nil, "does not accept the credentials of context test",
		},
		"one verb is forbidden": {
			status(403, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden", "message": "user \"ada\" cannot patch configurations"}`),
			0, apierrors.IsForbidden, `user "ada" cannot patch configurations`,
		},
		"the kind is not served": {
			status(404, `404 page not found`),
			0, apierrors.IsNotFound, "could not find the requested resource",
		},
		"it is overloaded": {
			status(503, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 503, "reason": "ServiceUnavailable", "message": "no etcd"}`),
			0, apierrors.IsServiceUnavailable, "no etcd",
		},
	} {
		t.Run(name, func(t *testing.T) {
			read := status(404, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404, "reason": "NotFound"}`)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodGet {
					read(w, r)
				} else {
					c.answer(w, r)
				}
			}))
			defer server.Close()
			changes, err := open(t, &rest.Config{Host: server.URL}).Apply(t.Context(), []wire.Object{configuration("10.1.0.0/16")})
			if err == nil || len(changes) > 0 || !strings.Contains(err.Error(), "apply Configuration liqo-tenant-milan/milan: ") || !strings.Contains(err.Error(), c.says) {
				t.Fatalf("got %v, %v; want it to say %s", changes, err, c.says)
			}
			problem, ok := errors.AsType[*flows.Problem](err)
			if ok != (c.problem != 0) || ok && (problem.Kind != c.problem || problem.Fix.IsZero()) {
				t.Errorf("got problem %+v, want kind %d", problem, c.problem)
			}
			if c.is != nil && !c.is(err) {
				t.Errorf("got %v, which is not what the API server said", err)
			}
		})
	}
}

// The kubeconfig of an earlier cluster at the same address, or of a proxy, has another authority. Neither the
// network nor the API server is the cause.
func TestAnotherCertificateAuthorityIsNamed(t *testing.T) {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	foreign := authority(t)
	for name, c := range map[string]struct {
		name string
		ca   []byte
		says string
		fix  string
	}{
		"another authority": {"", foreign, "shows a certificate that the certificate authority in the kubeconfig has not signed", "certificate-authority-data"},
		"another name":      {"other.example", own, "shows a certificate for other names", "tls-server-name"},
	} {
		_, err := open(t, &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: c.ca, ServerName: c.name}}).Apply(t.Context(), []wire.Object{configuration("10.1.0.0/16")})
		problem, ok := errors.AsType[*flows.Problem](err)
		if !ok || problem.Kind != flows.Unreachable || !strings.Contains(problem.Message, c.says) || !strings.Contains(problem.Fix.String(), c.fix) {
			t.Errorf("%s: got %v (%+v)", name, err, problem)
		}
	}
}

// authority returns a certificate authority that has signed nothing.
func authority(t *testing.T) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}
