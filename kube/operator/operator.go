// Package operator is the control plane of a cluster on which Liqo does not
// run: it assigns address ranges, and makes and watches the gateways' children.
// It reconciles Liqo's kinds, so that peers and tools can't tell the difference.
package operator

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/liqo-tui/liqo-tui/render"
)

// FieldManager is the name under which the operator applies children.
const FieldManager = render.OperatorName

// Options of the operator.
type Options struct {
	Namespace      string // where it, and the cluster's Networks, live
	HealthAddress  string // for /healthz and /readyz, like ":8081"
	LeaderElection bool
}

// Run reconciles until ctx ends.
func Run(ctx context.Context, config *rest.Config, o Options) error {
	scheme, err := render.Scheme()
	if err != nil {
		return err
	}
	config = rest.CopyConfig(config)
	// A connection is ten objects per side; the client's default of 20 requests
	// a second would be felt.
	config.QPS, config.Burst = 200, 400
	ofGateways, err := hasLabel(render.LabelGatewayName)
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        scheme,
		Metrics:                       server.Options{BindAddress: "0"},
		HealthProbeBindAddress:        o.HealthAddress,
		LeaderElection:                o.LeaderElection,
		LeaderElectionID:              render.OperatorName,
		LeaderElectionNamespace:       o.Namespace,
		LeaderElectionReleaseOnCancel: true,
		Cache: cache.Options{ByObject: map[client.Object]cache.ByObject{
			// Of these, only the gateways' are ours to see.
			&corev1.Pod{}:            {Label: ofGateways},
			&corev1.Secret{}:         {Label: ofGateways},
			&corev1.Service{}:        {Label: ofGateways},
			&corev1.ServiceAccount{}: {Label: ofGateways},
			&corev1.ConfigMap{}:      {Label: ofGateways},
			&appsv1.Deployment{}:     {Label: ofGateways},
			&rbacv1.Role{}:           {Label: ofGateways},
			&rbacv1.RoleBinding{}:    {Label: ofGateways},
		}},
	})
	if err != nil {
		return fmt.Errorf("set up the operator: %w", err)
	}
	if err := refuseBesideLiqo(ctx, mgr.GetAPIReader()); err != nil {
		return err
	}
	if err := errors.Join(
		(&networks{client: mgr.GetClient(), reader: mgr.GetAPIReader(), namespace: o.Namespace}).setup(mgr),
		(&configurations{client: mgr.GetClient(), reader: mgr.GetAPIReader(), namespace: o.Namespace}).setup(mgr),
		newGateways(mgr, serverKind).setup(mgr),
		newGateways(mgr, clientKind).setup(mgr),
		mgr.AddHealthzCheck("alive", healthz.Ping),
		mgr.AddReadyzCheck("caches", func(r *http.Request) error { return cachesReady(r.Context(), mgr.GetCache()) }),
	); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

func hasLabel(key string) (labels.Selector, error) {
	r, err := labels.NewRequirement(key, selection.Exists, nil)
	if err != nil {
		return nil, err
	}
	return labels.NewSelector().Add(*r), nil
}

// cachesReady is what "ready" means: a change is seen from now on.
func cachesReady(ctx context.Context, c cache.Cache) error {
	if !c.WaitForCacheSync(ctx) {
		return errors.New("the caches have not synced")
	}
	return nil
}

// refuseBesideLiqo keeps two operators from fighting over the same objects.
func refuseBesideLiqo(ctx context.Context, reader client.Reader) error {
	var list appsv1.DeploymentList
	err := reader.List(ctx, &list, client.MatchingLabels{render.LabelAppName: "controller-manager", render.LabelPartOf: "liqo"})
	if err != nil {
		return fmt.Errorf("look for Liqo's controller-manager: %w", err)
	}
	if len(list.Items) > 0 {
		d := list.Items[0]
		return fmt.Errorf("refusing to run: Liqo's controller-manager is Deployment %s/%s, and two operators would fight over the same objects; remove one of them", d.Namespace, d.Name)
	}
	return nil
}

// clusterNetworks are this cluster's own ranges, by kind, as far as they are
// decided.
func clusterNetworks(ctx context.Context, reader client.Reader, namespace string) (render.Networks, error) {
	var list ipamv1alpha1.NetworkList
	if err := reader.List(ctx, &list, client.InNamespace(namespace), client.HasLabels{render.LabelNetworkType}); err != nil {
		return render.Networks{}, fmt.Errorf("list this cluster's Networks: %w", err)
	}
	var n render.Networks
	for _, item := range list.Items {
		if item.Status.CIDR == "" {
			continue
		}
		switch item.Labels[render.LabelNetworkType] {
		case render.NetworkPodCIDR:
			n.Pod = append(n.Pod, item.Status.CIDR)
		case render.NetworkExternalCIDR:
			n.External = append(n.External, item.Status.CIDR)
		}
	}
	return n, nil
}
