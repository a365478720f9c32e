package operator

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/liqo-tui/liqo-tui/gateway/remote"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// delegates write changes of this cluster into the clusters of peers whose admins have given this operator
// access: the public key of the gateway, this cluster's ranges, and the endpoint of a server. A reconcile
// request is for a Secret with such access.
type delegates struct {
	client client.Client

	peers   *remote.Clients // by the Secret with the access
	retries workqueue.TypedRateLimiter[reconcile.Request]
}

// peerCluster has a client of a peer's API server, from its Secret.
type peerCluster struct {
	access render.PeerAccess
	client client.Client
}

const (
	peerTimeout = 5 * time.Second  // the time limit of a request to another cluster
	peerRetry   = 10 * time.Second // the pause after a failed request; it grows up to peerLast
	peerLast    = time.Minute
	peerAgain   = time.Second      // the pause after a write that conflicted with another write
	peerResync  = 10 * time.Minute // the interval after a success, because somebody may have changed the objects there
	peerLook    = time.Minute      // an admin has set another endpoint in the client there: the interval of checks whether the client follows us again
)

// delegating is the number of workers. A peer that does not answer holds its worker for 5 s of every 65 s, so
// 400 such peers don't delay the others.
const delegating = 32

// maxErrorText is the longest part of another cluster's answer, in bytes, that is written into an annotation.
const maxErrorText = 300

func (r *delegates) setup(mgr ctrl.Manager, secrets <-chan event.GenericEvent) error {
	r.begin()
	access := predicate.NewPredicateFuncs(func(o client.Object) bool { return o.GetLabels()[render.LabelDelegate] == render.DelegateAccess })
	ofGateway := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: render.DelegateAccessName(o.GetName())}}}
	})
	news := builder.WithPredicates(predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, after := said(e.ObjectOld), said(e.ObjectNew)
		return before.key != after.key || !sameEndpoint(before.endpoint, after.endpoint)
	}})
	return ctrl.NewControllerManagedBy(mgr).Named("delegate").
		WithOptions(workers(delegating)).
		WatchesRawSource(source.Channel(secrets, &handler.EnqueueRequestForObject{}, source.WithPredicates[client.Object, reconcile.Request](access))).
		Watches(&networkingv1beta1.GatewayServer{}, ofGateway, news).
		Watches(&networkingv1beta1.GatewayClient{}, ofGateway, news).
		Watches(&networkingv1beta1.Configuration{}, handler.EnqueueRequestsFromMapFunc(r.ofConfiguration), builder.WithPredicates(localRangesNews())).
		Complete(r)
}

// begin prepares clients and retries. It is called before the first reconciliation.
func (r *delegates) begin() {
	r.peers = newPeers(r.client.Scheme())
	r.retries = workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](peerRetry, peerLast)
}

// localRangesNews selects Configurations in which the operator has changed this cluster's ranges.
func localRangesNews() predicate.Predicate {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetAnnotations()[render.AnnotationLocalRanges] != e.ObjectNew.GetAnnotations()[render.AnnotationLocalRanges]
	}}
}

// ofConfiguration returns the access Secrets of the gateways for a Configuration's peer.
func (r *delegates) ofConfiguration(ctx context.Context, o client.Object) (out []reconcile.Request) {
	of := []client.ListOption{client.InNamespace(o.GetNamespace()), client.MatchingLabels{wire.LabelRemoteCluster: o.GetLabels()[wire.LabelRemoteCluster]}}
	var servers networkingv1beta1.GatewayServerList
	var clients networkingv1beta1.GatewayClientList
	if r.client.List(ctx, &servers, of...) != nil || r.client.List(ctx, &clients, of...) != nil {
		return nil // the next resync sends them
	}
	add := func(gateway string) {
		out = append(out, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: o.GetNamespace(), Name: render.DelegateAccessName(gateway)}})
	}
	for i := range servers.Items {
		add(servers.Items[i].Name)
	}
	for i := range clients.Items {
		add(clients.Items[i].Name)
	}
	return out
}

