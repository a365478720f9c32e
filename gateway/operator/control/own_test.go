package control

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// The version of a child may have changed between the read and the apply.
func TestApplyToAVersion(t *testing.T) {
	said := func(text, version string) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: "c", ResourceVersion: version}, Data: map[string]string{"text": text},
		}
	}
	c := fake.NewClientBuilder().Build()
	first, err := Apply(t.Context(), c, said("first", ""))
	if err != nil {
		t.Fatal(err)
	}
	other := first.DeepCopy()
	other.Data["text"] = "of another"
	if err := c.Update(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if _, err := Apply(t.Context(), c, said("second", first.ResourceVersion)); !apierrors.IsConflict(err) {
		t.Errorf("got %v, want a conflict", err)
	}
	now := &corev1.ConfigMap{}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(first), now); err != nil || now.Data["text"] != "of another" {
		t.Errorf("it says %q (%v)", now.Data["text"], err)
	}
	if got, err := Apply(t.Context(), c, said("second", now.ResourceVersion)); err != nil || got.Data["text"] != "second" {
		t.Errorf("got %v (%v)", got, err)
	}
}
