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

// During a renumbering, the cluster begins to see a peer under another range, without an interruption. The
// admin's program requests this by annotations of the Configuration. The operator makes a second Network, and
// writes both ranges into [AnnotationAlso]. When nodes and gateway have both, the operator changes the
// Configuration's status. The former range is kept for a while.
const (
	// AnnotationRenumber on a Configuration lists the peer's ranges that have to be replaced, with commas
	// between them. A range that the peer no longer has changes nothing.
	AnnotationRenumber = "liqo-tui.dev/renumber"
	// AnnotationKeep on a Configuration is the time for which the former ranges still work after the change,
	// as a duration in Go's format.
	AnnotationKeep = "liqo-tui.dev/keep-former"
	// AnnotationAlso lists the former and the next ranges during a renumbering, with commas between them. On
	// a Configuration, the items are SEEN=REAL. On an InternalFabric and an InternalNode, they are only SEEN.
	// On an InternalNode, they are the ranges to which the node has routes.
	AnnotationAlso = "liqo-tui.dev/also"
	// AnnotationLeft on a Network is the time when another range replaced this one, by
	// the operator's clock (RFC 3339).
	AnnotationLeft = "liqo-tui.dev/left"
)

// ReasonNoFreeRange is the reason of a Configuration's condition NetworkCIDRsConfigured: no pool has a
// free range for the peer.
const ReasonNoFreeRange = "NoFreeRange"

// Conditions of a Configuration. Only conditions that are true are present.
const (
	// ConditionOverlap means that the cluster needs addresses in the peer's ranges. The message lists
	// [Overlap]s.
	ConditionOverlap = "liqo-tui.dev/Overlap"
	// ConditionRenumbering means that the peer has two ranges. The message is about the next step. The reason
	// is [ReasonPreparing], [ReasonFormerKept] or [ReasonNotRenumbered].
	ConditionRenumbering = "liqo-tui.dev/Renumbering"
)

// Reasons of these conditions.
const (
	ReasonNeeded        = "AddressesNeeded" // of an overlap
	ReasonPreparing     = "Preparing"       // nodes or the gateway lack the next range
	ReasonFormerKept    = "FormerKept"      // the next range is in use, and the former still works
	ReasonNotRenumbered = "NotRenumbered"   // there is no other range, or the request can't be read
)

// Renumbering is an admin's request to replace ranges of a peer.
type Renumbering struct {
	Leave []netip.Prefix // the ranges to replace
	Keep  time.Duration  // the time for which the former ranges work after the change
}

// Annotations returns the Configuration's annotations for this request.
func (r Renumbering) Annotations() map[string]string {
	return map[string]string{AnnotationRenumber: Joined(r.Leave), AnnotationKeep: r.Keep.String()}
}

// ParseRenumbering reads the request from a Configuration. If Leave is empty, there is no
// request.
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

// Alias is a range of a peer (Real) and the range under which the cluster sees it (Seen).
type Alias struct{ Seen, Real netip.Prefix }

func (a Alias) String() string { return a.Seen.String() + "=" + a.Real.String() }

// JoinAliases returns the value of a Configuration's [AnnotationAlso].
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

// Overlap is a peer's range, as the cluster sees it, and another use of the same addresses.
type Overlap struct {
	Range netip.Prefix
	With  ipam.Reservation
}

const overlaps = " overlaps "

func (o Overlap) String() string { return o.Range.String() + overlaps + o.With.String() }

const betweenOverlaps = "; "

// mostOverlaps is the largest number of listed overlaps for each range, because one network can appear with
// hundreds of nodes.
const mostOverlaps = 5

// JoinOverlaps returns the message of a [ConditionOverlap]. It contains the widest overlaps of each range,
// and the number of the others.
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

// Overlaps reads the overlaps in the message of a Configuration's [ConditionOverlap], without those that are
// only counted there.
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
