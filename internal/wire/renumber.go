package wire

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/internal/ipam"
)

// How a cluster comes to see a peer under another range, while packets flow: an
// admin's program asks for it by annotations of the Configuration. The operator makes
// a second Network, and names both ranges in [AnnotationAlso]. Once nodes and gateway
// have both, it changes the Configuration's status. The former range is kept for a
// while.
const (
	// AnnotationRenumber on a Configuration are ranges under which the peer is to be
	// seen no longer, with commas between them. Asking for one that it does not have
	// any more changes nothing.
	AnnotationRenumber = "liqo-tui.dev/renumber"
	// AnnotationKeep on a Configuration is how long the former ranges are to work
	// after the change, as Go writes durations.
	AnnotationKeep = "liqo-tui.dev/keep-former"
	// AnnotationAlso are the former and the next ranges, while there are both: on a
	// Configuration as SEEN=REAL, on an InternalFabric and on an InternalNode as SEEN
	// only, with commas between them. On an InternalNode it means that the node has
	// the ways.
	AnnotationAlso = "liqo-tui.dev/also"
	// AnnotationLeft on a Network is when the peer was seen under another range
	// instead, by the operator's clock (RFC 3339).
	AnnotationLeft = "liqo-tui.dev/left"
)

// Conditions of a Configuration, which has them only where they are true.
const (
	// ConditionOverlap: the cluster needs addresses in the peer's ranges. The message
	// lists [Overlap]s.
	ConditionOverlap = "liqo-tui.dev/Overlap"
	// ConditionRenumbering: the peer has two ranges. The message says what comes next,
	// the reason is one of those below.
	ConditionRenumbering = "liqo-tui.dev/Renumbering"
)

// Reasons of these conditions.
const (
	ReasonNeeded        = "AddressesNeeded" // of an overlap
	ReasonPreparing     = "Preparing"       // nodes or the gateway lack the next range
	ReasonFormerKept    = "FormerKept"      // the next range is in use, and the former still works
	ReasonNotRenumbered = "NotRenumbered"   // there is no other range, or the request can't be read
)

// Renumbering is what an admin asks for.
type Renumbering struct {
	Leave []netip.Prefix
	Keep  time.Duration // how long the former ranges work after the change
}

// Annotations are those that ask for it.
func (r Renumbering) Annotations() map[string]string {
	return map[string]string{AnnotationRenumber: Joined(r.Leave), AnnotationKeep: r.Keep.String()}
}

// ParseRenumbering reads what was asked for; without Leave, nothing was.
func ParseRenumbering(conf metav1.Object) (r Renumbering, err error) {
	if r.Leave, err = parsed(conf, AnnotationRenumber, netip.ParsePrefix); err != nil {
		return Renumbering{}, err
	}
	if text := conf.GetAnnotations()[AnnotationKeep]; text != "" {
		if r.Keep, err = time.ParseDuration(text); err != nil {
			return Renumbering{}, fmt.Errorf("annotation %s: %w", AnnotationKeep, err)
		}
	}
	return r, nil
}

// Alias is a range of a peer, and one under which the cluster reaches it.
type Alias struct{ Seen, Real netip.Prefix }

func (a Alias) String() string { return a.Seen.String() + "=" + a.Real.String() }

// JoinAliases is the value of a Configuration's [AnnotationAlso].
func JoinAliases(all []Alias) string { return Joined(all) }

// ParseAliases reads a Configuration's [AnnotationAlso].
func ParseAliases(conf metav1.Object) ([]Alias, error) {
	return parsed(conf, AnnotationAlso, func(text string) (Alias, error) {
		seen, is, _ := strings.Cut(text, "=")
		a, errSeen := netip.ParsePrefix(seen)
		b, errReal := netip.ParsePrefix(is)
		return Alias{a, b}, errors.Join(errSeen, errReal)
	})
}

// Also reads an InternalFabric's or an InternalNode's [AnnotationAlso].
func Also(o metav1.Object) ([]netip.Prefix, error) {
	return parsed(o, AnnotationAlso, netip.ParsePrefix)
}

// Overlap is a range of a peer, as the cluster sees it, and what else is there.
type Overlap struct {
	Range netip.Prefix
	With  ipam.Reservation
}

const overlaps = " overlaps "

func (o Overlap) String() string { return o.Range.String() + overlaps + o.With.String() }

const betweenOverlaps = "; "

// mostOverlaps are listed of each range: a network may have come with hundreds of nodes.
const mostOverlaps = 5

// JoinOverlaps is the message of a [ConditionOverlap]: of each range the widest, and
// how many there are besides.
func JoinOverlaps(all []Overlap) string {
	slices.SortStableFunc(all, func(a, b Overlap) int {
		return strings.Compare(fmt.Sprintf("%v %02d %v", a.Range, a.With.Prefix.Bits(), a.With), fmt.Sprintf("%v %02d %v", b.Range, b.With.Prefix.Bits(), b.With))
	})
	var text []string
	for i, o := range all {
		switch same := i - slices.IndexFunc(all, func(p Overlap) bool { return p.Range == o.Range }); {
		case same < mostOverlaps:
			text = append(text, o.String())
		case i+1 == len(all) || all[i+1].Range != o.Range:
			text = append(text, fmt.Sprintf("%s and %d more", o.Range, same-mostOverlaps+1))
		}
	}
	return strings.Join(text, betweenOverlaps)
}

// Overlaps reads a Configuration's [ConditionOverlap]. What only counts more of them
// is left out.
func Overlaps(conf *networkingv1beta1.Configuration) []Overlap {
	c := meta.FindStatusCondition(conf.Status.Conditions, ConditionOverlap)
	if c == nil || c.Status != metav1.ConditionTrue {
		return nil
	}
	var out []Overlap
	for text := range strings.SplitSeq(c.Message, betweenOverlaps) {
		seen, rest, found := strings.Cut(text, overlaps)
		with, reason, _ := strings.Cut(rest, ", ")
		a, err := netip.ParsePrefix(seen)
		b, err2 := netip.ParsePrefix(with)
		if found && err == nil && err2 == nil {
			out = append(out, Overlap{a, ipam.Reservation{Prefix: b, Reason: reason}})
		}
	}
	return out
}
