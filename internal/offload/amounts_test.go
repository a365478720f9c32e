package offload_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/internal/offload"
)

func amounts(text string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for field := range strings.FieldsSeq(text) {
		name, amount, _ := strings.Cut(field, "=")
		list[corev1.ResourceName(name)] = resource.MustParse(amount)
	}
	return list
}

func container(requests, limits string) corev1.Container {
	return corev1.Container{Resources: corev1.ResourceRequirements{Requests: amounts(requests), Limits: amounts(limits)}}
}

func TestWhatPodsCount(t *testing.T) {
	sidecar := container("cpu=1 memory=1Gi", "")
	sidecar.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	for name, row := range map[string]struct {
		init, containers []corev1.Container
		want             string // with 512Mi of disk, where nothing else is said of it
	}{
		"disk by its limit":      {nil, []corev1.Container{container("cpu=1 memory=1Gi ephemeral-storage=1Gi", "ephemeral-storage=3Gi")}, "cpu=1 memory=1Gi ephemeral-storage=3Gi pods=1"},
		"disk of two":            {nil, []corev1.Container{container("cpu=1 memory=1Gi ephemeral-storage=1Gi", ""), container("cpu=1 memory=1Gi ephemeral-storage=0", "")}, "cpu=2 memory=2Gi ephemeral-storage=1536Mi pods=1"},
		"nothing said":           {nil, []corev1.Container{container("", "")}, "cpu=100m memory=256Mi pods=1"},
		"two":                    {nil, []corev1.Container{container("cpu=1 memory=1Gi", ""), container("cpu=500m memory=1Gi", "")}, "cpu=1500m memory=2Gi ephemeral-storage=1Gi pods=1"},
		"memory by its limit":    {nil, []corev1.Container{container("cpu=1 memory=1Gi", "cpu=4 memory=3Gi")}, "cpu=1 memory=3Gi pods=1"},
		"limits alone":           {nil, []corev1.Container{container("", "cpu=2 memory=3Gi")}, "cpu=2 memory=3Gi pods=1"},
		"one after the other":    {[]corev1.Container{container("cpu=3 memory=1Gi", ""), container("cpu=2 memory=5Gi", "")}, []corev1.Container{container("cpu=1 memory=1Gi", "")}, "cpu=3 memory=5Gi pods=1"},
		"one that goes on":       {[]corev1.Container{sidecar, container("cpu=2 memory=1Gi", "")}, []corev1.Container{container("cpu=1 memory=3Gi", "")}, "cpu=3 memory=4Gi ephemeral-storage=1Gi pods=1"},
		"less than a thousandth": {nil, []corev1.Container{container("cpu=1n memory=100m", "")}, "cpu=1m memory=1 pods=1"},
		"nothing of everything":  {[]corev1.Container{container("cpu=0 memory=0", "")}, []corev1.Container{container("cpu=0 memory=0", "cpu=0 memory=0")}, "cpu=100m memory=256Mi pods=1"},
		"a limit of nothing":     {nil, []corev1.Container{container("cpu=1 memory=1Gi", "memory=0")}, "cpu=1 memory=1Gi pods=1"},
		"of another kind":        {nil, []corev1.Container{container("cpu=1 memory=1Gi example.com/gpu=2", "")}, "cpu=1 memory=1Gi example.com/gpu=2 pods=1"},
	} {
		t.Run(name, func(t *testing.T) {
			p, err := offload.Pod(shadow(func(p *corev1.PodSpec) { p.InitContainers, p.Containers = row.init, row.containers }), "rome")
			if err != nil {
				t.Fatal(err)
			}
			want := amounts(row.want)
			if _, said := want[corev1.ResourceEphemeralStorage]; !said {
				want[corev1.ResourceEphemeralStorage] = resource.MustParse("512Mi")
			}
			if diff := cmp.Diff(want, offload.Sum(&p.Spec)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestWhatFits(t *testing.T) {
	for want, row := range map[string][3]string{
		"":                                     {"cpu=1 memory=1Gi pods=1", "cpu=3 memory=7Gi pods=9", "cpu=4 memory=8Gi pods=10"},
		"cpu: 1 asked for, and so much is not": {"cpu=1 memory=1Gi pods=1", "cpu=3500m memory=7Gi pods=9", "cpu=4 memory=8Gi pods=10"},
		"cpu: 5 asked for, and 4 were granted in": {"cpu=5 pods=1", "", "cpu=4 pods=10"},
		"pods: 1 asked for, and so much is not":   {"cpu=1 pods=1", "pods=10", "cpu=4 pods=10"},
		"example.com/gpu: 1 asked for, and none ": {"cpu=5 example.com/gpu=1", "", "cpu=8"},
		// A request that never fits is named before a request that does not fit now.
		"memory: 9Gi asked for, and 8Gi were": {"cpu=1 memory=9Gi", "cpu=4", "cpu=4 memory=8Gi"},
	} {
		err := offload.Fits(amounts(row[0]), amounts(row[1]), amounts(row[2]))
		if (err == nil) != (want == "") || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// Pods without requests for disk run if no node reports the size of its disk. A pod with a large request does
// not run.
func TestDisksAreBoundedWhereNoneWasGranted(t *testing.T) {
	granted := amounts("cpu=4 memory=8Gi pods=10 ephemeral-storage=0")
	offload.GrantDisk(granted)
	if err := offload.Fits(amounts("ephemeral-storage=512Mi"), amounts("ephemeral-storage=4608Mi"), granted); err != nil {
		t.Errorf("the tenth pod: %v", err)
	}
	if err := offload.Fits(amounts("ephemeral-storage=6Gi"), nil, granted); err == nil {
		t.Error("6Gi are granted where 10 pods are")
	}
	granted = amounts("pods=10 ephemeral-storage=1Gi")
	if offload.GrantDisk(granted); granted.StorageEphemeral().String() != "1Gi" {
		t.Errorf("what was granted became %s", granted.StorageEphemeral())
	}
}

func TestNamesOfTwins(t *testing.T) {
	for name, good := range map[string]bool{ // where an admin allows any
		"demo-rome": true, "liquid": true, "default-rome": true, "kube-system": false, "kube-x": false, "liqo": false, "liqo-tenant-rome": false, "default": false,
		"openshift-x": false, "openshift": false, "home": false, "": false, "A": false, "a.b": false, strings.Repeat("a", 64): false,
	} {
		if err := offload.MappedName(name, "home", "rome", true); (err == nil) != good {
			t.Errorf("%q: got %v", name, err)
		}
	}
	// A Service github in a namespace com would answer for github.com.
	for name, good := range map[string]bool{"demo-rome": true, "a-b-rome": true, "com": false, "prod": false, "rome": false, "-rome": false, "demorome": false, "kube-rome": false, "demo-milan": false} {
		if err := offload.MappedName(name, "home", "rome", false); (err == nil) != good {
			t.Errorf("%q: got %v", name, err)
		}
	}
}

// A namespace for a consumer's pods may not have a name that a program of the provider is going to use.
func TestNamesThatProgramsWant(t *testing.T) {
	for name, good := range map[string]bool{
		"istio-system": false, "flux-system": false, "cert-manager": false, "external-secrets": false, "my-operator": false, "xn--p1ai": false, "xn--x-rome": false,
		"demo-rome": true, "system-rome": true, "payments-prod": true,
	} {
		if err := offload.ForPrograms(name); (err == nil) != good {
			t.Errorf("%q: got %v", name, err)
		}
	}
}

func TestPhases(t *testing.T) {
	pod := func(phase corev1.PodPhase, ends bool) *corev1.Pod {
		p := &corev1.Pod{Status: corev1.PodStatus{Phase: phase}}
		if ends {
			p.DeletionTimestamp = &metav1.Time{}
		}
		return p
	}
	for _, row := range []struct {
		p    *corev1.Pod
		want corev1.PodPhase
	}{
		{pod(corev1.PodRunning, false), corev1.PodRunning},
		{pod(corev1.PodSucceeded, false), corev1.PodSucceeded},
		{pod(corev1.PodFailed, true), corev1.PodPending}, // it is made again
		{pod("", false), corev1.PodPending},
	} {
		if got := offload.Phase(corev1.PodPending, row.p); got != row.want {
			t.Errorf("%+v: got %s, want %s", row.p, got, row.want)
		}
	}
}
