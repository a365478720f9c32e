package peering

import (
	"fmt"
	"strconv"
	"strings"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

const (
	// AnnotationJudged on a provider's copy of a slice is the generation to which its status belongs.
	AnnotationJudged = "liqo-tui.dev/judged"
	// AnnotationLend on a Tenant is the limit for each resource that the provider's admin lends to the
	// consumer, such as cpu=4,memory=8Gi.
	AnnotationLend = "liqo-tui.dev/lend"
)

// MostSlices is the largest number of slices of a consumer on a provider. Without a limit, a consumer could
// fill the provider's etcd.
const MostSlices = 16

// SlicesCounted is the resource name of this limit in a ResourceQuota.
const SlicesCounted corev1.ResourceName = "count/resourceslices.authentication.liqo.io"

// SliceCertificateName returns the name of the Secret with a slice's certificate.
func SliceCertificateName(slice string) string { return CertificateName + "-" + slice }

// FromConsumer reports whether a ResourceSlice belongs to a consumer, and not to this cluster itself.
func FromConsumer(s *authv1beta1.ResourceSlice) bool {
	return s.Labels[LabelReplication] != "true"
}

// ConsumerQuota limits the number of objects that a consumer may create in its tenant namespace.
func ConsumerQuota(t *authv1beta1.Tenant) *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuota"},
		ObjectMeta: operatorMeta(t.Namespace, wire.ConsumerAccessName, string(t.Spec.ClusterID)),
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{SlicesCounted: resource.MustParse(fmt.Sprint(MostSlices))}},
	}
	q.OwnerReferences = ownedBy(authv1beta1.TenantKind, t)
	return q
}

// SliceCopy returns the copy of a consumer's slice in a namespace of the provider.
func SliceCopy(s *authv1beta1.ResourceSlice, consumer wire.ClusterID, namespace string) *authv1beta1.ResourceSlice {
	return &authv1beta1.ResourceSlice{
		TypeMeta: authentication(authv1beta1.ResourceSliceKind),
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.Name, Labels: map[string]string{
			wire.LabelRemoteCluster: string(consumer), LabelOrigin: string(consumer), LabelDestination: s.Labels[LabelDestination],
			LabelReplicated: "true", LabelReplication: "false",
		}},
		Spec: *s.Spec.DeepCopy(),
	}
}

// SliceIdentityName returns the name of the Identity of a slice.
func SliceIdentityName(slice string) string { return "resourceslice-" + slice }

// SliceIdentity returns the access that a provider gave to a slice. It takes only the certificate from the
// provider's answer. The address and the certificate authority of the provider come from the control plane's
// Identity, which an admin has written.
func SliceIdentity(s *authv1beta1.ResourceSlice, plane *authv1beta1.Identity) *authv1beta1.Identity {
	i := &authv1beta1.Identity{
		TypeMeta: authentication(authv1beta1.IdentityKind), ObjectMeta: operatorMeta(s.Namespace, SliceIdentityName(s.Name), string(plane.Spec.ClusterID)),
		Spec: authv1beta1.IdentitySpec{ClusterID: plane.Spec.ClusterID, Type: authv1beta1.ResourceSliceIdentityType, AuthParams: *plane.Spec.AuthParams.DeepCopy()},
	}
	i.Spec.AuthParams.SignedCRT = s.Status.AuthParams.SignedCRT
	i.Labels[LabelSliceName] = s.Name
	i.OwnerReferences = ownedBy(authv1beta1.ResourceSliceKind, s)
	return i
}

// Asks completes the spec of a slice: the consumer, the provider, and the CSR, unless the slice already has
// an acceptable CSR with this key.
func Asks(spec authv1beta1.ResourceSliceSpec, request Request, subject Subject, consumer, provider wire.ClusterID) authv1beta1.ResourceSliceSpec {
	from, to := corev1beta1.ClusterID(consumer), corev1beta1.ClusterID(provider)
	spec.ConsumerClusterID, spec.ProviderClusterID = &from, &to
	if (Request{PublicKey: request.PublicKey, CSR: spec.CSR}).Acceptable(subject) != nil {
		spec.CSR = request.CSR
	}
	return spec
}

// Amounts parses amounts of resources, such as cpu=4 and memory=8Gi.
func Amounts(texts []string) (corev1.ResourceList, error) {
	all := corev1.ResourceList{}
	for _, text := range texts {
		name, amount, ok := strings.Cut(text, "=")
		q, err := resource.ParseQuantity(amount)
		if !ok || name == "" || err != nil || q.Sign() < 0 {
			return nil, fmt.Errorf("%q is not like cpu=4 or memory=8Gi", text)
		}
		all[corev1.ResourceName(name)] = q
	}
	return all, nil
}

// Condition returns the provider's condition of this type; nil if there is none.
func Condition(s *authv1beta1.ResourceSlice, what authv1beta1.ResourceSliceConditionType) *authv1beta1.ResourceSliceCondition {
	for i := range s.Status.Conditions {
		if c := &s.Status.Conditions[i]; c.Type == what {
			return c
		}
	}
	return nil
}

// Answered reports whether the status of a copy belongs to its present spec. Liqo's providers don't record
// the generation, so every status of theirs with conditions counts.
func Answered(s *authv1beta1.ResourceSlice) bool {
	of := s.Annotations[AnnotationJudged]
	return of == strconv.FormatInt(s.Generation, 10) || of == "" && len(s.Status.Conditions) > 0
}
