package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/render"
)

// exportFlags write a connection as manifests, for another tool to apply.
type exportFlags struct{ folder, format string }

// Values of --format.
const (
	exportYAML      = "yaml"
	exportKustomize = "kustomize"
	exportArgoCD    = "argocd"
)

func (e exportFlags) validate() error {
	switch e.format {
	case exportYAML, exportKustomize, exportArgoCD:
		return nil
	}
	return exit.UsageError{Err: fmt.Errorf("--format %q: want yaml, kustomize or argocd", e.format)}
}

// run looks at both clusters and writes the manifests. Nothing is applied.
func (e exportFlags) run(ctx context.Context, io streams, pair *pairFlags, c *connectFlags) error {
	if err := e.validate(); err != nil {
		return err
	}
	plan, err := c.plan()
	if err != nil {
		return err
	}
	a, b, closeBoth, err := pair.openFor(false)
	if err != nil {
		return err
	}
	defer closeBoth()
	p, err := engine.Look(ctx, plan, a, b)
	if err != nil {
		return err
	}
	for _, side := range []flows.Side{flows.A, flows.B} {
		objects, missing := manifests(p, side)
		files, err := e.files(objects, p.ID(side.Other()), missing)
		if err != nil {
			return err
		}
		folder := filepath.Join(e.folder, string(p.ID(side)))
		if err := writeFiles(folder, files); err != nil {
			return err
		}
		fmt.Fprintf(io.out, "%s %s: %s\n", side, p.ID(side), folder)
		for _, m := range missing {
			fmt.Fprintf(io.out, "  left out: %s\n", m)
		}
	}
	_, err = fmt.Fprintln(io.out, "next: apply each folder on its cluster; then the same command again, or liqo-tui network connect, adds what is known by then")
	return err
}

// manifests are what a plan wants on a side, with a sentence for each object that it
// can't know yet.
func manifests(p flows.Plan, side flows.Side) (objects []render.Object, missing []string) {
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

// files are what is written for one side. The same facts give the same bytes.
func (e exportFlags) files(objects []render.Object, peer render.ClusterID, missing []string) (map[string][]byte, error) {
	if e.format == exportArgoCD {
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
	if e.format == exportKustomize {
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

// writeFiles writes into folder. A kustomization that is there already lists
// this peering too, besides others'.
func writeFiles(folder string, files map[string][]byte) error {
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