// ranges returns this cluster's ranges as the operator has written them into the gateway's Configuration.
func (r *delegates) ranges(ctx context.Context, gateway client.Object) (string, error) {
	var list networkingv1beta1.ConfigurationList
	if err := r.client.List(ctx, &list, client.InNamespace(gateway.GetNamespace()),
		client.MatchingLabels{wire.LabelRemoteCluster: gateway.GetLabels()[wire.LabelRemoteCluster]}); err != nil {
		return "", fmt.Errorf("list Configurations: %w", err)
	}
	for i := range list.Items {
		conf := &list.Items[i]
		if written := conf.Annotations[render.AnnotationLocalRanges]; conf.Spec.Local != nil && written == wire.RangesText(conf.Spec.Local.CIDR) {
			return written, nil
		}
	}
	return "", nil
}

// words are the values that a gateway sends to its peer's cluster.
type words struct {
	key      string // base64
	endpoint *networkingv1beta1.EndpointStatus
	ranges   string // this cluster's ranges, as [wire.RangesText]; "" if an admin has chosen the ranges that the peer reaches
}

func said(o client.Object) words {
	s := words{key: o.GetAnnotations()[wire.AnnotationPublicKey]}
	if server, ok := o.(*networkingv1beta1.GatewayServer); ok {
		s.endpoint = server.Status.Endpoint
	}
	return s
}

func sameEndpoint(a, b *networkingv1beta1.EndpointStatus) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Port == b.Port && slices.Equal(a.Addresses, b.Addresses)
}

func (r *delegates) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	rights, err := rightsIn(ctx, r.client, req.Namespace)
	if rights == nil || err != nil { // when there are rights, events of the Secrets arrive
		return ctrl.Result{}, err
	}
	var secret corev1.Secret
	if err := r.client.Get(ctx, req.NamespacedName, &secret); err != nil {
		if notYet(err, rights) {
			return ctrl.Result{RequeueAfter: rightsAgain}, nil
		}
		r.peers.Forget(req.NamespacedName)
		r.retries.Forget(req)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	gateway, err := r.gateway(ctx, &secret)
	if gateway == nil || err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err) // the Secret will be deleted, too
	}
	peer, err := r.peer(&secret)
	if err != nil {
		return ctrl.Result{}, r.tell(ctx, gateway, "nothing is carried: "+err.Error())
	}
	unsafe := ""
	if time.Until(peer.access.Expires) < render.DelegateTokenLife/2 {
		err := r.renew(ctx, &secret, gateway, peer)
		switch {
		case err == nil:
			return ctrl.Result{RequeueAfter: peerAgain}, nil
		case !peer.access.Expires.IsZero():
			return ctrl.Result{RequeueAfter: r.retries.When(req)}, r.tell(ctx, gateway, peer.cannot("renew its token at", err))
		case apierrors.IsForbidden(err): // an earlier release has made the account
			unsafe = "; its token does not expire, as an earlier release has made the account"
		}
	}
	says := said(gateway)
	if says.ranges, err = r.ranges(ctx, gateway); err != nil {
		return ctrl.Result{}, err
	}
	chosen, err := peer.carry(ctx, says)
	if apierrors.IsConflict(err) {
		return ctrl.Result{RequeueAfter: peerAgain}, nil
	}
	if err != nil {
		return ctrl.Result{RequeueAfter: r.retries.When(req)}, r.tell(ctx, gateway, peer.cannot("pass changes to", err))
	}
	r.retries.Forget(req)
	what := "its key is"
	switch {
	case chosen != "":
		return ctrl.Result{RequeueAfter: peerLook}, r.tell(ctx, gateway,
			fmt.Sprintf("its key is"+render.DelegationPassed+"%s; its endpoint is not, because the client there was told to dial UDP %s", peer.access.Server, chosen))
	case peer.access.Endpoint:
		what = "its endpoint and key are"
	}
	return ctrl.Result{RequeueAfter: peerResync}, r.tell(ctx, gateway, what+render.DelegationCarried+peer.access.Server+unsafe)
}

