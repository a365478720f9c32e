package main

import (
	"errors"
	"slices"
	"strings"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows/engine"
	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

func (p *pairFlags) command(words ...string) command.Command {
	return command.Ours(words...).On(p.local.where(), p.remote.where())
}

func (c clusterFlags) command(words ...string) command.Command {
	return command.Ours(words...).On(c.where())
}

// where returns the flags that choose the cluster, without defaults.
func (c clusterFlags) where() command.Cluster {
	out := command.Cluster{Kubeconfigs: c.files, Context: c.context, Instead: c.Instead, Namespace: c.namespace}
	if len(c.files) == 0 && c.kubeconfig != "" {
		out.Kubeconfigs = []string{c.kubeconfig}
	}
	if c.namespace == wire.DefaultNamespace {
		out.Namespace = ""
	}
	return out
}

// afterwards returns the next steps after a failed run, if a command helps.
func afterwards(io streams, pair *pairFlags, err error) []report.NextStep {
	if errors.Is(err, engine.ErrDeclined) || len(io.args) == 0 {
		return nil
	}
	switch code := exit.Code(err); {
	case code == exit.Pending:
		applied := slices.DeleteFunc(slices.Clone(io.args), func(a string) bool { return strings.HasPrefix(a, "--dry-run") })
		return []report.NextStep{{Command: command.Ours(applied...), Why: "applies it"}}
	case code == exit.Apply, code == exit.Timeout, code == exit.Unreachable, code > exit.Signal:
		return []report.NextStep{{Command: command.Ours(io.args...), Why: "continues"}}
	case code == exit.Unhealthy:
		return []report.NextStep{{Command: pair.command("check"), Why: "finds what is broken"}}
	}
	return nil
}

// inSession runs work in a session, see [report.Session.Run].
func inSession(io streams, format, command string, pair *pairFlags, work func(*report.Session) error) error {
	s := &report.Session{Out: io.out, Err: io.err, Format: format, Afterwards: func(err error) []report.NextStep { return afterwards(io, pair, err) }}
	return s.Run(command, pair.local.options().Context, pair.remote.options().Context, work)
}
