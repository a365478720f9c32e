package decide

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liqo-tui/liqo-tui/internal/offload/network"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

var (
	start = time.Unix(1000, 0)
	view  = View{Consumer: "rome", Provider: "milan", Node: "milan", Mapped: "demo-rome", Known: true}
)

func pod(change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "demo", Name: "web", UID: "u1", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "milan", Containers: []corev1.Container{{Name: "web", Image: "web:1"}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending, QOSClass: corev1.PodQOSBestEffort, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
		}},
	}
	for _, f := range change {
		f(p)
	}
	return p
}

func ends(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: start} }

// copyOf returns a pod that runs on the provider.
func copyOf(change ...func(*corev1.Pod)) *corev1.Pod {
	c := pod()
	c.Namespace, c.UID, c.Spec.NodeName = "demo-rome", "c1", "node-a"
	c.Status = corev1.PodStatus{
		Phase: corev1.PodRunning, PodIP: "10.244.0.7", PodIPs: []corev1.PodIP{{IP: "10.244.0.7"}}, HostIP: "192.0.2.1", StartTime: &metav1.Time{Time: start},
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: start}},
			{Type: corev1.ContainersReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: start}},
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Time{Time: start}},
		},
		ContainerStatuses: []corev1.ContainerStatus{{Name: "web", Ready: true, ContainerID: "containerd://x"}, {Name: "added", Ready: true}},
		QOSClass:          corev1.PodQOSGuaranteed,
	}
	for _, f := range change {
		f(c)
	}
	return c
}

func TestEachFieldOfAPodIsDecidedOn(t *testing.T) {
	refused := []string{"HostNetwork", "HostPID", "HostIPC", "RuntimeClassName", "ResourceClaims"}
	known := slices.Concat(asked, left, refused)
	for field := range reflect.TypeFor[corev1.PodSpec]().Fields() {
		if !slices.Contains(known, field.Name) {
			t.Errorf("nobody has decided what becomes of %s", field.Name)
		}
	}
	slices.Sort(known)
	if n := len(slices.Compact(slices.Clone(known))); n != len(known) || n != reflect.TypeFor[corev1.PodSpec]().NumField() {
		t.Errorf("%d fields are decided on, of %d", len(known), reflect.TypeFor[corev1.PodSpec]().NumField())
	}
}

func TestAShadowPodIsWhatMeansSomethingAbroad(t *testing.T) {
	p := pod(func(p *corev1.Pod) {
		p.Labels["liqo.io/shadowPod"], p.Labels["offloading.liqo.io/origin"] = "true", "forged"
		p.Annotations = map[string]string{"a": "b", "liqo-tui.dev/problem": "forged", corev1.LastAppliedConfigAnnotation: "{}"}
		s := &p.Spec
		s.ServiceAccountName, s.SchedulerName, s.NodeSelector, s.PriorityClassName = "admin", "other", map[string]string{"a": "b"}, "high"
		s.Tolerations, s.HostUsers, s.TerminationGracePeriodSeconds = []corev1.Toleration{peering.Toleration()}, new(false), new(int64(7))
		s.Volumes = []corev1.Volume{
			{Name: "kube-api-access-x", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}}}}},
			{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
		}
		s.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "kube-api-access-x", MountPath: "/a"}, {Name: "scratch", MountPath: "/b"}}
	})
	if why := Unrunnable(&p.Spec); why != "" {
		t.Fatalf("it can't be asked for: %s", why)
	}
	before := p.DeepCopy()
	o := ShadowPod(p, view)
	if diff := cmp.Diff(before, p); diff != "" {
		t.Errorf("the pod has changed:\n%s", diff)
	}
	want := corev1.PodSpec{
		Containers: []corev1.Container{{Name: "web", Image: "web:1", VolumeMounts: []corev1.VolumeMount{{Name: "scratch", MountPath: "/b"}}}},
		Volumes:    []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		HostUsers:  new(false), TerminationGracePeriodSeconds: new(int64(7)), AutomountServiceAccountToken: new(false), EnableServiceLinks: new(false),
	}
	if diff := cmp.Diff(want, o.Spec.Pod); diff != "" {
		t.Errorf("asked for (-want +got):\n%s", diff)
	}
	labels := map[string]string{"app": "web", "offloading.liqo.io/origin": "rome", "offloading.liqo.io/destination": "milan", "offloading.liqo.io/nodename": "milan"}
	if diff := cmp.Diff(labels, o.Labels); diff != "" || o.Namespace != "demo-rome" || o.Name != "web" {
		t.Errorf("%s/%s, labels (-want +got):\n%s", o.Namespace, o.Name, diff)
	}
	if diff := cmp.Diff(map[string]string{"a": "b", "liqo-tui.dev/of-pod": "u1"}, o.Annotations); diff != "" {
		t.Errorf("annotations (-want +got):\n%s", diff)
	}
}

