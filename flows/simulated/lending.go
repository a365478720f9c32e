package simulated

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/lending"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// Lending describes deviations of Liqo in lending.
type Lending struct {
	// NoNonces, NoSignatures, NoTenants, NoReplicas, NoSlices and NoNodes each stop one
	// of Liqo's controllers.
	NoNonces, NoSignatures, NoTenants, NoReplicas, NoSlices, NoNodes bool
	// Denies is the type of the condition that the provider denies in ResourceSlices.
	Denies authv1beta1.ResourceSliceConditionType
	// Hides makes this cluster's API server unreachable for consumers without the tunnel.
	Hides bool
	// KubeletWaiting is the reason that pods of virtual kubelets don't run; "" if they
	// run.
	KubeletWaiting string
	// Taken has names of namespaces that this cluster already uses, so that consumers
	// can't have them.
	Taken []string
	// Proxy is the address in its external range at which peers reach this cluster's API
	// server.
	Proxy string
	// Reinstalled gives another key to the cluster.
	Reinstalled bool
	// Capacity has the resources of the cluster's nodes. Known has the users with rights
	// on the cluster.
	Capacity corev1.ResourceList
	Known    map[string]string
}

// LiqoPair returns two clusters with Liqo.
func LiqoPair() *Pair {
	p := NewPair()
	for _, c := range []*Cluster{p.A, p.B} {
		c.Be(func(f *flows.ClusterFacts) { f.Software = flows.Liqo })
	}
	return p
}

// key returns the cluster's own key. It is computed from the cluster's ID.
func (c *Cluster) key() ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(fmt.Sprint(c.identity.ID, c.behaviour.Lending.Reinstalled)))
	return ed25519.NewKeyFromSeed(seed[:])
}

func (c *Cluster) request() *peering.Request {
	again := c.behaviour.Lending.Reinstalled
	if made := c.requests[again]; made != nil {
		return made
	}
	der, err := x509.MarshalPKCS8PrivateKey(c.key())
	if err != nil {
		panic("simulated: " + err.Error())
	}
	r, err := peering.NewRequest(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), c.identity.ID, rand.Reader)
	if err != nil {
		panic("simulated: " + err.Error())
	}
	c.requests[again] = &r
	return &r
}

// lendingFacts returns the facts about lending of a cluster with Liqo.
func (c *Cluster) lendingFacts() *lending.Facts {
	l := &lending.Facts{Request: c.request(), Waiting: map[string]string{}, ControlPlane: []string{fmt.Sprintf("172.18.0.%d", c.host)}}
	l.Capacity, l.Known = c.behaviour.Lending.Capacity, c.behaviour.Lending.Known
	if ip := c.behaviour.Lending.Proxy; ip != "" {
		l.Proxies = []ipamv1alpha1.IP{{Status: ipamv1alpha1.IPStatus{IP: networkingv1beta1.IP(ip)}}}
	}
	for _, r := range c.store.sorted() {
		o := r.object.DeepCopyObject().(wire.Object)
		if _, node := o.(*offloadingv1beta1.VirtualNode); node && c.behaviour.Lending.KubeletWaiting != "" {
			l.Waiting[o.GetNamespace()+"/"+o.GetName()] = c.behaviour.Lending.KubeletWaiting
		}
		l.Add(o)
	}
	return l
}

// lend simulates one step of all of Liqo's controllers except those for the network.
func (c *Cluster) lend() bool {
	b := c.behaviour.Lending
	changed := false
	for _, r := range c.store.sorted() {
		did := false
		switch o := r.object.(type) {
		case *corev1.Secret:
			did = c.handshake(o, b)
		case *authv1beta1.Tenant:
			did = !b.NoTenants && c.acceptTenant(o)
		case *authv1beta1.Identity:
			did = c.useIdentity(o)
		case *authv1beta1.ResourceSlice:
			did = c.serveSlice(r, o, b)
		case *offloadingv1beta1.VirtualNode:
			did = !b.NoNodes && c.runNode(o)
		case *offloadingv1beta1.NamespaceMap:
			did = c.serveMap(r, o, b)
		case *offloadingv1beta1.NamespaceOffloading:
			did = c.offload(o)
		}
		changed = did || changed
	}
	return c.seeClusters() || changed
}

