// Package manifest writes a plan as files that another tool applies.
package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/render/apply"
)

// The formats.
const (
	YAML      = "yaml"
	Kustomize = "kustomize"
	ArgoCD    = "argocd"
)

// Of returns the objects that a plan wants on a side, and a sentence for each object that is still
// unknown.
func Of(p flows.Plan, side flows.Side) (objects []wire.Object, missing []string) {
	for _, o := range p.Wants(side) {
		o = o.DeepCopyObject().(wire.Object)
		o.SetOwnerReferences(nil) // they contain UIDs, which differ in other clusters
		// The other annotations are requests to the operator that are made once.
		o.SetAnnotations(wire.Lasting(o))
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

const kustomization = "kustomization.yaml"

// waves has the numbers by which Argo CD orders kinds. Other kinds come first.
var waves = map[string]string{"Configuration": "1", "GatewayServer": "2", "GatewayClient": "2", "PublicKey": "3"}

// Files returns the files for one side, in one of the formats. The same facts give the same bytes.
func Files(format string, objects []wire.Object, peer wire.ClusterID, missing []string) (map[string][]byte, error) {
	if format == ArgoCD {
		for _, o := range objects {
			if wave, ok := waves[o.GetObjectKind().GroupVersionKind().Kind]; ok {
				annotations := wire.Lasting(o)
				annotations["argocd.argoproj.io/sync-wave"] = wave
				o.SetAnnotations(annotations)
			}
		}
	}
	text, err := apply.YAML(objects...)
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
		files[kustomization] = text
	}
	return files, nil
}

// Write writes the files into folder. It adds this connection to an existing kustomization.
func Write(folder string, files map[string][]byte) error {
	if err := write(folder, maps.Clone(files)); err != nil {
		return exit.UsageError{Err: fmt.Errorf("--export: %w", err)}
	}
	return nil
}

func write(folder string, files map[string][]byte) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if text, ok := files[kustomization]; ok {
		text, err := mergeKustomization(filepath.Join(folder, kustomization), text)
		if err != nil {
			return err // nothing was written yet
		}
		files[kustomization] = text
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// resources is the part of a kustomization that this package changes.
type resources struct {
	Resources []string `json:"resources"`
}

// mergeKustomization returns the file at path with the resources of text in addition to its own.
func mergeKustomization(path string, text []byte) ([]byte, error) {
	old, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return text, nil
	}
	if err != nil {
		return nil, err
	}
	var have, want resources
	if err := errors.Join(yaml.Unmarshal(old, &have), yaml.Unmarshal(text, &want)); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	for _, resource := range want.Resources {
		if slices.ContainsFunc(have.Resources, func(r string) bool { return filepath.Clean(r) == resource }) {
			continue
		}
		old = addResource(old, resource)
		have.Resources = append(have.Resources, resource)
		// This package does not know all ways in which YAML can write a list, so the result is
		// checked.
		var now resources
		if err := yaml.Unmarshal(old, &now); err != nil || !sameSet(now.Resources, have.Resources) {
			return nil, fmt.Errorf("%s: add %s to its resources yourself: their notation is not understood", path, resource)
		}
	}
	return old, nil
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// addResource adds a resource to the list. The rest of the text stays as its author wrote it.
func addResource(text []byte, resource string) []byte {
	newline := "\n"
	if bytes.Contains(text, []byte("\r\n")) {
		newline = "\r\n"
	}
	lines := strings.Split(string(text), "\n")
	insert := func(at int, line string) []byte { // at counts from 0
		lines = slices.Insert(lines, at, strings.TrimSuffix(line+newline, "\n"))
		return []byte(strings.Join(lines, "\n"))
	}
	switch key, list := resourcesIn(text); {
	case list == nil:
		if last := lines[len(lines)-1]; last != "" {
			lines = append(lines, "")
		}
		return insert(len(lines)-1, "resources:"+newline+"- "+resource)
	case list.Kind == yamlv3.SequenceNode && list.Style&yamlv3.FlowStyle != 0:
		line := []rune(lines[list.Line-1])
		if len(list.Content) > 0 {
			resource += ", "
		}
		lines[list.Line-1] = string(slices.Insert(line, list.Column, []rune(resource)...)) // after the bracket
		return []byte(strings.Join(lines, "\n"))
	case list.Kind == yamlv3.SequenceNode:
		return insert(list.Line-1, strings.Repeat(" ", list.Column-1)+"- "+resource)
	default: // the list is empty
		return insert(key.Line, "- "+resource)
	}
}

// resourcesIn returns the key and the value of the list of resources; nil if there is none.
func resourcesIn(text []byte) (key, list *yamlv3.Node) {
	var document yamlv3.Node
	if err := yamlv3.Unmarshal(text, &document); err != nil || len(document.Content) == 0 {
		return nil, nil
	}
	fields := document.Content[0].Content
	for i := 0; i+1 < len(fields); i += 2 {
		if fields[i].Value == "resources" {
			return fields[i], fields[i+1]
		}
	}
	return nil, nil
}
