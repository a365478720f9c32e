package operator

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"strings"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/liqo-tui/liqo-tui/gateway/operator/control"
	"github.com/liqo-tui/liqo-tui/gateway/operator/ranges"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// gateways makes the objects that a GatewayServer or GatewayClient needs to run, and publishes its key and
// endpoint.
type gateways struct {
	kind   kind
	client client.Client
	reader client.Reader // not cached

	events events.EventRecorder
	writes ownWrites

	surroundings *ranges.Surroundings
	home         string     // the operator's own namespace
	pod          netip.Addr // and the address of its pod; not valid if unknown
	turns        *turns     // shared by the gateways of both kinds
}

func (r *gateways) setup(mgr ctrl.Manager, secrets <-chan event.GenericEvent) error {
	// A change of the problem's annotation causes no reconciliation. Otherwise a problem whose text differs
	// at each attempt would cause the next attempt at once.
	b := ctrl.NewControllerManagedBy(mgr).Named(r.kind.name).WithOptions(workers(1)).For(r.kind.object(), builder.WithPredicates(r.writes.News(wire.AnnotationProblem)))
	for _, child := range []client.Object{
		&appsv1.Deployment{}, &corev1.Service{}, &corev1.ConfigMap{}, &corev1.ServiceAccount{},
		&rbacv1.Role{}, &rbacv1.RoleBinding{}, &networkingv1beta1.InternalFabric{},
	} {
		b = b.Owns(child)
	}
	// Only the creation and deletion of a Lease count, because it is written every few seconds.
	return r.watches(b.Owns(&coordinationv1.Lease{}, existence()), secrets).Complete(r)
}

// Reconcile reads the inputs, makes the children, and reports. Independent steps run at the same time,
// because an admin waits for the result.
func (r *gateways) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	gateway := r.kind.object()
	err := r.client.Get(ctx, req.NamespacedName, gateway)
	if apierrors.IsNotFound(err) {
		return ctrl.Result{}, r.cleanUp(ctx, req.NamespacedName)
	}
	if err != nil || gateway.GetDeletionTimestamp() != nil { // Kubernetes deletes its children
		return ctrl.Result{}, err
	}
	rights, err := rightsIn(ctx, r.client, req.Namespace)
	if err != nil {
		return ctrl.Result{}, err
	}
	var made *prepared
	in, err := r.read(ctx, gateway)
	switch {
	case err == nil && rights == nil: // the binding's creation queues the gateway again
		if young(gateway) {
			return ctrl.Result{RequeueAfter: rightsLag}, nil
		}
		err = fmt.Errorf("waits until the API server lets the operator work in namespace %s, which takes up to 30 s after an installation", req.Namespace)
		if _, invites := gateway.(*networkingv1beta1.GatewayServer); !invites && in.configuration == nil {
			err = fmt.Errorf("waits for a Configuration in namespace %s with the label %s=%s", req.Namespace, wire.LabelRemoteCluster, in.gateway.Tenant.Remote)
		}
		return ctrl.Result{}, r.complain(ctx, gateway, err)
	case err == nil:
		made, err = r.prepare(ctx, in)
	}
	if notYet(err, rights) {
		return ctrl.Result{RequeueAfter: rightsAgain}, nil
	}
	if errors.Is(err, errTemplate) {
		if !r.kind.ours(r.kind.view(gateway).template) {
			return ctrl.Result{RequeueAfter: othersAgain}, r.complain(ctx, gateway, err)
		}
		return ctrl.Result{}, r.complain(ctx, gateway, err)
	}
	if err != nil {
		return ctrl.Result{}, errors.Join(err, r.complain(ctx, gateway, err))
	}
	var g errgroup.Group // without a common context, so that one failure does not cancel the others
	var result ctrl.Result
	g.Go(func() (err error) {
		result, err = r.run(ctx, made)
		return err
	})
	g.Go(func() error { return r.publish(ctx, in, made) })
	g.Go(func() error { return r.markActive(ctx, in) })
	if err = g.Wait(); notYet(err, rights) {
		return ctrl.Result{RequeueAfter: rightsAgain}, nil
	}
	return result, errors.Join(err, r.complain(ctx, gateway, err))
}

// markActive makes the gateway's Service lead only to the pod that holds the tunnel. While this pod is
// being replaced, the new one may still wait for its image. Pods that share a tunnel set the label themselves.
func (r *gateways) markActive(ctx context.Context, in *inputs) error {
	if in.shared() || in.pod == nil {
		return nil
	}
	var errs []error
	for i := range in.pods {
		p := &in.pods[i]
		active := p.Name == in.pod.Name
		if p.DeletionTimestamp != nil || (p.Labels[wire.LabelActive] == "true") == active {
			continue
		}
		now := p.DeepCopy()
		if delete(now.Labels, wire.LabelActive); active {
			now.Labels[wire.LabelActive] = "true"
		}
		if err := r.client.Patch(ctx, now, client.MergeFrom(p), client.FieldOwner(FieldManager)); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("label pod %s: %w", p.Name, err))
		}
	}
	return errors.Join(errs...)
}