func (c *Cluster) handshake(s *corev1.Secret, b Lending) bool {
	switch {
	case s.DeletionTimestamp != nil && s.Labels[peering.LabelIdentityType] != "":
		return c.release(s, !c.hasReplicas(remoteOf(s)))
	case s.Labels[peering.LabelNonce] != "" && len(s.Data[peering.KeyNonce]) == 0 && !b.NoNonces:
		s.Data = map[string][]byte{peering.KeyNonce: []byte("nonce of " + s.UID)}
		return true
	case s.Labels[peering.LabelSignedNonce] != "" && !b.NoSignatures:
		signature := ed25519.Sign(c.key(), s.Data[peering.KeyNonce])
		if slices.Equal(s.Data[peering.KeySignedNonce], signature) {
			return false
		}
		s.Data[peering.KeySignedNonce] = signature
		return true
	}
	return false
}

// release removes an object whose deletion only waits for a finalizer.
func (c *Cluster) release(o wire.Object, ready bool) bool {
	if ready {
		delete(c.store.records, c.store.keyOf(o))
	}
	return ready
}

// hasReplicas reports whether the provider still has objects of this consumer.
func (c *Cluster) hasReplicas(provider wire.ClusterID) bool {
	return slices.ContainsFunc(c.store.sorted(), func(r *record) bool {
		labels := r.object.GetLabels()
		return labels[peering.LabelReplication] == "true" && labels[peering.LabelDestination] == string(provider)
	})
}

func (c *Cluster) make(o wire.Object) bool {
	k := c.store.keyOf(o)
	if c.store.records[k] != nil || c.store.admit(o) != nil {
		return false
	}
	c.store.create(k, o)
	return true
}

const tenantFinalizer = "tenant.liqo.io/finalizer"

func (c *Cluster) acceptTenant(t *authv1beta1.Tenant) bool {
	if t.DeletionTimestamp != nil {
		return c.release(t, true)
	}
	if len(t.Finalizers) == 0 {
		t.Finalizers = []string{tenantFinalizer}
		return true
	}
	request := peering.Request{PublicKey: t.Spec.PublicKey}
	if !slices.ContainsFunc(c.store.sorted(), func(r *record) bool {
		s, ok := r.object.(*corev1.Secret)
		return ok && s.Labels[peering.LabelNonce] != "" && remoteOf(s) == wire.ClusterID(t.Spec.ClusterID) && request.Signed(s.Data[peering.KeyNonce], t.Spec.Signature)
	}) {
		return false
	}
	kept := c.sign(t.Namespace, peering.CertificateName, remoteOf(t), t.Spec.CSR)
	if kept == nil {
		return false
	}
	params := c.authParams(kept, t.Spec.ProxyURL)
	if reflect.DeepEqual(t.Status.AuthParams, &params) {
		return false
	}
	t.Status = authv1beta1.TenantStatus{TenantNamespace: t.Namespace, AuthParams: &params}
	return true
}

func (c *Cluster) authParams(certificate []byte, proxy *string) authv1beta1.AuthParams {
	return authv1beta1.AuthParams{CA: []byte("CA of " + c.identity.ID), SignedCRT: certificate, APIServer: c.identity.Server, ProxyURL: proxy}
}

// sign returns the certificate for a request, which it keeps in a Secret; nil if an
// earlier request with the same name was different.
func (c *Cluster) sign(namespace, name string, remote wire.ClusterID, csr []byte) []byte {
	s := &corev1.Secret{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, ObjectMeta: metav1.ObjectMeta{
		Namespace: namespace, Name: name, Labels: map[string]string{wire.LabelRemoteCluster: string(remote)},
	}}
	if r := c.store.records[c.store.keyOf(s)]; r != nil {
		kept := r.object.(*corev1.Secret)
		if !slices.Equal(kept.Data[peering.KeyCSR], csr) {
			return nil
		}
		return kept.Data[peering.KeyCertificate]
	}
	block, _ := pem.Decode(csr)
	request, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: request.Subject.CommonName}, NotBefore: c.clock(), NotAfter: c.clock().Add(365 * 24 * time.Hour)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, request.PublicKey, c.key())
	if err != nil {
		panic("simulated: " + err.Error())
	}
	s.Data = map[string][]byte{peering.KeyCSR: csr, peering.KeyCertificate: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
	c.make(s)
	return s.Data[peering.KeyCertificate]
}

func ownedBy(o wire.Object) []metav1.OwnerReference {
	return []metav1.OwnerReference{render.OwnerReference(o)}
}

