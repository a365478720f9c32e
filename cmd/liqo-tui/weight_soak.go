//go:build soak

package main

// A build with the tag soak measures its own growth.
import _ "github.com/liqo-tui/liqo-tui/internal/weight"
