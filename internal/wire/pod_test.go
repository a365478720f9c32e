package wire_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/liqo-tui/liqo-tui/internal/wire"
)

func TestTheAddressOfIPv4IsFound(t *testing.T) {
	for want, all := range map[string][]string{
		"10.0.0.1": {"fd00::1", "10.0.0.1"}, "10.0.0.2": {"10.0.0.2", "fd00::2"}, "": {"fd00::3"},
	} {
		pod, service := corev1.Pod{}, corev1.Service{}
		pod.Status.PodIP, service.Spec.ClusterIP, service.Spec.ClusterIPs = all[0], all[0], all
		for _, a := range all {
			pod.Status.PodIPs = append(pod.Status.PodIPs, corev1.PodIP{IP: a})
		}
		if got := wire.PodIPv4(&pod); got != want {
			t.Errorf("pod with %v: got %q, want %q", all, got, want)
		}
		if got := wire.ServiceIPv4(&service); got != want {
			t.Errorf("Service with %v: got %q, want %q", all, got, want)
		}
	}
	if got := wire.ServiceIPv4(&corev1.Service{Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, ClusterIPs: []string{corev1.ClusterIPNone}}}); got != "" {
		t.Errorf("headless Service: got %q", got)
	}
}

// In clusters with IPv6 first, the first address of a pod or Service is the wrong one.
func TestNobodyTakesTheFirstAddress(t *testing.T) {
	first := regexp.MustCompile(`\.(Status\.PodIP|Spec\.ClusterIP)\b`)
	permitted := map[string]string{
		"internal/wire/pod.go":                  "chooses the family",
		"gateway/virtualnode/decide/status.go":  "writes the status of a remote pod, which has IPv4 addresses alone",
		"gateway/virtualnode/decide/reflect.go": "whether it is headless",
		"internal/services/exported.go":         "whether it is headless",
		"flows/simulated/install.go":            "plays the API server",
	}
	root := filepath.Join("..", "..")
	for _, folder := range []string{"cmd", "flows", "gateway", "internal", "kube", "render", "tui"} {
		err := filepath.WalkDir(filepath.Join(root, folder), func(path string, d fs.DirEntry, err error) error {
			name := strings.TrimPrefix(filepath.ToSlash(path), "../../")
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || permitted[name] != "" {
				return err
			}
			text, err := os.ReadFile(path)
			if at := first.FindString(string(text)); at != "" {
				t.Errorf("%s: %s: use wire.PodIPv4 or wire.ServiceIPv4", name, at)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}
