package wire

import (
	"encoding/json"
	"fmt"
	"time"
)

// OperatorStatus is the operator's report about itself. It is stored as JSON in
// [AnnotationOperatorStatus] of its Deployment. Fields are only ever added.
type OperatorStatus struct {
	State OperatorState `json:"state"`
	// Message is the reason, as one sentence for people.
	Message string `json:"message"`
	// Unstated lists the kinds of Networks whose ranges the installation has to state:
	// [NetworkPodCIDR], [NetworkServiceCIDR].
	Unstated []string `json:"unstated,omitempty"`
	// Since is when the operator first reported this State and Message, by its node's clock.
	Since time.Time `json:"since"`
}

// OperatorState is one word for programs.
type OperatorState string

// The states of an operator.
const (
	OperatorWorking    OperatorState = "Working"
	OperatorRefusing   OperatorState = "Refusing"   // Liqo's controller-manager runs on the cluster
	OperatorNoNetworks OperatorState = "NoNetworks" // the ranges of pods or of Services are not known
	OperatorKeepsRange OperatorState = "KeepsRange" // peers were told a range, and the installation states another one
)

// ParseOperatorStatus reads the status from the annotations of the operator's Deployment. ok
// is false before the operator's first report.
func ParseOperatorStatus(annotations map[string]string) (s OperatorStatus, ok bool, err error) {
	text, ok := annotations[AnnotationOperatorStatus]
	if !ok {
		return OperatorStatus{}, false, nil
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return OperatorStatus{}, false, fmt.Errorf("parse annotation %s: %w", AnnotationOperatorStatus, err)
	}
	return s, true, nil
}
