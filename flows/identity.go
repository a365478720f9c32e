package flows

import (
	"bytes"
	"fmt"
	"maps"

	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/liqo-tui/liqo-tui/internal/command"
	"github.com/liqo-tui/liqo-tui/internal/wire"
)

// UID is the UID of the peer's namespace kube-system, which identifies the cluster; "" if it was
// not stored. The cluster ID is only a name, and another cluster may have the same.
func (p End) UID() string {
	if p.Configuration == nil {
		return ""
	}
	return p.Configuration.Annotations[wire.AnnotationPeerUID]
}

// Identity is the UID that identifies the cluster to its peers; "" if it may not be read.
func (c ClusterFacts) Identity() string {
	if c.UIDStandsIn {
		return ""
	}
	return c.UID
}

// Strangers returns a failed step for each side that is connected with a third cluster which has
// the other side's ID.
func Strangers(f Facts) (steps []Step) {
	for _, side := range []Side{A, B} {
		if why := f.stranger(side); why != "" {
			steps = append(steps, Refuse(side, CodePeer, "identity of the peer", FailedConflict, why, f.strangerFix(side)...))
		}
	}
	return steps
}

// replaces returns the sentences of [Strangers] for a plan that replaces the peers.
func replaces(strangers []Step) []string {
	var out []string
	for _, s := range strangers {
		out = append(out, s.Reason)
	}
	return out
}

// stranger returns the reason that this side is connected with another cluster than the other side;
// "" if it is not, or if this is unknown.
func (f Facts) stranger(side Side) string {
	me, other := f.Sides[side], f.Sides[side.Other()]
	if other.Identity() == "" || other.ID == "" {
		return ""
	}
	end := me.End(other.ID)
	switch was := end.UID(); {
	case was == other.UID:
		return ""
	case was != "":
		return fmt.Sprintf("%s knows %s as the cluster with UID %s, and %s leads to the one with UID %s", me.ID, other.ID, was, f.sourceName(side.Other()), other.UID)
	}
	return f.unlikePeer(side)
}

// unlikePeer is stranger for a connection without a stored UID of the peer. If the tunnel works
// although the other side has no gateway for it, or one with another key, then the tunnel leads to
// a third cluster.
func (f Facts) unlikePeer(side Side) string {
	me, other := f.Sides[side], f.Sides[side.Other()]
	mine, theirs := me.End(other.ID), other.End(me.ID)
	reading := mine.Reading()
	state, _ := reading.State(f.At)
	switch {
	case !state.Works():
		return ""
	case theirs.Server == nil && theirs.Client == nil && theirs.Configuration == nil && theirs.Namespace == nil:
		return fmt.Sprintf("%s is connected with a cluster %s, and %s, with UID %s, has nothing for it", me.ID, other.ID, f.sourceName(side.Other()), other.UID)
	case reading.Answered(f.At) && theirs.Key != nil && !mine.knows(*theirs.Key):
		return fmt.Sprintf("%s is connected with a cluster %s that has another key than the gateway of %s, with UID %s", me.ID, other.ID, f.sourceName(side.Other()), other.UID)
	}
	return ""
}

// knows reports whether the key is the present or the next key that the cluster has for its peer's
// gateway. It is also true if the cluster has no key of the peer.
func (p End) knows(key wgtypes.Key) bool {
	if p.PublicKey == nil {
		return true
	}
	return bytes.Equal(p.PublicKey.Spec.PublicKey, key[:]) || p.PublicKey.Annotations[wire.AnnotationNextPublicKey] == key.String()
}

// sourceName returns the admin's name for the source of a side's facts: the context or the file.
func (f Facts) sourceName(side Side) string {
	if c := f.Sides[side]; !c.Described {
		return "context " + c.Context.String()
	}
	return "the file"
}

func (f Facts) strangerFix(side Side) []command.Hint {
	peer, other := f.Sides[side.Other()].ID, command.Hintf("choose the context of the cluster that %s is connected with", f.Sides[side].ID)
	again := command.Hintf("%s", f.Ours("network", "connect").Add("--replace-peer"))
	if f.Sides[B].Described {
		other, again = command.Text("ask the other admin whether it is the same cluster"), command.Text("give the same command with --replace-peer")
	}
	return []command.Hint{
		other,
		command.Hintf("if this is another cluster, install it with another ID than %s", peer),
		command.Hintf("if it takes the place of the former %s, which loses its connection: %s", peer, again),
	}
}

// identify writes the peer's UID into a Configuration. If the peer's UID can't be read, the stored
// UID stays.
func (c Connection) identify(side Side, want wire.Object) (interrupts string) {
	uid := c.Facts.Sides[side.Other()].Identity()
	if uid == "" {
		keepAnnotation(want, c.Ends[side].Configuration, wire.AnnotationPeerUID)
		return ""
	}
	annotations := maps.Clone(want.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[wire.AnnotationPeerUID] = uid
	want.SetAnnotations(annotations)
	if why := c.Facts.stranger(side); why != "" {
		return fmt.Sprintf("%s; the former %s loses its connection", why, c.Facts.Sides[side.Other()].ID)
	}
	return ""
}
