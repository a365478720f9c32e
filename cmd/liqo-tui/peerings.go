package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/pairsfile"
	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/report"
	"github.com/liqo-tui/liqo-tui/flows"
)

// peering is one connection of a file of many: the flags of network connect.
type peering struct {
	pair    *pairFlags
	connect *connectFlags
}

func (p peering) String() string {
	return fmt.Sprintf("%s and %s", p.pair.local.options().Context, p.pair.remote.options().Context)
}

// newPeering is a peering with the flags that are the keys of its file.
func newPeering() (peering, *pflag.FlagSet, func() error) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	p := peering{pair: &pairFlags{}, connect: newConnectFlags()}
	p.pair.local.add(f, "", "the local cluster (A)")
	p.pair.remote.add(f, "remote-", "the remote cluster (B)")
	p.connect.add(f, nil)
	p.connect.addInstall(f)
	return p, f, func() error {
		_, _, err := p.connect.parse()
		if p.pair.remote.context == "" && len(p.pair.remote.files) == 0 {
			err = errors.Join(err, errNoRemote)
		}
		return err
	}
}

// connectMany connects one pair after the other, and goes on after a failure:
// what one pair lacks is no reason for the others to wait. The error, and with
// it the exit code, is that of the first that failed; changes that a dry run
// would make are no failure.
func connectMany(ctx context.Context, io streams, file string, given *pflag.FlagSet, r runFlags) error {
	all, err := pairsfile.Read(file, given, newPeering)
	if err != nil {
		return err
	}
	if r.output != report.Text {
		return exit.UsageError{Err: fmt.Errorf("--output %s: of many peerings there is text only; run them one by one for programs", r.output)}
	}
	var first error
	failed, pending := 0, 0
	for i, p := range all {
		fmt.Fprintf(io.err, "\n%d of %d: %s\n", i+1, len(all), p)
		op := operation{
			name: "connect",
			plan: p.connect.plan,
			done: func(f flows.Facts) report.Achieved { return connected(p.pair, p.connect.params.Wait, f) },
		}
		err := op.run(ctx, io, p.pair, r)
		if ctx.Err() != nil {
			return err
		}
		if err == nil {
			continue
		}
		if exit.Code(err) == exit.Pending {
			pending++
			continue
		}
		failed++
		if first == nil {
			first = err
		}
		if _, said := errors.AsType[exit.Verdict](err); !said {
			fmt.Fprintf(io.err, "error: %s: %v\n", p, err)
			if h := exit.Hint(err); h != "" {
				fmt.Fprintln(io.err, "hint:", h)
			}
		}
	}
	switch {
	case first == nil && pending > 0:
		fmt.Fprintf(io.err, "\n%d of %d peerings would be changed\n", pending, len(all))
		return exit.Verdict(exit.Pending)
	case first == nil:
		return nil
	}
	fmt.Fprintf(io.err, "\n%d of %d peerings are not connected; the same command goes on with them\n", failed, len(all))
	return exit.Verdict(exit.Code(first))
}

// peeringsSchema is the JSON Schema of the file of network connect -f.
func peeringsSchema() map[string]any {
	_, flags, _ := newPeering()
	return pairsfile.Schema(flags)
}
