package operator

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	ipamv1alpha1 "github.com/liqotech/liqo/apis/ipam/v1alpha1"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/liqo-tui/liqo-tui/gateway/operator/ranges"
	"github.com/liqo-tui/liqo-tui/internal/ipam"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render"
)

func clusterWith(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme, err := wire.Scheme()
	if err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&ipamv1alpha1.Network{}).Build()
}

// stating returns two ranges, as if an admin stated them.
func stating(context.Context, client.Reader) (ranges.Ranges, error) {
	return ranges.Ranges{CIDRs: []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("10.2.0.0/16")}, Source: "kubeadm"}, nil
}

// In TestAllRangesThatWereFoundAreThere, the operator ends after the first of two ranges.
func TestAllRangesThatWereFoundAreThere(t *testing.T) {
	cl, statements := clusterWith(t), []ranges.Statement{stating}
	r := &discovery{client: &dying{Client: cl, creates: 1}, reader: cl, namespace: "liqo"}
	if ok, err := r.ensure(t.Context(), wire.NetworkPodCIDR, statements); ok || err == nil {
		t.Fatalf("got %v, %v although the second can't be made", ok, err)
	}
	fixed := func() bool {
		own, err := clusterNetworks(t.Context(), cl, "liqo")
		if err != nil {
			t.Fatal(err)
		}
		return own.fixed
	}
	for _, service := range render.ClusterNetworks("liqo", wire.NetworkServiceCIDR, []string{"10.96.0.0/12"}, "kubeadm") {
		if err := cl.Create(t.Context(), service); err != nil {
			t.Fatal(err)
		}
	}
	decideAll(t, cl)
	if fixed() {
		t.Error("half of the ranges is taken for all")
	}
	stated := render.ClusterNetworks("liqo", wire.NetworkServiceCIDR, []string{"10.8.0.0/16", "10.9.0.0/16"}, render.StatedByInstall+"--service-cidr")
	other := clusterWith(t, stated[1])
	if ok, err := (&discovery{client: other, reader: other, namespace: "liqo"}).ensure(t.Context(), wire.NetworkServiceCIDR, statements); !ok || err != nil {
		t.Errorf("what an admin has stated is completed: %v, %v", ok, err)
	}
	r.client = cl
	for range 2 {
		if ok, err := r.ensure(t.Context(), wire.NetworkPodCIDR, statements); !ok || err != nil {
			t.Fatal(ok, err)
		}
	}
	decideAll(t, cl)
	if !fixed() {
		t.Error("all ranges are there, and waited for")
	}
	services := render.ClusterNetworks("liqo", wire.NetworkServiceCIDR, []string{"10.96.0.0/16", "10.97.0.0/16"}, "kubeadm")
	half := clusterWith(t, render.ClusterNetworks("liqo", wire.NetworkPodCIDR, []string{"10.244.0.0/16"}, "kubeadm")[0], services[1])
	decideAll(t, half)
	if own, err := clusterNetworks(t.Context(), half, "liqo"); err != nil || own.fixed {
		t.Errorf("half of the Services' ranges is taken for all (%v)", err)
	}
	var all ipamv1alpha1.NetworkList
	if err := cl.List(t.Context(), &all, client.MatchingLabels{wire.LabelNetworkType: wire.NetworkPodCIDR}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range all.Items {
		got = append(got, n.Name+" "+string(n.Spec.CIDR))
	}
	if want := []string{"pod-cidr 10.1.0.0/16", "pod-cidr-2 10.2.0.0/16"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestRangesInWhichNoPodIsAreNotPublished(t *testing.T) {
	stated := func(context.Context, client.Reader) (ranges.Ranges, error) {
		return ranges.Ranges{Contradiction: "pod kube-system/dns has 10.50.0.7; kubeadm: 10.1.0.0/16"}, nil
	}
	cl := clusterWith(t)
	r := &discovery{client: cl, reader: cl, namespace: "liqo"}
	ok, err := r.ensure(t.Context(), wire.NetworkPodCIDR, []ranges.Statement{stated})
	if told, is := errors.AsType[*toldError](err); ok || !is || !strings.Contains(told.Error(), "pod kube-system/dns has 10.50.0.7") || !slices.Equal(told.unstated, []string{wire.NetworkPodCIDR}) {
		t.Errorf("got %v, %v", ok, err)
	}
	var made ipamv1alpha1.NetworkList
	if err := cl.List(t.Context(), &made); err != nil || len(made.Items) > 0 {
		t.Errorf("made %d Networks (%v)", len(made.Items), err)
	}
	if ok, err := r.ensure(t.Context(), wire.NetworkPodCIDR, []ranges.Statement{stated, stating}); !ok || err != nil {
		t.Errorf("another statement is right: got %v, %v", ok, err)
	}
}

// decideAll gives each Network the range that it requests.
func decideAll(t *testing.T, cl client.Client) {
	t.Helper()
	var all ipamv1alpha1.NetworkList
	if err := cl.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	for i := range all.Items {
		if err := ranges.Record(t.Context(), cl, &all.Items[i], all.Items[i].Spec.CIDR); err != nil {
			t.Fatal(err)
		}
	}
}

// dying accepts a number of new objects, and then fails.
type dying struct {
	client.Client
	creates int
}

func (d *dying) Create(ctx context.Context, o client.Object, options ...client.CreateOption) error {
	if d.creates--; d.creates < 0 {
		return errors.New("the operator was stopped")
	}
	return d.Client.Create(ctx, o, options...)
}

// In TestWhatAnAdminStatesTakesThePlaceOfWhatWasFound, the operator has found two ranges, and an admin states
// one of them now.
func TestWhatAnAdminStatesTakesThePlaceOfWhatWasFound(t *testing.T) {
	found := render.ClusterNetworks("liqo", wire.NetworkPodCIDR, []string{"10.1.0.0/16", "10.2.0.0/16"}, "Calico")
	liqos := render.ClusterNetworks("liqo", wire.NetworkPodCIDR, []string{"", "", "10.9.0.0/16"}, "")[2]
	liqos.SetLabels(map[string]string{wire.LabelNetworkType: wire.NetworkPodCIDR})
	cl := clusterWith(t, found[0], found[1], liqos)
	r := &discovery{client: cl, reader: cl, namespace: "liqo", stated: map[string][]netip.Prefix{
		wire.NetworkPodCIDR: {netip.MustParsePrefix("10.2.0.0/16")},
	}}
	networks := func() (all []string) {
		var list ipamv1alpha1.NetworkList
		if err := cl.List(t.Context(), &list); err != nil {
			t.Fatal(err)
		}
		for _, n := range list.Items {
			all = append(all, fmt.Sprintf("%s %s %s", n.Name, n.Spec.CIDR, n.Annotations[wire.AnnotationSource]))
		}
		return all
	}
	before := networks()

	peer := &networkingv1beta1.Configuration{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo-tenant-milan", Name: "milan"}}
	if err := cl.Create(t.Context(), peer); err != nil {
		t.Fatal(err)
	}
	_, err := r.ensure(t.Context(), wire.NetworkPodCIDR, nil)
	if told, ok := errors.AsType[*toldError](err); !ok || told.state != wire.OperatorKeepsRange || !slices.Equal(networks(), before) {
		t.Errorf("a peer was told of them: got %v, and %q", err, networks())
	}
	if err := cl.Delete(t.Context(), peer); err != nil {
		t.Fatal(err)
	}

	r.stated[wire.NetworkPodCIDR] = []netip.Prefix{netip.MustParsePrefix("10.2.0.0/16"), netip.MustParsePrefix("10.3.0.0/16"), netip.MustParsePrefix("10.4.0.0/16")}
	_, err = r.ensure(t.Context(), wire.NetworkPodCIDR, nil)
	if _, ok := errors.AsType[*toldError](err); !ok || !strings.Contains(err.Error(), "Network pod-cidr-3 is another program's, with 10.9.0.0/16") || !slices.Equal(networks(), before) {
		t.Errorf("another's has the name: got %v, and %q", err, networks())
	}
	r.stated[wire.NetworkPodCIDR] = r.stated[wire.NetworkPodCIDR][:1]

	want := []string{"pod-cidr 10.2.0.0/16 stated by install --pod-cidr", "pod-cidr-3 10.9.0.0/16 "}
	for range 2 {
		if ok, err := r.ensure(t.Context(), wire.NetworkPodCIDR, nil); !ok || err != nil || !slices.Equal(networks(), want) {
			t.Errorf("got %v (%v), and %q, want %q", ok, err, networks(), want)
		}
	}
}

// One failed read of the API server leaves no Network undecided for ever, because no other event requests the
// last one.
func TestANetworkIsDecidedAfterAFailedRead(t *testing.T) {
	pods := render.ClusterNetworks("liqo", wire.NetworkPodCIDR, []string{"10.1.0.0/16"}, "kubeadm")
	unreadable := render.ClusterNetworks("liqo", wire.NetworkServiceCIDR, []string{"x"}, "kubeadm")
	cl := clusterWith(t, pods[0], unreadable[0])
	r := &networks{client: cl, recorder: events.NewFakeRecorder(5), allocator: ranges.NewAllocator(&failing{Reader: cl, lists: 1}, nil, nil), namespace: "liqo"}
	decide := func(o client.Object) error {
		_, err := r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
		return err
	}
	if err := decide(pods[0]); err == nil || errors.Is(err, reconcile.TerminalError(nil)) {
		t.Errorf("after a list that failed: %v, want an error that is tried again", err)
	}
	if err := decide(pods[0]); err != nil {
		t.Error(err)
	}
	if err := decide(unreadable[0]); !errors.Is(err, reconcile.TerminalError(nil)) {
		t.Errorf("a range that can't be read: %v, want an error that is not tried again", err)
	}
	var told ipamv1alpha1.Network
	if err := cl.Get(t.Context(), client.ObjectKeyFromObject(unreadable[0]), &told); err != nil || !strings.Contains(told.Annotations[wire.AnnotationProblem], "allocate x of Network service-cidr") {
		t.Errorf("nobody is told why it has no range: %v (%v)", told.Annotations, err)
	}
}

// A Network without a range shows the reason, where waits and checks read it. The reason disappears when it
// has a range.
func TestANetworkThatGetsNoRangeSaysWhy(t *testing.T) {
	cl := clusterWith(t)
	for _, n := range append(render.ClusterNetworks("liqo", wire.NetworkPodCIDR, []string{"0.0.0.0/0"}, "kubeadm"),
		render.ClusterNetworks("liqo", wire.NetworkServiceCIDR, []string{"10.96.0.0/16"}, "kubeadm")[0]) {
		if err := cl.Create(t.Context(), n); err != nil {
			t.Fatal(err)
		}
	}
	decideAll(t, cl)
	external := &ipamv1alpha1.Network{
		ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: wire.NetworkExternalCIDR, Labels: map[string]string{wire.LabelNetworkType: wire.NetworkExternalCIDR}},
		Spec:       ipamv1alpha1.NetworkSpec{CIDR: "10.70.0.0/16"},
	}
	if err := cl.Create(t.Context(), external); err != nil {
		t.Fatal(err)
	}
	decide := func(pools ...netip.Prefix) (problem string, err error) {
		around := ranges.NewSurroundings(cl, cl, &rest.Config{})
		r := &networks{client: cl, recorder: events.NewFakeRecorder(5), allocator: ranges.NewAllocator(cl, around, pools), namespace: "liqo"}
		_, err = r.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(external)})
		var now ipamv1alpha1.Network
		if err := cl.Get(t.Context(), client.ObjectKeyFromObject(external), &now); err != nil {
			t.Fatal(err)
		}
		return now.Annotations[wire.AnnotationProblem], err
	}
	if problem, err := decide(); err == nil || !strings.Contains(problem, "allocate 10.70.0.0/16") || !strings.Contains(problem, ipam.ErrExhausted.Error()) {
		t.Errorf("got %q, %v", problem, err)
	}
	if err := cl.Delete(t.Context(), render.ClusterNetworks("liqo", wire.NetworkPodCIDR, []string{"0.0.0.0/0"}, "kubeadm")[0]); err != nil {
		t.Fatal(err)
	}
	if err := cl.Create(t.Context(), render.ClusterNetworks("liqo", wire.NetworkPodCIDR, []string{"10.244.0.0/16"}, "kubeadm")[0]); err != nil {
		t.Fatal(err)
	}
	pods := render.ClusterNetworks("liqo", wire.NetworkPodCIDR, []string{"10.244.0.0/16"}, "kubeadm")[0]
	if err := ranges.Record(t.Context(), cl, pods.(*ipamv1alpha1.Network), "10.244.0.0/16"); err != nil {
		t.Fatal(err)
	}
	if problem, err := decide(); err != nil || problem != "" {
		t.Errorf("with a free range: got %q, %v", problem, err)
	}
}

// failing is a reader whose first lists fail.
type failing struct {
	client.Reader

	lists int
}

func (f *failing) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if f.lists > 0 {
		f.lists--
		return errors.New("no answer")
	}
	return f.Reader.List(ctx, list, options...)
}
