package kube

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// A kubeconfig contains a key, so facts contain only that a kubeconfig exists.
func TestFactsHoldNoKubeconfigs(t *testing.T) {
	s := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "s", OwnerReferences: []metav1.OwnerReference{{Name: "controlplane-milan"}}}, Data: map[string][]byte{
		peering.KeyKubeconfig: []byte("secret"), "awsSecretAccessKey": []byte("secret"), peering.KeyNonce: []byte("text"),
	}}
	c, err := ForConfig(&rest.Config{Host: "https://127.0.0.1:1"}, Options{Lending: LendingPlanned})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got := c.stores(s.Namespace)[0].kept(s).(*corev1.Secret)
	for key, value := range got.Data {
		if string(value) == "secret" {
			t.Errorf("the value of %s is kept", key)
		}
	}
	if _, known := got.Data[peering.KeyKubeconfig]; !known || string(got.Data[peering.KeyNonce]) != "text" || len(got.OwnerReferences) != 1 {
		t.Errorf("got %+v, want its keys, the nonce and the owner", got)
	}
}

// Pods are evicted, never deleted. A pod that a budget protects does not delay the others.
func TestPodsAreEvicted(t *testing.T) {
	scheme, err := wire.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	pods := []wire.Object{pod("held"), pod("free")}
	var evicted []string
	c := &Cluster{client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(pod("held"), pod("free")).WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			t.Error("a pod was deleted")
			return nil
		},
		SubResourceCreate: func(_ context.Context, _ client.Client, name string, o, _ client.Object, _ ...client.SubResourceCreateOption) error {
			if o.GetName() == "held" {
				return apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
			}
			evicted = append(evicted, name+" "+o.GetName())
			return nil
		},
	}).Build()}
	changes, err := c.Delete(t.Context(), pods)
	if err == nil || !strings.Contains(err.Error(), "disruption budget") || !apierrors.IsTooManyRequests(err) {
		t.Errorf("got error %v, want the budget's", err)
	}
	if len(changes) != 1 || len(evicted) != 1 || evicted[0] != "eviction free" {
		t.Errorf("got %v, evicted %v, want the pod that is free", changes, evicted)
	}
}

func pod(name string) *corev1.Pod {
	return &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: name}}
}
