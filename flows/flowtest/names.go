package flowtest

import "github.com/liqo-tui/liqo-tui/flows/simulated"

type (
	// Pair is two simulated clusters.
	Pair = simulated.Pair
	// Cluster is one of the two clusters.
	Cluster = simulated.Cluster
	// Behaviour describes deviations of a cluster from the usual behaviour.
	Behaviour = simulated.Behaviour
	// Lending describes such deviations of the cluster's Liqo.
	Lending = simulated.Lending
	// Window is a range of calls.
	Window = simulated.Window
)

// Constants of package simulated.
const (
	Forever    = simulated.Forever
	Manual     = simulated.Manual
	PerObserve = simulated.PerObserve
	TickLength = simulated.TickLength
)

// Functions of package simulated.
var (
	Epoch     = simulated.Epoch
	Forbidden = simulated.Forbidden
	LiqoPair  = simulated.LiqoPair
	NewPair   = simulated.NewPair
)
