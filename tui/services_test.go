package tui

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/services"
	"github.com/liqo-tui/liqo-tui/tui/session"
)

// offer puts a Service with one pod into the namespace shop of a cluster.
func offer(c *flowtest.Cluster, name, pod string, ready bool) {
	c.PutAs("kubectl", &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.96.0.7", IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol},
			Ports: []corev1.ServicePort{{Name: "http", Protocol: corev1.ProtocolTCP, Port: 80}},
		},
	}, &discoveryv1.EndpointSlice{
		TypeMeta:   metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name + "-abcde", Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		Ports:      []discoveryv1.EndpointPort{{Name: new("http"), Protocol: new(corev1.ProtocolTCP), Port: new(int32(8080))}}, AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints: []discoveryv1.Endpoint{{Addresses: []string{pod}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}}},
	})
}

func export(c *flowtest.Cluster, name string) {
	c.Put(&mcsv1beta1.ServiceExport{
		TypeMeta:   metav1.TypeMeta{APIVersion: mcsv1beta1.GroupVersion.String(), Kind: mcsv1beta1.ServiceExportKindName},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
	})
}

// sharing are two connected clusters. Both serve web, and the only pod of milan's api is not ready.
func sharing(t *testing.T) func(*flowtest.Pair) {
	return func(p *flowtest.Pair) {
		for _, c := range []*flowtest.Cluster{p.A, p.B} {
			c.Behave(func(b *flowtest.Behaviour) { b.Services = true })
		}
		offer(p.A, "web", "10.244.0.5", true)
		offer(p.B, "web", "10.244.0.6", true)
		offer(p.B, "api", "10.244.0.7", false)
		export(p.A, "web")
		export(p.B, "web")
		export(p.B, "api")
		connectedPair(t)(p)
		p.Settle()
	}
}

func onServices(t *testing.T, prepare func(*flowtest.Pair, *world), test func(*testing.T, *driver), keys ...string) {
	t.Helper()
	inWorld(t, func(p *flowtest.Pair, w *world) session.Options {
		prepare(p, w)
		return session.Options{Start: session.StartDashboard}
	}, func(t *testing.T, d *driver) {
		d.wait(time.Second)
		d.keys("b")
		d.wait(time.Second)
		for _, key := range keys {
			d.keys(key)
			d.wait(time.Second)
		}
		test(t, d)
	})
}

func shared(t *testing.T) func(*flowtest.Pair, *world) {
	return func(p *flowtest.Pair, _ *world) { sharing(t)(p) }
}

func TestTheServicesOfAConnection(t *testing.T) {
	off := func(p *flowtest.Pair, _ *world) {
		sharing(t)(p)
		p.B.Behave(func(b *flowtest.Behaviour) { b.Services = false })
	}
	for name, test := range map[string]struct {
		prepare func(*flowtest.Pair, *world)
		keys    []string
	}{
		"services":     {shared(t), []string{"down", "up"}},
		"services-off": {off, nil},
		"service":      {shared(t), []string{"enter"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, ascii := range []bool{false, true} {
				inWorld(t, func(p *flowtest.Pair, w *world) session.Options {
					test.prepare(p, w)
					return session.Options{Start: session.StartDashboard, ASCII: ascii}
				}, func(t *testing.T, d *driver) {
					d.wait(time.Second)
					d.keys("b")
					d.wait(time.Second)
					d.keys(test.keys...)
					d.wait(time.Second)
					goldens(t, d, "dashboard-"+name, ascii)
				})
			}
		})
	}
}

// asked counts the questions about Services to a cluster.
type asked struct {
	*flowtest.Cluster
	times *int
}

func (a asked) Ask(ctx context.Context, q flows.Question) (flows.Reply, error) {
	if _, ok := q.(flows.AskServices); ok {
		*a.times++
	}
	return a.Cluster.Ask(ctx, q)
}

func TestServicesAreReadWhileTheyAreShown(t *testing.T) {
	times := 0
	onServices(t, func(p *flowtest.Pair, w *world) {
		sharing(t)(p)
		w.replace("kind-milan", asked{p.B, &times})
	}, func(t *testing.T, d *driver) {
		d.has("› Services", "✗ broken shop/api milan 0/1", "✓ ok shop/web milan 1/1, rome 1/1", "no endpoint is ready: milan 0 of 1")
		offer(d.pair.B, "api", "10.244.0.7", true)
		d.wait(10 * time.Second)
		d.has("✓ ok shop/api milan 1/1")
		d.keys("enter")
		d.wait(time.Second)
		d.keys("esc", "enter", "esc") // each page has one loop, however often it is opened
		before := times
		d.wait(20 * time.Second)
		if got := times - before; got < 3 || got > 5 {
			t.Errorf("the Services were read %d times in 20 s, want every 5 s", got)
		}
		d.keys("esc")
		d.wait(10 * time.Second)
		before = times
		d.wait(time.Minute)
		if times != before {
			t.Errorf("the Services were read %d times while nobody looked", times-before)
		}
	})
}

