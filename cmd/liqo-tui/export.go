package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/manifest"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
)

// exportFlags are the flags to write a connection as manifests for another
// tool.
type exportFlags struct{ folder, format string }

func (e exportFlags) validate() error {
	switch e.format {
	case manifest.YAML, manifest.Kustomize, manifest.ArgoCD:
		return nil
	}
	return exit.UsageError{Err: fmt.Errorf("--format %q: want yaml, kustomize or argocd", e.format)}
}

// run observes both clusters and writes the manifests. It applies nothing.
func (e exportFlags) run(ctx context.Context, io streams, pair *pairFlags, c *connectFlags) error {
	if err := e.validate(); err != nil {
		return err
	}
	goal, err := c.goal()
	if err != nil {
		return err
	}
	a, b, closeBoth, err := pair.openFor(false)
	if err != nil {
		return err
	}
	defer closeBoth()
	seen, err := engine.Look(ctx, goal, a, b)
	if err != nil {
		return err
	}
	p := seen.Plan
	for _, side := range []flows.Side{flows.A, flows.B} {
		objects, missing := manifest.Of(p, side)
		files, err := manifest.Files(e.format, objects, p.ID(side.Other()), missing)
		if err != nil {
			return err
		}
		folder := filepath.Join(e.folder, string(p.ID(side)))
		if err := manifest.Write(folder, files); err != nil {
			return err
		}
		fmt.Fprintf(io.out, "%s: %s\n", p.ID(side), folder)
		for _, m := range missing {
			fmt.Fprintf(io.out, "  left out: %s\n", m)
		}
	}
	_, err = fmt.Fprintln(io.out, "next: apply each folder on its cluster; then the same command again, or liqo-tui network connect, adds what is known by then")
	return err
}
