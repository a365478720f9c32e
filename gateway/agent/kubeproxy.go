package agent

import (
	"context"
	"net/http"
	"time"

	"github.com/liqo-tui/liqo-tui/internal/sleep"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// kubeProxyHealth is where kube-proxy says whether it works: port 10256 is the default of its setting
// healthzBindAddress, and load balancers of clouds rely on it. /livez came with Kubernetes 1.28, and an
// earlier kube-proxy answers 404. /healthz also fails on a node that is to be removed.
const kubeProxyHealth = "http://127.0.0.1:10256/livez"

const (
	// kubeProxyInterval is the time between two questions to kube-proxy, and kubeProxyAgain that after
	// a question that got no answer.
	kubeProxyInterval, kubeProxyAgain = 5 * time.Second, 2 * time.Second
	// kubeProxySilence is how long kube-proxy may be silent: it is started again within seconds when
	// its DaemonSet changes.
	kubeProxySilence = 8 * time.Second
)

// kubeProxy asks the node's kube-proxy whether it works. If it ends, the node's Services lead for ever
// to the pods that they had.
type kubeProxy struct {
	ask    func(context.Context) bool
	told   func(wire.KubeProxy)
	seen   bool      // it has answered since the agent began: there is one
	silent time.Time // since when it does not answer; zero if it does
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
		if ctx.Err() == nil { // else the question was cut short
			k.told(state)
		}
		if wait = kubeProxyInterval; !k.silent.IsZero() && state == wire.KubeProxyAnswers {
			wait = kubeProxyAgain
		}
	}
	return nil
}

// note takes an answer, or its absence. Where nothing has ever answered, nothing is known: another
// program may have kube-proxy's task, or it may be told to listen elsewhere.
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

// follows notes whether the node's kube-proxy works.
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
