package kube

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/collect"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/kube/waiting"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// Installation reads the objects of our installation, or other objects with their names. They are not
// watched, because few plans need them. The result marks objects that this user may not read as unknown.
func (c *Cluster) Installation(ctx context.Context) (flows.InstallationFacts, error) {
	wanted, err := render.Install(render.InstallParams{Namespace: c.namespace, ClusterID: "any", Image: "any", Peering: render.PeeringBoth, Services: render.On, Names: render.On})
	if err != nil {
		return flows.InstallationFacts{}, err
	}
	f := flows.InstallationFacts{Waiting: map[string]string{}}
	var mu sync.Mutex
	add := func(o wire.Object) {
		mu.Lock()
		defer mu.Unlock()
		f.Objects = append(f.Objects, o)
	}
	var g errgroup.Group
	g.SetLimit(inspectAtOnce)
	for _, o := range wanted {
		if _, network := o.(*ipamv1alpha1.Network); network {
			continue // Networks are listed below, because there may be further ones
		}
		g.Go(func() error {
			live := &unstructured.Unstructured{}
			live.SetGroupVersionKind(o.GetObjectKind().GroupVersionKind())
			err := c.client.Get(ctx, client.ObjectKeyFromObject(o), live)
			switch {
			case err == nil:
				add(live)
			case render.Optional(o) && unserved(err):
				mu.Lock()
				defer mu.Unlock()
				f.Unserved = append(f.Unserved, flows.RefTo(o).Kind)
			}
			return c.unlessMissing("read "+apply.Name(o), err)
		})
	}
	list := func(list client.ObjectList, keep func(client.Object), options ...client.ListOption) {
		g.Go(func() error {
			var wrong error
			err := eachPage(ctx, c.client, list, func(list client.ObjectList) {
				wrong = errors.Join(wrong, meta.EachListItem(list, func(o runtime.Object) error {
					gvk, err := c.client.GroupVersionKindFor(o)
					o.GetObjectKind().SetGroupVersionKind(gvk) // typed clients drop it
					keep(o.(client.Object))
					return err
				}))
			}, options...)
			err = cmp.Or(err, wrong)
			return c.unlessMissing("list the objects of the installation", err)
		})
	}
	here := client.InNamespace(c.namespace)
	list(&ipamv1alpha1.NetworkList{}, func(o client.Object) { add(o) }, here, client.HasLabels{wire.LabelNetworkType})
	list(&networkingv1beta1.InternalNodeList{}, func(o client.Object) { add(o) }, client.MatchingLabels{wire.LabelManagedBy: wire.ManagedBy})
	list(&corev1.ConfigMapList{}, func(o client.Object) { add(o) }, here, client.MatchingLabels{wire.LabelAppName: wire.FabricName})
	list(&mcsv1beta1.ServiceImportList{}, func(o client.Object) { add(o) }, client.MatchingLabels{wire.LabelManagedBy: wire.ManagedBy})
	list(&appsv1.DeploymentList{}, func(o client.Object) {
		if d, ok := o.(*appsv1.Deployment); ok {
			f.Gateways = append(f.Gateways, *d)
		}
	}, client.MatchingLabels{wire.LabelComponent: "gateway"})
	list(&ipamv1alpha1.IPList{}, func(o client.Object) {
		// The operator's own IP is left out, because it changes with the range.
		if ip, ok := o.(*ipamv1alpha1.IP); ok && ip.Status.IP != "" && !peering.IsProxy(ip) {
			f.Hosts++
		}
	})
	g.Go(func() error { return c.countAccess(ctx, &f) })
	programs := []string{wire.OperatorName, wire.FabricName, wire.DNSName}
	waits := make([]string, len(programs))
	for i, program := range programs {
		g.Go(func() error {
			waits[i] = c.podsWait(ctx, program)
			return nil
		})
	}
	err = g.Wait()
	if problem, ok := errors.AsType[*flows.Problem](err); ok && problem.Kind == flows.Forbidden {
		f.Unknown, err = problem.Message, nil
	}
	apply.Sort(f.Objects) // they were read in any order
	for i, program := range programs {
		f.Waiting[program] = waits[i]
	}
	return f, err
}

// countAccess counts the consumers and the providers, if the operator has a role in lending.
func (c *Cluster) countAccess(ctx context.Context, f *flows.InstallationFacts) error {
	var d appsv1.Deployment
	err := c.client.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: wire.OperatorName}, &d)
	if role := render.OperatorParams(&d).Peering; err != nil || !role.Consumes() && !role.Provides() {
		return c.unlessMissing("read the operator's Deployment", err)
	}
	var tenants authv1beta1.TenantList
	var identities authv1beta1.IdentityList
	for _, l := range []client.ObjectList{&tenants, &identities} {
		if err := c.client.List(ctx, l); err != nil {
			return c.unlessMissing("list who has access", err)
		}
	}
	providers := map[string]bool{} // each has given one Identity to the cluster, and one more for each slice
	for i := range identities.Items {
		providers[string(identities.Items[i].Spec.ClusterID)] = true
	}
	f.Tenants, f.Identities = len(tenants.Items), len(providers)
	return nil
}

// unlessMissing returns the error of a read; nil if the object does not exist, because this is an answer,
// too.
func (c *Cluster) unlessMissing(what string, err error) error {
	if err == nil || apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	return c.problem(what, err)
}

// unserved reports whether the API server does not know the requested kind. Then the answer is the page for a
// path that does not exist. If it knows other kinds of the same group and version, it answers that there is
// no such resource, and names no object.
func unserved(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok || !apierrors.IsNotFound(err) {
		return false
	}
	d := status.ErrStatus.Details
	return d == nil || d.Name == "" ||
		slices.ContainsFunc(d.Causes, func(c metav1.StatusCause) bool { return c.Type == metav1.CauseTypeUnexpectedServerResponse })
}

// podsWait returns the reason that the pods of a program don't run, or are not created; "" if there is none
// yet.
func (c *Cluster) podsWait(ctx context.Context, program string) string {
	var unready *corev1.Pod
	err := eachPage(ctx, c.client, &corev1.PodList{}, func(list *corev1.PodList) {
		if i := slices.IndexFunc(list.Items, func(p corev1.Pod) bool { return !collect.Pod(&p).Ready }); i >= 0 && unready == nil {
			unready = &list.Items[i]
		}
	}, client.InNamespace(c.namespace), client.MatchingLabels{wire.LabelAppName: program})
	if err != nil {
		return err.Error()
	}
	if unready != nil {
		f := collect.Pod(unready)
		if f.Waiting == "" {
			return "pod " + f.Name + " is " + strings.ToLower(string(unready.Status.Phase))
		}
		pulling := ""
		if f.Waiting == "ContainerCreating" { // a kubelet also reports this during a pull that never ends
			pulling = waiting.ToBePulled(ctx, c.client, []*corev1.Pod{unready}, time.Now().Add(c.clock.Difference()))
		}
		return "pod " + f.Name + ": " + cmp.Or(pulling, f.Waiting)
	}
	return waiting.NotMade(ctx, c.client, client.ObjectKey{Namespace: c.namespace, Name: program})
}
