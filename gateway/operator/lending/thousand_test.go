package lending_test

import (
	"bufio"
	"fmt"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/liqo-tui/liqo-tui/flows/peer"
	"github.com/liqo-tui/liqo-tui/internal/sample"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

// In TestManyPodsAbroad, rome puts a thousand pods on milan's virtual node, and no node of milan takes them.
// Each is written as often as necessary. Then nothing is written, and no object is left.
func TestManyPodsAbroad(t *testing.T) {
	requireAPI(t)
	many := sample.Of(60, 1000)
	rome, milan := newPlane(t, "rome", render.PeeringConsumer), newPlane(t, "milan", render.PeeringProvider)
	until(t, rome, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "liqo", Name: peering.KeysName}}, "made", func(s *corev1.Secret) bool { return len(s.Data) == 2 })
	milan.node("node-a", "4000", "8000Gi")
	large := until(t, milan, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-a"}}, "there", func(*corev1.Node) bool { return true })
	large.Status.Allocatable[corev1.ResourcePods] = resource.MustParse("4000")
	if err := milan.Status().Update(t.Context(), large); err != nil {
		t.Fatal(err)
	}
	rome.runPrograms()
	w := &pair{t: t, rome: rome, milan: milan, proxy: newValve(t, proxy(t)).url, params: peer.Params{CPU: "2000", Memory: "4000Gi", Pods: "2000"}, node: true}
	w.peer(t)
	w.tunnel(t)
	rome.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "demo"}})
	rome.apply(t, offloaded(peering.OffloadingParams{}))
	until(t, rome, member(), "with room for pods", func(n *corev1.Node) bool { return n.Status.Allocatable.Pods().Value() == 2000 })

	before, heap := [2]map[string]int{rome.writes(t), milan.writes(t)}, heapInUse()
	began := time.Now()
	for i := range many {
		rome.create(onMilan("demo", fmt.Sprintf("pod-%04d", i)))
	}
	w.counts(t, many)
	took := time.Since(began)
	const quiet = 5 * time.Second
	time.Sleep(quiet) // nothing may be written in this time
	rested := [2]map[string]int{rome.writes(t), milan.writes(t)}
	grown := heapInUse() - heap
	t.Logf("figure: %d pods abroad after %s, %d KiB each in both operators, the node's program and this test", many, took.Round(time.Millisecond), grown/many>>10)
	for i, bound := range []map[string]float64{
		{"PATCH pods/status": 2.5, "PUT pods/status": 0},
		{"POST shadowpods": 1, "POST pods": 1, "PATCH shadowpods": 0.1, "PATCH shadowpods/status": 1.5, "PUT shadowpods/status": 0, "PATCH pods": 0.1, "PATCH pods/status": 0},
	} {
		for what, most := range bound {
			each := float64(rested[i][what]-before[i][what]) / float64(many)
			t.Logf("figure: %s on %s: %.2f for each", what, []string{"rome", "milan"}[i], each)
			if each > most {
				t.Errorf("%s on %s: %.2f for each pod, at most %.1f are needed", what, []string{"rome", "milan"}[i], each, most)
			}
		}
	}
	if most := many * 100 << 10; sample.All() && grown > most { // with few pods, other memory weighs more
		t.Errorf("the heap grew by %d MiB, want at most %d", grown>>20, most>>20)
	}
	time.Sleep(quiet)
	for i, after := range []map[string]int{rome.writes(t), milan.writes(t)} {
		for what, n := range after {
			if strings.Contains(what, "pods") && n > rested[i][what] {
				t.Errorf("at rest there are %d more of %s on %s", n-rested[i][what], what, []string{"rome", "milan"}[i])
			}
		}
	}
	began = time.Now()
	if err := rome.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace("demo"), client.GracePeriodSeconds(1)); err != nil {
		t.Fatal(err)
	}
	w.counts(t, 0)
	t.Logf("figure: they are gone after %s", time.Since(began).Round(time.Millisecond))
}

// counts waits until there are so many pods here, and so many ShadowPods and Pods there.
func (w *pair) counts(t *testing.T, want int) {
	t.Helper()
	var got [3]int
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(200 * time.Millisecond) {
		var here, there corev1.PodList
		var shadows offloadingv1beta1.ShadowPodList
		for _, err := range []error{
			w.rome.List(t.Context(), &here, client.InNamespace("demo")), w.milan.List(t.Context(), &there, client.InNamespace("demo-rome")),
			w.milan.List(t.Context(), &shadows, client.InNamespace("demo-rome")),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if got = [3]int{len(here.Items), len(shadows.Items), len(there.Items)}; got == [3]int{want, want, want} {
			return
		}
	}
	t.Fatalf("got %d pods here, %d ShadowPods there and %d Pods there, want %d of each", got[0], got[1], got[2], want)
}

var request = regexp.MustCompile(`^apiserver_request_total\{code="2\d\d",.*resource="([^"]*)",.*subresource="([^"]*)",verb="(POST|PUT|PATCH|APPLY|DELETE)",.*\} (\S+)$`)

// writes returns the number of changing requests since the start of the API server, by verb, resource and
// subresource. A server-side apply counts as a patch.
func (p *plane) writes(t *testing.T) map[string]int {
	t.Helper()
	api, err := kubernetes.NewForConfig(p.config)
	if err != nil {
		t.Fatal(err)
	}
	text, err := api.RESTClient().Get().AbsPath("/metrics").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]int{}
	for lines := bufio.NewScanner(strings.NewReader(string(text))); lines.Scan(); {
		m := request.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		n, err := strconv.ParseFloat(m[4], 64)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(strings.Replace(m[3], "APPLY", "PATCH", 1)+" "+m[1]+"/"+m[2], "/")] += int(n)
	}
	return all
}

// heapInUse returns the memory of this process after unused memory was freed.
func heapInUse() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
