package main

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"k8s.io/client-go/rest"
)

// token records whether the API server refuses this program's token. It refuses the tokens of a deleted
// ServiceAccount, even if a new account has the same name, and a kubelet may request the next token 48
// minutes after the last one. Existing watches continue for up to 10 minutes.
type token struct{ refused atomic.Bool }

// inCluster returns the pod's access to the API, and the record about its token.
func inCluster() (*rest.Config, *token, error) {
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, nil, fmt.Errorf("reach the cluster's API: %w", err)
	}
	t := &token{}
	config.Wrap(t.follow)
	return config, t, nil
}

func (t *token) follow(next http.RoundTripper) http.RoundTripper { return followed{t, next} }

type followed struct {
	*token

	next http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (f followed) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := f.next.RoundTrip(r)
	if err == nil {
		f.refused.Store(answer.StatusCode == http.StatusUnauthorized)
	}
	return answer, err
}

// problem returns an error if the last request was refused.
func (t *token) problem() error {
	if t.refused.Load() {
		return errors.New("the API server refuses this pod's token: its ServiceAccount may have been deleted since the pod began; delete the pod, and another one begins with a new token")
	}
	return nil
}