// Kubernetes allows changes of some fields of a bound pod. Each change is sent to the provider's pod, or
// reported, or only concerns this cluster.
func TestAChangeOfAPodIsSentOrTold(t *testing.T) {
	debug := func(image string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.EphemeralContainers = append(p.Spec.EphemeralContainers, corev1.EphemeralContainer{EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "dbg", Image: image}})
		}
	}
	again := "; recreate the pod: kubectl -n demo get pod web -o yaml | kubectl replace --force -f -"
	for name, c := range map[string]struct {
		change func(*corev1.Pod)
		labels map[string]string // the pod's own labels after the change
		told   string
	}{
		"nothing":               {func(*corev1.Pod) {}, nil, ""},
		"a label":               {func(p *corev1.Pod) { p.Labels["role"] = "leader" }, map[string]string{"app": "web", "role": "leader"}, ""},
		"a label's value":       {func(p *corev1.Pod) { p.Labels["app"] = "other" }, map[string]string{"app": "other"}, ""},
		"a label that goes":     {func(p *corev1.Pod) { p.Labels = nil }, map[string]string{"app": ""}, ""},
		"a label of ours":       {func(p *corev1.Pod) { p.Labels["liqo.io/shadowPod"] = "true" }, nil, ""},
		"an annotation":         {func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} }, nil, ""},                                     // has no meaning on the provider
		"tolerations":           {func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} }, nil, ""}, // have a meaning only for nodes here
		"an image":              {func(p *corev1.Pod) { p.Spec.Containers[0].Image = "web:2" }, nil, "container web has image web:1, not web:2" + again},
		"an init image":         {func(p *corev1.Pod) { p.Spec.InitContainers[0].Image = "init:2" }, nil, "container init has image init:1, not init:2" + again},
		"a deadline":            {func(p *corev1.Pod) { p.Spec.ActiveDeadlineSeconds = new(int64(9)) }, nil, "activeDeadlineSeconds keeps its former value" + again},
		"an ephemeral one":      {debug("busybox"), nil, "ephemeral container dbg does not start; debug the remote pod: kubectl -n demo-rome debug -it web --image busybox --context CONTEXT-OF-milan"},
		"one of a hostile name": {debug("x; reboot"), nil, "--image 'x; reboot'"},
		"a label and an image":  {func(p *corev1.Pod) { p.Labels["role"], p.Spec.Containers[0].Image = "leader", "web:2" }, map[string]string{"app": "web", "role": "leader"}, "web:2"},
	} {
		t.Run(name, func(t *testing.T) {
			p := pod(func(p *corev1.Pod) { p.Spec.InitContainers = []corev1.Container{{Name: "init", Image: "init:1"}} })
			o := ShadowPod(p, view)
			o.Labels["liqo.io/of-the-provider"] = "stays"
			o.UID = "s1"
			shadow := ShadowOf(o)
			c.change(p)
			a := view.Decide(p, shadow, copyOf(), start)
			want := c.labels
			if want != nil {
				maps.Copy(want, map[string]string{
					"offloading.liqo.io/origin": "rome", "offloading.liqo.io/destination": "milan", "offloading.liqo.io/nodename": "milan", "liqo.io/of-the-provider": "stays",
				})
			}
			if diff := cmp.Diff(want, a.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if !strings.Contains(a.Unsent, c.told) || (a.Unsent == "") != (c.told == "") || a.Unsent != "" && !strings.HasPrefix(a.Unsent, "milan does not get this change of the pod: ") {
				t.Errorf("told %q, want %q", a.Unsent, c.told)
			}
			if shadow.Labels = a.Labels; a.Labels != nil && view.Decide(p, shadow, copyOf(), start).Labels != nil {
				t.Error("the labels are sent again and again")
			}
			ends(p)
			if a := view.Decide(p, shadow, copyOf(), start); a.Labels != nil || a.Unsent != "" {
				t.Errorf("of a pod that ends: %+v", a)
			}
		})
	}
}