// If a gateway's children can't be made, complain writes the reason to an annotation of the gateway, for
// waiting admins, and records an Event. Without a problem it removes the annotation.
func (r *gateways) complain(ctx context.Context, o client.Object, problem error) error {
	text := ""
	switch {
	case apierrors.IsInvalid(problem), apierrors.IsForbidden(problem), apierrors.IsBadRequest(problem), errors.Is(problem, errTemplate):
		text = wire.ProblemRefused + problem.Error()
	case apierrors.IsConflict(problem), apierrors.IsAlreadyExists(problem), errors.Is(problem, context.Canceled):
		return nil // the cache is outdated, or this process ends: the next attempt writes the problem
	case problem != nil:
		text = problem.Error()
	}
	if changed, err := note(ctx, r.client, o, wire.AnnotationProblem, text); !changed {
		return err
	}
	kind, reason, said := wire.ProblemEvent(text)
	r.events.Eventf(wire.EventAbout(o), nil, kind, reason, "Reconcile", "%s", said)
	return nil
}

// note sets an annotation on the API server, unless o has it; an empty value removes it.
func note(ctx context.Context, c client.Client, o client.Object, key, value string) (changed bool, err error) {
	if o.GetAnnotations()[key] == value {
		return false, nil
	}
	before := o.DeepCopyObject().(client.Object)
	annotate(o, key, value)
	if err := c.Patch(ctx, o, client.MergeFrom(before), client.FieldOwner(FieldManager)); err != nil {
		return false, fmt.Errorf("write annotation %s of %s: %w", key, apply.Name(o), err)
	}
	return true, nil
}

// prepared holds the objects that a gateway's pod needs, and the objects that the gateway's status names.
type prepared struct {
	secret     *corev1.Secret
	service    *corev1.Service // nil for a client
	deployment *appsv1.Deployment
	other      *unstructured.Unstructured // instead of service and deployment: the object from which another program makes the gateway
	binding    wire.Object
}

// errTemplate means that a template requests something that a gateway must not have.
var errTemplate = errors.New("ask an admin for another template")

// templateError is the error for the gateway's template. A change of the template queues the gateway again.
func (in *inputs) templateError(why error) error {
	return fmt.Errorf("gateway template %s/%s: %w: %w", in.view.template.Namespace, in.view.template.Name, why, errTemplate)
}

// prepare makes everything except the pod and the RoleBinding. The Role must exist first, because the API
// server checks the Role when the RoleBinding is made.
func (r *gateways) prepare(ctx context.Context, in *inputs) (*prepared, error) {
	keys := cmp.Or(in.view.secretName, wire.GatewayObjectName(in.gateway.Name))
	p := &prepared{binding: in.gateway.RoleBinding()}
	var err error
	if in.filled, err = in.gateway.Fill(in.template, in.values(keys)); err == nil && in.template.Ours() {
		err = in.workload(p, keys)
	}
	if err != nil {
		return nil, in.templateError(err)
	}
	if !in.template.Ours() {
		p.other = in.filled.Object()
		if in.others, err = readOthers(ctx, r.client, p.other); err != nil {
			return nil, err
		}
		if e := in.others.InternalEndpoint; e != nil && e.Node != nil {
			if _, err := r.readNode(ctx, in, *e.Node); err != nil {
				return nil, err
			}
		}
	}
	supports, err := in.supports()
	if err != nil {
		return nil, err
	}
	var g errgroup.Group
	g.Go(func() (err error) {
		if p.secret, err = r.keys(ctx, in); err != nil {
			return err
		}
		p.secret, err = r.rotate(ctx, in, p.secret)
		return err
	})
	g.Go(func() error { return r.applyAll(ctx, supports) })
	g.Go(func() error {
		account, err := control.Apply(ctx, r.client, in.gateway.ServiceAccount())
		if err == nil && p.deployment != nil {
			metav1.SetMetaDataAnnotation(&p.deployment.Spec.Template.ObjectMeta, wire.AnnotationAccount, string(account.UID))
		}
		return err
	})
	if p.deployment != nil {
		g.Go(func() error { return r.bringPullSecrets(ctx, in, p.deployment.Spec.Template.Spec.ImagePullSecrets) })
	}
	if p.service != nil {
		g.Go(func() (err error) {
			p.service, err = control.Apply(ctx, r.client, p.service)
			return err
		})
	}
	return p, g.Wait()
}

