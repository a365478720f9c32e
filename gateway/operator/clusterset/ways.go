package clusterset

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/internal/offload/network"
	"github.com/liqo-tui/liqo-tui/internal/services"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// A way holds the facts of this cluster on which the endpoints of a peer depend.
type way struct {
	id     wire.ClusterID
	ranges network.Ranges
	admits services.Namespaces // the namespaces into which the peer's Services are imported
	down   bool                // no packets pass: the gateway measures this, or it has stopped reporting
}

// ways has the present way to each peer. The zero value is ready to use.
type ways struct {
	mu        sync.Mutex
	read      bool
	followers map[string]*network.Follower // by tenant namespace
	present   map[string]way               // by tenant namespace
}

// refresh judges all ways anew. It returns the tenant namespaces of those that have changed.
func (w *ways) refresh(ctx context.Context, reader client.Reader) (changed []string, err error) {
	var confs networkingv1beta1.ConfigurationList
	if err := reader.List(ctx, &confs, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Configurations: %w", err)
	}
	var all networkingv1beta1.ConnectionList
	if err := reader.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list Connections: %w", err)
	}
	connections := map[string][]networkingv1beta1.Connection{}
	for i := range all.Items {
		namespace := all.Items[i].Namespace
		connections[namespace] = append(connections[namespace], all.Items[i])
	}
	slices.SortFunc(confs.Items, func(a, b networkingv1beta1.Configuration) int { return strings.Compare(a.Name, b.Name) })

	w.mu.Lock()
	defer w.mu.Unlock()
	followers, present := map[string]*network.Follower{}, map[string]way{}
	for i := range confs.Items {
		conf := &confs.Items[i]
		id := wire.ClusterID(conf.Labels[wire.LabelRemoteCluster])
		if _, second := present[conf.Namespace]; second || id == "" || conf.DeletionTimestamp != nil {
			continue
		}
		follower := w.followers[conf.Namespace]
		if follower == nil {
			follower = &network.Follower{}
		}
		followers[conf.Namespace] = follower
		tunnel := follower.Tunnel(true, connections[conf.Namespace], time.Now())
		present[conf.Namespace] = way{
			id: id, ranges: network.RangesOf(conf), admits: services.ParseNamespaces(conf), down: tunnel.Down != "" || quiet(connections[conf.Namespace]),
		}
	}
	for namespace, now := range present {
		if before, ok := w.present[namespace]; !ok || !reflect.DeepEqual(before, now) {
			changed = append(changed, namespace)
		}
	}
	for namespace := range w.present {
		if _, ok := present[namespace]; !ok {
			changed = append(changed, namespace)
		}
	}
	w.followers, w.present, w.read = followers, present, true
	slices.Sort(changed)
	return changed, nil
}

// quiet reports whether the gateway has reported that no packet comes from the peer. It reports this some
// seconds before it reports that the tunnel is down.
func quiet(all []networkingv1beta1.Connection) bool {
	c := wire.First(all)
	if c == nil {
		return false
	}
	report, ok, err := wire.ParseReport(c.Annotations)
	return ok && err == nil && report.Quiet
}

// all returns the present ways, by tenant namespace. Callers must not change the map.
func (w *ways) all(ctx context.Context, reader client.Reader) (map[string]way, error) {
	w.mu.Lock()
	read, present := w.read, w.present
	w.mu.Unlock()
	if read {
		return present, nil
	}
	if _, err := w.refresh(ctx, reader); err != nil {
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.present, nil
}

// exporters returns the peers that export a name, with the copies of their slices, and the policy for imports.
func exporters(present map[string]way, copies []discoveryv1.EndpointSlice) (peers []services.Exporter, policy services.Policy) {
	policy.Allowed = map[wire.ClusterID]services.Namespaces{}
	for _, namespace := range slices.Sorted(maps.Keys(present)) {
		w := present[namespace]
		policy.Own = append(policy.Own, namespace)
		if _, second := policy.Allowed[w.id]; second {
			continue // only the first tenant namespace of a peer counts
		}
		policy.Allowed[w.id] = w.admits
		of := services.Exporter{ID: w.id, Down: w.down, Seen: w.ranges.Seen}
		for i := range copies {
			if s := &copies[i]; s.Namespace == namespace && s.Labels[wire.LabelRemoteCluster] == string(w.id) {
				of.Copies = append(of.Copies, *s)
			}
		}
		if len(of.Copies) > 0 {
			peers = append(peers, of)
		}
	}
	return peers, policy
}