func TestPodsThatCanNotGo(t *testing.T) {
	volume := func(s corev1.VolumeSource) func(*corev1.PodSpec) {
		return func(p *corev1.PodSpec) { p.Volumes = []corev1.Volume{{Name: "data", VolumeSource: s}} }
	}
	for name, c := range map[string]struct {
		change func(*corev1.PodSpec)
		why    string
	}{
		"an ordinary one":      {func(*corev1.PodSpec) {}, ""},
		"the host's network":   {func(p *corev1.PodSpec) { p.HostNetwork = true }, "hostNetwork"},
		"the host's processes": {func(p *corev1.PodSpec) { p.HostPID, p.HostIPC = true, true }, "hostIPC, hostPID"},
		"a port of the host":   {func(p *corev1.PodSpec) { p.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 80}} }, "a hostPort of container web"},
		"a claim":              {volume(corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{}}), "volume data (persistentVolumeClaim)"},
		"a path of the host":   {volume(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}), "volume data (hostPath)"},
		"a file server":        {volume(corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}}), "volume data (nfs)"},
		"an ephemeral claim":   {volume(corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}), "volume data (ephemeral)"},
		"a driver":             {volume(corev1.VolumeSource{CSI: &corev1.CSIVolumeSource{}}), "volume data (csi)"},
		"nothing":              {volume(corev1.VolumeSource{}), "volume data (of an unknown kind)"},
		"a ConfigMap":          {volume(corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}}), ""},
		"a projection":         {volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{Secret: &corev1.SecretProjection{}}}}}), ""},
		"a token":              {volume(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{}}}}}), "volume data (projected)"},
		"a sandbox":            {func(p *corev1.PodSpec) { p.RuntimeClassName = new("gvisor") }, "runtimeClassName"},
		"Liqo's":               {func(p *corev1.PodSpec) { p.RuntimeClassName = new("liqo") }, ""},
		"a device":             {func(p *corev1.PodSpec) { p.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu"}} }, "resourceClaims"},
	} {
		t.Run(name, func(t *testing.T) {
			p := pod()
			c.change(&p.Spec)
			if got := Unrunnable(&p.Spec); got != c.why {
				t.Errorf("got %q, want %q", got, c.why)
			}
			a := view.Decide(p, nil, nil, start)
			if a.Ask != (c.why == "") || (c.why != "") != (a.Status != nil && a.Status.Phase == corev1.PodPending && a.Status.Reason == peering.ReasonUnfit && strings.HasSuffix(a.Status.Message, c.why)) {
				t.Errorf("decided %+v", a)
			}
		})
	}
}

