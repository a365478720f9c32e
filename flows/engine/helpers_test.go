package engine_test

import (
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/liqo-tui/liqo-tui/flows"
	"github.com/liqo-tui/liqo-tui/flows/flowtest"
)

// Shared with the tests of plans.
var (
	nodePort  = flowtest.NodePort
	connect   = flowtest.Connect
	reset     = flowtest.Reset
	factsOf   = flowtest.Facts
	run       = flowtest.Run
	mustRun   = flowtest.MustRun
	partWay   = flowtest.PartWay
	connected = flowtest.Connected
	but       = flowtest.But
	nothing   = flowtest.Nothing
	pending   = flowtest.Pending
)

func disconnect(f flows.Facts) flows.Plan { return flows.PlanDisconnect(flows.RemoveOptions{}, f) }

func diff(a, b any) string { return cmp.Diff(a, b, cmpopts.EquateEmpty()) }