func (c *Cluster) useIdentity(i *authv1beta1.Identity) bool {
	name := "kubeconfig-" + i.Name
	labels := map[string]string{wire.LabelRemoteCluster: string(i.Spec.ClusterID), peering.LabelIdentityType: string(i.Spec.Type)}
	s := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: i.Namespace, Name: name, Labels: labels, OwnerReferences: ownedBy(i)},
		Data:       map[string][]byte{peering.KeyKubeconfig: nil},
	}
	if i.Spec.Type == authv1beta1.ControlPlaneIdentityType {
		s.Finalizers = []string{"crdreplicator.liqo.io/operator"}
	}
	switch {
	case c.make(s):
		return true
	case i.Status.KubeconfigSecretRef == nil:
		i.Status.KubeconfigSecretRef = &corev1.LocalObjectReference{Name: name}
		return true
	}
	return false
}

// seeClusters creates and updates the ForeignCluster of the peer, as Liqo does.
func (c *Cluster) seeClusters() bool {
	other := c.world.other(c)
	fc := &corev1beta1.ForeignCluster{
		TypeMeta:   metav1.TypeMeta{APIVersion: corev1beta1.GroupVersion.String(), Kind: corev1beta1.ForeignClusterKind},
		ObjectMeta: metav1.ObjectMeta{Name: string(other.identity.ID)}, Spec: corev1beta1.ForeignClusterSpec{ClusterID: corev1beta1.ClusterID(other.identity.ID)},
	}
	wants, access, proxied := false, false, false
	for _, r := range c.store.sorted() {
		switch o := r.object.(type) {
		case *authv1beta1.Tenant:
			wants = true
		case *authv1beta1.Identity:
			wants, access = true, access || o.Status.KubeconfigSecretRef != nil
			proxied = proxied || o.Spec.AuthParams.ProxyURL != nil
		}
	}
	r := c.store.records[c.store.keyOf(fc)]
	if r == nil {
		return wants && c.make(fc)
	}
	live := r.object.(*corev1beta1.ForeignCluster)
	var conditions []corev1beta1.Condition
	if access {
		state := corev1beta1.ConditionStatusEstablished
		if other.behaviour.Lending.Hides && !proxied || other.behaviour.unreachable(other.observed) {
			state = corev1beta1.ConditionStatusError
		}
		conditions = []corev1beta1.Condition{{Type: corev1beta1.APIServerStatusCondition, Status: state}}
	}
	if reflect.DeepEqual(conditions, live.Status.Conditions) {
		return false
	}
	live.Status.Conditions = conditions
	return true
}

// replicate keeps a copy of a consumer's object on the provider. It returns true if it
// has changed something. status gets the copy, and also returns true after a change. A
// deletion of the object waits until the copy is gone.
func (c *Cluster) replicate(local *record, status func(remote wire.Object) bool) bool {
	other, o := c.world.other(c), local.object
	if c.behaviour.Lending.NoReplicas || o.GetLabels()[peering.LabelDestination] != string(other.identity.ID) {
		return false
	}
	remote := o.DeepCopyObject().(wire.Object)
	labels := maps.Clone(o.GetLabels())
	labels[peering.LabelReplication], labels[peering.LabelReplicated] = "false", "true"
	labels[peering.LabelOrigin], labels[wire.LabelRemoteCluster] = string(c.identity.ID), string(c.identity.ID)
	remote.SetLabels(labels)
	remote.SetOwnerReferences(nil)
	remote.SetFinalizers(nil)
	remote.SetManagedFields(nil)
	remote.SetDeletionTimestamp(nil)
	remote.SetNamespace(wire.TenantNamespaceName(c.identity.ID))
	there := other.store.records[other.store.keyOf(remote)]
	dead := slices.ContainsFunc(c.store.sorted(), func(r *record) bool { return r.object.GetAnnotations()[peering.AnnotationUnreachable] != "" })
	switch {
	case o.GetDeletionTimestamp() != nil && (there == nil || dead):
		return c.release(o, true)
	case o.GetDeletionTimestamp() != nil:
		if there.object.GetDeletionTimestamp() == nil {
			_, _ = other.store.remove(there.object)
			return true
		}
		return false
	case dead:
		return false
	case len(o.GetFinalizers()) == 0:
		o.SetFinalizers([]string{peering.FinalizerReplicas})
		return true
	case there == nil:
		return other.make(remote)
	}
	return status(there.object)
}