func TestAStatusIsTheProvidersWithExceptions(t *testing.T) {
	v := view
	v.Connected, v.Ranges = true, network.Ranges{{Own: netip.MustParsePrefix("10.244.0.0/16"), Seen: netip.MustParsePrefix("253.18.0.0/16")}}
	ready := func(s *corev1.PodStatus) corev1.PodCondition { return s.Conditions[readiness(s.Conditions)] }
	got := v.running(pod(), copyOf(), start.Add(time.Hour))
	if got.Phase != corev1.PodRunning || got.PodIP != "253.18.0.7" || len(got.PodIPs) != 1 || got.HostIP != "" || got.QOSClass != corev1.PodQOSBestEffort || !got.StartTime.Equal(&metav1.Time{Time: start}) {
		t.Errorf("got %+v", got)
	}
	if len(got.ContainerStatuses) != 1 || got.ContainerStatuses[0].ContainerID != "containerd://x" || ready(got).Status != corev1.ConditionTrue {
		t.Errorf("got %+v", got)
	}
	outside := copyOf(func(c *corev1.Pod) { c.Status.PodIPs = []corev1.PodIP{{IP: "10.96.0.1"}, {IP: "x"}} })
	if s := v.running(pod(), outside, start); s.PodIP != "" || s.PodIPs != nil {
		t.Errorf("an address outside of the provider's ranges: got %v", s.PodIPs)
	}
	v.Ranges = nil
	if s := v.running(pod(), copyOf(), start); s.PodIP != "" {
		t.Errorf("as long as ranges are not known: got %s", s.PodIP)
	}
	v.Connected = false
	if s := v.running(pod(), copyOf(), start); s.PodIP != "10.244.0.7" {
		t.Errorf("without a tunnel of ours: got %s", s.PodIP)
	}
	waits := copyOf(func(c *corev1.Pod) {
		c.Status = corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "no node"}}}
	})
	if s := v.running(pod(), waits, start); s.Reason != peering.ReasonUnschedulable || s.Message != "milan: no node" || s.Conditions[0].Status != corev1.ConditionTrue {
		t.Errorf("waits for a node: got %+v", s)
	}
	gated := pod(func(p *corev1.Pod) { p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "a/b"}} })
	if c := ready(v.running(gated, copyOf(), start)); c.Status != corev1.ConditionFalse || !strings.Contains(c.Message, "a/b") {
		t.Errorf("with a gate: got %+v", c)
	}
	gated.Status.Conditions = append(gated.Status.Conditions, corev1.PodCondition{Type: "a/b", Status: corev1.ConditionTrue})
	if c := ready(v.running(gated, copyOf(), start)); c.Status != corev1.ConditionTrue {
		t.Errorf("with an open gate: got %+v", c)
	}
}

