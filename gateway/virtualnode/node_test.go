package virtualnode

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	offloadingv1beta1 "github.com/liqotech/liqo/apis/offloading/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/internal/offload/network"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/render/peering"
)

var granted = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2"), corev1.ResourceMemory: resource.MustParse("1Gi"), corev1.ResourcePods: resource.MustParse("110")}

func TestANodeIsReadyIfAllIsWell(t *testing.T) {
	for name, c := range map[string]struct {
		known  known
		status corev1.ConditionStatus
		reason string
		text   string
	}{
		"all is well":      {known{granted: granted}, corev1.ConditionTrue, reasonAnswers, "the API server of milan answers; no namespace is offloaded to it"},
		"offloaded":        {known{granted: granted, mapped: map[string]string{"a": "", "demo": "demo-rome"}}, corev1.ConditionTrue, reasonAnswers, "the API server of milan answers"},
		"nothing granted":  {known{}, corev1.ConditionFalse, reasonNotGranted, "milan grants no CPU"},
		"no memory":        {known{granted: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}}, corev1.ConditionFalse, reasonNotGranted, "or no memory"},
		"not asked yet":    {known{granted: granted, answer: errNotAsked}, corev1.ConditionFalse, reasonUnreachable, "milan: its API server has not answered yet"},
		"silent, at first": {known{granted: granted, answer: errors.New("x"), waits: true}, corev1.ConditionTrue, reasonSilent, "milan: x; the node is not ready if that lasts"},
		"the operator":     {known{granted: granted, problem: "drained"}, corev1.ConditionFalse, reasonRefused, "drained"},
		"both":             {known{granted: granted, problem: "drained", answer: errors.New("x")}, corev1.ConditionFalse, reasonRefused, "drained"},
		"the tunnel alone": {known{granted: granted, tunnel: network.Tunnel{There: true, Down: "x"}}, corev1.ConditionTrue, reasonAnswers, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c.known.provider = "milan"
			got := c.known.ready()
			if got.Status != c.status || got.Reason != c.reason || !strings.Contains(got.Message, c.text) {
				t.Errorf("got %s %s: %s", got.Status, got.Reason, got.Message)
			}
		})
	}
	if a := (known{granted: granted, mapped: map[string]string{"demo": ""}}).allocatable(); !a.Pods().IsZero() || a.Cpu().String() != "2" || granted.Pods().IsZero() {
		t.Errorf("pods can use %v", a)
	}
	if a := (known{granted: granted, mapped: map[string]string{"demo": "demo-rome"}}).allocatable(); a.Pods().Value() != 110 {
		t.Errorf("with an offloaded namespace pods can use %v", a)
	}
}

func TestOnlyWhatBothSidesSayIsOffloaded(t *testing.T) {
	v := &offloadingv1beta1.VirtualNode{}
	v.Annotations = map[string]string{peering.AnnotationNamespaces: "demo,refused,other,late"}
	m := peering.NamespaceMap(render.Tenant{Remote: "milan"}, map[string]string{"demo": "demo-rome", "refused": "refused-rome", "other": "other-rome", "mine": "mine-rome", "late": "late-rome"})
	m.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{
		"demo": {RemoteNamespace: "demo-rome", Phase: offloadingv1beta1.MappingAccepted}, "refused": {RemoteNamespace: "refused-rome", Phase: offloadingv1beta1.MappingCreationLoopBackOff},
		"other": {RemoteNamespace: "kube-system", Phase: offloadingv1beta1.MappingAccepted}, "mine": {RemoteNamespace: "mine-rome", Phase: offloadingv1beta1.MappingAccepted},
	}
	if diff := cmp.Diff(map[string]string{"demo": "demo-rome", "refused": "", "other": "", "late": ""}, namespacesOf(v, mapped(nil, m))); diff != "" {
		t.Errorf("twins (-want +got):\n%s", diff)
	}
	if got := namespacesOf(&offloadingv1beta1.VirtualNode{}, mapped(nil, &offloadingv1beta1.NamespaceMap{})); len(got) > 0 {
		t.Errorf("of nothing: %v", got)
	}
}

