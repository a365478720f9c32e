// Package lendingtest provides clusters and certificates for tests of lending.
package lendingtest

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/liqo-tui/liqo-tui/render/peering"
)

func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, rbacv1.AddToScheme, certificatesv1.AddToScheme, authv1beta1.AddToScheme, corev1beta1.AddToScheme, offloadingv1beta1.AddToScheme,
		discoveryv1.AddToScheme, networkingv1beta1.AddToScheme,
	} {
		if err := add(s); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// Cluster returns a cluster with objects, on which no controller runs.
func Cluster(t *testing.T, objects ...client.Object) client.WithWatch {
	t.Helper()
	return fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(objects...).
		WithStatusSubresource(&corev1beta1.ForeignCluster{}, &certificatesv1.CertificateSigningRequest{}).
		WithInterceptorFuncs(interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			o.SetCreationTimestamp(metav1.Now()) // as an API server does
			return c.Create(ctx, o, options...)
		}}).Build()
}

// Refusing returns an API server that answers every request with the status code in code. With 200, the
// answer is an empty list of Renews.
func Refusing(t *testing.T, code *atomic.Int32) (url string, ca []byte) {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if code.Load() == http.StatusOK {
			_, _ = io.WriteString(w, `{"kind":"RenewList","apiVersion":"authentication.liqo.io/v1beta1","items":[]}`)
			return
		}
		w.WriteHeader(int(code.Load()))
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`)
	}))
	t.Cleanup(s.Close)
	return s.URL, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
}

// Sign returns a certificate for a key, signed by an authority.
func Sign(t *testing.T, authority *x509.Certificate, with any, public any, from time.Time, template x509.Certificate) []byte {
	t.Helper()
	template.SerialNumber, template.NotBefore, template.NotAfter = big.NewInt(time.Now().UnixNano()), from, from.Add(30*24*time.Hour)
	if authority == nil {
		authority = &template
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, authority, public, with)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// PublicOf returns the public part of a key.
func PublicOf(t *testing.T, private any) any {
	t.Helper()
	k, is := private.(crypto.Signer)
	if !is {
		t.Fatalf("a key of type %T", private)
	}
	return k.Public()
}

// AuthorityFile returns the name of a file with a certificate authority, and a function that changes the
// file.
func AuthorityFile(t *testing.T) (name string, change func(string)) {
	t.Helper()
	name = filepath.Join(t.TempDir(), "ca.crt")
	change = func(text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	change("first")
	return name, change
}

// Counting returns an API server with these objects, and the number of lists that it has answered.
func Counting(t *testing.T, objects ...client.Object) (c client.WithWatch, lists *int) {
	t.Helper()
	lists = new(int)
	return fake.NewClientBuilder().WithScheme(scheme(t)).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if (&client.ListOptions{}).ApplyOptions(options).Namespace == "" {
				*lists++
			}
			return c.List(ctx, list, options...)
		},
	}).Build(), lists
}

// SliceOf returns a ResourceSlice of a consumer that was granted these amounts, such as "cpu=1 memory=1Gi".
func SliceOf(t *testing.T, consumer, uid, granted string) *authv1beta1.ResourceSlice {
	t.Helper()
	s := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-" + consumer, Name: "milan", UID: types.UID(uid)}}
	s.Status.Resources = Amounts(t, granted)
	return s
}

// Amounts reads amounts such as "cpu=1 memory=1Gi".
func Amounts(t *testing.T, text string) corev1.ResourceList {
	t.Helper()
	all, err := peering.Amounts(strings.Fields(text))
	if err != nil {
		t.Fatal(err)
	}
	return all
}
