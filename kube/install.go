package kube

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/sleep"
	"github.com/liqo-tui/liqo-tui/render"
)

// lookAtInstall is how often an installation's progress is looked at. It is
// waited for once in a cluster's life, so it has no watches of its own.
const lookAtInstall = 200 * time.Millisecond

// WaitError is a wait that ended before what it waited for came.
type WaitError struct {
	What, Last string
	Cause      error
}

func (e *WaitError) Error() string {
	return fmt.Sprintf("wait for %s: %v; last seen: %s", e.What, e.Cause, e.Last)
}

func (e *WaitError) Unwrap() error { return e.Cause }

// Hint says how to go on.
func (e *WaitError) Hint() string {
	return "what was applied stays; run the same command again to go on"
}

// Install applies the objects of [render.Install] and waits until the operator
// and the fabric run. progress is told every change, and what is waited for.
// Nothing is applied if there is an installation in another namespace, or another
// program's definitions that can't be used; those that can stay as they are.
func (c *Cluster) Install(ctx context.Context, objects []render.Object, progress func(string)) (changes []flows.Change, err error) {
	defer func() {
		if conflict, ok := errors.AsType[*flows.ConflictError](err); ok {
			err = &installConflict{conflict}
		}
	}()
	if err := c.installedHere(ctx, objects); err != nil {
		return nil, err
	}
	objects, others, err := c.withoutOthers(ctx, objects)
	if err != nil {
		return nil, err
	}
	if len(others) > 0 {
		progress(flows.KeptDefinitions(others))
	}
	var first, rest []render.Object
	for _, o := range objects {
		switch o.(type) {
		case *apiextensionsv1.CustomResourceDefinition, *corev1.Namespace:
			first = append(first, o)
		default:
			rest = append(rest, o)
		}
	}
	if changes, err = c.Apply(ctx, first); err != nil {
		return changes, err
	}
	progress(fmt.Sprintf("%d definitions and namespaces applied", len(first)))
	if err := c.await(ctx, "the definitions to be served", progress, c.definitionsServed); err != nil {
		return changes, err
	}
	more, err := c.replaceRanges(ctx, rest)
	changes = append(changes, more...)
	if err != nil {
		return changes, err
	}
	more, err = c.Apply(ctx, rest)
	changes = append(changes, more...)
	if err != nil {
		return changes, err
	}
	more, err = c.dropRanges(ctx, rest)
	changes = append(changes, more...)
	if err != nil {
		return changes, err
	}
	progress(fmt.Sprintf("%d objects applied in namespace %s", len(rest), c.namespace))
	return changes, c.await(ctx, "operator and fabric", progress, c.programsRun)
}

// installConflict is a conflict that an installation met. It has no flag that
// takes fields over: what is in its way belongs to another program.
type installConflict struct{ *flows.ConflictError }

func (e *installConflict) Unwrap() error { return e.ConflictError }

// Hint says how to go on.
func (e *installConflict) Hint() string {
	return fmt.Sprintf("change it with %s; or, if nothing uses it any more, delete %s, and run the same command again", strings.Join(e.Managers, " and "), e.Object)
}

// GatewayReplicas is how many pods a gateway has by the template for servers
// that is there; 0 if there is none, or it does not say.
func (c *Cluster) GatewayReplicas(ctx context.Context) (int, error) {
	template := &unstructured.Unstructured{}
	template.SetGroupVersionKind(networkingv1beta1.GroupVersion.WithKind(networkingv1beta1.WgGatewayServerTemplateKind))
	err := c.client.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: render.ServerTemplate}, template)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read gateway template %s/%s: %w", c.namespace, render.ServerTemplate, err)
	}
	replicas, _, err := unstructured.NestedInt64(template.Object, "spec", "template", "spec", "deployment", "spec", "replicas")
	if err != nil {
		return 0, fmt.Errorf("gateway template %s/%s: %w", c.namespace, render.ServerTemplate, err)
	}
	return int(replicas), nil
}

