package names_test

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aymanbagabas/go-udiff"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/flows/names"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// separator stands between the objects of a cluster's DNS and the verdict.
const separator = "\n----------\n"

var server, later = netip.MustParseAddr("10.96.0.53"), netip.MustParseAddr("10.96.7.7")

// Each file in testdata has the objects of one cluster's DNS, and what becomes of them.
func TestForward(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) < 30 {
		t.Fatalf("%d files: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			input, want, ok := strings.Cut(string(text), separator)
			if !ok {
				t.Fatalf("%s has no line ----------", file)
			}
			before := parse(t, input)
			v := names.Forward(before, server)
			after := apply(before, v.Changes)
			if d := cmp.Diff(parse(t, input), before); d != "" {
				t.Errorf("the facts were changed:\n%s", d)
			}
			if got := describe(t, v) + udiff.Unified("before", "after", dump(t, before), dump(t, after)); got != want {
				if os.Getenv("UPDATE") == "" {
					t.Errorf("%s (-want +got; UPDATE=1 rewrites it):\n%s", file, cmp.Diff(want, got))
				} else if err := os.WriteFile(file, []byte(input+separator+got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			reversible(t, before, after, v)
		})
	}
}

// reversible looks at what comes after a change.
func reversible(t *testing.T, before, after []*unstructured.Unstructured, v names.Verdict) {
	if (v.Refusal == "") != (v.Advice == "") || v.Refusal != "" && len(v.Changes)+len(v.Notes) > 0 {
		t.Errorf("refused and not refused: %+v", v)
	}
	if again := names.Forward(after, server); len(again.Changes)+len(again.Notes) > 0 {
		t.Errorf("a second run changes: %+v", again)
	}
	original := dump(t, before)
	if len(v.Changes) > 0 {
		if got := dump(t, apply(after, names.Withdraw(after, server).Changes)); got != original {
			t.Errorf("after a removal (-want +got):\n%s", cmp.Diff(original, got))
		}
		if got := dump(t, apply(after, names.Withdraw(after, netip.Addr{}).Changes)); got != original {
			t.Errorf("after a removal without the server's address (-want +got):\n%s", cmp.Diff(original, got))
		}
		moved := apply(after, names.Forward(after, later).Changes)
		if text := dump(t, moved); strings.Contains(text, server.String()) || !strings.Contains(text, later.String()) {
			t.Errorf("with another address of the server:\n%s", text)
		}
		if got := dump(t, apply(moved, names.Withdraw(moved, later).Changes)); got != original {
			t.Errorf("after a removal with another address (-want +got):\n%s", cmp.Diff(original, got))
		}
	}
	if got := names.Withdraw(before, later); len(got.Changes) > 0 {
		t.Errorf("a removal changes what is not ours: %+v", got.Changes)
	}
}

func TestABlockWithoutMarksIsOursIfItForwardsToOurServer(t *testing.T) {
	text, err := os.ReadFile("testdata/kubeadm-marks-dropped.txt")
	if err != nil {
		t.Fatal(err)
	}
	input, _, _ := strings.Cut(string(text), separator)
	before := parse(t, input)
	plain, err := os.ReadFile("testdata/kubeadm.txt")
	if err != nil {
		t.Fatal(err)
	}
	input, _, _ = strings.Cut(string(plain), separator)
	if d := cmp.Diff(dump(t, parse(t, input)), dump(t, apply(before, names.Withdraw(before, server).Changes))); d != "" {
		t.Errorf("after a removal (-want +got):\n%s", d)
	}
}

func TestTheAddOnOfEKSIsLeftToItsSetting(t *testing.T) {
	text, err := os.ReadFile("testdata/eks-add-on-set.txt")
	if err != nil {
		t.Fatal(err)
	}
	input, _, _ := strings.Cut(string(text), separator)
	if got := names.Withdraw(parse(t, input), server); len(got.Changes) > 0 || len(got.Notes) != 1 {
		t.Errorf("got %+v, want a note", got)
	}
}

// What an admin has written to a ConfigMap of ours stays.
func TestAMapOfOursStaysIfSomebodyElseUsesIt(t *testing.T) {
	text, err := os.ReadFile("testdata/k3s.txt")
	if err != nil {
		t.Fatal(err)
	}
	input, _, _ := strings.Cut(string(text), separator)
	facts := parse(t, input)
	facts = apply(facts, names.Forward(facts, server).Changes)
	custom := facts[len(facts)-1]
	if err := unstructured.SetNestedField(custom.Object, "corp.example {\n}\n", "data", "corp.server"); err != nil {
		t.Fatal(err)
	}
	facts = apply(facts, names.Withdraw(facts, server).Changes)
	data, _, _ := unstructured.NestedStringMap(facts[len(facts)-1].Object, "data")
	if d := cmp.Diff(map[string]string{"corp.server": "corp.example {\n}\n"}, data); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func FuzzCorefile(f *testing.F) {
	f.Add(".:53 {\n    kubernetes cluster.local\n}")
	f.Add("a b, c:1 {\n x {\n y \"z w\"\n }\n} # comment\nimport custom/*.server")
	f.Add("clusterset.local {\n}\n")
	f.Add("{\n{ } }")
	f.Fuzz(func(t *testing.T, text string) {
		coredns := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "coredns", "namespace": "kube-system"}, "data": map[string]any{"Corefile": text},
		}}
		facts := []*unstructured.Unstructured{coredns}
		v := names.Forward(facts, server)
		if len(v.Changes) == 0 {
			return
		}
		after := apply(facts, v.Changes)
		if again := names.Forward(after, server); len(again.Changes) > 0 || again.Refusal != "" {
			t.Errorf("a second run: %+v", again)
		}
		got, _, _ := unstructured.NestedString(apply(after, names.Withdraw(after, server).Changes)[0].Object, "data", "Corefile")
		if got != text {
			t.Errorf("after a removal: got %q, want %q", got, text)
		}
	})
}

