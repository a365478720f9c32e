// Package apitest is for tests against real API servers.
package apitest

import (
	"os"
	"testing"
)

// Require skips tests where there is no API server, and fails them instead where
// REQUIRE_API is set.
func Require(t testing.TB) {
	t.Helper()
	_, err := os.Stat(os.Getenv("KUBEBUILDER_ASSETS") + "/kube-apiserver")
	if err == nil {
		return
	}
	if os.Getenv("REQUIRE_API") != "" {
		t.Fatalf("no API server to test with: %v", err)
	}
	t.Skip("no API server to test with: run make test, or set KUBEBUILDER_ASSETS")
}
