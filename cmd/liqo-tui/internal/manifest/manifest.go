// Package manifest writes a plan as files for another tool to apply.
package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/render"
)

// The formats.
const (
	YAML      = "yaml"
	Kustomize = "kustomize"
	ArgoCD    = "argocd"
)

// Of is what a plan wants on a side, with a sentence for each object that it
// can't know yet.
func Of(p flows.Plan, side flows.Side) (objects []render.Object, missing []string) {
	for _, o := range p.Wants(side) {
		o = o.DeepCopyObject().(render.Object)
		o.SetOwnerReferences(nil) // by UIDs, which are of one cluster's objects
		o.SetAnnotations(nil)     // requests to the operator, which are of one moment
		objects = append(objects, o)
	}
	for _, s := range p.Steps {
		if s.Side == side && s.Object.Name != "" && s.Status != flows.Done && len(s.Want) == 0 {
			why := s.Title + ": " + s.Reason
			if s.Object.Kind == "GatewayClient" {
				why += "; or give --client-address and --client-port"
			}
			missing = append(missing, why)
		}
	}
	return objects, missing
}

// waves are the order in which Argo CD applies kinds; others go first.
var waves = map[string]string{"Configuration": "1", "GatewayServer": "2", "GatewayClient": "2", "PublicKey": "3"}

// Files are what is written for one side, in one of the formats. The same facts give the same bytes.
func Files(format string, objects []render.Object, peer render.ClusterID, missing []string) (map[string][]byte, error) {
	if format == ArgoCD {
		for _, o := range objects {
			if wave, ok := waves[o.GetObjectKind().GroupVersionKind().Kind]; ok {
				o.SetAnnotations(map[string]string{"argocd.argoproj.io/sync-wave": wave})
			}
		}
	}
	text, err := render.YAML(objects...)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	for _, m := range missing {
		fmt.Fprintf(&b, "# left out: %s\n", m)
	}
	b.Write(text)
	name := "peering-" + string(peer) + ".yaml"
	files := map[string][]byte{name: b.Bytes()}
	if format == Kustomize {
		text, err := yaml.Marshal(map[string]any{
			"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": []string{name},
		})
		if err != nil {
			return nil, err
		}
		files["kustomization.yaml"] = text
	}
	return files, nil
}

// Write writes into folder. A kustomization that is there already lists
// this peering too, besides others'.
func Write(folder string, files map[string][]byte) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return exit.UsageError{Err: fmt.Errorf("--export: %w", err)}
	}
	for name, text := range files {
		path := filepath.Join(folder, name)
		if name == "kustomization.yaml" {
			var err error
			if text, err = mergeKustomization(path, text); err != nil {
				return exit.UsageError{Err: fmt.Errorf("--export: %w", err)}
			}
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return exit.UsageError{Err: fmt.Errorf("--export: %w", err)}
		}
	}
	return nil
}

func mergeKustomization(path string, text []byte) ([]byte, error) {
	old, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return text, nil
	}
	if err != nil {
		return nil, err
	}
	var have, want struct {
		Resources []string `json:"resources"`
	}
	if err := errors.Join(yaml.Unmarshal(old, &have), yaml.Unmarshal(text, &want)); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, resource := range want.Resources {
		found := false
		for _, r := range have.Resources {
			found = found || r == resource
		}
		if !found {
			old = []byte(strings.Replace(string(old), "resources:\n", "resources:\n- "+resource+"\n", 1))
		}
	}
	return old, nil
}
