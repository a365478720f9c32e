package tenancy

import (
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
)

// What a provider answers is watched by the way that the Identity names now.
func TestAnotherWayToAProviderIsWatchedAnew(t *testing.T) {
	providers, err := newProviders(nil)
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
