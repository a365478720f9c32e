package agent

import (
	"testing"
	"time"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

func TestAKubeProxyThatEndsIsReported(t *testing.T) {
	for name, c := range map[string]struct {
		answers []bool // one answer per second
		want    wire.KubeProxy
	}{
		"nothing ever answers":            {make([]bool, 60), wire.KubeProxyUnknown},
		"it answers":                      {[]bool{false, false, true}, wire.KubeProxyAnswers},
		"it is started again":             {append(append([]bool{true}, make([]bool, 7)...), true), wire.KubeProxyAnswers},
		"it is silent for a moment":       {append([]bool{true}, make([]bool, 8)...), wire.KubeProxyAnswers},
		"it is silent for longer":         {append([]bool{true}, make([]bool, 9)...), wire.KubeProxySilent},
		"it answers after a long silence": {append(append([]bool{true}, make([]bool, 20)...), true), wire.KubeProxyAnswers},
	} {
		k, now, got := kubeProxy{}, time.Unix(1000, 0), wire.KubeProxy("")
		for _, answered := range c.answers {
			got = k.note(answered, now)
			now = now.Add(time.Second)
		}
		if got != c.want {
			t.Errorf("%s: got %q, want %q", name, got, c.want)
		}
	}
}

// The end of kube-proxy is reported within the sum of kubeProxyInterval, kubeProxySilence and kubeProxyAgain.
func TestAKubeProxyThatEndsIsReportedSoon(t *testing.T) {
	if most := kubeProxyInterval + kubeProxySilence + kubeProxyAgain; most > 15*time.Second {
		t.Errorf("it takes %s", most)
	}
}
