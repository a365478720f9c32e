package flows_test

import (
	"reflect"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/liqo-tui/liqo-tui/render"
)

// diff compares answers, too, whose fields are this package's own.
func diff(a, b any) string {
	return cmp.Diff(a, b, cmpopts.EquateEmpty(), cmp.Exporter(func(t reflect.Type) bool { return strings.HasPrefix(t.Name(), "Answer[") }))
}

func cidrs(text ...networkingv1beta1.CIDR) []networkingv1beta1.CIDR { return text }

// configuration is of generation 3, with a status; condition "" is none.
func configuration(pod, external []networkingv1beta1.CIDR, condition string, observed int64) *networkingv1beta1.Configuration {
	c := render.Configuration(render.Tenant{Namespace: "liqo-tenant-milan", Remote: "milan"},
		render.Networks{Pod: cidrs("10.244.0.0/16"), External: cidrs("10.70.0.0/16")})
	c.Generation = 3
	if pod != nil || external != nil {
		c.Status.Remote = &networkingv1beta1.ClusterConfig{CIDR: networkingv1beta1.ClusterConfigCIDR{Pod: pod, External: external}}
	}
	if condition != "" {
		c.Status.Conditions = []metav1.Condition{{
			Type:   networkingv1beta1.ConfigurationConditionNetworkCIDRsConfigured,
			Status: metav1.ConditionStatus(condition), ObservedGeneration: observed,
		}}
	}
	return c
}
