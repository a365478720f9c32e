package consumer

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/liqo-tui/liqo-tui/gateway/operator/lending/lendingtest"
	"github.com/liqo-tui/liqo-tui/gateway/remote"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// The operator watches a provider's answers at the address that the Identity names now.
func TestAnotherWayToAProviderIsWatchedAnew(t *testing.T) {
	providers, err := newClients(nil)
	if err != nil {
		t.Fatal(err)
	}
	a := &answers{told: make(chan event.GenericEvent)}
	there := "liqo-tenant-rome"
	i := &authv1beta1.Identity{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"},
		Spec:       authv1beta1.IdentitySpec{Namespace: &there, AuthParams: authv1beta1.AuthParams{APIServer: "https://127.0.0.1:1"}},
	}
	defer a.leave(i.Namespace)
	defer providers.Forget(client.ObjectKeyFromObject(i))
	enter := func() (ended bool) {
		t.Helper()
		if w, watched := a.watching[i.Namespace]; watched {
			was := w.end
			w.end = func() {
				ended = true
				was()
			}
			a.watching[i.Namespace] = w
		}
		how, err := access(i, nil)
		if err != nil {
			t.Fatal(err)
		}
		provider, err := providers.Get(client.ObjectKeyFromObject(i), how)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.enter(t.Context(), i.Namespace, there, provider); err != nil {
			t.Fatal(err)
		}
		return ended
	}
	enter()
	if enter() {
		t.Error("the watch has ended without a reason")
	}
	for what, change := range map[string]func(){
		"proxy":      func() { i.Spec.AuthParams.ProxyURL = new("http://127.0.0.1:2") },
		"API server": func() { i.Spec.AuthParams.APIServer = "https://127.0.0.1:3" },
		"namespace":  func() { there = "liqo-tenant-rome-2" },
	} {
		if change(); !enter() {
			t.Errorf("after another %s the former watch goes on", what)
		}
	}
}

// The old authority counts until a provider's API server shows a certificate of its new authority.
func TestBothAuthoritiesCountUntilTheNewOneIsUsed(t *testing.T) {
	var code atomic.Int32
	code.Store(http.StatusForbidden)
	url, uses := lendingtest.Refusing(t, &code)
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	next := lendingtest.Sign(t, nil, key, key.Public(), time.Now(), x509.Certificate{Subject: pkix.Name{CommonName: "next"}, IsCA: true, BasicConstraintsValid: true})
	both := append(append([]byte{}, next...), append([]byte("\n"), uses...)...)
	for name, c := range map[string]struct{ has, says, want []byte }{
		"the same":               {uses, uses, uses},
		"it will be another one": {uses, next, both},
		"both, and the old one":  {both, uses, uses},
		"it says both":           {uses, both, both},
		"nonsense":               {uses, []byte("x"), uses},
	} {
		if got := authorityOf(t.Context(), remote.Access{Server: url, CA: c.has}, c.says); !bytes.Equal(got, c.want) {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

// A slice shows that its provider has another authority.
func TestASliceTellsOfAnotherAuthority(t *testing.T) {
	now := time.Now()
	by := func(authority string, from time.Time) []byte {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return lendingtest.Sign(t, &x509.Certificate{Subject: pkix.Name{CommonName: authority}}, key, key.Public(), from, x509.Certificate{Subject: pkix.Name{CommonName: "rome"}})
	}
	c, err := peering.Certificate(by("clients", now))
	if err != nil {
		t.Fatal(err)
	}
	i := &authv1beta1.Identity{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"}, Spec: authv1beta1.IdentitySpec{ClusterID: "milan", AuthParams: authv1beta1.AuthParams{CA: []byte("a\n")}}}
	slice := &authv1beta1.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Namespace: i.Namespace, Name: "milan", Labels: map[string]string{peering.LabelReplication: "true", peering.LabelDestination: "milan"}}}
	for name, of := range map[string]struct {
		says authv1beta1.AuthParams
		want bool
	}{
		"nothing":                     {authv1beta1.AuthParams{}, false},
		"the same":                    {authv1beta1.AuthParams{CA: []byte("a"), SignedCRT: by("clients", now.Add(time.Hour))}, false},
		"the same, with a line's end": {authv1beta1.AuthParams{CA: []byte("a\n")}, false},
		"another one":                 {authv1beta1.AuthParams{CA: []byte("b")}, true},
		"another one of clients":      {authv1beta1.AuthParams{CA: []byte("a"), SignedCRT: by("others", now.Add(time.Hour))}, true},
		"a former one of clients":     {authv1beta1.AuthParams{CA: []byte("a"), SignedCRT: by("others", now.Add(-time.Hour))}, false},
	} {
		slice.Status.AuthParams = &of.says
		r := &Providers{client: lendingtest.Cluster(t, slice)}
		if got, err := r.another(t.Context(), i, c); err != nil || got != of.want {
			t.Errorf("it says %s: %t, %v", name, got, err)
		}
	}
}
