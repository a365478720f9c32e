package provider

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/internal/offload"
	"github.com/liqo-tui/liqo-tui/internal/sample"
)

func cpu(text string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(text)}
}

func key(n int) client.ObjectKey {
	return client.ObjectKey{Namespace: "demo", Name: fmt.Sprint("web-", n)}
}

func podNamed(n int, uid, amount string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: key(n).Name, UID: types.UID(uid)},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{Requests: cpu(amount)}}}},
	}
}

// Resources that are given back go to the waiting pods in the order of their arrival.
func TestWhoWaitsComesFirst(t *testing.T) {
	a, granted := newAccount(), cpu("4")
	for n, amount := range []string{"3", "1"} {
		if err := a.reserve(key(n), cpu(amount), granted); err != nil {
			t.Fatal(err)
		}
	}
	for n, amount := range []string{"4", "2", "1", "1"} {
		if err := a.reserve(key(10+n), cpu(amount), granted); err == nil {
			t.Fatalf("%s had room", amount)
		}
	}
	if err := a.reserve(key(0), cpu("3"), granted); err != nil {
		t.Errorf("what is reserved is reserved: %v", err)
	}
	if got := fmt.Sprint(a.release(key(0), granted)); got != "[demo/web-11 demo/web-12]" {
		t.Errorf("next are %s", got)
	}
	if got := a.release(key(0), granted); got != nil {
		t.Errorf("it was given back twice: %v", got)
	}
	a.leave(key(11))
	if got := fmt.Sprint(a.release(key(1), granted)); got != "[demo/web-10]" {
		t.Errorf("next are %s", got)
	}
}

// A consumer may change its request after a failed attempt.
func TestWhatIsReservedIsNoMoreThanThat(t *testing.T) {
	a, granted := newAccount(), cpu("4")
	if err := a.reserve(key(0), cpu("1"), granted); err != nil {
		t.Fatal(err)
	}
	if err := a.reserve(key(0), cpu("5"), granted); err == nil {
		t.Error("more than was granted had room")
	}
	if err := a.reserve(key(0), cpu("4"), granted); err != nil {
		t.Errorf("all that was granted: %v", err)
	}
	if err := a.reserve(key(1), cpu("1"), granted); err == nil {
		t.Error("another one had room")
	}
}

// An existing pod counts once, also above the granted resources.
func TestPodsThatAreThereCount(t *testing.T) {
	a := newAccount()
	for range 2 {
		a.see(key(1), podNamed(1, "a", "5"))
	}
	a.see(key(1), podNamed(1, "b", "3")) // made again
	used := a.used[corev1.ResourceCPU]
	if used.String() != "3" {
		t.Errorf("%s are used", used.String())
	}
	if err := a.reserve(key(2), cpu("1"), cpu("2")); err == nil {
		t.Error("there was room")
	}
}

// The number of waiting pods is limited, and none waits twice. Other pods are tried again after a time.
func TestThoseThatWaitAreBounded(t *testing.T) {
	a, granted := newAccount(), corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourcePods: resource.MustParse("600")}
	if err := a.reserve(key(0), cpu("1"), granted); err != nil {
		t.Fatal(err)
	}
	const most = 1200
	for range 2 {
		for n := range most + 10 {
			why := a.reserve(key(1+n), cpu("1"), granted)
			if crowded := againAfter(why) != 0; why == nil || crowded != (n >= most) {
				t.Fatalf("pod %d: %v", n, why)
			}
		}
		if len(a.waiting) != most || a.order.Len() != most || len(a.all()) != most {
			t.Fatalf("%d wait", len(a.waiting))
		}
	}
	a.leave(key(1))
	if why := a.reserve(key(1+most), cpu("1"), granted); againAfter(why) != 0 {
		t.Errorf("a place was free: %v", why)
	}
	if got := a.release(key(0), granted); len(got) != 1 || got[0] != key(2) {
		t.Errorf("next are %v", got)
	}
}

// In TestNeverMoreThanWasGranted, many consumers request, get and give back at once.
func TestNeverMoreThanWasGranted(t *testing.T) {
	a, granted, seed := newAccount(), cpu("10"), sample.Seed(t)
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(worker)))
			for range 2000 {
				n := worker*10 + r.IntN(10)
				switch r.IntN(3) {
				case 0, 1:
					_ = a.reserve(key(n), cpu(fmt.Sprint(r.IntN(4)+1)), granted)
				case 2:
					a.release(key(n), granted)
				}
				a.mu.Lock()
				if used := a.used[corev1.ResourceCPU]; used.CmpInt64(10) > 0 || used.Sign() < 0 {
					t.Errorf("%s of 10 are used", used.String())
				}
				a.mu.Unlock()
			}
		})
	}
	all.Wait()
	for n := range 80 {
		a.release(key(n), granted)
	}
	if used := a.used[corev1.ResourceCPU]; !used.IsZero() {
		t.Errorf("%s are left", used.String())
	}
}

func TestMostTwins(t *testing.T) {
	wanted := map[string]string{}
	for n := range offload.MostMapped {
		wanted[fmt.Sprint("twin-", n)] = "x"
	}
	rome := &authv1beta1.Tenant{Spec: authv1beta1.TenantSpec{ClusterID: "rome"}}
	m := &mapping{namespaces: &namespaces{}, tenant: &tenant{Tenant: rome}, problems: map[string]error{}}
	phase, err := m.one(context.Background(), "demo", "demo-rome", wanted)
	if err != nil || phase != offloadingv1beta1.MappingCreationLoopBackOff || !strings.Contains(fmt.Sprint(m.problems["demo"]), "a consumer may have 100 namespaces at most") {
		t.Errorf("got %s, %v, %v", phase, err, m.problems)
	}
}

// Existing namespaces keep their place when a consumer requests too many.
func TestTwinsThatAreThereComeFirst(t *testing.T) {
	m := &mapping{
		of:    &offloadingv1beta1.NamespaceMap{Spec: offloadingv1beta1.NamespaceMapSpec{DesiredMapping: map[string]string{"a": "a-rome", "b": "b-rome", "z": "z-rome"}}},
		there: map[string]*corev1.Namespace{"z-rome": {ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"liqo.io/original-name": "z"}}}},
	}
	if got := fmt.Sprint(m.order()); got != "[z a b]" {
		t.Errorf("got %s", got)
	}
}