// Uninstall deletes what [Cluster.Install] made, as far as it carries our label:
// what has the same name and is somebody else's stays. The namespace goes only if
// we created it and nothing else is in it; otherwise kept says why not. Nothing is
// deleted if the installation is in another namespace than the cluster's.
func (c *Cluster) Uninstall(ctx context.Context, objects []render.Object) (changes []flows.Change, kept string, err error) {
	if err := c.installedHere(ctx, objects); err != nil {
		return nil, "", err
	}
	objects, err = c.withRanges(ctx, objects)
	if err != nil {
		return nil, "", err
	}
	if objects, err = c.withNodes(ctx, objects); err != nil {
		return nil, "", err
	}
	for _, o := range objects {
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(o.GetObjectKind().GroupVersionKind())
		err := c.client.Get(ctx, client.ObjectKeyFromObject(o), live)
		if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return changes, kept, fmt.Errorf("read %s: %w", render.Name(o), err)
		}
		if _, namespace := o.(*corev1.Namespace); namespace {
			if kept, err = c.keptNamespace(ctx, live); err != nil {
				return changes, kept, err
			}
			if kept != "" {
				continue
			}
		} else if !madeByUs(live) {
			continue
		}
		deleted, err := c.Delete(ctx, []render.Object{live})
		changes = append(changes, deleted...)
		if err != nil {
			return changes, kept, err
		}
	}
	return changes, kept, nil
}

// keptNamespace says why the installation's namespace is not deleted, "" if it is.
func (c *Cluster) keptNamespace(ctx context.Context, live *unstructured.Unstructured) (string, error) {
	if !render.CreatedByUs(live) {
		return "namespace " + live.GetName() + " stays: liqo-tui did not create it", nil
	}
	contents, err := c.Inspect(ctx, render.Tenant{Namespace: live.GetName()})
	if err != nil {
		return "", err
	}
	if keeps := contents.Keeps(); keeps != "" {
		return "namespace " + live.GetName() + " stays: " + keeps, nil
	}
	return "", nil
}

// withNodes adds what the fabric said of nodes: by then it says nothing more.
func (c *Cluster) withNodes(ctx context.Context, objects []render.Object) ([]render.Object, error) {
	var list networkingv1beta1.InternalNodeList
	err := c.client.List(ctx, &list, client.MatchingLabels{render.LabelManagedBy: render.ManagedBy})
	if client.IgnoreNotFound(err) != nil && !meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("list InternalNodes: %w", err)
	}
	objects = slices.Clone(objects)
	for i := range list.Items {
		n := &list.Items[i]
		n.SetGroupVersionKind(networkingv1beta1.GroupVersion.WithKind(networkingv1beta1.InternalNodeKind))
		objects = append(objects, n)
	}
	return objects, nil
}

// installedHere refuses an installation in another namespace: what it has
// cluster-wide has the same names everywhere.
func (c *Cluster) installedHere(ctx context.Context, objects []render.Object) error {
	for _, o := range objects {
		if _, ok := o.(*rbacv1.ClusterRoleBinding); !ok {
			continue
		}
		var live rbacv1.ClusterRoleBinding
		if err := c.client.Get(ctx, client.ObjectKeyFromObject(o), &live); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return fmt.Errorf("read %s: %w", render.Name(o), err)
		}
		f := flows.ClusterFacts{Namespace: c.namespace}
		elsewhere(&f, flows.Operator, bound(&live))
		if step := flows.InstalledElsewhere(flows.A, f); step != nil {
			step.Code = flows.CodeUnfit
			return &flows.StepError{Cluster: render.ClusterID(c.options.Context.String()), Step: *step}
		}
	}
	return nil
}

