package operator

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

func TestForeignClusterSaysNoMoreThanIsKnown(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	connection := func(value networkingv1beta1.ConnectionStatusValue, reported time.Duration, message string) *networkingv1beta1.Connection {
		text, err := json.Marshal(wire.Report{At: now.Add(-reported), Interval: 10, Message: message})
		if err != nil {
			t.Fatal(err)
		}
		return &networkingv1beta1.Connection{
			ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{wire.AnnotationStatus: string(text)}},
			Status:     networkingv1beta1.ConnectionStatus{Value: value},
		}
	}
	running := []appsv1.Deployment{{ObjectMeta: metav1.ObjectMeta{Name: "gw-milan"}, Status: appsv1.DeploymentStatus{ReadyReplicas: 1}}}
	server := &networkingv1beta1.GatewayServer{ObjectMeta: metav1.ObjectMeta{Name: "milan"}}
	conf := &networkingv1beta1.Configuration{}
	for name, c := range map[string]struct {
		peer  peer
		want  string
		again time.Duration
	}{
		"only its ranges are known": {
			peer{configuration: conf}, "Configuration Ready, Presence NotReady, Connection NotReady: the gateway has reported nothing yet", 0,
		},
		"the pod does not run yet": {
			peer{configuration: conf, server: server},
			"Configuration Ready, Presence Ready, Server NotReady, Connection NotReady: the gateway has reported nothing yet", 0,
		},
		"connecting, and why it takes so long": {
			peer{configuration: conf, server: server, deployments: running, connection: connection("Connecting", time.Second, "the peer's key is not known")},
			"Configuration Ready, Presence Ready, Server Ready, Connection Pending: the peer's key is not known", 30 * time.Second,
		},
		"connected": {
			peer{configuration: conf, server: server, deployments: running, connection: connection("Connected", 5*time.Second, "")},
			"Configuration Ready, Presence Ready, Server Ready, Connection Established: the gateways reach each other", 26 * time.Second,
		},
		"connected, says a gateway that has been silent for too long": {
			peer{configuration: conf, server: server, deployments: running, connection: connection("Connected", time.Minute, "")},
			"Configuration Ready, Presence Ready, Server Ready, Connection Error: the gateway has reported nothing since 2026-01-02T03:03:05Z", lookForReports,
		},
		"gone without a trace but its gateway": {
			peer{server: server, deployments: running, connection: connection("Error", 0, "no handshake for 3m")},
			"Configuration NotReady, Presence Ready, Server Ready, Connection Error: no handshake for 3m", 31 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			conditions, again := c.peer.conditions(now)
			var said []string
			for _, cond := range conditions {
				kind := strings.TrimSuffix(strings.TrimPrefix(strings.TrimPrefix(string(cond.Type), "Network"), "Gateway"), "Status")
				said = append(said, fmt.Sprintf("%s %s", kind, cond.Status))
			}
			got := strings.Join(said, ", ") + ": " + conditions[len(conditions)-1].Message
			if got != c.want || again != c.again {
				t.Errorf("\n got %s, again in %s\nwant %s, again in %s", got, again, c.want, c.again)
			}
		})
	}
}
