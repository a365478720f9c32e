package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

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
	return usageError{fmt.Errorf("--format %q: want yaml, kustomize or argocd", e.format)}
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
	f, err := engine.Observe(ctx, a, b, time.Now)
	if err != nil {
		return err
	}
	p := plan(f)
	if s := p.Failure(); s != nil {
		return &flows.StepError{Step: *s, Cluster: p.ID(s.Side)}
	}
	for _, side := range []flows.Side{flows.A, flows.B} {
		objects, missing := manifests(p.Params, f, side)
		files, err := e.files(objects, f.Side(side.Other()).ID, missing)
		if err != nil {
			return err
		}
		folder := filepath.Join(e.folder, string(f.Side(side).ID))
		if err := writeFiles(folder, files); err != nil {
			return err
		}
		fmt.Fprintf(io.out, "%s %s: %s\n", side, f.Side(side).ID, folder)
		for _, m := range missing {
			fmt.Fprintf(io.out, "  left out: %s\n", m)
		}
	}
	_, err = fmt.Fprintln(io.out, "next: apply each folder on its cluster; then the same command again, or liqo-tui network connect, adds what is known by then")
	return err
}

// manifests are the objects that a side needs for the connection, as far as
// they can be known, with a sentence for each that can't.
func manifests(p flows.Params, f flows.Facts, side flows.Side) (objects []render.Object, missing []string) {
	c, other := f.Side(side), f.Side(side.Other())
	peer, opposite := c.Peer(other.ID), other.Peer(c.ID)
	tenant := peer.Tenant
	if ns := p.Namespaces[side]; ns != "" {
		tenant.Namespace = ns
	}
	// A namespace that was there for something else is not ours to label. One of
	// the peering's stays in the manifests: what is taken out of them, GitOps deletes.
	if live := c.FindNamespace(tenant.Namespace); live == nil || live.Labels[render.LabelRemoteCluster] == string(other.ID) {
		objects = append(objects, render.TenantNamespace(tenant))
	}
	objects = append(objects, render.Configuration(tenant, other.Networks))
	if side == p.Server {
		template := p.ServerTemplate
		template.Namespace = cmp.Or(template.Namespace, c.Namespace)
		objects = append(objects, render.GatewayServer(render.ServerParams{
			Tenant: tenant, Template: template, ServiceType: p.ServiceType, Port: p.Port,
			NodePort: p.NodePort, LoadBalancerIP: p.LoadBalancerIP, MTU: p.MTU,
		}))
	} else if addresses, port := endpoint(p, opposite); len(addresses) > 0 && port != 0 {
		template := p.ClientTemplate
		template.Namespace = cmp.Or(template.Namespace, c.Namespace)
		objects = append(objects, render.GatewayClient(render.ClientParams{Tenant: tenant, Template: template, Addresses: addresses, Port: port, MTU: p.MTU}))
	} else {
		missing = append(missing, fmt.Sprintf("GatewayClient %s, because where %s's gateway server can be reached is known only once it exists; or give --client-address and --client-port", other.ID, other.ID))
	}
	if opposite.Key != nil {
		objects = append(objects, render.PublicKey(tenant, *opposite.Key, nil))
	} else {
		missing = append(missing, fmt.Sprintf("PublicKey %s, because %s makes its gateway's keys only once the gateway exists", other.ID, other.ID))
	}
	return objects, missing
}

// endpoint is where the client will find the server, as far as that is known.
func endpoint(p flows.Params, server flows.Peer) (addresses []string, port uint16) {
	if s := server.Server; s != nil && s.Status.Endpoint != nil {
		addresses, port = s.Status.Endpoint.Addresses, uint16(s.Status.Endpoint.Port)
	}
	if p.ClientAddress != "" {
		addresses = []string{p.ClientAddress}
	}
	return addresses, cmp.Or(p.ClientPort, port, p.NodePort)
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
		return usageError{fmt.Errorf("--export: %w", err)}
	}
	for name, text := range files {
		path := filepath.Join(folder, name)
		if name == "kustomization.yaml" {
			var err error
			if text, err = mergeKustomization(path, text); err != nil {
				return usageError{fmt.Errorf("--export: %w", err)}
			}
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			return usageError{fmt.Errorf("--export: %w", err)}
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
