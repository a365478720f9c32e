package wire

import (
	"testing"

	networkingv1beta1 "github.com/liqotech/liqo/apis/networking/v1beta1"
)

func TestWhatAGatewayHasToAllowIsReadOrClosed(t *testing.T) {
	for text, want := range map[string]Allow{"all": AllowAll, "exported": AllowExported, "none": AllowNone, "": AllowNone, "All": AllowNone, "some": AllowNone} {
		var g networkingv1beta1.GatewayServer
		g.Annotations = map[string]string{AnnotationAllow: text}
		got, err := AllowOf(&g)
		if got != want || (err == nil) != (got.String() == text) {
			t.Errorf("%q: got %s, %v, want %s", text, got, err, want)
		}
	}
	if got, err := AllowOf(&networkingv1beta1.GatewayServer{}); got != AllowAll || err != nil {
		t.Errorf("without an annotation: got %s, %v, want all", got, err)
	}
}
