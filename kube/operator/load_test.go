package operator

import (
	"testing"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/liqo-tui/liqo-tui/render"
)

func TestFailuresAreTriedAgainWithinHalfAMinute(t *testing.T) {
	limiter := workers(1).RateLimiter
	for range 100 {
		if wait := limiter.When(reconcile.Request{}); wait > lastRetry {
			t.Fatalf("waits %s", wait)
		}
	}
}

// TestAComplaintIsNoNews has the operator's own words change, and then others'.
func TestAComplaintIsNoNews(t *testing.T) {
	server := func(version, problem, key string, mtu int) *networkingv1beta1.GatewayServer {
		return &networkingv1beta1.GatewayServer{
			ObjectMeta: metav1.ObjectMeta{ResourceVersion: version, Annotations: map[string]string{render.AnnotationProblem: problem, render.AnnotationRotateKey: key}},
			Spec:       networkingv1beta1.GatewayServerSpec{MTU: mtu},
		}
	}
	before := server("1", "attempt 1 failed", "", 1340)
	news := gatewayNews()
	for _, c := range []struct {
		name  string
		after *networkingv1beta1.GatewayServer
		want  bool
	}{
		{"another complaint", server("2", "attempt 2 failed", "", 1340), false},
		{"a request", server("2", "attempt 1 failed", "x", 1340), true},
		{"a setting", server("2", "attempt 2 failed", "", 1300), true},
	} {
		if got := news.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: c.after}); got != c.want {
			t.Errorf("%s: got %t, want %t", c.name, got, c.want)
		}
	}
}
