package exports_test

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/liqo-tui/liqo-tui/gateway/exports"
	"github.com/liqo-tui/liqo-tui/internal/apitest"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// The exports of a peer become EndpointSlices in the namespace of the connection, and their changes too. A
// gateway that starts again writes nothing.
func TestExportsAreKeptInTheTenantNamespace(t *testing.T) {
	api := apitest.Start(t, apitest.Options{})
	const namespace = "liqo-tenant-milan"
	must(t, api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "owner"}}
	must(t, api.Create(t.Context(), owner))
	foreign := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "foreign"}, AddressType: discoveryv1.AddressTypeIPv4}
	must(t, api.Create(t.Context(), foreign))

	st := store(t, 200)
	url := serve(t, &exports.Server{Store: st})
	start := func() (*exports.Client, func()) {
		w := &exports.Writer{
			Client: api, Reader: api, Namespace: namespace, Peer: "milan",
			Owner: metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID},
		}
		c := &exports.Client{URL: url, HTTP: exports.Transport(loopback), Check: admit, Sink: w, Log: slog.New(slog.DiscardHandler)}
		return c, begin(t, c)
	}
	copies := func() map[string]string { // resource versions by name
		var all discoveryv1.EndpointSliceList
		must(t, api.List(t.Context(), &all, client.InNamespace(namespace), client.MatchingLabels{wire.LabelRemoteCluster: "milan"}))
		out := map[string]string{}
		for _, s := range all.Items {
			out[s.Name] = s.ResourceVersion
			for _, label := range []string{mcsv1beta1.LabelSourceCluster, mcsv1beta1.LabelServiceName} {
				if _, ok := s.Labels[label]; ok {
					t.Errorf("copy %s has the label %s, by which DNS servers find it", s.Name, label)
				}
			}
			if _, ok := s.Labels[corev1.IsHeadlessService]; !ok {
				t.Errorf("kube-proxy watches copy %s", s.Name)
			}
		}
		return out
	}
	began := time.Now()
	c, stop := start()
	until(t, "all copies", func() bool { return c.Status().Slices == 200 })
	if took := time.Since(began); took < 2*time.Second { // 100 at once, then 50 a second
		t.Errorf("the peer made this cluster write 200 objects in %s", took)
	}
	before := copies()
	if len(before) != 200 {
		t.Errorf("got %d copies", len(before))
	}
	must(t, st.Put(milanSlice("db-0001", "10.244.0.9")))
	until(t, "one write", func() bool { return copies()["payments.db-0001"] != before["payments.db-0001"] })
	before["payments.db-0001"] = copies()["payments.db-0001"]
	must(t, st.Drop(types.NamespacedName{Namespace: "payments", Name: "db-0002"}))
	until(t, "a deletion", func() bool { return len(copies()) == 199 })
	delete(before, "payments.db-0002")
	if now := copies(); !maps.Equal(before, now) {
		t.Error("more was written than what has changed")
	}

	// The peer removes an export while no gateway runs here.
	stop()
	must(t, st.Drop(types.NamespacedName{Namespace: "payments", Name: "db-0003"}))
	delete(before, "payments.db-0003")
	time.Sleep(5 * time.Second) // the server allows one list in 5 s
	c, stop = start()
	until(t, "another list", func() bool { return !c.Status().Complete.IsZero() })
	if now := copies(); !maps.Equal(before, now) {
		t.Errorf("a gateway that starts again has written: %d copies", len(now))
	}
	stop()

	// If the API server refuses a slice, the report contains the reason, and the other slices are written.
	bad := milanSlice("port", "10.244.0.9")
	bad.Ports[0].Name = new("NOT A NAME")
	must(t, st.Put(bad))
	must(t, st.Put(milanSlice("db-0004", "10.244.0.77")))
	time.Sleep(5 * time.Second)
	c, stop = start()
	until(t, "the refusal", func() bool { return len(c.Status().Refused) == 1 })
	if s := c.Status(); s.Problem != nil || s.Slices != 198 {
		t.Errorf("got %+v", s)
	}
	stop()
	must(t, api.Get(t.Context(), client.ObjectKeyFromObject(foreign), foreign))
	names := slices.Sorted(maps.Keys(copies()))
	if len(names) != 198 || slices.Contains(names, "payments.port") {
		t.Error(fmt.Sprint("copies: ", len(names)))
	}
}
