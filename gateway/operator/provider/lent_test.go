package provider

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	authv1beta1 "github.com/liqotech/liqo/apis/authentication/v1beta1"
	corev1beta1 "github.com/liqotech/liqo/apis/core/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/gateway/operator/lending/lendingtest"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// The resources of others are those of the last answers, whatever the cache contains. They are listed once.
func TestWhatIsLentIsKnownWithoutLists(t *testing.T) {
	rome := lendingtest.SliceOf(t, "rome", "r", "")
	for name, c := range map[string]struct {
		live, cached, answered []client.Object
		failed                 error
		want                   string
		lists                  int
	}{
		"as the cache has it":      {live: []client.Object{lendingtest.SliceOf(t, "turin", "t", "cpu=3")}, cached: []client.Object{lendingtest.SliceOf(t, "turin", "t", "cpu=3")}, want: "turin=3", lists: 1},
		"answered a moment ago":    {live: []client.Object{lendingtest.SliceOf(t, "turin", "t", "")}, cached: []client.Object{lendingtest.SliceOf(t, "turin", "t", "")}, answered: []client.Object{lendingtest.SliceOf(t, "turin", "t", "cpu=3")}, want: "turin=3", lists: 1},
		"given back a moment ago":  {live: []client.Object{lendingtest.SliceOf(t, "turin", "t", "cpu=3")}, cached: []client.Object{lendingtest.SliceOf(t, "turin", "t", "cpu=3")}, answered: []client.Object{lendingtest.SliceOf(t, "turin", "t", "cpu=1")}, want: "turin=1", lists: 1},
		"of the process before":    {live: []client.Object{lendingtest.SliceOf(t, "turin", "t", "cpu=3")}, want: "turin=3", lists: 1},
		"gone":                     {answered: []client.Object{lendingtest.SliceOf(t, "turin", "t", "cpu=3")}, lists: 1},
		"made again":               {live: []client.Object{lendingtest.SliceOf(t, "turin", "u", "")}, cached: []client.Object{lendingtest.SliceOf(t, "turin", "u", "")}, answered: []client.Object{lendingtest.SliceOf(t, "turin", "t", "cpu=3")}, want: "turin=0", lists: 1},
		"not known whether it was": {live: []client.Object{lendingtest.SliceOf(t, "turin", "t", "cpu=3")}, cached: []client.Object{lendingtest.SliceOf(t, "turin", "t", "")}, answered: []client.Object{lendingtest.SliceOf(t, "turin", "t", "")}, failed: context.DeadlineExceeded, want: "turin=3", lists: 2},
		"known that it was not":    {live: []client.Object{lendingtest.SliceOf(t, "turin", "t", "")}, cached: []client.Object{lendingtest.SliceOf(t, "turin", "t", "")}, answered: []client.Object{lendingtest.SliceOf(t, "turin", "t", "cpu=1")}, failed: apierrors.NewConflict(corev1.Resource("x"), "x", nil), want: "turin=1", lists: 1},
	} {
		t.Run(name, func(t *testing.T) {
			reader, lists := lendingtest.Counting(t, c.live...)
			cached, _ := lendingtest.Counting(t, c.cached...)
			l := lent{client: cached, reader: reader}
			if _, err := l.others(t.Context(), rome); err != nil {
				t.Fatal(err)
			}
			for _, o := range c.answered {
				l.say(o.(*authv1beta1.ResourceSlice))
			}
			if c.failed != nil {
				l.failed(c.failed)
			}
			for range 2 {
				all, err := l.others(t.Context(), rome)
				if err != nil {
					t.Fatal(err)
				}
				var got []string
				for i := range all {
					cpu := all[i].Status.Resources[corev1.ResourceCPU]
					got = append(got, strings.TrimPrefix(all[i].Namespace, "liqo-tenant-")+"="+cpu.String())
				}
				slices.Sort(got)
				if strings.Join(got, " ") != c.want {
					t.Errorf("got %v, want %s", got, c.want)
				}
			}
			if *lists != c.lists {
				t.Errorf("all slices were listed %d times, want %d", *lists, c.lists)
			}
		})
	}
}