func (c *Cluster) serveSlice(r *record, s *authv1beta1.ResourceSlice, b Lending) bool {
	if s.Labels[peering.LabelReplicated] == "true" {
		return s.DeletionTimestamp == nil && !b.NoSlices && c.grant(s, b)
	}
	if s.DeletionTimestamp == nil && len(s.Spec.CSR) == 0 {
		s.Spec.CSR = c.request().CSR
		return true
	}
	if c.replicate(r, func(remote wire.Object) bool {
		theirs := remote.(*authv1beta1.ResourceSlice)
		switch {
		case !reflect.DeepEqual(theirs.Spec, s.Spec):
			theirs.Spec = *s.Spec.DeepCopy()
		case !reflect.DeepEqual(theirs.Status, s.Status):
			s.Status = *theirs.Status.DeepCopy()
		default:
			return false
		}
		return true
	}) {
		return true
	}
	return s.DeletionTimestamp == nil && c.makeNode(s)
}

// grant answers a ResourceSlice as a provider's Liqo does.
func (c *Cluster) grant(s *authv1beta1.ResourceSlice, b Lending) bool {
	say := func(what authv1beta1.ResourceSliceConditionType) authv1beta1.ResourceSliceCondition {
		cond := authv1beta1.ResourceSliceCondition{Type: what, Status: authv1beta1.ResourceSliceConditionAccepted, LastTransitionTime: metav1.NewTime(c.clock())}
		if b.Denies == what {
			cond.Status = authv1beta1.ResourceSliceConditionDenied
		}
		return cond
	}
	granted := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("4"), corev1.ResourceMemory: resource.MustParse("8Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	maps.Copy(granted, s.Spec.Resources)
	switch {
	case len(s.Status.Conditions) == 0:
		certificate := c.sign(s.Namespace, peering.CertificateName+"-"+s.Name, remoteOf(s), s.Spec.CSR)
		s.Status.Conditions = []authv1beta1.ResourceSliceCondition{say(authv1beta1.ResourceSliceConditionTypeAuthentication)}
		params := c.authParams(certificate, nil)
		s.Status.AuthParams = &params
	case len(s.Status.Conditions) == 1:
		s.Status.Conditions = append(s.Status.Conditions, say(authv1beta1.ResourceSliceConditionTypeResources))
		s.Status.Resources = granted
	case !reflect.DeepEqual(s.Status.Resources, granted):
		s.Status.Resources = granted
	default:
		return false
	}
	return true
}

// makeNode creates the Identity for a ResourceSlice, and the VirtualNode.
func (c *Cluster) makeNode(s *authv1beta1.ResourceSlice) bool {
	if !lending.Accepted(s, authv1beta1.ResourceSliceConditionTypeAuthentication) {
		return false
	}
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: s.Namespace, Name: name, OwnerReferences: ownedBy(s),
			Labels: map[string]string{wire.LabelRemoteCluster: s.Labels[peering.LabelDestination], peering.LabelSliceName: s.Name},
		}
	}
	if c.make(&authv1beta1.Identity{
		TypeMeta:   metav1.TypeMeta{APIVersion: authv1beta1.GroupVersion.String(), Kind: authv1beta1.IdentityKind},
		ObjectMeta: meta("resourceslice-" + s.Name),
		Spec:       authv1beta1.IdentitySpec{ClusterID: *s.Spec.ProviderClusterID, Type: authv1beta1.ResourceSliceIdentityType, AuthParams: *s.Status.AuthParams},
	}) {
		return true
	}
	if !lending.Accepted(s, authv1beta1.ResourceSliceConditionTypeResources) || s.Annotations[peering.AnnotationVirtualNode] != "true" || c.behaviour.Lending.NoNodes {
		return false
	}
	o := meta(s.Name)
	o.Finalizers = []string{"virtualnode-controller.liqo.io/finalizer"}
	vn := &offloadingv1beta1.VirtualNode{
		TypeMeta:   metav1.TypeMeta{APIVersion: offloadingv1beta1.SchemeGroupVersion.String(), Kind: offloadingv1beta1.VirtualNodeKind},
		ObjectMeta: o, Spec: offloadingv1beta1.VirtualNodeSpec{ClusterID: *s.Spec.ProviderClusterID, ResourceQuota: corev1.ResourceQuotaSpec{Hard: s.Status.Resources}},
	}
	if r := c.store.records[c.store.keyOf(vn)]; r != nil {
		live := r.object.(*offloadingv1beta1.VirtualNode)
		if live.DeletionTimestamp == nil && !reflect.DeepEqual(live.Spec.ResourceQuota.Hard, s.Status.Resources) {
			live.Spec.ResourceQuota.Hard = s.Status.Resources
			return true
		}
		return false
	}
	return c.make(vn)
}