func describe(t *testing.T, v names.Verdict) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "DNS: %s\n", v.DNS)
	for _, note := range v.Notes {
		fmt.Fprintf(&b, "note: %s\n", note)
	}
	if v.Refusal != "" {
		fmt.Fprintf(&b, "refused: %s\nhint: %s\n", v.Refusal, v.Advice)
	}
	return b.String()
}

func parse(t *testing.T, text string) (all []*unstructured.Unstructured) {
	t.Helper()
	for doc := range strings.SplitSeq(text, "---\n") {
		if strings.TrimSpace(doc) == "" {
			continue
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(doc), &o.Object); err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	return all
}

// apply makes the changes as an API server does.
func apply(facts []*unstructured.Unstructured, changes []names.Change) []*unstructured.Unstructured {
	var all []*unstructured.Unstructured
	for _, o := range facts {
		all = append(all, o.DeepCopy())
	}
	for _, c := range changes {
		want := c.Want()
		at := slices.IndexFunc(all, func(o *unstructured.Unstructured) bool {
			return o.GetKind() == want.GetKind() && o.GetName() == want.GetName()
		})
		switch {
		case at < 0:
			want.SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: wire.FieldManager}})
			all = append(all, want)
			continue
		case c.Gone:
			all = slices.Delete(all, at, at+1)
			continue
		case c.Value != nil:
			_ = unstructured.SetNestedField(all[at].Object, c.Value, c.Field...)
		default:
			unstructured.RemoveNestedField(all[at].Object, c.Field...)
			if parent, _, _ := unstructured.NestedMap(all[at].Object, c.Field[:len(c.Field)-1]...); len(parent) == 0 {
				unstructured.RemoveNestedField(all[at].Object, c.Field[:len(c.Field)-1]...)
			}
		}
		if c.Live == nil {
			panic("a change of an object that is there names none")
		}
		all[at].SetManagedFields(append(all[at].GetManagedFields(), metav1.ManagedFieldsEntry{Manager: wire.FieldManager}))
	}
	return all
}

// dump is the objects as YAML, without who has written them.
func dump(t *testing.T, objects []*unstructured.Unstructured) string {
	t.Helper()
	var b strings.Builder
	for _, o := range objects {
		o = o.DeepCopy()
		o.SetManagedFields(nil)
		text, err := yaml.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString("---\n" + string(text))
	}
	return b.String()
}
