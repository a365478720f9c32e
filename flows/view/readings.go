package view

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// Readings keeps the readings of all connections of one cluster between
// observations, so that only changed objects are read again. The zero value is
// ready to use.
type Readings struct {
	kept map[wire.ClusterID]keptReading
}

type keptReading struct {
	reading flows.Reading
	// The other fields are the sources of reading. versions has the versions of the
	// peer's objects.
	versions     [4]objectVersion
	pod, waiting string
	unreached    []string
	problems     []string      // of nodes
	ahead        time.Duration // how far the cluster's clock is ahead
	self         flows.Self
}

type objectVersion struct {
	uid     types.UID
	version string
}

// Update adds an observation. changed has the readings that differ from before.
// gone has the peers without any object. Both are sorted.
func (r *Readings) Update(f flows.ClusterFacts) (changed []flows.Reading, gone []wire.ClusterID) {
	if r.kept == nil {
		r.kept = map[wire.ClusterID]keptReading{}
	}
	peers := f.Peers()
	for id, p := range peers {
		versions, told := versions(p)
		next := keptReading{versions: versions, ahead: p.ClockAhead, self: p.Self, unreached: p.Unreached, problems: p.NodeProblems}
		next.waiting = p.NotMade
		if p.Pod != nil {
			next.pod, next.waiting = p.Pod.Name, p.Pod.Waiting
		}
		was, known := r.kept[id]
		if known && told && next.versions == was.versions && next.pod == was.pod && next.waiting == was.waiting && next.ahead == was.ahead && next.self == was.self && slices.Equal(next.unreached, was.unreached) && slices.Equal(next.problems, was.problems) {
			continue
		}
		next.reading = p.Reading()
		r.kept[id] = next
		if !known || next.reading != was.reading {
			changed = append(changed, next.reading)
		}
	}
	for id := range r.kept {
		if _, ok := peers[id]; !ok {
			delete(r.kept, id)
			gone = append(gone, id)
		}
	}
	slices.SortFunc(changed, func(a, b flows.Reading) int { return cmp.Compare(a.Peer, b.Peer) })
	slices.Sort(gone)
	return changed, gone
}

// versions returns the versions of the objects from which a reading is made. ok
// is false if an object has no version, because it was never on an API server.
func versions(p *flows.End) (all [4]objectVersion, ok bool) {
	ok = true
	set := func(i int, exists bool, o metav1.Object) {
		if exists {
			all[i] = objectVersion{o.GetUID(), o.GetResourceVersion()}
			ok = ok && all[i].version != ""
		}
	}
	set(0, p.Configuration != nil, p.Configuration)
	set(1, p.Server != nil, p.Server)
	set(2, p.Client != nil, p.Client)
	set(3, p.Connection != nil, p.Connection)
	return all, ok
}
