package kube_test

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/kube"
)

// A file with a wrong certificate or a proxy's URL looks right, and does not work for its receiver.
func TestATokenIsTriedWhereItWillBeUsed(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.Header.Get("Authorization") != "Bearer good" {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Unauthorized", "code": 401}`))
			return
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403}`))
	}))
	defer server.Close()
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	for name, c := range map[string]struct {
		url   string
		ca    []byte
		token string
		kind  flows.ProblemKind
		says  string
	}{
		"it is accepted":          {server.URL, own, "good", 0, ""},
		"a proxy with own logins": {server.URL, own, "bad", flows.Unauthorized, "does not accept the cluster's own tokens"},
		"a certificate of others": {server.URL, nil, "good", flows.Unauthorized, "has a certificate that is not trusted: x509: certificate signed by unknown authority"},
		"nobody answers":          {"https://127.0.0.1:1", own, "good", flows.Unreachable, "connection refused"},
	} {
		err := kube.TryToken(t.Context(), c.url, c.ca, c.token)
		problem, failed := errors.AsType[*flows.Problem](err)
		if failed != (c.says != "") || failed && (problem.Kind != c.kind || !strings.Contains(problem.Message, c.says)) {
			t.Errorf("%s: got %v, want %q", name, err, c.says)
		}
	}
}