// renew requests another token from the peer's API server. The first token, which an admin's run has made
// there, is deleted later, see [peerCluster.carry].
func (r *delegates) renew(ctx context.Context, secret *corev1.Secret, gateway client.Object, p peerCluster) error {
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: new(int64(render.DelegateTokenLife.Seconds()))}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: p.access.Namespace, Name: render.DelegateName(p.access.Gateway)}}
	if err := p.client.SubResource("token").Create(ctx, account, request); err != nil {
		return err
	}
	next := p.access
	next.Token, next.Expires = []byte(request.Status.Token), request.Status.ExpirationTimestamp.Time
	want, err := render.Delegate{Tenant: render.Tenant{Namespace: secret.Namespace}, Gateway: gateway}.Access(next)
	if err != nil {
		return err
	}
	before := secret.DeepCopy()
	secret.Data = want.Data
	maps.Copy(secret.Annotations, want.Annotations)
	// This fails if an admin has replaced the access meanwhile.
	return r.client.Patch(ctx, secret, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(FieldManager))
}

func (p peerCluster) cannot(do string, err error) string {
	text := err.Error()
	return "can't " + do + " " + p.access.Server + ": " + text[:min(len(text), maxErrorText)]
}

// gateway returns the owner of the Secret; nil if no gateway of ours owns it.
func (r *delegates) gateway(ctx context.Context, secret *corev1.Secret) (client.Object, error) {
	owner := metav1.GetControllerOf(secret)
	if owner == nil || secret.Name != render.DelegateAccessName(owner.Name) {
		return nil, nil
	}
	for _, k := range []kind{serverKind, clientKind} {
		if !strings.EqualFold(owner.Kind, k.name) {
			continue
		}
		o := k.object()
		if err := r.client.Get(ctx, client.ObjectKey{Namespace: secret.Namespace, Name: owner.Name}, o); err != nil {
			return nil, err
		}
		if o.GetUID() == owner.UID {
			return o, nil
		}
	}
	return nil, nil
}

func (r *delegates) peer(secret *corev1.Secret) (peerCluster, error) {
	access, err := render.ParsePeerAccess(secret)
	if err != nil {
		return peerCluster{}, err
	}
	key := client.ObjectKeyFromObject(secret)
	c, err := r.peers.Get(key, remote.Access{Server: access.Server, CA: access.CA, Token: access.Token})
	if err != nil {
		return peerCluster{}, fmt.Errorf("access in Secret %s: %w", key, err)
	}
	return peerCluster{access: access, client: c.API}, nil
}

// newPeers returns the clients of peers' clusters. The mapper is fixed, because the account may not use
// discovery there.
func newPeers(scheme *runtime.Scheme) *remote.Clients {
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range []string{networkingv1beta1.GatewayServerKind, networkingv1beta1.GatewayClientKind} {
		mapper.Add(networkingv1beta1.GroupVersion.WithKind(kind), meta.RESTScopeNamespace)
	}
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ServiceAccount"), meta.RESTScopeNamespace)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Secret"), meta.RESTScopeNamespace)
	mapper.AddSpecific(networkingv1beta1.GroupVersion.WithKind(networkingv1beta1.PublicKeyKind),
		networkingv1beta1.PublicKeyGroupVersionResource, networkingv1beta1.GroupVersion.WithResource("publickey"), meta.RESTScopeNamespace)
	return &remote.Clients{Scheme: scheme, Mapper: mapper, Within: peerTimeout}
}

