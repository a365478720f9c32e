package main

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/cmd/liqo-tui/internal/exit"
	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/wire"
	"github.com/liqo-tui/liqo-tui/kube/kubeconfig"
)

// hub has a connection with each of connected, and only knows the ranges of the others.
func hub(connected, known []wire.ClusterID) flows.ClusterFacts {
	f := flows.ClusterFacts{ID: "rome"}
	of := func(id wire.ClusterID) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: string(id), Namespace: wire.TenantNamespaceName(id), Labels: map[string]string{wire.LabelRemoteCluster: string(id)}}
	}
	for _, id := range connected {
		f.Connections = append(f.Connections, networkingv1beta1.Connection{ObjectMeta: of(id)})
	}
	for _, id := range known {
		f.Configurations = append(f.Configurations, networkingv1beta1.Configuration{ObjectMeta: of(id)})
	}
	return f
}

func TestPairsOfPeers(t *testing.T) {
	ids := map[string]wire.ClusterID{"r": "rome", "m": "milan", "m2": "milan", "n": "napoli", "t": "turin", "b": "bari", "bare": ""}
	look := func(_ context.Context, c flows.ContextRef) (flows.ClusterFacts, error) {
		if id, ok := ids[c.Name]; ok {
			return flows.ClusterFacts{ID: id}, nil
		}
		return flows.ClusterFacts{}, errors.New("connection refused")
	}
	for name, c := range map[string]struct {
		connected, known []wire.ClusterID
		contexts         []string
		want             []string
		notes            []string
		unknown          bool // a peer may have a context all the same
	}{
		"two":                            {[]wire.ClusterID{"milan", "napoli"}, nil, []string{"r", "m", "m2", "n"}, []string{"m n"}, nil, false},
		"three, and one that is no peer": {[]wire.ClusterID{"turin", "milan", "napoli"}, nil, []string{"b", "t", "n", "m", "bare"}, []string{"m n", "m t", "n t"}, nil, false},
		"one without a context": {
			[]wire.ClusterID{"milan", "napoli", "turin"},
			nil,
			[]string{"m", "n", "gone"},
			[]string{"m n"},
			[]string{"context gone was not looked at: connection refused", "turin is left out"},
			true,
		},
		"a context of nobody that does not answer": {[]wire.ClusterID{"milan", "napoli"}, nil, []string{"m", "n", "gone"}, []string{"m n"}, []string{"context gone was not looked at"}, false},
		"one that is not connected yet":            {[]wire.ClusterID{"milan"}, []wire.ClusterID{"napoli"}, []string{"m", "n"}, nil, []string{"no two peers of rome"}, false},
		"nobody":                                   {nil, nil, []string{"m", "n"}, nil, []string{"no two peers of rome"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var contexts []kubeconfig.Context
			for _, name := range c.contexts {
				contexts = append(contexts, kubeconfig.Context{Ref: flows.ContextRef{Name: name}})
			}
			found := findShortcuts(t.Context(), hub(c.connected, c.known), contexts, nil, look)
			var got []string
			for _, p := range found.Pairs {
				got = append(got, p[0].Name+" "+p[1].Name)
			}
			if !slices.Equal(got, c.want) || !slices.EqualFunc(found.Notes, c.notes, strings.HasPrefix) {
				t.Errorf("got %q and %q, want %q and %q", got, found.Notes, c.want, c.notes)
			}
			want := exit.OK
			if c.unknown {
				want = exit.Unreachable
			}
			if got := exit.Code(found.verdict()); got != want {
				t.Errorf("got exit code %d, want %d", got, want)
			}
		})
	}
}

// A file that can't be read may have the context that is missing.
func TestAFileThatCannotBeRead(t *testing.T) {
	found := findShortcuts(t.Context(), hub([]wire.ClusterID{"milan"}, nil), nil, []*kubeconfig.Error{{File: "b", Cause: errors.New("no YAML")}}, nil)
	if exit.Code(found.verdict()) != exit.Unreachable || !strings.Contains(found.Notes[0], "no YAML") {
		t.Errorf("got %+v", found)
	}
}

// Flags that chose the hub are of no pair.
func TestRowsChooseBothClusters(t *testing.T) {
	rows := foundShortcuts{Pairs: [][2]flows.ContextRef{{{Name: "m", File: "f"}, {Name: "n"}}}}.rows("liqo-2")
	want := map[string]string{
		"context": "m", "kubeconfig": "f", "liqo-namespace": "liqo-2",
		"remote-context": "n", "remote-liqo-namespace": "liqo-2",
	}
	if len(rows) != 1 || !maps.Equal(rows[0], want) {
		t.Errorf("got %v, want %v", rows, want)
	}
}
