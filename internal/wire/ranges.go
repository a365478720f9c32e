package wire

import (
	"strings"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
)

// RangesText returns a cluster's ranges as an annotation contains them: the pod ranges, a semicolon, the
// external ranges. Commas separate the ranges.
func RangesText(c networkingv1beta1.ClusterConfigCIDR) string {
	return joinedCIDRs(c.Pod) + ";" + joinedCIDRs(c.External)
}

// ParseRanges reads a [RangesText]. It does not check that the parts are ranges.
func ParseRanges(text string) networkingv1beta1.ClusterConfigCIDR {
	pods, external, _ := strings.Cut(text, ";")
	return networkingv1beta1.ClusterConfigCIDR{Pod: splitCIDRs(pods), External: splitCIDRs(external)}
}

func joinedCIDRs(all []networkingv1beta1.CIDR) string {
	texts := make([]string, len(all))
	for i, c := range all {
		texts[i] = string(c)
	}
	return strings.Join(texts, ",")
}

func splitCIDRs(text string) (all []networkingv1beta1.CIDR) {
	for part := range strings.SplitSeq(text, ",") {
		if part != "" {
			all = append(all, networkingv1beta1.CIDR(part))
		}
	}
	return all
}
