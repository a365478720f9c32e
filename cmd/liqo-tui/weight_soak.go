//go:build soak

package main

// A build with the tag soak weighs itself.
import _ "github.com/liqo-tui/liqo-tui/internal/weight"