func (in *inputs) workload(p *prepared, keys string) (err error) {
	if p.deployment, err = in.deployment(); err != nil {
		return err
	}
	if err := in.gateway.CheckPods(p.deployment, keys); err != nil {
		return err
	}
	server, ok := in.view.object.(*networkingv1beta1.GatewayServer)
	if !ok {
		return nil
	}
	if p.service, err = in.filled.Service(server); err != nil {
		return err
	}
	return in.gateway.CheckService(p.service)
}

// bringPullSecrets copies the pull secrets of the image from the template's namespace into the pod's
// namespace, where Kubernetes needs them. It does not change an existing Secret of another program. If one is
// missing, the pod's events say so.
func (r *gateways) bringPullSecrets(ctx context.Context, in *inputs, wanted []corev1.LocalObjectReference) error {
	from, to := in.view.template.Namespace, in.gateway.Tenant.Namespace
	if from == to {
		return nil
	}
	for _, ref := range wanted {
		var source, there corev1.Secret
		err := r.client.Get(ctx, client.ObjectKey{Namespace: to, Name: ref.Name}, &there)
		if err == nil && !r.owns(in.gateway.Name, &there) {
			continue
		}
		if err := client.IgnoreNotFound(err); err != nil {
			return fmt.Errorf("read pull secret %s/%s: %w", to, ref.Name, err)
		}
		err = r.client.Get(ctx, client.ObjectKey{Namespace: from, Name: ref.Name}, &source)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil { // the operator may read only the pull secrets that were given to install
			return fmt.Errorf("read pull secret %s/%s (the operator may read only pull secrets that install was given): %w", from, ref.Name, err)
		}
		secret, ok := in.gateway.PullSecret(&source)
		if !ok {
			return fmt.Errorf("pull secret %s/%s: want type %s, got %s", from, ref.Name, corev1.SecretTypeDockerConfigJson, source.Type)
		}
		if _, err := control.Apply(ctx, r.client, secret); err != nil {
			return err
		}
	}
	return nil
}

func (r *gateways) run(ctx context.Context, p *prepared) (result ctrl.Result, err error) {
	var g errgroup.Group
	g.Go(func() error { return r.applyAll(ctx, []wire.Object{p.binding}) })
	g.Go(func() error {
		if p.other != nil {
			result.RequeueAfter = othersAgain
			_, err := control.Apply(ctx, r.client, p.other)
			return err
		}
		waitsFor, err := r.turns.apply(ctx, r.client, p.deployment)
		if waitsFor != "" {
			ctrl.LoggerFrom(ctx).Info("the gateway is replaced later", "waitsFor", waitsFor)
			result.RequeueAfter = turnAgain
		}
		return err
	})
	err = g.Wait()
	return result, err
}

func (r *gateways) applyAll(ctx context.Context, objects []wire.Object) error {
	var g errgroup.Group
	for _, o := range objects {
		g.Go(func() error {
			_, err := control.Apply(ctx, r.client, o)
			return err
		})
	}
	return g.Wait()
}

// publish writes the public keys, the endpoint with its reason, the internal endpoint, and references to the
// gateway's objects. Peers and their admins need the public keys, because they may not read the Secret with
// the private key.
func (r *gateways) publish(ctx context.Context, in *inputs, p *prepared) error {
	o := in.view.object
	before := o.DeepCopyObject().(client.Object)
	annotate(o, wire.AnnotationPublicKey, base64.StdEncoding.EncodeToString(p.secret.Data[wire.SecretPublicKey]))
	annotate(o, wire.AnnotationNextPublicKey, base64.StdEncoding.EncodeToString(p.secret.Data[wire.SecretNextPublic]))
	var endpoint *networkingv1beta1.EndpointStatus
	if p.service != nil {
		var why string
		endpoint, why = endpointOf(p.service, in.nodes, in.pod, in.replicas, *in.view.endpoint)
		annotate(o, wire.AnnotationEndpoint, why)
	}
	if p.other != nil {
		endpoint = in.others.Endpoint
	}
	if !maps.Equal(before.GetAnnotations(), o.GetAnnotations()) {
		if err := r.writes.Patch(ctx, r.client, o, before, FieldManager); err != nil {
			return fmt.Errorf("publish the key of %s %s: %w", r.kind.name, in.gateway.Name, err)
		}
	}
	before = o.DeepCopyObject().(client.Object)
	*in.view.secretRef = &corev1.ObjectReference{APIVersion: "v1", Kind: "Secret", Namespace: p.secret.Namespace, Name: p.secret.Name}
	former := *in.view.childRef
	*in.view.childRef = p.child()
	if err := r.removeFormer(ctx, in, p, former); err != nil {
		return err
	}
	*in.view.internal = cmp.Or(in.others.InternalEndpoint, *in.view.internal)
	if in.pod != nil {
		*in.view.internal = &networkingv1beta1.InternalGatewayEndpoint{
			IP: new(networkingv1beta1.IP(wire.PodIPv4(in.pod))), Node: new(in.pod.Spec.NodeName),
		}
	}
	if in.view.endpoint != nil {
		*in.view.endpoint = endpoint
	}
	if equality.Semantic.DeepEqual(before, o) {
		return nil
	}
	if err := r.writes.PatchStatus(ctx, r.client, o, before, FieldManager); err != nil {
		return fmt.Errorf("report on %s %s: %w", r.kind.name, in.gateway.Name, err)
	}
	return nil
}

