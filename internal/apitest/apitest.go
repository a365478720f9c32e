// Package apitest provides real API servers for tests.
package apitest

import (
	"os"
	"testing"
)

// Require skips a test if there is no API server. If REQUIRE_API is set, the test fails instead.
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
