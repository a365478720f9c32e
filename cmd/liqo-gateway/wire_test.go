//go:build linux

package main

import (
	"log/slog"
	"testing"

	"github.com/liqo-tui/liqo-tui/internal/frozen"
)

// The operator and templates of another release start this program with these.
func TestCommandsOfTheGatewaysProgramStay(t *testing.T) {
	frozen.Compare(t, "liqo-gateway.txt", frozen.Section{Title: "Commands and flags of liqo-gateway", Lines: frozen.Commands(rootCommand(slog.Default()))})
}
