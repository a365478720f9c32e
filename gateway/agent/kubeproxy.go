package agent

import (
	"context"
	"net/http"
	"time"

	"github.com/liqo-tui/liqo-tui/internal/sleep"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// kubeProxyHealth is kube-proxy's health check at the default of its setting healthzBindAddress. /livez
// exists since Kubernetes 1.28; an earlier kube-proxy answers 404. /healthz also fails on a node that will be
// removed.
const kubeProxyHealth = "http://127.0.0.1:10256/livez"

const (
	// kubeProxyInterval is the time between two requests; after one without an answer, it is kubeProxyAgain.
	kubeProxyInterval, kubeProxyAgain = 5 * time.Second, 2 * time.Second
	// kubeProxySilence is the time without an answer after which kube-proxy counts as ended. It is longer
	// than a restart after a change of the DaemonSet.
	kubeProxySilence = 8 * time.Second
)

// kubeProxy checks whether the node's kube-proxy works. After its end, the node's Services keep leading to
// the pods that they had then.
type kubeProxy struct {
	ask    func(context.Context) bool
	told   func(wire.KubeProxy)
	seen   bool      // kube-proxy has answered since the agent's start, so the node has one
	silent time.Time // the time of the first request without an answer; zero if kube-proxy answers
}

func newKubeProxy(a *announcer) *kubeProxy {
	client := &http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	return &kubeProxy{told: a.follows, ask: func(ctx context.Context) bool {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, kubeProxyHealth, http.NoBody)
		if err != nil {
			return false
		}
		answer, err := client.Do(request)
		if err != nil {
			return false
		}
		_ = answer.Body.Close()
		return answer.StatusCode < http.StatusInternalServerError
	}}
}

func (k *kubeProxy) run(ctx context.Context) error {
	for wait := time.Duration(0); sleep.For(ctx, wait); {
		state := k.note(k.ask(ctx), time.Now())
		if ctx.Err() == nil { // otherwise the end of ctx has ended the request
			k.told(state)
		}
		if wait = kubeProxyInterval; !k.silent.IsZero() && state == wire.KubeProxyAnswers {
			wait = kubeProxyAgain
		}
	}
	return nil
}

// note returns the state after a request. It is unknown if kube-proxy has never answered: the node may use
// another program for Services, or kube-proxy may listen at another address.
func (k *kubeProxy) note(answered bool, now time.Time) wire.KubeProxy {
	switch {
	case answered:
		k.seen, k.silent = true, time.Time{}
	case k.silent.IsZero():
		k.silent = now
	}
	switch {
	case !k.seen:
		return wire.KubeProxyUnknown
	case !k.silent.IsZero() && now.Sub(k.silent) >= kubeProxySilence:
		return wire.KubeProxySilent
	}
	return wire.KubeProxyAnswers
}

func (a *announcer) follows(k wire.KubeProxy) {
	a.mu.Lock()
	was := a.proxy
	a.proxy = k
	a.mu.Unlock()
	if was == k {
		return
	}
	if k == wire.KubeProxySilent {
		a.options.Log.Warn("the node's kube-proxy does not answer any more", "url", kubeProxyHealth)
	}
	a.wake()
}
