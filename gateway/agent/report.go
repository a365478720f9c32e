package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/gateway"
	"github.com/liqo-tui/liqo-tui/gateway/linux"
	"github.com/liqo-tui/liqo-tui/gateway/probe"
	"github.com/liqo-tui/liqo-tui/render"
)

const (
	// reportInterval is the longest time between two reports; Liqo's gateways
	// use the same.
	reportInterval = 10 * time.Second
	// lookInterval is how often a change of state is looked for.
	lookInterval = 2 * time.Second
)

// report writes the Connection's status and annotation: at once when the state
// changes, else every reportInterval.
func (t *tunnel) report(ctx context.Context) error {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	var last render.Report
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-t.woken:
		}
		value, r := t.observe(time.Now())
		news := r.Reason != last.Reason || r.Message != last.Message || last.LatencyMicros == 0 && r.LatencyMicros > 0
		if !news && r.At.Sub(last.At) < reportInterval {
			continue
		}
		if err := t.write(ctx, value, r); err != nil {
			if ctx.Err() == nil {
				t.options.Log.Error("report on the Connection", "error", err)
			}
			continue
		}
		last = r
	}
}

func (t *tunnel) observe(now time.Time) (networkingv1beta1.ConnectionStatusValue, render.Report) {
	t.mu.Lock()
	setup, pings := t.setup, t.pings
	t.mu.Unlock()
	stats, err := t.kernel.Peer(gateway.TunnelName(0))
	if err != nil {
		stats = linux.PeerStats{} // no interface yet: the setup says why
	}
	return judge(now, t.options.Role, setup, pings, stats)
}

// judge turns what is known of a tunnel into its state and the reason for it.
func judge(now time.Time, role gateway.Role, s setup, pings probe.Status, stats linux.PeerStats) (networkingv1beta1.ConnectionStatusValue, render.Report) {
	r := render.Report{
		At: now, Interval: render.Seconds(reportInterval / time.Second), Loss: pings.Loss, LatencyMicros: pings.Latency.Microseconds(),
		ReceivedBytes: stats.Received, SentBytes: stats.Sent, Implementation: string(stats.Implementation), MTU: s.mtu,
	}
	if !stats.Handshake.IsZero() {
		r.Handshake = new(stats.Handshake)
	}
	if stats.Endpoint.IsValid() {
		r.Endpoint = stats.Endpoint.String()
	}
	if pings.Value == probe.Connected {
		r.Reason, r.Message = render.ReasonPinged, "the peer's gateway answers pings through the tunnel"
		return networkingv1beta1.Connected, r
	}
	value := networkingv1beta1.Connecting
	if pings.Value == probe.Error {
		value = networkingv1beta1.ConnectionError
	}
	r.Reason, r.Message = explain(role, s, pings, stats)
	return value, r
}

// explain says why no ping is answered: the first thing that is missing.
func explain(role gateway.Role, s setup, pings probe.Status, stats linux.PeerStats) (render.Reason, string) {
	switch {
	case errors.Is(s.problem, errNoConfiguration):
		return render.ReasonMisconfigured, s.problem.Error()
	case s.problem != nil:
		return render.ReasonMisconfigured, "the tunnel can't be set up: " + s.problem.Error()
	case s.resolve != nil:
		return render.ReasonUnresolvable, s.resolve.Error()
	case role == gateway.Client && s.endpoint == "":
		return render.ReasonNoEndpoint, "the GatewayClient names no address to dial"
	case !s.hasKey:
		return render.ReasonNoKey, "the peer's public key is not known yet"
	case pings.Value == probe.Error:
		return render.ReasonPeerSilent, "the peer's gateway has stopped answering pings through the tunnel"
	case !stats.Handshake.IsZero():
		return render.ReasonNoPing, "the keys match, but no ping through the tunnel has been answered yet"
	case role == gateway.Server:
		return render.ReasonNoHandshake, fmt.Sprintf("no client with the right key has dialled UDP port %d yet", s.port)
	}
	return render.ReasonNoHandshake, fmt.Sprintf("no answer from %s yet: is that port open on the way, and has the server this gateway's key?", s.endpoint)
}

// write patches only what is the gateway's own: status and annotation.
func (t *tunnel) write(ctx context.Context, value networkingv1beta1.ConnectionStatusValue, r render.Report) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	annotation := map[string]any{"metadata": map[string]any{"annotations": map[string]any{render.AnnotationStatus: string(text)}}}
	status := map[string]any{"status": map[string]any{
		"value": value,
		"latency": networkingv1beta1.ConnectionLatency{
			Value: render.FormatLatency(time.Duration(r.LatencyMicros) * time.Microsecond), Timestamp: metav1.NewTime(r.At),
		},
	}}
	conn := &networkingv1beta1.Connection{ObjectMeta: metav1.ObjectMeta{
		Namespace: t.options.Gateway.Tenant.Namespace, Name: render.GatewayObjectName(t.options.Gateway.Name),
	}}
	// The reason first: who sees the new state finds its reason beside it.
	if err := patch(ctx, t.client, conn, annotation); err != nil {
		return err
	}
	return patch(ctx, t.client.Status(), conn, status)
}

type patcher[O any] interface {
	Patch(context.Context, client.Object, client.Patch, ...O) error
}

func patch[O any](ctx context.Context, p patcher[O], o client.Object, content map[string]any) error {
	raw, err := json.Marshal(content)
	if err != nil {
		return err
	}
	return p.Patch(ctx, o.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, raw))
}
