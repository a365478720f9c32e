package main

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/kube"
	"github.com/liqo-tui/liqo-tui/render"
	"github.com/liqo-tui/liqo-tui/tui"
)

// backend gives the terminal program its clusters.
type backend struct {
	// files are the kubeconfigs of the command line; nil for kubectl's own rules.
	files []string
	// flags are what the command line says of single clusters beyond their
	// context: another user, another namespace of Liqo.
	flags map[flows.ContextRef]clusterFlags
}

// newBackend finds the contexts that the command line names for A and B; the
// zero value stands for one that it leaves to the admin.
func newBackend(o *pairFlags) (b *backend, refs [2]flows.ContextRef, err error) {
	b = &backend{flags: map[flows.ContextRef]clusterFlags{}}
	for side, c := range []clusterFlags{o.local, o.remote} {
		if c.kubeconfig != "" {
			b.files = append(b.files, c.kubeconfig)
		}
		if c.kubeconfig == "" && c.context == "" {
			continue
		}
		if refs[side], err = b.resolve(c); err != nil {
			return nil, refs, err
		}
		b.flags[refs[side]] = c
	}
	slices.Sort(b.files)
	b.files = slices.Compact(b.files)
	return b, refs, nil
}

// resolve names the context with its file, as the list of contexts does.
func (b *backend) resolve(c clusterFlags) (flows.ContextRef, error) {
	files := kubeconfigFiles()
	if c.kubeconfig != "" {
		files = []string{c.kubeconfig}
	}
	var known []string
	for _, file := range files {
		raw, err := clientcmd.LoadFromFile(file)
		if err != nil {
			continue // Open says what is wrong with the one that is used
		}
		name := c.context
		if name == "" {
			name = raw.CurrentContext
		}
		if _, ok := raw.Contexts[name]; ok {
			return flows.ContextRef{File: file, Name: name}, nil
		}
		known = append(known, slices.Sorted(maps.Keys(raw.Contexts))...)
	}
	ref := flows.ContextRef{File: c.kubeconfig, Name: c.context}
	if len(known) == 0 && c.kubeconfig != "" {
		_, err := clientcmd.LoadFromFile(c.kubeconfig)
		if err != nil {
			return ref, usageError{fmt.Errorf("read kubeconfig: %w", err)}
		}
	}
	return ref, usageError{&kube.ContextError{Ref: ref, Known: known}}
}

// kubeconfigFiles are those that kubectl would read.
func kubeconfigFiles() []string {
	return clientcmd.NewDefaultClientConfigLoadingRules().GetLoadingPrecedence()
}

// Contexts implements [tui.Backend]. Every file is read on its own: merging
// them, as kubectl does, hides contexts of the same name.
func (b *backend) Contexts(added []string) ([]tui.Context, []tui.FileProblem) {
	var contexts []tui.Context
	var problems []tui.FileProblem
	ours := b.files
	if ours == nil {
		ours = kubeconfigFiles()
	}
	seen := map[string]bool{}
	for i, file := range append(slices.Clip(ours), added...) {
		file = expandHome(file)
		if seen[file] {
			continue
		}
		seen[file] = true
		raw, err := clientcmd.LoadFromFile(file)
		switch {
		case os.IsNotExist(err) && b.files == nil && i < len(ours):
			continue // kubectl's default files need not be there
		case err != nil:
			problems = append(problems, tui.FileProblem{File: file, Err: err})
			continue
		}
		contexts = append(contexts, contextsOf(file, raw)...)
	}
	return contexts, problems
}

func contextsOf(file string, raw *clientcmdapi.Config) []tui.Context {
	var contexts []tui.Context
	for _, name := range slices.Sorted(maps.Keys(raw.Contexts)) {
		c := tui.Context{Ref: flows.ContextRef{File: file, Name: name}}
		if cluster := raw.Clusters[raw.Contexts[name].Cluster]; cluster != nil {
			c.Server = cluster.Server
		}
		contexts = append(contexts, c)
	}
	return contexts
}

// expandHome is for paths that no shell has seen.
func expandHome(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return path
}

// Open implements [tui.Backend].
func (b *backend) Open(ref flows.ContextRef) (flows.Cluster, error) {
	c := b.cluster(ref)
	cluster, err := c.open()
	if err != nil {
		return nil, err
	}
	return cluster, nil
}

// cluster are the flags that choose a context.
func (b *backend) cluster(ref flows.ContextRef) clusterFlags {
	c, ok := b.flags[ref]
	if !ok {
		c.namespace = render.DefaultNamespace
	}
	c.kubeconfig, c.context = ref.File, ref.Name
	return c
}

// flagsOf are the flags as a person would give them: without the file where
// kubectl's rules find the context.
func (b *backend) flagsOf(ref flows.ContextRef) clusterFlags {
	c := b.cluster(ref)
	for _, file := range kubeconfigFiles() {
		raw, err := clientcmd.LoadFromFile(file)
		if err != nil {
			continue
		}
		if _, ok := raw.Contexts[ref.Name]; ok {
			if file == ref.File {
				c.kubeconfig = ""
			}
			break
		}
	}
	return c
}