func TestTheWayToAServiceNamesItsFirstBrokenPart(t *testing.T) {
	onServices(t, shared(t), func(t *testing.T, d *driver) {
		d.view(200, 60)
		d.has("› Service shop/api", "✗ broken at: EndpointSlices", "253.", "is 10.244.0.7 in milan", "tunnel to milan", "✗ endpoint 10.244.0.7 in milan it is not ready")
		d.keys("c")
		if d.clip != "liqo-tui service resolve shop/api --kubeconfig /home/ada/.kube/config --context kind-rome --remote-kubeconfig /home/ada/.kube/config --remote-context kind-milan" {
			t.Errorf("got %q copied", d.clip)
		}
		d.keys("esc")
		d.has("› Services", "┃ ✗ broken")
		d.keys("esc")
		d.has("2 contexts")
	}, "enter")
}

// forbidding may not read the exports.
type forbidding struct{ *flowtest.Cluster }

func (f forbidding) Ask(ctx context.Context, q flows.Question) (flows.Reply, error) {
	reply, err := f.Cluster.Ask(ctx, q)
	q2, ok := q.(flows.AskServices)
	if !ok {
		return reply, err
	}
	var all flows.Facts
	reply.Store(&all, time.Now())
	found := *all.Sides[q2.Side].Services.Value()
	found.Exports = services.List[mcsv1beta1.ServiceExport]{Unread: "this user may not read serviceexports"}
	return flows.Read(q2, found), err
}

// What was not read is never called good.
func TestServicesThatWereNotReadAreNotGood(t *testing.T) {
	for name, c := range map[string]struct {
		replace func(*flowtest.Pair) engine.Cluster
		says    []string
	}{
		"no right":  {func(p *flowtest.Pair) engine.Cluster { return forbidding{p.B} }, []string{"? milan: the exports are unread: this user may not read serviceexports", "? not looked shop/web"}},
		"no answer": {func(p *flowtest.Pair) engine.Cluster { return silentAbout{p.B} }, []string{"? milan was not read: no answer within 10s", "? not looked shop/web", "state ? not looked"}},
	} {
		t.Run(name, func(t *testing.T) {
			onServices(t, func(p *flowtest.Pair, w *world) {
				sharing(t)(p)
				w.replace("kind-milan", c.replace(p))
			}, func(_ *testing.T, d *driver) {
				d.wait(15 * time.Second)
				d.has(c.says...)
				d.hasNot("✓ ok")
			})
		})
	}
}

// silentAbout answers no question about Services.
type silentAbout struct{ *flowtest.Cluster }

func (s silentAbout) Ask(ctx context.Context, q flows.Question) (flows.Reply, error) {
	if _, ok := q.(flows.AskServices); ok {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.Cluster.Ask(ctx, q)
}

func TestClustersWithoutServicesSayHowToSwitchThemOn(t *testing.T) {
	onServices(t, func(p *flowtest.Pair, _ *world) { connectedPair(t)(p) }, func(t *testing.T, d *driver) {
		d.has("! rome has no Services by name", "switch them on: liqo-tui install --services", "No Service was found")
		if d.keys("c"); !strings.HasPrefix(d.clip, "liqo-tui install --services") || !strings.HasSuffix(d.clip, "--context kind-rome") {
			t.Errorf("got %q copied", d.clip)
		}
		if screen := d.screen(); strings.Contains(screen, "✓ ok") {
			t.Errorf("got\n%s", screen)
		}
	})
	onServices(t, func(p *flowtest.Pair, w *world) {
		for _, c := range []*flowtest.Cluster{p.A, p.B} {
			c.Behave(func(b *flowtest.Behaviour) { b.Services = true })
		}
		connectedPair(t)(p)
	}, func(_ *testing.T, d *driver) {
		d.has("These clusters share no Service yet.", "liqo-tui service export NAMESPACE/NAME")
	})
}