func TestReadinessFollowsTheTunnelAndNotTheAPI(t *testing.T) {
	runs := pod()
	runs.Status = *view.running(runs, copyOf(), start)
	v := view
	v.Known, v.Connected = false, true
	if a := v.Decide(runs, nil, nil, start); !reflect.DeepEqual(a, Action{}) {
		t.Errorf("the provider can't be asked: got %+v", a)
	}
	// Kubernetes does this with each pod of a node that is not ready.
	marked := runs.DeepCopy()
	marked.Status.Conditions[readiness(marked.Status.Conditions)].Status = corev1.ConditionFalse
	if a := v.Decide(marked, nil, nil, start); a.Status == nil || a.Status.Conditions[readiness(a.Status.Conditions)].Status != corev1.ConditionTrue {
		t.Errorf("Kubernetes says that it is not ready: got %+v", a)
	}
	gated := marked.DeepCopy()
	gated.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/open"}}
	if a := v.Decide(gated, nil, nil, start); a.Status != nil && a.Status.Conditions[readiness(a.Status.Conditions)].Status == corev1.ConditionTrue {
		t.Errorf("its readiness gate is not open: got %+v", a.Status)
	}
	marked.Status.Conditions = slices.DeleteFunc(marked.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.ContainersReady })
	if a := v.Decide(marked, nil, nil, start); !reflect.DeepEqual(a, Action{}) {
		t.Errorf("its containers are not known to be ready: got %+v", a)
	}
	v.Down = "silent"
	cut := v.Decide(runs, nil, nil, start.Add(time.Minute))
	if cut.Status == nil || cut.Status.Phase != corev1.PodRunning || cut.Withdraw != "" {
		t.Fatalf("cut off: got %+v", cut)
	}
	if c := cut.Status.Conditions[readiness(cut.Status.Conditions)]; c.Status != corev1.ConditionFalse || c.Reason != peering.ReasonTunnelDown || !c.LastTransitionTime.Time.Equal(start.Add(time.Minute)) {
		t.Errorf("cut off: got %+v", c)
	}
	runs.Status = *cut.Status
	if a := v.Decide(runs, nil, nil, start.Add(time.Hour)); a.Status != nil {
		t.Errorf("still cut off: got %+v", a.Status)
	}
	whole := v
	whole.Down = ""
	if a := whole.Decide(runs, nil, nil, start.Add(time.Hour)); a.Status == nil || a.Status.Conditions[readiness(a.Status.Conditions)].Status != corev1.ConditionTrue {
		t.Errorf("connected again, and the provider can't be asked: got %+v", a)
	}
	v.Known = true
	shadow := &Shadow{UID: "s1", Of: "u1"}
	if a := v.Decide(runs, shadow, copyOf(), start.Add(time.Hour)); a.Status != nil && a.Status.Conditions[readiness(a.Status.Conditions)].Status != corev1.ConditionFalse {
		t.Errorf("the provider says ready, and no packets pass: got %+v", a.Status)
	}
	v.Down, v.Ranges = "", network.Ranges{{Own: netip.MustParsePrefix("10.244.0.0/16"), Seen: netip.MustParsePrefix("10.244.0.0/16")}}
	if a := v.Decide(runs, shadow, copyOf(), start.Add(2*time.Hour)); a.Status == nil || a.Status.Conditions[readiness(a.Status.Conditions)].Status != corev1.ConditionTrue {
		t.Errorf("connected again: got %+v", a)
	}
}

