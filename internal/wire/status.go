package wire

import (
	"encoding/json"
	"fmt"
	"time"
)

// OperatorStatus is what the operator says of itself. It is stored as JSON in
// [AnnotationOperatorStatus] of its Deployment. Fields are only ever added.
type OperatorStatus struct {
	State OperatorState `json:"state"`
	// Message is one sentence for people: why, and what to do.
	Message string `json:"message"`
	// Since is when the operator began to say this, by the clock of its node.
	Since time.Time `json:"since"`
}

// OperatorState is one word for machines.
type OperatorState string

// The states of an operator.
const (
	OperatorWorking    OperatorState = "Working"
	OperatorRefusing   OperatorState = "Refusing"   // Liqo's controller-manager runs on the cluster
	OperatorNoNetworks OperatorState = "NoNetworks" // nothing says which addresses pods or Services have
)

// ParseOperatorStatus reads the status from the annotations of the operator's
// Deployment. Before the operator has said anything, ok is false.
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