func TestAMapThatIsMadeAgainTakesNothingAway(t *testing.T) {
	v := &offloadingv1beta1.VirtualNode{}
	v.Annotations = map[string]string{peering.AnnotationNamespaces: "demo"}
	asked := func(name string, phase offloadingv1beta1.MappingPhase) *offloadingv1beta1.NamespaceMap {
		m := peering.NamespaceMap(render.Tenant{Remote: "milan"}, map[string]string{"demo": name})
		if phase != "" {
			m.Status.CurrentMapping = map[string]offloadingv1beta1.RemoteNamespaceStatus{"demo": {RemoteNamespace: name, Phase: phase}}
		}
		return m
	}
	had := mapped(nil, asked("demo-rome", offloadingv1beta1.MappingAccepted))
	for name, c := range map[string]struct {
		before map[string]string
		now    *offloadingv1beta1.NamespaceMap
		want   string
		unsaid bool
	}{
		"as before":             {had, asked("demo-rome", offloadingv1beta1.MappingAccepted), "demo-rome", false},
		"made again":            {had, asked("demo-rome", ""), "demo-rome", false},
		"and the program, too":  {nil, asked("demo-rome", ""), "", true},
		"for another namespace": {had, asked("other", ""), "", true},
		"gone there":            {had, asked("demo-rome", offloadingv1beta1.MappingTerminating), "", false},
		"can't be made there":   {had, asked("demo-rome", offloadingv1beta1.MappingCreationLoopBackOff), "", false},
		"not wanted any more":   {had, peering.NamespaceMap(render.Tenant{Remote: "milan"}, nil), "", false},
	} {
		t.Run(name, func(t *testing.T) {
			got := namespacesOf(v, mapped(c.before, c.now))
			if got["demo"] != c.want || unsaid(got, c.now, false)["demo"] != c.unsaid {
				t.Errorf("got twin %q, unsaid %v, want %q, %v", got["demo"], unsaid(got, c.now, false), c.want, c.unsaid)
			}
		})
	}
	for lost, want := range map[bool]bool{true: true, false: false} {
		if got := unsaid(namespacesOf(v, nil), &offloadingv1beta1.NamespaceMap{}, lost)["demo"]; got != want {
			t.Errorf("there is no map, lost %t: got unsaid %t", lost, got)
		}
	}
}

func TestConditionsKeepTheirTime(t *testing.T) {
	start := time.Unix(1000, 0)
	k := known{granted: granted, tunnel: network.Tunnel{There: true}}
	first := k.conditions(nil, start)
	k.tunnel.Down = "silent"
	later := k.conditions(first, start.Add(time.Minute))
	if !later[0].LastTransitionTime.Time.Equal(start) || !later[1].LastTransitionTime.Time.Equal(start.Add(time.Minute)) || later[1].Status != corev1.ConditionTrue {
		t.Errorf("got %+v", later)
	}
	if !same(corev1.NodeStatus{Conditions: first}, corev1.NodeStatus{Conditions: (known{granted: granted, tunnel: network.Tunnel{There: true}}).conditions(first, start.Add(time.Minute))}) {
		t.Error("a heartbeat is taken for news")
	}
}

// kubeconfig returns a kubeconfig as the operator writes it, with additional parts that have to be ignored.
func kubeconfig(t *testing.T, server string, until time.Time) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: until.Add(-time.Hour), NotAfter: until}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(map[string]any{
		"clusters": []any{map[string]any{"name": "milan", "cluster": map[string]any{"server": server, "certificate-authority": "/etc/passwd"}}},
		"users": []any{map[string]any{"name": "x", "user": map[string]any{
			"client-certificate-data": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
			"client-key-data":         pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
			"exec":                    map[string]any{"command": "/bin/false"}, "tokenFile": "/etc/passwd",
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestAProviderAnswers(t *testing.T) {
	code := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/livez" || r.Header.Get("Authorization") != "" {
			t.Errorf("asked for %s with %v", r.URL, r.Header)
		}
		w.WriteHeader(code)
	}))
	defer s.Close()
	now := time.Now()
	p, err := newProvider(kubeconfig(t, s.URL, now.Add(time.Hour)), nil)
	if err != nil {
		t.Fatal(err)
	}
	for answer, want := range map[int]string{
		http.StatusOK: "", http.StatusForbidden: "", http.StatusUnauthorized: "does not know this cluster's certificate", http.StatusInternalServerError: "says 500",
	} {
		code = answer
		if got := fmt.Sprint(p.ask(t.Context(), now)); !strings.Contains(got, want) || want == "" && got != "<nil>" {
			t.Errorf("%d: got %s", answer, got)
		}
	}
	if got := fmt.Sprint(p.ask(t.Context(), now.Add(2*time.Hour))); !strings.Contains(got, "has expired on") {
		t.Errorf("after its life: got %s", got)
	}
	late, cancel := context.WithDeadline(t.Context(), now.Add(-time.Second))
	defer cancel()
	if got := fmt.Sprint(p.ask(late, now)); !strings.HasSuffix(got, "does not answer: not in time") {
		t.Errorf("too late: got %s", got)
	}
	s.Close()
	if got := fmt.Sprint(p.ask(t.Context(), now)); !strings.HasSuffix(got, "does not answer: connect: connection refused") {
		t.Errorf("away: got %s", got)
	}
	for _, wrong := range []string{"", "x", "clusters: []", "clusters: [{}]\nusers: [{}]"} {
		if _, err := newProvider([]byte(wrong), nil); err == nil {
			t.Errorf("%q is taken for a kubeconfig", wrong)
		}
	}
}
