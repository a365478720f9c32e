package main

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"
)

// A ServiceAccount that was deleted and made again has other tokens than its pods.
func TestATokenThatIsRefusedIsSaid(t *testing.T) {
	var status atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) }))
	defer s.Close()
	var of token
	config := &rest.Config{Host: s.URL, BearerToken: "x"}
	config.Wrap(of.follow)
	c, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := of.problem(); err != nil {
		t.Errorf("before the first request: %v", err)
	}
	for _, step := range []struct {
		status  int
		refused bool
	}{{http.StatusOK, false}, {http.StatusUnauthorized, true}, {http.StatusForbidden, false}, {http.StatusUnauthorized, true}, {http.StatusOK, false}} {
		status.Store(int32(step.status))
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := c.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if got := of.problem(); (got != nil) != step.refused {
			t.Errorf("after status %d: got %v", step.status, got)
		}
	}
}
