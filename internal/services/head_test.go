package services_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	mcsv1beta1 "sigs.k8s.io/mcs-api/pkg/apis/v1beta1"

	"github.com/liqo-tui/liqo-tui/internal/services"
)

func fullHead() services.Head {
	return services.Head{
		Type: mcsv1beta1.ClusterSetIP, Created: metav1.NewTime(time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)),
		Ports: []services.Port{
			{Name: "web", Protocol: corev1.ProtocolTCP, Number: 80, AppProtocol: new("kubernetes.io/h2c"), InSlices: new("http")},
			{Name: "dns", Protocol: corev1.ProtocolUDP, Number: 53},
		},
		IPFamilies:      []corev1.IPFamily{corev1.IPv4Protocol},
		SessionAffinity: corev1.ServiceAffinityClientIP, SessionAffinityConfig: &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(10))}},
		InternalTrafficPolicy: new(corev1.ServiceInternalTrafficPolicyLocal), TrafficDistribution: new(corev1.ServiceTrafficDistributionPreferSameZone),
		PublishNotReadyAddresses: true,
		Labels:                   map[string]string{"tier": "gold"}, Annotations: map[string]string{"example.org/about": "line 1\nline 2"},
	}
}

func TestAHeadIsReadAsItWasWritten(t *testing.T) {
	want := fullHead()
	text, err := want.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := services.ParseHead(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("it was read as (-want +got):\n%s", diff)
	}
}

// Later releases may write further fields.
func TestAHeadOfALaterReleaseIsRead(t *testing.T) {
	got, err := services.ParseHead(`{"type":"Headless","created":"2026-03-01T09:00:00Z","trafficDistribution":"PreferSameRack","colour":"red",
		"ports":[{"name":"web","protocol":"TCP","port":80,"inSlices":"web","weight":3}]}`)
	if err != nil || got.Type != mcsv1beta1.Headless || len(got.Ports) != 1 || got.TrafficDistribution != nil {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestAHeadThatNoServiceCanHaveIsRefused(t *testing.T) {
	valid := fullHead()
	text, err := valid.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, old, put, want string }{
		{"type", `"ClusterSetIP"`, `"ExternalName"`, `type "ExternalName"`},
		{"no time", `"2026-03-01T09:00:00Z"`, `null`, "no time"},
		{"no ports", `"ports":`, `"others":`, "no ports"},
		{"port name with a path", `"name":"web"`, `"name":"../web"`, `name "../web"`},
		{"port name with an escape", `"name":"web"`, `"name":"\u001b[2J"`, `name "?[2J"`},
		{"port without a name", `"name":"web",`, ``, `name ""`},
		{"two names", `"name":"dns"`, `"name":"web"`, `two ports with the name "web"`},
		{"two numbers", `"protocol":"UDP","port":53`, `"protocol":"TCP","port":80`, "two ports 80/TCP"},
		{"two names in slices", `"inSlices":null`, `"inSlices":"http"`, `slices call "http"`},
		{"name in slices", `"inSlices":"http"`, `"inSlices":"a b"`, `slices call "a b"`},
		{"port 0", `"port":53`, `"port":0`, "port 0"},
		{"port 65536", `"port":53`, `"port":65536`, "port 65536"},
		{"protocol", `"UDP"`, `"ICMP"`, `protocol "ICMP"`},
		{"application protocol", `"kubernetes.io/h2c"`, `"a/b/c"`, `application protocol "a/b/c"`},
		{"family", `["IPv4"]`, `["IPX"]`, `family "IPX"`},
		{"two families", `["IPv4"]`, `["IPv4","IPv4"]`, "repeats an address family"},
		{"affinity", `"ClientIP"`, `"Cookie"`, `affinity "Cookie"`},
		{"affinity without", `"sessionAffinity":"ClientIP",`, ``, "does not have"},
		{"affinity for ever", `"timeoutSeconds":10`, `"timeoutSeconds":86401`, "timeout"},
		{"affinity without a time", `"timeoutSeconds":10`, `"timeoutSeconds":null`, "timeout"},
		{"policy", `"internalTrafficPolicy":"Local"`, `"internalTrafficPolicy":"Remote"`, `internalTrafficPolicy "Remote"`},
		{"not JSON", `{"type"`, "\x1b", "not a description"},
		{"other JSON", text, `[]`, "not a description"},
		{"too long", `"line 1`, `"` + strings.Repeat("x", 15000), "at most 14492"},
	} {
		t.Run(c.name, func(t *testing.T) {
			changed := strings.Replace(text, c.old, c.put, 1)
			if changed == text {
				t.Fatalf("%s is not in %s", c.old, text)
			}
			if h, err := services.ParseHead(changed); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\x1b") {
				t.Errorf("got %v and %+v, want %q", err, h, c.want)
			}
		})
	}
	valid.Annotations["long"] = strings.Repeat("x", 15000)
	if _, err := valid.Encode(); err == nil {
		t.Error("a head was written that nobody reads")
	}
}

// Some labels and annotations control programs. Another cluster must not control them.
func TestReservedLabelsStayAtHome(t *testing.T) {
	h := fullHead()
	for _, key := range []string{"liqo-tui.dev/export-to", "liqo.io/managed", "offloading.liqo.io/x", "multicluster.kubernetes.io/derived-service", "kubectl.kubernetes.io/last-applied-configuration", "app.kubernetes.io/managed-by", "a b", "", "../x", "x/y/z"} {
		h.Labels[key], h.Annotations[key] = "a", "a"
	}
	h.Labels["about"], h.Annotations["about"] = "a b c", "\x1b[2J"
	text, err := h.Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := services.ParseHead(text)
	if err != nil {
		t.Fatal(err)
	}
	want := fullHead()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("it was read as (-want +got):\n%s", diff)
	}
}
