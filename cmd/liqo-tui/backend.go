package main

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/config"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/flows/install"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/kube"
	"github.com/liqo-tui/liqo-tui/kube/kubeconfig"
	"github.com/liqo-tui/liqo-tui/tui"
)

// backend opens the clusters for the terminal program.
type backend struct {
	// files are the kubeconfigs on the command line; nil for kubectl's own rules.
	files []string
	// flags has, for single contexts, the other flags of the command line, such as another user or
	// another namespace of Liqo.
	flags map[flows.ContextRef]clusterFlags
	// others has the flags for all other contexts.
	others command.Instead
	offer  install.Offer // for clusters without an operator
}

// newBackend finds the contexts that the command line names for A and B. A zero value means that
// the admin will choose the context.
func newBackend(o *pairFlags) (b *backend, refs [2]flows.ContextRef, err error) {
	b = &backend{offer: install.Offer{Image: o.image}, flags: map[flows.ContextRef]clusterFlags{}, others: o.others}
	b.others.RequestTimeout = cmp.Or(o.others.RequestTimeout, o.local.RequestTimeout)
	for side, c := range []clusterFlags{o.local, o.remote} {
		for _, file := range c.files {
			if !slices.Contains(b.files, file) {
				b.files = append(b.files, file)
			}
		}
		if c.context == "" && (o.local.kubeconfig == "" || o.remote.kubeconfig == "") {
			// One file is a list of contexts to choose from. Of two files, the current contexts are
			// chosen.
			if c.Cluster != "" || c.User != "" || c.As != "" || c.AsUID != "" || len(c.AsGroups) > 0 {
				return nil, refs, exit.UsageError{Err: fmt.Errorf("another cluster or user applies to one context: name this context with --%scontext", [...]string{"", "remote-"}[side])}
			}
			continue
		}
		if refs[side], err = b.resolve(c); err != nil {
			return nil, refs, err
		}
		c.image = o.image
		b.flags[refs[side]] = c
	}
	return b, refs, nil
}

// resolve returns a context in the form that the list of contexts has.
func (b *backend) resolve(c clusterFlags) (flows.ContextRef, error) {
	ref := flows.ContextRef{File: c.kubeconfig, Name: c.context}
	cluster, err := c.open()
	if err != nil {
		return ref, err
	}
	cluster.Close()
	if ref.Name != "" {
		return ref, nil
	}
	var files []string
	if c.kubeconfig != "" {
		files = []string{c.kubeconfig}
	}
	contexts, _ := kubeconfig.Contexts(files)
	if i := slices.IndexFunc(contexts, func(c kubeconfig.Context) bool { return c.Current }); i >= 0 {
		ref = contexts[i].Ref
	}
	return ref, nil
}

// Contexts implements [tui.Backend].
func (b *backend) Contexts(added []string) ([]tui.Context, []error) {
	found, wrong := kubeconfig.Contexts(b.files)
	for _, file := range added {
		more, problems := kubeconfig.Contexts([]string{config.ExpandHome(file)})
		found, wrong = append(found, more...), append(wrong, problems...)
	}
	var contexts []tui.Context
	for _, c := range found {
		if slices.ContainsFunc(contexts, func(known tui.Context) bool { return known.Ref == c.Ref }) {
			continue // it is in another file that we read
		}
		problem := ""
		if c.Problem != nil {
			problem = c.Problem.Error()
		}
		contexts = append(contexts, tui.Context{Ref: c.Ref, File: c.File, Server: c.Server, User: c.User, Current: c.Current, Problem: problem})
	}
	var problems []error
	for _, p := range wrong {
		problems = append(problems, p)
	}
	return contexts, problems
}

// Open implements [tui.Backend].
func (b *backend) Open(ref flows.ContextRef) (engine.Cluster, error) {
	c := b.cluster(ref)
	cluster, err := c.open()
	if err != nil {
		return nil, err
	}
	return cluster, nil
}

func (b *backend) cluster(ref flows.ContextRef) clusterFlags {
	c, ok := b.flags[ref]
	if !ok {
		c.namespace, c.Instead = wire.DefaultNamespace, b.others
	}
	c.kubeconfig, c.context, c.lending = ref.File, ref.Name, kube.LendingOffered
	return c
}
