package shortcuts

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/render"
)

// hub has a connection with each of connected, and only knows the ranges of the others.
func hub(connected, known []render.ClusterID) flows.ClusterFacts {
	f := flows.ClusterFacts{ID: "rome"}
	of := func(id render.ClusterID) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: string(id), Namespace: render.TenantNamespaceName(id), Labels: map[string]string{render.LabelRemoteCluster: string(id)}}
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
	ids := map[string]render.ClusterID{"r": "rome", "m": "milan", "m2": "milan", "n": "napoli", "t": "turin", "b": "bari", "bare": ""}
	look := func(_ context.Context, c flows.ContextRef) (flows.ClusterFacts, error) {
		if id, ok := ids[c.Name]; ok {
			return flows.ClusterFacts{ID: id}, nil
		}
		return flows.ClusterFacts{}, errors.New("connection refused")
	}
	for name, c := range map[string]struct {
		connected, known []render.ClusterID
		contexts         []string
		want             []string
		notes            []string
		unknown          bool // a peer may have a context all the same
	}{
		"two":                            {[]render.ClusterID{"milan", "napoli"}, nil, []string{"r", "m", "m2", "n"}, []string{"m n"}, nil, false},
		"three, and one that is no peer": {[]render.ClusterID{"turin", "milan", "napoli"}, nil, []string{"b", "t", "n", "m", "bare"}, []string{"m n", "m t", "n t"}, nil, false},
		"one without a context": {
			[]render.ClusterID{"milan", "napoli", "turin"},
			nil,
			[]string{"m", "n", "gone"},
			[]string{"m n"},
			[]string{"context gone was not looked at: connection refused", "turin is left out"},
			true,
		},
		"a context of nobody that does not answer": {[]render.ClusterID{"milan", "napoli"}, nil, []string{"m", "n", "gone"}, []string{"m n"}, []string{"context gone was not looked at"}, false},
		"one that is not connected yet":            {[]render.ClusterID{"milan"}, []render.ClusterID{"napoli"}, []string{"m", "n"}, nil, []string{"no two peers of rome"}, false},
		"nobody":                                   {nil, nil, []string{"m", "n"}, nil, []string{"no two peers of rome"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var refs []flows.ContextRef
			for _, name := range c.contexts {
				refs = append(refs, flows.ContextRef{Name: name})
			}
			pairs, notes, err := Pairs(t.Context(), hub(c.connected, c.known), refs, look)
			var got []string
			for _, p := range pairs {
				got = append(got, p[0].Name+" "+p[1].Name)
			}
			if !slices.Equal(got, c.want) || !slices.EqualFunc(notes, c.notes, strings.HasPrefix) || (err != nil) != c.unknown {
				t.Errorf("got %q, %q and %v, want %q, %q and an error: %t", got, notes, err, c.want, c.notes, c.unknown)
			}
		})
	}
}
