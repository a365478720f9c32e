package kube

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/liqo-tui/liqo-tui/render"
)

// TestStatedRangesWinOverDiscoveredOnes has field managers, but no validation;
// TestCluster asks a real API server.
func TestStatedRangesWinOverDiscoveredOnes(t *testing.T) {
	scheme, err := render.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	testOwnOperator(t, &Cluster{client: fake.NewClientBuilder().WithScheme(scheme).WithReturnManagedFields().Build()})
}

// TestAnotherExternalRange may take the place of the first as long as nobody was
// told, and no host has an address of it.
func TestAnotherExternalRange(t *testing.T) {
	scheme, err := render.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	external := func(cidr string) *ipamv1alpha1.Network {
		return render.Network("liqo", render.NetworkExternalCIDR, render.NetworkExternalCIDR, cidr, 1)
	}
	host := &ipamv1alpha1.IP{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "printer"}, Status: ipamv1alpha1.IPStatus{IP: "10.80.0.1"}}
	for want, there := range map[string][]client.Object{
		"": nil,
		"change Network liqo/external-cidr from 10.80.0.0/16 to 10.81.0.0/16: peers that were told the former: 1":   {configuration("10.244.0.0/16")},
		"change Network liqo/external-cidr from 10.80.0.0/16 to 10.81.0.0/16: IPs with an address of the former: 1": {host},
	} {
		c := &Cluster{client: fake.NewClientBuilder().WithScheme(scheme).WithReturnManagedFields().WithObjects(append(there, external("10.80.0.0/16"))...).Build(), namespace: "liqo"}
		for _, cidr := range []string{"10.80.0.0/16", "10.81.0.0/16"} {
			_, err := c.replaceRanges(t.Context(), []render.Object{external(cidr)})
			if cidr == "10.80.0.0/16" && err != nil {
				t.Errorf("the same range: %v", err)
			}
			if cidr == "10.81.0.0/16" && fmt.Sprint(err) != cmp.Or(want, "<nil>") {
				t.Errorf("got %v, want %q", err, want)
			}
		}
		n := external("")
		if err := c.client.Get(t.Context(), client.ObjectKeyFromObject(n), n); err != nil || (n.Spec.CIDR == "10.81.0.0/16") != (want == "") {
			t.Errorf("%q: the range is %s (%v)", want, n.Spec.CIDR, err)
		}
	}
}

// TestARangeThatTheOperatorMakesAgainIsReplacedToo has the operator make a Network
// again between the moment when it is looked at and its deletion.
func TestARangeThatTheOperatorMakesAgainIsReplacedToo(t *testing.T) {
	scheme, err := render.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	network := func(uid types.UID, cidr string) *ipamv1alpha1.Network {
		n := render.ClusterNetworks("liqo", render.NetworkPodCIDR, []string{cidr}, "found")[0].(*ipamv1alpha1.Network)
		n.UID = uid
		return n
	}
	refused := 0
	remaking := interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
		var asked client.DeleteOptions
		asked.ApplyOptions(options)
		if uid := asked.Preconditions.UID; *uid == "first" {
			refused++
			return errors.Join(c.Delete(ctx, network("first", "")), c.Create(ctx, network("second", "10.1.0.0/16")),
				apierrors.NewConflict(ipamv1alpha1.NetworkGroupResource, o.GetName(), errors.New("precondition failed: UID")))
		}
		return c.Delete(ctx, o, options...)
	}}
	c := &Cluster{client: fake.NewClientBuilder().WithScheme(scheme).WithReturnManagedFields().WithObjects(network("first", "10.1.0.0/16")).
		WithInterceptorFuncs(remaking).Build(), namespace: "liqo"}
	if _, err := c.replaceRanges(t.Context(), render.ClusterNetworks("liqo", render.NetworkPodCIDR, []string{"10.2.0.0/16"}, "stated")); err != nil || refused != 1 {
		t.Errorf("got %v after %d conflicts", err, refused)
	}
	n := network("", "")
	if err := c.client.Get(t.Context(), client.ObjectKeyFromObject(n), n); err != nil || n.Spec.CIDR != "10.2.0.0/16" {
		t.Errorf("the range is %s (%v), want what was stated", n.Spec.CIDR, err)
	}
}

// TestOneStatedRangeReplacesSeveral has two ranges that the operator found.
func TestOneStatedRangeReplacesSeveral(t *testing.T) {
	scheme, err := render.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	newCluster := func(more ...client.Object) *Cluster {
		for _, o := range render.ClusterNetworks("liqo", render.NetworkPodCIDR, []string{"10.1.0.0/16", "10.2.0.0/16"}, "Calico") {
			more = append(more, o)
		}
		return &Cluster{client: fake.NewClientBuilder().WithScheme(scheme).WithReturnManagedFields().WithObjects(more...).Build(), namespace: "liqo"}
	}
	names := func(c *Cluster) (names []string) {
		all, err := c.ownRanges(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range all {
			names = append(names, n.Name+" "+string(n.Spec.CIDR))
		}
		return names
	}
	stated := render.ClusterNetworks("liqo", render.NetworkPodCIDR, []string{"10.1.0.0/16"}, "stated by install --pod-cidr")
	c := newCluster()
	if _, err := c.replaceRanges(t.Context(), stated); err != nil {
		t.Fatal(err)
	}
	if _, err := c.dropRanges(t.Context(), stated); err != nil {
		t.Fatal(err)
	}
	if got, want := names(c), []string{"pod-cidr 10.1.0.0/16"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	c = newCluster()
	if _, err := c.dropRanges(t.Context(), nil); err != nil || len(names(c)) != 2 {
		t.Errorf("nothing was stated, and there is %v (%v)", names(c), err)
	}
	c = newCluster(configuration("10.244.0.0/16"))
	want := "remove Network liqo/pod-cidr-2, 10.2.0.0/16 (Calico), which is not stated: peers that were told the former: 1"
	if _, err := c.replaceRanges(t.Context(), stated); fmt.Sprint(err) != want || len(names(c)) != 2 {
		t.Errorf("got %v and %v, want %q", err, names(c), want)
	}
	c = newCluster()
	objects, err := render.Installed("liqo")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Uninstall(t.Context(), objects); err != nil || len(names(c)) != 0 {
		t.Errorf("uninstall leaves %v (%v)", names(c), err)
	}
}
