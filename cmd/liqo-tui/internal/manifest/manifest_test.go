package manifest

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Without it the server would wait to be dialled, and the client would dial the relay.
func TestExportedServersKeepTheirRelay(t *testing.T) {
	const relay = "relay.example:51840"
	p := flowtest.NodePort()
	p.ServiceType, p.Relay = "ClusterIP", relay
	plan := flows.PlanConnect(p, flowtest.Facts(flowtest.NewPair()))
	for _, format := range []string{YAML, ArgoCD} {
		objects, missing := Of(plan, p.Server)
		files, err := Files(format, objects, "rome", missing)
		if err != nil {
			t.Fatal(err)
		}
		if text := files["peering-rome.yaml"]; !bytes.Contains(text, []byte(wire.AnnotationRelay+": "+relay)) {
			t.Errorf("%s: no relay in\n%s", format, text)
		}
	}
}

func TestKustomizationsKeepWhatTheirAuthorsWrote(t *testing.T) {
	const added = "peering-milan.yaml"
	for name, c := range map[string]struct{ before, after string }{
		"indented":      {"resources:\n  - a.yaml\n  - b.yaml\n", "resources:\n  - peering-milan.yaml\n  - a.yaml\n  - b.yaml\n"},
		"not indented":  {"resources:\n- a.yaml\nnamespace: x\n", "resources:\n- peering-milan.yaml\n- a.yaml\nnamespace: x\n"},
		"in brackets":   {"resources: [a.yaml] # ours\n", "resources: [peering-milan.yaml, a.yaml] # ours\n"},
		"empty":         {"resources: []\n", "resources: [peering-milan.yaml]\n"},
		"without value": {"resources: # ours\nnamespace: x\n", "resources: # ours\n- peering-milan.yaml\nnamespace: x\n"},
		"a comment":     {"resources: # ours\n- a.yaml\n", "resources: # ours\n- peering-milan.yaml\n- a.yaml\n"},
		"Windows":       {"resources:\r\n- a.yaml\r\n", "resources:\r\n- peering-milan.yaml\r\n- a.yaml\r\n"},
		"no list":       {"namespace: x\n", "namespace: x\nresources:\n- peering-milan.yaml\n"},
		"no end":        {"namespace: x", "namespace: x\nresources:\n- peering-milan.yaml\n"},
		"there already": {"resources: [./peering-milan.yaml]\n", "resources: [./peering-milan.yaml]\n"},
	} {
		path := filepath.Join(t.TempDir(), "kustomization.yaml")
		if err := os.WriteFile(path, []byte(c.before), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := mergeKustomization(path, []byte("resources:\n- "+added+"\n"))
		if err != nil || string(out) != c.after {
			t.Errorf("%s: got %q, %v; want %q", name, out, err, c.after)
		}
		var have resources
		if err := yaml.Unmarshal(out, &have); err != nil || !slices.ContainsFunc(have.Resources, func(r string) bool { return filepath.Clean(r) == added }) {
			t.Errorf("%s: %q has resources %q, %v", name, out, have.Resources, err)
		}
	}
	// What is not understood stays as it is, and nothing else is written.
	folder := t.TempDir()
	const strange = "{namespace: x}\n"
	if err := os.WriteFile(filepath.Join(folder, kustomization), []byte(strange), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := Files(Kustomize, nil, "milan", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(folder, files); err == nil || !strings.Contains(err.Error(), "add "+added+" to its resources yourself") {
		t.Errorf("got %v, want what to do", err)
	}
	if all, err := os.ReadDir(folder); err != nil || len(all) != 1 {
		t.Errorf("got files %v, %v; want only the one that was there", all, err)
	}
	if text, err := os.ReadFile(filepath.Join(folder, kustomization)); err != nil || string(text) != strange {
		t.Errorf("got %q, %v", text, err)
	}
}
