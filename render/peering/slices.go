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

	"github.com/liqo-tui/liqo-tui/render"
)

const (
	// AnnotationJudged on a provider's copy of a slice is the generation that its status
	// is about.
	AnnotationJudged = "liqo-tui.dev/judged"
	// AnnotationLend on a Tenant is the most that the provider's admin lends it, such as
	// cpu=4,memory=8Gi.
	AnnotationLend = "liqo-tui.dev/lend"
)

// MostSlices is how many slices a consumer may have on a provider: whoever may make
// objects without end fills the provider's etcd.
const MostSlices = 16

// SlicesCounted is the name of that limit in a ResourceQuota.
const SlicesCounted corev1.ResourceName = "count/resourceslices.authentication.liqo.io"

// SliceCertificateName is the name of the Secret that keeps a slice's certificate.
func SliceCertificateName(slice string) string { return CertificateName + "-" + slice }

// ConsumerQuota bounds how many objects a consumer may make in its namespace.
func ConsumerQuota(t *authv1beta1.Tenant) *corev1.ResourceQuota {
	q := &corev1.ResourceQuota{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ResourceQuota"},
		ObjectMeta: operatorMeta(t.Namespace, render.ConsumerAccessName, string(t.Spec.ClusterID)),
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{SlicesCounted: resource.MustParse(fmt.Sprint(MostSlices))}},
	}
	q.OwnerReferences = ownedBy(authv1beta1.TenantKind, t)
	return q
}

// SliceCopy is what a consumer shows of its slice in a namespace of the provider.
func SliceCopy(s *authv1beta1.ResourceSlice, consumer render.ClusterID, namespace string) *authv1beta1.ResourceSlice {
	return &authv1beta1.ResourceSlice{
		TypeMeta: authentication(authv1beta1.ResourceSliceKind),
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: s.Name, Labels: map[string]string{
			render.LabelRemoteCluster: string(consumer), LabelOrigin: string(consumer), LabelDestination: s.Labels[LabelDestination],
			LabelReplicated: "true", LabelReplication: "false",
		}},
		Spec: *s.Spec.DeepCopy(),
	}
}

// SliceIdentityName is the name of the Identity with which a slice is used.
func SliceIdentityName(slice string) string { return "resourceslice-" + slice }

// SliceIdentity has the consumer use what a slice was given. Of what the provider says of
// it, only the certificate counts: where the provider is, and by which authority it is
// known, the control plane's Identity says, which an admin has passed on.
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

// Asks completes what a slice asks for: who asks, whom, and with which request for a
// certificate, unless that is one of this key already.
func Asks(spec authv1beta1.ResourceSliceSpec, request Request, subject Subject, consumer, provider render.ClusterID) authv1beta1.ResourceSliceSpec {
	from, to := corev1beta1.ClusterID(consumer), corev1beta1.ClusterID(provider)
	spec.ConsumerClusterID, spec.ProviderClusterID = &from, &to
	if (Request{PublicKey: request.PublicKey, CSR: spec.CSR}).Acceptable(subject) != nil {
		spec.CSR = request.CSR
	}
	return spec
}

// Amounts reads amounts of resources, such as cpu=4 and memory=8Gi.
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

// Condition is what the provider has said of one side of a slice, nil if nothing.
func Condition(s *authv1beta1.ResourceSlice, what authv1beta1.ResourceSliceConditionType) *authv1beta1.ResourceSliceCondition {
	for i := range s.Status.Conditions {
		if c := &s.Status.Conditions[i]; c.Type == what {
			return c
		}
	}
	return nil
}

// Judged reports whether a copy's status is about what it asks for now. A provider that
// does not say so, such as Liqo's, is believed.
func Judged(s *authv1beta1.ResourceSlice) bool {
	of := s.Annotations[AnnotationJudged]
	return of == strconv.FormatInt(s.Generation, 10) || of == "" && len(s.Status.Conditions) > 0
}