// carry writes our gateway's key, ranges and endpoint into the peer's objects. If another person or program
// has chosen the client's endpoint there, carry keeps it and returns it as chosen; otherwise chosen is "".
func (p peerCluster) carry(ctx context.Context, s words) (chosen string, err error) {
	if !p.access.Expires.IsZero() {
		first := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: p.access.Namespace, Name: render.DelegateTokenName(p.access.Gateway)}}
		if err := p.client.Delete(ctx, first); client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("delete the token that does not expire: %w", err)
		}
	}
	if err := p.carryKey(ctx, s); err != nil {
		return "", err
	}
	// The peer's operator, or its policy, may be of an earlier release, and refuse ranges.
	if err := p.carryRanges(ctx, s); err != nil && !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) {
		return "", err
	}
	if s.endpoint == nil || !p.access.Endpoint {
		return "", nil
	}
	gateway := &networkingv1beta1.GatewayClient{}
	if err := p.get(ctx, p.access.Gateway, gateway); err != nil {
		return "", err
	}
	if !p.follows(gateway, *s.endpoint) {
		return render.EndpointText(gateway.Spec.Endpoint), nil
	}
	before := gateway.DeepCopy()
	gateway.Spec.Endpoint = *s.endpoint
	// The annotation is in the same write as the endpoint, so that a crash can't separate them.
	annotate(gateway, render.AnnotationCarried, render.EndpointText(*s.endpoint))
	if reflect.DeepEqual(before, gateway) {
		return "", nil
	}
	// This fails if the client has changed since it was read.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	return "", p.patch(ctx, gateway, patch)
}

// follows reports whether the client there dials an endpoint of our server: the present one, the last one
// from carry, or the endpoint at the time when an admin made the client follow.
func (p peerCluster) follows(c *networkingv1beta1.GatewayClient, server networkingv1beta1.EndpointStatus) bool {
	dials, carried := render.EndpointText(c.Spec.Endpoint), c.Annotations[render.AnnotationCarried]
	if carried == "" && p.access.Dials == "" {
		return true // an earlier release gave this access, and did so only if the client followed
	}
	return slices.Contains([]string{render.EndpointText(server), carried, p.access.Dials}, dials)
}

func (p peerCluster) carryKey(ctx context.Context, s words) error {
	if raw, err := base64.StdEncoding.DecodeString(s.key); err == nil && len(raw) == keyLen {
		key := &networkingv1beta1.PublicKey{}
		if err := p.get(ctx, p.access.PublicKey, key); err != nil {
			return err
		}
		before := key.DeepCopy()
		if key.Spec.PublicKey = raw; !slices.Equal(before.Spec.PublicKey, raw) {
			return p.patch(ctx, key, client.MergeFrom(before))
		}
	}
	return nil
}

// carryRanges writes our cluster's ranges beside the key. The peer's operator decides whether to use them.
func (p peerCluster) carryRanges(ctx context.Context, s words) error {
	if s.ranges == "" {
		return nil
	}
	key := &networkingv1beta1.PublicKey{}
	if err := p.get(ctx, p.access.PublicKey, key); err != nil {
		return err
	}
	before := key.DeepCopy()
	if annotate(key, render.AnnotationPeerRanges, s.ranges); before.Annotations[render.AnnotationPeerRanges] == s.ranges {
		return nil
	}
	return p.patch(ctx, key, client.MergeFrom(before))
}

func (p peerCluster) get(ctx context.Context, name string, o client.Object) error {
	if err := p.client.Get(ctx, client.ObjectKey{Namespace: p.access.Namespace, Name: name}, o); err != nil {
		return fmt.Errorf("read %s %s/%s: %w", reflect.TypeOf(o).Elem().Name(), p.access.Namespace, name, err)
	}
	return nil
}

func (p peerCluster) patch(ctx context.Context, o client.Object, patch client.Patch) error {
	if err := p.client.Patch(ctx, o, patch, client.FieldOwner(FieldManager)); err != nil {
		return fmt.Errorf("change %s: %w", apply.Name(o), err)
	}
	return nil
}

// tell writes the result onto our gateway, for admins who may not read Secrets.
func (r *delegates) tell(ctx context.Context, gateway client.Object, text string) error {
	_, err := note(ctx, r.client, gateway, render.AnnotationDelegation, text)
	return err
}