// annotate sets an annotation; an empty value removes it.
func annotate(o client.Object, key, value string) {
	annotations := maps.Clone(o.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	if annotations[key] = value; value == "" {
		delete(annotations, key)
	}
	o.SetAnnotations(annotations)
}

// cleanUp deletes the children of a deleted gateway. There is no finalizer, because the deletion of the
// gateway would then wait for the operator. Kubernetes' garbage collector would delete the children, too, but
// it discovers new kinds only every 30 s.
func (r *gateways) cleanUp(ctx context.Context, key client.ObjectKey) error {
	if err := r.reader.Get(ctx, key, r.kind.object()); !apierrors.IsNotFound(err) {
		return err // the gateway was created again, perhaps with a PublicKey, and the cache is outdated
	}
	if rights, err := rightsIn(ctx, r.client, key.Namespace); rights == nil || err != nil {
		return err // the garbage collector deletes the rest
	}
	g := render.Gateway{Tenant: render.Tenant{Namespace: key.Namespace}, Name: key.Name, Owner: r.kind.object()}
	var errs []error
	delegate := metav1.ObjectMeta{Namespace: key.Namespace, Name: render.DelegateName(key.Name)}
	for _, o := range []wire.Object{
		// The peer's access is deleted first, because it must not outlive the gateway.
		&rbacv1.RoleBinding{ObjectMeta: delegate}, &rbacv1.Role{ObjectMeta: delegate},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: render.DelegateTokenName(key.Name)}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: render.DelegateAccessName(key.Name)}},
		&corev1.ServiceAccount{ObjectMeta: delegate},
		&appsv1.Deployment{ObjectMeta: g.Connection().ObjectMeta}, &corev1.Service{ObjectMeta: g.Connection().ObjectMeta},
		&corev1.Secret{ObjectMeta: g.Connection().ObjectMeta}, g.Connection(), g.InternalFabric(render.Fabric{}),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: wire.HostsConfigMapName(key.Name)}},
		g.HistoryConfigMap(),
		g.RoleBinding(), g.Role(), g.Lease(), g.ServiceAccount(),
	} {
		errs = append(errs, r.deleteOrphan(ctx, o, key.Name))
	}
	return errors.Join(append(errs, r.deleteKeysOfPeer(ctx, key))...)
}

// deleteKeysOfPeer deletes the PublicKeys that the gateway owned. It lists all PublicKeys, because another
// program may have chosen their names.
func (r *gateways) deleteKeysOfPeer(ctx context.Context, key client.ObjectKey) error {
	var keys networkingv1beta1.PublicKeyList
	if err := r.client.List(ctx, &keys, client.InNamespace(key.Namespace)); err != nil {
		return fmt.Errorf("list PublicKeys of %s: %w", key.Namespace, err)
	}
	var errs []error
	for i := range keys.Items {
		if o := &keys.Items[i]; r.owns(key.Name, o) {
			errs = append(errs, control.Delete(ctx, r.client, o))
		}
	}
	return errors.Join(errs...)
}

// owns reports whether the gateway of this kind and name is the only owner of o. A gateway of the other
// kind may have the same name.
func (r *gateways) owns(gateway string, o client.Object) bool {
	owners := o.GetOwnerReferences()
	return len(owners) == 1 && owners[0].Name == gateway && strings.EqualFold(owners[0].Kind, r.kind.name)
}

func (r *gateways) deleteOrphan(ctx context.Context, o wire.Object, gateway string) error {
	err := r.client.Get(ctx, client.ObjectKeyFromObject(o), o)
	if err != nil || !r.owns(gateway, o) {
		return client.IgnoreNotFound(err)
	}
	return control.Delete(ctx, r.client, o)
}