// await calls look until it reports done; its text is what was seen last.
func (c *Cluster) await(ctx context.Context, what string, progress func(string), look func(context.Context) (done bool, seen string, err error)) error {
	told, last := "", "nothing"
	for {
		done, seen, err := look(ctx)
		switch {
		case done:
			return nil
		case err != nil && ctx.Err() == nil:
			seen = err.Error()
		case seen == "":
			seen = last
		}
		if last = seen; seen != told {
			progress(fmt.Sprintf("waiting for %s: %s", what, seen))
			told = seen
		}
		if !sleep.For(ctx, lookAtInstall) {
			return &WaitError{What: what, Last: last, Cause: context.Cause(ctx)}
		}
	}
}

func (c *Cluster) definitionsServed(ctx context.Context) (bool, string, error) {
	wanted, err := render.CRDs()
	if err != nil {
		return false, "", err
	}
	for _, w := range wanted {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := c.client.Get(ctx, client.ObjectKeyFromObject(w), &crd); err != nil {
			return false, "", err
		}
		if !established(&crd) {
			return false, crd.Name + " is not served yet", nil
		}
	}
	return true, "", nil
}

func established(crd *apiextensionsv1.CustomResourceDefinition) bool {
	for _, c := range crd.Status.Conditions {
		if c.Type == apiextensionsv1.Established {
			return c.Status == apiextensionsv1.ConditionTrue
		}
	}
	return false
}

func (c *Cluster) programsRun(ctx context.Context) (bool, string, error) {
	var operator appsv1.Deployment
	if err := c.client.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: render.OperatorName}, &operator); err != nil {
		return false, "", err
	}
	var fabric appsv1.DaemonSet
	if err := c.client.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: render.FabricName}, &fabric); err != nil {
		return false, "", err
	}
	said, ok, err := render.ParseOperatorStatus(operator.Annotations)
	if err == nil && ok && said.State != render.OperatorWorking {
		return false, "operator: " + said.Message, nil
	}
	s, f := operator.Status, fabric.Status
	if s.ObservedGeneration < operator.Generation || s.UpdatedReplicas < 1 || s.AvailableReplicas < 1 || s.Replicas > s.UpdatedReplicas {
		return false, describe("the operator starts", c.podsWait(ctx, render.OperatorName)), nil
	}
	if f.ObservedGeneration < fabric.Generation || f.DesiredNumberScheduled == 0 || f.UpdatedNumberScheduled < f.DesiredNumberScheduled || f.NumberReady < f.DesiredNumberScheduled {
		seen := fmt.Sprintf("the fabric runs on %d of %d nodes", f.NumberReady, f.DesiredNumberScheduled)
		return false, describe(seen, c.podsWait(ctx, render.FabricName)), nil
	}
	var networks ipamv1alpha1.NetworkList
	if err := c.client.List(ctx, &networks, client.InNamespace(c.namespace), client.HasLabels{render.LabelNetworkType}); err != nil {
		return false, "", err
	}
	missing := map[string]bool{render.NetworkPodCIDR: true, render.NetworkServiceCIDR: true}
	for _, n := range networks.Items {
		if n.Status.CIDR == "" {
			return false, "the operator has not decided Network " + n.Name, nil
		}
		delete(missing, n.Labels[render.LabelNetworkType])
	}
	if len(missing) > 0 {
		return false, "the operator has not found the cluster's address ranges yet", nil
	}
	return true, "", nil
}

func describe(seen, why string) string {
	if why == "" {
		return seen
	}
	return seen + ": " + why
}

// podsWait says what keeps the pods of a program from running, "" where nothing
// does: Kubernetes has not made them yet, or not counted them.
func (c *Cluster) podsWait(ctx context.Context, program string) string {
	var pods corev1.PodList
	if err := c.client.List(ctx, &pods, client.InNamespace(c.namespace), client.MatchingLabels{render.LabelAppName: program}); err != nil {
		return err.Error()
	}
	for i := range pods.Items {
		if f := podFacts(&pods.Items[i]); !f.Ready {
			if f.Waiting == "" {
				return "pod " + f.Name + " is " + strings.ToLower(string(pods.Items[i].Status.Phase))
			}
			return "pod " + f.Name + ": " + f.Waiting
		}
	}
	return ""
}
