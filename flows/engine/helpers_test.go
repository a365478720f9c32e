package engine_test

import (
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/liqo-tui/liqo-tui/flows"
)

func disconnect(f flows.Facts) flows.Plan { return flows.PlanDisconnect(flows.RemoveOptions{}, f) }

func diff(a, b any) string { return cmp.Diff(a, b, cmpopts.EquateEmpty()) }