func TestWhatIsToBeDoneForAPod(t *testing.T) {
	mine, others := &Shadow{UID: "s1", Of: "u1"}, &Shadow{UID: "s0", Of: "u0"}
	gone, othersGone := &Shadow{UID: "s1", Of: "u1", Gone: true}, &Shadow{UID: "s0", Of: "u0", Gone: true}
	going, refused := &Shadow{UID: "s1", Of: "u1", Deleting: true}, &Shadow{UID: "s1", Of: "u1", Problem: "too much"}
	over := pod(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	failed := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	nowhere := view
	nowhere.Mapped = ""
	leaving := nowhere
	leaving.Going = true
	unsaid := nowhere
	unsaid.Unsaid = true
	runs := func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }
	for name, c := range map[string]struct {
		view   View
		pod    *corev1.Pod
		shadow *Shadow
		copied *corev1.Pod
		want   string
	}{
		"nothing":                            {view, nil, nil, nil, ""},
		"a new pod":                          {view, pod(), nil, nil, "ask"},
		"was asked for":                      {view, pod(), mine, nil, "OffloadingAsked"},
		"runs":                               {view, pod(), mine, copyOf(), "Running"},
		"has failed there":                   {view, pod(), mine, copyOf(failed), "Failed"},
		"was deleted there, and has ended":   {view, pod(), mine, copyOf(failed, ends), "OffloadingAsked"},
		"is refused":                         {view, pod(), refused, nil, "OffloadingRefused"},
		"has ended, and its copy is gone":    {view, pod(), &Shadow{UID: "s1", Of: "u1", Phase: corev1.PodFailed}, nil, "EndedUnseen"},
		"is over":                            {view, over, mine, copyOf(), ""},
		"is over, and its copy is gone":      {view, over, nil, nil, ""},
		"is over, and is deleted":            {view, pod(ends, failed), mine, copyOf(), "withdraw s1"},
		"is deleted here":                    {view, nil, gone, copyOf(), "withdraw s1"},
		"is not here":                        {view, nil, mine, copyOf(), ""},
		"is gone here, and goes there":       {view, nil, going, copyOf(), ""},
		"is deleted":                         {view, pod(ends), mine, copyOf(), "withdraw s1 Running"},
		"is deleted, and ends":               {view, pod(ends), nil, copyOf(), "Running"},
		"is deleted, and has ended":          {view, pod(ends), nil, nil, "forget"},
		"is deleted before it was asked for": {view, pod(ends), nil, nil, "forget"},
		"another of the same name":           {view, pod(), others, copyOf(), "adopt s0"},
		"another one, the first is deleted":  {view, pod(), othersGone, copyOf(), "withdraw s0"},
		"another one, and it is deleted":     {view, pod(ends), others, copyOf(), "withdraw s0 Running"},
		"another of the same name ends":      {view, pod(), nil, copyOf(), ""},
		"its ShadowPod was deleted there":    {view, pod(), going, copyOf(), ""},
		"not offloaded":                      {nowhere, pod(), nil, nil, "NamespaceNotOffloaded"},
		"not offloaded, and deleted":         {nowhere, pod(ends), nil, nil, "forget"},
		"not offloaded, and over":            {nowhere, over, nil, nil, ""},
		"it goes there":                      {leaving, pod(), nil, nil, "NamespaceNotOffloaded"},
		"it goes there, and is deleted":      {leaving, pod(ends), nil, nil, ""},
		"it goes there, and has ended here":  {leaving, pod(ends, failed), nil, nil, "forget"},
		"not answered, and runs":             {unsaid, pod(runs), nil, nil, ""},
		"not answered, runs, and is deleted": {unsaid, pod(runs, ends), nil, nil, ""},
		"not answered, and new":              {unsaid, pod(), nil, nil, "NamespaceNotOffloaded"},
		"not answered, and has ended here":   {unsaid, pod(ends, failed), nil, nil, "forget"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := c.view.Decide(c.pod, c.shadow, c.copied, start).String(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// A Job relies on its pod's status. It would wait for ever for a pod that ended while no program ran, and
// whose copy the provider has removed.
func TestAPodThatEndedUnseenHasEnded(t *testing.T) {
	for _, phase := range []corev1.PodPhase{corev1.PodSucceeded, corev1.PodFailed} {
		a := view.Decide(pod(), &Shadow{UID: "s1", Of: "u1", Phase: phase}, nil, start)
		if a.Status == nil || a.Status.Phase != phase || !strings.Contains(a.Status.Message, "milan reports that it has ended") || a.Ask {
			t.Errorf("got %+v, want %s", a, phase)
		}
	}
}

// String returns the text that tables compare.
func (a Action) String() string {
	var out []string
	if a.Withdraw != "" {
		out = append(out, "withdraw "+string(a.Withdraw))
	}
	if a.Adopt != "" {
		out = append(out, "adopt "+string(a.Adopt))
	}
	if a.Ask {
		out = append(out, "ask")
	}
	if a.Forget {
		out = append(out, "forget")
	}
	if a.Status != nil {
		if a.Status.Reason != "" {
			out = append(out, a.Status.Reason)
		} else {
			out = append(out, string(a.Status.Phase))
		}
	}
	return strings.Join(out, " ")
}

// world simulates the pods of one name on both clusters, the provider's work, and random events.
type world struct {
	pod    *corev1.Pod
	same   bool // all pods of this name have the same spec
	shadow *Shadow
	copied *corev1.Pod
	made   int
}

func (w *world) act(v View, now time.Time) (changed bool, err error) {
	a := v.Decide(w.pod, w.shadow, w.copied, now)
	if a.Withdraw != "" && !w.shadow.Gone && (w.pod == nil || w.pod.DeletionTimestamp == nil) {
		return false, fmt.Errorf("withdraws what nobody has deleted")
	}
	if a.Adopt != "" && !w.same {
		a.Withdraw, a.Adopt = a.Adopt, ""
	}
	if !v.Known && (a.Withdraw != "" || a.Adopt != "" || a.Ask || a.Forget) {
		return false, fmt.Errorf("acts blindly: %s", a)
	}
	if a.Withdraw != "" {
		if w.shadow == nil || w.shadow.UID != a.Withdraw {
			return false, fmt.Errorf("withdraws %s", a.Withdraw)
		}
		w.shadow = nil
	}
	if a.Adopt != "" {
		w.shadow.Of = w.pod.UID
	}
	if a.Ask {
		if w.shadow != nil || w.copied != nil {
			return false, fmt.Errorf("asks for what is there")
		}
		w.made++
		w.shadow = &Shadow{UID: types.UID(fmt.Sprint("s", w.made)), Of: w.pod.UID}
	}
	if a.Status != nil {
		if a.Status.Phase == corev1.PodFailed {
			return false, fmt.Errorf("a pod that did not fail is said to have")
		}
		w.pod = w.pod.DeepCopy()
		w.pod.Status = *a.Status
	}
	if a.Forget {
		if w.copied != nil {
			return false, fmt.Errorf("forgets a pod that runs")
		}
		w.pod = nil
	}
	return a.String() != "", nil
}

// provide does one step of the provider's work.
func (w *world) provide() bool {
	switch {
	case w.copied != nil && w.shadow == nil:
		w.copied = nil
	case w.copied == nil && w.shadow != nil && w.shadow.Problem == "":
		w.copied = copyOf(func(c *corev1.Pod) { c.UID = types.UID(fmt.Sprint("c", w.made)) })
	default:
		return false
	}
	return true
}

func TestFromAnywhereAPodEndsAsItShould(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := &world{made: 1, same: r.IntN(2) == 0}
		some := func(n int) bool { return r.IntN(n) == 0 }
		if !some(4) {
			w.pod = pod()
		}
		if !some(3) {
			w.shadow = &Shadow{UID: "s1", Of: []types.UID{"u1", "u0"}[r.IntN(2)], Gone: some(2)}
		}
		if !some(3) {
			w.copied = copyOf()
		}
		v, now := view, start
		for range 30 {
			v.Known, v.Down = !some(3), []string{"", "silent"}[r.IntN(2)]
			switch r.IntN(7) {
			case 0:
				if w.pod != nil {
					ends(w.pod)
				}
			case 1:
				if w.pod == nil {
					w.pod = pod(func(p *corev1.Pod) { p.UID = types.UID(fmt.Sprint("u", seed+10)) })
				}
			case 2:
				w.copied = nil // the provider loses the remote pod
			case 3:
				w.provide()
			case 4:
				if w.pod != nil && w.shadow != nil && w.shadow.Of == w.pod.UID { // the pod is deleted by force
					w.pod, w.shadow.Gone = nil, true
				}
			}
			now = now.Add(time.Second)
			if _, err := w.act(v, now); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		v.Known, v.Down = true, ""
		changed := true
		for n := 0; changed && n < 20; n++ {
			acted, err := w.act(v, now)
			if err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			changed = w.provide() || acted
		}
		switch {
		case changed:
			t.Fatalf("seed %d: it never rests", seed)
		case w.pod == nil && w.shadow != nil && !w.shadow.Gone && w.copied != nil: // no deletion was seen, so the ShadowPod stays
		case w.pod == nil && (w.shadow != nil || w.copied != nil), w.pod != nil && w.pod.DeletionTimestamp != nil:
			t.Fatalf("seed %d: left: %+v", seed, w)
		case w.pod != nil && (w.shadow == nil || w.shadow.Of != w.pod.UID || w.copied == nil || w.pod.Status.Phase != corev1.PodRunning):
			t.Fatalf("seed %d: does not run: %+v", seed, w)
		}
	}
}