// After a restart, the operator looks at all consumers. Consumers that have what they request are read from
// the cache.
func TestARestartListsConsumersOnce(t *testing.T) {
	const consumers = 30
	home := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: wire.ClusterIDConfigMap}, Data: map[string]string{wire.ClusterIDKey: "milan"}}
	objects := []client.Object{home}
	for i := range consumers {
		id := wire.ClusterID(fmt.Sprint("consumer-", i))
		ns := render.TenantNamespace(render.Tenant{Namespace: "liqo-tenant-" + string(id), Remote: id})
		tenant := &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: ns.GetName(), Name: string(id), UID: types.UID(id)}, Spec: authv1beta1.TenantSpec{ClusterID: corev1beta1.ClusterID(id), CSR: []byte("a"), PublicKey: []byte("b")}}
		tenant.Status.AuthParams = &authv1beta1.AuthParams{}
		s := lendingtest.SliceOf(t, string(id), "of "+string(id), "cpu=1")
		objects = append(objects, ns, tenant, s, peering.OfTenant(tenant).Secret(nil), peering.OfSlice(s, tenant).Secret(nil))
	}
	reader, lists := lendingtest.Counting(t, objects...)
	cached, _ := lendingtest.Counting(t, objects...)
	of := &tenants{signer: signer{client: cached, reader: reader}, options: Options{Home: "liqo"}}
	g := &grants{tenants: of, used: func(context.Context) (map[string]corev1.ResourceList, error) { return nil, nil }, lent: lent{client: cached, reader: reader}}
	for i := range consumers {
		id := fmt.Sprint("consumer-", i)
		judged, err := of.read(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-" + id, Name: id})
		if err != nil || !judged.accepted() || len(judged.all) != consumers {
			t.Fatalf("Tenant %s: %v, compared with %d", id, err, len(judged.all))
		}
		in, err := g.readSlice(t.Context(), lendingtest.SliceOf(t, id, "of "+id, "cpu=1"))
		if err != nil || in.tenant == nil || !in.admitted || len(in.all) != consumers || len(in.others) != consumers-1 {
			t.Fatalf("slice of %s: %v, %+v", id, err, in)
		}
	}
	if *lists != 1 {
		t.Errorf("all of a kind were listed %d times, want once", *lists)
	}
}

// The operator does not list all requests for a consumer with a wrong signature, which is refused every 10 s.
func TestARestartListsNothingForWhoIsRefused(t *testing.T) {
	const consumers = 30
	objects := []client.Object{&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: wire.ClusterIDConfigMap}, Data: map[string]string{wire.ClusterIDKey: "milan"}}}
	for i := range consumers {
		id := wire.ClusterID(fmt.Sprint("consumer-", i))
		ns := render.TenantNamespace(render.Tenant{Namespace: "liqo-tenant-" + string(id), Remote: id})
		nonce := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns.GetName(), Name: peering.NonceName, Labels: map[string]string{peering.LabelNonce: "true", wire.LabelRemoteCluster: string(id)}}, Data: map[string][]byte{peering.KeyNonce: []byte("nonce")}}
		objects = append(objects, ns, nonce, &authv1beta1.Tenant{ObjectMeta: metav1.ObjectMeta{Namespace: ns.GetName(), Name: string(id), UID: types.UID(id)}, Spec: authv1beta1.TenantSpec{ClusterID: corev1beta1.ClusterID(id), PublicKey: []byte("none"), Signature: []byte("wrong")}})
	}
	reader, lists := lendingtest.Counting(t, objects...)
	cached, _ := lendingtest.Counting(t, objects...)
	of := &tenants{signer: signer{client: cached, reader: reader}, options: Options{Home: "liqo"}}
	for i := range consumers {
		id := fmt.Sprint("consumer-", i)
		judged, err := of.read(t.Context(), client.ObjectKey{Namespace: "liqo-tenant-" + id, Name: id})
		if err != nil || len(judged.all) != consumers {
			t.Fatalf("Tenant %s: %v", id, err)
		}
		if nonce, why := judged.refusal(); why == nil || nonce != nil {
			t.Errorf("Tenant %s is not refused", id)
		}
	}
	if *lists != 0 {
		t.Errorf("all of a kind were listed %d times, want never", *lists)
	}
}
