package engine_test

import (
	"testing"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
)

// A gateway works before the kubelet has reported its pod, and the nodes learn from that report
// where the gateway is: until then pods get "network is unreachable".
func TestAConnectionIsNotMadeBeforeThePodIsReported(t *testing.T) {
	p := flowtest.NewPair()
	flowtest.MustRun(t, p, flowtest.Connect(flowtest.NodePort()))
	facts := flowtest.Facts(p)
	if got := flows.NewConnection(flowtest.NodePort(), facts).Connected(flows.B).Status; got != flows.Done {
		t.Fatalf("got %v of a connection that works, want it done", got)
	}
	for i := range facts.Sides[flows.B].Pods {
		facts.Sides[flows.B].Pods[i].Ready = false
	}
	if got := flows.NewConnection(flowtest.NodePort(), facts).Connected(flows.B).Status; got != flows.Waiting {
		t.Errorf("got %v while the pod is not reported, want it to wait", got)
	}
}
